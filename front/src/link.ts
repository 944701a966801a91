// The address of the page names what is shown, so that a link restores it: #kind=encoder&head=L3H1&query=7
// The views add their own switches, see switches.ts.

import { batch, effect } from "@preact/signals";
import {
  candidate,
  chooseHead,
  colourScale,
  compared,
  cut,
  head,
  hidden,
  key,
  keyTokens,
  keptUnit,
  kindName,
  layerNumber,
  layerOf,
  locked,
  query,
  queryTokens,
  silenced,
  temperature,
  trace,
  wholeWords,
} from "./state";
import type { Side } from "./data";
import { linked } from "./switches";
import { browserLanguage, language, LANGUAGES, type Language } from "./words";

const SCALES = ["absolute", "row", "log"] as const;
const PAUSE_MILLISECONDS = 100; // browsers refuse a page that changes its address at each move of a pointer

interface HeadPlace {
  layer: number;
  head: number | null;
}

const nameOf = ({ layer, head }: HeadPlace) => `L${layer}${head === null ? "average" : `H${head}`}`;

/** The head with a name such as "L3H1" or "L3average"; null if there is no such layer. */
function headNamed(name: string): HeadPlace | null {
  const [, layer, which] = name.match(/^L(\d+)(?:H(\d+)|average)$/) ?? [];
  if (!layer || layerOf(Number(layer)).layer !== Number(layer)) return null;
  return { layer: Number(layer), head: which === undefined ? null : Math.min(Number(which), layerOf(Number(layer)).heads - 1) };
}

export function restore(address: string): void {
  const wanted = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name: string) => wanted.get(name) ?? "";
  const number = (name: string, end: number) => (/^\d+$/.test(text(name)) && Number(text(name)) < end ? Number(text(name)) : null);
  if (trace.value.kinds[text("kind")]) kindName.value = text("kind");
  const shown = headNamed(text("head"));
  if (shown) chooseHead(shown.layer, shown.head);
  if (wanted.has("compared")) compared.value = text("compared").split(" ").map(headNamed).filter((one) => one !== null);
  const position = number("query", queryTokens.value.length);
  if (position !== null || text("query") === "all") query.value = position;
  if (wanted.has("locked") && query.value !== null) locked.value = true;
  if (wanted.has("words")) wholeWords.value = true;
  if (wanted.has("hidden")) hidden.value = true;
  colourScale.value = SCALES.find((name) => name === text("scale")) ?? colourScale.value;
  language.value = (Object.keys(LANGUAGES) as Language[]).find((name) => name === text("language")) ?? language.value;
  if (Number(text("temperature")) > 0) temperature.value = Number(text("temperature"));
  candidate.value = number("candidate", trace.value.alignment?.candidates.length ?? 0) ?? candidate.value;
  const [, side, index] = text("kept").match(/^(source|target)(\d{1,6})$/) ?? [];
  if (side) keptUnit.value = { side: side as Side, index: Number(index) };
  if (wanted.has("cut")) cut.value = new Set(text("cut").split(" ").filter((edge) => /^\d+,\d+$/.test(edge)));
  if (wanted.has("silenced") && trace.value.live) silenced.value = true;
  key.value = number("key", keyTokens.value.length) ?? key.value;
  for (const [name, { read }] of linked) if (wanted.has(name)) read(text(name));
}

/** What is shown, as the part of a link after "#". */
function address(): string {
  const shown = new URLSearchParams();
  if (Object.keys(trace.value.kinds).length > 1) shown.set("kind", kindName.value);
  shown.set("head", nameOf({ layer: layerNumber.value, head: head.value }));
  shown.set("query", query.value === null ? "all" : String(query.value));
  if (locked.value) shown.set("locked", "1");
  if (wholeWords.value) shown.set("words", "1");
  if (hidden.value) shown.set("hidden", "1");
  shown.set("scale", colourScale.value);
  if (language.value !== browserLanguage) shown.set("language", language.value);
  if (compared.value.length) shown.set("compared", compared.value.map(nameOf).join(" "));
  if (temperature.value !== 1) shown.set("temperature", String(temperature.value));
  if (candidate.value) shown.set("candidate", String(candidate.value));
  if (keptUnit.value) shown.set("kept", `${keptUnit.value.side}${keptUnit.value.index}`);
  if (cut.value.size) shown.set("cut", [...cut.value].join(" "));
  if (silenced.value) shown.set("silenced", "1");
  if (key.value !== null) shown.set("key", String(key.value));
  for (const [name, { write }] of linked) if (write()) shown.set(name, write());
  return String(shown);
}

/** Keep the address in step with what is shown. In a frame, tell it to the page around it, and show what that names. */
export function follow(): void {
  if (parent !== window)
    addEventListener("message", ({ source, data }) => {
      if (source === parent && typeof data?.regard === "string") batch(() => restore(data.regard));
    });
  else addEventListener("hashchange", () => location.reload()); // a link to this page, opened where it is shown
  effect(() => {
    const shown = address();
    const timer = setTimeout(() => {
      if (parent !== window) parent.postMessage({ regard: shown }, "*");
      else history.replaceState(null, "", `#${shown}`);
    }, PAUSE_MILLISECONDS);
    return () => clearTimeout(timer);
  });
}
