// The page of `regard.indirect_effects`: the effect on the model's output if one head's output comes from another run

import { computed } from "@preact/signals";
import { kindName, trace } from "./state";

const byHead = computed(() => {
  const effects = (trace.value.effects ?? []).filter(({ kind }) => kind === kindName.value);
  return new Map(effects.map(({ layer, head, effect }) => [`${layer} ${head}`, effect]));
});

/** How much of the difference between a clean and a corrupted run the output of a head restores (1 = all); undefined = not measured. */
export const effectOf = (layer: number, head: number): number | undefined => byHead.value.get(`${layer} ${head}`);

/** The largest effect of a head, as its absolute value, among all kinds of attention. */
export const largestEffect = (): number => Math.max(0, ...(trace.value.effects ?? []).map(({ effect }) => Math.abs(effect)));
