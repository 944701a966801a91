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
  limit: { per_piece: number; extra: number }; // the most pieces of a translation: per_piece · (the source's tokens, with the end) + extra
  rule: Alignment["rule"]; // how words are aligned
  unassigned: Range[]; // code points that Python's Unicode does not define; they are not composed
}

export type Arrays = Record<string, Float32Array>;

/** What the encoder gives for one source. */
export interface Encoded {
  arrays: Arrays; // with one row, by the name of the graph's output
  tokens: number; // the source's tokens, its end included
}

/** What the decoder gives for one token of each translation that it is writing; each translation is a row. */
export interface Step {
  arrays: Arrays; // [rows …], by the name of the graph's output; the states of recurrent cells are [layers rows …]
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
   * Let the decoder read the next token of each translation.
   *
   * @param before the step before this one, and for each translation the row of that step that it continues; null = these are the first tokens.
   */
  async step(tokens: number[], encoded: Encoded, before: { step: Step; rows: number[] } | null): Promise<Step> {
    const rows = tokens.length;
    const feeds: Record<string, Tensor> = {
      token: new Tensor("int64", BigInt64Array.from(tokens, BigInt), [rows, 1]),
      lengths: lengthsOf(rows, encoded.tokens),
    };
    for (const [name, axes] of Object.entries(this.settings.decoder.inputs)) {
      if (name in feeds) continue;
      const ofStepBefore = before && name.startsWith("past_");
      feeds[name] = ofStepBefore
        ? inputOf(before.step.arrays[name.replace("past_", "present_")], axes, before.step.rows, before.rows, encoded.tokens)
        : inputOf(encoded.arrays[name] ?? new Float32Array(), axes, 1, tokens.map(() => 0), encoded.tokens);
    }
    return { arrays: arraysOf(await this.decoder.run(feeds)), rows };
  }
}

/**
 * An input of the decoder, made of rows of an array.
 *
 * @param axes the sizes of the input's axes; a name stands for a size that differs between calls: the rows, the source's tokens, the tokens so far.
 * @param count how many rows the array has.
 * @param rows the row that each row of the input is copied from.
 */
function inputOf(array: Float32Array, axes: Axes[string], count: number, rows: number[], sourceTokens: number): Tensor {
  const outer = productOf(axes.slice(0, axes.indexOf("batch")) as number[]);
  const data = chosenRows(array, outer, count, rows);
  const sizes = axes.map((axis) => (axis === "batch" ? rows.length : axis === "source" ? sourceTokens : axis));
  const tokensSoFar = data.length / productOf(sizes.filter((size) => typeof size === "number")); // the size of the axis that is left
  return new Tensor("float32", data, sizes.map((size) => (typeof size === "number" ? size : tokensSoFar)));
}

const lengthsOf = (rows: number, tokens: number) => new Tensor("int64", new BigInt64Array(rows).fill(BigInt(tokens)), [rows]);

const arraysOf = (outputs: InferenceSession.OnnxValueMapType): Arrays =>
  Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data as Float32Array]));

const productOf = (sizes: number[]) => sizes.reduce((product, size) => product * size, 1);

/** A copy of the rows with these numbers: of an array [outer count …], an array [outer rows …]. */
function chosenRows(array: Float32Array, outer: number, count: number, rows: number[]): Float32Array {
  const size = array.length / (outer * count);
  const copy = new Float32Array(outer * rows.length * size);
  for (let i = 0; i < outer; i++)
    rows.forEach((row, j) => copy.set(array.subarray((i * count + row) * size, (i * count + row + 1) * size), (i * rows.length + j) * size));
  return copy;
}
