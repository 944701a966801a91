// A text model as an ONNX graph, run by ONNX Runtime in WebAssembly: from ids of tokens to the output and the vectors of all layers

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import { rowsOf } from "../../trace/arrays";
import type { Layer, Vectors } from "../../trace/data";
import { firstTokens, joinTokens, vectorsOf } from "../arrays";

/** Changes to heads, as inputs of the ONNX graph. */
export interface Changed {
  cut: Uint8Array; // [queries keys], 1 = the changed heads may not attend from this query to this key
  heads: Uint8Array; // [layers heads], 1 = a changed head: it may not attend where `cut` is 1
  temperatures: Float32Array; // [layers heads]; the scores of a head are divided by its temperature
}

export interface Run {
  output: Float32Array; // of a causal model, the logits; of an encoder, its last hidden vectors
  numbers: Record<string, Float32Array>; // the vectors of all layers, by name: "encoder layer 0 query"
}

/** The last run of a causal model without changes, kept so that a longer text need not be read from the beginning. */
interface LastRun extends Pick<Run, "numbers"> {
  ids: number[];
  rows: (Float32Array | undefined)[]; // the logits after each token; undefined where they were not computed
}

export class Model {
  private last: LastRun = { ids: [], numbers: {}, rows: [] };

  private constructor(
    private readonly session: InferenceSession,
    private readonly layers: Layer[],
  ) {}

  static async load(graph: Uint8Array, layers: Layer[]): Promise<Model> {
    return new Model(await InferenceSession.create(graph, { executionProviders: ["wasm"] }), layers);
  }

  /** Return the inputs of the ONNX graph for a run without changes: no head is changed, and all temperatures are 1. */
  unchanged(tokens: number): Changed {
    const heads = this.layers.length * this.layers[0].heads;
    return { cut: new Uint8Array(tokens * tokens), heads: new Uint8Array(heads), temperatures: new Float32Array(heads).fill(1) };
  }

  /**
   * Run the model. Without changes to heads, a causal model keeps the keys, values and logits of a text. If the next text begins with the same
   * tokens, it reads only the new tokens. A causal model gives logits after the tokens at `places`; an encoder gives its output for all tokens.
   */
  async run(ids: number[], changed: Changed | null, places: number[]): Promise<Run> {
    const { last } = this;
    const nPast = changed ? 0 : this.reusableTokens(ids, places);
    const newPlaces = places.filter((place) => place >= nPast);
    const nNew = ids.length - nPast;
    const { cut, heads, temperatures } = changed ?? this.unchanged(nNew);
    const perHead = [this.layers.length, this.layers[0].heads];
    const inputs: Record<string, Tensor> = {
      ids: integers(ids.slice(nPast), [1, nNew]),
      places: integers(newPlaces.map((place) => place - nPast), [newPlaces.length]),
      cut: new Tensor("bool", cut, [nNew, nNew]),
      changed: new Tensor("bool", heads, perHead),
      temperature: new Tensor("float32", temperatures, perHead),
    };
    const pastOf = (vectors: Vectors) => (nPast ? firstTokens(last.numbers[vectors.block], vectors, nPast) : new Float32Array());
    const past = new Map(this.layers.flatMap(vectorsOf).map((vectors) => [vectors, pastOf(vectors)]));
    for (const [{ block, heads, width }, numbers] of past) inputs[`past ${block}`] = new Tensor("float32", numbers, [1, heads, nPast, width]);
    const graphInputs = Object.entries(inputs).filter(([name]) => this.session.inputNames.includes(name));
    const outputs = await this.session.run(Object.fromEntries(graphInputs));
    const numbers: Run["numbers"] = {};
    for (const [{ block, heads }, before] of past) numbers[block] = joinTokens([before, outputs[block].data as Float32Array], heads);
    const output = outputs.output.data as Float32Array;
    if (!this.readsPast) return { output, numbers };
    const rows = last.rows.slice(0, nPast);
    rowsOf(output, newPlaces.length).forEach((row, i) => (rows[newPlaces[i]] = row));
    if (!changed) this.last = { ids, numbers, rows };
    return { output: joinTokens(places.map((place) => rows[place]!), 1), numbers };
  }

  /** How many tokens need not be read again: those with which the last text began, too, up to the first place without logits; never the last token. */
  private reusableTokens(ids: number[], places: number[]): number {
    if (!this.readsPast) return 0;
    const placeWithoutLogits = places.find((place) => !this.last.rows[place]) ?? Infinity;
    return Math.min(sharedLength(ids, this.last.ids), placeWithoutLogits, ids.length - 1);
  }

  /** Whether the graph has inputs for the keys and values of tokens that were read before. */
  private get readsPast(): boolean {
    return this.session.inputNames.some((name) => name.startsWith("past "));
  }
}

const integers = (numbers: number[], shape: number[]) => new Tensor("int64", BigInt64Array.from(numbers, BigInt), shape);

function sharedLength(one: number[], other: number[]): number {
  const end = one.findIndex((number, i) => number !== other[i]);
  return end < 0 ? one.length : end;
}
