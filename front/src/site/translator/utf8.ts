// The letters in a sequence of bytes, some of which may be no valid UTF-8

const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The letters that bytes spell, each with its bytes, `start` to before `end`; null = the byte is no part of a letter. */
export function lettersOfBytes(bytes: Uint8Array): { letter: string | null; start: number; end: number }[] {
  const letters: { letter: string | null; start: number; end: number }[] = [];
  for (let start = 0; start < bytes.length; ) {
    const size = 1 + [0x80, 0xe0, 0xf0].filter((bound) => bytes[start] >= bound).length; // the first byte of a letter tells its number of bytes
    const letter = decoded(bytes.subarray(start, start + size));
    const end = start + (letter === null ? 1 : size);
    letters.push({ letter, start, end });
    start = end;
  }
  return letters;
}

function decoded(bytes: Uint8Array): string | null {
  try {
    return STRICT.decode(bytes);
  } catch {
    return null;
  }
}
