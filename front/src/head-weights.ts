// The query's largest weight on another word in every head, computed in slices of a few milliseconds

import { effect, signal } from "@preact/signals";
import { UNCHANGED } from "./attention";
import type { Layer } from "./data";
import { shownRow, summaryName } from "./grid";
import type { Item } from "./items";
import { decoded, keyItems, kind, restingQuery, trace, twoTexts } from "./state";

const SLICE_MILLISECONDS = 10;
const REDRAW_MILLISECONDS = 100; // views are told of new heads no more often
const PAUSE_MILLISECONDS = 4;

/** The word on which the query's weight is largest, in one head. */
export interface HeadWeight {
  to: Item | null;
  weight: number;
}

export const headWeightsDone = signal(0); // rises whenever more heads are computed
const found = new Map<string, HeadWeight>();

/** The weight of a head; null until it is computed. */
export const headWeight = (layer: Layer, which: number): HeadWeight | null => found.get(summaryName(layer, which)) ?? null;

let turn = 0;

effect(() => {
  if (!trace.value || trace.value.map) return;
  const [from, keys, layers] = [restingQuery.value, keyItems.value, kind.value.layers];
  const own = ++turn;
  found.clear();
  if (!from) return void (headWeightsDone.value = headWeightsDone.peek() + 1);
  const waiting = layers.flatMap((layer) => Array.from({ length: layer.heads }, (_, which) => ({ layer, which })));
  const anyWord = keys.some((item) => item.word);
  const others = keys.filter((item) => (!anyWord || item.word) && (twoTexts.peek() || item.index !== from.index));
  let told = performance.now();
  let untold = false; // whether heads were computed of which the views are not told yet
  const slice = () => {
    if (own !== turn) return;
    const end = performance.now() + SLICE_MILLISECONDS;
    // A layer that is not decoded yet is asked for again in the next slice.
    for (let tries = waiting.length; tries > 0 && waiting.length && performance.now() < end; tries--) {
      const { layer, which } = waiting.shift()!;
      const row = decoded.peek().has(layer) ? shownRow(from, layer, which, UNCHANGED) : null;
      if (!row) waiting.push({ layer, which });
      else {
        found.set(summaryName(layer, which), largest(row.weights, others));
        untold = true;
      }
    }
    if (untold && (!waiting.length || performance.now() - told > REDRAW_MILLISECONDS)) {
      headWeightsDone.value += 1;
      [told, untold] = [performance.now(), false];
    }
    if (waiting.length) setTimeout(slice, PAUSE_MILLISECONDS);
  };
  setTimeout(slice, 0);
});

function largest(weights: Float64Array, items: Item[]): HeadWeight {
  let to: Item | null = null;
  let weight = 0;
  for (const item of items) if (weights[item.index] > weight) [to, weight] = [item, weights[item.index]];
  return { to, weight };
}
