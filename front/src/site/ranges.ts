// Sets of letters, written as ranges of code points that rise

/** From the first to the last code point. */
export type Range = [number, number];

/** Whether a letter lies in one of the ranges. */
export function within(ranges: Range[]): (letter: string) => boolean {
  return (letter) => {
    const code = letter.codePointAt(0)!;
    let [low, high] = [0, ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle][1] < code) low = middle + 1;
      else high = middle;
    }
    return low < ranges.length && ranges[low][0] <= code;
  };
}
