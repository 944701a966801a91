// Byte-pair encoding (BPE): of all pairs of neighbours, the pair with the highest score is joined, again and again

import { indicesOfLargest } from "../../trace/arrays";

/** The rules of a vocabulary: which pieces are joined, and which are split again. */
interface Merges {
  score: (left: string, right: string) => number | undefined; // the score of a pair; undefined = the pair is never joined
  unused: (piece: string) => boolean; // true = the piece is only a step towards longer pieces: if it remains at the end, it is split again into the two pieces that made it
}

/** Cut a normalised text into pieces. `symbols`: its letters, in order; a symbol with `whole` is a piece that is never cut or joined. */
export function bytePairs(symbols: { text: string; whole: boolean }[], merges: Merges): string[] {
  const halvesOf = new Map<string, [string, string]>(); // for each unused piece, the two pieces that made it
  const parts = [...symbols];
  const scoreAt = (i: number): number => {
    const [left, right] = [parts[i], parts[i + 1]];
    if (!left || !right || left.whole || right.whole) return -Infinity;
    const joined = left.text + right.text;
    if (merges.unused(joined)) halvesOf.set(joined, [left.text, right.text]);
    return merges.score(left.text, right.text) ?? -Infinity;
  };
  const scores = parts.slice(1).map((_, i) => scoreAt(i));
  for (;;) {
    const [best] = indicesOfLargest(scores, 1);
    if (!scores.length || scores[best] === -Infinity) break;
    parts.splice(best, 2, { text: parts[best].text + parts[best + 1].text, whole: false });
    scores.splice(best, 1);
    if (best > 0) scores[best - 1] = scoreAt(best - 1);
    if (best < scores.length) scores[best] = scoreAt(best);
  }
  const splitUnused = (piece: string): string[] => halvesOf.get(piece)?.flatMap(splitUnused) ?? [piece];
  return parts.flatMap(({ text }) => splitUnused(text));
}
