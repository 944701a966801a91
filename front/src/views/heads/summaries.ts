// The summary of each head: a small picture of its weights, and means over its queries

import { signal } from "@preact/signals";
import { decoded, keyTokens, queryTokens, trace, twoTexts } from "../../state/state";
import { UNCHANGED, weightsOf } from "../../trace/attention";
import type { Decoded } from "../../trace/blocks";
import type { Layer } from "../../trace/data";
import { keysOfRoles, ROLES, type Role } from "../../trace/roles";
import { inSlices } from "../../state/slices";

const THUMBNAIL = 28; // the most rows, and columns, of the small picture of a head's weights

/** The summary of one head: a small picture of its weights, and means over its queries. */
export interface Summary {
  // The small picture, [rows columns]: each weight is divided by its query's largest weight, and each cell has the largest of
  // these quotients among its weights.
  pooled: Float32Array;
  rows: number;
  columns: number;
  entropy: number; // the mean entropy of a query's weights, in nats
  distance: number; // the mean distance of a query to the keys, in tokens, weighted by its weights
  strongest: number; // the largest weight of any word on another word
  roles: Record<Role, number> | null; // for each role (see roles.ts), the mean weight on its keys, NaN without such keys; null in cross-attention
}

export const summariesDone = signal(0); // increases whenever the summaries of more heads are computed, so that views that read it are drawn again
const summaries = new Map<string, Summary>();
export const summaryOf = (ofLayer: Layer, headIndex: number): Summary | undefined => summaries.get(summaryName(ofLayer, headIndex));
export const summaryName = (ofLayer: Layer, headIndex: number) => `${ofLayer.layer} ${headIndex}`;

function* summarise(attention: Decoded, headIndex: number, keysOf: ReturnType<typeof keysOfRoles> | null): Generator<"mayPause", Summary> {
  const [queries, keys] = [queryTokens.value, keyTokens.value];
  const [rows, columns] = [Math.min(queries.length, THUMBNAIL), Math.min(keys.length, THUMBNAIL)];
  const pooled = new Float32Array(rows * columns);
  const same = queries === keys;
  let [entropy, distance, strongest] = [0, 0, 0];
  const sums = ROLES.map((role) => ({ role, sum: 0, queries: 0 })); // for each role: the sum of all weights on its keys, and the number of queries that have such keys
  for (let q = 0; q < queries.length; q++) {
    const weights = weightsOf(attention, headIndex, q, queries.length, keys.length, trace.value.units, UNCHANGED);
    const most = weights.reduce((a, b) => Math.max(a, b), 0);
    const row = Math.floor((q * rows) / queries.length);
    weights.forEach((weight, k) => {
      const cell = row * columns + Math.floor((k * columns) / keys.length);
      if (most) pooled[cell] = Math.max(pooled[cell], weight / most);
      if (weight > 0) entropy -= weight * Math.log(weight);
      distance += weight * Math.abs(k - q);
      if (keys[k].word && queries[q].word && !(same && k === q)) strongest = Math.max(strongest, weight);
    });
    for (const one of keysOf ? sums : []) {
      const keysOfRole = keysOf![one.role](q);
      for (const key of keysOfRole) one.sum += weights[key];
      if (keysOfRole.length) one.queries += 1;
    }
    if (q % 16 === 15) yield "mayPause";
  }
  const roles = keysOf && (Object.fromEntries(sums.map(({ role, sum, queries: count }) => [role, sum / count])) as Record<Role, number>);
  return { pooled, rows, columns, entropy: entropy / queries.length, distance: distance / queries.length, strongest, roles };
}

let stop = () => {};

/** Compute the summaries of all heads of these layers, in slices of a few milliseconds; `summaryOf` returns those that are ready. */
export function summariseAll(layers: Layer[]): void {
  stop();
  summaries.clear();
  const keysOf = twoTexts.value ? null : keysOfRoles(queryTokens.value);
  const of = trace.value;
  function* all(): Generator<"new" | "wait" | "mayPause"> {
    for (const ofLayer of layers) {
      while (!decoded.value.get(ofLayer)) yield "wait";
      for (let headIndex = 0; headIndex < ofLayer.heads; headIndex++) {
        if (trace.value !== of) return; // another trace is shown, whose layers are decoded anew
        summaries.set(summaryName(ofLayer, headIndex), yield* summarise(decoded.value.get(ofLayer)!, headIndex, keysOf));
        yield "new";
      }
    }
  }
  stop = inSlices(all(), () => (summariesDone.value += 1));
}
