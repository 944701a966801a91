// Firefox for the tests: `node firefox.mjs firefox-esr < steps.json` opens pages and uses them, step by step, by WebDriver BiDi. It
// prints JSON: the texts that the steps "read" return (`found`), and the messages in the console of the pages (`complaints`).
import { text } from "node:stream/consumers";
import puppeteer from "puppeteer-core";

const STEP_MILLISECONDS = 60_000; // the longest time that a step may take

const steps = JSON.parse(await text(process.stdin));
const browser = await puppeteer.launch({ browser: "firefox", executablePath: process.argv[2], headless: true });
try {
  const page = await browser.newPage();
  const found = [];
  const complaints = [];
  page.setDefaultTimeout(STEP_MILLISECONDS);
  await page.setViewport({ width: 1280, height: 1000 });
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  const take = {
    open: (address) => page.goto(address),
    hover: async (selector, place) => (await page.$$(selector))[place].hover(),
    click: async (selector, place) => (await page.$$(selector))[place].click(),
    // Replace the text of a field.
    type: async (selector, words) => {
      await page.$eval(selector, (field) => (field.focus(), field.select()));
      await page.keyboard.type(words);
    },
    // Wait until the first element has this text, or until there is an element.
    await: (selector, wanted) =>
      page.waitForFunction(
        (selector, wanted) => {
          const element = document.querySelector(selector);
          return element && (wanted === undefined || element.textContent === wanted);
        },
        {},
        selector,
        wanted,
      ),
    read: (selector) => page.$$eval(selector, (elements) => elements.map((element) => element.textContent)),
  };
  for (const [name, ...given] of steps) {
    const answer = await take[name](...given);
    if (name === "read") found.push(answer);
  }
  console.log(JSON.stringify({ found, complaints }));
} finally {
  await browser.close();
}
