// The heads whose weights are drawn: the one that is shown, and those beside it

import { UNCHANGED } from "./attention";
import { hueOf } from "./colours";
import { shownGrid, shownRow, type Grid, type Row } from "./grid";
import { weightText } from "./numbers";
import type { Layer } from "./data";
import { changes, colourScale, compared, head, headName, layerNumber, layerOf, queryItem, secondLayerOf, trace, traceName } from "./state";
import { switchOf } from "./switches";
import { words } from "./words";

export const FAINTEST_LINE = 0.02; // with every token shown, smaller weights have no line

/** Whether the arcs of several heads are drawn over one another, or beside one another. */
export const headsDrawn = switchOf("heads-drawn", "over", "beside");

/** A head whose weights are drawn, with the query's row. */
export interface Drawn {
  name: string;
  hue: number;
  row: Row | null;
  grid: Grid | null; // the rows of all queries; null if another head is the shown one
  most: number; // the weight that is drawn strongest, the same for all heads and traces that are drawn
}

/** The drawings of the sentence, which stand beside one another; in each, the head that is shown comes first. */
export function drawings(): Drawn[][] {
  const { second } = trace.value;
  const heads = [{ layer: layerNumber.value, head: head.value }, ...compared.value];
  const drawn = (of: (layer: number) => Layer, isSecond: boolean) =>
    heads.map(({ layer, head: headIndex }, i): Drawn => {
      const changed = i === 0 && !isSecond ? changes.value : UNCHANGED;
      const row = queryItem.value && shownRow(queryItem.value, of(layer), headIndex, changed);
      const grid = i > 0 ? null : isSecond ? (shownGrid.value?.beside ?? null) : shownGrid.value;
      const name = headName(layer, headIndex);
      return { name: second ? `${traceName(Number(isSecond))}: ${name}` : name, hue: hueOf(headIndex, of(layer).heads), row, grid, most: 1 };
    });
  const first = drawn(layerOf, false);
  const traces = second ? [first, drawn((layer) => secondLayerOf(layer)!, true)] : [first];
  const all = traces.flat();
  const most = Math.max(...all.map(({ row }) => (row ? strongestOf(row) : 1)));
  for (const one of all) one.most = most;
  return headsDrawn.value === "beside" ? heads.flatMap((_, i) => traces.map((own) => [own[i]])) : traces;
}

/** A key's weight as text, or the word for a masked key. */
export function figure(row: Row | null, key: number, decimals = 4): string {
  if (!row) return "";
  if (row.masked[key]) return words().masked;
  return decimals === 4 ? weightText(row.weights[key]) : row.weights[key].toFixed(decimals);
}

/** The weight that is drawn strongest: the query's largest on the relative scale, else 1. */
export const strongestOf = (row: Row): number =>
  colourScale.value === "row" ? row.weights.reduce((most, weight) => Math.max(most, weight), 0) : 1;

/** What the ends of the colour scale mean. */
export const scaleEnds = () => ({
  low: colourScale.value === "log" ? "0.0001" : "0",
  high: colourScale.value === "row" ? words().largestOfEach : "1",
});
