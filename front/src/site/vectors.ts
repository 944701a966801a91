// Vectors [heads tokens width], joined and cut along their tokens

import type { Layer, Vectors } from "../data";

/** The queries, keys, values and hidden vectors of a layer. */
export const vectorsOf = ({ query, key, value, states }: Layer): Vectors[] => [query!, key!, value!, ...Object.values(states ?? {})];

/** One array of the vectors of several parts of a text; each part is an array [heads tokens width]. */
export function joinTokens(parts: Float32Array[], heads: number): Float32Array {
  const joined = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (let head = 0; head < heads; head++) {
    for (const part of parts) {
      const size = part.length / heads;
      joined.set(part.subarray(head * size, (head + 1) * size), at);
      at += size;
    }
  }
  return joined;
}

/** The vectors of the first tokens. */
export function firstTokens(vectors: Float32Array, { heads, width }: Vectors, tokens: number): Float32Array {
  const size = vectors.length / heads;
  const rows = Array.from({ length: heads }, (_, head) => vectors.subarray(head * size, head * size + tokens * width));
  return joinTokens(rows, 1);
}
