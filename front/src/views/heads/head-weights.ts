// The query's largest weight on another word in every head, computed in slices of a few milliseconds

import { effect, signal } from "@preact/signals";
import { decoded, keyItems, kind, restingQuery, trace, twoTexts } from "../../state/state";
import { shownRow } from "../../state/weights";
import { UNCHANGED } from "../../trace/attention";
import type { Layer } from "../../trace/data";
import type { Item } from "../../trace/items";
import { inSlices } from "../../state/slices";
import { summaryName } from "./summaries";

/** The query's largest weight on another word in one head, and this word (`to`, null if all these weights are 0). */
interface HeadWeight {
  to: Item | null;
  weight: number;
}

export const headWeightsDone = signal(0); // increases whenever `headWeight` is known for more heads, so that views that read it are drawn again
const found = new Map<string, HeadWeight>();

/** The query's largest weight on another word in a head; null until it is computed. */
export const headWeight = (layer: Layer, head: number): HeadWeight | null => found.get(summaryName(layer, head)) ?? null;

effect(() => {
  if (!trace.value || trace.value.map) return;
  const [from, keys, layers] = [restingQuery.value, keyItems.value, kind.value.layers];
  found.clear();
  if (!from) return void (headWeightsDone.value = headWeightsDone.peek() + 1);
  const anyWord = keys.some((item) => item.word);
  const others = keys.filter((item) => (!anyWord || item.word) && (twoTexts.peek() || item.index !== from.index));
  return inSlices(weigh(from, others, layers), () => (headWeightsDone.value += 1));
});

/**
 * Find, in each head, the largest weight of the query `from` on the items `others`, and store it in `found`. A layer waits
 * until it is decoded. Yields "new" after each head, and "wait" while no layer is ready (see slices.ts).
 */
function* weigh(from: Item, others: Item[], layers: Layer[]): Generator<"new" | "wait"> {
  const waiting = [...layers];
  while (waiting.length) {
    const ready = waiting.findIndex((layer) => decoded.peek().has(layer));
    if (ready < 0) yield "wait";
    else {
      const [layer] = waiting.splice(ready, 1);
      for (let head = 0; head < layer.heads; head++) {
        found.set(summaryName(layer, head), largest(shownRow(from, layer, head, UNCHANGED)!.weights, others));
        yield "new";
      }
    }
  }
}

function largest(weights: Float64Array, items: Item[]): HeadWeight {
  let to: Item | null = null;
  let weight = 0;
  for (const item of items) if (weights[item.index] > weight) [to, weight] = [item, weights[item.index]];
  return { to, weight };
}
