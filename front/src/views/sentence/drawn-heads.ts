// The heads whose weights the sentence view draws: the head that is shown, and the heads compared with it

import { hueOf, fullColourWeight } from "../../parts/colours";
import { linkedChoice } from "../../state/linked-signals";
import { changes, compared, head, headName, type HeadPlace, layerNumber, layerOf, secondLayerOf, traceName, weightsChanged } from "../../state/state";
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
  const shownHead = { layer: layerNumber.value, head: head.value };
  const isShown = (one: HeadPlace) => one.layer === shownHead.layer && one.head === shownHead.head;
  const isDrawnTwice = weightsChanged.value && compared.value.some(isShown); // the shown head is drawn as the reader changed it and as the model has it
  const heads = [shownHead, ...compared.value.filter((one) => weightsChanged.value || !isShown(one))];
  const headsOfTrace = (text: ShownText) =>
    heads.map(({ layer, head: headIndex }, i): DrawnHead => {
      const isFirstTrace = text.traceIndex === 0;
      const layerOfTrace = isFirstTrace ? layerOf(layer) : secondLayerOf(layer)!;
      const gridOfTrace = isFirstTrace ? shownGrid.value : (shownGrid.value?.otherGrid ?? null);
      const hasChanges = i === 0 && isFirstTrace;
      const row = text.query && rowOf(text.query, layerOfTrace, headIndex, hasChanges ? changes.value : UNCHANGED, text.all.keys);
      const dashed = i > 0 && isDrawnTwice && isShown(heads[i]);
      let name = headName(layer, headIndex);
      if (dashed) name += ` · ${words().asInModel}`;
      if (isDrawnTwice && hasChanges) name += ` · ${words().asChanged}`;
      if (shownTexts.value.length > 1) name = `${traceName(text.traceIndex)}: ${name}`;
      return { dashed, name, text, hue: hueOf(headIndex, layerOfTrace.heads), row, grid: i === 0 ? gridOfTrace : null, fullWeight: 1 };
    });
  const traces = shownTexts.value.map(headsOfTrace);
  const drawnHeads = traces.flat();
  const fullWeight = Math.max(...drawnHeads.map(({ row }) => (row ? fullColourWeight(row.weights) : 1)));
  for (const one of drawnHeads) one.fullWeight = fullWeight;
  if (headsDrawn.value === "over") return traces;
  return heads.flatMap((_, i) => traces.map((headsOfOneTrace) => [headsOfOneTrace[i]]));
}
