// Beam search, as Python's translation/search/beam.py does it: all hypotheses that it finds, best first
//
//   score(y) = log P(y | x) / ((5 + |y|) / 6) ^ penalty          |y| counts the pieces and the end

import { rowOf, type Encoded, type Graphs, type Settings, type Step } from "./graphs";

/** A token that the decoder has read: the row of a step, and the token read before it. */
export interface Read {
  step: Step;
  row: number;
  before: Read | null;
}

/** A translation that was found. */
export interface Hypothesis {
  tokens: number[]; // without the beginning and the end
  logProbability: number; // in nats
  score: number;
  last: Read; // the token after which the end was written
}

interface Active {
  tokens: number[];
  logProbability: number;
  last: Read;
}

interface Extension {
  from: Active;
  token: number;
  logProbability: number;
}

/**
 * Translate a source.
 *
 * @param goOn asked before each step; an error that it throws ends the search.
 */
export async function beamSearch(graphs: Graphs, settings: Settings, encoded: Encoded, goOn: () => void): Promise<Hypothesis[]> {
  const { size, length_penalty: penalty } = settings.beam;
  const limit = Math.min(settings.max_tokens - 1, settings.limit.per_piece * encoded.tokens + settings.limit.extra);
  const first = await graphs.step([settings.bos], encoded, null);
  const found: Hypothesis[] = [];
  let active: Active[] = [{ tokens: [], logProbability: 0, last: { step: first, row: 0, before: null } }];
  while (active.length) {
    goOn();
    const extensions = extensionsOf(active, settings, size, limit).slice(0, size - found.length);
    for (const { from, token, logProbability } of extensions) {
      if (token !== settings.eos) continue;
      const score = logProbability / ((5 + from.tokens.length + 1) / 6) ** penalty;
      found.push({ tokens: from.tokens, logProbability, score, last: from.last });
    }
    active = await advanced(graphs, encoded, extensions.filter(({ token }) => token !== settings.eos));
  }
  return found.sort((a, b) => b.score - a.score);
}

/** The most probable extensions of the active hypotheses by one token, best first. */
function extensionsOf(active: Active[], settings: Settings, size: number, limit: number): Extension[] {
  const all = active.flatMap((from) => {
    const numbers = logSoftmax(rowOf(from.last.step, "logits", from.last.row));
    numbers[settings.pad] = numbers[settings.bos] = -Infinity;
    if (from.tokens.length >= limit) numbers.forEach((_, token) => token !== settings.eos && (numbers[token] = -Infinity));
    return largest(numbers, size).map((token) => ({ from, token, logProbability: from.logProbability + numbers[token] }));
  });
  return all.filter(({ logProbability }) => logProbability > -Infinity).sort((a, b) => b.logProbability - a.logProbability).slice(0, size);
}

/** Let the model read the new token of each extension. */
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

/** The places of the largest numbers, the largest first. */
function largest(numbers: Float64Array, count: number): number[] {
  const places: number[] = [];
  for (let place = 0; place < numbers.length; place++) {
    if (places.length === count && numbers[place] <= numbers[places[count - 1]]) continue;
    const at = places.findIndex((other) => numbers[other] < numbers[place]);
    places.splice(at < 0 ? places.length : at, 0, place);
    if (places.length > count) places.pop();
  }
  return places;
}
