// The arrays of a trace, as the worker makes them: vectors, causal masks, output projections

import { rowsOf } from "../trace/arrays";
import type { Layer, NumberArray, Trace, Vectors } from "../trace/data";

/** The records of the queries, keys, values and hidden vectors of a layer. */
export const vectorsOf = ({ query, key, value, states }: Layer): Vectors[] => [query!, key!, value!, ...Object.values(states ?? {})];

/** Join arrays [heads tokens width] of successive parts of a text. */
export function joinTokens(parts: Float32Array[], heads: number): Float32Array {
  const joined = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  const byHead = parts.map((part) => rowsOf(part, heads));
  let end = 0; // of the numbers that are joined so far
  for (let head = 0; head < heads; head++) {
    for (const rows of byHead) {
      joined.set(rows[head], end);
      end += rows[head].length;
    }
  }
  return joined;
}

/** Take the vectors of the first tokens from an array [heads tokens width]. */
export const firstTokens = (vectors: Float32Array, { heads, width }: Vectors, nTokens: number): Float32Array =>
  joinTokens(rowsOf(vectors, heads).map((vectorsOfHead) => vectorsOfHead.subarray(0, nTokens * width)), 1);

/** The bits [queries keys] of a causal mask: 1 if the key is the query's own token or an earlier one. */
export function causal(nTokens: number): Uint8Array {
  const bits = new Uint8Array(Math.ceil((nTokens * nTokens) / 8));
  for (let query = 0; query < nTokens; query++)
    for (let key = 0; key <= query; key++) {
      const bit = query * nTokens + key;
      bits[bit >> 3] |= 0x80 >> (bit & 7);
    }
  return bits;
}

/** The arrays of all layers' output projections W_O, by name: "encoder layer 0 output weight". */
export interface Outputs {
  shown: Record<string, Float32Array>; // what the page gets of each layer: the columns of W_O that it shows, their bias, and W_O · W_Oᵀ of each head
  projections: Record<string, Float32Array>; // the whole matrices W_O, which only the worker needs
}

/** Divide the numbers of a model's file "outputs" into arrays; the records of the layers in `template` tell their order and sizes. */
export function outputArrays(file: Uint8Array, template: Trace): Outputs {
  const numbers = new Float32Array(file.slice().buffer);
  const layers = Object.values(template.kinds).flatMap((kind) => kind.layers);
  let end = 0; // of the numbers that are taken so far
  const take = ({ block, shape }: NumberArray): [string, Float32Array] => {
    const start = end;
    end += shape.reduce((product, size) => product * size, 1);
    return [block, numbers.subarray(start, end)];
  };
  const [shown, projections]: [string, Float32Array][][] = [[], []];
  for (const { output } of layers) {
    if (!output) continue;
    shown.push(...Object.values(output.arrays).map(take));
    projections.push(take(output.weight!));
  }
  return { shown: Object.fromEntries(shown), projections: Object.fromEntries(projections) };
}
