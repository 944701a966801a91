// Tokenizers: tokens such as [MASK] are whole wherever they stand in a text, and the text between them is cut into pieces

import type { Token } from "../../trace/data";
import { BytePairs, type BytePairTables } from "./byte-pairs";
import type { Cutter, Piece } from "./cutter";
import { type Pieces, tokensOf, tokensWithoutText, withWords } from "./shown-tokens";
import { WordPiece, type WordPieceTables } from "./wordpiece";

/** The fields that the tables of every kind of tokenizer have; Python's site/tokenizer.py writes them. */
interface Shared extends Pieces {
  before: number[]; // the ids of tokens that the tokenizer adds before a text
  after: number[]; // the ids of tokens that the tokenizer adds after a text
  whole: Record<string, number>; // texts that are one token wherever they stand, such as [MASK], with their ids
}

export type Vocabulary = Shared & (WordPieceTables | BytePairTables);

export class Tokenizer {
  private readonly cutter: Cutter;
  private readonly whole: [string[], number][];

  constructor(readonly vocabulary: Vocabulary) {
    const ids = new Map(vocabulary.pieces.map((piece, id) => [piece, id]));
    this.cutter = vocabulary.kind === "words" ? new WordPiece(vocabulary, ids, vocabulary.unknown!) : new BytePairs(vocabulary, ids);
    this.whole = Object.entries(vocabulary.whole).map(([text, id]): [string[], number] => [[...text], id]).sort(([a], [b]) => b.length - a.length);
  }

  static of = (file: Uint8Array) => new Tokenizer(JSON.parse(new TextDecoder().decode(file)) as Vocabulary);

  /** Cut a text (a list of code points) into pieces, and add special tokens before and after. Pieces at the end of the text are left out if there are more than `maxPieces` in all. */
  encode(text: string[], maxPieces = Infinity): Piece[] {
    const { before, after } = this.vocabulary;
    const added = (id: number): Piece => ({ id, start: 0, end: 0 });
    const maxOfText = Math.max(0, maxPieces - before.length - after.length);
    return [...before.map(added), ...this.piecesOf(text).slice(0, maxOfText), ...after.map(added)];
  }

  private piecesOf(text: string[]): Piece[] {
    const pieces: Piece[] = [];
    let from = 0; // the text before this position is cut already
    for (let at = 0; at < text.length; ) {
      const whole = this.whole.find(([letters]) => letters.every((letter, i) => text[at + i] === letter));
      if (!whole) {
        at += 1;
        continue;
      }
      const [letters, id] = whole;
      const end = at + letters.length;
      pieces.push(...this.cutter.cut(text, from, at), { id, start: at, end });
      at = from = end;
    }
    return [...pieces, ...this.cutter.cut(text, from, text.length)];
  }

  /** The tokens that the page shows: one for each piece of a text, given as its code points, and for each id of its continuation. */
  tokens(pieces: Piece[], text: string[], continuation: number[] = []): Token[] {
    const last = pieces.at(-1)?.id ?? null;
    const { vocabulary, cutter } = this;
    return withWords([...tokensOf(pieces, text, vocabulary, cutter), ...tokensWithoutText(continuation, last, vocabulary, cutter)]);
  }

  /** The text that the page shows for each of these tokens if the token stands alone. */
  texts = (ids: number[]): string[] => ids.map((id) => tokensWithoutText([id], null, this.vocabulary, this.cutter)[0].text);

  /** The letters of the token with this id, with the spaces around them. */
  letters(id: number): string {
    const { pieces, special } = this.vocabulary;
    return special.includes(id) ? pieces[id] : this.cutter.letters(pieces[id]);
  }

  decode = (ids: number[]): string => this.cutter.decode(ids.map((id) => this.vocabulary.pieces[id]));
}
