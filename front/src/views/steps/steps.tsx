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
import { availableStages, CONTEXT, currentStage, isCutAt, keyOf, NAMES, neighbour, OUTPUT, PRODUCT, PROJECT, shown, type ShownStages, temperatureOf } from "./stages";
import { Context, DotProduct, Output, Projection } from "./vectors";
import { given } from "./worked-example";

const STAGE_MILLISECONDS = 2500;

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
  const now = shown.value;
  const at = currentStage();
  const available = availableStages();
  const firstNumber = available[0] === PROJECT ? 0 : 1; // so that the stage "query · key" has the number 1 on every page
  if (!now) {
    const isDecoded = decoded.value.has(layer.value);
    const reason = query.value === null && head.value !== null ? say.stepsToken : isDecoded && say.stepsNone;
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
        <StageTable now={now} at={at} />
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

/** The sentence that explains the stage NAMES[at]. */
function sentenceOf(now: ShownStages, at: number): string {
  const say = words();
  const { layer: attention, head: headIndex, query: position, stages: n } = now;
  const [from, to] = [queryLabels.value[position], keyLabels.value[keyOf(now)]];
  const temperature = temperatureOf(now);
  const texts = [ // in the order of NAMES
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

