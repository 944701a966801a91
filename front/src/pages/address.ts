// The part of the page's address after "#" says what is shown, so that a link restores it. For example:
// #kind=encoder&head=L3H1&query=7. Choices of the views are in the address, too; see state/linked-signals.ts.

import { batch, effect } from "@preact/signals";
import { linked } from "../state/linked-signals";
import { answered, type Question } from "../state/questions";
import { addressOfHead, chooseHead, colourScale, complaint, head, headNamed, kindName, layerNumber, locked, query, queryTokens, second, trace } from "../state/state";
import { browserLanguage, language, LANGUAGES, type Language, words } from "../words";
import { MOST_LINKED, propose, proposed, proposeSecond } from "./text-field";

const SCALES = ["absolute", "row", "log"] as const;
const OTHERS = ["kind", "head", "query", "locked", "scale", "language", "write", "continuation", "model", "text", "second-text"]; // parameters of the address that this file reads; the map `linked` has all others
const NAME = /^[a-z-]{1,20}$/; // the form of a parameter's name
const PAUSE_MILLISECONDS = 100; // the pause before the address changes: browsers block a page that changes it at each move of the pointer

/** Functions that read the parameters of an address. `text`: "" = the parameter is missing. `number`: null = the parameter is not a whole number below `end`. */
function parametersOf(address: string) {
  const wanted = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => wanted.get(name) ?? "";
  const number = (name: string, end: number) => (/^\d+$/.test(text(name)) && Number(text(name)) < end ? Number(text(name)) : null);
  return { has: (name: string) => wanted.has(name), text, number, names: [...wanted.keys()] };
}

function restoreHeadAndQuery(address: string): void {
  const { has, text, number } = parametersOf(address);
  if (Object.hasOwn(trace.value.kinds, text("kind"))) kindName.value = text("kind");
  const shown = headNamed(text("head"));
  if (shown) chooseHead(shown.layer, shown.head);
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
  const refused = names.filter((name) => !(linked.get(name)?.read(text(name)) ?? OTHERS.includes(name)));
  if (refused.length) complaint.value = words().linkIgnored(refused.map((name) => (NAME.test(name) ? name : "?")).join(", ")); // a link must not write its own sentences on the page
}

function address(): string {
  const shown = new URLSearchParams();
  if (Object.keys(trace.value.kinds).length > 1) shown.set("kind", kindName.value);
  shown.set("head", addressOfHead({ layer: layerNumber.value, head: head.value }));
  shown.set("query", query.value === null ? "all" : String(query.value));
  if (locked.value) shown.set("locked", "1");
  shown.set("scale", colourScale.value);
  if (language.value !== browserLanguage) shown.set("language", language.value);
  for (const [name, { write }] of linked) if (write()) shown.set(name, write());
  const { text, model, new_tokens: written, continuation }: Question & { model: string } = { ...trace.value, ...answered.value };
  if (trace.value.live && text.length <= MOST_LINKED) {
    if (written) shown.set("write", String(written));
    if (continuation?.length) shown.set("continuation", continuation.join(" "));
    shown.set("model", model);
    shown.set("text", text);
  }
  if (trace.value.live && second.value?.text && second.value.text.length <= MOST_LINKED) shown.set("second-text", second.value.text);
  return String(shown);
}

/** Show what the page's address names (the model reads its text first), and change the address whenever something else is shown. */
export function followAddress(): void {
  const first = location.hash;
  restore(first);
  const { text, number } = parametersOf(first);
  const continuation = /^\d+( \d+){0,511}$/.test(text("continuation")) ? text("continuation").split(" ").map(Number) : undefined;
  const question = { text: text("text"), model: text("model"), new_tokens: number("write", Infinity) ?? undefined, continuation };
  const showLinked = () => batch(() => restore(first));
  const secondText = text("second-text");
  propose(question, () => (showLinked(), proposeSecond(secondText, showLinked)));
  if (!proposed.value) proposeSecond(secondText, showLinked);
  // A page in a frame and the page around the frame (a course or a notebook) send each other their addresses, and so show the same head.
  let received = parent === window ? null : address(); // the address that was set by the page around the frame, at first or by its last message; it is not sent back
  if (parent !== window)
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
      if (parent !== window) parent.postMessage({ regard: shown }, "*");
      else if (location.hash === written) { // else the reader has just opened another link, which must not be overwritten
        history.replaceState(null, "", `#${shown}`);
        written = location.hash;
      }
    }, PAUSE_MILLISECONDS);
    return () => clearTimeout(timer);
  });
}
