// The model, run by ONNX Runtime in WebAssembly: ids in; queries, keys and values of every layer out, and its output

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import type { Layer } from "../data";

/** What the heads are to attend to instead, for each head in the order of layers. */
export interface Changed {
  cut: Uint8Array; // [queries keys], 1 where a changed head may not attend
  heads: Uint8Array; // [layers heads], 1 = the head is changed
  temperatures: Float32Array; // [layers heads], which the scores are divided by
}

/** What the model gives for a text. */
export interface Run {
  output: Float32Array;
  numbers: Record<string, Float32Array>; // by the name of the block: "encoder layer 0 query"
}

export class Model {
  private constructor(
    private readonly session: InferenceSession,
    private readonly layers: Layer[],
  ) {}

  static async load(graph: Uint8Array, layers: Layer[]): Promise<Model> {
    return new Model(await InferenceSession.create(graph, { executionProviders: ["wasm"] }), layers);
  }

  /** Changes that change nothing, for a text of so many tokens. */
  unchanged(tokens: number): Changed {
    const heads = this.layers.length * this.layers[0].heads;
    return { cut: new Uint8Array(tokens * tokens), heads: new Uint8Array(heads), temperatures: new Float32Array(heads).fill(1) };
  }

  /**
   * Run the model.
   *
   * @param places of the tokens after which a causal model gives logits; an encoder gives its output for all tokens.
   * @param alone whether only the output is wanted, without queries, keys and values.
   */
  async run(ids: number[], { cut, heads, temperatures }: Changed, places: number[], alone = false): Promise<Run> {
    const perHead = [this.layers.length, this.layers[0].heads];
    const inputs = {
      ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]),
      places: new Tensor("int64", BigInt64Array.from(places, BigInt), [places.length]),
      cut: new Tensor("bool", cut, [ids.length, ids.length]),
      changed: new Tensor("bool", heads, perHead),
      temperature: new Tensor("float32", temperatures, perHead),
    };
    const taken = Object.fromEntries(Object.entries(inputs).filter(([name]) => this.session.inputNames.includes(name)));
    const outputs = await this.session.run(taken, alone ? ["output"] : this.session.outputNames);
    const numbers = Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data as Float32Array]));
    const { output, ...vectors } = numbers;
    return { output, numbers: vectors };
  }
}
