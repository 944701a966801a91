// Sets of letters, written as a sorted list of ranges of code points

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

const BLANK = "\\t-\\r \\x1c-\\x1f\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // the characters that Python takes for spaces
const BLANKS = new RegExp(`[${BLANK}]+`);
const ENDS = new RegExp(`^[${BLANK}]+|[${BLANK}]+$`, "g");

export const splitWords = (text: string): string[] => text.split(BLANKS).filter(Boolean);
export const stripped = (text: string): string => text.replace(ENDS, "");
export const isBlank = (letter: string): boolean => stripped(letter) === "";
