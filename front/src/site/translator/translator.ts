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
function transposed(rows: Float32Array[]): Float32Array {
  const n = rows.length;
  return Float32Array.from({ length: n * rows[0].length }, (_, i) => rows[i % n][Math.floor(i / n)]);
}

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
    const [source, target] = [new Vocabulary(files.source), new Vocabulary(files.target)];
    return new TranslatorReader(graphs, settings, source, target, record, outputArrays(files.outputs, record.template));
  }

  get projections() {
    return this.outputs.projections;
  }

  async trace({ text, truncate }: Reading, throwIfOutdated: () => void): Promise<Trace> {
    const { max_tokens: maxTokens } = this.record;
    const clean = this.clean(text);
    const signs = signsOf(clean, this.settings.latin);
    const piecesWithSigns = this.source.encode(withSigns(clean, signs)).slice(0, truncate ? maxTokens : undefined);
    const pieces = piecesWithItems(piecesWithSigns, signs);
    if (!pieces.length) throw new Refused({ reason: "empty" });
    if (pieces.length > maxTokens) throw new Refused({ reason: "long", tokens: pieces.length });
    const source = [...pieces, { id: this.settings.eos, text: this.source.piece(this.settings.eos) }];
    const encoded = await this.graphs.encode(source.map(({ id }) => id));
    const signsRead = [...(signs?.values() ?? [])].filter((sign) => piecesWithSigns.some(({ text }) => text === sign));
    const required = signsRead.map((sign) => this.target.encode(sign).at(-1)!.id);
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
        if (layer.weights) {
          vectors[layer.weights] = transposed(rowsOfSteps(layer.weights));
          continue;
        }
        for (const { block, heads } of vectorsOf(layer)) {
          const part = block.split(" ").at(-1);
          if (kind === "encoder") vectors[block] = encoded.arrays[block];
          else if (part !== "key" && part !== "value") vectors[block] = joinTokens(rowsOfSteps(block), heads); // each step returns the vectors of one token
          else if (kind === "cross") vectors[block] = encoded.arrays[`source_${part}_${layer.layer}`]; // the encoder returns the keys and values of cross-attention
          else vectors[block] = rowOf(last.step, `present_${part}_${layer.layer}`, last.row); // the last step returns the keys and values of all tokens
        }
      }
    }
    return vectors;
  }

  private async candidate(pair: Pair): Promise<Candidate> {
    const { text: sourceText, source, hypothesis } = pair;
    const text = this.textOf(pair);
    const sourcePieces = source.map((piece) => piece.text); // with the end of the sentence
    const targetPieces = [...this.pieces(pair).map((piece) => piece.text), this.target.piece(this.settings.eos)];
    const sourceWords = wordsAndPieces(sourceText, sourcePieces.slice(0, -1), this.clean);
    const targetWords = wordsAndPieces(text, targetPieces.slice(0, -1), this.clean);
    const weights = await this.pieceWeights(pair);
    return {
      text: escaped(text),
      score: hypothesis.score,
      log_probability: hypothesis.logProbability,
      source_words: sourceWords.words.map((word) => escaped(word)),
      target_words: targetWords.words.map((word) => escaped(word)),
      source_word_of: sourceWords.wordOf,
      target_word_of: targetWords.wordOf,
      weights: wordWeights(weights, { ...targetWords, pieces: targetPieces }, { ...sourceWords, pieces: sourcePieces }),
      pieces: { source: sourcePieces.map((piece) => escaped(piece)), target: targetPieces.map((piece) => escaped(piece)), weights },
    };
  }

  /** The weights [target pieces, source pieces] with which this translator aligns words; `settings.rule` names their layer and head. */
  private async pieceWeights(pair: Pair): Promise<number[][]> {
    const { rule } = this.settings;
    const trace = this.traceOf(pair);
    const record = trace.kinds.cross.layers.find((layer) => layer.layer === rule.layer)!;
    const layer = await decodeLayer(trace, record);
    const heads = rule.head === null ? Array.from({ length: record.heads }, (_, head) => head) : [rule.head];
    const lastQuery = layer.nQueries - 1;
    return Array.from({ length: layer.nQueries }, (_, piece) => {
      const readingStep = Math.min(piece + 1, lastQuery); // follows the step that predicts the piece; no step reads the last piece, EOS
      const query = rule.step === "reads" ? readingStep : piece;
      const rows = heads.map((head) => weightsOf(layer, head, query));
      return Array.from({ length: layer.nKeys }, (_, key) => rows.reduce((sum, row) => sum + row[key], 0) / heads.length);
    });
  }

  private pieces({ hypothesis, signs }: Pair): TextPiece[] {
    const pieces = hypothesis.tokens.map((id) => ({ id, text: id === UNK ? UNKNOWN : this.target.piece(id) }));
    return piecesWithItems(pieces, signs);
  }

  private textOf(pair: Pair): string {
    const { tokens } = pair.hypothesis;
    if (tokens.includes(UNK)) return textOfPieces(this.pieces(pair).map(({ text }) => text));
    return stripped(withItems(this.target.decode(tokens), pair.signs));
  }
}
