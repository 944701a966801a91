// The normalisation of SentencePiece, before a text is cut into pieces: replace letters, make spaces single, write "▁" for a space

import type { SpmModel } from "./spm-file";

export const SPACE = "▁";

export class Normaliser {
  private readonly letterTable: LetterTable | null;

  /** @param wholePieces pieces that stay as they are, wherever they stand in a text; the longest first. */
  constructor(
    private readonly model: SpmModel,
    private readonly wholePieces: string[],
  ) {
    this.letterTable = model.letters ? new LetterTable(model.letters) : null;
  }

  normalise(text: string): string {
    const { singleSpaces, dummyPrefix } = this.model;
    if (!text) return "";
    let normal = dummyPrefix ? SPACE : "";
    let afterSpace = singleSpaces;
    for (let at = 0; at < text.length; ) {
      const { length, replaced } = this.next(text, at);
      at += length;
      const letters = afterSpace ? replaced.replace(/^ +/, "") : replaced;
      normal += letters.replaceAll(" ", SPACE);
      if (letters) afterSpace = singleSpaces && letters.endsWith(" ");
    }
    return singleSpaces ? normal.replace(/▁+$/, "") : normal;
  }

  /** Return how many letters (UTF-16 units) of the text from `at` on are replaced next, and by which text. */
  private next(text: string, at: number): { length: number; replaced: string } {
    const wholePiece = this.wholePieces.find((piece) => text.startsWith(piece, at));
    if (wholePiece) return { length: wholePiece.length, replaced: wholePiece };
    const rule = this.letterTable?.longest(text, at);
    if (rule) return rule;
    const letter = String.fromCodePoint(text.codePointAt(at)!);
    return { length: letter.length, replaced: letter };
  }
}

const [ENCODER, DECODER] = [new TextEncoder(), new TextDecoder("utf-8", { ignoreBOM: true })];
const MOST_REPLACED = 32; // the search for a rule ends after this many letters: every rule of SentencePiece replaces fewer

/**
 * The table of replacements in a SentencePiece model. It begins with the texts to be replaced: their bytes form a tree (trie), stored as a
 * "double array". The texts that replace them come after the tree.
 *
 * Source: the format of Darts-clone (Yata), which SentencePiece uses.
 */
class LetterTable {
  private readonly units: Uint32Array;
  private readonly texts: Uint8Array;

  constructor(bytes: Uint8Array) {
    const content = bytes.slice();
    const size = new DataView(content.buffer).getUint32(0, true);
    this.units = new Uint32Array(content.slice(4, 4 + size).buffer);
    this.texts = content.subarray(4 + size);
  }

  /** Find the rule that replaces the most letters from `at` on. Returns how many UTF-16 units it replaces, and by which text; null = no rule applies. */
  longest(text: string, at: number): { length: number; replaced: string } | null {
    let longestRule: { length: number; replaced: string } | null = null;
    let node = this.offset(this.units[0]);
    for (let end = at, letters = 0; end < text.length && letters < MOST_REPLACED; letters++) {
      const letter = String.fromCodePoint(text.codePointAt(end)!);
      end += letter.length;
      let textStart: number | null = null; // where the replacing text begins; null = no rule ends with this byte
      for (const byte of ENCODER.encode(letter)) {
        node ^= byte;
        const unit = this.units[node] ?? 0;
        if ((unit & 0x800000ff) >>> 0 !== byte) return longestRule; // the tree has no such byte here
        node ^= this.offset(unit);
        const endsRule = (unit >>> 8) & 1;
        textStart = endsRule ? this.units[node] & 0x7fffffff : null;
      }
      if (textStart !== null) longestRule = { length: end - at, replaced: this.text(textStart) };
    }
    return longestRule;
  }

  private offset(unit: number): number {
    return (unit >>> 10) << ((unit & 0x200) >>> 6);
  }

  private text(start: number): string {
    return DECODER.decode(this.texts.subarray(start, this.texts.indexOf(0, start)));
  }
}
