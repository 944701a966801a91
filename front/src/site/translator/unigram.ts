// The unigram model of SentencePiece: of all ways to cut a text into pieces, find the one with the largest sum of scores (Viterbi)
//
// The sums are float32 numbers, as in SentencePiece, so that the same pieces are chosen where sums are equal.

/** The scores of a vocabulary's pieces. */
interface Scores {
  score: (piece: string) => number | undefined; // the score of a piece; undefined = the vocabulary has no such piece
  longest: number; // the number of letters of the longest piece
  unknown: number; // the score of a letter that is no piece by itself
}

/** Cut a normalised text, given as a list of its letters, into the pieces with the largest sum of scores. */
export function mostProbablePieces(letters: string[], { score, longest, unknown }: Scores): string[] {
  const sums = new Float32Array(letters.length + 1).fill(-Infinity); // for each end: the largest sum of scores of the text up to this end
  const starts = new Int32Array(letters.length + 1).fill(-1); // for each end: where the last piece of this best cut begins
  sums[0] = 0;
  const addPiece = (start: number, end: number, sum: number) => {
    const rounded = Math.fround(sum);
    if (starts[end] < 0 || rounded > sums[end]) [sums[end], starts[end]] = [rounded, start];
  };
  for (let start = 0; start < letters.length; start++) {
    let letterIsPiece = false; // whether the letter at `start` is a piece by itself
    let piece = "";
    for (let end = start + 1; end <= Math.min(letters.length, start + longest); end++) {
      piece += letters[end - 1];
      const pieceScore = score(piece);
      if (pieceScore === undefined) continue;
      addPiece(start, end, pieceScore + sums[start]);
      if (end === start + 1) letterIsPiece = true;
    }
    if (!letterIsPiece) addPiece(start, start + 1, unknown + sums[start]);
  }
  const pieces: string[] = [];
  for (let end = letters.length; end > 0; end = starts[end]) pieces.push(letters.slice(starts[end], end).join(""));
  return pieces.reverse();
}
