// The `Reader` (see reader.ts) of an encoder or a causal language model: runs it on a text, and returns the trace or the effect of changes

import { indicesOfLargest, rowsOf } from "../../trace/arrays";
import type { Change, Effect, Reading, Token, Trace } from "../../trace/data";
import { sampleToken, likelyTokens, nucleusOf, probabilities } from "../../trace/next-token";
import { causal, outputArrays, type Outputs } from "../arrays";
import { Refused } from "../files";
import type { ModelFiles, ModelRecord } from "../messages";
import type { Reader } from "../reader";
import { escaped, SPACES } from "../tokens/shown-tokens";
import { Tokenizer } from "../tokens/tokenizer";
import { changedBy, effectOf, type RunResult } from "./effect";
import { Model } from "./graph";

const ALTERNATIVES = 5; // how many of the most probable tokens are listed beside each generated token
const NEXT = 8; // how many of the most probable next tokens are listed

interface Input {
  text: string; // the text that was typed, followed by the text of its continuation
  ids: number[];
  nTyped: number; // how many of the `ids`, from the first one on, belong to the text that was typed; the others are its continuation
  tokens: Token[];
}

export class TextReader implements Reader {
  private constructor(
    private readonly model: Model,
    private readonly tokenizer: Tokenizer,
    private readonly record: ModelRecord,
    private readonly outputs: Outputs,
  ) {}

  static async of(files: ModelFiles, record: ModelRecord): Promise<TextReader> {
    const { layers } = Object.values(record.template.kinds)[0];
    const model = await Model.load(files.model, layers);
    return new TextReader(model, Tokenizer.of(files.tokenizer), record, outputArrays(files.outputs, record.template));
  }

  get projections() {
    return this.outputs.projections;
  }

  async trace(reading: Reading, throwIfOutdated: () => void): Promise<Trace> {
    const continuation = [...(reading.continuation ?? []), ...(await this.write(reading, throwIfOutdated))];
    const input = this.input(reading, continuation);
    const { trace, output } = await this.run(input, [], range(input.nTyped - 1, input.ids.length));
    return this.record.kind === "causal" ? { ...trace, ...this.writing(input, reading.text, output) } : trace;
  }

  async effect(reading: Reading, changes: Change[]): Promise<Effect> {
    const input = this.input(reading, reading.continuation);
    const [before, after] = [await this.run(input, []), await this.run(input, changes)];
    const next = ({ output }: RunResult) => (this.record.kind === "causal" ? this.next(rowsOf(output, input.ids.length).at(-1)!) : []);
    return { ...(await effectOf(changes, before, after)), before: next(before), after: next(after) };
  }

  private input({ text, truncate }: Reading, continuation: number[] = []): Input {
    const letters = [...text];
    const maxPieces = truncate ? this.record.max_tokens - continuation.length : undefined;
    const pieces = this.tokenizer.encode(letters, maxPieces);
    const ids = [...pieces.map(({ id }) => id), ...continuation];
    this.refuseIfLong(ids.length);
    const tokens = this.tokenizer.tokens(pieces, letters, continuation);
    return { text: text + this.tokenizer.decode(continuation), ids, nTyped: pieces.length, tokens };
  }

  private refuseIfLong(tokens: number): void {
    if (tokens > this.record.max_tokens) throw new Refused({ reason: "long", tokens });
  }

  /** Run the model with some changes to its heads. The output of a causal model is the logits after the tokens at the positions `places`. */
  private async run({ text, ids, tokens }: Input, changes: Change[], places = range(0, ids.length)): Promise<RunResult> {
    const { template } = this.record;
    const changed = changes.length ? changedBy(changes, this.model, template, ids.length) : null;
    const { output, numbers } = await this.model.run(ids, changed, places);
    const side = Object.values(template.kinds)[0].queries;
    const masks = this.record.kind === "causal" ? { causal: causal(ids.length) } : undefined;
    const trace = { ...template, text: escaped(text, SPACES), [side]: tokens, numbers: { ...this.outputs.shown, ...numbers }, masks };
    return { trace, output };
  }

  /** Let a causal model generate tokens after a text, sampled with the temperature and the nucleus; return their ids. */
  private async write(reading: Reading, throwIfOutdated: () => void): Promise<number[]> {
    const { continuation, new_tokens: newTokens = 0, temperature = 0, nucleus = 1 } = reading;
    const { ids } = this.input(reading, continuation);
    this.refuseIfLong(ids.length + newTokens);
    const written: number[] = [];
    while (written.length < newTokens && !this.record.ends.includes(written.at(-1)!)) {
      const idsSoFar = [...ids, ...written];
      const { output } = await this.model.run(idsSoFar, null, [idsSoFar.length - 1]);
      written.push(sampleToken(nucleusOf(probabilities(output, temperature), nucleus), Math.random()));
      await new Promise((resolve) => setTimeout(resolve)); // a message with a newer question can arrive now
      throwIfOutdated();
    }
    return written;
  }

  /** What the model has generated and may generate next. `output`: the logits after the typed text, and after each token of the continuation. */
  private writing({ ids, nTyped }: Input, text: string, output: Float32Array): Pick<Trace, "written" | "next" | "going"> {
    const continuation = ids.slice(nTyped);
    const rows = rowsOf(output, continuation.length + 1);
    const written = continuation.map((id, i) => {
      const probabilityOf = probabilities(rows[i]);
      const best = indicesOfLargest(probabilityOf, ALTERNATIVES);
      const texts = this.tokenizer.texts(best).map((one) => escaped(one));
      const alternatives = best.map((bestId, rank): [string, number] => [texts[rank], probabilityOf[bestId]]);
      return { position: nTyped + i, probability: probabilityOf[id], alternatives };
    });
    const logits = rows.at(-1)!.slice();
    return { written, next: this.next(logits), going: { text, continuation, ids: indicesOfLargest(logits, NEXT), logits } };
  }

  private next = (logits: Float32Array): [string, number][] =>
    likelyTokens(logits, NEXT).map(([id, probability]) => [escaped(this.tokenizer.letters(id)), probability]);
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
