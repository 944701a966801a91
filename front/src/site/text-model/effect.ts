// How much changes to heads alter the output of the model and the attention of all heads

import { edge, weightsOf, type Changes } from "../../trace/attention";
import { decodeLayer, type Decoded } from "../../trace/blocks";
import type { Change, Effect, Trace } from "../../trace/data";
import { numbered } from "../../trace/items";
import type { Changed, Model } from "./graph";

const LISTED = 12; // `effectOf` returns at most this many heads: the heads whose attention changes most

interface HeadPlace {
  layer: number;
  head: number;
}

const headNamed = (name: string): HeadPlace => {
  const [, layer, head] = name.match(/L(\d+)H(\d+)$/)!.map(Number);
  return { layer, head };
};
const headsOf = (change: Change): HeadPlace[] => (change.kind === "cut" ? change.heads : [change.head]).map(headNamed);

/** Return the inputs of the ONNX graph that make these changes to heads (see `Changed`), for a text of so many tokens. */
export function changedBy(changes: Change[], model: Model, template: Trace, nTokens: number): Changed {
  const changed = model.unchanged(nTokens);
  const layers = layersOf(template);
  for (const change of changes) {
    if (change.kind === "silence") changed.cut.fill(1);
    if (change.kind === "cut") {
      const queries = change.query === null ? Array(nTokens).keys() : [change.query];
      for (const query of queries) changed.cut[query * nTokens + change.key] = 1;
    }
    for (const { layer, head } of headsOf(change)) {
      const headIndex = layers.findIndex((one) => one.layer === layer) * layers[0].heads + head; // among the heads of all layers
      if (change.kind === "sharpen") changed.temperatures[headIndex] *= change.temperature;
      else changed.heads[headIndex] = 1;
    }
  }
  return changed;
}

/** Compare two runs of the model, without and with `changes` to heads. The caller adds the most probable next tokens. */
export async function effectOf(changes: Change[], before: RunResult, after: RunResult): Promise<Effect> {
  const tokens = before.trace[Object.values(before.trace.kinds)[0].queries];
  const names = numbered(tokens.map(({ text }) => text));
  const heads: Effect["heads"] = [];
  for (const [i, layer] of layersOf(before.trace).entries()) {
    const layerBefore = await decodeLayer(before.trace, layer);
    const layerAfter = await decodeLayer(after.trace, layersOf(after.trace)[i]);
    for (let head = 0; head < layer.heads; head++) {
      const { query, moved } = mostChangedQuery(layerBefore, layerAfter, head, changesOfHead(changes, { layer: layer.layer, head }));
      if (moved > 0) heads.push({ head: `L${layer.layer}H${head}`, token: names[query], moved });
    }
  }
  heads.sort((a, b) => b.moved - a.moved);
  const output = before.output.reduce((largest, number, i) => Math.max(largest, Math.abs(number - after.output[i])), 0);
  return { output, heads: heads.slice(0, LISTED), before: [], after: [] };
}

/** The result of a run of the model: a trace, and the output of the model (the logits of a causal one). */
export interface RunResult {
  trace: Trace;
  output: Float32Array;
}

const layersOf = (trace: Trace) => Object.values(trace.kinds)[0].layers;

/** The changes to one head; null = one of them silences the head. */
function changesOfHead(changes: Change[], { layer, head }: HeadPlace): Changes | null {
  const cut = new Set<string>();
  let temperature = 1;
  for (const change of changes) {
    if (!headsOf(change).some((place) => place.layer === layer && place.head === head)) continue;
    if (change.kind === "silence") return null;
    if (change.kind === "cut") cut.add(edge(change.query, change.key));
    else temperature *= change.temperature;
  }
  return { temperature, cut };
}

/** The query whose weights in a head change most between two runs, and the share (0 to 1) of its attention that goes to other keys. `changes`: null = the second run silences the head. */
function mostChangedQuery(layerBefore: Decoded, layerAfter: Decoded, head: number, changes: Changes | null): { query: number; moved: number } {
  let mostChanged = { query: 0, moved: 0 };
  for (let query = 0; query < layerBefore.nQueries; query++) {
    const before = weightsOf(layerBefore, head, query);
    const after = changes ? weightsOf(layerAfter, head, query, changes) : new Float64Array(layerBefore.nKeys);
    const differences = before.map((weight, key) => weight - after[key]);
    const missing = Math.abs(differences.reduce((sum, difference) => sum + difference, 0)); // attention that a silenced head no longer gives to any key
    const moved = differences.reduce((sum, difference) => sum + Math.abs(difference), missing) / 2;
    if (moved > mostChanged.moved) mostChanged = { query, moved };
  }
  return mostChanged;
}
