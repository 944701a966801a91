// The part of a tokenizer that differs between its kinds: how a text is cut into pieces (see tokenizer.ts)

/** A token: its id, and the part of the text that it stands for, from code point `start` to before `end`. */
export interface Piece {
  id: number;
  start: number;
  end: number;
}

/** Cuts a text into pieces. `letters` returns the letters of a piece that a model has generated. */
export interface Cutter {
  /** Cut the code points of a text from `from` to before `to` into pieces. */
  cut: (text: string[], from: number, to: number) => Piece[];
  letters: (piece: string) => string;
  decode: (pieces: string[]) => string;
}
