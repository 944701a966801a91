// Decode the blocks of a trace: base64 of deflated bytes

import type { Layer, NumberArray, Trace, Vectors } from "./data";

/** A layer with its numbers decoded. */
export interface Decoded extends Omit<Layer, "query" | "key" | "value" | "weights" | "mask" | "output"> {
  query?: Matrix;
  key?: Matrix;
  value?: Matrix;
  units?: Uint16Array | Float32Array; // weights in units, [heads keys queries]
  bits?: Uint8Array; // [masks queries keys], 1 = may attend
  output?: { width: number; arrays: DecodedArrays };
}

export interface DecodedArray {
  numbers: Float64Array;
  shape: number[];
}

export type DecodedArrays = Record<string, DecodedArray>;

/** Vectors [heads tokens width]. */
export interface Matrix {
  numbers: Float64Array;
  heads: number;
  width: number;
}

export async function inflate(text: string): Promise<Uint8Array> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Integers of three bytes, whose high, middle and low bytes follow one another. */
export function signedIntegers(bytes: Uint8Array): Int32Array {
  const count = bytes.length / 3;
  return Int32Array.from({ length: count }, (_, i) => (((bytes[i] << 24) >> 8) | (bytes[count + i] << 8) | bytes[2 * count + i]));
}

/** Integers of two bytes, whose high and low bytes follow one another. */
function unsignedIntegers(bytes: Uint8Array): Uint16Array {
  const count = bytes.length / 2;
  return Uint16Array.from({ length: count }, (_, i) => (bytes[i] << 8) | bytes[count + i]);
}

/** Where the numbers of a trace are. */
type Stored = Pick<Trace, "blocks" | "numbers" | "masks">;

async function matrix(trace: Stored, vectors?: Vectors): Promise<Matrix | undefined> {
  return vectors && { numbers: await numbersOf(trace, vectors), heads: vectors.heads, width: vectors.width };
}

/** The numbers of an array: as a worker sends them, or integers times a step. */
async function numbersOf(trace: Stored, { block, step }: { block: string; step: number }): Promise<Float64Array> {
  const given = trace.numbers?.[block];
  return given ? Float64Array.from(given) : Float64Array.from(signedIntegers(await inflate(trace.blocks[block])), (n) => n * step);
}

/** Decode arrays of integers, each times its step. */
export async function decodeArrays(trace: Stored, arrays: Record<string, NumberArray>): Promise<DecodedArrays> {
  const decodeOne = async ([name, array]: [string, NumberArray]) => [name, { numbers: await numbersOf(trace, array), shape: array.shape }] as const;
  return Object.fromEntries(await Promise.all(Object.entries(arrays).map(decodeOne)));
}

export async function decode(trace: Stored, layer: Layer): Promise<Decoded> {
  const { query, key, value, weights, mask, output, ...rest } = layer;
  const [queries, keys, values] = await Promise.all([query, key, value].map((vectors) => matrix(trace, vectors)));
  return {
    ...rest,
    query: queries,
    key: keys,
    value: values,
    units: weights ? (trace.numbers?.[weights] ?? unsignedIntegers(await inflate(trace.blocks[weights]))) : undefined,
    output: output ? { width: output.width, arrays: await decodeArrays(trace, output.arrays) } : undefined,
    bits: mask ? (trace.masks?.[mask] ?? (await inflate(trace.blocks[mask]))) : undefined,
  };
}
