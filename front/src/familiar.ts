// Whether the model's vocabulary covers a text: how many of its tokens are neither unknown characters nor parts of characters

import { trace } from "./state";

// Matches a token that stands for an unknown piece, [UNK:뱀], for one jamo (a part of a Korean syllable), or for some
// bytes of a letter, ‹EB›‹80›. Python's tracing/tokens/readable_tokens.py writes them.
const FRAGMENT = /^(\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+)$/s;

/** Return the number of tokens that do not match FRAGMENT, and of all tokens; null if at least half of the tokens do not match. */
export function hardlyKnown(): { known: number; all: number } | null {
  const { source, target } = trace.value;
  const tokens = (source.length ? source : target).filter((token) => !token.special);
  const known = tokens.filter((token) => !FRAGMENT.test(token.text)).length;
  return 2 * known < tokens.length ? { known, all: tokens.length } : null;
}
