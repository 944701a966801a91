// What the view of all heads shows of each head: a summary of its weights, and the query's largest weight; computed in slices of a few milliseconds

import { effect, signal } from "@preact/signals";
import { decoded, keyItems, keyTokens, kind, queryTokens, restingQuery, trace, twoTexts } from "../../state/state";
import { inSlices } from "../../state/slices";
import { rowOf } from "../../state/weights";
import { mayAttend, UNCHANGED, weightsOf } from "../../trace/attention";
import type { Decoded } from "../../trace/blocks";
import type { Layer } from "../../trace/data";
import type { Item } from "../../trace/items";
import { keysOfRoles, ROLES, type Role } from "../../trace/roles";

const THUMBNAIL = 28; // the most rows, and columns, of the small picture of a head's weights

/** The summary of one head: a small picture of its weights, and means over its queries. */
export interface Summary {
  // The small picture, [rows columns]. First, each weight is divided by its query's largest weight; then each cell gets the largest
  // of these numbers in its part of the matrix.
  pooled: Float32Array;
  rows: number;
  columns: number;
  entropy: number; // the mean entropy of a query's weights, in nats
  distance: number; // the mean distance of a query to the keys, in tokens, weighted by the query's weights
  strongest: number; // the largest weight of any word on another word
  roles: Record<Role, number> | null; // for each role (see roles.ts), the mean weight on the role's keys, NaN if no query may attend to such a key; null in cross-attention
}

export const headsDone = signal(0); // rises when a summary or a largest weight of a head has been computed; views that read this signal are then drawn again
const summaries = new Map<string, Summary>();
export const summaryOf = (ofLayer: Layer, headIndex: number): Summary | undefined => summaries.get(nameOf(ofLayer, headIndex));
const nameOf = (ofLayer: Layer, headIndex: number) => `${ofLayer.layer} ${headIndex}`;

function* summarise(attention: Decoded, headIndex: number, keysOf: ReturnType<typeof keysOfRoles> | null): Generator<"mayPause", Summary> {
  const [queries, keys] = [queryTokens.value, keyTokens.value];
  const [rows, columns] = [Math.min(queries.length, THUMBNAIL), Math.min(keys.length, THUMBNAIL)];
  const pooled = new Float32Array(rows * columns);
  const isSelfAttention = queries === keys;
  let [entropy, distance, strongest] = [0, 0, 0];
  const sums = ROLES.map((role) => ({ role, sum: 0, nQueries: 0 })); // for each role (see roles.ts): the sum of all weights on the keys of the role, and the number of queries that may attend to such keys
  for (let q = 0; q < queries.length; q++) {
    const weights = weightsOf(attention, headIndex, q);
    const largest = weights.reduce((a, b) => Math.max(a, b), 0);
    const row = Math.floor((q * rows) / queries.length);
    weights.forEach((weight, k) => {
      const cell = row * columns + Math.floor((k * columns) / keys.length);
      if (largest) pooled[cell] = Math.max(pooled[cell], weight / largest);
      if (weight > 0) entropy -= weight * Math.log(weight);
      distance += weight * Math.abs(k - q);
      if (keys[k].word && queries[q].word && !(isSelfAttention && k === q)) strongest = Math.max(strongest, weight);
    });
    for (const roleSum of keysOf ? sums : []) {
      const keysOfRole = keysOf![roleSum.role](q).filter((key) => mayAttend(attention, headIndex, q, key));
      for (const key of keysOfRole) roleSum.sum += weights[key];
      if (keysOfRole.length) roleSum.nQueries += 1;
    }
    if (q % 16 === 15) yield "mayPause";
  }
  const roles = keysOf && (Object.fromEntries(sums.map(({ role, sum, nQueries }) => [role, sum / nQueries])) as Record<Role, number>);
  return { pooled, rows, columns, entropy: entropy / queries.length, distance: distance / queries.length, strongest, roles };
}

let stop = () => {};

/** Compute the summaries of all heads of these layers, in slices of a few milliseconds; `summaryOf` returns those that are ready. */
export function summariseAll(layers: Layer[]): void {
  stop();
  summaries.clear();
  const keysOf = twoTexts.value ? null : keysOfRoles(queryTokens.value);
  const startTrace = trace.value;
  function* summariseHeads(): Generator<"new" | "wait" | "mayPause"> {
    for (const ofLayer of layers) {
      while (!decoded.value.get(ofLayer)) yield "wait";
      for (let headIndex = 0; headIndex < ofLayer.heads; headIndex++) {
        if (trace.value !== startTrace) return;
        summaries.set(nameOf(ofLayer, headIndex), yield* summarise(decoded.value.get(ofLayer)!, headIndex, keysOf));
        yield "new";
      }
    }
  }
  stop = inSlices(summariseHeads(), () => (headsDone.value += 1));
}

/** The query's largest weight on another word in one head, and this word (`to`, null if all these weights are 0). */
interface HeadWeight {
  to: Item | null;
  weight: number;
}

const headWeights = new Map<string, HeadWeight>();

/** The query's largest weight on another word in a head; null until it is computed. */
export const headWeight = (layer: Layer, head: number): HeadWeight | null => headWeights.get(nameOf(layer, head)) ?? null;

effect(() => {
  if (!trace.value || trace.value.map) return;
  const [query, keys, layers] = [restingQuery.value, keyItems.value, kind.value.layers];
  headWeights.clear();
  if (!query) {
    headsDone.value = headsDone.peek() + 1;
    return;
  }
  const hasWords = keys.some((item) => item.word);
  const otherWords = keys.filter((item) => (item.word || !hasWords) && (twoTexts.peek() || item.index !== query.index));
  return inSlices(computeHeadWeights(query, otherWords, layers), () => (headsDone.value += 1));
});

/** Store, for each head, the largest weight of the query on the keys. Yield "new" after each head, and "wait" while a layer is not decoded (see `inSlices`). */
function* computeHeadWeights(query: Item, keys: Item[], layers: Layer[]): Generator<"new" | "wait"> {
  for (const layer of layers) {
    while (!decoded.peek().has(layer)) yield "wait";
    for (let head = 0; head < layer.heads; head++) {
      headWeights.set(nameOf(layer, head), largestWeight(rowOf(query, layer, head, UNCHANGED)!.weights, keys));
      yield "new";
    }
  }
}

function largestWeight(weights: Float64Array, keys: Item[]): HeadWeight {
  let to: Item | null = null;
  let weight = 0;
  for (const key of keys) if (weights[key.index] > weight) [to, weight] = [key, weights[key.index]];
  return { to, weight };
}
