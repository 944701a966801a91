// The words of a text and the pieces that spell them, as in Python's translation/pieces.py and translation/alignment.py

import type { Token } from "../../trace/data";
import { isBlank, splitWords, stripped } from "../tokens/letters";
import { tokenOf, withWords } from "../tokens/shown-tokens";
import type { Clean } from "./clean";
import { SPACE } from "./normaliser";
import { type TextPiece, UNK } from "./sentencepiece";
import { lettersOfBytes } from "./utf8";

const BYTE = /^<0x([0-9A-F]{2})>$/;
const PUNCTUATION = /^\p{Punctuation}+$/u;

/** The text that pieces spell together; bytes that are not UTF-8 become "�". */
export const textOfPieces = (pieces: string[]): string => stripped(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOf(pieces)));

const bytesOf = (pieces: string[]): Uint8Array => Uint8Array.from(pieces.flatMap((piece) => [...bytesOfPiece(piece)]));

function bytesOfPiece(piece: string): Uint8Array {
  const byte = piece.match(BYTE);
  return byte ? Uint8Array.of(parseInt(byte[1], 16)) : new TextEncoder().encode(piece.replaceAll(SPACE, " "));
}

/** For each piece, the index of the word that it belongs to, as Python's `word_of_each_piece` computes it. */
function wordOfEachPiece(pieces: string[]): number[] {
  const spelled = pieces.map(bytesOfPiece);
  const pieceOfByte = spelled.flatMap((bytes, piece) => [...bytes].map(() => piece));
  const wordOf: (number | null)[] = pieces.map(() => null);
  let nWords = 0;
  let inWord = false;
  for (const { letter, start, end } of lettersOfBytes(bytesOf(pieces))) {
    const isSpace = letter !== null && isBlank(letter);
    if (!inWord && !isSpace) nWords += 1;
    inWord = !isSpace;
    if (inWord) for (let byte = start; byte < end; byte++) wordOf[pieceOfByte[byte]] ??= nWords - 1;
  }
  let nextWord = Math.max(nWords - 1, 0); // a piece without letters belongs to the word of the piece after it
  return wordOf.reduceRight<number[]>((words, word) => [(nextWord = word ?? nextWord), ...words], []);
}

/** The words of a text, and for each piece the index of its word, as Python's `words_and_pieces` computes them. */
export function wordsAndPieces(text: string, pieces: string[], clean: Clean): { words: string[]; wordOf: number[] } {
  const [words, wordOf] = [splitWords(text), wordOfEachPiece(pieces)];
  const wordOfCleanWord = words.flatMap((word, index) => splitWords(clean(word)).map(() => index)); // a word may become several clean words
  const nSpelled = Math.max(-1, ...wordOf) + 1;
  if (nSpelled !== wordOfCleanWord.length) return { words: splitWords(textOfPieces(pieces)), wordOf };
  return { words, wordOf: wordOf.map((word) => wordOfCleanWord[word]) };
}

/** The indices of the pieces whose weights count for their words. Empty pieces and punctuation count only if the word has nothing else. */
function representatives(pieces: string[], wordOf: number[]): number[] {
  const ranks = wordOf.map((_, piece) => {
    const text = pieces[piece].replaceAll(SPACE, "");
    if (!text) return 0;
    return PUNCTUATION.test(text) ? 1 : 2;
  });
  const highest = new Map<number, number>(); // for each word, the highest rank of its pieces
  wordOf.forEach((word, piece) => highest.set(word, Math.max(ranks[piece], highest.get(word) ?? 0)));
  return [...wordOf.keys()].filter((piece) => ranks[piece] === highest.get(wordOf[piece]));
}

/** The source or the translation: its words, its pieces, and which piece belongs to which word. */
interface SpelledText {
  words: string[];
  wordOf: number[]; // the index of each piece's word; the last piece belongs to no word and is left out
  pieces: string[]; // the last piece is the end of the sentence
}

/** The weight between each two words: summed over the pieces of the source word, averaged over the pieces of the target word (see `representatives`). */
export function wordWeights(weights: number[][], target: SpelledText, source: SpelledText): number[][] {
  const merged = target.words.map(() => source.words.map(() => 0));
  const rows = representatives(target.pieces, target.wordOf).filter((row) => target.wordOf[row] < target.words.length); // a translation that has lost all its placeholders (of names and numbers) may have pieces but no words
  const columns = representatives(source.pieces, source.wordOf);
  const nRows = target.words.map((_, word) => rows.filter((row) => target.wordOf[row] === word).length);
  for (const row of rows) {
    const targetWord = target.wordOf[row];
    for (const column of columns) merged[targetWord][source.wordOf[column]] += weights[row][column] / nRows[targetWord];
  }
  return merged;
}

/** Return the tokens to show for the pieces of a source or a translation. `special`: the id of EOS for a source, of BOS for a translation. */
export function tokensOfPieces(pieces: TextPiece[], special: number): Token[] {
  const tokens = pieces.map(({ id, text: piece }, position): Token => {
    if (id === special) return tokenOf(piece, piece, false, true);
    const byte = piece.match(BYTE);
    const text = byte ? `‹${byte[1]}›` : stripped(piece.replaceAll(SPACE, " ")) || "␣";
    const joined = position > 0 && pieces[position - 1].id !== special && !piece.startsWith(SPACE);
    return tokenOf(id === UNK ? `[UNK:${text}]` : text, piece, joined, false);
  });
  return withWords(tokens);
}
