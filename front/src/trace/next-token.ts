// The next token of a causal model: probabilities from logits, the most probable tokens, and sampling

import { indicesOfLargest } from "./arrays";
import { bytesOfBase64 } from "./blocks";
import type { Going } from "./data";

/** The logits of the next token [vocabulary], which a server sends in base64. */
export const logitsOf = ({ logits }: Going): Float32Array => (typeof logits === "string" ? new Float32Array(bytesOfBase64(logits).buffer) : logits);

/** The probability of each token of the vocabulary: softmax(logits / temperature). At temperature 0, the most probable token has probability 1. */
export function probabilities(logits: Float32Array, temperature = 1): Float64Array {
  const [likeliest] = indicesOfLargest(logits, 1);
  if (temperature === 0) return Float64Array.from(logits, (_, id) => Number(id === likeliest));
  const exponentials = Float64Array.from(logits, (logit) => Math.exp((logit - logits[likeliest]) / temperature));
  const sum = exponentials.reduce((total, one) => total + one, 0);
  return exponentials.map((one) => one / sum);
}

/** Keep the most probable tokens until the sum of their probabilities is at least `least`, and divide them by this sum; all other probabilities become 0. */
export function nucleusOf(probabilities: Float64Array, least: number): Float64Array {
  if (least >= 1) return probabilities;
  const nucleus = new Float64Array(probabilities.length);
  let sum = 0;
  for (const id of Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a])) {
    if (sum >= least) break;
    nucleus[id] = probabilities[id];
    sum += probabilities[id];
  }
  return nucleus.map((probability) => probability / sum);
}

/** The ids and probabilities of the `count` most probable next tokens, the most probable first. */
export function likelyTokens(logits: Float32Array, count: number): [number, number][] {
  const all = probabilities(logits);
  return indicesOfLargest(all, count).map((id) => [id, all[id]]);
}

/** Sample a token with these probabilities and return its id; `chance` is a uniform random number from 0 to below 1. */
export function sampleToken(probabilities: Float64Array, chance: number): number {
  let remaining = chance;
  for (const [id, probability] of probabilities.entries()) {
    remaining -= probability;
    if (remaining < 0) return id;
  }
  return indicesOfLargest(probabilities, 1)[0]; // after rounding, the probabilities may sum to a little less than 1
}
