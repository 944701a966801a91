// What the logits of a causal model say of the next token

import type { Going } from "../data";

/** The logits of the next token; a server sends them in base64. */
export function logitsOf({ logits }: Going): Float32Array {
  if (typeof logits !== "string") return logits;
  return new Float32Array(Uint8Array.from(atob(logits), (letter) => letter.charCodeAt(0)).buffer);
}

/** Logits [tokens vocabulary] as an array for each token. */
export function rowsOf(output: Float32Array, tokens: number): Float32Array[] {
  const size = output.length / tokens;
  return Array.from({ length: tokens }, (_, i) => output.subarray(i * size, (i + 1) * size));
}

/** The probability of each token of the vocabulary: the softmax of logits that are divided by a temperature; at 0, only the likeliest has any. */
export function probabilities(logits: Float32Array, temperature = 1): Float64Array {
  const [likeliest] = mostProbable(logits, 1);
  if (temperature === 0) return Float64Array.from(logits, (_, id) => Number(id === likeliest));
  const shares = Float64Array.from(logits, (one) => Math.exp((one - logits[likeliest]) / temperature));
  const sum = shares.reduce((total, one) => total + one, 0);
  return shares.map((one) => one / sum);
}

/** The probabilities of the likeliest tokens that together have a share of at least `least`; those of all others are 0. */
export function nucleusOf(shares: Float64Array, least: number): Float64Array {
  if (least >= 1) return shares;
  const inside = new Float64Array(shares.length);
  let sum = 0;
  for (const id of Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a])) {
    if (sum >= least) break;
    inside[id] = shares[id];
    sum += shares[id];
  }
  return inside.map((share) => share / sum);
}

/** The ids of the `count` largest numbers, the largest first. */
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

/** The most probable next tokens: their ids and probabilities. */
export function likely(logits: Float32Array, count: number): [number, number][] {
  const shares = probabilities(logits);
  return mostProbable(shares, count).map((id) => [id, shares[id]]);
}

/** A token drawn from its probabilities; `chance` is a random number from 0 to below 1. */
export function drawn(shares: Float64Array, chance: number): number {
  let left = chance;
  const id = shares.findIndex((share) => (left -= share) < 0);
  return id < 0 ? mostProbable(shares, 1)[0] : id; // rounding may leave a rest
}
