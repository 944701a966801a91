// How the layers move the hidden vector of the chosen token (its "movement"), decoded from the arrays of the trace

import { computed, effect, signal } from "@preact/signals";
import { busy, lateMovement, awaitedMovement } from "../../state/questions";
import { complaint, kindName, layerNumber, query, queryTokens, trace } from "../../state/state";
import { decodeArrays, type DecodedArray, type DecodedArrays } from "../../trace/blocks";
import type { Movement } from "../../trace/data";
import { words } from "../../words";

export type Point = [number, number];

/** A vector that is added to the token's vector: its two coordinates in the plane (`reach`), and its length in all dimensions. */
export interface Arrow {
  index: number; // the head, or the position of the source token, that adds the vector; -1 = all other heads or tokens together
  reach: Point;
  length: number;
  angle: number; // the angle between this vector and the layer's whole change of the token's vector, in degrees
}

/** How one layer moves the token's vector: from `before` to `after` in the plane, and the arrows into which this move is divided. */
export interface Move {
  layer: number;
  before: Point;
  after: Point;
  lengths: Point; // the lengths of the vectors before and after the layer
  turned: number; // the angle between the vectors before and after, in degrees
  attention: Arrow;
  bias: Arrow; // what the bias of the output projection adds; the arrow `attention` includes it
  feedForward: Arrow;
  rest: Arrow; // the rest of the change: what layer norms and, in a decoder, cross-attention change
  heads: Arrow[];
  sources: Arrow[];
  nearest: [number, number][]; // the tokens whose vectors have the smallest angles to this token's vector, and the angles in degrees
}

const decoded = signal<{ of: Movement; arrays: DecodedArrays } | null>(null);
const lateMoves = () => (lateMovement.value?.of === trace.value ? lateMovement.value?.moves : undefined);

/** For each kind of self-attention, how its layers move the hidden vectors; undefined = not computed, or not yet. */
const computedMovements = computed<Record<string, Movement> | undefined>(() => trace.value?.movement ?? lateMoves()?.movement);
export const movements = computed<Record<string, Movement>>(() => computedMovements.value ?? {});
export const movement = computed<Movement | null>(() => movements.value[kindName.value] ?? null);

/** Whether the arrows of this view are still being computed or decoded, for the shown trace or for a text that the reader has requested. */
export const movementPending = computed<boolean>(() =>
  computedMovements.value ? movement.value !== null && decoded.value?.of !== movement.value : busy.value || awaitedMovement.value === trace.value,
);

effect(() => {
  const of = movement.value;
  if (!of || decoded.peek()?.of === of) return;
  const from = { ...trace.value, ...lateMoves() };
  void decodeArrays(from, of.arrays).then(
    (arrays) => movement.value === of && (decoded.value = { of, arrays }),
    (error: Error) => (complaint.value = words().undecodable(error.message)),
  );
});

/** How each layer moves the chosen token's vector; null until the arrays are decoded, or if no token is chosen. */
export const moves = computed<Move[] | null>(() => {
  const own = decoded.value;
  if (!own || own.of !== movement.value || query.value === null || query.value >= queryTokens.value.length) return null;
  return own.of.layers.map((layer, place) => moveOf(own.arrays, layer, place, query.value!));
});

/** The place in the plane of a token's vector after a layer. */
export function pointAfter(layer: number, token: number): Point {
  const { arrays, of } = decoded.value!;
  const [x, y] = numbersOfToken(arrays.after, of.layers.indexOf(layer), token);
  return [x, y];
}

/** The move that is shown: of the chosen layer; if `moves` lacks it, of the nearest layer before it; else the first move. */
export const shownMove = computed<Move | null>(() => {
  const all = moves.value;
  if (!all) return null;
  return all.filter((move) => move.layer <= layerNumber.value).at(-1) ?? all[0];
});

/** The numbers of one token in one layer, from an array [layers tokens …]; `place` is the index of the layer in the array. */
function numbersOfToken({ numbers, shape }: DecodedArray, place: number, token: number): Float64Array {
  const width = shape.slice(2).reduce((product, size) => product * size, 1);
  const start = (place * shape[1] + token) * width;
  return numbers.subarray(start, start + width);
}

function moveOf(arrays: DecodedArrays, layer: number, place: number, token: number): Move {
  const row = (name: string) => numbersOfToken(arrays[name], place, token);
  const [before, after] = [row("before"), row("after")];
  const [attention, bias, feedForward, rest] = arrowsOf(row, "parts");
  const angles = row("nearest_angles");
  return {
    layer,
    before: [before[0], before[1]],
    after: [after[0], after[1]],
    lengths: [before[2], after[2]],
    turned: row("turned")[0],
    attention,
    bias,
    feedForward,
    rest,
    heads: arrowsOf(row, "heads"),
    sources: arrowsOf(row, "sources"),
    nearest: Array.from(row("nearest"), (other, i) => [other, angles[i]]),
  };
}

function arrowsOf(row: (name: string) => Float64Array, group: string): Arrow[] {
  const [names, places, angles] = ["names", "places", "angles"].map((part) => row(`${group} ${part}`));
  return Array.from(names, (index, i) => ({
    index,
    reach: [places[3 * i], places[3 * i + 1]] as Point,
    length: places[3 * i + 2],
    angle: angles[i],
  })).filter((arrow) => arrow.index !== -2);
}
