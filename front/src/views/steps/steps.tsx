// Steps: the attention of one query computed stage by stage, with the numbers of the model

import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { shades, shownHue, textColour } from "../../parts/colours";
import { numberText } from "../../parts/numbers";
import { Panel } from "../../parts/panel";
import { course } from "../../state/course";
import { linkedNumber } from "../../state/linked-signals";
import { changes, cut, decoded, head, headName, key, keyLabels, keyTokens, layer, query, queryLabels, queryTokens, stage, trace, wholeWords } from "../../state/state";
import { edge, stagesOf, vectorOf } from "../../trace/attention";
import { words } from "../../words";
import { HeadOutput, sayHeadOutput } from "./head-output";
import { valueLength } from "./head-vectors";
import { Context, DotProduct, Output, productText, Projection, type ShownSteps } from "./vectors";
import { given, hasOutput, isProjected } from "./worked-example";

const LISTED = 24; // the most keys with a row of their own, besides keys that are cut; all other keys are summed up in one row
const STAGE_MILLISECONDS = 2500;
const EDGE = 2; // the space, in pixels, that stays visible at the right of the shown stage's column
const NAMES = [
  "stepProject", "stepProduct", "stepScale", "stepMask", "stepExponential",
  "stepSum", "stepWeight", "stepContext", "stepOutput",
] as const;
const [PROJECT, PRODUCT, SCALE, MASK, EXPONENTIAL, SUM, WEIGHT, CONTEXT, OUTPUT] = NAMES.keys();

const playing = signal(false);
const chosenKey = linkedNumber("step-key", null); // the position of the key whose vectors are shown; null = the strongest key
const cellSum = signal(""); // how the number under the pointer was computed: "0.5 = 1 · 0.5"

const shown = computed<ShownSteps | null>(() => {
  const ready = decoded.value.get(layer.value);
  if (!ready?.query || head.value === null || query.value === null) return null;
  const stages = stagesOf(ready, head.value, query.value, queryTokens.value.length, keyTokens.value.length, changes.value);
  return { layer: ready, head: head.value, query: query.value, stages };
});

export function StepByStep() {
  const say = words();
  useEffect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => {
      const next = neighbour(1);
      if (next === null) playing.value = false;
      else stage.value = next;
    }, STAGE_MILLISECONDS);
    return () => clearInterval(timer);
  }, [playing.value]);
  const now = shown.value;
  const table = useRef<HTMLDivElement>(null);
  const at = currentStage();
  const available = availableStages();
  const firstNumber = available[0] === PROJECT ? 0 : 1;
  useEffect(() => {
    if (table.current) showStage(table.current);
  }, [at, now === null]);
  if (!now) {
    const ready = decoded.value.has(layer.value); // until the layer is decoded, it is not known whether it has steps
    const reason = query.value === null && head.value !== null ? say.stepsToken : ready && say.stepsNone;
    return <Panel view="steps" title={say.steps}><p class="caption">{reason}</p></Panel>;
  }
  const go = (to: number) => ([stage.value, playing.value, cellSum.value] = [to, false, ""]);
  const [back, next] = [neighbour(-1), neighbour(1)];
  const play = () => {
    if (!playing.value && next === null) stage.value = availableStages()[0];
    playing.value = !playing.value;
  };
  const explain = (event: Event) => {
    const cell = (event.target as Element).closest<HTMLElement>("td[title]");
    if (cell?.title && cell.textContent) cellSum.value = `${cell.textContent} = ${cell.title}`;
  };
  return (
    <Panel
      view="steps"
      changed
      title={[say.steps, ...(trace.value.worked ? [] : [headName()]), queryLabels.value[now.query]].join(" · ")}
      tools={
        <>
          <button type="button" disabled={back === null} onClick={() => go(back!)}>‹ {say.back}</button>
          <button type="button" aria-pressed={playing.value} onClick={play}>{playing.value ? say.pause : say.play}</button>
          <button type="button" disabled={next === null} onClick={() => go(next!)}>{say.next} ›</button>
        </>
      }
    >
      <ol class="stages">
        {available.map((i, place) => (
          <li key={i}>
            <button type="button" aria-current={i === at ? "step" : undefined} class={i <= at ? "done" : ""} onClick={() => go(i)}>{place + firstNumber} · {say[NAMES[i]]}</button>
          </li>
        ))}
      </ol>
      <p class="say" role="status">{sentenceOf(now, at)}</p>
      <div class="worked" onPointerOver={explain} onClick={explain}>
        <div class="scroll" tabIndex={0} ref={table}><StageTable now={now} at={at} /></div>
        {at === PROJECT && <Projection now={now} to={keyOf(now)} />}
        {at === PRODUCT && <DotProduct now={now} to={keyOf(now)} />}
        {at === CONTEXT && <Context now={now} to={keyOf(now)} />}
        {at === OUTPUT && (trace.value.worked ? <Output now={now} /> : <HeadOutput now={now} />)}
      </div>
      <p class={cellSum.value ? "cell-sum" : "cell-sum quiet"} role="status">{cellSum.value || say.sayCell}</p>
      {!now.layer.value ? <p class="caption">{say.sayNoValues}</p> : !trace.value.worked && !now.layer.output && <p class="caption">{say.sayNoOutput}</p>}
      {wholeWords.value && <p class="caption">{say.joinTitle}</p>}
    </Panel>
  );
}

/**
 * Scroll the table so that the column of the shown stage is in view. The column of keys always stays at the left edge and hides what
 * is scrolled under it. So a whole column begins beside it: a number of which half is hidden would read as another number.
 */
function showStage(box: HTMLElement): void {
  const [keys, ...columns] = box.querySelectorAll<HTMLElement>("thead th");
  box.style.scrollPaddingLeft = `${keys.offsetWidth}px`;
  const cell = box.querySelector<HTMLElement>("td.now:last-of-type, td.now");
  if (!cell) return;
  const least = cell.offsetLeft + cell.offsetWidth + EDGE - box.clientWidth;
  const first = least > 0 && columns.find((column) => column.offsetLeft - keys.offsetWidth >= least);
  box.scrollLeft = first ? first.offsetLeft - keys.offsetWidth : 0;
}

/**
 * The indices, in NAMES, of the stages that can be shown. "stepProject" needs a worked example, "stepScale" a scale, softcap, bias or
 * temperature, "stepMask" a mask or a cut edge, "stepContext" values, and "stepOutput" values and the output matrix.
 */
function availableStages(): number[] {
  const now = shown.value;
  const missing = new Set([
    ...(isProjected() ? [] : [PROJECT]),
    ...(now && isScaled(now) ? [] : [SCALE]),
    ...(now && isMasked(now) ? [] : [MASK]),
    ...(now?.layer.value ? [] : [CONTEXT]),
    ...(hasOutput() || (now?.layer.value && now.layer.output) ? [] : [OUTPUT]),
  ]);
  return [...NAMES.keys()].filter((one) => !missing.has(one));
}

const temperatureOf = ({ layer }: ShownSteps) => (layer.temperature ?? 1) * changes.value.temperature;
const isScaled = (now: ShownSteps) => (now.layer.scale ?? 1) !== 1 || Boolean(now.layer.softcap || now.stages.bias) || temperatureOf(now) !== 1;
const isMasked = (now: ShownSteps) => Boolean(now.layer.bits) || now.stages.masked.includes(-Infinity);
const isCutAt = ({ query }: ShownSteps, key: number) => cut.value.has(edge(query, key));

/**
 * The index, in NAMES, of the stage that is shown. Until the reader chooses one, this is the first stage in a worked example and in a
 * course, else the stage "stepContext". In place of a stage that cannot be shown, the last one before it is shown.
 */
function currentStage(): number {
  const wanted = stage.value ?? (trace.value.worked || course.value ? -1 : CONTEXT);
  return availableStages().filter((one) => one <= wanted).at(-1) ?? availableStages()[0];
}

/** The stage before (-1) or after (1) the shown stage; null if there is none. */
const neighbour = (by: number) => availableStages()[availableStages().indexOf(currentStage()) + by] ?? null;

const keyOf = (now: ShownSteps) => chosenKey.value !== null && chosenKey.value < keyTokens.value.length ? chosenKey.value : positionsByWeight(now)[0];

/** The positions of the keys, from the largest weight to the smallest. */
function positionsByWeight({ stages: { weights, masked } }: ShownSteps): number[] {
  return Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a] || masked[b] - masked[a] || a - b);
}

/** The sentence that explains the stage with index `at`. */
function sentenceOf(now: ShownSteps, at: number): string {
  const say = words();
  const { layer: attention, head: headIndex, query: position, stages: n } = now;
  const [from, to] = [queryLabels.value[position], keyLabels.value[keyOf(now)]];
  const temperature = temperatureOf(now);
  const texts = [
    () => say.sayProject(from, to, Object.keys(given.value).filter((name) => name.startsWith("b_"))),
    () => say.sayProduct(from, to, attention.query!.width),
    () =>
      [
        attention.scale !== undefined && attention.scale !== 1 && say.sayScale(numberText(attention.scale)),
        attention.softcap && say.saySoftcap(numberText(attention.softcap)),
        n.bias && say.sayBias,
        temperature !== 1 && say.sayTemperature(numberText(temperature)),
      ].filter(Boolean).join(" "),
    () => {
      const hidden = [...n.masked.keys()].filter((one) => n.masked[one] === -Infinity);
      const cuts = hidden.filter((one) => isCutAt(now, one)).length;
      return [(!cuts || hidden.length > cuts) && say.sayMask(hidden.length - cuts), cuts && say.sayCut(cuts)].filter(Boolean).join(" ");
    },
    () => say.sayExponential(numberText(n.highest)),
    () => say.saySum(numberText(n.sum)) + (n.sink === null ? "" : say.saySink(numberText(n.sink))),
    () => say.sayWeight,
    () => say.sayContext(vectorOf(attention, "value", headIndex, 0).length),
    () => {
      if (!trace.value.worked) return sayHeadOutput(attention, headIndex, position);
      return (attention.heads > 1 ? say.sayOutput : say.sayOneOutput)(given.value.W_o.shape[1]);
    },
  ];
  return texts[at]();
}

/** A column of the table of stages, which has a row for each key. `of` returns the number in the row of a key. */
interface StageColumn {
  name: string;
  from: number; // the index of the stage (in NAMES) at which the column is filled in; before this stage it is empty
  of: (key: number) => number;
  title: (key: number) => string; // the tooltip of the number in the row of a key: how it is computed
  summed?: boolean; // true = the rows for the other keys and for the total have the sums of this column; else they are empty
}

function columnsOf(now: ShownSteps): StageColumn[] {
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
      name: say.columnScore,
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
    { name: say.columnExponential, from: EXPONENTIAL, of: (k) => n.exponentials[k], title: (k) => `exp(${text(n.masked[k])} − ${text(n.highest)})`, summed: true },
    { name: say.weight, from: WEIGHT, of: (k) => n.weights[k], title: (k) => `${text(n.exponentials[k])} / ${text(n.sum)}`, summed: true },
    ...(attention.output ? [added] : []),
  ];
}

/**
 * The table of the stages. Each of the strongest keys, and each key that is cut, has a row, in the order of the text; all other keys together have one row. From
 * the stage "stepSum" on, there are also rows for the sink (if the head has one) and for the total. `at`: the index of the shown stage.
 */
function StageTable({ now, at }: { now: ShownSteps; at: number }) {
  const say = words();
  const columns = columnsOf(now);
  const sorted = positionsByWeight(now);
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
  );
}
