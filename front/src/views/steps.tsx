// Steps: the query's attention by hand, stage by stage, with the numbers that the model's kernel worked with

import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { stages, vectorOf, type Stages } from "../attention";
import type { Decoded } from "../blocks";
import { shades, shownHue, textColour } from "../colours";
import { numberText } from "../numbers";
import { changes, decoded, head, headName, key, keyTokens, layer, query, queryTokens, wholeWords } from "../state";
import { words } from "../words";
import { Panel } from "./panel";

const LISTED = 10; // the keys with a row of their own; the others are one row together
const STAGE_MILLISECONDS = 2500;
const NAMES = ["stepProduct", "stepScale", "stepMask", "stepExponential", "stepSum", "stepWeight", "stepContext"] as const;

const stage = signal(NAMES.length - 1);
const playing = signal(false);
const chosenKey = signal<number | null>(null); // the key whose dot product is shown

interface Shown {
  of: Decoded;
  which: number;
  at: number; // the query's position
  numbers: Stages;
}

const shown = computed<Shown | null>(() => {
  const of = decoded.value.get(layer.value);
  if (!of?.query || head.value === null || query.value === null) return null;
  const numbers = stages(of, head.value, query.value, queryTokens.value.length, keyTokens.value.length, changes.value);
  return { of, which: head.value, at: query.value, numbers };
});

export function StepByStep() {
  const say = words();
  useEffect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => {
      if (stage.value < lastStage()) stage.value += 1;
      else playing.value = false;
    }, STAGE_MILLISECONDS);
    return () => clearInterval(timer);
  }, [playing.value]);
  const now = shown.value;
  if (!now) {
    const reason = query.value === null && head.value !== null ? say.stepsToken : say.stepsNone;
    return <Panel view="steps" title={say.steps}><p class="caption">{reason}</p></Panel>;
  }
  const at = Math.min(stage.value, lastStage());
  const go = (to: number) => ([stage.value, playing.value] = [Math.max(0, Math.min(lastStage(), to)), false]);
  const play = () => {
    if (!playing.value && at === lastStage()) stage.value = 0;
    playing.value = !playing.value;
  };
  return (
    <Panel
      view="steps"
      title={`${say.steps} · ${headName()} · ${queryTokens.value[now.at].text}`}
      tools={
        <>
          <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>‹ {say.back}</button>
          <button type="button" aria-pressed={playing.value} onClick={play}>{playing.value ? say.pause : say.play}</button>
          <button type="button" disabled={at === lastStage()} onClick={() => go(at + 1)}>{say.next} ›</button>
        </>
      }
    >
      <ol class="stages">
        {NAMES.slice(0, lastStage() + 1).map((name, i) => (
          <li key={name}>
            <button type="button" aria-current={i === at ? "step" : undefined} class={i <= at ? "done" : ""} onClick={() => go(i)}>{say[name]}</button>
          </li>
        ))}
      </ol>
      <p class="say" role="status">{sentenceOf(now, at)}</p>
      <div class="worked">
        <div class="scroll" tabIndex={0}><StageTable now={now} at={at} /></div>
        {at === 0 && <DotProduct now={now} />}
        {at === 6 && <Context now={now} />}
      </div>
      {!now.of.value && <p class="caption">{say.sayNoValues}</p>}
      {wholeWords.value && <p class="caption">{say.joinTitle}</p>}
    </Panel>
  );
}

const lastStage = () => NAMES.length - (shown.value?.of.value ? 1 : 2);
const keyOf = (now: Shown) => chosenKey.value !== null && chosenKey.value < keyTokens.value.length ? chosenKey.value : order(now)[0];

/** The keys from the largest weight to the smallest. */
function order({ numbers }: Shown): number[] {
  return Array.from(numbers.weights.keys()).sort((a, b) => numbers.weights[b] - numbers.weights[a] || numbers.masked[b] - numbers.masked[a] || a - b);
}

function sentenceOf({ of, numbers, at: position, which }: Shown, at: number): string {
  const say = words();
  const [from, to] = [queryTokens.value[position].text, keyTokens.value[keyOf(shown.value!)].text];
  const temperature = (of.temperature ?? 1) * changes.value.temperature;
  const texts = [
    () => say.sayProduct(from, to, of.query!.width),
    () =>
      say.sayScale(numberText(of.scale ?? 1)) +
      (of.softcap ? say.saySoftcap(numberText(of.softcap)) : "") +
      (numbers.bias ? say.sayBias : "") +
      (temperature !== 1 ? say.sayTemperature(numberText(temperature)) : ""),
    () => say.sayMask(numbers.masked.filter((score) => score === -Infinity).length),
    () => say.sayExponential(numberText(numbers.highest)),
    () => say.saySum(numberText(numbers.sum)) + (numbers.sink === null ? "" : say.saySink(numberText(numbers.sink))),
    () => say.sayWeight,
    () => say.sayContext(vectorOf(of, "value", which, 0).length),
  ];
  return texts[at]();
}

interface Column {
  name: string;
  from: number; // the stage that it appears in
  of: (key: number) => number;
  title: (key: number) => string; // which sum it came from
}

function columnsOf({ of, numbers }: Shown): Column[] {
  const say = words();
  const text = numberText;
  const n = numbers;
  const scaled = of.softcap
    ? (k: number) => `${text(of.softcap!)} · tanh(${text(n.products[k])} · ${text(of.scale ?? 1)} / ${text(of.softcap!)})`
    : (k: number) => `${text(n.products[k])} · ${text(of.scale ?? 1)}`;
  const temperature = (of.temperature ?? 1) * changes.value.temperature;
  const columns: Column[] = [
    { name: say.columnProduct, from: 0, of: (k) => n.products[k], title: () => `${say.query} · ${say.key}` },
    { name: say.columnScaled, from: 1, of: (k) => n.scaled[k], title: scaled },
  ];
  if (n.bias) columns.push({ name: say.columnBias, from: 1, of: (k) => n.bias![k], title: () => say.columnBias });
  if (n.bias || temperature !== 1)
    columns.push({
      name: say.columnScore,
      from: 1,
      of: (k) => n.scores[k],
      title: (k) => `(${text(n.scaled[k])}${n.bias ? ` + ${text(n.bias[k])}` : ""}) / ${text(temperature)}`,
    });
  return [
    ...columns,
    { name: say.columnMasked, from: 2, of: (k) => n.masked[k], title: (k) => (n.masked[k] === -Infinity ? say.masked : text(n.scores[k])) },
    { name: say.columnExponential, from: 3, of: (k) => n.exponentials[k], title: (k) => `exp(${text(n.masked[k])} − ${text(n.highest)})` },
    { name: say.columnWeight, from: 5, of: (k) => n.weights[k], title: (k) => `${text(n.exponentials[k])} / ${text(n.sum)}` },
  ];
}

/** The stages of the strongest keys, in the order of the text; the other keys are summed up in one row. */
function StageTable({ now, at }: { now: Shown; at: number }) {
  const say = words();
  const columns = columnsOf(now);
  const sorted = order(now);
  const strongest = sorted.slice(0, LISTED);
  if (chosenKey.value !== null && sorted.includes(chosenKey.value) && !strongest.includes(chosenKey.value)) strongest[LISTED - 1] = chosenKey.value;
  const listed = strongest.sort((a, b) => a - b);
  const others = sorted.filter((k) => !listed.includes(k));
  const colours = shades(shownHue());
  const sum = (keys: number[], of: (key: number) => number) => keys.reduce((total, k) => total + of(k), 0);
  const summed = (column: Column) => column.from >= 3;
  const cell = (column: Column, text: string, title: string, i: number) => (
    <td key={i} class={column.from > at ? "later" : column.from === at ? "now" : ""} title={title}>{column.from > at ? "" : text}</td>
  );
  return (
    <table class="steps">
      <thead>
        <tr>
          <th scope="col">{say.key}</th>
          {columns.map((column) => <th scope="col" key={column.name} class={column.from > at ? "later" : ""}>{column.name}</th>)}
        </tr>
      </thead>
      <tbody>
        {listed.map((k) => {
          const shade = at >= 5 ? now.numbers.weights[k] : 0;
          return (
            <tr key={k} aria-selected={k === keyOf(now)} onClick={() => (chosenKey.value = k)} onPointerEnter={() => (key.value = k)}>
              <th scope="row" dir="auto">
                <button type="button" style={shade > 0.004 ? { background: colours[Math.round(255 * shade)], color: textColour(shade) } : undefined}>
                  {keyTokens.value[k].text}
                </button>
              </th>
              {columns.map((column, i) => cell(column, numberText(column.of(k)), column.title(k), i))}
            </tr>
          );
        })}
        {others.length > 0 && (
          <tr class="others">
            <th scope="row">{say.others(others.length)}</th>
            {columns.map((column, i) => cell(column, summed(column) ? numberText(sum(others, column.of)) : "", "", i))}
          </tr>
        )}
        {now.numbers.sink !== null && at >= 4 && (
          <tr class="others">
            <th scope="row">sink</th>
            {columns.map((column, i) => cell(column, column.from === 3 ? numberText(now.numbers.sink!) : "", "", i))}
          </tr>
        )}
      </tbody>
      {at >= 4 && (
        <tfoot>
          <tr>
            <th scope="row">{say.total}</th>
            {columns.map((column, i) => {
              const total = column.from === 3 ? now.numbers.sum : sum(sorted, column.of);
              return cell(column, summed(column) ? numberText(total) : "", "", i);
            })}
          </tr>
        </tfoot>
      )}
    </table>
  );
}

/** The dot product of the query and the chosen key, dimension by dimension. */
function DotProduct({ now }: { now: Shown }) {
  const say = words();
  const to = keyOf(now);
  const [q, k] = [vectorOf(now.of, "query", now.which, now.at), vectorOf(now.of, "key", now.which, to)];
  return (
    <Dimensions
      title={`${queryTokens.value[now.at].text} · ${keyTokens.value[to].text}`}
      columns={[[say.query, q], [say.key, k], [say.product, q.map((number, i) => number * k[i])]]}
    />
  );
}

/** The context: each value times its weight, summed; shown for the chosen key and for all keys. */
function Context({ now }: { now: Shown }) {
  const say = words();
  const to = keyOf(now);
  const value = vectorOf(now.of, "value", now.which, to);
  const weight = now.numbers.weights[to];
  const context = new Float64Array(value.length);
  now.numbers.weights.forEach((own, k) => vectorOf(now.of, "value", now.which, k).forEach((number, i) => (context[i] += own * number)));
  const name = keyTokens.value[to].text;
  return (
    <Dimensions
      title={`${numberText(weight)} · ${name}`}
      columns={[[`${say.value} “${name}”`, value], [`${say.weight} · ${say.value}`, value.map((number) => weight * number)], [say.context, context]]}
    />
  );
}

/** Vectors side by side, a row for each dimension, with bars; the last line has the sum of the last column. */
function Dimensions({ title, columns }: { title: string; columns: [string, Float64Array][] }) {
  const say = words();
  const most = columns.map(([, numbers]) => numbers.reduce((best, number) => Math.max(best, Math.abs(number)), 1e-12));
  const width = columns[0][1].length;
  const last = columns[columns.length - 1][1];
  const isProduct = columns[2][0] === say.product;
  return (
    <div class="scroll" tabIndex={0}>
      <table class="dimensions">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{say.dimension}</th>
            {columns.map(([name]) => <th scope="col" key={name}>{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: width }, (_, i) => (
            <tr key={i}>
              <th scope="row">{i}</th>
              {columns.map(([name, numbers], c) => (
                <td key={name} class={numbers[i] < 0 ? "negative" : ""} style={{ "--share": `${(100 * Math.abs(numbers[i])) / most[c]}%` }}>
                  {numberText(numbers[i])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {isProduct && (
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
