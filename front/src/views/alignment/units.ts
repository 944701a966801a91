// The words or pieces of a translation and its source, the weights that align them, and the word or piece that is chosen

import { computed, signal } from "@preact/signals";
import { linkedChoice } from "../../state/linked-signals";
import { candidate, chooseHead, chooseKind, key, keptUnit, kind, locked, query, trace } from "../../state/state";
import type { Candidate, Side } from "../../trace/data";

export interface Unit {
  side: Side;
  index: number; // the number of this word or piece in its text (the source or the translation), from 0
  text: string;
  title: string; // the tooltip: the pieces of the word as they are in the vocabulary ("▁snake"), one on each line
  joined: boolean; // whether this piece follows the one before it without a space; false for a word
  special: boolean; // whether this piece is the end-of-sentence token; false for a word
  pieces: number[]; // the indices of a word's pieces among all pieces of the source or the translation; a piece has only its own index
}

export const alignedUnits = linkedChoice("aligned", "words", "pieces");
const pointedUnit = signal<Unit | null>(null); // the word or piece under the pointer; null = none

export const candidates = (): Candidate[] => trace.value.alignment!.candidates;
const shownCandidate = computed(() => candidates()[candidate.value] ?? candidates()[0]);

const units = computed<Record<Side, Unit[]>>(() => {
  const cut = alignedUnits.value === "pieces" ? piecesOf : wordsOf;
  return { source: cut("source"), target: cut("target") };
});
export const unitsOf = (side: Side): Unit[] => units.value[side];

function wordsOf(side: Side): Unit[] {
  const { pieces: allPieces, [`${side}_words` as const]: texts, [`${side}_word_of` as const]: wordOf } = shownCandidate.value;
  return texts.map((text, index) => {
    const pieces = [...wordOf.keys()].filter((piece) => wordOf[piece] === index);
    return { side, index, text, title: pieces.map((piece) => allPieces[side][piece]).join("\n"), joined: false, special: false, pieces };
  });
}

function piecesOf(side: Side): Unit[] {
  const wordOf = shownCandidate.value[`${side}_word_of`]; // shorter than the list of pieces: the end-of-sentence token has no word
  return shownCandidate.value.pieces[side].map((piece, index) => ({
    side,
    index,
    text: piece.replace(/▁/g, " ").trim() || "␣",
    title: piece,
    joined: index > 0 && index < wordOf.length && wordOf[index] === wordOf[index - 1],
    special: index >= wordOf.length,
    pieces: [index],
  }));
}

/** The weight between a word or piece of the source and one of the translation, given in any order. */
export function weightBetween(one: Unit, other: Unit): number {
  const { weights, pieces } = shownCandidate.value;
  const [source, target] = one.side === "source" ? [one, other] : [other, one];
  return (alignedUnits.value === "pieces" ? pieces.weights : weights)[target.index][source.index];
}

export function mostAlignedWith(unit: Unit): Unit | null {
  const others = unitsOf(unit.side === "source" ? "target" : "source");
  return others.reduce<Unit | null>((best, other) => (best && weightBetween(unit, best) >= weightBetween(unit, other) ? best : other), null);
}

// The other views show the attention of the first translation. If the alignment view shows this translation, too, a word that is chosen
// in the alignment view is also chosen in the other views, and the other way round.

/** The position of a target piece's query, minus the index of the piece. The query at position i predicts piece i and reads piece i - 1. */
const queryOffset = () => (trace.value.alignment!.rule.step === "reads" ? 1 : 0);

const queryOf = (piece: number) => Math.min(piece + queryOffset(), trace.value.target.length - 1);

export const chosenUnit = computed<Unit | null>(() => pointedUnit.value ?? unitKept() ?? unitOfQuery());

const unitKept = () => (keptUnit.value && unitsOf(keptUnit.value.side)[keptUnit.value.index]) ?? null;

function unitOfQuery(): Unit | null {
  if (candidate.value !== 0 || query.value === null) return null;
  const side = kind.value.queries;
  const piece = side === "source" ? query.value : query.value - queryOffset();
  return unitsOf(side).find((unit) => unit.pieces.includes(piece)) ?? null;
}

/** Choose the word or piece under the pointer (null = none). If the first translation is shown, also choose the word's token in the other views. */
export function pointAt(unit: Unit | null): void {
  pointedUnit.value = unit;
  if (candidate.value !== 0 || !unit) return;
  if (unit.side === kind.value.queries && !locked.value) query.value = positionOf(unit);
  else if (unit.side === kind.value.keys) key.value = positionOf(unit);
}

const positionOf = (unit: Unit) => (unit.side === "source" ? unit.pieces[0] : queryOf(unit.pieces[0]));

/** Keep a unit (word or piece) chosen when the pointer leaves it; if it is kept already, stop keeping it. */
export const toggleUnit = (unit: Unit) => keepUnit(unit, unit !== unitKept());

/** Keep a unit chosen when the pointer leaves it, or, if `keep` is false, keep no unit. */
export function keepUnit(unit: Unit, keep = true): void {
  keptUnit.value = keep ? { side: unit.side, index: unit.index } : null;
  if (candidate.value !== 0 || !unit.pieces.length) return;
  if (unit.side === "target" && kind.value.queries === "source") chooseKind("cross");
  if (unit.side === kind.value.queries) [query.value, locked.value] = [positionOf(unit), keptUnit.value !== null];
  else key.value = positionOf(unit);
}

/** In the other views, show the head from whose weights the alignment is computed. */
export function showHead(): void {
  const { layer, head } = trace.value.alignment!.rule;
  chooseKind("cross");
  chooseHead(layer, head);
}
