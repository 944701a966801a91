// Items: a row or a column of a view stands for one item, which is a token or, if the reader wants it, a whole word

import type { Token } from "./data";

export interface Item {
  index: number; // the number of this item among all items, from 0
  positions: number[]; // the positions, in the text, of the item's tokens
  text: string;
  label: string; // the text, with its number if several items have this text: "it:2"
  title: string; // the tooltip: the position and the piece of each token
  special: boolean;
  joined: boolean; // whether this item follows the one before it without a space
  word: boolean; // true = one of the item's tokens has a letter or a digit and is not special
}

/** The items of a text: one for each token or, if `wholeWords`, one for each word. */
export function itemsOf(tokens: Token[], wholeWords: boolean): Item[] {
  const groups: number[][] = [];
  tokens.forEach((token, position) => {
    const continues = wholeWords && token.joined && token.word && tokens[position - 1]?.word;
    if (continues) groups[groups.length - 1].push(position);
    else groups.push([position]);
  });
  const texts = groups.map((positions) => positions.map((position) => tokens[position].text).join(""));
  const labels = numbered(texts);
  return groups.map((positions, index) => {
    const own = positions.map((position) => tokens[position]);
    return {
      index,
      positions,
      text: texts[index],
      label: isolated(labels[index]),
      title: own.map((token, i) => `${positions[i]}: ${token.piece ?? token.text}`).join("\n"),
      special: own.every((token) => token.special),
      joined: Boolean(own[0].joined),
      word: own.some((token) => token.word),
    };
  });
}

/** The texts, each with its number if several are the same: "it:2". */
export function numbered(texts: string[]): string[] {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const numbers = new Map<string, number>(); // for each text, its number at its last occurrence so far
  return texts.map((text) => {
    numbers.set(text, (numbers.get(text) ?? 0) + 1);
    return counts.get(text)! > 1 ? `${text}:${numbers.get(text)}` : text;
  });
}

// Letters of right-to-left scripts, and invisible characters (Cf), some of which change the direction of the text
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Cf}]/u;

/** The direction in which most letters of the items are written. */
export const directionOf = (items: { text: string; special: boolean }[]): "rtl" | "ltr" => {
  const letters = items.filter((item) => !item.special).flatMap((item) => [...item.text]).filter((letter) => /\p{Letter}/u.test(letter));
  return letters.filter((letter) => RIGHT_TO_LEFT.test(letter)).length > letters.length / 2 ? "rtl" : "ltr";
};

/** Put a text that has right-to-left letters between U+2068 and U+2069 (isolates), so that it does not reverse the text beside it. */
export const isolated = (text: string) => (RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text);
