// The address of the page names what is shown, so that a link restores it: #kind=encoder&head=L3H1&query=7

import { batch, effect } from "@preact/signals";
import {
  candidate,
  chooseHead,
  colourScale,
  cut,
  head,
  hidden,
  kindName,
  layerNumber,
  layerOf,
  locked,
  query,
  queryTokens,
  temperature,
  trace,
  wholeWords,
} from "./state";

const SCALES = ["absolute", "row", "log"] as const;

export function restore(address: string): void {
  const wanted = new URLSearchParams(address.replace(/^#/, ""));
  const kind = wanted.get("kind");
  if (kind && trace.value.kinds[kind]) kindName.value = kind;
  const [, layer, which] = wanted.get("head")?.match(/^L(\d+)(?:H(\d+)|average)$/) ?? [];
  if (layer && layerOf(Number(layer)).layer === Number(layer)) chooseHead(Number(layer), which === undefined ? null : Number(which));
  const position = wanted.get("query") ?? "";
  if (position === "all") query.value = null;
  else if (/^\d+$/.test(position) && Number(position) < queryTokens.value.length) query.value = Number(position);
  if (wanted.has("locked") && query.value !== null) locked.value = true;
  if (wanted.has("words")) wholeWords.value = true;
  if (wanted.has("hidden")) hidden.value = true;
  const scale = SCALES.find((name) => name === wanted.get("scale"));
  if (scale) colourScale.value = scale;
  const factor = Number(wanted.get("temperature"));
  if (factor > 0) temperature.value = factor;
  const place = Number(wanted.get("candidate") ?? 0);
  if (trace.value.alignment?.candidates[place]) candidate.value = place;
  const edges = wanted.get("cut");
  if (edges) cut.value = new Set(edges.split(" ").filter((edge) => /^\d+,\d+$/.test(edge)));
}

/** Keep the address in step with what is shown. In a frame, tell it to the page around it, and show what that names. */
export function follow(): void {
  if (parent !== window)
    addEventListener("message", ({ source, data }) => {
      if (source === parent && typeof data?.regard === "string") batch(() => restore(data.regard));
    });
  effect(() => {
    const shown = new URLSearchParams();
    if (Object.keys(trace.value.kinds).length > 1) shown.set("kind", kindName.value);
    shown.set("head", `L${layerNumber.value}${head.value === null ? "average" : `H${head.value}`}`);
    shown.set("query", query.value === null ? "all" : String(query.value));
    if (locked.value) shown.set("locked", "1");
    if (wholeWords.value) shown.set("words", "1");
    if (hidden.value) shown.set("hidden", "1");
    if (colourScale.value !== "absolute") shown.set("scale", colourScale.value);
    if (temperature.value !== 1) shown.set("temperature", String(temperature.value));
    if (candidate.value) shown.set("candidate", String(candidate.value));
    if (cut.value.size) shown.set("cut", [...cut.value].join(" "));
    try {
      history.replaceState(null, "", `#${shown}`);
    } catch {
      // A page in a frame without an address of its own has none to keep.
    }
    if (parent !== window) parent.postMessage({ regard: String(shown) }, "*");
  });
}
