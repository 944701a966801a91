// The weights of a head between items (tokens or whole words, see items.ts): one row at once, or all rows in short slices of time

import { effect, signal } from "@preact/signals";
import { mayAttend, UNCHANGED, weightsOf, type Changes } from "./attention";
import type { Decoded } from "./blocks";
import type { Layer } from "./data";
import type { Item } from "./items";
import { changes, decoded, head, keyItems, keyTokens, layer, queryItems, queryTokens, secondLayer, trace, twoTexts } from "./state";
import { keysOfRoles, RoleMean, ROLES, type Role } from "./roles";
import { inSlices } from "./slices";

const SLICE_MILLISECONDS = 10;

/** The weights of one query item; each array has one number for each key item. */
export interface Row {
  weights: Float64Array;
  masked: Uint8Array; // 1 = no token of the query item may attend to any token of the key item
}

/** The weights of a query item on key items: the sum over the tokens of the key item, the mean over the tokens of the query item. */
export function rowOf(attention: Decoded, headIndex: number | null, queries: Item, keys: Item[], changed: Changes): Row {
  const [nQueries, nKeys] = [queryTokens.value.length, keyTokens.value.length];
  const heads = headIndex === null ? Array.from({ length: attention.heads }, (_, i) => i) : [headIndex]; // headIndex null = the average of all heads
  const sums = new Float64Array(nKeys);
  for (const one of heads) {
    for (const position of queries.positions) {
      const weights = weightsOf(attention, one, position, nQueries, nKeys, trace.value.units, changed);
      for (let i = 0; i < nKeys; i++) sums[i] += weights[i];
    }
  }
  const rows = heads.length * queries.positions.length;
  const weights = new Float64Array(keys.length);
  for (const item of keys) for (const at of item.positions) weights[item.index] += sums[at] / rows;
  return { weights, masked: maskedOf(attention, heads, queries.positions, keys) };
}

/** For each key item, 1 if no query may attend to any of its tokens in any of the heads, else 0. */
function maskedOf(attention: Decoded, heads: number[], queries: number[], keys: Item[]): Uint8Array {
  if (!attention.bits) return new Uint8Array(keys.length);
  const [nQueries, nKeys] = [queryTokens.value.length, keyTokens.value.length];
  const may = new Uint8Array(nKeys);
  for (const one of heads) {
    for (const query of queries) for (let key = 0; key < nKeys; key++) if (mayAttend(attention, one, query, key, nQueries, nKeys)) may[key] = 1;
  }
  return Uint8Array.from(keys, (item) => Number(!item.positions.some((key) => may[key])));
}

/** The weights of a query item in a head, by default the one that is shown; null until the layer is decoded. */
export function shownRow(item: Item, ofLayer: Layer = layer.value, headIndex: number | null = head.value, changed = changes.value): Row | null {
  const ready = decoded.value.get(ofLayer);
  return ready ? rowOf(ready, headIndex, item, keyItems.value, changed) : null;
}

/** The weights [queries keys] of a head. They are computed row by row; the first `done` rows are computed so far. */
export interface Grid {
  queries: Item[];
  keys: Item[];
  weights: Float32Array; // [queries keys]
  masked: Uint8Array;
  done: number;
  beside: Grid | null; // with two traces, the grid of the same head in the other trace; both have one colour scale
}

const newGrid = (queries: Item[], keys: Item[], beside: Grid | null = null): Grid => {
  const size = queries.length * keys.length;
  return { queries, keys, weights: new Float32Array(size), masked: new Uint8Array(size), done: 0, beside };
};

function fillRow(grid: Grid, of: Decoded, headIndex: number | null, changed: Changes): void {
  const row = rowOf(of, headIndex, grid.queries[grid.done], grid.keys, changed);
  grid.weights.set(row.weights, grid.done * grid.keys.length);
  grid.masked.set(row.masked, grid.done * grid.keys.length);
  grid.done += 1;
}

/** The largest weight of a query on the keys `among`, in a grid and in the grid beside it. */
export function largestWeight({ weights, keys, beside }: Grid, query: number, among: Item[]): number {
  const most = among.reduce((best, { index }) => Math.max(best, weights[query * keys.length + index]), 0);
  return beside ? among.reduce((best, { index }) => Math.max(best, beside.weights[query * keys.length + index]), most) : most;
}

/** The weight of a cell in the second trace minus its weight in the first; NaN if it is masked in both. Both grids have the same cells. */
export const differenceAt = ({ weights, masked, beside }: Grid, at: number): number =>
  masked[at] && beside!.masked[at] ? NaN : beside!.weights[at] - weights[at];

/** The largest absolute difference between two traces in the rows that are computed, among the shown queries and keys. */
export function largestDifference(grid: Grid, queries: Item[], keys: Item[]): number {
  let most = 0;
  for (const from of queries) {
    if (from.index >= grid.done) continue;
    for (const to of keys) most = Math.max(most, Math.abs(differenceAt(grid, from.index * grid.keys.length + to.index)) || 0);
  }
  return most;
}

export const progress = signal(0); // increases whenever more rows of a grid are computed, so that views that read it are drawn again

/**
 * The grid of the head that is shown; null until its layer is decoded. In each frame of the browser, rows are computed for a
 * few milliseconds, until all are done.
 */
export const shownGrid = signal<Grid | null>(null);

effect(() => {
  if (!trace.value) return;
  const [ready, second] = [layer.value, secondLayer.value].map((one) => one && decoded.value.get(one));
  if (!ready || (secondLayer.value && !second)) {
    shownGrid.value = null;
    return;
  }
  const [queries, keys, headIndex, changed] = [queryItems.value, keyItems.value, head.value, changes.value];
  const grid = newGrid(queries, keys);
  if (second) grid.beside = newGrid(queries, keys, grid);
  const fill = () => {
    const end = performance.now() + SLICE_MILLISECONDS;
    while (grid.done < queries.length && performance.now() < end) {
      if (second) fillRow(grid.beside!, second, headIndex, UNCHANGED);
      fillRow(grid, ready, headIndex, changed);
    }
  };
  fill();
  shownGrid.value = grid;
  if (grid.done === queries.length) return;
  let timer = requestAnimationFrame(function more() {
    fill();
    progress.value += 1;
    if (grid.done < queries.length) timer = requestAnimationFrame(more);
  });
  return () => cancelAnimationFrame(timer);
});

// Summaries of all heads, for the view that shows them side by side

const THUMBNAIL = 28; // the most rows, and columns, of the small picture of a head's weights

/** The summary of one head: a small picture of its weights, and means over its queries. */
export interface Summary {
  // The small picture, [rows columns]: each weight is divided by its query's largest weight, and each cell has the largest of
  // these quotients among its weights.
  pooled: Float32Array;
  rows: number;
  columns: number;
  entropy: number; // the mean entropy of a query's weights, in nats
  distance: number; // the mean distance from query to key, averaged with the weights, in tokens
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
  const means = ROLES.map((role) => [role, new RoleMean()] as const);
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
    if (keysOf) for (const [role, mean] of means) mean.add(weights, keysOf[role](q));
    if (q % 16 === 15) yield "mayPause";
  }
  const roles = keysOf && (Object.fromEntries(means.map(([role, mean]) => [role, mean.value])) as Record<Role, number>);
  return { pooled, rows, columns, entropy: entropy / queries.length, distance: distance / queries.length, strongest, roles };
}

let stop = () => {};

/** Compute the summaries of all heads of these layers, in slices of a few milliseconds; `summaryOf` returns those that are ready. */
export function summariseAll(layers: Layer[]): void {
  stop();
  summaries.clear();
  const keysOf = twoTexts.value ? null : keysOfRoles(queryTokens.value);
  function* all(): Generator<"new" | "wait" | "mayPause"> {
    for (const ofLayer of layers) {
      while (!decoded.value.get(ofLayer)) yield "wait";
      for (let headIndex = 0; headIndex < ofLayer.heads; headIndex++) {
        summaries.set(summaryName(ofLayer, headIndex), yield* summarise(decoded.value.get(ofLayer)!, headIndex, keysOf));
        yield "new";
      }
    }
  }
  stop = inSlices(all(), () => (summariesDone.value += 1));
}
