// A cell of the view of all heads stands for one head: what the cell shows, its colour, and the effect of a click

import { hueOf, LESS, MORE, strength } from "../../parts/colours";
import { effectOf, largestEffect } from "../../state/indirect-effects";
import { largestMoved, differingHead, showDifferingHead } from "../../state/differing-heads";
import { chooseHead, restingQuery } from "../../state/state";
import type { Layer, DifferingHead } from "../../trace/data";
import type { Item } from "../../trace/items";
import { headWeight, summaryOf, type Summary } from "./summaries";

/** A weight of the chosen query, a small picture of all weights, the difference between two traces, or the head's indirect effect. */
export type CellShows = "token" | "patterns" | "difference" | "effect";

export interface Cell {
  layer: Layer;
  head: number;
  to: Item | null; // the word, other than itself, on which the query has its largest weight; null = there is no query, or the weight is 0 or not computed yet
  weight: number | null; // the query's largest weight on another word; without a query, the largest weight of any word; null until it is computed
  summary?: Summary;
  differing?: DifferingHead; // with two traces, how the head differs between them; undefined = it does not differ
  effect?: number; // the head's indirect effect (see `HeadEffect`); undefined = it was not measured
}

export const DIFFERENCE_HUE = 320;

/** The hues of heads with a positive and with a negative indirect effect. */
export const [RESTORES, OPPOSES] = [LESS, MORE];

/** The strength (0 to 1) and the hue of a cell; null = what the cell shows is not known, or not computed yet. */
export function colourOf({ layer, head, weight, differing, effect }: Cell, shows: CellShows): { strength: number; hue: number } | null {
  if (shows === "effect") {
    if (effect === undefined) return null;
    return { strength: Math.abs(effect) / (largestEffect() || 1), hue: effect < 0 ? OPPOSES : RESTORES };
  }
  if (shows === "difference") return { strength: differing ? differing.moved / largestMoved() : 0, hue: DIFFERENCE_HUE };
  return weight === null ? null : { strength: strength(weight, 1), hue: hueOf(head, layer.heads) };
}

export function cellOf(layer: Layer, head: number): Cell {
  const summary = summaryOf(layer, head);
  const hasQuery = restingQuery.value !== null;
  const strongest = hasQuery ? headWeight(layer, head) : null;
  const weight = hasQuery ? strongest?.weight : summary?.strongest;
  const differing = differingHead(layer.layer, head);
  const effect = effectOf(layer.layer, head);
  return { layer, head, summary, differing, effect, to: strongest?.to ?? null, weight: weight ?? null };
}

/** Show the head of a cell; if the cell shows a difference, also the query that differs most. */
export function chooseCell({ layer, head, differing }: Cell, shows: CellShows): void {
  if (shows === "difference" && differing) showDifferingHead(differing);
  else chooseHead(layer.layer, head);
}
