// The heads whose weights the sentence view draws: the head that is shown, and the heads compared with it

import { hueOf, fullColourWeight } from "../../parts/colours";
import { linkedChoice } from "../../state/linked-signals";
import { changes, compared, cut, head, headName, layerNumber, layerOf, queryItem, secondLayerOf, temperature, trace, traceName } from "../../state/state";
import { shownGrid, shownRow, type Grid, type Row } from "../../state/weights";
import { UNCHANGED } from "../../trace/attention";
import type { Layer } from "../../trace/data";
import { words } from "../../words";

export const FAINTEST_LINE = 0.02; // if no query is chosen and all tokens' weights are drawn, smaller weights have no line

/** "over" = the arcs of several heads in one drawing; "beside" = a drawing for each head. */
export const headsDrawn = linkedChoice("heads-drawn", "over", "beside");

/** A head whose weights are drawn, and the weights of the chosen query in this head (`row`). */
export interface DrawnHead {
  name: string;
  hue: number;
  row: Row | null;
  dashed: boolean; // true = the shown head with the model's own weights, drawn dashed beside the same head with the reader's changes
  grid: Grid | null; // the weights of all queries; null for a compared head
  most: number; // the weight that has the full colour; it is the same for all heads and traces in the drawings
}

/** The drawings of the sentence view, from left to right: for each, the heads drawn in it, the shown head first. */
export function drawings(): DrawnHead[][] {
  const { second } = trace.value;
  const shown = { layer: layerNumber.value, head: head.value };
  const isShown = (one: typeof shown) => one.layer === shown.layer && one.head === shown.head;
  const changed = temperature.value !== 1 || cut.value.size > 0;
  const twice = changed && compared.value.some(isShown);
  const heads = [shown, ...compared.value.filter((one) => changed || !isShown(one))];
  const drawn = (of: (layer: number) => Layer, isSecond: boolean) =>
    heads.map(({ layer, head: headIndex }, i): DrawnHead => {
      const row = queryItem.value && shownRow(queryItem.value, of(layer), headIndex, i === 0 && !isSecond ? changes.value : UNCHANGED);
      const grid = i > 0 ? null : isSecond ? (shownGrid.value?.beside ?? null) : shownGrid.value;
      const dashed = i > 0 && twice && isShown(heads[i]);
      const version = dashed ? ` · ${words().asInModel}` : twice && i === 0 && !isSecond ? ` · ${words().asChanged}` : "";
      const name = headName(layer, headIndex) + version;
      return { dashed, name: second ? `${traceName(Number(isSecond))}: ${name}` : name, hue: hueOf(headIndex, of(layer).heads), row, grid, most: 1 };
    });
  const first = drawn(layerOf, false);
  const traces = second ? [first, drawn((layer) => secondLayerOf(layer)!, true)] : [first];
  const all = traces.flat();
  const most = Math.max(...all.map(({ row }) => (row ? fullColourWeight(row.weights) : 1)));
  for (const one of all) one.most = most;
  return headsDrawn.value === "beside" ? heads.flatMap((_, i) => traces.map((own) => [own[i]])) : traces;
}
