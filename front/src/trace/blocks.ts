// Decode the blocks of a trace: each is a text that stores an array of numbers, compressed (deflate) and written in base64

import type { Layer, NumberArray, Trace, Vectors } from "./data";

/** A `Layer` with its arrays as numbers; `Layer` itself has only their names. */
export interface Decoded extends Omit<Layer, "query" | "key" | "value" | "weights" | "mask" | "output"> {
  nQueries: number;
  nKeys: number;
  query?: DecodedVectors;
  key?: DecodedVectors;
  value?: DecodedVectors;
  weights?: Uint16Array | Float32Array; // [heads keys queries], each weight times `units`
  units: number; // the number that stands for a weight of 1
  maskBits?: Uint8Array; // [masks queries keys], one bit each, 1 = the query may attend to the key
  output?: { width: number; arrays: DecodedArrays };
}

/** An array of any shape, with its numbers row after row. */
export interface DecodedArray {
  numbers: Float64Array;
  shape: number[];
}

export type DecodedArrays = Record<string, DecodedArray>;

/** The queries, keys or values of a layer, an array [heads tokens width]. */
interface DecodedVectors {
  numbers: Float64Array;
  heads: number;
  width: number;
}

/** Decompress bytes in zlib's format. */
export async function decompress(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const bytesOfBase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** The bytes of an array that is written as compressed bytes in base64. */
export const bytesOfBlock = (text: string): Promise<Uint8Array> => decompress(bytesOfBase64(text));

/** Decode signed integers of three bytes: the high bytes of all integers, then all middle bytes, then all low bytes. */
function signedIntegers(bytes: Uint8Array): Int32Array {
  const count = bytes.length / 3;
  return Int32Array.from({ length: count }, (_, i) => (((bytes[i] << 24) >> 8) | (bytes[count + i] << 8) | bytes[2 * count + i]));
}

/** Decode unsigned integers of two bytes: the high bytes of all integers, then all low bytes. */
function unsignedIntegers(bytes: Uint8Array): Uint16Array {
  const count = bytes.length / 2;
  return Uint16Array.from({ length: count }, (_, i) => (bytes[i] << 8) | bytes[count + i]);
}

type Stored = Pick<Trace, "blocks" | "numbers" | "masks">;

async function decodeVectors(trace: Stored, vectors?: Vectors): Promise<DecodedVectors | undefined> {
  return vectors && { numbers: await numbersOf(trace, vectors), heads: vectors.heads, width: vectors.width };
}

/** The numbers of an array. A web worker sends them as floats; a page stores integers, which are multiplied by `step`. */
async function numbersOf(trace: Stored, { block, step }: { block: string; step: number }): Promise<Float64Array> {
  const floats = trace.numbers?.[block];
  if (floats) return Float64Array.from(floats);
  const integers = signedIntegers(await bytesOfBlock(trace.blocks[block]));
  return Float64Array.from(integers, (integer) => integer * step);
}

export async function decodeArrays(trace: Stored, arrays: Record<string, NumberArray>): Promise<DecodedArrays> {
  const decodeOne = async ([name, array]: [string, NumberArray]) => [name, { numbers: await numbersOf(trace, array), shape: array.shape }] as const;
  return Object.fromEntries(await Promise.all(Object.entries(arrays).map(decodeOne)));
}

export async function decodeLayer(trace: Stored & Pick<Trace, "kinds" | "source" | "target" | "units">, layer: Layer): Promise<Decoded> {
  const kind = Object.values(trace.kinds).find(({ layers }) => layers.includes(layer))!;
  const { query, key, value, weights, mask, output, ...rest } = layer;
  const [decodedQuery, decodedKey, decodedValue] = await Promise.all([query, key, value].map((vectors) => decodeVectors(trace, vectors)));
  return {
    ...rest,
    nQueries: trace[kind.queries].length,
    nKeys: trace[kind.keys].length,
    query: decodedQuery,
    key: decodedKey,
    value: decodedValue,
    weights: weights ? (trace.numbers?.[weights] ?? unsignedIntegers(await bytesOfBlock(trace.blocks[weights]))) : undefined,
    units: trace.units,
    output: output ? { width: output.width, arrays: await decodeArrays(trace, output.arrays) } : undefined,
    maskBits: mask ? (trace.masks?.[mask] ?? (await bytesOfBlock(trace.blocks[mask]))) : undefined,
  };
}
