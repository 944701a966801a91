// The table of the stages: a row for each key, a column for each number that a stage computes

import { useEffect, useRef } from "preact/hooks";
import { shades, shownHue, textColour } from "../../parts/colours";
import { numberText } from "../../parts/numbers";
import { key, keyLabels } from "../../state/state";
import { words } from "../../words";
import { valueLength } from "./head-vectors";
import {
  chosenKey, CONTEXT, EXPONENTIAL, isCutAt, isMasked, isScaled, MASK, OUTPUT, PRODUCT, SCALE, shownKey, type ShownStages, SUM,
  temperatureOf, WEIGHT,
} from "./stages";
import { productText } from "./vectors";

const LISTED = 24; // the most keys with a row of their own, besides keys that the reader chose or cut; all other keys are summed up in one row
const EDGE = 2; // the space, in pixels, that stays visible at the right of the shown stage's column

interface StageColumn {
  name: string;
  stage: number; // the index of the stage (in STAGE_NAMES) at which the column is filled in; before this stage it is empty
  number: (key: number) => number;
  title: (key: number) => string; // the tooltip of the number in the row of a key: how it is computed
  summed?: boolean; // true = the rows for the other keys and for the total have the sums of this column; else they are empty
}

function columnsOf(shown: ShownStages): StageColumn[] {
  const say = words();
  const { layer, head, query } = shown;
  const { products, scaled, bias, scores, masked, highest, exponentials, sum, weights } = shown.stages;
  const text = numberText;
  const temperature = temperatureOf(shown);
  const scaledTitle = (k: number) => {
    const [product, { softcap }] = [`${text(products[k])} · ${text(layer.scale ?? 1)}`, layer];
    return softcap ? `${text(softcap)} · tanh(${product} / ${text(softcap)})` : product;
  };
  const maskedTitle = (k: number) => {
    if (masked[k] > -Infinity) return text(scores[k]);
    return isCutAt(shown, k) ? say.cutByYou : say.masked;
  };
  const isBlind = highest === -Infinity; // the query may attend to no key
  const exponentialTitle = (k: number) => (isBlind ? say.sayBlind : `exp(${text(masked[k])} − ${text(highest)})`);
  const weightTitle = (k: number) => (isBlind ? say.sayBlindWeight : `${text(exponentials[k])} / ${text(sum)}`);
  const columns: StageColumn[] = [
    { name: say.columnProduct, stage: PRODUCT, number: (k) => products[k], title: (k) => productText(layer, head, query, k) },
  ];
  if (isScaled(shown)) columns.push({ name: say.columnScaled, stage: SCALE, number: (k) => scaled[k], title: scaledTitle });
  if (bias) columns.push({ name: say.columnBias, stage: SCALE, number: (k) => bias[k], title: () => say.columnBias });
  if (bias || temperature !== 1) {
    const title = (k: number) => `(${text(scaled[k])}${bias ? ` + ${text(bias[k])}` : ""}) / ${text(temperature)}`;
    columns.push({ name: say.score, stage: SCALE, number: (k) => scores[k], title });
  }
  if (isMasked(shown)) columns.push({ name: say.masked, stage: MASK, number: (k) => masked[k], title: maskedTitle });
  columns.push(
    { name: say.stepExponential, stage: EXPONENTIAL, number: (k) => exponentials[k], title: exponentialTitle, summed: true },
    { name: say.weight, stage: WEIGHT, number: (k) => weights[k], title: weightTitle, summed: true },
  );
  if (layer.output) {
    const lengthAt = (k: number) => valueLength(layer, head, k);
    columns.push({ name: say.columnAdded, stage: OUTPUT, number: (k) => weights[k] * lengthAt(k), title: (k) => `${text(weights[k])} · ${text(lengthAt(k))}` });
  }
  return columns;
}

/** A table with a row for each of the strongest keys and of the keys that the reader chose or cut, one row for all other keys, and one for the sink (a score without a key). Columns of stages after `stage` are empty. */
export function StageTable({ shown, stage }: { shown: ShownStages; stage: number }) {
  const say = words();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => showStage(box.current!), [stage]);
  const columns = columnsOf(shown);
  const { stages, byWeight } = shown;
  const isListed = (k: number, place: number) => place < LISTED || k === chosenKey.value || isCutAt(shown, k);
  const listed = byWeight.filter(isListed).sort((a, b) => a - b);
  const others = byWeight.filter((k, place) => !isListed(k, place));
  const colours = shades(shownHue());
  const sumOver = (keys: number[], { number }: StageColumn) => keys.reduce((total, k) => total + number(k), 0);
  const highlighted = stage === CONTEXT ? WEIGHT : stage; // at the stage "context", the weights are highlighted, because they multiply the values
  const cell = (column: StageColumn, i: number, text: string, title = "") => {
    if (column.stage > stage) return <td key={i} class="later" title={title} />;
    return <td key={i} class={column.stage === highlighted ? "now" : ""} title={title}>{text}</td>;
  };
  return (
    <div class="scroll" tabIndex={0} ref={box}>
      <table class="steps">
        <thead>
          <tr>
            <th scope="col">{say.key}</th>
            {columns.map((column) => <th scope="col" key={column.name} class={column.stage > stage ? "later" : ""}>{column.name}</th>)}
          </tr>
        </thead>
        <tbody>
          {listed.map((k) => {
            const shade = stage >= WEIGHT ? stages.weights[k] : 0;
            return (
              <tr key={k} aria-selected={k === shownKey(shown)} onClick={() => (chosenKey.value = k)} onPointerEnter={() => (key.value = k)}>
                <th scope="row" dir="auto">
                  <button type="button" style={shade > 0.004 ? { background: colours[Math.round(255 * shade)], color: textColour(shade) } : undefined}>
                    {keyLabels.value[k]}
                  </button>
                </th>
                {columns.map((column, i) => cell(column, i, numberText(column.number(k)), column.title(k)))}
              </tr>
            );
          })}
          {others.length > 0 && (
            <tr class="others">
              <th scope="row">{say.others(others.length)}</th>
              {columns.map((column, i) => cell(column, i, column.summed ? numberText(sumOver(others, column)) : ""))}
            </tr>
          )}
          {stages.sink !== null && stage >= SUM && (
            <tr class="others">
              <th scope="row">sink</th>
              {columns.map((column, i) => cell(column, i, column.stage === EXPONENTIAL ? numberText(stages.sink!) : ""))}
            </tr>
          )}
        </tbody>
        {stage >= SUM && (
          <tfoot>
            <tr>
              <th scope="row">{say.total}</th>
              {columns.map((column, i) => {
                const total = column.stage === EXPONENTIAL ? stages.sum : sumOver(byWeight, column); // the first with the sink
                return cell(column, i, column.summed ? numberText(total) : "");
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
  const [keyColumn, ...columns] = box.querySelectorAll<HTMLElement>("thead th");
  box.style.scrollPaddingLeft = `${keyColumn.offsetWidth}px`;
  const cell = box.querySelector<HTMLElement>("td.now:last-of-type, td.now");
  if (!cell) return;
  const scrollLeftOf = (column: HTMLElement) => column.offsetLeft - keyColumn.offsetWidth;
  const leastScroll = cell.offsetLeft + cell.offsetWidth + EDGE - box.clientWidth;
  const firstColumn = columns.find((column) => scrollLeftOf(column) >= leastScroll);
  box.scrollLeft = leastScroll > 0 && firstColumn ? scrollLeftOf(firstColumn) : 0;
}
