// How the layers move the hidden vector of the chosen token (its "movement"), decoded from the arrays of the trace

import { computed, effect, signal } from "@preact/signals";
import { busy, lateMovement, awaitedMovement } from "../../state/questions";
import { complaint, kindName, layerNumber, query, queryTokens, trace } from "../../state/state";
import { decodeArrays, type DecodedArray, type DecodedArrays } from "../../trace/blocks";
import type { Movement } from "../../trace/data";
import { words } from "../../words";

export type Point = [number, number];

const NO_ARROW = -2; // in the arrays, the `index` of a row without an arrow

/** A vector that is added to the token's vector: its two coordinates in the plane (`vector`), and its length in all dimensions. */
export interface Arrow {
  index: number; // the head, or the position of the source token, that adds the vector; -1 = all other heads or tokens together
  vector: Point;
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

const decoded = signal<{ movement: Movement; arrays: DecodedArrays } | null>(null);
const lateMoves = () => (lateMovement.value?.of === trace.value ? lateMovement.value?.moves : undefined);

/** For each kind of self-attention, how its layers move the hidden vectors; undefined = not computed, or not yet. */
const computedMovements = computed<Record<string, Movement> | undefined>(() => trace.value?.movement ?? lateMoves()?.movement);
export const movements = computed<Record<string, Movement>>(() => computedMovements.value ?? {});
export const movement = computed<Movement | null>(() => movements.value[kindName.value] ?? null);

/** Whether the arrows of this view are still being computed or decoded, for the shown trace or for a text that the reader has requested. */
export const movementPending = computed<boolean>(() => {
  if (!computedMovements.value) return busy.value || awaitedMovement.value === trace.value;
  return movement.value !== null && decoded.value?.movement !== movement.value;
});

effect(() => {
  const wanted = movement.value;
  if (!wanted || decoded.peek()?.movement === wanted) return;
  void decodeArrays({ ...trace.value, ...lateMoves() }, wanted.arrays).then(
    (arrays) => {
      if (movement.value === wanted) decoded.value = { movement: wanted, arrays };
    },
    (error: Error) => (complaint.value = words().undecodable(error.message)),
  );
});

/** How each layer moves the chosen token's vector; null until the arrays are decoded, or if no token is chosen. */
export const moves = computed<Move[] | null>(() => {
  const token = query.value;
  if (!decoded.value || decoded.value.movement !== movement.value || token === null || token >= queryTokens.value.length) return null;
  const { arrays } = decoded.value;
  return movement.value.layers.map((layer, layerIndex) => moveOf(arrays, layer, layerIndex, token));
});

/** The place in the plane of a token's vector after a layer. */
export function pointAfter(layer: number, token: number): Point {
  const { arrays, movement: { layers } } = decoded.value!;
  const [x, y] = numbersOfToken(arrays.after, layers.indexOf(layer), token);
  return [x, y];
}

/** The move that is shown: of the chosen layer; if `moves` lacks it, of the nearest layer before it; else the first move. */
export const shownMove = computed<Move | null>(() => {
  const all = moves.value;
  if (!all) return null;
  return all.filter((move) => move.layer <= layerNumber.value).at(-1) ?? all[0];
});

/** The numbers of one token in one layer, from an array [layers tokens …]. */
function numbersOfToken({ numbers, shape }: DecodedArray, layerIndex: number, token: number): Float64Array {
  const width = shape.slice(2).reduce((product, size) => product * size, 1);
  const start = (layerIndex * shape[1] + token) * width;
  return numbers.subarray(start, start + width);
}

function moveOf(arrays: DecodedArrays, layer: number, layerIndex: number, token: number): Move {
  const row = (name: string) => numbersOfToken(arrays[name], layerIndex, token);
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

/** The arrows of a group of arrays (see `Movement.arrays`): "heads", "sources" or "parts". */
function arrowsOf(row: (name: string) => Float64Array, group: string): Arrow[] {
  const [names, places, angles] = [row(`${group} names`), row(`${group} places`), row(`${group} angles`)];
  const arrows = Array.from(names, (index, i): Arrow => {
    const [x, y, length] = places.subarray(3 * i, 3 * i + 3);
    return { index, vector: [x, y], length, angle: angles[i] };
  });
  return arrows.filter(({ index }) => index !== NO_ARROW);
}
