// Tokens that are no readable text: unknown to the vocabulary, bytes of a letter, or parts of a Korean syllable. Python's tracing/tokens/readable_tokens.py makes these texts.

import type { Token } from "./data";

/** An unknown piece, [UNK:뱀]; one jamo (a part of a Korean syllable); or some bytes of a letter, ‹EB›‹80›. */
export const FRAGMENT = /^(\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+)$/s;

const SPACE = 0x20;

/** The distinct characters of unknown tokens ([UNK:뱀]) and of tokens that are bytes (‹EB›‹80›). */
export function unknownCharacters(tokens: Token[]): string[] {
  const bytes = tokens.flatMap(({ text }) => {
    const unknown = text.match(/^\[UNK:(.*)\]$/s);
    if (unknown) return [...new TextEncoder().encode(unknown[1])];
    if (/^(‹[0-9A-F]{2}›)+$/.test(text)) return text.match(/[0-9A-F]{2}/g)!.map((byte) => parseInt(byte, 16));
    return [SPACE]; // for a known token, so that the bytes before and after it are not decoded as one character
  });
  const characters = new TextDecoder().decode(Uint8Array.from(bytes)).replace(/\s/g, "");
  return [...new Set(characters)];
}
