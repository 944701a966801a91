// Steps: the attention of one query computed stage by stage, with the numbers of the model

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { numberText } from "../../parts/numbers";
import { Panel } from "../../parts/panel";
import { decoded, head, headName, keyLabels, layer, query, queryLabels, stage, trace, wholeWords } from "../../state/state";
import { vectorOf } from "../../trace/attention";
import { words } from "../../words";
import { HeadOutput, sayHeadOutput } from "./head-output";
import { StageTable } from "./stage-table";
import {
  availableStages, CONTEXT, currentStage, isCutAt, neighbour, OUTPUT, PRODUCT, PROJECT, shownKey, shownStages, type ShownStages,
  STAGE_NAMES, temperatureOf,
} from "./stages";
import { Context, DotProduct, Output, Projection } from "./vectors";
import { given } from "./worked-example";

const STAGE_MILLISECONDS = 2500; // how long each stage is shown while they play

const playing = signal(false);
const cellSum = signal(""); // how the number under the pointer was computed: "0.5 = 1 · 0.5"

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
  const shown = shownStages.value;
  const current = currentStage();
  const stages = availableStages();
  const firstNumber = stages[0] === PROJECT ? 0 : 1; // so that the stage "query · key" has the number 1 on every page
  if (!shown) {
    const isDecoded = decoded.value.has(layer.value);
    const reason = query.value === null && head.value !== null ? say.stepsToken : isDecoded && say.stepsNone;
    return <Panel view="steps" title={say.steps}><p class="caption">{reason}</p></Panel>;
  }
  const lacksOutput = !trace.value.worked && !shown.layer.output;
  const missingStages = shown.layer.value ? lacksOutput && say.sayNoOutput : say.sayNoValues;
  const show = (wanted: number) => ([stage.value, playing.value, cellSum.value] = [wanted, false, ""]);
  const [previous, next] = [neighbour(-1), neighbour(1)];
  const playOrPause = () => {
    if (!playing.value && next === null) stage.value = stages[0];
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
      title={[say.steps, trace.value.worked ? null : headName(), queryLabels.value[shown.query]].filter((part) => part !== null).join(" · ")}
      tools={
        <>
          <button type="button" disabled={previous === null} onClick={() => show(previous!)}>‹ {say.back}</button>
          <button type="button" aria-pressed={playing.value} onClick={playOrPause}>{playing.value ? say.pause : say.play}</button>
          <button type="button" disabled={next === null} onClick={() => show(next!)}>{say.next} ›</button>
        </>
      }
    >
      <ol class="stages">
        {stages.map((one, i) => (
          <li key={one}>
            <button type="button" aria-current={one === current ? "step" : undefined} class={one <= current ? "done" : ""} onClick={() => show(one)}>
              {i + firstNumber} · {say[STAGE_NAMES[one]]}
            </button>
          </li>
        ))}
      </ol>
      <p class="say" role="status">{sentenceOf(shown, current)}</p>
      <div class="worked" onPointerOver={explain} onClick={explain}>
        <StageTable shown={shown} stage={current} />
        {current === PROJECT && <Projection shown={shown} keyPosition={shownKey(shown)} />}
        {current === PRODUCT && <DotProduct shown={shown} keyPosition={shownKey(shown)} />}
        {current === CONTEXT && <Context shown={shown} keyPosition={shownKey(shown)} />}
        {current === OUTPUT && (trace.value.worked ? <Output shown={shown} /> : <HeadOutput shown={shown} />)}
      </div>
      <p class={cellSum.value ? "cell-sum" : "cell-sum quiet"} role="status">{cellSum.value || say.sayCell}</p>
      {missingStages && <p class="caption">{missingStages}</p>}
      {wholeWords.value && <p class="caption">{say.joinTitle}</p>}
    </Panel>
  );
}

/** The sentence that explains the stage STAGE_NAMES[stageIndex]. */
function sentenceOf(shown: ShownStages, stageIndex: number): string {
  const say = words();
  const { layer: attention, head: headIndex, query: position, stages } = shown;
  const [from, to] = [queryLabels.value[position], keyLabels.value[shownKey(shown)]];
  const temperature = temperatureOf(shown);
  const isBlind = stages.highest === -Infinity; // the query may attend to no key
  const sentences = [ // in the order of STAGE_NAMES
    () => say.sayProject(from, to, Object.keys(given.value).filter((name) => name.startsWith("b_"))),
    () => say.sayProduct(from, to, attention.query!.width),
    () =>
      [
        attention.scale !== undefined && attention.scale !== 1 && say.sayScale(numberText(attention.scale)),
        attention.softcap && say.saySoftcap(numberText(attention.softcap)),
        stages.bias && say.sayBias,
        temperature !== 1 && say.sayTemperature(numberText(temperature)),
      ].filter(Boolean).join(" "),
    () => {
      const masked = [...stages.masked.keys()].filter((key) => stages.masked[key] === -Infinity);
      const nCut = masked.filter((key) => isCutAt(shown, key)).length;
      const nMaskedByModel = masked.length - nCut;
      return [(nMaskedByModel || !nCut) && say.sayMask(nMaskedByModel), nCut && say.sayCut(nCut)].filter(Boolean).join(" ");
    },
    () => (isBlind ? say.sayBlind : say.sayExponential(numberText(stages.highest))),
    () => say.saySum(numberText(stages.sum)) + (stages.sink === null ? "" : say.saySink(numberText(stages.sink))),
    () => (isBlind ? say.sayBlindWeight : say.sayWeight(stages.sink !== null)),
    () => say.sayContext(vectorOf(attention, "value", headIndex, 0).length),
    () => {
      if (!trace.value.worked) return sayHeadOutput(attention, headIndex, position);
      return (attention.heads > 1 ? say.sayOutput : say.sayOneOutput)(given.value.W_o.shape[1]);
    },
  ];
  return sentences[stageIndex]();
}

