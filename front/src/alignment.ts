// Word alignment of a translation and its candidates: the candidate that is shown, its words or pieces, the chosen one of them, and the weights between them

import { computed, signal } from "@preact/signals";
import type { Candidate, Side } from "./data";
import { candidate, chooseHead, chooseKind, key, keptUnit, kind, locked, query, trace } from "./state";
import { switchOf } from "./switches";

export { candidate };

/** A word or a piece of the source or of the translation. */
export interface Unit {
  side: Side;
  index: number; // its place among the words or pieces of its side
  text: string;
  title: string; // the pieces as they stand in the vocabulary
  joined: boolean; // no space before it
  special: boolean; // the end of the sentence
  pieces: number[]; // the positions of its pieces
}

export const alignedUnits = switchOf("aligned", "words", "pieces");
const pointed = signal<Unit | null>(null); // the word under the pointer

export const candidates = (): Candidate[] => trace.value.alignment!.candidates;
const shown = computed(() => candidates()[candidate.value] ?? candidates()[0]);

const units = computed<Record<Side, Unit[]>>(() => ({
  source: alignedUnits.value === "pieces" ? piecesOf("source") : wordsOf("source"),
  target: alignedUnits.value === "pieces" ? piecesOf("target") : wordsOf("target"),
}));
export const unitsOf = (side: Side): Unit[] => units.value[side];

function wordsOf(side: Side): Unit[] {
  const current = shown.value;
  const [texts, pieces, wordOf] = [current[`${side}_words`], current.pieces[side], current[`${side}_word_of`]];
  return texts.map((text, index) => {
    const places = wordOf.flatMap((word, piece) => (word === index ? [piece] : []));
    return { side, index, text, title: places.map((piece) => pieces[piece]).join("\n"), joined: false, special: false, pieces: places };
  });
}

function piecesOf(side: Side): Unit[] {
  const current = shown.value;
  const wordOf = current[`${side}_word_of`];
  return current.pieces[side].map((piece, index) => ({
    side,
    index,
    text: piece.replace(/▁/g, " ").trim() || "␣",
    title: piece,
    joined: index > 0 && index < wordOf.length && wordOf[index] === wordOf[index - 1],
    special: index >= wordOf.length,
    pieces: [index],
  }));
}

/** The weight of a word or piece of the translation on one of the source. */
export function weightBetween(from: Unit, to: Unit): number {
  const { weights, pieces } = shown.value;
  return (alignedUnits.value === "pieces" ? pieces.weights : weights)[to.index][from.index];
}

/** The word or piece on the other side with the largest weight. */
export function strongestOfUnit(at: Unit): Unit | null {
  const others = unitsOf(at.side === "source" ? "target" : "source");
  const weight = (other: Unit) => (at.side === "source" ? weightBetween(at, other) : weightBetween(other, at));
  return others.reduce<Unit | null>((best, other) => (best && weight(best) >= weight(other) ? best : other), null);
}

// The trace of the page is that of the first candidate: there, a word and the token of the other views are chosen together

/** How many positions after a target piece the query stands whose weights align it: 1 if the rule takes the step that reads the piece, 0 if the one that writes it. */
const queryOffset = () => (trace.value.alignment!.rule.step === "reads" ? 1 : 0);

/** The query whose weights are the row of a target piece. */
const queryOf = (piece: number) => Math.min(piece + queryOffset(), trace.value.target.length - 1);

export const chosenUnit = computed<Unit | null>(() => pointed.value ?? kept() ?? unitOfQuery());

const kept = () => (keptUnit.value && unitsOf(keptUnit.value.side)[keptUnit.value.index]) ?? null;

function unitOfQuery(): Unit | null {
  if (candidate.value !== 0 || query.value === null) return null;
  const side = kind.value.queries;
  const piece = side === "source" ? query.value : query.value - queryOffset();
  return unitsOf(side).find((unit) => unit.pieces.includes(piece)) ?? null;
}

/** Show the weights of a word while the pointer is on it; null = the pointer is on no word. */
export function pointAt(unit: Unit | null): void {
  pointed.value = unit;
  if (candidate.value !== 0 || !unit) return;
  if (unit.side === kind.value.queries && !locked.value) query.value = positionOf(unit);
  else if (unit.side === kind.value.keys) key.value = positionOf(unit);
}

const positionOf = (unit: Unit) => (unit.side === "source" ? unit.pieces[0] : queryOf(unit.pieces[0]));

/**
 * Keep a word chosen.
 *
 * @param again whether a word that is already chosen is deselected.
 */
export function keepUnit(unit: Unit, again = true): void {
  keptUnit.value = again && kept() === unit ? null : { side: unit.side, index: unit.index };
  if (candidate.value !== 0 || !unit.pieces.length) return;
  if (unit.side === "target" && kind.value.queries === "source") chooseKind("cross");
  if (unit.side === kind.value.queries) [query.value, locked.value] = [positionOf(unit), keptUnit.value !== null];
  else key.value = positionOf(unit);
}

/** The layer and the head whose weights align words; head null = the average. */
export const ruleHead = () => ({ layer: trace.value.alignment!.rule.layer, head: trace.value.alignment!.rule.head });

/** Show these weights in the other views. */
export function showRule(): void {
  const { layer, head } = ruleHead();
  chooseKind("cross");
  chooseHead(layer, head);
}
