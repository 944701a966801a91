// Clean texts as Python's text/cleaning.py does: remove control characters, compose letters (NFC), make all spaces single

import { type Range, splitWords, within } from "../tokens/letters";
import { SPACE } from "./normaliser";

const CONTROL = /[\x00-\x08\x0e-\x1b\x7f\x80-\x84\x86-\x9f\ufeff]/g;
export type Clean = (text: string) => string;

/** Return the function that cleans texts. `unassigned`: code points to which NFC is not applied (see `Settings` in graphs.ts). */
export function cleaner(unassigned: Range[]): Clean {
  const isUnassigned = within(unassigned);
  const composed = (text: string): string => {
    let [result, assigned] = ["", ""]; // `assigned`: the letters since the last unassigned one
    for (const letter of text) {
      if (isUnassigned(letter)) [result, assigned] = [result + assigned.normalize("NFC") + letter, ""];
      else assigned += letter;
    }
    return result + assigned.normalize("NFC");
  };
  return (text) => splitWords(composed(text.replace(CONTROL, "")).replaceAll(SPACE, " ")).join(" ");
}
