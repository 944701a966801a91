// The view of an alignment: a translation below its source, with the weights that align their words or pieces

import { computed } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";
import { type Box, boxesOf, useSize } from "../../parts/boxes";
import { hueOf, shade, strength, textColour } from "../../parts/colours";
import { onKeys } from "../../parts/keys";
import { Caution, Choice, Numbers, Panel, Table } from "../../parts/panel";
import { Word } from "../../parts/word";
import { course } from "../../state/course";
import { linkedChoice } from "../../state/linked-signals";
import { candidate, keptUnit, trace } from "../../state/state";
import type { Side } from "../../trace/data";
import { directionOf, isolated } from "../../trace/items";
import { unknownCharacters } from "../../trace/unknown";
import { words } from "../../words";
import { alignedUnits, candidates, chosenUnit, keepUnit, mostAlignedWith, pointAt, showHead, toggleUnit, unitsOf, weightBetween, type Unit } from "./units";

const drawnAs = linkedChoice("alignment", "lines", "matrix");
const FAINTEST = 0.02; // in the drawing of lines, smaller weights have no line
const THICKEST = 9; // the thickness of the line of weight 1, in pixels
const WRITTEN = 0.005; // smaller weights are coloured, but not written as numbers

/** The hue of the head from whose weights the alignment is computed. */
const hue = computed(() => {
  const { layer: layerNumber, head } = trace.value.alignment!.rule;
  const layer = trace.value.kinds.cross.layers.find((one) => one.layer === layerNumber);
  return hueOf(head, layer?.heads ?? 1);
});

export function AlignmentView() {
  const say = words();
  if (!trace.value.alignment) return null;
  const { agreement, by, head, layer, reliable, step } = trace.value.alignment.rule;
  const percent = agreement === null ? null : Math.round(100 * agreement);
  const origin = by === "erasure" ? say.alignedByErasure : say.alignedBy(layer, head, step === "reads", percent);
  const unknown = unknownCharacters(trace.value.source);
  const isEmpty = candidates()[candidate.value].text === "";
  const chosen = chosenUnit.value;
  return (
    <Panel
      view="alignment"
      title={say.alignment}
      caption={chosen ? captionOf(chosen) : say.alignmentHint}
      tools={
        <>
          <Choice label={say.alignmentUnit} of={alignedUnits} options={[["words", say.unitWords], ["pieces", say.unitPieces]]} then={() => (keptUnit.value = null)} />
          <Choice label={say.drawnAs} of={drawnAs} options={[["lines", say.lines], ["matrix", say.matrix]]} />
        </>
      }
    >
      {drawnAs.value === "lines" ? <Lines key={candidate.value} /> : <Matrix />}
      {unknown.length > 0 && <p class="caption note">{say.unknownCharacters(unknown.join(", "))}</p>}
      <p class="caption rule">
        {origin} {!reliable && `${say.unreliable} `}
        {!course.value && by === "attention" && <button type="button" onClick={showHead}>{say.showHead}</button>}
      </p>
      <Caution />
      <Candidates />
      <Numbers
        head={[say.translation, ...unitsOf("source").map((unit) => unit.text)]}
        rows={() => unitsOf("target").map((to) => [to.text, ...unitsOf("source").map((from) => weightBetween(from, to).toFixed(5))])}
      />
      {isEmpty && <p class="caption">{say.alignmentEmpty}</p>}
    </Panel>
  );
}

function captionOf(chosen: Unit): string {
  const strongest = mostAlignedWith(chosen);
  if (!strongest) return "";
  return words().alignedWith(isolated(chosen.text), isolated(strongest.text), weightBetween(chosen, strongest).toFixed(4));
}

function Candidates() {
  const say = words();
  const all = candidates();
  return (
    <div class="scroll" tabIndex={0}>
      <Table
        name="candidates"
        head={[all.length > 1 ? say.alternativesFound(all.length) : say.translation, say.score, say.logProbability]}
        rows={all.map(({ text, score, log_probability: nats }, i) => [
          <button type="button" aria-pressed={i === candidate.value} onClick={() => ([candidate.value, keptUnit.value] = [i, null])}>{text || "∅"}</button>,
          minus(score.toFixed(4)),
          minus(nats.toFixed(4)),
        ])}
      />
    </div>
  );
}

const minus = (text: string) => text.replace("-", "−");

// The alignment drawn as two lines of words with curves between them

function Lines() {
  const say = words();
  const [element, { width }] = useSize<HTMLDivElement>();
  const [boxes, setBoxes] = useState<Box[][]>([[], []]);
  const [sources, targets] = [unitsOf("source"), unitsOf("target")];
  useLayoutEffect(
    () => setBoxes(["source", "target"].map((side) => boxesOf(element.current!, `[data-side=${side}]`))),
    [width, alignedUnits.value, candidate.value, trace.value],
  );
  return (
    <div class="arcs aligned" ref={element}>
      <svg aria-hidden="true">{curves(sources, targets, boxes)}</svg>
      <Line side="source" label={say.sourceText} units={sources} />
      <Line side="target" label={say.translation} units={targets} />
    </div>
  );
}

function curves(sources: Unit[], targets: Unit[], [sourceBoxes, targetBoxes]: Box[][]) {
  const chosen = chosenUnit.value;
  return targets.flatMap((to) =>
    sources.map((from) => {
      const [start, end] = [sourceBoxes[from.index], targetBoxes[to.index]];
      const weight = weightBetween(from, to);
      const isChosen = chosen !== null && chosen.index === (chosen.side === "source" ? from : to).index;
      if (!start || !end || weight < FAINTEST || (chosen && !isChosen)) return null;
      const middle = (start.bottom + end.top) / 2;
      return (
        <path
          key={`${from.index} ${to.index}`}
          d={`M${start.middle} ${start.bottom}C${start.middle} ${middle} ${end.middle} ${middle} ${end.middle} ${end.top}`}
          stroke={shade(1, hue.value)}
          stroke-width={Math.max(0.5, THICKEST * weight)}
          opacity={isChosen ? 0.45 + 0.5 * weight : 0.12 + 0.6 * weight}
        />
      );
    }),
  );
}

function Line({ side, label, units }: { side: Side; label: string; units: Unit[] }) {
  const chosen = chosenUnit.value;
  const chosenIndex = chosen?.side === side ? chosen.index : -1; // -1 = no unit of this line is chosen
  const weights = units.map((unit) => (chosen && chosen.side !== side ? weightBetween(unit, chosen) : 0));
  const largest = Math.max(...weights);
  const goTo = (index: number) => units.length && keepUnit(units[Math.max(0, Math.min(units.length - 1, index))]);
  const [back, next] = [() => goTo(chosenIndex - 1), () => goTo(chosenIndex + 1)];
  const actions = { ArrowLeft: back, ArrowUp: back, ArrowRight: next, ArrowDown: next, Home: () => goTo(0), End: () => goTo(units.length - 1) };
  return (
    <p class="tokens" role="listbox" aria-label={label} dir={directionOf(units)} tabIndex={0} onKeyDown={onKeys(actions)}>
      {units.map((unit) => {
        const weight = weights[unit.index];
        return (
          <Word
            key={unit.index}
            item={unit}
            data-side={side}
            aria-selected={unit.index === chosenIndex}
            shown={{ strength: strength(weight, largest), hue: hue.value, written: weight >= WRITTEN ? weight.toFixed(2) : "" }}
            onPointerEnter={() => pointAt(unit)}
            onPointerLeave={() => pointAt(null)}
            onClick={() => toggleUnit(unit)}
          />
        );
      })}
    </p>
  );
}

/** The alignment as a table of weights: a row for each word or piece of the translation, a column for each of the source. */
function Matrix() {
  const say = words();
  const [sources, targets] = [unitsOf("source"), unitsOf("target")];
  const chosen = chosenUnit.value;
  return (
    <div class="scroll" tabIndex={0}>
      <table class="matrix">
        <thead>
          <tr>
            <th scope="col">{say.translation} ↓</th>
            {sources.map((from) => <th scope="col" key={from.index} title={from.title}><span dir="auto">{from.text}</span></th>)}
          </tr>
        </thead>
        <tbody>
          {targets.map((to) => {
            const row = sources.map((from) => weightBetween(from, to));
            const largest = Math.max(...row);
            const isChosen = chosen?.side === "target" && chosen.index === to.index;
            return (
              <tr key={to.index} aria-selected={isChosen} onPointerEnter={() => pointAt(to)} onPointerLeave={() => pointAt(null)} onClick={() => toggleUnit(to)}>
                <th scope="row" dir="auto" title={to.title}>{to.text}</th>
                {row.map((weight, i) => {
                  const shadeStrength = strength(weight, largest);
                  return <td key={i} style={{ background: shade(shadeStrength, hue.value), color: textColour(shadeStrength) }}>{weight >= WRITTEN ? weight.toFixed(2) : ""}</td>;
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
