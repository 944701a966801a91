// A cell in the view of all heads

import type { Layer } from "../data";
import { summaryOf, type Summary } from "../grid";
import { headWeight } from "../head-weights";
import type { Item } from "../items";
import { restingQuery } from "../state";

/** What is shown of one head in the view of all heads. */
export interface Cell {
  layer: Layer;
  head: number;
  to: Item | null; // the other word on which the query has its largest weight; null = there is no query, or the weight is 0 or not computed yet
  weight: number | null; // the query's largest weight on another word; without a query, the largest weight of any word; null until it is computed
  summary?: Summary;
}

/** The cell of a head, with the query's largest weight on another word or, if there is no query, the largest weight of any word on another. */
export function cellOf(layer: Layer, head: number): Cell {
  const summary = summaryOf(layer, head);
  const strongest = restingQuery.value ? headWeight(layer, head) : null;
  return { layer, head, summary, to: strongest?.to ?? null, weight: (restingQuery.value ? strongest?.weight : summary?.strongest) ?? null };
}
