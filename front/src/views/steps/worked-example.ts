// A worked example: its matrices, and each number of queries, keys, values and output with the sum that gives it

import { effect, signal } from "@preact/signals";
import { numberText, sumText } from "../../parts/numbers";
import { complaint, trace } from "../../state/state";
import { decodeArrays, type Decoded, type DecodedArray, type DecodedArrays } from "../../trace/blocks";
import { words } from "../../words";
import { contextOf } from "./head-vectors";

/** A number, and the sum of products that gives it, as text. */
interface Sum {
  number: number;
  text: string;
}

export const given = signal<DecodedArrays>({}); // the matrices of the worked example (see `Worked`); {} = on other pages, or not decoded yet

effect(() => {
  const from = trace.value;
  if (!from?.worked) return;
  void decodeArrays(from, from.worked.matrices).then(
    (arrays) => (given.value = arrays),
    (error: Error) => (complaint.value = words().undecodable(error.message)),
  );
});

export const exampleHasProjections = () => Boolean(given.value.W_q);
export const exampleHasOutput = () => Boolean(given.value.W_o);

/** The query, key or value of a token in a head: x (or, for keys and values of cross-attention, `memory`) · W + b. Each number has the sum that gives it, as text. */
export function projected(layer: Decoded, vector: "query" | "key" | "value", head: number, token: number): Sum[] {
  const letter = vector[0];
  const inputName = vector !== "query" && given.value.memory ? "memory" : "x";
  const [input, matrix, bias] = [given.value[inputName], given.value[`W_${letter}`], given.value[`b_${letter}`]];
  const row = input.numbers.subarray(token * input.shape[1], (token + 1) * input.shape[1]);
  const width = layer[vector]!.width;
  return Array.from({ length: width }, (_, i) => {
    const column = head * width + i; // the columns of W hold one head after another
    return sumOf(row, matrix, column, bias?.numbers[column]);
  });
}

/** The output for a query: the concatenated contexts of all heads, times W_o. Each number has the sum that gives it, as text. */
export function outputOf(layer: Decoded, query: number): Sum[] {
  const contexts = Array.from({ length: layer.heads }, (_, head) => [...contextOf(layer, head, query)]);
  const context = Float64Array.from(contexts.flat());
  const matrix = given.value.W_o;
  return Array.from({ length: matrix.shape[1] }, (_, i) => sumOf(context, matrix, i));
}

const sumOf = (row: Float64Array, matrix: DecodedArray, column: number, bias?: number): Sum =>
  productSum(row, (i) => matrix.numbers[i * matrix.shape[1] + column], bias);

/** The dot product of a row and a column, plus the bias: its value, and its terms as text. `column` returns the column's number at an index. */
export function productSum(row: Float64Array, column: (i: number) => number, bias?: number): Sum {
  const number = row.reduce((total, factor, i) => total + factor * column(i), bias ?? 0);
  const products = sumText(row.length, (i) => `${brief(row[i])} · ${brief(column(i))}`);
  return { number, text: bias === undefined ? products : `${products} + ${brief(bias)}` };
}

/** A number as text: integers without decimals, others with four; negative numbers in parentheses. */
function brief(number: number): string {
  const text = Number.isInteger(number) ? String(number).replace("-", "−") : numberText(number);
  return number < 0 ? `(${text})` : text;
}
