// Arrays [heads tokens width] of vectors: join arrays along their tokens, and take the first tokens

import type { Layer, Vectors } from "../data";

/** The records of the queries, keys, values and hidden vectors of a layer. */
export const vectorsOf = ({ query, key, value, states }: Layer): Vectors[] => [query!, key!, value!, ...Object.values(states ?? {})];

/** Join arrays [heads tokens width] of successive parts of a text to one array [heads tokens width]. */
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

/** The vectors of the first `tokens` tokens, from an array [heads tokens width] of more. */
export function firstTokens(vectors: Float32Array, { heads, width }: Vectors, tokens: number): Float32Array {
  const size = vectors.length / heads;
  const rows = Array.from({ length: heads }, (_, head) => vectors.subarray(head * size, head * size + tokens * width));
  return joinTokens(rows, 1);
}
