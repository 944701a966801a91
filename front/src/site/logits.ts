// The next token of a causal model: probabilities from logits, the most probable tokens, and sampling

import type { Going } from "../data";

/** Return the logits of the next token [vocabulary]. If a server sent them, they are decoded from base64. */
export function logitsOf({ logits }: Going): Float32Array {
  if (typeof logits !== "string") return logits;
  return new Float32Array(Uint8Array.from(atob(logits), (letter) => letter.charCodeAt(0)).buffer);
}

/** Return logits [tokens vocabulary] as a list of one array [vocabulary] for each token. */
export function rowsOf(output: Float32Array, tokens: number): Float32Array[] {
  const size = output.length / tokens;
  return Array.from({ length: tokens }, (_, i) => output.subarray(i * size, (i + 1) * size));
}

/**
 * The probability of each token of the vocabulary: softmax(logits / temperature). At temperature 0, the most probable token
 * has probability 1.
 */
export function probabilities(logits: Float32Array, temperature = 1): Float64Array {
  const [likeliest] = mostProbable(logits, 1);
  if (temperature === 0) return Float64Array.from(logits, (_, id) => Number(id === likeliest));
  const exponentials = Float64Array.from(logits, (logit) => Math.exp((logit - logits[likeliest]) / temperature));
  const sum = exponentials.reduce((total, one) => total + one, 0);
  return exponentials.map((one) => one / sum);
}

/**
 * The probabilities for nucleus sampling: only the most probable tokens, until their sum reaches `least`, keep theirs,
 * divided by this sum; others get 0.
 */
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

/** The ids (indices) of the `count` largest numbers, the largest first. */
export function mostProbable(numbers: Float32Array | Float64Array, count: number): number[] {
  const best: number[] = [];
  for (let id = 0; id < numbers.length; id++) {
    if (best.length === count && numbers[id] <= numbers[best[count - 1]]) continue;
    let place = best.length;
    while (place > 0 && numbers[best[place - 1]] < numbers[id]) place -= 1;
    best.splice(place, 0, id);
    best.length = Math.min(best.length, count);
  }
  return best;
}

/** The ids and probabilities of the `count` most probable next tokens, the most probable first. */
export function likelyTokens(logits: Float32Array, count: number): [number, number][] {
  const found = probabilities(logits);
  return mostProbable(found, count).map((id) => [id, found[id]]);
}

/** Sample a token with these probabilities and return its id; `chance` is a uniform random number from 0 to below 1. */
export function drawToken(probabilities: Float64Array, chance: number): number {
  let left = chance;
  const id = probabilities.findIndex((probability) => (left -= probability) < 0);
  return id < 0 ? mostProbable(probabilities, 1)[0] : id; // after rounding, the probabilities may sum to a little less than 1
}
