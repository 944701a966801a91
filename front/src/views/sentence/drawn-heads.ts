// The heads whose weights the sentence view draws: the head that is shown, and the heads compared with it

import { hueOf, fullColourWeight } from "../../parts/colours";
import { linkedChoice } from "../../state/linked-signals";
import { changes, compared, head, headName, layerNumber, layerOf, secondLayerOf, traceName, weightsChanged } from "../../state/state";
import { shownTexts, type ShownText } from "../../state/texts";
import { rowOf, shownGrid, type Grid, type Row } from "../../state/weights";
import { UNCHANGED } from "../../trace/attention";
import { words } from "../../words";

export const FAINTEST_LINE = 0.02; // the smallest weight that is drawn if no query is chosen

/** "over" = the arcs of several heads in one drawing; "beside" = a drawing for each head. */
export const headsDrawn = linkedChoice("heads-drawn", "over", "beside");

/** A head whose weights are drawn, and the weights of the chosen query in this head (`row`). */
export interface DrawnHead {
  name: string;
  text: ShownText; // the text that the head reads
  hue: number;
  row: Row | null;
  dashed: boolean; // true = the shown head with the model's own weights, drawn dashed beside the same head with the reader's changes
  grid: Grid | null; // the weights of all queries; null for a compared head
  fullWeight: number; // the weight that has the full colour; it is the same for all heads and traces in the drawings
}

/** The drawings of the sentence view, from left to right: for each, the heads drawn in it, the shown head first. */
export function drawings(): DrawnHead[][] {
  const shown = { layer: layerNumber.value, head: head.value };
  const isShown = (one: typeof shown) => one.layer === shown.layer && one.head === shown.head;
  const twice = weightsChanged.value && compared.value.some(isShown); // the shown head is drawn as the reader changed it and as the model has it
  const heads = [shown, ...compared.value.filter((one) => weightsChanged.value || !isShown(one))];
  const drawn = (text: ShownText) =>
    heads.map(({ layer, head: headIndex }, i): DrawnHead => {
      const isSecond = text.traceIndex === 1;
      const of = isSecond ? secondLayerOf(layer)! : layerOf(layer);
      const row = text.query && rowOf(text.query, of, headIndex, i === 0 && !isSecond ? changes.value : UNCHANGED, text.all.keys);
      const grid = i > 0 ? null : isSecond ? (shownGrid.value?.beside ?? null) : shownGrid.value;
      const dashed = i > 0 && twice && isShown(heads[i]);
      const version = dashed ? ` · ${words().asInModel}` : twice && i === 0 && !isSecond ? ` · ${words().asChanged}` : "";
      const name = headName(layer, headIndex) + version;
      return { dashed, name: shownTexts.value.length > 1 ? `${traceName(text.traceIndex)}: ${name}` : name, text, hue: hueOf(headIndex, of.heads), row, grid, fullWeight: 1 };
    });
  const traces = shownTexts.value.map(drawn);
  const all = traces.flat();
  const fullWeight = Math.max(...all.map(({ row }) => (row ? fullColourWeight(row.weights) : 1)));
  for (const one of all) one.fullWeight = fullWeight;
  return headsDrawn.value === "beside" ? heads.flatMap((_, i) => traces.map((own) => [own[i]])) : traces;
}
