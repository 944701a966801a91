// The vectors that a layer's heads add to the hidden vector of a token: context (weights · values) times output projection W_O
//
//   output = context of head 0 · W_O[0] + … + context of the last head · W_O[last] + bias

import { changes } from "../../state/state";
import { stagesOf, UNCHANGED, vectorOf, type Changes } from "../../trace/attention";
import type { Decoded, DecodedArray } from "../../trace/blocks";

/** The vectors that the heads of a layer add to the query's hidden vector, and their sum; only the first dimensions of each. */
export interface HeadOutputs {
  width: number; // the number of dimensions of a hidden vector; `added`, `bias`, `sum` and `modelOutput` hold only the first few of them
  added: Float64Array[]; // for each head, the vector that it adds
  bias: Float64Array | null; // the bias of the output projection, which is added to the sum of the heads; null = there is none
  sum: Float64Array; // the sum of all heads' vectors and the bias
  modelOutput: Float64Array | null; // the output that the layer of the model returned, for comparison; null if a web worker ran the model
  lengths: number[]; // for each head, the length, over all dimensions, of the vector that it adds; the reader's changes (cut edges, temperature) do not count
}

/** The vectors that the heads of a layer add to the query's hidden vector. The reader's changes apply only to the head `shownHead`. */
export function outputsOf(layer: Decoded, shownHead: number, query: number): HeadOutputs {
  const { width, arrays } = layer.output!;
  const { columns, bias, output, lengths } = arrays;
  const nDimensions = columns.shape[1];
  const added = Array.from({ length: layer.heads }, (_, head) => {
    const context = contextOf(layer, head, query, head === shownHead ? changes.value : UNCHANGED);
    const sumAt = (column: number) => context.reduce((total, number, row) => total + number * projectionAt(layer, head, row, column), 0);
    return Float64Array.from({ length: nDimensions }, (_, i) => sumAt(i));
  });
  const sum = Float64Array.from({ length: nDimensions }, (_, i) => added.reduce((total, vector) => total + vector[i], bias?.numbers[i] ?? 0));
  const lengthOf = (head: number) => {
    if (lengths) return rowAt(lengths, head)[query];
    return projectedLength(layer, head, contextOf(layer, head, query, UNCHANGED));
  };
  return {
    width,
    added,
    bias: bias?.numbers ?? null,
    sum,
    modelOutput: output ? rowAt(output, query) : null,
    lengths: Array.from(added, (_, head) => lengthOf(head)),
  };
}

/** The element [row, column] of one head's part of W_O; only the first columns are stored. */
export function projectionAt(layer: Decoded, head: number, row: number, column: number): number {
  const { numbers, shape } = layer.output!.arrays.columns;
  const rowsPerHead = shape[0] / layer.heads;
  return numbers[(head * rowsPerHead + row) * shape[1] + column];
}

/** The length of value · W_O for one key in one head. Times the weight, it is the length of the vector that the key adds to a query. */
export function valueLength(layer: Decoded, head: number, key: number): number {
  const lengths = layer.output!.arrays.value_lengths;
  return lengths ? rowAt(lengths, head)[key] : projectedLength(layer, head, vectorOf(layer, "value", head, key));
}

/** The length of vector · W_O for a vector of a head: the square root of vector · gram · vector, with gram = W_O · W_Oᵀ of the head. */
function projectedLength(layer: Decoded, head: number, vector: Float64Array): number {
  const square = vector.reduce((total, number, i) => {
    const row = rowAt(layer.output!.arrays.gram, head * vector.length + i);
    return total + number * row.reduce((product, one, j) => product + one * vector[j], 0);
  }, 0);
  return Math.sqrt(Math.max(0, square));
}

/** The context of a query in a head: the sum over the keys of weight · value. */
export function contextOf(layer: Decoded, head: number, query: number, changed: Changes = changes.value): Float64Array {
  const { weights } = stagesOf(layer, head, query, changed);
  const context = new Float64Array(layer.value!.width);
  weights.forEach((weight, key) => vectorOf(layer, "value", head, key).forEach((number, i) => (context[i] += weight * number)));
  return context;
}

const rowAt = ({ numbers, shape }: DecodedArray, row: number) => numbers.subarray(row * shape[1], (row + 1) * shape[1]);
