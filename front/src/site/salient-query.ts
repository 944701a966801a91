// The query that is shown first for a head: the query of the weight with the largest salience, as in Python's tracing/focus.py
//
//   salience = (weight − mean weight of the key over the head's queries) · log(1 + (query − key)²)

import { weightsOf } from "../trace/attention";
import { decodeLayer } from "../trace/blocks";
import type { Token, Trace } from "../trace/data";

/** The position of the word that has the most salient weight (large, and on a word far away). If all weights are 0, the position of the first word. */
export async function salientQuery(trace: Trace, { kind: name, layer: number, head }: Omit<Trace["focus"], "query">): Promise<number> {
  const kind = trace.kinds[name];
  const layer = await decodeLayer(trace, kind.layers.find((one) => one.layer === number)!);
  const [queries, keys] = [trace[kind.queries], trace[kind.keys]];
  const wordTokens = [...queries.keys()].filter((position) => queries[position].word);
  const wholeWords = wordTokens.filter((position) => !isFragment(queries[position]));
  const words = wholeWords.length ? wholeWords : wordTokens;
  const rows = queries.map((_, query) => weightsOf(layer, head, query));
  let best = { query: words[0], salience: -Infinity };
  for (const [key, token] of keys.entries()) {
    if (!token.word) continue;
    const mean = rows.reduce((sum, row) => sum + row[key], 0) / queries.length;
    for (const query of words) {
      const salience = (rows[query][key] - mean) * Math.log1p((query - key) ** 2);
      const isOtherToken = kind.queries !== kind.keys || query !== key;
      if (isOtherToken && rows[query][key] > 0 && salience > best.salience) best = { query, salience };
    }
  }
  return best.query;
}

/** Whether a token is no whole word: a byte such as ‹EB›, or an ASCII letter joined to the token before, such as the "s" of "he's". */
const isFragment = ({ text, joined }: Token) => text.startsWith("‹") || (joined && /^[\x00-\x7f]$/.test(text));
