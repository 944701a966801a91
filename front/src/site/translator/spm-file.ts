// Read the file of a SentencePiece model, a protobuf message with the pieces, the algorithm and the rules of normalisation
//
// The field numbers in this file come from sentencepiece_model.proto.

interface VocabularyPiece {
  text: string;
  score: number;
  kind: number; // the type of the piece: NORMAL, CONTROL, … or another one of sentencepiece_model.proto
}

export const [NORMAL, CONTROL, USER_DEFINED, UNUSED, BYTE] = [1, 3, 4, 5, 6];

/** The parts of a SentencePiece model that are needed to cut texts into pieces and to join pieces. */
export interface SpmModel {
  pieces: VocabularyPiece[]; // the index of a piece is its id
  algorithm: "unigram" | "bpe";
  bytes: boolean; // true = a letter that the vocabulary lacks becomes one piece for each of its bytes
  letters: Uint8Array | null; // the table of replacements (see LetterTable in normaliser.ts); null = no letters are replaced
  dummyPrefix: boolean; // true = a space is put before each text
  singleSpaces: boolean; // true = spaces at the ends are removed, and several spaces in a row become one
}

export function readModel(file: Uint8Array): SpmModel {
  const pieces: VocabularyPiece[] = [];
  const training = new Map<number, number | Uint8Array>();
  const normalisation = new Map<number, number | Uint8Array>();
  for (const [number, value] of fields(file)) {
    if (number === 1) pieces.push(pieceOf(value as Uint8Array));
    if (number === 2) for (const [name, setting] of fields(value as Uint8Array)) training.set(name, setting);
    if (number === 3) for (const [name, setting] of fields(value as Uint8Array)) normalisation.set(name, setting);
  }
  const letters = normalisation.get(2) as Uint8Array | undefined;
  return {
    pieces,
    algorithm: training.get(3) === 2 ? "bpe" : "unigram",
    bytes: pieces.some(({ kind }) => kind === BYTE),
    letters: letters?.length ? letters : null,
    dummyPrefix: normalisation.get(3) !== 0,
    singleSpaces: normalisation.get(4) !== 0,
  };
}

function pieceOf(message: Uint8Array): VocabularyPiece {
  const piece: VocabularyPiece = { text: "", score: 0, kind: NORMAL };
  for (const [number, value] of fields(message)) {
    if (number === 1) piece.text = new TextDecoder().decode(value as Uint8Array);
    if (number === 2) piece.score = new DataView((value as Uint8Array).slice().buffer).getFloat32(0, true);
    if (number === 3) piece.kind = value as number;
  }
  return piece;
}

/** Yield each field of a protobuf message: its number and its value, which is an integer or bytes. */
function* fields(message: Uint8Array): Generator<[number, number | Uint8Array]> {
  let at = 0;
  const varint = (): number => {
    for (let number = 0, factor = 1; ; factor *= 0x80) {
      const byte = message[at++];
      number += (byte & 0x7f) * factor;
      if (byte < 0x80) return number;
    }
  };
  while (at < message.length) {
    const key = varint();
    const [number, type] = [Math.floor(key / 8), key % 8];
    if (type === 0) {
      yield [number, varint()];
      continue;
    }
    const size = { 1: 8, 5: 4 }[type] ?? varint();
    yield [number, message.subarray(at, at + size)];
    at += size;
  }
}
