// The cells of a long text's weight map as text: the queries and keys of a cell, and the largest or the mean of its weights

import { preciseText } from "../../parts/numbers";
import { inView, levelOf, type View } from "../../parts/view";
import { visibleKeys, visibleQueries } from "../../state/state";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { pool } from "./server";
import type { Tiles } from "./tiles";

const LISTED_CELLS = 200; // the table below the map lists the numbers of at most so many cells

/** A cell of the map: 2^level × 2^level weights. `queries`, `keys`: its first and last query and its first and last key, as indices of visible tokens. */
interface Square {
  level: number;
  queries: [number, number];
  keys: [number, number];
}

export function squareOf(view: View, level: number, query: number, key: number): Square {
  const range = (token: number, count: number): [number, number] => {
    const first = Math.floor(token / 2 ** level) * 2 ** level;
    return [first, Math.min(first + 2 ** level, count) - 1];
  };
  return { level, queries: range(query, view.queries.length), keys: range(key, view.keys.length) };
}

/** The positions in the text of the first and the last token of a range of visible tokens. */
const positionsOf = (items: Item[], [first, last]: [number, number]): [number, number] => [items[first].positions[0], items[last].positions[0]];

const queriesText = (range: [number, number]) => span(positionsOf(visibleQueries.value, range));
const keysText = (range: [number, number]) => span(positionsOf(visibleKeys.value, range));

const span = ([first, last]: [number, number]) =>
  first === last ? first.toLocaleString("en") : `${first.toLocaleString("en")}–${last.toLocaleString("en")}`;

/** The text for a cell: "queries 1,024–1,087, keys 0–63: the largest weight is 0.0123"; for a single weight, "5 it → 2 snake 0.0123". */
export function readout({ level, queries, keys }: Square, tiles: Tiles): string {
  const say = words();
  const number = tiles.numberAt(level, queries[0] / 2 ** level, keys[0] / 2 ** level);
  if (number === undefined) return "…";
  if (level > 0) {
    if (Number.isNaN(number)) return say.mapHidden(queriesText(queries), keysText(keys));
    return say.mapRead(pool.value, queriesText(queries), keysText(keys), preciseText(number));
  }
  const [query, key] = [visibleQueries.value[queries[0]], visibleKeys.value[keys[0]]];
  const weight = Number.isNaN(number) ? say.masked : preciseText(number);
  return `${queriesText(queries)} ${query.text} → ${keysText(keys)} ${key.text} ${weight}`;
}

/** The rows of the table: the cells in view with the largest numbers, each with its queries and keys. */
export function strongestCells(tiles: Tiles, view: View): string[][] {
  const level = levelOf(view);
  const side = 2 ** level;
  const { queries, keys } = inView(view);
  const cells: { number: number; row: number; column: number }[] = [];
  for (let row = Math.floor(queries[0] / side); row * side < queries[1]; row++) {
    for (let column = Math.floor(keys[0] / side); column * side < keys[1]; column++) {
      const number = tiles.numberAt(level, row, column);
      if (number !== undefined && !Number.isNaN(number)) cells.push({ number, row, column });
    }
  }
  cells.sort((a, b) => b.number - a.number);
  return cells.slice(0, LISTED_CELLS).map(({ number, row, column }) => {
    const square = squareOf(view, level, row * side, column * side);
    return [queriesText(square.queries), keysText(square.keys), preciseText(number)];
  });
}
