// The heads whose weights the sentence view draws: the head that is shown, and the heads compared with it

import { hueOf, fullColourWeight } from "../../parts/colours";
import { linkedChoice } from "../../state/linked-signals";
import { changes, compared, head, headName, layerNumber, layerOf, queryItem, secondLayerOf, trace, traceName } from "../../state/state";
import { shownGrid, shownRow, type Grid, type Row } from "../../state/weights";
import { UNCHANGED } from "../../trace/attention";
import type { Layer } from "../../trace/data";

export const FAINTEST_LINE = 0.02; // if no query is chosen and all tokens' weights are drawn, smaller weights have no line

/** "over" = the arcs of several heads in one drawing; "beside" = a drawing for each head. */
export const headsDrawn = linkedChoice("heads-drawn", "over", "beside");

/** A head whose weights are drawn, and the weights of the chosen query in this head (`row`). */
export interface DrawnHead {
  name: string;
  hue: number;
  row: Row | null;
  grid: Grid | null; // the weights of all queries; null for a compared head
  most: number; // the weight that has the full colour; it is the same for all heads and traces in the drawings
}

/** The drawings of the sentence view, from left to right: for each, the heads drawn in it, the shown head first. */
export function drawings(): DrawnHead[][] {
  const { second } = trace.value;
  const heads = [{ layer: layerNumber.value, head: head.value }, ...compared.value];
  const drawn = (of: (layer: number) => Layer, isSecond: boolean) =>
    heads.map(({ layer, head: headIndex }, i): DrawnHead => {
      const changed = i === 0 && !isSecond ? changes.value : UNCHANGED;
      const row = queryItem.value && shownRow(queryItem.value, of(layer), headIndex, changed);
      const grid = i > 0 ? null : isSecond ? (shownGrid.value?.beside ?? null) : shownGrid.value;
      const name = headName(layer, headIndex);
      return { name: second ? `${traceName(Number(isSecond))}: ${name}` : name, hue: hueOf(headIndex, of(layer).heads), row, grid, most: 1 };
    });
  const first = drawn(layerOf, false);
  const traces = second ? [first, drawn((layer) => secondLayerOf(layer)!, true)] : [first];
  const all = traces.flat();
  const most = Math.max(...all.map(({ row }) => (row ? fullColourWeight(row.weights) : 1)));
  for (const one of all) one.most = most;
  return headsDrawn.value === "beside" ? heads.flatMap((_, i) => traces.map((own) => [own[i]])) : traces;
}
