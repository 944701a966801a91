// Beam search, as in Python's translation/search/beam.py; the result is all finished translations that it finds, best first
//
//   score(y) = log P(y | x) / ((5 + |y|) / 6) ^ penalty          |y| = number of pieces of y, with the end of the sentence

import { indicesOfLargest } from "../../trace/arrays";
import { rowOf, type Encoded, type Graphs, type Settings, type Step } from "./graphs";

/** A token of a translation; the decoder has read this token. */
interface ReadToken {
  step: Step; // the step in which the decoder read the token
  row: number; // the row of the translation in the batch of the step
  before: ReadToken | null; // the token before this token in the translation; null = none
}

/** A translation that is not finished. */
interface Active {
  tokens: number[]; // the ids of the translation's pieces, without the beginning (BOS) and the end (EOS)
  logProbability: number; // the natural logarithm of the translation's probability, given the source
  last: ReadToken; // the last token that the decoder read
}

export interface Hypothesis extends Active {
  score: number;
}

/** An unfinished translation and one more token; the decoder has not read this token yet. */
interface Extension {
  from: Active;
  token: number;
  logProbability: number;
}

/** The finished translations of a source, best first. `throwIfOutdated` is called before each step; it throws an error to end the search. */
export async function beamSearch(graphs: Graphs, settings: Settings, encoded: Encoded, throwIfOutdated: () => void): Promise<Hypothesis[]> {
  const { size, length_penalty: penalty } = settings.beam;
  const limit = Math.min(settings.max_tokens - 1, settings.limit.per_piece * encoded.tokens + settings.limit.extra);
  const first = await graphs.step([settings.bos], encoded, null);
  const found: Hypothesis[] = [];
  let active: Active[] = [{ tokens: [], logProbability: 0, last: { step: first, row: 0, before: null } }];
  while (active.length) {
    throwIfOutdated();
    const extensions = extensionsOf(active, settings, size, limit).slice(0, size - found.length);
    for (const { from, token, logProbability } of extensions) {
      if (token !== settings.eos) continue;
      const score = logProbability / ((5 + from.tokens.length + 1) / 6) ** penalty;
      found.push({ ...from, logProbability, score });
    }
    active = await advanced(graphs, encoded, extensions.filter(({ token }) => token !== settings.eos));
  }
  return found.sort((a, b) => b.score - a.score);
}

/** The `size` most probable extensions by one token, best first. A translation with `limit` tokens is extended only by its end (EOS). */
function extensionsOf(active: Active[], settings: Settings, size: number, limit: number): Extension[] {
  const all = active.flatMap((from) => {
    const numbers = logSoftmax(rowOf(from.last.step, "logits", from.last.row));
    numbers[settings.pad] = numbers[settings.bos] = -Infinity;
    if (from.tokens.length >= limit) numbers.forEach((_, token) => token !== settings.eos && (numbers[token] = -Infinity));
    return indicesOfLargest(numbers, size).map((token) => ({ from, token, logProbability: from.logProbability + numbers[token] }));
  });
  return all.filter(({ logProbability }) => logProbability > -Infinity).sort((a, b) => b.logProbability - a.logProbability).slice(0, size);
}

/** Let the decoder read the new token of each extension; return the extensions as unfinished translations. */
async function advanced(graphs: Graphs, encoded: Encoded, extensions: Extension[]): Promise<Active[]> {
  if (!extensions.length) return [];
  const before = { step: extensions[0].from.last.step, rows: extensions.map(({ from }) => from.last.row) };
  const step = await graphs.step(extensions.map(({ token }) => token), encoded, before);
  return extensions.map(({ from, token, logProbability }, row) => ({
    tokens: [...from.tokens, token],
    logProbability,
    last: { step, row, before: from.last },
  }));
}

function logSoftmax(logits: Float32Array): Float64Array {
  const highest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - highest), 0);
  if (Number.isNaN(sum)) throw new Error("the model gives NaN for the next token; its parameters are damaged");
  return Float64Array.from(logits, (logit) => logit - highest - Math.log(sum));
}
