// Softmax attention of one query, stage by stage, computed from the model's own queries and keys:
//
//   product = query · key
//   score   = softcap · tanh(scale · product / softcap) + bias
//   weight  = exp(score / temperature) / sum over the keys that the query may attend to (and the head's sink)

import type { Decoded } from "./blocks";

/** What the reader changes in a head: a factor of its temperature, and the edges that are cut (their weights become 0). An edge is "query,key", or "*,key" for all queries. */
export interface Changes {
  temperature: number;
  cut: ReadonlySet<string>;
}

export const UNCHANGED: Changes = { temperature: 1, cut: new Set() };
export const edge = (query: number | null, key: number) => `${query ?? "*"},${key}`;
export const isCutFrom = (cut: Changes["cut"], query: number, key: number): boolean => cut.has(edge(query, key)) || cut.has(edge(null, key));

/** The numbers of each stage of one query's attention; an array has one number for each key. */
export interface Stages {
  products: Float64Array;
  scaled: Float64Array; // the dot products query · key, times the scale and limited by the softcap
  bias: Float64Array | null;
  scores: Float64Array; // (scaled + bias) / temperature
  masked: Float64Array; // the scores, with -Infinity for keys that the query may not attend to
  highest: number; // the maximum of `masked` and the sink's score; it is subtracted before exp, so that exp cannot overflow
  exponentials: Float64Array;
  sink: number | null; // exp(score of the head's sink − highest); a sink is a learned score that belongs to no key; null = none
  sum: number; // the sum of `exponentials` and `sink`; a weight is an exponential divided by this sum
  weights: Float64Array;
}

export function mayAttend(layer: Decoded, head: number, query: number, key: number): boolean {
  if (!layer.maskBits) return true;
  const bit = ((layer.masks > 1 ? head : 0) * layer.nQueries + query) * layer.nKeys + key;
  return Boolean((layer.maskBits[bit >> 3] >> (7 - (bit & 7))) & 1);
}

export function stagesOf(layer: Decoded, head: number, query: number, changes: Changes): Stages {
  const { nKeys } = layer;
  const products = dotProducts(layer, head, query);
  const [scaled, scores, masked, exponentials, weights] = Array.from({ length: 5 }, () => new Float64Array(nKeys));
  const { scale = 1, softcap, sinks } = layer;
  const biases = layer.bias?.numbers[head % layer.bias.numbers.length];
  const indexOfKey0 = layer.bias?.full ? query * nKeys : layer.nQueries - 1 - query; // the index, in `biases`, of the bias of key 0 (see `Layer.bias`)
  const bias = biases ? Float64Array.from({ length: nKeys }, (_, key) => biases[indexOfKey0 + key] ?? -Infinity) : null;
  const temperature = (layer.temperature ?? 1) * changes.temperature;
  const hasCuts = changes.cut.size > 0;
  const sinkScore = sinks ? sinks[head] / temperature : null;
  let highest = sinkScore ?? -Infinity;
  for (let key = 0; key < nKeys; key++) {
    scaled[key] = softcap ? softcap * Math.tanh((products[key] * scale) / softcap) : products[key] * scale;
    scores[key] = (scaled[key] + (bias ? bias[key] : 0)) / temperature;
    const isVisible = mayAttend(layer, head, query, key) && !(hasCuts && isCutFrom(changes.cut, query, key));
    masked[key] = isVisible ? scores[key] : -Infinity;
    if (masked[key] > highest) highest = masked[key];
  }
  const sink = sinkScore === null ? null : Math.exp(sinkScore - highest);
  let sum = sink ?? 0;
  for (let key = 0; key < nKeys; key++) {
    exponentials[key] = highest === -Infinity ? 0 : Math.exp(masked[key] - highest);
    sum += exponentials[key];
  }
  if (sum) for (let key = 0; key < nKeys; key++) weights[key] = exponentials[key] / sum;
  return { products, scaled, bias, scores, masked, highest, exponentials, sink, sum, weights };
}

function dotProducts(layer: Decoded, head: number, query: number): Float64Array {
  const q = vectorOf(layer, "query", head, query);
  const { numbers: k, heads } = layer.key!;
  const products = new Float64Array(layer.nKeys);
  const keyHead = Math.floor(head / (layer.heads / heads)); // in grouped-query attention, several heads share one key head
  for (let key = 0, at = keyHead * layer.nKeys * q.length; key < layer.nKeys; key++) {
    let product = 0;
    for (let i = 0; i < q.length; i++) product += q[i] * k[at++];
    products[key] = product;
  }
  return products;
}

/** The query, key or value of one token in one head. In grouped-query attention, several heads have the same keys and values. */
export function vectorOf(layer: Decoded, which: "query" | "key" | "value", head: number, token: number): Float64Array {
  const { numbers, heads, width } = layer[which]!;
  const storedHead = Math.floor(head / (layer.heads / heads));
  const start = (storedHead * (numbers.length / (heads * width)) + token) * width;
  return numbers.subarray(start, start + width);
}

/** The weights of one query on every key in one head. `changes` has no effect if the layer stores weights in place of queries and keys. */
export function weightsOf(layer: Decoded, head: number, query: number, changes: Changes = UNCHANGED): Float64Array {
  if (layer.query) return stagesOf(layer, head, query, changes).weights;
  const { nQueries, nKeys, weights, units } = layer;
  return Float64Array.from({ length: nKeys }, (_, key) => weights![(head * nKeys + key) * nQueries + query] / units);
}
