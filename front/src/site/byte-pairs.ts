// The tokenizer of GPT-2 and its kin: a text is split by patterns, and the bytes of each part are joined pair by pair.
//
// The letters, numbers and spaces of the patterns are those of the model's own tokenizer (site/byte_pairs.py), so that
// the browser's version of Unicode makes no difference.

import { bytePairs } from "./bpe";
import type { Cutter, Piece } from "./cutter";

export interface Bytes {
  kind: "bytes";
  bytes: Record<string, number>; // the byte that each letter of a piece stands for
  merges: [string, string][]; // the pairs that are joined, the first before the others
  ignore_merges: boolean; // a part that is a piece as a whole is not cut
  splits: string[]; // patterns; what they match, and what is between, is split again by the next one
}

const REPLACEMENT = "\ufffd"; // what stands for bytes that are not UTF-8

export class BytePairs implements Cutter {
  private readonly ranks: Map<string, number>;
  private readonly splits: RegExp[];
  private readonly letterOf: string[];

  constructor(
    private readonly vocabulary: Bytes,
    private readonly ids: Map<string, number>,
  ) {
    this.ranks = new Map(vocabulary.merges.map((pair, rank) => [pair.join(" "), rank]));
    this.splits = vocabulary.splits.map((pattern) => new RegExp(pattern, "gu"));
    this.letterOf = [];
    for (const [letter, byte] of Object.entries(vocabulary.bytes)) this.letterOf[byte] = letter;
  }

  cut(text: string[], from: number, to: number): Piece[] {
    const whole = text.slice(from, to).join("");
    let place = from;
    return this.splits.reduce((parts, pattern) => parts.flatMap((part) => splitBy(pattern, part)), [whole]).flatMap((part) => {
      const letters = [...part];
      const pieces = this.join(letters, place);
      place += letters.length;
      return pieces;
    });
  }

  /** The pieces of a part of the text that begins at `place`. */
  private join(letters: string[], place: number): Piece[] {
    const places: number[] = []; // for each byte, the place of its letter
    const spelled: string[] = [];
    letters.forEach((letter, i) => {
      for (const byte of new TextEncoder().encode(letter)) {
        places.push(place + i);
        spelled.push(this.letterOf[byte]);
      }
    });
    const all = spelled.join("");
    const known = this.vocabulary.ignore_merges && this.ids.has(all);
    let at = 0;
    return (known ? [all] : this.joined(spelled)).map((piece) => {
      const start = at;
      at += piece.length;
      return { id: this.ids.get(piece)!, start: places[start], end: places[at - 1] + 1 };
    });
  }

  private joined(spelled: string[]): string[] {
    const symbols = spelled.map((text) => ({ text, whole: false }));
    const score = (left: string, right: string) => {
      const rank = this.ranks.get(`${left} ${right}`);
      return rank === undefined ? undefined : -rank;
    };
    return bytePairs(symbols, { score, unused: () => false });
  }

  /** The letters that the bytes of a piece spell; ‹EB›‹80› if they spell only a part of a letter. */
  letters(piece: string): string {
    const text = this.decode([piece]);
    if (text && !text.includes(REPLACEMENT)) return text;
    return [...this.bytesOf(piece)].map((byte) => `‹${byte.toString(16).toUpperCase().padStart(2, "0")}›`).join("");
  }

  decode = (pieces: string[]): string => {
    const bytes = pieces.flatMap((piece) => [...this.bytesOf(piece)]);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  };

  /** The bytes of a piece; a whole token is spelled by its own letters. */
  private bytesOf(piece: string): Uint8Array {
    const bytes = [...piece].map((letter) => this.vocabulary.bytes[letter]);
    return bytes.includes(undefined as never) ? new TextEncoder().encode(piece) : Uint8Array.from(bytes);
  }
}

/** The parts of a text that a pattern matches, and those between them. */
function splitBy(pattern: RegExp, text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    parts.push(text.slice(from, index), match);
    from = index + match.length;
  }
  return [...parts, text.slice(from)].filter(Boolean);
}
