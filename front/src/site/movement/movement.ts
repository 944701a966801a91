// The movement of all tokens: how each layer changes their vectors, as arrows in a plane, as in Python's effects/plane_movement.py.
// In every layer, before + heads + bias + feed_forward + rest = after; `rest` is the change by layer norms and cross-attention.

import { indicesOfLargest, rowsOf } from "../../trace/arrays";
import { weightsOf } from "../../trace/attention";
import { decodeLayer, type Decoded } from "../../trace/blocks";
import type { LateMovement, Layer, NumberArray, Trace } from "../../trace/data";
import { dot, minus, plus, product, scaled } from "./matrices";
import { planeThrough, type Plane } from "./plane";

const MOST_ARROWS = 8; // at most this many heads, and this many keys, have arrows of their own; one more arrow is the sum of all others
const MOST_NEAREST = 5;
const MOST_MOVES = 6_000; // if layers · tokens is larger than this, `movementOf` computes nothing, as in Python's views/page/movement.py

type Rows = Float64Array[];

const blocksOfStates = (layer: Layer) => Object.values(layer.states ?? {}).map(({ block }) => block);

/** Return a trace without its hidden vectors. The page gets only the arrows that `movementOf` computes from them. */
export function withoutStates(trace: Trace): Trace {
  const states = new Set(Object.values(trace.kinds).flatMap(({ layers }) => layers.flatMap(blocksOfStates)));
  return { ...trace, numbers: Object.fromEntries(Object.entries(trace.numbers!).filter(([name]) => !states.has(name))) };
}

/** Compute how each layer moves the hidden vectors of all tokens, for each kind of self-attention. `throwIfOutdated` throws an error to stop the work. */
export async function movementOf(trace: Trace, projections: Record<string, Float32Array>, throwIfOutdated: () => void): Promise<LateMovement> {
  const late: LateMovement = { movement: {}, numbers: {} };
  for (const [kind, { layers, queries }] of Object.entries(trace.kinds)) {
    const tokens = trace[queries].length;
    if (!layers[0].states || layers.length * tokens > MOST_MOVES) continue;
    const states = layers.map((layer) => statesOf(trace, layer, tokens));
    const vectors = [states[0].before, ...states.map(({ after }) => after)].flat();
    const plane = planeThrough(vectors);
    const moves: Record<string, number[]>[] = []; // the results of `movesOfTokens` for layer 0, then for layer 1, …
    for (const [i, layer] of layers.entries()) {
      await new Promise((resolve) => setTimeout(resolve)); // a message with a newer question can arrive now
      throwIfOutdated();
      const heads = addedBy(await decodeLayer(trace, layer), projections[layer.output!.weight!.block], vectors[0].length);
      moves.push(...movesOfTokens(heads, states[i], plane));
    }
    const arrays: Record<string, NumberArray> = {};
    for (const name of Object.keys(moves[0])) {
      const block = `movement ${kind} ${name}`;
      arrays[name] = { block, step: 1, shape: [layers.length, tokens, ...axesOf(name, moves[0][name].length)] };
      late.numbers[block] = Float32Array.from(moves.flatMap((move) => move[name]));
    }
    const layerNumbers = layers.map(({ layer }) => layer);
    late.movement[kind] = { layers: layerNumbers, shares: plane.shares, left_out: plane.leftOut, vectors: vectors.length, arrays };
  }
  return late;
}

/** The axes of one token's numbers in an array of `Movement`: none for a single number; x, y and length for each arrow; else one axis. */
function axesOf(name: string, size: number): number[] {
  if (name === "turned") return [];
  return name.endsWith("places") ? [size / 3, 3] : [size];
}

/** The hidden vectors before and after a layer, and the vectors that attention and feed-forward add; each with a row for each token. */
type States = Record<keyof NonNullable<Layer["states"]>, Rows>;

const statesOf = (trace: Trace, { states }: Layer, tokens: number): States =>
  Object.fromEntries(Object.entries(states!).map(([name, { block }]) => [name, rowsOf(Float64Array.from(trace.numbers![block]), tokens)])) as States;

/** The vectors that one head of a layer adds to the tokens, and the weights and values that they come from. */
interface AddedByHead {
  weights: Rows; // for each query, the weights on all keys
  values: Rows; // for each key, value · W_O
  added: Rows; // for each query, the sum over keys of weight · value · W_O
}

function addedBy(layer: Decoded, projection: Float32Array, width: number): AddedByHead[] {
  const { nQueries, nKeys } = layer;
  const { numbers, width: dValue, heads: nValueHeads } = layer.value!;
  return Array.from({ length: layer.heads }, (_, head) => {
    const valueHead = Math.floor(head / (layer.heads / nValueHeads)); // in grouped-query attention, several heads have the same values
    const values = numbers.subarray(valueHead * nKeys * dValue, (valueHead + 1) * nKeys * dValue);
    const matrix = projection.subarray(head * dValue * width, (head + 1) * dValue * width);
    const weights = Array.from({ length: nQueries }, (_, query) => weightsOf(layer, head, query));
    return {
      weights,
      values: rowsOf(product(values, matrix, nKeys, dValue, width), nKeys),
      added: weights.map((row) => product(product(row, values, 1, nKeys, dValue), matrix, 1, dValue, width)),
    };
  });
}

/** Return a record for each token: the token's numbers in each array of `Movement` (see data.ts), which tell how a layer moves the token's vector. */
function movesOfTokens(heads: AddedByHead[], { before, attention, feed_forward, after }: States, plane: Plane) {
  const products = after.map((_, key) => heads.map((one) => heads.map((other) => dot(one.values[key], other.values[key]))));
  const directions = after.map((vector) => scaled(vector, 1 / Math.max(lengthOf(vector), 1e-300)));
  return after.map((end, token) => {
    const change = minus(end, before[token]);
    const ofHeads = heads.map(({ added }) => added[token]);
    const total = ofHeads.reduce(plus);
    const rest = minus(minus(change, attention[token]), feed_forward[token]);
    const parts = [attention[token], minus(attention[token], total), feed_forward[token], rest];
    const squares = products.map((productsOfKey, key) => { // for each key, |sum over heads of weight · value · W_O|², from the dot products of the heads' value · W_O
      const row = heads.map(({ weights }) => weights[token][key]);
      let square = 0;
      productsOfKey.forEach((ofHead, i) => ofHead.forEach((one, j) => (square += row[i] * row[j] * one)));
      return square;
    });
    const addedByKey = (key: number) => heads.map(({ weights, values }) => scaled(values[key], weights[token][key])).reduce(plus);
    return {
      before: placed(minus(before[token], plane.middle), before[token], plane),
      after: placed(minus(end, plane.middle), end, plane),
      turned: [angleBetween(before[token], end)],
      ...arrows("parts", [...parts.keys()], parts, change, plane),
      ...longestArrows("heads", ofHeads.map((vector) => dot(vector, vector)), (head) => ofHeads[head], total, change, plane),
      ...longestArrows("sources", squares, addedByKey, total, change, plane),
      ...nearest(token, directions),
    };
  });
}

/**
 * Return arrows for the MOST_ARROWS longest of some vectors, the longest first. If there are more vectors, a last arrow, named -1, is the sum
 * of the others. `squares`: the squared length of each vector; `total`: the sum of all; `change`: each arrow's angle is its angle to this vector.
 */
function longestArrows(group: string, squares: number[], vectorOf: (name: number) => Float64Array, total: Float64Array, change: Float64Array, plane: Plane) {
  const names = indicesOfLargest(squares, MOST_ARROWS);
  const vectors = names.map(vectorOf);
  if (names.length === squares.length) return arrows(group, names, vectors, change, plane);
  return arrows(group, [...names, -1], [...vectors, vectors.reduce(minus, total)], change, plane);
}

function arrows(group: string, names: number[], vectors: Rows, change: Float64Array, plane: Plane): Record<string, number[]> {
  return {
    [`${group} places`]: vectors.flatMap((vector) => placed(vector, vector, plane)),
    [`${group} angles`]: vectors.map((vector) => angleBetween(vector, change)),
    [`${group} names`]: names,
  };
}

/** The two coordinates of `difference` in the plane, and the length of `vector`. */
const placed = (difference: Float64Array, vector: Float64Array, { axes }: Plane): number[] => [dot(difference, axes[0]), dot(difference, axes[1]), lengthOf(vector)];

/** The tokens with the smallest angles to `token`, and these angles in degrees. `directions`: the vectors of all tokens, with length 1. */
function nearest(token: number, directions: Rows): Record<string, number[]> {
  const cosines = directions.map((vector, other) => (other === token ? -2 : dot(directions[token], vector)));
  const tokens = indicesOfLargest(cosines, Math.min(MOST_NEAREST, directions.length - 1));
  return { nearest: tokens, nearest_angles: tokens.map((other) => degrees(cosines[other])) };
}

const lengthOf = (vector: Float64Array) => Math.sqrt(dot(vector, vector));
const degrees = (cos: number) => (Math.acos(Math.min(1, Math.max(-1, cos))) * 180) / Math.PI;
const angleBetween = (a: Float64Array, b: Float64Array) => {
  const lengths = lengthOf(a) * lengthOf(b);
  return lengths > 0 ? degrees(dot(a, b) / lengths) : 0;
};
