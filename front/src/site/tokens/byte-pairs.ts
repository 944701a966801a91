// Byte-level BPE, the tokenizer of GPT-2: patterns split a text, and the bytes of each part are joined pair by pair. The patterns list the
// code points of letters, numbers and spaces (see site/byte_pairs.py), so that the browser's version of Unicode makes no difference.

import { bytePairs } from "./bpe";
import type { Cutter, Piece } from "./cutter";

/** The tables of a tokenizer with byte-level BPE; Python's site/byte_pairs.py writes them. */
export interface BytePairTables {
  kind: "bytes";
  bytes: Record<string, number>; // the byte that each letter of a piece stands for: "Ġ" → 32
  merges: [string, string][]; // the pairs that may be joined; an earlier pair in the list is joined first
  ignore_merges: boolean; // true = a part of the text that is a piece of the vocabulary stays whole
  splits: string[]; // regular expressions: the first splits the text into its matches and the parts between them, the second splits all these parts, and so on
}

const REPLACEMENT = "\ufffd"; // the decoder writes this letter for bytes that are not UTF-8

export class BytePairs implements Cutter {
  private readonly ranks: Map<string, number>;
  private readonly splits: RegExp[];
  private readonly letterOf: string[];

  constructor(
    private readonly vocabulary: BytePairTables,
    private readonly ids: Map<string, number>,
  ) {
    this.ranks = new Map(vocabulary.merges.map((pair, rank) => [pair.join(" "), rank]));
    this.splits = vocabulary.splits.map((pattern) => new RegExp(pattern, "gu"));
    this.letterOf = [];
    for (const [letter, byte] of Object.entries(vocabulary.bytes)) this.letterOf[byte] = letter;
  }

  cut(text: string[], from: number, to: number): Piece[] {
    let parts = [text.slice(from, to).join("")];
    for (const pattern of this.splits) parts = parts.flatMap((part) => splitBy(pattern, part));
    let position = from;
    return parts.flatMap((part) => {
      const letters = [...part];
      const pieces = this.cutPart(letters, position);
      position += letters.length;
      return pieces;
    });
  }

  /** Cut one part of a text, given as its letters, into pieces by BPE. `position`: the position of the part's first letter in the text. */
  private cutPart(letters: string[], position: number): Piece[] {
    const positions: number[] = []; // for each byte of the part, the position of the byte's letter in the text
    const byteLetters: string[] = []; // for each byte, the letter that stands for it in pieces
    letters.forEach((letter, i) => {
      for (const byte of new TextEncoder().encode(letter)) {
        positions.push(position + i);
        byteLetters.push(this.letterOf[byte]);
      }
    });
    const whole = byteLetters.join("");
    const staysWhole = this.vocabulary.ignore_merges && this.ids.has(whole);
    let end = 0;
    return (staysWhole ? [whole] : this.merged(byteLetters)).map((piece) => {
      const start = end;
      end += piece.length;
      return { id: this.ids.get(piece)!, start: positions[start], end: positions[end - 1] + 1 };
    });
  }

  private merged(byteLetters: string[]): string[] {
    const symbols = byteLetters.map((text) => ({ text, whole: false }));
    const score = (left: string, right: string) => {
      const rank = this.ranks.get(`${left} ${right}`);
      return rank === undefined ? undefined : -rank;
    };
    return bytePairs(symbols, { score, unused: () => false });
  }

  /** The letters that the bytes of a piece spell; if these are not whole letters, the bytes: ‹EB›‹80›. */
  letters(piece: string): string {
    const text = this.decode([piece]);
    if (text && !text.includes(REPLACEMENT)) return text;
    return [...this.bytesOf(piece)].map((byte) => `‹${byte.toString(16).toUpperCase().padStart(2, "0")}›`).join("");
  }

  decode = (pieces: string[]): string => {
    const bytes = pieces.flatMap((piece) => [...this.bytesOf(piece)]);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  };

  /** The bytes that the letters of a piece stand for (see `bytes`). If a letter stands for no byte, the piece in UTF-8. */
  private bytesOf(piece: string): Uint8Array {
    const bytes = [...piece].map((letter) => this.vocabulary.bytes[letter]);
    return bytes.includes(undefined as never) ? new TextEncoder().encode(piece) : Uint8Array.from(bytes);
  }
}

/** Split a text into the parts that a pattern matches and the parts between the matches, in their order. */
function splitBy(pattern: RegExp, text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    parts.push(text.slice(from, index), match);
    from = index + match.length;
  }
  return [...parts, text.slice(from)].filter(Boolean);
}
