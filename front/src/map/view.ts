// How a map lies on its canvas: which level is drawn, which tiles are in view, which query and key are under a point

import { cellsInView } from "../canvas";
import type { Place } from "./tiles";

/** How the weights of a map lie on the canvas; all lengths are in pixels. */
export interface View {
  queries: number;
  keys: number;
  turned: boolean; // true = queries from left to right, keys downwards; false = keys from left to right, queries downwards
  left: number; // where the part of the canvas that shows weights begins, beside and below the labels
  top: number;
  width: number; // the width and the height of the part that shows weights
  height: number;
  x: number; // from `left` to the first column of weights (key 0 or, if turned, query 0); negative = it is out of view
  y: number; // from `top` to the first row of weights
  size: number; // the width and height of one weight
}

/** The level that is drawn (see map/tiles.ts): the lowest one whose cells are at least as large as a pixel of the screen. */
export const levelOf = (view: View): number => Math.max(0, Math.ceil(-Math.log2(view.size * (devicePixelRatio || 1))));

/**
 * For the axis of the queries and for that of the keys: where the first one begins (`…From`), and how long the part in view is
 * (`…Room`), in pixels.
 */
export function axes({ turned, x, y, width, height }: View): { queriesFrom: number; queriesRoom: number; keysFrom: number; keysRoom: number } {
  const [across, down] = [{ from: x, room: width }, { from: y, room: height }];
  const [queries, keys] = turned ? [across, down] : [down, across];
  return { queriesFrom: queries.from, queriesRoom: queries.room, keysFrom: keys.from, keysRoom: keys.room };
}

/** The queries in view and the keys in view, each as a range: the index of the first one, and the index after the last one. */
export function inView(view: View): { queries: [number, number]; keys: [number, number] } {
  const { queriesFrom, queriesRoom, keysFrom, keysRoom } = axes(view);
  const { size, queries, keys } = view;
  return { queries: cellsInView(queriesFrom, queriesRoom, size, queries), keys: cellsInView(keysFrom, keysRoom, size, keys) };
}

/**
 * The tiles of a level that are in view, and `around` more rows and columns of tiles on each side. `tile`: how many rows, and columns,
 * of cells a tile has.
 */
export function tilesInView(view: View, level: number, tile: number, around = 0): Place[] {
  const { queries, keys } = inView(view);
  const side = tile * 2 ** level;
  const range = ([first, last]: [number, number], count: number) => {
    const from = Math.max(0, Math.floor(first / side) - around);
    const to = Math.min(Math.ceil(count / side), Math.ceil(last / side) + around);
    return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  };
  const columns = range(keys, view.keys);
  return range(queries, view.queries).flatMap((row) => columns.map((column) => ({ level, row, column })));
}

/** The query and the key under a point of the canvas; null if there is no weight at the point. */
export function tokensAt(view: View, x: number, y: number): { query: number; key: number } | null {
  if (x < view.left || y < view.top || x > view.left + view.width || y > view.top + view.height) return null;
  const [across, down] = [(x - view.left - view.x) / view.size, (y - view.top - view.y) / view.size].map(Math.floor);
  const [query, key] = view.turned ? [across, down] : [down, across];
  return key >= 0 && query >= 0 && key < view.keys && query < view.queries ? { query, key } : null;
}

/** A cell of a level. Its weights are those of some successive queries on some successive keys; the first and the last are given. */
export interface Square {
  level: number;
  queries: [number, number];
  keys: [number, number];
}

export function squareOf(view: View, level: number, query: number, key: number): Square {
  const range = (token: number, count: number): [number, number] => {
    const first = Math.floor(token / 2 ** level) * 2 ** level;
    return [first, Math.min(first + 2 ** level, count) - 1];
  };
  return { level, queries: range(query, view.queries), keys: range(key, view.keys) };
}
