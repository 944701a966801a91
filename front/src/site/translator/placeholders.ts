// Signs in place of names, numbers and addresses while a text is translated, as in Python's text/placeholders.py

import type { TextPiece } from "./sentencepiece";

const SIGNS = ["⟐", "⟡", "⟢"];
const LATIN = "[A-Za-zÀ-ɏḀ-ỿ]";
const NOT_LATIN = `(?:(?!${LATIN})[\\p{L}\\p{Nl}\\p{No}])`;
// An item (a name, number or address) may not begin or end between two digits, nor between two Latin letters.
const BEGIN = `(?:(?<!\\p{Nd})(?=\\p{Nd})|(?<!${LATIN})(?=${LATIN})|(?!\\p{Nd}|${LATIN}))`;
const END = `(?:(?<=\\p{Nd})(?!\\p{Nd})|(?<=${LATIN})(?!${LATIN})|(?<!\\p{Nd})(?<!${LATIN}))`;
const SPACED_LETTER = "(?:(?![\\u0000-ɏḀ-ỿ\\u0e00-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff])[\\p{L}\\p{Nl}\\p{No}])";
const SPACED_LETTERS = `${SPACED_LETTER}+(?!${SPACED_LETTER})`;
const PARTICLE = "(?:[은는이가을를의로와과도만]|(?:으로|에서?|까지|부터)[는도]?)";
const URL_WORD = `(?:(?<=[\\/=&?#_.:+\\-])(?!${PARTICLE}(?!${SPACED_LETTER}))${SPACED_LETTERS}|${SPACED_LETTERS}(?=[\\/=&?#_\\-]))`;
const ADDRESS = `(?:(?:https?:\\/\\/|www\\.)(?:[!-~À-ɏḀ-ỿ]|${URL_WORD})+(?<=[\\p{L}\\p{N}_\\/])|[\\w.+\\-]+@[\\w\\-]+(?:\\.[\\w\\-]+)+)`;
// The lookahead with the group `whole` is an atomic group, which JavaScript lacks
const NUMBER = "(?=\\p{Nd}[.,:\\/\\-]?\\p{Nd}[.,:\\/\\-]?\\p{Nd})(?=(?<whole>\\p{Nd}+(?:[.,:\\/\\-]\\p{Nd}+)*))\\k<whole>(?!\\s?[만억조万萬亿億兆])";

function wordsOf(letter: string): string {
  const word = `(?<![\\p{Nd}<])${letter}(?:${letter}|\\p{Nd}|['’&.\\-](?=${letter}|\\p{Nd}))*`;
  return `${word}(?: ${word})*`;
}

/** The sign (⟐, ⟡ or ⟢) that replaces each item (name, number or address) of a text; null = the translator uses no signs. */
export type Signs = Map<string, string> | null;

/** Choose which names, numbers and addresses of a source text are replaced by signs (⟐, ⟡, ⟢): at most three in all. `latin`: whether its language has Latin letters. */
export function signsOf(text: string, latin: boolean | null): Signs {
  if (latin === null) return null;
  const item = new RegExp(`${BEGIN}(?:[${SIGNS.join("")}]|${ADDRESS}|${wordsOf(latin ? NOT_LATIN : LATIN)}|${NUMBER})${END}`, "gu");
  const items = [...new Set(text.match(item))];
  const sorted = [...items.filter((one) => SIGNS.includes(one)), ...items.filter((one) => !SIGNS.includes(one))];
  return new Map(SIGNS.flatMap((sign, i) => (i < sorted.length ? [[sorted[i], sign]] : [])));
}

export function withSigns(text: string, signs: Signs): string {
  if (!signs?.size) return text;
  const longestFirst = [...signs.keys()].sort((a, b) => [...b].length - [...a].length);
  const patterns = longestFirst.map((item) => `${BEGIN}${item.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}${END}`);
  return text.replace(new RegExp(patterns.join("|"), "gu"), (item) => signs.get(item)!);
}

/** Replace each sign (⟐, ⟡, ⟢) by the name, number or address that it stands for. A sign that stands for nothing is removed. */
export function withItems(text: string, signs: Signs): string {
  if (!signs) return text;
  const itemOf = new Map([...signs].map(([item, sign]) => [sign, item]));
  return text.replace(new RegExp(`[${SIGNS.join("")}]`, "gu"), (sign) => itemOf.get(sign) ?? "");
}

export const piecesWithItems = (pieces: TextPiece[], signs: Signs): TextPiece[] =>
  pieces.map((piece) => (SIGNS.includes(piece.text) ? { ...piece, text: withItems(piece.text, signs) } : piece));
