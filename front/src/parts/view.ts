// How the weights [queries keys] of a head lie on a canvas, and which of them are in view

import type { Item } from "../trace/items";

/** How the weights of a head lie on a canvas: each weight is a square cell. All lengths are in pixels. */
export interface View {
  queries: Item[];
  keys: Item[];
  turned: boolean; // true = queries from left to right, keys downwards; false = keys from left to right, queries downwards
  left: number; // the width of the labels, which are left of the weights
  top: number; // the height of the labels, which are above the weights
  width: number; // the width of the part of the canvas that shows weights
  height: number; // the height of the part of the canvas that shows weights
  x: number; // the distance from the labels to the first column of weights; negative = this column is out of view
  y: number; // the distance from the labels to the first row of weights; negative = this row is out of view
  size: number; // the width and height of the cell of one weight
}

/** Where the first query begins on its axis (`queriesFrom`), and how long this axis is on the canvas (`queriesRoom`), in pixels; the same for keys. */
export function axes({ turned, x, y, width, height }: View): { queriesFrom: number; queriesRoom: number; keysFrom: number; keysRoom: number } {
  const [across, down] = [{ from: x, room: width }, { from: y, room: height }];
  const [queries, keys] = turned ? [across, down] : [down, across];
  return { queriesFrom: queries.from, queriesRoom: queries.room, keysFrom: keys.from, keysRoom: keys.room };
}

/** The queries in view and the keys in view, each as a range: the index of the first one, and the index after the last one. */
export function inView(view: View): { queries: [number, number]; keys: [number, number] } {
  const { queriesFrom, queriesRoom, keysFrom, keysRoom } = axes(view);
  const range = (from: number, room: number, count: number): [number, number] => [
    Math.max(0, Math.floor(-from / view.size)),
    Math.min(count, Math.ceil((room - from) / view.size)),
  ];
  return { queries: range(queriesFrom, queriesRoom, view.queries.length), keys: range(keysFrom, keysRoom, view.keys.length) };
}

/** The weight under a point of the canvas, as the indices of its query and its key; null if there is none. */
export function weightAt(view: View, x: number, y: number): { query: number; key: number } | null {
  if (x < view.left || y < view.top || x > view.left + view.width || y > view.top + view.height) return null;
  const [across, down] = [(x - view.left - view.x) / view.size, (y - view.top - view.y) / view.size].map(Math.floor);
  const [query, key] = view.turned ? [across, down] : [down, across];
  const isCell = key >= 0 && query >= 0 && key < view.keys.length && query < view.queries.length;
  return isCell ? { query, key } : null;
}

// Small weights are drawn as tiles, which are images. On level L, each pixel of a tile stands for a square of 2^L × 2^L weights.

/** Which tile (an image of many weights): its level (a pixel is 2^level × 2^level weights), and its row and column, counted in tiles from 0. */
export interface TilePlace {
  level: number;
  row: number;
  column: number;
}

/** The level of the tiles to draw: the finest level whose pixels are not smaller than a pixel of the screen. */
export const levelOf = (view: View): number => Math.max(0, Math.ceil(-Math.log2(view.size * (devicePixelRatio || 1))));

/** The tiles in view, and `around` more rows and columns of tiles on each side. A tile is an image of `side` × `side` pixels, each of 2^level × 2^level weights. */
export function tilesInView(view: View, level: number, side: number, around = 0): TilePlace[] {
  const { queries, keys } = inView(view);
  const cellsPerSide = side * 2 ** level; // how many queries, and how many keys, a tile shows
  const range = ([first, last]: [number, number], count: number) => {
    const from = Math.max(0, Math.floor(first / cellsPerSide) - around);
    const to = Math.min(Math.ceil(count / cellsPerSide), Math.ceil(last / cellsPerSide) + around);
    return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  };
  const columns = range(keys, view.keys.length);
  return range(queries, view.queries.length).flatMap((row) => columns.map((column) => ({ level, row, column })));
}
