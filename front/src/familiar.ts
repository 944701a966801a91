// Whether the model knows the text: how many of its tokens are neither unknown characters nor parts of characters

import { trace } from "./state";

// An unknown piece such as [UNK:뱀], one jamo (a part of a Korean syllable), or bytes of a letter, as tracing/tokens/readable_tokens.py writes them
const FRAGMENT = /^(\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+)$/s;

/** The tokens of the text that the model knows, counted, and all tokens; null if it knows at least half of them. */
export function hardlyKnown(): { known: number; all: number } | null {
  const { source, target } = trace.value;
  const tokens = (source.length ? source : target).filter((token) => !token.special);
  const known = tokens.filter((token) => !FRAGMENT.test(token.text)).length;
  return 2 * known < tokens.length ? { known, all: tokens.length } : null;
}
