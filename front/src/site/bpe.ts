// Byte-pair encoding: the two neighbours whose pair has the highest score are joined first

/** What the algorithm asks of a vocabulary. */
export interface Merges {
  score: (left: string, right: string) => number | undefined; // undefined = the two are not joined
  unused: (piece: string) => boolean; // a piece that is taken apart again
}

/** Cut a normalised text into pieces; `symbols` are its letters, and the pieces that are never cut or joined. */
export function bytePairs(symbols: { text: string; whole: boolean }[], merges: Merges): string[] {
  const apart = new Map<string, [string, string]>();
  const parts = [...symbols];
  const scoreAt = (place: number): number => {
    const [left, right] = [parts[place], parts[place + 1]];
    if (!left || !right || left.whole || right.whole) return -Infinity;
    const joined = left.text + right.text;
    if (merges.unused(joined)) apart.set(joined, [left.text, right.text]);
    return merges.score(left.text, right.text) ?? -Infinity;
  };
  const scores = parts.slice(1).map((_, place) => scoreAt(place));
  for (;;) {
    const best = placeOfLargest(scores);
    if (best < 0) break;
    parts.splice(best, 2, { text: parts[best].text + parts[best + 1].text, whole: false });
    scores.splice(best, 1);
    if (best > 0) scores[best - 1] = scoreAt(best - 1);
    if (best < scores.length) scores[best] = scoreAt(best);
  }
  const takenApart = (piece: string): string[] => {
    const halves = merges.unused(piece) ? apart.get(piece) : undefined;
    return halves ? halves.flatMap(takenApart) : [piece];
  };
  return parts.flatMap(({ text }) => takenApart(text));
}

/** The place of the first of the largest numbers; -1 if all are -∞. */
function placeOfLargest(numbers: number[]): number {
  let best = -1;
  let largest = -Infinity;
  for (let i = 0; i < numbers.length; i++) if (numbers[i] > largest) [best, largest] = [i, numbers[i]];
  return best;
}
