// The movement of all tokens: how each layer changes their hidden vectors, as arrows in a plane. The computation is that of
// Python's effects/plane_movement.py. In every layer,
//
//   before + heads + bias + feed_forward + rest = after

import { rowsOf } from "../../trace/arrays";
import { UNCHANGED, weightsOf } from "../../trace/attention";
import { decodeLayer, type Decoded } from "../../trace/blocks";
import type { LateMovement, Layer, NumberArray, Trace } from "../../trace/data";
import { dot, minus, plus, product, scaled } from "./matrices";
import { planeThrough, type Plane } from "./plane";

const MOST_ARROWS = 8; // at most this many heads, and this many keys, have arrows of their own; one more arrow is the sum of all others
const MOST_NEAREST = 5;
const MOST_MOVES = 6_000; // above this number of layers times tokens, no movement is computed, as in Python's views/page/movement.py

type Rows = Float64Array[];
type Named = Record<string, Float64Array>;

const blocksOfStates = (layer: Layer) => Object.values(layer.states ?? {}).map(({ block }) => block);

/** Return a trace without its hidden vectors. The page does not need them, since it gets the movement computed from them. */
export function withoutStates(trace: Trace): Trace {
  const states = new Set(Object.values(trace.kinds).flatMap(({ layers }) => layers.flatMap(blocksOfStates)));
  return { ...trace, numbers: Object.fromEntries(Object.entries(trace.numbers!).filter(([name]) => !states.has(name))) };
}

/**
 * Compute the movement of the tokens of a trace, for each kind of self-attention.
 *
 * @param projections the matrices W_O, by the names of their blocks.
 * @param throwIfOutdated is called before each layer; it throws an error to stop the work.
 */
export async function movementOf(trace: Trace, projections: Record<string, Float32Array>, throwIfOutdated: () => void): Promise<LateMovement> {
  const found: LateMovement = { movement: {}, numbers: {} };
  for (const [name, { layers, queries }] of Object.entries(trace.kinds)) {
    const tokens = trace[queries].length;
    if (!layers[0].states || layers.length * tokens > MOST_MOVES) continue;
    const moves = await movesOf(trace, layers, tokens, projections, throwIfOutdated);
    found.movement[name] = { ...moves, arrays: named(moves.arrays, name, found.numbers) };
  }
  return found;
}

/** An array of numbers for all layers. */
interface Stacked {
  shape: number[];
  numbers: Float32Array;
}

/**
 * Put the numbers of each array into `numbers`, as a block of its own with a name such as "movement encoder before". Return a record of
 * each array, by the array's name: the name of its block, and its shape.
 */
function named(arrays: Record<string, Stacked>, kind: string, numbers: Record<string, Float32Array>): Record<string, NumberArray> {
  return Object.fromEntries(
    Object.entries(arrays).map(([name, { shape, numbers: added }]) => {
      const block = `movement ${kind} ${name}`;
      numbers[block] = added;
      return [name, { block, step: 1, shape }];
    }),
  );
}

async function movesOf(trace: Trace, layers: Layer[], tokens: number, projections: Record<string, Float32Array>, throwIfOutdated: () => void) {
  const states = layers.map((layer) => statesOf(trace, layer, tokens));
  const vectors = [states[0].before, ...states.map(({ after }) => after)].flat();
  const plane = planeThrough(vectors);
  const found: Named[] = [];
  for (const [i, layer] of layers.entries()) {
    await new Promise((resolve) => setTimeout(resolve)); // lets the page's next question arrive
    throwIfOutdated();
    const step = stepOf(await decodeLayer(trace, layer), tokens, trace.units, projections[layer.output!.weight!.block], vectors[0].length);
    found.push(arrowsOfLayer(step, states[i], plane));
  }
  // The shapes are described at `Movement` in data.ts: `before`, `after` and arrays of places end with an axis of size 3; all
  // except `before`, `after` and `turned` have an axis of arrows (or nearest tokens) after the tokens.
  const arrays = Object.fromEntries(
    Object.keys(found[0]).map((name): [string, Stacked] => {
      const [last, perToken] = [name.endsWith("places") || ["before", "after"].includes(name) ? [3] : [], found[0][name].length / tokens];
      const count = perToken / (last[0] ?? 1);
      const shape = [layers.length, tokens, ...(["before", "after", "turned"].includes(name) ? [] : [count]), ...last];
      return [name, { shape, numbers: Float32Array.from(found.flatMap((one) => [...one[name]])) }];
    }),
  );
  return { layers: layers.map(({ layer }) => layer), shares: plane.shares, left_out: plane.leftOut, vectors: vectors.length, arrays };
}

/** The hidden vectors before and after a layer, and the vectors that attention and feed-forward add; each with a row for each token. */
interface States {
  before: Rows;
  attention: Rows;
  feedForward: Rows;
  after: Rows;
}

function statesOf(trace: Trace, { states }: Layer, tokens: number): States {
  const { before, attention, feed_forward, after } = states!;
  const [b, a, f, e] = [before, attention, feed_forward, after].map(({ block }) => rowsOf(Float64Array.from(trace.numbers![block]), tokens));
  return { before: b, attention: a, feedForward: f, after: e };
}

/** The vectors that the heads of a layer add to the tokens, and the weights and values that they come from. */
interface Step {
  weights: Rows[]; // for each head and query, the weights on all keys
  values: Rows[]; // for each head and key, value · W_O
  byHead: Rows[]; // for each head and query, the sum over keys of weight · value · W_O
}

function stepOf(layer: Decoded, tokens: number, units: number, projection: Float32Array, width: number): Step {
  const { numbers, width: inner, heads } = layer.value!;
  const ofHeads = Array.from({ length: layer.heads }, (_, head) => {
    const start = Math.floor(head / (layer.heads / heads)) * tokens * inner; // in grouped-query attention, several heads have the same values
    const values = numbers.subarray(start, start + tokens * inner);
    const matrix = projection.subarray(head * inner * width, (head + 1) * inner * width);
    const weights = Array.from({ length: tokens }, (_, query) => weightsOf(layer, head, query, tokens, tokens, units, UNCHANGED));
    const contexts = weights.map((row) => product(row, values, 1, tokens, inner));
    return {
      weights,
      values: rowsOf(product(values, matrix, tokens, inner, width), tokens),
      byHead: contexts.map((context) => product(context, matrix, 1, inner, width)),
    };
  });
  return { weights: ofHeads.map((one) => one.weights), values: ofHeads.map((one) => one.values), byHead: ofHeads.map((one) => one.byHead) };
}

function arrowsOfLayer({ weights, values, byHead }: Step, { before, attention, feedForward, after }: States, plane: Plane): Named {
  const [heads, tokens] = [[...values.keys()], [...before.keys()]];
  const products = tokens.map((key) => heads.map((one) => heads.map((other) => dot(values[one][key], values[other][key]))));
  const directions = after.map((vector) => scaled(vector, 1 / Math.max(lengthOf(vector), 1e-300)));
  const arrowsOfTokens = tokens.map((token) => {
    const change = minus(after[token], before[token]);
    const ofHeads = heads.map((head) => byHead[head][token]);
    const total = ofHeads.reduce(plus);
    const rest = minus(minus(change, attention[token]), feedForward[token]);
    const parts = [attention[token], minus(attention[token], total), feedForward[token], rest];
    const squares = tokens.map((key) => { // for each key, |sum over heads of weight · value · W_O|², from the dot products of the heads' value · W_O
      const row = heads.map((head) => weights[head][token][key]);
      let square = 0;
      for (const i of heads) for (const j of heads) square += row[i] * row[j] * products[key][i][j];
      return square;
    });
    const addedByKey = (key: number) => heads.map((head) => scaled(values[head][key], weights[head][token][key])).reduce(plus);
    return {
      before: placed(minus(before[token], plane.middle), before[token], plane),
      after: placed(minus(after[token], plane.middle), after[token], plane),
      turned: [angleBetween(before[token], after[token])],
      ...arrows("parts", [...parts.keys()], parts, change, plane),
      ...longest("heads", ofHeads.map((vector) => dot(vector, vector)), (head) => ofHeads[head], total, change, plane),
      ...longest("sources", squares, addedByKey, total, change, plane),
      ...nearest(token, directions),
    };
  });
  const names = Object.keys(arrowsOfTokens[0]) as (keyof (typeof arrowsOfTokens)[0])[];
  return Object.fromEntries(names.map((name) => [name, Float64Array.from(arrowsOfTokens.flatMap((one) => one[name]))]));
}

/**
 * Return arrows for the longest of some vectors: at most MOST_ARROWS, the longest first. If there are other vectors, one more arrow,
 * named -1, is the sum of these. `squares`: the squared lengths of all vectors; `total`: the sum of all vectors; `change`: the vector
 * with which each arrow makes an angle.
 */
function longest(group: string, squares: number[], vectorOf: (name: number) => Float64Array, total: Float64Array, change: Float64Array, plane: Plane) {
  const names = largestFirst(squares, MOST_ARROWS);
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

/**
 * The other tokens whose vectors have the smallest angles to the vector of `token`, the smallest first, and these angles in degrees.
 * `directions`: the vectors of all tokens, scaled to length 1.
 */
function nearest(token: number, directions: Rows): Record<string, number[]> {
  const cosines = directions.map((vector, other) => (other === token ? -2 : dot(directions[token], vector)));
  const found = largestFirst(cosines, Math.min(MOST_NEAREST, directions.length - 1));
  return { nearest: found, nearest_angles: found.map((other) => degrees(cosines[other])) };
}

const largestFirst = (numbers: number[], most: number) => [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]).slice(0, most);
const lengthOf = (vector: Float64Array) => Math.sqrt(dot(vector, vector));
const degrees = (cos: number) => (Math.acos(Math.min(1, Math.max(-1, cos))) * 180) / Math.PI;
const angleBetween = (a: Float64Array, b: Float64Array) => (lengthOf(a) * lengthOf(b) > 0 ? degrees(dot(a, b) / (lengthOf(a) * lengthOf(b))) : 0);
