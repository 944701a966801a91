// Where two traces of one text differ: the heads, and the query that differs most in each

import { batch, computed } from "@preact/signals";
import type { PartedHead } from "../trace/data";
import { chooseHead, chooseKind, kindName, locked, query, trace } from "./state";

const nameOf = (kind: string, layer: number, head: number) => `${kind} ${layer} ${head}`;

const byHead = computed(() => new Map(trace.value.second?.parted.map((one) => [nameOf(one.kind, one.layer, one.head), one])));

/** How a head of the shown kind of attention differs between the two traces; undefined = it does not differ. */
export const partedHead = (layer: number, head: number): PartedHead | undefined => byHead.value.get(nameOf(kindName.value, layer, head));

/** Of all heads and queries, the largest share of attention that goes to other keys in the second trace; 0 = the traces do not differ. */
export const mostMoved = (): number => trace.value.second?.parted[0]?.moved ?? 0;

/** Show a head that differs between the two traces, and choose its query that differs most. */
export function showParted({ kind, layer, head, query: position }: PartedHead): void {
  batch(() => {
    if (kind !== kindName.value) chooseKind(kind);
    chooseHead(layer, head);
    [query.value, locked.value] = [position, true];
  });
}
