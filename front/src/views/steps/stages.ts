// The stages of the attention of one query: the numbers of each, which stages can be shown, and which stage is shown

import { computed } from "@preact/signals";
import { course } from "../../state/course";
import { linkedNumber } from "../../state/linked-signals";
import { changes, cut, decoded, head, keyTokens, layer, query, stage, trace } from "../../state/state";
import { isCutFrom, stagesOf, type Stages } from "../../trace/attention";
import type { Decoded } from "../../trace/blocks";
import { exampleHasOutput, exampleHasProjections } from "./worked-example";

export const NAMES = [
  "stepProject", "stepProduct", "stepScale", "stepMask", "stepExponential",
  "stepSum", "stepWeight", "stepContext", "stepOutput",
] as const;
export const [PROJECT, PRODUCT, SCALE, MASK, EXPONENTIAL, SUM, WEIGHT, CONTEXT, OUTPUT] = NAMES.keys();
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
export const shown = computed<ShownStages | null>(() => {
  const ready = decoded.value.get(layer.value);
  if (!ready?.query || head.value === null || query.value === null) return null;
  const stages = stagesOf(ready, head.value, query.value, changes.value);
  return { layer: ready, head: head.value, query: query.value, stages, byWeight: positionsByWeight(stages) };
});

/** The stages that can be shown, as indices in NAMES. */
export function availableStages(): number[] {
  const now = shown.value;
  const missing = new Set([
    ...(exampleHasProjections() ? [] : [PROJECT]),
    ...(now && isScaled(now) ? [] : [SCALE]),
    ...(now && isMasked(now) ? [] : [MASK]),
    ...(now?.layer.value ? [] : [CONTEXT]),
    ...(exampleHasOutput() || (now?.layer.value && now.layer.output) ? [] : [OUTPUT]),
  ]);
  return [...NAMES.keys()].filter((one) => !missing.has(one));
}

export const temperatureOf = ({ layer }: ShownStages) => (layer.temperature ?? 1) * changes.value.temperature;
export const isScaled = (now: ShownStages) => (now.layer.scale ?? 1) !== 1 || Boolean(now.layer.softcap || now.stages.bias) || temperatureOf(now) !== 1;
export const isMasked = (now: ShownStages) => Boolean(now.layer.maskBits) || now.stages.masked.includes(-Infinity);
export const isCutAt = ({ query }: ShownStages, key: number) => isCutFrom(cut.value, query, key);

/** The stage that is shown. Until the reader chooses one, a worked example and a course begin with the first, other pages with the context. */
export function currentStage(): number {
  const wanted = stage.value ?? (trace.value.worked || course.value ? -1 : CONTEXT);
  return availableStages().filter((one) => one <= wanted).at(-1) ?? availableStages()[0];
}

/** The stage before (-1) or after (1) the shown stage; null if there is none. */
export const neighbour = (by: number) => availableStages()[availableStages().indexOf(currentStage()) + by] ?? null;

export const keyOf = (now: ShownStages) => chosenKey.value !== null && chosenKey.value < keyTokens.value.length ? chosenKey.value : now.byWeight[0];

const positionsByWeight = ({ weights, masked }: Stages): number[] => Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || masked[b] - masked[a] || a - b);
