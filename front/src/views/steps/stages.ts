// The stages of the attention of one query: the numbers of each, which stages can be shown, and which stage is shown

import { computed } from "@preact/signals";
import { course } from "../../state/course";
import { linkedNumber } from "../../state/linked-signals";
import { changes, cut, decoded, head, keyTokens, layer, query, stage, trace } from "../../state/state";
import { isCutFrom, stagesOf, type Stages } from "../../trace/attention";
import type { Decoded } from "../../trace/blocks";
import { exampleHasOutput, exampleHasProjections } from "./worked-example";

export const STAGE_NAMES = [
  "stepProject", "stepProduct", "stepScale", "stepMask", "stepExponential",
  "stepSum", "stepWeight", "stepContext", "stepOutput",
] as const;
export const [PROJECT, PRODUCT, SCALE, MASK, EXPONENTIAL, SUM, WEIGHT, CONTEXT, OUTPUT] = STAGE_NAMES.keys();
export const chosenKey = linkedNumber("step-key", null); // the position of the key whose vectors are shown; null = the strongest key

/** The head and query whose stages are shown, and the numbers of each stage. */
export interface ShownStages {
  layer: Decoded;
  head: number;
  query: number; // the position of the query
  stages: Stages;
  byWeight: number[]; // the positions of the keys, from the largest weight to the smallest; of equal weights, such as 0, the larger score first
}

/** The stages that are shown; null = none: no query is chosen, the heads are averaged, or the layer has no queries (it is not decoded yet, or stores only weights). */
export const shownStages = computed<ShownStages | null>(() => {
  const decodedLayer = decoded.value.get(layer.value);
  if (!decodedLayer?.query || head.value === null || query.value === null) return null;
  const stages = stagesOf(decodedLayer, head.value, query.value, changes.value);
  return { layer: decodedLayer, head: head.value, query: query.value, stages, byWeight: positionsByWeight(stages) };
});

/** The stages that can be shown, as indices in STAGE_NAMES. */
export function availableStages(): number[] {
  const shown = shownStages.value;
  const hasValues = Boolean(shown?.layer.value);
  const isAvailable: Record<number, boolean> = {
    [PROJECT]: exampleHasProjections(),
    [SCALE]: Boolean(shown && isScaled(shown)),
    [MASK]: Boolean(shown && isMasked(shown)),
    [CONTEXT]: hasValues,
    [OUTPUT]: exampleHasOutput() || (hasValues && Boolean(shown!.layer.output)),
  };
  return [...STAGE_NAMES.keys()].filter((stage) => isAvailable[stage] ?? true);
}

export const temperatureOf = ({ layer }: ShownStages) => (layer.temperature ?? 1) * changes.value.temperature;
/** Whether a score is more than the dot product: a stage of its own shows the scale, softcap, bias and temperature. */
export const isScaled = (shown: ShownStages) =>
  (shown.layer.scale ?? 1) !== 1 || Boolean(shown.layer.softcap || shown.stages.bias) || temperatureOf(shown) !== 1;
export const isMasked = (shown: ShownStages) => Boolean(shown.layer.maskBits) || shown.stages.masked.includes(-Infinity);
export const isCutAt = ({ query }: ShownStages, key: number) => isCutFrom(cut.value, query, key);

/** The stage that is shown. Until the reader chooses one, a worked example and a course begin with the first, other pages with the context. */
export function currentStage(): number {
  const stages = availableStages();
  const beginsFirst = Boolean(trace.value.worked || course.value);
  const wanted = stage.value ?? (beginsFirst ? stages[0] : CONTEXT);
  return stages.filter((one) => one <= wanted).at(-1) ?? stages[0];
}

/** The stage before (`steps` -1) or after (1) the shown stage; null if there is none. */
export const neighbour = (steps: -1 | 1) => availableStages()[availableStages().indexOf(currentStage()) + steps] ?? null;

/** The position of the key whose vectors are shown. */
export const shownKey = ({ byWeight }: ShownStages) =>
  chosenKey.value !== null && chosenKey.value < keyTokens.value.length ? chosenKey.value : byWeight[0];

const positionsByWeight = ({ weights, masked }: Stages): number[] =>
  Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || masked[b] - masked[a] || a - b);
