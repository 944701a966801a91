// A translator's two ONNX graphs: the encoder runs once for a source, the decoder once for each piece that is written
//
// Python's export/onnx.py describes them; site/translator_graphs.py adds the vectors of attention to their outputs.

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import type { Range } from "../ranges";
import type { Alignment } from "../../data";

type Axes = Record<string, (string | number)[]>;

/** The content of config.json. */
export interface Settings {
  pad: number;
  bos: number;
  eos: number;
  max_tokens: number;
  decoder: { inputs: Axes; outputs: Axes };
  beam: { size: number; length_penalty: number };
  limit: { per_piece: number; extra: number }; // pieces that a translation may have for each of its source's, and more
  rule: Alignment["rule"];
  unassigned: Range[]; // letters that Python's Unicode does not know
}

export type Arrays = Record<string, Float32Array>;

/** What the encoder gives for one source. */
export interface Encoded {
  arrays: Arrays; // of one row, by the name of the output
  tokens: number; // of the source, its end included
}

/** One step of the decoder: what it gives for each row, a text that is being written. */
export interface Step {
  arrays: Arrays; // [rows …], by the name of the output; the states of recurrent cells are [layers rows …]
  rows: number;
}

/** The part of an array that belongs to one row. */
export function rowOf(step: Step, name: string, row: number): Float32Array {
  const size = step.arrays[name].length / step.rows;
  return step.arrays[name].subarray(row * size, (row + 1) * size);
}

export class Graphs {
  private constructor(
    private readonly encoder: InferenceSession,
    private readonly decoder: InferenceSession,
    private readonly settings: Settings,
  ) {}

  static async load(encoder: Uint8Array, decoder: Uint8Array, settings: Settings): Promise<Graphs> {
    const open = (graph: Uint8Array) => InferenceSession.create(graph, { executionProviders: ["wasm"] });
    return new Graphs(await open(encoder), await open(decoder), settings);
  }

  async encode(ids: number[]): Promise<Encoded> {
    const source = new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);
    return { arrays: arraysOf(await this.encoder.run({ source, lengths: lengthsOf(1, ids.length) })), tokens: ids.length };
  }

  /**
   * Let the decoder read the next token of each text.
   *
   * @param before the step before, and for each text the row in it that it continues; null = these are the first tokens.
   */
  async step(tokens: number[], encoded: Encoded, before: { step: Step; rows: number[] } | null): Promise<Step> {
    const rows = tokens.length;
    const feeds: Record<string, Tensor> = {
      token: new Tensor("int64", BigInt64Array.from(tokens, BigInt), [rows, 1]),
      lengths: lengthsOf(rows, encoded.tokens),
    };
    for (const [name, axes] of Object.entries(this.settings.decoder.inputs)) {
      if (name in feeds) continue;
      const after = before && name.startsWith("past_") ? before : null;
      const given = after ? after.step.arrays[name.replace("past_", "present_")] : (encoded.arrays[name] ?? new Float32Array());
      const outer = productOf(axes.slice(0, axes.indexOf("batch")) as number[]);
      const numbers = chosenRows(given, outer, after?.step.rows ?? 1, after?.rows ?? tokens.map(() => 0));
      const known = axes.map((axis) => (axis === "batch" ? rows : axis === "source" ? encoded.tokens : axis));
      const past = numbers.length / productOf(known.filter((axis) => typeof axis === "number"));
      feeds[name] = new Tensor("float32", numbers, known.map((axis) => (typeof axis === "number" ? axis : past)));
    }
    return { arrays: arraysOf(await this.decoder.run(feeds)), rows };
  }
}

const lengthsOf = (rows: number, tokens: number) => new Tensor("int64", new BigInt64Array(rows).fill(BigInt(tokens)), [rows]);

const arraysOf = (outputs: InferenceSession.OnnxValueMapType): Arrays =>
  Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data as Float32Array]));

const productOf = (sizes: number[]) => sizes.reduce((product, size) => product * size, 1);

/** Rows of an array [outer count …], by their numbers, as an array [outer rows …]. */
function chosenRows(array: Float32Array, outer: number, count: number, rows: number[]): Float32Array {
  const size = array.length / (outer * count);
  const whole = new Float32Array(outer * rows.length * size);
  for (let i = 0; i < outer; i++)
    rows.forEach((row, j) => whole.set(array.subarray((i * count + row) * size, (i * count + row + 1) * size), (i * rows.length + j) * size));
  return whole;
}
