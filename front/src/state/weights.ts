// The weights of a head between items (tokens or whole words, see items.ts): one row at once, or all rows in short slices of time

import { effect, signal } from "@preact/signals";
import { indicesOfLargest } from "../trace/arrays";
import { mayAttend, UNCHANGED, weightsOf, type Changes } from "../trace/attention";
import type { Decoded } from "../trace/blocks";
import type { Layer } from "../trace/data";
import type { Item } from "../trace/items";
import { changes, decoded, head, keyItems, layer, secondLayer, trace, visibleKeys } from "./state";
import { allItems, pairedQuery, shownTexts, type TextItems } from "./texts";

const SLICE_MILLISECONDS = 10; // how long rows of weights are computed in each frame of the browser

/** The weights of one query item (an item is a token or a whole word); each array has one number for each key item. */
export interface Row {
  weights: Float64Array;
  masked: Uint8Array; // 1 = masked: the query (all its tokens) may not attend to this key (all its tokens)
}

/** The weights of a query (a token or a whole word): summed over the tokens of each key, averaged over the tokens of the query. */
function rowOfItem(attention: Decoded, headIndex: number | null, query: Item, keys: Item[], changed: Changes): Row {
  const heads = headIndex === null ? Array.from({ length: attention.heads }, (_, i) => i) : [headIndex]; // headIndex null = the average of all heads
  const sums = new Float64Array(attention.nKeys);
  for (const oneHead of heads) {
    for (const position of query.positions) {
      const weights = weightsOf(attention, oneHead, position, changed);
      for (let i = 0; i < sums.length; i++) sums[i] += weights[i];
    }
  }
  const nRows = heads.length * query.positions.length;
  const weights = new Float64Array(keys.length);
  for (const item of keys) for (const position of item.positions) weights[item.index] += sums[position] / nRows;
  return { weights, masked: maskedOf(attention, heads, query.positions, keys) };
}

/** For each key (a token or a whole word): 0 if, in one of the heads, one of the queries may attend to one of the key's tokens; else 1 (masked). */
function maskedOf(attention: Decoded, heads: number[], queries: number[], keys: Item[]): Uint8Array {
  if (!attention.maskBits) return new Uint8Array(keys.length);
  const isVisible = new Uint8Array(attention.nKeys);
  for (const oneHead of heads) {
    for (const query of queries) {
      for (let key = 0; key < isVisible.length; key++) if (mayAttend(attention, oneHead, query, key)) isVisible[key] = 1;
    }
  }
  return Uint8Array.from(keys, (item) => Number(!item.positions.some((key) => isVisible[key])));
}

/** The weights of a query (a token or a whole word) in a head, by default the shown head; null until the arrays of the layer are decoded. `keys`: all keys of the text, hidden ones too. */
export function rowOf(item: Item, ofLayer: Layer = layer.value, headIndex = head.value, changed = changes.value, keys = keyItems.value): Row | null {
  const decodedLayer = decoded.value.get(ofLayer);
  return decodedLayer ? rowOfItem(decodedLayer, headIndex, item, keys, changed) : null;
}

/** The weights [queries keys] of a head. They are computed row by row; the first `nComputed` rows are computed so far. */
export interface Grid {
  traceIndex: number; // 0 = the weights belong to the first trace, 1 = to the second trace
  queries: Item[];
  keys: Item[];
  weights: Float32Array; // [queries keys]
  masked: Uint8Array;
  nComputed: number;
  otherGrid: Grid | null; // with two traces, the weights of the same head in the other trace; both have one colour scale
}

const newGrid = ({ queries, keys }: TextItems, traceIndex: number): Grid => {
  const size = queries.length * keys.length;
  return { traceIndex, queries, keys, weights: new Float32Array(size), masked: new Uint8Array(size), nComputed: 0, otherGrid: null };
};

export const isComplete = (grid: Grid): boolean => [grid, grid.otherGrid].every((one) => !one || one.nComputed === one.queries.length);

function fillRow(grid: Grid, attention: Decoded, headIndex: number | null, changed: Changes): void {
  const row = rowOfItem(attention, headIndex, grid.queries[grid.nComputed], grid.keys, changed);
  grid.weights.set(row.weights, grid.nComputed * grid.keys.length);
  grid.masked.set(row.masked, grid.nComputed * grid.keys.length);
  grid.nComputed += 1;
}

/** The largest weight of a query on visible keys. With two traces, the weights of the paired query in the other trace count, too. */
export function largestWeight(grid: Grid, query: Item): number {
  const largest = ({ traceIndex, weights, keys }: Grid, from: Item) =>
    shownTexts.value[traceIndex].keys.reduce((best, { index }) => Math.max(best, weights[from.index * keys.length + index]), 0);
  const paired = grid.otherGrid && pairedQuery(query);
  return Math.max(largest(grid, query), paired ? largest(grid.otherGrid!, paired) : 0);
}

/** The weight in the second trace minus the weight in the first, at an index of the arrays [queries keys]; NaN if both are masked. */
export const differenceAt = ({ weights, masked, otherGrid }: Grid, index: number): number =>
  masked[index] && otherGrid!.masked[index] ? NaN : otherGrid!.weights[index] - weights[index];

/** The largest absolute difference between the weights of two traces, among the rows that are computed. */
export function largestDifference(grid: Grid, queries: Item[], keys: Item[]): number {
  let largest = 0;
  for (const from of queries) {
    if (from.index >= grid.nComputed) continue;
    for (const to of keys) largest = Math.max(largest, Math.abs(differenceAt(grid, from.index * grid.keys.length + to.index)) || 0);
  }
  return largest;
}

/** Keys, by default the visible ones of the first text, sorted by the query's weight on them, the largest first. */
export const keysByWeight = ({ weights }: Row, keys = visibleKeys.value): Item[] => [...keys].sort((a, b) => weights[b.index] - weights[a.index]);

export interface Pair {
  from: Item;
  to: Item;
  weight: number;
}

/** The `count` visible pairs of a query and a key with the largest weights, the largest first. */
export function strongestPairs(grid: Grid, count: number): Pair[] {
  const { queries, keys } = shownTexts.value[grid.traceIndex];
  const pairs = queries.slice(0, grid.nComputed).flatMap((from): Pair[] => {
    const weights = Float64Array.from(keys, ({ index }) => grid.weights[from.index * grid.keys.length + index]);
    return indicesOfLargest(weights, count).map((i) => ({ from, to: keys[i], weight: weights[i] }));
  });
  return pairs.sort((a, b) => b.weight - a.weight).slice(0, count);
}

export const progress = signal(0); // increases when more rows of `shownGrid` are computed; then the views that read this signal are drawn again

/** The weights [queries keys] of the shown head; null until the arrays of its layer are decoded. Each frame of the browser computes more rows. */
export const shownGrid = signal<Grid | null>(null);

effect(() => {
  if (!trace.value) return;
  const decodedLayer = decoded.value.get(layer.value);
  const otherLayer = secondLayer.value && decoded.value.get(secondLayer.value); // null = there is one trace; undefined = not decoded yet
  if (!decodedLayer || otherLayer === undefined) {
    shownGrid.value = null;
    return;
  }
  const [headIndex, changed] = [head.value, changes.value];
  const [grid, otherGrid] = (otherLayer ? allItems.value : allItems.value.slice(0, 1)).map(newGrid);
  if (otherGrid) [grid.otherGrid, otherGrid.otherGrid] = [otherGrid, grid];
  const fill = () => {
    const end = performance.now() + SLICE_MILLISECONDS;
    while (!isComplete(grid) && performance.now() < end) {
      if (otherLayer && otherGrid.nComputed < otherGrid.queries.length) fillRow(otherGrid, otherLayer, headIndex, UNCHANGED);
      if (grid.nComputed < grid.queries.length) fillRow(grid, decodedLayer, headIndex, changed);
    }
  };
  fill();
  shownGrid.value = grid;
  if (isComplete(grid)) return;
  let timer = requestAnimationFrame(function more() {
    fill();
    progress.value += 1;
    if (!isComplete(grid)) timer = requestAnimationFrame(more);
  });
  return () => cancelAnimationFrame(timer);
});
