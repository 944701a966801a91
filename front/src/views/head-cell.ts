// A cell of the map of all heads

import type { Layer } from "../data";
import { summaryOf, type Summary } from "../grid";
import { headWeight } from "../head-weights";
import type { Item } from "../items";
import { restingQuery } from "../state";

export interface Cell {
  layer: Layer;
  head: number;
  to: Item | null; // the word on which the query's weight is largest
  weight: number | null; // null until the layer is decoded
  summary?: Summary;
}

/** A head with the query's largest weight on another word; without a query, with the largest weight of any token. */
export function cellOf(layer: Layer, head: number): Cell {
  const summary = summaryOf(layer, head);
  const strongest = restingQuery.value ? headWeight(layer, head) : null;
  return { layer, head, summary, to: strongest?.to ?? null, weight: (restingQuery.value ? strongest?.weight : summary?.strongest) ?? null };
}
