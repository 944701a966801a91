// The `Reader` (see ../reader.ts) of a translator: translates a sentence, and returns the trace and the word alignments

import { weightsOf } from "../../trace/attention";
import { decodeLayer } from "../../trace/blocks";
import type { Alignment, Candidate, Reading, Trace } from "../../trace/data";
import { causal, joinTokens, outputArrays, type Outputs, vectorsOf } from "../arrays";
import { Refused } from "../files";
import type { ModelFiles, ModelRecord } from "../messages";
import type { Reader } from "../reader";
import { stripped } from "../tokens/letters";
import { escaped, SPACES } from "../tokens/shown-tokens";
import { beamSearch, type Hypothesis } from "./beam";
import { cleaner, type Clean } from "./clean";
import { Graphs, rowOf, type Arrays, type Encoded, type Settings } from "./graphs";
import { piecesWithItems, type Signs, signsOf, withItems, withSigns } from "./placeholders";
import { UNK, Vocabulary, type TextPiece } from "./sentencepiece";
import { textOfPieces, tokensOfPieces, wordsAndPieces, wordWeights } from "./words";

const UNKNOWN = "⁇"; // the text of an unknown piece in a translation

/** The numbers of the transpose of a matrix that is given by its rows. */
const transposed = (rows: Float32Array[]) => Float32Array.from({ length: rows.length * rows[0].length }, (_, i) => rows[i % rows.length][Math.floor(i / rows.length)]);

/** A source text and one of its translations. */
interface Pair {
  text: string;
  source: TextPiece[]; // the pieces; the last one is the end of the sentence
  encoded: Encoded;
  hypothesis: Hypothesis;
  signs: Signs; // the signs that replace names, numbers and addresses of the source
}

export class TranslatorReader implements Reader {
  private readonly clean: Clean;

  private constructor(
    private readonly graphs: Graphs,
    private readonly settings: Settings,
    private readonly source: Vocabulary,
    private readonly target: Vocabulary,
    private readonly record: ModelRecord,
    private readonly outputs: Outputs,
  ) {
    this.clean = cleaner(settings.unassigned);
  }

  static async of(files: ModelFiles, record: ModelRecord): Promise<TranslatorReader> {
    const settings = JSON.parse(new TextDecoder().decode(files.settings)) as Settings;
    const graphs = await Graphs.load(files.encoder, files.decoder, settings);
    return new TranslatorReader(graphs, settings, new Vocabulary(files.source), new Vocabulary(files.target), record, outputArrays(files.outputs, record.template));
  }

  get projections() {
    return this.outputs.projections;
  }

  async trace({ text, truncate }: Reading, throwIfOutdated: () => void): Promise<Trace> {
    const { max_tokens: maxTokens } = this.record;
    const clean = this.clean(text);
    const signs = signsOf(clean, this.settings.latin);
    const read = this.source.encode(withSigns(clean, signs)).slice(0, truncate ? maxTokens : undefined);
    const pieces = piecesWithItems(read, signs);
    if (!pieces.length) throw new Refused({ reason: "empty" });
    if (pieces.length > maxTokens) throw new Refused({ reason: "long", tokens: pieces.length });
    const source = [...pieces, { id: this.settings.eos, text: this.source.piece(this.settings.eos) }];
    const encoded = await this.graphs.encode(source.map(({ id }) => id));
    const required = [...(signs?.values() ?? [])].filter((sign) => read.some(({ text }) => text === sign)).map((sign) => this.target.encode(sign).at(-1)!.id);
    const hypotheses = await beamSearch(this.graphs, this.settings, encoded, required, throwIfOutdated);
    const pairs = hypotheses.map((hypothesis): Pair => ({ text, source, encoded, hypothesis, signs }));
    const candidates = await Promise.all(pairs.map((pair) => this.candidate(pair)));
    return { ...this.traceOf(pairs[0]), alignment: { rule: this.settings.rule, candidates } as Alignment };
  }

  /** The trace of the model for a source and one of its translations. */
  private traceOf(pair: Pair): Trace {
    const { bos, eos } = this.settings;
    const begin = { id: bos, text: this.target.piece(bos) };
    const target = [begin, ...this.pieces(pair)];
    return {
      ...this.record.template,
      text: escaped(pair.text, SPACES),
      target_text: escaped(this.textOf(pair), SPACES),
      source: tokensOfPieces(pair.source, eos),
      target: tokensOfPieces(target, bos),
      numbers: { ...this.outputs.shown, ...this.vectors(pair) },
      masks: { causal: causal(target.length) },
    };
  }

  /** The arrays of the trace by name ("cross layer 0 query"): queries, keys, values and hidden vectors, each [heads tokens width]. For a recurrent decoder, the attention weights. */
  private vectors({ encoded, hypothesis }: Pair): Arrays {
    const vectors: Arrays = {};
    const { last } = hypothesis;
    const readTokens = [last];
    while (readTokens[0].before) readTokens.unshift(readTokens[0].before);
    const rowsOfSteps = (block: string) => readTokens.map(({ step, row }) => rowOf(step, block, row));
    for (const [kind, { layers }] of Object.entries(this.record.template.kinds)) {
      for (const layer of layers) {
        if (layer.weights) vectors[layer.weights] = transposed(rowsOfSteps(layer.weights));
        else for (const vector of vectorsOf(layer)) {
          const part = vector.block.split(" ").at(-1);
          if (kind === "encoder") vectors[vector.block] = encoded.arrays[vector.block];
          else if (part !== "key" && part !== "value") vectors[vector.block] = joinTokens(rowsOfSteps(vector.block), vector.heads); // each step returns the vectors of one token
          else if (kind === "cross") vectors[vector.block] = encoded.arrays[`source_${part}_${layer.layer}`]; // the encoder returns the keys and values of cross-attention
          else vectors[vector.block] = rowOf(last.step, `present_${part}_${layer.layer}`, last.row); // the last step returns the keys and values of all tokens
        }
      }
    }
    return vectors;
  }

  private async candidate(pair: Pair): Promise<Candidate> {
    const { text: sourceText, source, hypothesis } = pair;
    const [text, pieces] = [this.textOf(pair), this.pieces(pair).map((piece) => piece.text)];
    const sourcePieces = source.map((piece) => piece.text);
    const from = wordsAndPieces(sourceText, sourcePieces.slice(0, -1), this.clean);
    const to = wordsAndPieces(text, pieces, this.clean);
    const all = { source: sourcePieces, target: [...pieces, this.target.piece(this.settings.eos)] };
    const weights = await this.pieceWeights(pair);
    return {
      text: escaped(text),
      score: hypothesis.score,
      log_probability: hypothesis.logProbability,
      source_words: from.words.map((word) => escaped(word)),
      target_words: to.words.map((word) => escaped(word)),
      source_word_of: from.wordOf,
      target_word_of: to.wordOf,
      weights: wordWeights(weights, { ...to, pieces: all.target }, { ...from, pieces: all.source }),
      pieces: { source: all.source.map((piece) => escaped(piece)), target: all.target.map((piece) => escaped(piece)), weights },
    };
  }

  /** The weights [target pieces, source pieces] with which this translator aligns words; `settings.rule` names their layer and head. */
  private async pieceWeights(pair: Pair): Promise<number[][]> {
    const { rule } = this.settings;
    const trace = this.traceOf(pair);
    const record = trace.kinds.cross.layers.find((layer) => layer.layer === rule.layer)!;
    const layer = await decodeLayer(trace, record);
    const heads = rule.head === null ? Array.from({ length: record.heads }, (_, head) => head) : [rule.head];
    return Array.from({ length: layer.nQueries }, (_, piece) => {
      const query = rule.step === "reads" ? Math.min(piece + 1, layer.nQueries - 1) : piece; // the step that reads a piece follows the step that predicts it; no step reads the last piece, EOS
      const rows = heads.map((head) => weightsOf(layer, head, query));
      return Array.from({ length: layer.nKeys }, (_, key) => rows.reduce((sum, row) => sum + row[key], 0) / heads.length);
    });
  }

  private pieces({ hypothesis, signs }: Pair): TextPiece[] {
    return piecesWithItems(hypothesis.tokens.map((id) => ({ id, text: id === UNK ? UNKNOWN : this.target.piece(id) })), signs);
  }

  private textOf(pair: Pair): string {
    const { tokens } = pair.hypothesis;
    return tokens.includes(UNK) ? textOfPieces(this.pieces(pair).map(({ text }) => text)) : stripped(withItems(this.target.decode(tokens), pair.signs));
  }
}
