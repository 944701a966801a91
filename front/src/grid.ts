// The weights of a head between items: one row at once, or all rows in slices of a few milliseconds

import { effect, signal } from "@preact/signals";
import { mayAttend, UNCHANGED, weightsOf, type Changes } from "./attention";
import type { Decoded } from "./blocks";
import type { Layer } from "./data";
import type { Item } from "./items";
import { changes, decoded, head, keyItems, keyTokens, layer, queryItems, queryTokens, secondLayer, trace, twoTexts } from "./state";
import { keysOfRoles, RoleMean, ROLES, type Role } from "./roles";
import { inSlices } from "./slices";

const SLICE_MILLISECONDS = 10;

/** One query's weights and masks, with a number for each key item. */
export interface Row {
  weights: Float64Array;
  masked: Uint8Array; // 1 where no query of the item may attend to any key of the item
}

/** The weights between items: summed over the tokens of the key item, and averaged over those of the query item. */
export function rowOf(attention: Decoded, headIndex: number | null, queries: Item, keys: Item[], changed: Changes): Row {
  const [nQueries, nKeys] = [queryTokens.value.length, keyTokens.value.length];
  const heads = headIndex === null ? Array.from({ length: attention.heads }, (_, i) => i) : [headIndex]; // null = the average of all heads
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

/** 1 for each key item that no head and no token of the query may attend to. */
function maskedOf(attention: Decoded, heads: number[], queries: number[], keys: Item[]): Uint8Array {
  if (!attention.bits) return new Uint8Array(keys.length);
  const [nQueries, nKeys] = [queryTokens.value.length, keyTokens.value.length];
  const may = new Uint8Array(nKeys);
  for (const one of heads) {
    for (const query of queries) for (let key = 0; key < nKeys; key++) if (mayAttend(attention, one, query, key, nQueries, nKeys)) may[key] = 1;
  }
  return Uint8Array.from(keys, (item) => Number(!item.positions.some((key) => may[key])));
}

/** The weights of a query item in the head that is shown, or in another; null until the layer is decoded. */
export function shownRow(item: Item, ofLayer: Layer = layer.value, headIndex: number | null = head.value, changed = changes.value): Row | null {
  const ready = decoded.value.get(ofLayer);
  return ready ? rowOf(ready, headIndex, item, keyItems.value, changed) : null;
}

/** All rows of a head; the first `done` of them are filled in. */
export interface Grid {
  queries: Item[];
  keys: Item[];
  weights: Float32Array; // [queries keys]
  masked: Uint8Array;
  done: number;
  beside: Grid | null; // of the same head in the other one of two traces, on one colour scale
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

/** The largest weight of a query on some keys, in a grid and the one beside it. */
export function largestWeight({ weights, keys, beside }: Grid, query: number, among: Item[]): number {
  const most = among.reduce((best, { index }) => Math.max(best, weights[query * keys.length + index]), 0);
  return beside ? among.reduce((best, { index }) => Math.max(best, beside.weights[query * keys.length + index]), most) : most;
}

export const progress = signal(0); // rises whenever a grid has more rows

/** The grid of the head that is shown; rows that do not fit into one frame follow in the next ones. */
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

// A summary of each head, for the map of all heads

const THUMBNAIL = 28; // the most rows of a small picture of a head, and the most columns

export interface Summary {
  pooled: Float32Array; // [rows columns]: each weight is divided by its query's largest; the largest quotient of the weights that a cell stands for
  rows: number;
  columns: number;
  entropy: number; // mean over queries, in nats
  distance: number; // mean distance from query to key, in tokens
  strongest: number; // the largest weight that any token gives to another word
  roles: Record<Role, number> | null; // the mean weight on the keys of each role, NaN without such keys; null for cross-attention
}

export const summariesDone = signal(0); // rises whenever more heads are summarised
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

/** Compute the summaries of all heads of the kind that is shown, in slices. */
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
