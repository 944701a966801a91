// Tokens as the page shows them: with the letters of the text that they stand for, as readable_tokens.py of the Python package does

import type { Token } from "../../trace/data";
import type { Cutter, Piece } from "./cutter";
import { isBlank, stripped } from "./letters";

export interface Pieces {
  pieces: string[]; // the vocabulary; the index of a piece is its id
  unknown: number | null; // the id of the unknown token; null = there is none
  special: number[]; // the ids of tokens that stand for no text, such as [CLS]
}

/** Return the tokens to show for the pieces of a text, which is given as its code points. */
export function tokensOf(pieces: Piece[], text: string[], vocabulary: Pieces, cutter: Cutter): Token[] {
  const isSpecial = pieces.map(({ id }) => vocabulary.special.includes(id));
  return pieces.map((piece, position): Token => {
    const name = vocabulary.pieces[piece.id];
    const letters = lettersOf(pieces, text, position);
    const isUnknown = piece.id === vocabulary.unknown && letters !== null && letters !== name;
    if (isSpecial[position] && !isUnknown) return tokenOf(name, name, false, true);
    const follows = position > 0 && !isSpecial[position - 1] && piece.start <= pieces[position - 1].end;
    const joined = follows && !(piece.start < text.length && isBlank(text[piece.start]));
    return tokenOf(isUnknown ? `[UNK:${letters}]` : displayed(letters ?? cutter.letters(name)), name, joined, false);
  });
}

/** Return the tokens to show for ids without a text, such as generated ones. `before`: the id of the token before them; null = there is none. */
export function tokensWithoutText(ids: number[], before: number | null, vocabulary: Pieces, cutter: Cutter): Token[] {
  return ids.map((id, i): Token => {
    const name = vocabulary.pieces[id];
    if (vocabulary.special.includes(id)) return tokenOf(name, name, false, true);
    const previous = i ? ids[i - 1] : before;
    const follows = previous !== null && !vocabulary.special.includes(previous);
    const joined = follows && !spaceBetween(vocabulary.pieces[previous], name, cutter);
    return tokenOf(displayed(cutter.letters(name)), name, joined, false);
  });
}

function spaceBetween(before: string, piece: string, { decode }: Cutter): boolean {
  const [lettersBefore, lettersOfBoth] = [[before], [before, piece]].map((pieces) => [...stripped(decode(pieces))]);
  return lettersOfBoth[lettersBefore.length] === " ";
}

/** If no token is a word, mark all tokens as words, because the query that a page shows first must be a word. Returns the same tokens. */
export function withWords(tokens: Token[]): Token[] {
  if (!tokens.some((token) => token.word)) for (const token of tokens) token.word = true;
  return tokens;
}

export function tokenOf(text: string, piece: string, joined: boolean, special: boolean): Token {
  const token: Token = { text: escaped(text) };
  if (piece !== text) token.piece = escaped(piece);
  if (special) token.special = true;
  if (joined) token.joined = true;
  if (!special && /[\p{Letter}\p{Number}]/u.test(text)) token.word = true;
  return token;
}

/** The letters of a token; null if it has none, or only some bytes of a letter. */
function lettersOf(pieces: Piece[], text: string[], position: number): string | null {
  const { start, end } = pieces[position];
  const neighbours = [pieces[position - 1], pieces[position + 1]].filter(Boolean);
  if (end <= start || neighbours.some((other) => other.start < end && start < other.end)) return null;
  return text.slice(start, end).join("");
}

/** Letters without the spaces around them; if there are only spaces, ␣ or ⏎; if there are only invisible characters, their codes. */
function displayed(letters: string): string {
  const shown = stripped(letters);
  if (/^\p{Format}+$/u.test(shown)) return [...shown].map((letter) => `‹${code(letter).padStart(4, "0")}›`).join("");
  return shown || (letters.includes("\n") ? "⏎" : "␣");
}

// Characters that would change how a page or a terminal shows a text: control codes, ends of lines, changes of direction.
// Python's visible_text.py has the same list.
const CONTROL_CHARACTERS = /[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/gu;
export const SPACES = "\t\n\r\x0b\x0c ";
const SYMBOLS: Record<string, string> = { "\t": "⇥", "\n": "⏎" };
const code = (letter: string) => letter.codePointAt(0)!.toString(16).toUpperCase();

export const escaped = (text: string, keep = ""): string =>
  text.replace(CONTROL_CHARACTERS, (letter) => (keep.includes(letter) ? letter : (SYMBOLS[letter] ?? `‹${code(letter).padStart(2, "0")}›`)));
