// The heads whose weights are drawn: the one that is shown, and those beside it

import { UNCHANGED } from "./attention";
import { hueOf } from "./colours";
import { shownRow, type Row } from "./grid";
import { weightText } from "./numbers";
import { changes, colourScale, compared, head, layerNumber, layerOf, queryItem } from "./state";
import { words } from "./words";

export const FAINTEST_LINE = 0.02; // with every token shown, smaller weights have no line

/** A head whose weights are drawn, with the query's row; the head that is shown comes first. */
export interface Drawn {
  layer: number;
  head: number | null;
  hue: number;
  row: Row | null;
}

export function drawnHeads(): Drawn[] {
  const heads = [{ layer: layerNumber.value, head: head.value }, ...compared.value];
  return heads.map((one, i) => {
    const layer = layerOf(one.layer);
    const row = queryItem.value && shownRow(queryItem.value, layer, one.head, i === 0 ? changes.value : UNCHANGED);
    return { ...one, hue: hueOf(one.head, layer.heads), row };
  });
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
