// Whether the model knows the text: its tokens, and those that stand for unknown or incomplete letters

import { trace } from "./state";

const FRAGMENT = /^(\[UNK:.*\]|[\u3131-\u318e]|(‹[0-9A-F]{2}›)+)$/s; // [UNK:뱀], a jamo, or bytes

/** How many tokens of the text the model knows, and how many there are; null if it knows at least half of them. */
export function hardlyKnown(): { known: number; all: number } | null {
  const { source, target } = trace.value;
  const tokens = (source.length ? source : target).filter((token) => !token.special);
  const known = tokens.filter((token) => !FRAGMENT.test(token.text)).length;
  return 2 * known < tokens.length ? { known, all: tokens.length } : null;
}
