// Tables of the vectors in the steps of one query's attention: query, key and value, dot product, weighted values, output

import { MOST_TERMS, numberText, sumText } from "../../parts/numbers";
import { keyLabels, queryLabels } from "../../state/state";
import { vectorOf } from "../../trace/attention";
import type { Decoded } from "../../trace/blocks";
import { words } from "../../words";
import { contextOf } from "./head-vectors";
import type { ShownStages } from "./stages";
import { outputOf, projected } from "./worked-example";

export interface VectorColumn {
  name: string;
  numbers: Float64Array;
  text?: (dimension: number) => string; // how the number of a dimension was computed, as a tooltip
}

/** The dot product of a query and a key, written out as a sum of products; for long vectors only "query · key". */
export function productText(layer: Decoded, head: number, query: number, key: number): string {
  const [q, k] = [vectorOf(layer, "query", head, query), vectorOf(layer, "key", head, key)];
  if (q.length > MOST_TERMS) return `${words().query} · ${words().key}`;
  return sumText(q.length, (i) => `${inSum(q[i])} · ${inSum(k[i])}`);
}

/** A number as a term of a sum: a negative number is in parentheses. */
export const inSum = (number: number) => (number < 0 ? `(${numberText(number)})` : numberText(number));

interface VectorProps {
  shown: ShownStages;
  keyPosition: number; // the position of the token whose key or value is shown
}

/** A table of the query, and of the key and the value of one token; the tooltip of each number is the sum that gives it. */
export function Projection({ shown, keyPosition }: VectorProps) {
  const say = words();
  const [from, to] = [queryLabels.value[shown.query], keyLabels.value[keyPosition]];
  const column = (vector: "query" | "key" | "value", position: number, label: string): VectorColumn => {
    const sums = projected(shown.layer, vector, shown.head, position);
    return { name: `${say[vector]} “${label}”`, numbers: Float64Array.from(sums, (sum) => sum.number), text: (i) => sums[i].text };
  };
  const columns = [column("query", shown.query, from), column("key", keyPosition, to), column("value", keyPosition, to)];
  return <Dimensions title={`${from} · ${to}`} columns={columns} />;
}

/** A table of the dot product of the query and one key: both vectors, and their products, dimension by dimension. */
export function DotProduct({ shown, keyPosition }: VectorProps) {
  const say = words();
  const [q, k] = [vectorOf(shown.layer, "query", shown.head, shown.query), vectorOf(shown.layer, "key", shown.head, keyPosition)];
  const product = { name: say.product, numbers: q.map((number, i) => number * k[i]), text: (i: number) => `${inSum(q[i])} · ${inSum(k[i])}` };
  return (
    <Dimensions
      title={`${queryLabels.value[shown.query]} · ${keyLabels.value[keyPosition]}`}
      columns={[{ name: say.query, numbers: q }, { name: say.key, numbers: k }, product]}
      summed
    />
  );
}

/** A table of one value, the value times its weight, and the context, which is the sum of these products over all keys. */
export function Context({ shown, keyPosition }: VectorProps) {
  const say = words();
  const value = vectorOf(shown.layer, "value", shown.head, keyPosition);
  const weight = shown.stages.weights[keyPosition];
  const name = keyLabels.value[keyPosition];
  return (
    <Dimensions
      title={`${say.weight} ${numberText(weight)} · ${say.value} “${name}”`}
      columns={[
        { name: `${say.value} “${name}”`, numbers: value },
        { name: `${say.weight} · ${say.value}`, numbers: value.map((number) => weight * number), text: (i) => `${numberText(weight)} · ${inSum(value[i])}` },
        { name: say.context, numbers: contextOf(shown.layer, shown.head, shown.query), text: (i) => contextText(shown, i) },
      ]}
    />
  );
}

/** One number of the context, as the sum over the keys of weight · value; a long sum shows only the products with the largest weights. */
function contextText({ layer, head, stages: { weights } }: ShownStages, dimension: number): string {
  const keys = [...weights.keys()];
  if (keys.length > MOST_TERMS) keys.sort((a, b) => weights[b] - weights[a]);
  const product = (key: number) => `${numberText(weights[key])} · ${inSum(vectorOf(layer, "value", head, key)[dimension])}`;
  return sumText(keys.length, (i) => product(keys[i]));
}

/** A table of the output of the query: the concatenated contexts of all heads, times W_o. */
export function Output({ shown }: { shown: ShownStages }) {
  const say = words();
  const sums = outputOf(shown.layer, shown.query);
  return (
    <Dimensions
      title={queryLabels.value[shown.query]}
      columns={[{ name: say.stepOutput, numbers: Float64Array.from(sums, (sum) => sum.number), text: (i) => sums[i].text }]}
    />
  );
}

/** A table of vectors: each is a column, and its numbers also have bars. `summed`: add a last row with the sum of the last column. */
export function Dimensions({ title, columns, summed = false }: { title: string; columns: VectorColumn[]; summed?: boolean }) {
  const say = words();
  const largest = columns.map(({ numbers }) => numbers.reduce((best, number) => Math.max(best, Math.abs(number)), 1e-12)); // never 0, since numbers are divided by it
  const height = Math.max(...columns.map(({ numbers }) => numbers.length));
  const last = columns[columns.length - 1].numbers;
  return (
    <div class="scroll" tabIndex={0}>
      <table class="dimensions">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{say.dimension}</th>
            {columns.map(({ name }, c) => <th scope="col" key={c}>{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: height }, (_, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {columns.map(({ numbers, text }, c) =>
                i < numbers.length ? (
                  <td key={c} title={text?.(i)} class={numbers[i] < 0 ? "negative" : ""} style={{ "--share": `${(100 * Math.abs(numbers[i])) / largest[c]}%` }}>
                    {numberText(numbers[i])}
                  </td>
                ) : (
                  <td key={c} />
                ),
              )}
            </tr>
          ))}
        </tbody>
        {summed && (
          <tfoot>
            <tr>
              <th scope="row">{say.total}</th>
              <td /><td />
              <td>{numberText(last.reduce((total, number) => total + number, 0))}</td>
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}
