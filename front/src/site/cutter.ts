// What a tokenizer does with a text between its whole tokens, whatever its kind

/** A token: its id, and the letters of the text that it stands for, as code points from `start` to before `end`. */
export interface Piece {
  id: number;
  start: number;
  end: number;
}

/** Cuts a text without whole tokens into pieces, and tells what a piece stands for without a text. */
export interface Cutter {
  cut: (text: string[], from: number, to: number) => Piece[];
  /** The letters of a piece of the vocabulary. */
  letters: (piece: string) => string;
  /** The text of pieces, one after the other. */
  decode: (pieces: string[]) => string;
}
