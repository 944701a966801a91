// The vocabulary of a translator: it cuts texts into pieces, and joins pieces to a text, exactly as SentencePiece does
//
// Source: google/sentencepiece (bpe_model.cc, unigram_model.cc, sentencepiece_processor.cc).

import { bytePairs } from "../tokens/bpe";
import { Normaliser, SPACE } from "./normaliser";
import { CONTROL, NORMAL, readModel, UNUSED, USER_DEFINED, type SpmModel } from "./spm-file";
import { mostProbablePieces } from "./unigram";
import { lettersOfBytes } from "./utf8";

export const UNK = 1; // the id of the unknown token, the same in every vocabulary of regard
const UNKNOWN_PENALTY = 10;
const BYTE_PIECE = /^<0x([0-9A-F]{2})>$/;

/** A piece of a text: its id, and its text in the vocabulary. An unknown piece has the letters of the text that it stands for. */
export interface TextPiece {
  id: number;
  text: string;
}

export class Vocabulary {
  private readonly model: SpmModel;
  private readonly normaliser: Normaliser;
  private readonly ids: Map<string, number>; // the ids of normal, user-defined and unused pieces, by their text
  private readonly whole: string[]; // user-defined pieces, which are never cut, the longest first
  private readonly byteIds: Map<string, number>;
  private readonly longest: number; // the number of letters of the longest piece
  private readonly lowest: number; // the lowest score of a normal piece
  private readonly highest: number; // the highest score of a normal piece

  constructor(file: Uint8Array) {
    this.model = readModel(file);
    const pieces = this.model.pieces.map((piece, id) => ({ ...piece, id }));
    const known = pieces.filter(({ kind }) => [NORMAL, USER_DEFINED, UNUSED].includes(kind));
    const scores = known.flatMap(({ kind, score }) => (kind === NORMAL ? [score] : []));
    this.ids = new Map(known.map(({ text, id }) => [text, id]));
    this.whole = known.filter(({ kind }) => kind === USER_DEFINED).map(({ text }) => text).sort((a, b) => b.length - a.length);
    this.byteIds = new Map(pieces.flatMap(({ text, id }) => (BYTE_PIECE.test(text) ? [[text, id]] : [])));
    this.longest = known.reduce((longest, { text }) => Math.max(longest, [...text].length), 1);
    this.lowest = scores.reduce((a, b) => Math.min(a, b), Infinity);
    this.highest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    this.normaliser = new Normaliser(this.model, this.whole);
  }

  /** Cut a text into pieces. The caller has cleaned the text already (see clean.ts). */
  encode(text: string): TextPiece[] {
    const normal = this.normaliser.normalise(text);
    const pieces = this.model.algorithm === "bpe" ? this.cutByPairs(normal) : this.cutByScores(normal);
    const textPieces: TextPiece[] = [];
    for (const piece of pieces) {
      const id = this.idOf(piece);
      const before = textPieces.at(-1);
      if (id === UNK && this.model.bytes) textPieces.push(...this.bytesOf(piece));
      else if (id === UNK && before?.id === UNK) before.text += piece;
      else textPieces.push({ id, text: piece });
    }
    return textPieces.map((piece) => (piece.id === UNK ? this.foreign(piece) : piece));
  }

  /** Return the text of the pieces with these ids. The id UNK is not allowed. */
  decode(ids: number[]): string {
    let text = "";
    let bytes: number[] = [];
    // true = leave out a space at the beginning of the text: the one that `encode` adds (dummyPrefix), or every such space (singleSpaces)
    let beginning = this.model.dummyPrefix || this.model.singleSpaces;
    const spellBytes = () => {
      text += lettersOfBytes(Uint8Array.from(bytes)).map(({ letter }) => letter ?? "\ufffd").join("");
      bytes = [];
    };
    for (const id of ids) {
      const { text: piece, kind } = this.model.pieces[id];
      const byte = piece.match(BYTE_PIECE);
      if (byte && this.model.bytes) {
        bytes.push(parseInt(byte[1], 16));
        continue;
      }
      spellBytes();
      if (kind === CONTROL) continue;
      const leavesOutSpace = beginning && !text && piece.startsWith(SPACE);
      if (leavesOutSpace && !this.model.singleSpaces) beginning = false;
      text += (leavesOutSpace ? piece.slice(SPACE.length) : piece).replaceAll(SPACE, " ");
    }
    spellBytes();
    return text;
  }

  /** The text of the piece with this id, as it is in the vocabulary. */
  piece = (id: number): string => this.model.pieces[id].text;

  private cutByPairs(normal: string): string[] {
    const symbols: { text: string; whole: boolean }[] = [];
    for (let at = 0; at < normal.length; ) {
      const whole = this.whole.find((piece) => normal.startsWith(piece, at));
      const text = whole ?? String.fromCodePoint(normal.codePointAt(at)!);
      symbols.push({ text, whole: whole !== undefined });
      at += text.length;
    }
    return bytePairs(symbols, {
      score: (left, right) => this.known(left + right)?.score,
      unused: (piece) => this.known(piece)?.kind === UNUSED,
    });
  }

  private cutByScores(normal: string): string[] {
    return mostProbablePieces([...normal], {
      score: (text) => {
        const piece = this.known(text);
        if (piece?.kind === USER_DEFINED) return Math.fround(new TextEncoder().encode(text).length * this.highest) - 0.1;
        return piece?.kind === UNUSED ? undefined : piece?.score;
      },
      longest: this.longest,
      unknown: Math.fround(this.lowest - UNKNOWN_PENALTY),
    });
  }

  private known(text: string) {
    const id = this.ids.get(text);
    return id === undefined ? undefined : this.model.pieces[id];
  }

  /** The id of a piece; UNK if the vocabulary has none or, in a unigram model, if the piece is marked as unused. */
  private idOf(text: string): number {
    const unused = this.model.algorithm === "unigram" && this.known(text)?.kind === UNUSED;
    return unused ? UNK : (this.ids.get(text) ?? UNK);
  }

  private bytesOf(piece: string): TextPiece[] {
    return [...new TextEncoder().encode(piece)].map((byte) => {
      const text = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
      return { id: this.byteIds.get(text) ?? UNK, text };
    });
  }

  /** Give an unknown piece the id of the unused piece with the same letters, if there is one (see text/foreign_vocabulary.py), else UNK. */
  private foreign(unknown: TextPiece): TextPiece {
    const id = this.known(unknown.text)?.kind === UNUSED ? this.ids.get(unknown.text)! : UNK;
    return { id, text: unknown.text };
  }
}
