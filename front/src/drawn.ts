// The heads whose weights the sentence view draws: the head that is shown, and the heads compared with it

import { UNCHANGED } from "./attention";
import { hueOf } from "./colours";
import { shownGrid, shownRow, type Grid, type Row } from "./grid";
import { weightText } from "./numbers";
import type { Layer } from "./data";
import { changes, colourScale, compared, head, headName, layerNumber, layerOf, queryItem, secondLayerOf, trace, traceName } from "./state";
import { switchOf } from "./switches";
import { words } from "./words";

export const FAINTEST_LINE = 0.02; // if no query is chosen and all tokens' weights are drawn, smaller weights have no line

/** "over" = the arcs of several heads in one drawing; "beside" = a drawing for each head. */
export const headsDrawn = switchOf("heads-drawn", "over", "beside");

/** A head whose weights are drawn, and the weights of the chosen query in this head (`row`). */
export interface Drawn {
  name: string;
  hue: number;
  row: Row | null;
  grid: Grid | null; // the weights of all queries; only the shown head has them, a compared one has null
  most: number; // the weight that has the full colour; it is the same for all heads and traces in the drawings
}

/** Return the drawings of the sentence view, which stand beside one another: for each, the heads drawn in it, the shown head first. */
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

/** Return a key's weight as text, the word "masked" if the query may not attend to the key, or "" without a row. */
export function figure(row: Row | null, key: number, decimals = 4): string {
  if (!row) return "";
  if (row.masked[key]) return words().masked;
  return decimals === 4 ? weightText(row.weights[key]) : row.weights[key].toFixed(decimals);
}

/** Return the weight that has the full colour: on the relative scale the query's largest weight, else 1. */
export const strongestOf = (row: Row): number =>
  colourScale.value === "row" ? row.weights.reduce((most, weight) => Math.max(most, weight), 0) : 1;

/** The texts at the two ends of the colour scale. */
export const scaleEnds = () => ({
  low: colourScale.value === "log" ? "0.0001" : "0",
  high: colourScale.value === "row" ? words().largestOfEach : "1",
});
