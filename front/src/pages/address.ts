// The part of the page's address after "#" says what is shown, so that a link restores it. For example:
// #kind=encoder&head=L3H1&query=7. Choices of the views are in the address, too; see state/linked-signals.ts.

import { batch, effect } from "@preact/signals";
import { linked } from "../state/linked-signals";
import { answered, type Question } from "../state/questions";
import { addressOfHead, chooseHead, colourScale, complaint, head, headNamed, kindName, layerNumber, locked, query, queryTokens, second, trace } from "../state/state";
import { browserLanguage, language, LANGUAGES, type Language, words } from "../words";
import { MOST_LINKED, propose, proposed, proposeSecond } from "./text-field";

const SCALES = ["absolute", "row", "log"] as const;
const OWN_NAMES = ["kind", "head", "query", "locked", "scale", "language", "write", "continuation", "model", "text", "second-text"]; // parameters of the address that this file reads; the map `linked` has all others
const NAME = /^[a-z-]{1,20}$/; // the form of a parameter's name
const PAUSE_MILLISECONDS = 100; // the pause before the address changes: browsers block a page that changes it at each move of the pointer

/** Functions that read the parameters of an address. `text`: "" = the parameter is missing. `number`: null = the parameter is not a whole number below `end`. */
function parametersOf(address: string) {
  const parameters = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => parameters.get(name) ?? "";
  const number = (name: string, end: number) => (/^\d+$/.test(text(name)) && Number(text(name)) < end ? Number(text(name)) : null);
  return { has: (name: string) => parameters.has(name), text, number, names: [...parameters.keys()] };
}

function restoreHeadAndQuery(address: string): void {
  const { has, text, number } = parametersOf(address);
  if (Object.hasOwn(trace.value.kinds, text("kind"))) kindName.value = text("kind");
  const place = headNamed(text("head"));
  if (place) chooseHead(place.layer, place.head);
  const position = number("query", queryTokens.value.length);
  if (position !== null || text("query") === "all") query.value = position;
  locked.value = has("locked") && query.value !== null;
}

/** Show what an address names, except for the text, which the model must read first: see `followAddress`. */
function restore(address: string): void {
  restoreHeadAndQuery(address);
  const { text, names } = parametersOf(address);
  colourScale.value = SCALES.find((name) => name === text("scale")) ?? colourScale.value;
  language.value = (Object.keys(LANGUAGES) as Language[]).find((name) => name === text("language")) ?? language.value;
  const ignored = names.filter((name) => !(linked.get(name)?.read(text(name)) ?? OWN_NAMES.includes(name)));
  const safeNames = ignored.map((name) => (NAME.test(name) ? name : "?")); // a link must not write its own sentences on the page
  if (ignored.length) complaint.value = words().linkIgnored(safeNames.join(", "));
}

function address(): string {
  const parameters = new URLSearchParams();
  if (Object.keys(trace.value.kinds).length > 1) parameters.set("kind", kindName.value);
  parameters.set("head", addressOfHead({ layer: layerNumber.value, head: head.value }));
  parameters.set("query", query.value === null ? "all" : String(query.value));
  if (locked.value) parameters.set("locked", "1");
  parameters.set("scale", colourScale.value);
  if (language.value !== browserLanguage) parameters.set("language", language.value);
  for (const [name, { write }] of linked) if (write()) parameters.set(name, write());
  const { text, model, new_tokens: nNewTokens, continuation }: Question & { model: string } = { ...trace.value, ...answered.value };
  if (trace.value.live && text.length <= MOST_LINKED) {
    if (nNewTokens) parameters.set("write", String(nNewTokens));
    if (continuation?.length) parameters.set("continuation", continuation.join(" "));
    parameters.set("model", model);
    parameters.set("text", text);
  }
  const secondText = second.value?.text;
  if (trace.value.live && secondText && secondText.length <= MOST_LINKED) parameters.set("second-text", secondText);
  return String(parameters);
}

/** Show what the page's address names (the model reads its text first), and change the address whenever something else is shown. */
export function followAddress(): void {
  const openedAddress = location.hash;
  restore(openedAddress);
  const { text, number } = parametersOf(openedAddress);
  const hasContinuation = /^\d+( \d+){0,511}$/.test(text("continuation"));
  const continuation = hasContinuation ? text("continuation").split(" ").map(Number) : undefined;
  const question = { text: text("text"), model: text("model"), new_tokens: number("write", Infinity) ?? undefined, continuation };
  const showLinked = () => batch(() => restore(openedAddress));
  const readSecond = () => proposeSecond(text("second-text"), showLinked);
  propose(question, () => {
    showLinked();
    readSecond();
  });
  if (!proposed.value) readSecond();
  // A page in a frame and the page around the frame (a course or a notebook) send each other their addresses, and so show the same head.
  const isFramed = parent !== window;
  let received = isFramed ? address() : null; // the address that was set by the page around the frame, at first or by its last message; it is not sent back
  if (isFramed)
    addEventListener("message", ({ source, data }) => {
      if (source !== parent || typeof data?.regard !== "string") return;
      batch(() => {
        restoreHeadAndQuery(data.regard);
        received = address();
      });
    });
  else addEventListener("hashchange", () => location.reload()); // the reader has opened another link to this page: load the page again
  let written = location.hash;
  effect(() => {
    const shown = address();
    if (proposed.value || shown === received) return; // `proposed`: the address stays until the model has read the text of the link that opened the page
    received = null;
    const timer = setTimeout(() => {
      if (isFramed) parent.postMessage({ regard: shown }, "*");
      else if (location.hash === written) { // else the reader has just opened another link, which must not be overwritten
        history.replaceState(null, "", `#${shown}`);
        written = location.hash;
      }
    }, PAUSE_MILLISECONDS);
    return () => clearTimeout(timer);
  });
}
