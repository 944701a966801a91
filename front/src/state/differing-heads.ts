// Where two traces differ: the heads, and the query that differs most in each

import { batch, computed, effect, signal } from "@preact/signals";
import { weightsOf } from "../trace/attention";
import type { DifferingHead, SecondTrace } from "../trace/data";
import { itemsOf } from "../trace/items";
import { pairedInPlace, pairItems } from "../trace/pairs";
import { chooseHead, chooseKind, decoded, kindName, locked, query, second, trace } from "./state";
import { inSlices } from "./slices";

const nameOf = (kind: string, layer: number, head: number) => `${kind} ${layer} ${head}`;

const computedHeads = signal<DifferingHead[]>([]); // the heads that differ between the traces, if the second trace has no list of them; empty until they are computed

/** Whether weights of the two traces can be subtracted: each token of one text is paired with the token at the same position in the other text. */
const isComparable = computed(() =>
  (["source", "target"] as const).every((side) => {
    const [items, others] = [trace.value[side], second.value?.[side] ?? trace.value[side]].map((tokens) => itemsOf(tokens, false));
    return pairedInPlace(items, others, pairItems(items, others));
  }),
);

/** The heads that differ between the two traces, the largest difference first; null = there is only one trace, or weights cannot be subtracted. */
export const differingHeads = computed<DifferingHead[] | null>(() => {
  if (!second.value) return null;
  return second.value.differing_heads ?? (isComparable.value ? computedHeads.value : null);
});

effect(() => {
  const other = second.value;
  computedHeads.value = [];
  if (!other || other.differing_heads || !isComparable.value) return;
  const heads: DifferingHead[] = [];
  const finish = () => (computedHeads.value = heads.sort((a, b) => b.moved - a.moved));
  return inSlices(compareHeads(other, heads), () => undefined, finish);
});

/** Add to `heads` each head that differs, with the query that differs most: its `moved`, ½ Σ |weight − other weight| over all keys, is the largest. */
function* compareHeads(other: SecondTrace, heads: DifferingHead[]): Generator<"wait" | "mayPause"> {
  for (const [kind, { queries, layers }] of Object.entries(trace.value.kinds)) {
    for (const layer of layers) {
      const otherLayer = other.kinds[kind].layers.find((one) => one.layer === layer.layer)!;
      while (!decoded.peek().has(layer) || !decoded.peek().has(otherLayer)) yield "wait";
      for (let head = 0; head < layer.heads; head++) {
        const differing = { kind, layer: layer.layer, head, query: 0, moved: 0 };
        for (let row = 0; row < trace.value[queries].length; row++) {
          const [weights, otherWeights] = [layer, otherLayer].map((one) => weightsOf(decoded.peek().get(one)!, head, row));
          const moved = weights.reduce((sum, weight, key) => sum + Math.abs(weight - otherWeights[key]), 0) / 2;
          if (moved > differing.moved) [differing.query, differing.moved] = [row, moved];
          if (row % 16 === 15) yield "mayPause";
        }
        if (differing.moved > 0) heads.push(differing);
        yield "mayPause";
      }
    }
  }
}

const byHead = computed(() => new Map(differingHeads.value?.map((one) => [nameOf(one.kind, one.layer, one.head), one])));

/** How a head of the shown kind of attention differs between the two traces; undefined = it does not differ. */
export const differingHead = (layer: number, head: number): DifferingHead | undefined => byHead.value.get(nameOf(kindName.value, layer, head));

/** Of all heads and queries, the largest share of attention that goes to other keys in the second trace; 0 = the traces do not differ. */
export const largestMoved = (): number => differingHeads.value?.[0]?.moved ?? 0;

/** Show a head that differs between the two traces, and lock the query whose weights differ most. */
export function showDifferingHead({ kind, layer, head, query: position }: DifferingHead): void {
  batch(() => {
    if (kind !== kindName.value) chooseKind(kind);
    chooseHead(layer, head);
    [query.value, locked.value] = [position, true];
  });
}
