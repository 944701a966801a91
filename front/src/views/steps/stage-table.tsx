// The table of the stages: a row for each key, a column for each number that a stage computes

import { useEffect, useRef } from "preact/hooks";
import { shades, shownHue, textColour } from "../../parts/colours";
import { numberText } from "../../parts/numbers";
import { key, keyLabels } from "../../state/state";
import { words } from "../../words";
import { valueLength } from "./head-vectors";
import {
  chosenKey, CONTEXT, EXPONENTIAL, isCutAt, isMasked, isScaled, keyOf, MASK, OUTPUT, PRODUCT, SCALE, type ShownStages, SUM,
  temperatureOf, WEIGHT,
} from "./stages";
import { productText } from "./vectors";

const LISTED = 24; // the most keys with a row of their own, besides keys that the reader chose or cut; all other keys are summed up in one row
const EDGE = 2; // the space, in pixels, that stays visible at the right of the shown stage's column

interface StageColumn {
  name: string;
  from: number; // the index of the stage (in NAMES) at which the column is filled in; before this stage it is empty
  of: (key: number) => number;
  title: (key: number) => string; // the tooltip of the number in the row of a key: how it is computed
  summed?: boolean; // true = the rows for the other keys and for the total have the sums of this column; else they are empty
}

function columnsOf(now: ShownStages): StageColumn[] {
  const say = words();
  const { layer: attention, head: headIndex, query: position, stages: n } = now;
  const text = numberText;
  const { softcap } = attention;
  const scaled = softcap
    ? (k: number) => `${text(softcap)} · tanh(${text(n.products[k])} · ${text(attention.scale ?? 1)} / ${text(softcap)})`
    : (k: number) => `${text(n.products[k])} · ${text(attention.scale ?? 1)}`;
  const temperature = temperatureOf(now);
  const columns: StageColumn[] = [
    { name: say.columnProduct, from: PRODUCT, of: (k) => n.products[k], title: (k) => productText(attention, headIndex, position, k) },
    ...(isScaled(now) ? [{ name: say.columnScaled, from: SCALE, of: (k: number) => n.scaled[k], title: scaled }] : []),
  ];
  if (n.bias) columns.push({ name: say.columnBias, from: SCALE, of: (k) => n.bias![k], title: () => say.columnBias });
  if (n.bias || temperature !== 1)
    columns.push({
      name: say.score,
      from: SCALE,
      of: (k) => n.scores[k],
      title: (k) => `(${text(n.scaled[k])}${n.bias ? ` + ${text(n.bias[k])}` : ""}) / ${text(temperature)}`,
    });
  const masked: StageColumn = {
    name: say.masked,
    from: MASK,
    of: (k) => n.masked[k],
    title: (k) => (n.masked[k] > -Infinity ? text(n.scores[k]) : isCutAt(now, k) ? say.cutByYou : say.masked),
  };
  const added: StageColumn = {
    name: say.columnAdded,
    from: OUTPUT,
    of: (k) => n.weights[k] * valueLength(attention, headIndex, k),
    title: (k) => `${text(n.weights[k])} · ${text(valueLength(attention, headIndex, k))}`,
  };
  return [
    ...columns,
    ...(isMasked(now) ? [masked] : []),
    { name: say.stepExponential, from: EXPONENTIAL, of: (k) => n.exponentials[k], title: (k) => `exp(${text(n.masked[k])} − ${text(n.highest)})`, summed: true },
    { name: say.weight, from: WEIGHT, of: (k) => n.weights[k], title: (k) => `${text(n.exponentials[k])} / ${text(n.sum)}`, summed: true },
    ...(attention.output ? [added] : []),
  ];
}

/** A table with a row for each of the strongest keys and of the keys that the reader chose or cut, one row for all other keys, and one for the sink (a score without a key). Columns of stages after `at` are empty. */
export function StageTable({ now, at }: { now: ShownStages; at: number }) {
  const say = words();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => showStage(box.current!), [at]);
  const columns = columnsOf(now);
  const sorted = now.byWeight;
  const isListed = (k: number, place: number) => place < LISTED || k === chosenKey.value || isCutAt(now, k);
  const listed = sorted.filter(isListed).sort((a, b) => a - b);
  const others = sorted.filter((k, place) => !isListed(k, place));
  const colours = shades(shownHue());
  const sum = (keys: number[], of: (key: number) => number) => keys.reduce((total, k) => total + of(k), 0);
  const highlighted = at === CONTEXT ? WEIGHT : at; // at the stage "context", the weights are highlighted, because they multiply the values
  const cell = (column: StageColumn, text: string, title: string, i: number) => (
    <td key={i} class={column.from > at ? "later" : column.from === highlighted ? "now" : ""} title={title}>{column.from > at ? "" : text}</td>
  );
  return (
    <div class="scroll" tabIndex={0} ref={box}>
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">{say.key}</th>
            {columns.map((column) => <th scope="col" key={column.name} class={column.from > at ? "later" : ""}>{column.name}</th>)}
          </tr>
        </thead>
        <tbody>
          {listed.map((k) => {
            const shade = at >= WEIGHT ? now.stages.weights[k] : 0;
            return (
              <tr key={k} aria-selected={k === keyOf(now)} onClick={() => (chosenKey.value = k)} onPointerEnter={() => (key.value = k)}>
                <th scope="row" dir="auto">
                  <button type="button" style={shade > 0.004 ? { background: colours[Math.round(255 * shade)], color: textColour(shade) } : undefined}>
                    {keyLabels.value[k]}
                  </button>
                </th>
                {columns.map((column, i) => cell(column, numberText(column.of(k)), column.title(k), i))}
              </tr>
            );
          })}
          {others.length > 0 && (
            <tr class="others">
              <th scope="row">{say.others(others.length)}</th>
              {columns.map((column, i) => cell(column, column.summed ? numberText(sum(others, column.of)) : "", "", i))}
            </tr>
          )}
          {now.stages.sink !== null && at >= SUM && (
            <tr class="others">
              <th scope="row">sink</th>
              {columns.map((column, i) => cell(column, column.from === EXPONENTIAL ? numberText(now.stages.sink!) : "", "", i))}
            </tr>
          )}
        </tbody>
        {at >= SUM && (
          <tfoot>
            <tr>
              <th scope="row">{say.total}</th>
              {columns.map((column, i) => {
                const total = column.from === EXPONENTIAL ? now.stages.sum : sum(sorted, column.of);
                return cell(column, column.summed ? numberText(total) : "", "", i);
              })}
            </tr>
          </tfoot>
        )}
      </table>
    </div>
  );
}

/** Scroll the table to the column of the shown stage. No column is cut at the left, because the end of a number looks like another number. */
function showStage(box: HTMLElement): void {
  const [keys, ...columns] = box.querySelectorAll<HTMLElement>("thead th");
  box.style.scrollPaddingLeft = `${keys.offsetWidth}px`;
  const cell = box.querySelector<HTMLElement>("td.now:last-of-type, td.now");
  if (!cell) return;
  const least = cell.offsetLeft + cell.offsetWidth + EDGE - box.clientWidth;
  const first = least > 0 && columns.find((column) => column.offsetLeft - keys.offsetWidth >= least);
  box.scrollLeft = first ? first.offsetLeft - keys.offsetWidth : 0;
}
