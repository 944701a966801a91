// Clean texts as Python's text/cleaning.py does: remove control characters, compose letters (NFC), make all spaces single

import { within, type Range } from "../ranges";
import { SPACE } from "./normaliser";

const CONTROL = /[\x00-\x08\x0e-\x1b\x7f\x80-\x84\x86-\x9f\ufeff]/g;
const BLANK = "\\t-\\r \\x1c-\\x1f\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // the characters that Python takes for spaces
const BLANKS = new RegExp(`[${BLANK}]+`);
const ENDS = new RegExp(`^[${BLANK}]+|[${BLANK}]+$`, "g");

export type Clean = (text: string) => string;

export const splitWords = (text: string): string[] => text.split(BLANKS).filter(Boolean);
export const stripped = (text: string): string => text.replace(ENDS, "");
export const isBlank = (letter: string): boolean => stripped(letter) === "";

/**
 * Return the function that cleans texts. `unassigned`: code points that Python's version of Unicode does not define, and so
 * does not compose.
 */
export function cleaner(unassigned: Range[]): Clean {
  const isUnassigned = within(unassigned);
  const composed = (text: string): string => {
    let [done, run] = ["", ""];
    for (const letter of text) {
      if (isUnassigned(letter)) [done, run] = [done + run.normalize("NFC") + letter, ""];
      else run += letter;
    }
    return done + run.normalize("NFC");
  };
  return (text) => splitWords(composed(text.replace(CONTROL, "")).replaceAll(SPACE, " ")).join(" ");
}
