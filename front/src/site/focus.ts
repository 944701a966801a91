// The query that a head shows first: the one of its most salient weight, as Python's tracing/focus.py chooses it
//
//   salience = (weight − mean weight of the key over the head's queries) · |query − key|

import { UNCHANGED, weightsOf } from "../attention";
import { decode } from "../blocks";
import type { Trace } from "../data";

/** The position of the query with the most salient weight of a head, among words; without one, the first word. */
export async function salientQuery(trace: Trace, layerNumber: number, head: number): Promise<number> {
  const { layers } = Object.values(trace.kinds)[0];
  const layer = await decode(trace, layers.find((one) => one.layer === layerNumber)!);
  const count = trace.source.length;
  const words = trace.source.flatMap((token, position) => (token.word ? [position] : []));
  const rows = Array.from({ length: count }, (_, query) => weightsOf(layer, head, query, count, count, trace.units, UNCHANGED));
  let best = { query: words[0], salience: -Infinity };
  for (const key of words) {
    const mean = rows.reduce((sum, row) => sum + row[key], 0) / count;
    for (const query of words) {
      const salience = (rows[query][key] - mean) * Math.abs(query - key);
      if (query !== key && rows[query][key] > 0 && salience > best.salience) best = { query, salience };
    }
  }
  return best.query;
}
