// What the output projection W_O makes of the contexts of a layer's heads
//
//   output = context of head 0 · W_O[0] + … + context of the last head · W_O[last] + bias

import { stagesOf, UNCHANGED, vectorOf, type Changes } from "./attention";
import type { Decoded, DecodedArray } from "./blocks";
import { changes, keyTokens, queryTokens } from "./state";

/** The first dimensions of what each head adds to a query's token, and of their sum. */
export interface HeadOutputs {
  width: number; // of the whole vectors
  added: Float64Array[]; // by head
  bias: Float64Array | null;
  sum: Float64Array; // of all heads and the bias
  given: Float64Array | null; // the output that the model's layer returned; null where a worker runs the model
  lengths: number[]; // by head, of the whole vectors in the model, without the reader's changes
}

/** What the heads of a layer add to a query's token; the reader's changes are those of the head that is shown. */
export function outputsOf(layer: Decoded, shown: number, query: number): HeadOutputs {
  const { width, arrays } = layer.output!;
  const { columns, bias, output, lengths } = arrays;
  const count = columns.shape[1];
  const lengthIn = (head: number) => (lengths ? rowAt(lengths, head)[query] : projectedLength(layer, head, contextOf(layer, head, query, UNCHANGED)));
  const added = Array.from({ length: layer.heads }, (_, head) => {
    const context = contextOf(layer, head, query, head === shown ? changes.value : UNCHANGED);
    return Float64Array.from({ length: count }, (_, i) => context.reduce((total, number, row) => total + number * columnAt(layer, head, row, i), 0));
  });
  const sum = Float64Array.from({ length: count }, (_, i) => added.reduce((total, one) => total + one[i], bias?.numbers[i] ?? 0));
  return {
    width,
    added,
    bias: bias?.numbers ?? null,
    sum,
    given: output ? rowAt(output, query) : null,
    lengths: Array.from(added, (_, head) => lengthIn(head)),
  };
}

/** The number of W_O in one of a head's rows, and in one of the first columns, the only ones that the trace has. */
export function columnAt(layer: Decoded, head: number, row: number, column: number): number {
  const { numbers, shape } = layer.output!.arrays.columns;
  return numbers[(head * (shape[0] / layer.heads) + row) * shape[1] + column];
}

/** The length of value · W_O for the value of a key; times the key's weight, it is the length of the vector that the key adds. */
export function valueLength(layer: Decoded, head: number, key: number): number {
  const lengths = layer.output!.arrays.value_lengths;
  return lengths ? rowAt(lengths, head)[key] : projectedLength(layer, head, vectorOf(layer, "value", head, key));
}

/** The length of vector · W_O for a vector of a head: the square root of vector · gram · vector, where gram = W_O · W_Oᵀ of the head. */
function projectedLength(layer: Decoded, head: number, vector: Float64Array): number {
  const square = vector.reduce((total, number, i) => {
    const row = rowAt(layer.output!.arrays.gram, head * vector.length + i);
    return total + number * row.reduce((product, one, j) => product + one * vector[j], 0);
  }, 0);
  return Math.sqrt(Math.max(0, square));
}

export function contextOf(layer: Decoded, head: number, query: number, changed: Changes = changes.value): Float64Array {
  const { weights } = stagesOf(layer, head, query, queryTokens.value.length, keyTokens.value.length, changed);
  const context = new Float64Array(layer.value!.width);
  weights.forEach((weight, key) => vectorOf(layer, "value", head, key).forEach((number, i) => (context[i] += weight * number)));
  return context;
}

const rowAt = ({ numbers, shape }: DecodedArray, row: number) => numbers.subarray(row * shape[1], (row + 1) * shape[1]);
