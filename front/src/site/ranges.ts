// Sets of letters, written as a sorted list of ranges of code points

/** The first and the last code point of a range. */
export type Range = [number, number];

/** Return a function that says whether a letter is in one of the ranges, which must be sorted. */
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
