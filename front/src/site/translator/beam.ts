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

/** The finished translations of a source that have all `required` tokens (the signs that stand for names and numbers), best first; if none has all, those that have the most of them. `throwIfOutdated` is called before each step; it throws an error to end the search. */
export async function beamSearch(graphs: Graphs, settings: Settings, encoded: Encoded, required: number[], throwIfOutdated: () => void): Promise<Hypothesis[]> {
  const { size, length_penalty: penalty } = settings.beam;
  const limit = Math.min(settings.max_tokens - 1, settings.limit.per_piece * encoded.tokens + settings.limit.extra);
  const first = await graphs.step([settings.bos], encoded, null);
  const [complete, incomplete]: Hypothesis[][] = [[], []]; // finished translations with all required tokens, and others
  const nMissing = ({ tokens }: Active) => required.filter((token) => !tokens.includes(token)).length;
  let active: Active[] = [{ tokens: [], logProbability: 0, last: { step: first, row: 0, before: null } }];
  while (active.length) {
    throwIfOutdated();
    const unfinished: Extension[] = [];
    for (const extension of extensionsOf(active, settings, size + 1, limit)) {
      if (complete.length + unfinished.length === size) break;
      const { from, token, logProbability } = extension;
      if (token !== settings.eos) {
        unfinished.push(extension);
        continue;
      }
      const score = logProbability / ((5 + from.tokens.length + 1) / 6) ** penalty;
      (nMissing(from) ? incomplete : complete).push({ ...from, logProbability, score });
    }
    active = await advanced(graphs, encoded, unfinished);
  }
  const fewestMissing = Math.min(...incomplete.map(nMissing));
  const best = complete.length ? complete : incomplete.filter((hypothesis) => nMissing(hypothesis) === fewestMissing);
  return best.sort((a, b) => b.score - a.score).slice(0, size);
}

/** All extensions by one of the `n` most probable next tokens, best first. A translation with `limit` tokens is extended only by its end (EOS). */
function extensionsOf(active: Active[], settings: Settings, n: number, limit: number): Extension[] {
  const extensions = active.flatMap((from) => {
    const logProbabilities = logSoftmax(rowOf(from.last.step, "logits", from.last.row));
    logProbabilities[settings.pad] = logProbabilities[settings.bos] = -Infinity;
    if (from.tokens.length >= limit) {
      const eosLogProbability = logProbabilities[settings.eos];
      logProbabilities.fill(-Infinity);
      logProbabilities[settings.eos] = eosLogProbability;
    }
    const tokens = indicesOfLargest(logProbabilities, n);
    return tokens.map((token) => ({ from, token, logProbability: from.logProbability + logProbabilities[token] }));
  });
  return extensions.filter(({ logProbability }) => logProbability > -Infinity).sort((a, b) => b.logProbability - a.logProbability);
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
