// An encoder of text: a text in; the trace of the model, and the effect of changes to its heads

import type { Change, Effect, Trace } from "../data";
import { changedBy, effectOf, type Answer } from "./effect";
import { Refused } from "./files";
import type { ModelFiles } from "./messages";
import { Model, type Changed } from "./model";
import type { Reader } from "./reader";
import { escaped, SPACES, tokensOf } from "./tokens";
import { WordPiece, type Vocabulary } from "./wordpiece";

export class EncoderReader implements Reader {
  private readonly tokenizer: WordPiece;

  private constructor(
    private readonly model: Model,
    private readonly vocabulary: Vocabulary,
    private readonly shape: Trace,
    private readonly most: number,
  ) {
    this.tokenizer = new WordPiece(vocabulary);
  }

  static async of(files: ModelFiles, shape: Trace, most: number): Promise<EncoderReader> {
    const vocabulary = JSON.parse(new TextDecoder().decode(files.tokenizer)) as Vocabulary;
    const { layers } = Object.values(shape.kinds)[0];
    return new EncoderReader(await Model.load(files.model, layers), vocabulary, shape, most);
  }

  trace = async (text: string): Promise<Trace> => (await this.read(text, (tokens) => this.model.unchanged(tokens))).trace;

  async effect(text: string, changes: Change[]): Promise<Effect> {
    const before = await this.read(text, (tokens) => this.model.unchanged(tokens));
    const after = await this.read(text, (tokens) => changedBy(changes, this.model, this.shape, tokens));
    return effectOf(changes, before, after);
  }

  /** Run the model on a text; `changedFor` gives the changes for its number of tokens. */
  private async read(text: string, changedFor: (tokens: number) => Changed): Promise<Answer> {
    const letters = [...text];
    const pieces = this.tokenizer.encode(letters);
    if (pieces.length > this.most) throw new Refused({ reason: "long", tokens: pieces.length });
    const { output, numbers } = await this.model.run(pieces.map(({ id }) => id), changedFor(pieces.length));
    const source = tokensOf(pieces, letters, this.vocabulary);
    return { trace: { ...this.shape, text: escaped(text, SPACES), source, numbers }, output };
  }
}
