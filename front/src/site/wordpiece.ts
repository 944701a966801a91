// The tokenizer of BERT and its kin: normalise letters, split into words, cut words into the longest pieces known.
//
// What becomes of a letter stands in tables that Python made with the model's own tokenizer (site/wordpiece.py), so
// that the browser's version of Unicode makes no difference.

import { within, type Range } from "./ranges";

export interface Vocabulary {
  pieces: string[]; // by id
  prefix: string; // of a piece that continues a word: "##"
  unknown: number;
  longest: number; // the most letters of a word; a longer one is unknown
  before: number[]; // ids that the tokenizer adds before a text
  after: number[];
  special: number[]; // ids that stand for no word, such as that of [CLS]
  whole: Record<string, number>; // texts that are a token wherever they stand, such as [MASK]
  dropped: Range[]; // letters that are left out
  spaced: Range[]; // letters that are words of their own, such as 漢
  blank: Range[]; // what separates words
  apart: Range[]; // punctuation: a word of its own
  letters: Record<string, string>; // what a letter becomes, where it is another: "É" → "e"
  decomposes: boolean; // syllables of Hangul become their letters, and marks come into Unicode's order
  jamo: Record<string, string>; // the letters of Hangul in the form in which they stand alone
}

/** A token: its id, and the letters of the text that it stands for, as code points from `start` to before `end`. */
export interface Piece {
  id: number;
  start: number;
  end: number;
}

/** A normalised letter, and the place in the text of the letter that it came from. */
interface Letter {
  letter: string;
  at: number;
}

const HANGUL: Range = [0xac00, 0xd7a3];

export class WordPiece {
  private readonly ids: Map<string, number>;
  private readonly whole: [string[], number][];
  private readonly is: Record<"dropped" | "spaced" | "blank" | "apart", (letter: string) => boolean>;

  constructor(private readonly vocabulary: Vocabulary) {
    const { pieces, whole, dropped, spaced, blank, apart } = vocabulary;
    this.ids = new Map(pieces.map((piece, id) => [piece, id]));
    this.whole = Object.entries(whole).map(([text, id]): [string[], number] => [[...text], id]).sort(([a], [b]) => b.length - a.length);
    this.is = { dropped: within(dropped), spaced: within(spaced), blank: within(blank), apart: within(apart) };
  }

  /** The tokens of a text, with those that the tokenizer adds; a text is given as its code points. */
  encode(text: string[]): Piece[] {
    const { before, after } = this.vocabulary;
    const added = (id: number): Piece => ({ id, start: 0, end: 0 });
    return [...before.map(added), ...this.read(text), ...after.map(added)];
  }

  /** The tokens of a text: those that are whole tokens wherever they stand, and the pieces of what is between. */
  private read(text: string[]): Piece[] {
    const found: Piece[] = [];
    let from = 0;
    for (let at = 0; at < text.length; ) {
      const whole = this.whole.find(([letters]) => letters.every((letter, i) => text[at + i] === letter));
      if (!whole) {
        at += 1;
        continue;
      }
      const end = at + whole[0].length;
      found.push(...this.split(text, from, at), { id: whole[1], start: at, end });
      at = from = end;
    }
    return [...found, ...this.split(text, from, text.length)];
  }

  private split(text: string[], from: number, to: number): Piece[] {
    const words: Letter[][] = [[]];
    for (const one of this.normalise(text, from, to)) {
      if (this.is.blank(one.letter)) words.push([]);
      else if (this.is.apart(one.letter)) words.push([one], []);
      else words[words.length - 1].push(one);
    }
    return words.filter((word) => word.length).flatMap((word) => this.cut(word));
  }

  private normalise(text: string[], from: number, to: number): Letter[] {
    const normal: Letter[] = [];
    for (let at = from; at < to; at++) {
      const letter = text[at];
      if (this.is.dropped(letter)) continue;
      for (const one of this.is.spaced(letter) ? ` ${letter} ` : this.letters(letter)) normal.push({ letter: one, at });
    }
    return normal;
  }

  private letters(letter: string): string {
    const { letters, decomposes } = this.vocabulary;
    const code = letter.codePointAt(0)!;
    if (decomposes && code >= HANGUL[0] && code <= HANGUL[1]) return letter.normalize("NFD");
    return Object.hasOwn(letters, letter) ? letters[letter] : letter;
  }

  /** Cut a word into the longest pieces that are known, from its beginning on; one token if a rest is unknown. */
  private cut(word: Letter[]): Piece[] {
    const { prefix, unknown, longest, decomposes } = this.vocabulary;
    const piece = (id: number, start: number, end: number): Piece => ({ id, start: word[start].at, end: word[end - 1].at + 1 });
    const all = [piece(unknown, 0, word.length)];
    if (word.length > longest) return all;
    const spelled = word.map(({ letter }) => letter).join("");
    const letters = [...(decomposes ? spelled.normalize("NFD") : spelled)];
    const pieces: Piece[] = [];
    for (let start = 0; start < letters.length; ) {
      let end = letters.length;
      let id: number | undefined;
      for (; end > start && id === undefined; end--) id = this.ids.get((start ? prefix : "") + letters.slice(start, end).join(""));
      if (id === undefined) return all;
      pieces.push(piece(id, start, end + 1));
      start = end + 1;
    }
    return pieces;
  }
}
