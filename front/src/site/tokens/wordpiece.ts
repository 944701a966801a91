// WordPiece, the tokenizer of BERT: each word is cut into the longest pieces of the vocabulary. Python made the tables that normalise letters
// (site/wordpiece.py), so that the browser's version of Unicode makes no difference.

import type { Cutter, Piece } from "./cutter";
import { within, type Range } from "./letters";

/** The tables of a WordPiece tokenizer; Python's site/wordpiece.py writes them. */
export interface WordPieceTables {
  kind: "words";
  prefix: string; // the beginning of each piece that continues a word: "##"
  longest: number; // the most letters of a word; a longer word becomes the unknown token
  dropped: Range[]; // letters that are removed
  spaced: Range[]; // letters that are a word by themselves, such as 漢
  blank: Range[]; // spaces: they separate words and belong to none
  apart: Range[]; // punctuation: each such letter is a word by itself
  letters: Record<string, string>; // letters that are replaced, and by what: "É" → "e"
  decomposes: boolean; // true = words are put into Unicode's form NFD: Korean syllables become their letters, accents follow in a fixed order
  jamo: Record<string, string>; // from a letter as a part of a Korean syllable to the same letter alone: ᄒ → ㅎ
}

interface Letter {
  letter: string;
  at: number;
}

const HANGUL: Range = [0xac00, 0xd7a3];

export class WordPiece implements Cutter {
  private readonly is: Record<"dropped" | "spaced" | "blank" | "apart", (letter: string) => boolean>;

  constructor(
    private readonly vocabulary: WordPieceTables,
    private readonly ids: Map<string, number>,
    private readonly unknown: number,
  ) {
    const { dropped, spaced, blank, apart } = vocabulary;
    this.is = { dropped: within(dropped), spaced: within(spaced), blank: within(blank), apart: within(apart) };
  }

  cut(text: string[], from: number, to: number): Piece[] {
    const words: Letter[][] = [[]];
    for (const normal of this.normalise(text, from, to)) {
      if (this.is.blank(normal.letter)) words.push([]);
      else if (this.is.apart(normal.letter)) words.push([normal], []);
      else words.at(-1)!.push(normal);
    }
    return words.filter((word) => word.length).flatMap((word) => this.cutWord(word));
  }

  private normalise(text: string[], from: number, to: number): Letter[] {
    const normal: Letter[] = [];
    for (let at = from; at < to; at++) {
      const letter = text[at];
      if (this.is.dropped(letter)) continue;
      const replacement = this.is.spaced(letter) ? ` ${letter} ` : this.replacementOf(letter);
      for (const normalLetter of replacement) normal.push({ letter: normalLetter, at });
    }
    return normal;
  }

  private replacementOf(letter: string): string {
    const { letters, decomposes } = this.vocabulary;
    const code = letter.codePointAt(0)!;
    if (decomposes && code >= HANGUL[0] && code <= HANGUL[1]) return letter.normalize("NFD");
    return Object.hasOwn(letters, letter) ? letters[letter] : letter;
  }

  /** The letters of a piece, without "##". Parts of a Korean syllable become separate letters: ㅎ, not ᄒ. */
  letters(piece: string): string {
    const { prefix, jamo } = this.vocabulary;
    return [...(piece.startsWith(prefix) ? piece.slice(prefix.length) : piece)].map((letter) => jamo[letter] ?? letter).join("");
  }

  decode = (pieces: string[]): string => pieces.join(" ").replaceAll(` ${this.vocabulary.prefix}`, "");

  /** Cut a word into the longest pieces that fit, from its beginning on. If none fits at some place, the whole word is one unknown token. */
  private cutWord(word: Letter[]): Piece[] {
    const { prefix, longest, decomposes } = this.vocabulary;
    const piece = (id: number, start: number, end: number): Piece => ({ id, start: word[start].at, end: word[end - 1].at + 1 });
    const unknownWord = [piece(this.unknown, 0, word.length)];
    if (word.length > longest) return unknownWord;
    const spelled = word.map(({ letter }) => letter).join("");
    const letters = [...(decomposes ? spelled.normalize("NFD") : spelled)];
    const idOf = (start: number, end: number) => this.ids.get((start ? prefix : "") + letters.slice(start, end).join(""));
    const pieces: Piece[] = [];
    for (let start = 0, end = 0; start < letters.length; start = end) {
      end = letters.length;
      while (end > start && idOf(start, end) === undefined) end -= 1;
      if (end === start) return unknownWord;
      pieces.push(piece(idOf(start, end)!, start, end));
    }
    return pieces;
  }
}
