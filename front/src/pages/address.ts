// The part of the page's address after "#" says what is shown, so that a link restores it. For example:
// #kind=encoder&head=L3H1&query=7. Choices of the views are in the address, too; see state/linked-signals.ts.

import { batch, effect } from "@preact/signals";
import { linked } from "../state/linked-signals";
import { answered, type Question } from "../state/questions";
import { candidate, chooseHead, colourScale, compared, complaint, cut, head, type HeadPlace, keptUnit, key, keyTokens, kindName, layerNumber, layerOf, locked, query, queryTokens, second, silenced, trace } from "../state/state";
import type { Side } from "../trace/data";
import { browserLanguage, language, LANGUAGES, type Language, words } from "../words";
import { MOST_LINKED, propose, proposed, proposeSecond } from "./text-field";

const SCALES = ["absolute", "row", "log"] as const;
const OTHERS = ["kind", "head", "query", "locked", "compared", "scale", "language", "candidate", "kept", "cut", "silenced", "key", "write", "continuation", "model", "text", "second-text"]; // the parameters that are in no linked signal
const NAME = /^[a-z-]{1,20}$/; // of a parameter
const PAUSE_MILLISECONDS = 100; // the address changes after the page has shown the same for this long: browsers block pages that change it at each move of the pointer
const MOST_COMPARED = 16; // of the heads that the reader compares, a link restores at most this many

const nameOf = ({ layer, head }: HeadPlace) => `L${layer}${head === null ? "average" : `H${head}`}`;

/** The head with a name such as "L3H1" or "L3average"; null if there is no such layer. */
function headNamed(name: string): HeadPlace | null {
  const [, layer, which] = name.match(/^L(\d+)(?:H(\d+)|average)$/) ?? [];
  if (!layer || layerOf(Number(layer)).layer !== Number(layer)) return null;
  return { layer: Number(layer), head: which === undefined ? null : Math.min(Number(which), layerOf(Number(layer)).heads - 1) };
}

/**
 * Return functions that read a parameter of an address by its name. `text` returns "" if the parameter is missing; `number`
 * returns null unless it is a whole number below `end`.
 */
function parametersOf(address: string) {
  const wanted = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => wanted.get(name) ?? "";
  const number = (name: string, end: number) => (/^\d+$/.test(text(name)) && Number(text(name)) < end ? Number(text(name)) : null);
  return { has: (name: string) => wanted.has(name), text, number, names: [...wanted.keys()] };
}

/** Show the head and the token that an address names. */
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
  const { has, text, number, names } = parametersOf(address);
  if (has("compared")) {
    const names = [...new Set(text("compared").split(" "))].slice(0, MOST_COMPARED);
    compared.value = names.map(headNamed).filter((one) => one !== null);
  }
  colourScale.value = SCALES.find((name) => name === text("scale")) ?? colourScale.value;
  language.value = (Object.keys(LANGUAGES) as Language[]).find((name) => name === text("language")) ?? language.value;
  candidate.value = number("candidate", trace.value.alignment?.candidates.length ?? 0) ?? candidate.value;
  const [, side, index] = text("kept").match(/^(source|target)(\d{1,6})$/) ?? [];
  if (side) keptUnit.value = { side: side as Side, index: Number(index) };
  if (has("cut")) cut.value = new Set(text("cut").split(" ").filter(isEdge));
  if (has("silenced") && trace.value.live) silenced.value = true;
  key.value = number("key", keyTokens.value.length) ?? key.value;
  const refused = names.filter((name) => !(linked.get(name)?.read(text(name)) ?? OTHERS.includes(name)));
  if (refused.length) complaint.value = words().linkIgnored(refused.map((name) => (NAME.test(name) ? name : "?")).join(", ")); // a link must not write its own sentences on the page
}

/** Whether a string such as "7,2" holds the positions of a query and a key that exist in the text shown. */
function isEdge(text: string): boolean {
  const [, from, to] = text.match(/^(\d{1,9}),(\d{1,9})$/) ?? [];
  return Boolean(from) && Number(from) < queryTokens.value.length && Number(to) < keyTokens.value.length;
}

/** Return the part of a link after "#": parameters that say what is shown. */
function address(): string {
  const shown = new URLSearchParams();
  if (Object.keys(trace.value.kinds).length > 1) shown.set("kind", kindName.value);
  shown.set("head", nameOf({ layer: layerNumber.value, head: head.value }));
  shown.set("query", query.value === null ? "all" : String(query.value));
  if (locked.value) shown.set("locked", "1");
  shown.set("scale", colourScale.value);
  if (language.value !== browserLanguage) shown.set("language", language.value);
  if (compared.value.length) shown.set("compared", compared.value.map(nameOf).join(" "));
  if (candidate.value) shown.set("candidate", String(candidate.value));
  if (keptUnit.value) shown.set("kept", `${keptUnit.value.side}${keptUnit.value.index}`);
  if (cut.value.size) shown.set("cut", [...cut.value].join(" "));
  if (silenced.value) shown.set("silenced", "1");
  if (key.value !== null) shown.set("key", String(key.value));
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

/**
 * Show what the page's address names, and change the address whenever something else is shown.
 *
 * If the address names a text, the model reads it first. A page in a frame sends its address to the page around the frame;
 * when that page sends an address, this page shows the head and the token that it names.
 */
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
  let told: string | null = null; // this page's address after the page around its frame has sent one; it is not sent back to that page
  if (parent !== window)
    addEventListener("message", ({ source, data }) => {
      if (source !== parent || typeof data?.regard !== "string") return;
      batch(() => {
        restoreHeadAndQuery(data.regard);
        told = address();
      });
    });
  else addEventListener("hashchange", () => location.reload()); // the reader has opened another link to this page: load the page again
  effect(() => {
    const shown = address();
    if (proposed.value || shown === told) return; // the address stays the link until the model has read the link's text
    told = null;
    const timer = setTimeout(() => {
      if (parent !== window) parent.postMessage({ regard: shown }, "*");
      else history.replaceState(null, "", `#${shown}`);
    }, PAUSE_MILLISECONDS);
    return () => clearTimeout(timer);
  });
}
