// A text as tokens: whole tokens such as [MASK] wherever they stand, and the pieces of what is between

import type { Token } from "../data";
import { BytePairs, type Bytes } from "./byte-pairs";
import type { Cutter, Piece } from "./cutter";
import { tokensOf, tokensWithoutText, withWords } from "./tokens";
import { WordPiece, type Words } from "./wordpiece";

/** What every kind of tokenizer has; Python's site/tokenizer.py writes it. */
interface Shared {
  pieces: string[]; // by id
  unknown: number | null;
  before: number[]; // ids that the tokenizer adds before a text
  after: number[];
  special: number[]; // ids that stand for no word, such as that of [CLS]
  whole: Record<string, number>; // texts that are a token wherever they stand, such as [MASK]
}

export type Vocabulary = Shared & (Words | Bytes);

export class Tokenizer {
  private readonly cutter: Cutter;
  private readonly whole: [string[], number][];

  constructor(readonly vocabulary: Vocabulary) {
    const ids = new Map(vocabulary.pieces.map((piece, id) => [piece, id]));
    this.cutter = vocabulary.kind === "words" ? new WordPiece(vocabulary, ids, vocabulary.unknown!) : new BytePairs(vocabulary, ids);
    this.whole = Object.entries(vocabulary.whole).map(([text, id]): [string[], number] => [[...text], id]).sort(([a], [b]) => b.length - a.length);
  }

  static of = (file: Uint8Array) => new Tokenizer(JSON.parse(new TextDecoder().decode(file)) as Vocabulary);

  /** The tokens of a text, with those that the tokenizer adds; a text is given as its code points. */
  encode(text: string[]): Piece[] {
    const { before, after } = this.vocabulary;
    const added = (id: number): Piece => ({ id, start: 0, end: 0 });
    return [...before.map(added), ...this.read(text), ...after.map(added)];
  }

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
      found.push(...this.cutter.cut(text, from, at), { id: whole[1], start: at, end });
      at = from = end;
    }
    return [...found, ...this.cutter.cut(text, from, text.length)];
  }

  /** The tokens of the pieces of a text, which is given as its code points, and of ids that follow the text. */
  tokens(pieces: Piece[], text: string[], continuation: number[] = []): Token[] {
    const last = pieces.at(-1)?.id ?? null;
    const { vocabulary, cutter } = this;
    return withWords([...tokensOf(pieces, text, vocabulary, cutter), ...tokensWithoutText(continuation, last, vocabulary, cutter)]);
  }

  /** The texts of ids, as tokens have them. */
  texts = (ids: number[]): string[] => ids.map((id) => tokensWithoutText([id], null, this.vocabulary, this.cutter)[0].text);

  /** The letters of an id, with its spaces. */
  letters(id: number): string {
    const { pieces, special } = this.vocabulary;
    return special.includes(id) ? pieces[id] : this.cutter.letters(pieces[id]);
  }

  /** The text that ids spell. */
  decode = (ids: number[]): string => this.cutter.decode(ids.map((id) => this.vocabulary.pieces[id]));
}
