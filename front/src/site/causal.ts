// The mask of causal self-attention

/** The bits [queries keys] of a causal mask: 1 if the key is the query's own token or an earlier one. */
export function causal(tokens: number): Uint8Array {
  const bits = new Uint8Array(Math.ceil((tokens * tokens) / 8));
  for (let query = 0; query < tokens; query++)
    for (let key = 0; key <= query; key++) {
      const bit = query * tokens + key;
      bits[bit >> 3] |= 0x80 >> (bit & 7);
    }
  return bits;
}
