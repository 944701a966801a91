// A worked example: the matrices before Q, K and V, and after the heads, and the sums that their products are made of

import { effect, signal } from "@preact/signals";
import { stages, vectorOf } from "./attention";
import { inflate, signedIntegers, type Decoded } from "./blocks";
import { numberText } from "./numbers";
import { changes, complaint, keyTokens, queryTokens, trace } from "./state";
import { words } from "./words";

const MOST_TERMS = 8; // longer sums are written with their first terms

interface Given {
  numbers: Float64Array;
  rows: number;
  columns: number;
}

/** A number, and the sum that it came from as text. */
export interface Sum {
  number: number;
  text: string;
}

export const given = signal<Record<string, Given>>({});

effect(() => {
  const from = trace.value;
  if (!from?.worked) return;
  const decodeOne = async (name: string) => {
    const { block, step, shape } = from.worked!.matrices[name];
    const numbers = Float64Array.from(signedIntegers(await inflate(from.blocks[block])), (n) => n * step);
    return [name, { numbers, rows: shape[0], columns: shape[1] }] as const;
  };
  void Promise.all(Object.keys(from.worked.matrices).map(decodeOne)).then(
    (all) => (given.value = Object.fromEntries(all)),
    (error: Error) => (complaint.value = words().undecodable(error.message)),
  );
});

export const isProjected = () => Boolean(given.value.W_q);
export const hasOutput = () => Boolean(given.value.W_o);

/** The queries, keys or values of a token in a head, each number with its sum: a row of x times a column of W, and the bias. */
export function projected(of: Decoded, which: "query" | "key" | "value", head: number, token: number): Sum[] {
  const letter = which[0];
  const source = which !== "query" && given.value.memory ? "memory" : "x";
  const [x, matrix, bias] = [given.value[source], given.value[`W_${letter}`], given.value[`b_${letter}`]];
  const row = x.numbers.subarray(token * x.columns, (token + 1) * x.columns);
  const width = of[which]!.width;
  return Array.from({ length: width }, (_, i) => sumOf(row, matrix, head * width + i, bias?.numbers[head * width + i]));
}

/** The output of a query: the contexts of all heads side by side, times W_o. */
export function outputOf(of: Decoded, query: number): Sum[] {
  const context = Float64Array.from(Array.from({ length: of.heads }, (_, head) => [...contextOf(of, head, query)]).flat());
  const matrix = given.value.W_o;
  return Array.from({ length: matrix.columns }, (_, i) => sumOf(context, matrix, i));
}

export function contextOf(of: Decoded, head: number, query: number): Float64Array {
  const { weights } = stages(of, head, query, queryTokens.value.length, keyTokens.value.length, changes.value);
  const context = new Float64Array(of.value!.width);
  weights.forEach((weight, key) => vectorOf(of, "value", head, key).forEach((number, i) => (context[i] += weight * number)));
  return context;
}

function sumOf(row: Float64Array, matrix: Given, column: number, bias?: number): Sum {
  const terms = Array.from(row, (number, i) => [number, matrix.numbers[i * matrix.columns + column]]);
  const number = terms.reduce((total, [a, b]) => total + a * b, bias ?? 0);
  const shown = terms.slice(0, terms.length > MOST_TERMS ? 3 : MOST_TERMS).map(([a, b]) => `${brief(a)} · ${brief(b)}`);
  if (terms.length > MOST_TERMS) shown.push(words().moreProducts(terms.length - 3));
  if (bias !== undefined) shown.push(brief(bias));
  return { number, text: shown.join(" + ") };
}

/** A number as short as it can be written to four decimals, in parentheses if it is negative. */
function brief(number: number): string {
  const text = Number.isInteger(number) ? String(number).replace("-", "−") : numberText(number);
  return number < 0 ? `(${text})` : text;
}
