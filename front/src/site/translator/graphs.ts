// A translator's two ONNX graphs. The encoder runs once for a source; the decoder runs once for each piece of the translation.
//
// Python's export/onnx.py describes the graphs; site/translator_graphs.py adds queries, keys and other vectors to the outputs.

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import type { Alignment } from "../../trace/data";
import type { Range } from "../tokens/letters";

type Axes = Record<string, (string | number)[]>;

/** The settings of the translator, from the JSON file that Python's site/translator_model.py writes. */
export interface Settings {
  pad: number;
  bos: number;
  eos: number;
  max_tokens: number;
  decoder: { inputs: Axes; outputs: Axes };
  beam: { size: number; length_penalty: number };
  limit: { per_piece: number; extra: number }; // a translation has at most per_piece · n + extra pieces; n = pieces of the source, with EOS
  rule: Alignment["rule"]; // the cross-attention whose weights align words
  latin: boolean | null; // whether the source language has Latin letters; null = the translator replaces no names and numbers by signs (see placeholders.ts)
  unassigned: Range[]; // code points that Python's version of Unicode does not define; Python does not compose them (NFC), so the browser must not, either
}

export type Arrays = Record<string, Float32Array>;

/** The outputs of the encoder for one source. */
export interface Encoded {
  arrays: Arrays; // the arrays that the encoder returns, by their names in the ONNX graph; the batch has one row
  tokens: number; // the number of tokens of the source, EOS included
}

/** The outputs of a step, in which the decoder reads one token of each unfinished translation. Each row belongs to one translation. */
export interface Step {
  arrays: Arrays; // the arrays that the decoder returns, by their names in the ONNX graph: [rows …] or, for states of recurrent cells, [layers rows …]
  rows: number;
}

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

  /** Let the decoder read the next token of each translation. `before`: the previous step, and the row in it that each translation continues. */
  async step(tokens: number[], encoded: Encoded, before: { step: Step; rows: number[] } | null): Promise<Step> {
    const rows = tokens.length;
    const feeds: Record<string, Tensor> = {
      token: new Tensor("int64", BigInt64Array.from(tokens, BigInt), [rows, 1]),
      lengths: lengthsOf(rows, encoded.tokens),
    };
    for (const [name, axes] of Object.entries(this.settings.decoder.inputs)) {
      if (name in feeds) continue;
      if (before && name.startsWith("past_")) {
        const array = before.step.arrays[name.replace("past_", "present_")];
        feeds[name] = inputOf(array, axes, before.step.rows, before.rows, encoded.tokens);
      } else {
        const array = encoded.arrays[name] ?? new Float32Array();
        feeds[name] = inputOf(array, axes, 1, tokens.map(() => 0), encoded.tokens); // every row gets the encoder's one row
      }
    }
    return { arrays: arraysOf(await this.decoder.run(feeds)), rows };
  }
}

/**
 * Make a tensor of the rows `rows` of an array that has `count` rows. `axes`: the size of each axis. A name stands for a size: "batch" for the
 * number of rows, "source" for the number of source tokens, and every other name for the number of tokens that were read so far.
 */
function inputOf(array: Float32Array, axes: Axes[string], count: number, rows: number[], sourceTokens: number): Tensor {
  const outer = productOf(axes.slice(0, axes.indexOf("batch")) as number[]);
  const data = chosenRows(array, outer, count, rows);
  const knownSizes: Record<string, number> = { batch: rows.length, source: sourceTokens };
  const sizes = axes.map((axis) => knownSizes[axis] ?? axis);
  const tokensSoFar = data.length / productOf(sizes.filter((size) => typeof size === "number")); // how many tokens were read so far: all numbers, divided by the sizes that are known
  return new Tensor("float32", data, sizes.map((size) => (typeof size === "number" ? size : tokensSoFar)));
}

const lengthsOf = (rows: number, tokens: number) => new Tensor("int64", new BigInt64Array(rows).fill(BigInt(tokens)), [rows]);

const arraysOf = (outputs: InferenceSession.OnnxValueMapType): Arrays =>
  Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data as Float32Array]));

const productOf = (sizes: number[]) => sizes.reduce((product, size) => product * size, 1);

/** Copy the rows with the indices `rows` from an array [outer count …] into a new array [outer rows …]. */
function chosenRows(array: Float32Array, outer: number, count: number, rows: number[]): Float32Array {
  const size = array.length / (outer * count);
  const copy = new Float32Array(outer * rows.length * size);
  for (let i = 0; i < outer; i++) {
    rows.forEach((row, j) => {
      const start = (i * count + row) * size;
      copy.set(array.subarray(start, start + size), (i * rows.length + j) * size);
    });
  }
  return copy;
}
