// The vectors of the steps, number by number: projections, the dot product, the weighted values, the output

import { vectorOf, type Stages } from "../attention";
import type { Decoded } from "../blocks";
import { contextOf } from "../head-output";
import { numberText } from "../numbers";
import { keyTokens, queryTokens } from "../state";
import { words } from "../words";
import { outputOf, projected } from "../worked";

/** The head and the query whose steps are shown. */
export interface Shown {
  of: Decoded;
  which: number; // the head
  at: number; // the query's position
  numbers: Stages;
}

export interface Column {
  name: string;
  numbers: Float64Array;
  text?: (place: number) => string; // which sum a number came from
}

const FEW = 8; // dot products of more numbers are not written out

/** The dot product of a query and a key as text. */
export function productText(of: Decoded, which: number, query: number, key: number): string {
  const [q, k] = [vectorOf(of, "query", which, query), vectorOf(of, "key", which, key)];
  if (q.length > FEW) return `${words().query} · ${words().key}`;
  return Array.from(q, (number, i) => `${inSum(number)} · ${inSum(k[i])}`).join(" + ");
}

export const inSum = (number: number) => (number < 0 ? `(${numberText(number)})` : numberText(number));

/** The query of the chosen token beside key and value of the chosen key, each with the sum that it came from. */
export function Projection({ now, to }: { now: Shown; to: number }) {
  const say = words();
  const column = (name: string, which: "query" | "key" | "value", token: number): Column => {
    const sums = projected(now.of, which, now.which, token);
    return { name, numbers: Float64Array.from(sums, (sum) => sum.number), text: (i) => sums[i].text };
  };
  const [from, key] = [queryTokens.value[now.at].text, keyTokens.value[to].text];
  return (
    <Dimensions
      title={`${from} · ${key}`}
      columns={[column(`${say.query} “${from}”`, "query", now.at), column(`${say.key} “${key}”`, "key", to), column(`${say.value} “${key}”`, "value", to)]}
    />
  );
}

/** The dot product of the query and the chosen key, dimension by dimension. */
export function DotProduct({ now, to }: { now: Shown; to: number }) {
  const say = words();
  const [q, k] = [vectorOf(now.of, "query", now.which, now.at), vectorOf(now.of, "key", now.which, to)];
  const product = { name: say.product, numbers: q.map((number, i) => number * k[i]), text: (i: number) => `${inSum(q[i])} · ${inSum(k[i])}` };
  return (
    <Dimensions
      title={`${queryTokens.value[now.at].text} · ${keyTokens.value[to].text}`}
      columns={[{ name: say.query, numbers: q }, { name: say.key, numbers: k }, product]}
      summed
    />
  );
}

/** The context: each value times its weight, summed; shown for the chosen key and for all keys. */
export function Context({ now, to }: { now: Shown; to: number }) {
  const say = words();
  const value = vectorOf(now.of, "value", now.which, to);
  const weight = now.numbers.weights[to];
  const name = keyTokens.value[to].text;
  return (
    <Dimensions
      title={`${say.weight} ${numberText(weight)} · ${say.value} “${name}”`}
      columns={[
        { name: `${say.value} “${name}”`, numbers: value },
        { name: `${say.weight} · ${say.value}`, numbers: value.map((number) => weight * number), text: (i) => `${numberText(weight)} · ${inSum(value[i])}` },
        { name: say.context, numbers: contextOf(now.of, now.which, now.at), text: (i) => contextText(now, i) },
      ]}
    />
  );
}

/** A number of the context as the sum over the keys of weight times value. */
function contextText({ of, which, numbers }: Shown, place: number): string {
  const largest = Array.from(numbers.weights.keys()).sort((a, b) => numbers.weights[b] - numbers.weights[a]);
  const shown = (largest.length > FEW ? largest.slice(0, 3) : [...largest].sort((a, b) => a - b)).map(
    (k) => `${numberText(numbers.weights[k])} · ${inSum(vectorOf(of, "value", which, k)[place])}`,
  );
  return [...shown, ...(largest.length > FEW ? [words().moreProducts(largest.length - 3)] : [])].join(" + ");
}

/** The output of the query: the contexts of all heads times W_o. */
export function Output({ now }: { now: Shown }) {
  const say = words();
  const sums = outputOf(now.of, now.at);
  return (
    <Dimensions
      title={queryTokens.value[now.at].text}
      columns={[{ name: say.output, numbers: Float64Array.from(sums, (sum) => sum.number), text: (i) => sums[i].text }]}
    />
  );
}

/** Vectors side by side, a row for each dimension, with bars; if `summed`, the last line has the sum of the last column. */
export function Dimensions({ title, columns, summed = false }: { title: string; columns: Column[]; summed?: boolean }) {
  const say = words();
  const most = columns.map(({ numbers }) => numbers.reduce((best, number) => Math.max(best, Math.abs(number)), 1e-12));
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
                  <td key={c} title={text?.(i)} class={numbers[i] < 0 ? "negative" : ""} style={{ "--share": `${(100 * Math.abs(numbers[i])) / most[c]}%` }}>
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
