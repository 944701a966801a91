// Tokens of which the model knows little. Python's tracing/tokens/readable_tokens.py writes them.

import type { Token } from "./data";

/** An unknown piece, [UNK:뱀]; one jamo (a part of a Korean syllable); or some bytes of a letter, ‹EB›‹80›. */
export const FRAGMENT = /^(\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+)$/s;

/** The different characters of a text that its tokens give as bytes or as unknown. */
export function unknownCharacters(tokens: Token[]): string[] {
  const bytes = tokens.flatMap(({ text }) => {
    const unknown = text.match(/^\[UNK:(.*)\]$/s);
    if (unknown) return [...new TextEncoder().encode(unknown[1])];
    const isBytes = /^(‹[0-9A-F]{2}›)+$/.test(text);
    return isBytes ? text.match(/[0-9A-F]{2}/g)!.map((byte) => parseInt(byte, 16)) : [0x20]; // a known token counts as a space, which ends a letter's bytes
  });
  return [...new Set(new TextDecoder().decode(Uint8Array.from(bytes)).replace(/\s/g, ""))];
}
