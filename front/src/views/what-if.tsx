// The view "what if": the reader changes the temperature of the head, cuts edges (query, key) or masks keys, and sees the weights before and after

import { weightOrMasked } from "../parts/numbers";
import { Check, Numbers, Panel, Slider, Table } from "../parts/panel";
import { busy, runChanged } from "../state/questions";
import { cut, changeEffect, head, headName, isChanged, isCut, key, keyItem, kindName, layer, queryItem, silenced, temperature, toggleCut, trace, undoChanges, visibleKeys, weightsChanged } from "../state/state";
import { keysByWeight, rowOf } from "../state/weights";
import { UNCHANGED } from "../trace/attention";
import type { Change, Effect } from "../trace/data";
import { words } from "../words";

const LISTED_KEYS = 6;

/** A band at the top of the window while the head is changed: what is changed, which panels show it, and a button that undoes it. */
export function ChangesBand() {
  const say = words();
  if (!isChanged.value) return null;
  const descriptions = [
    cutsText(),
    temperature.value !== 1 && `${say.temperature.toLowerCase()} × ${temperature.value.toFixed(2)}`,
    silenced.value && say.silenced,
  ].filter(Boolean);
  return (
    <div class="changes-band" role="status">
      <b>{say.whatIf}: {descriptions.join(", ")} · {headName()}</b>
      <span>{weightsChanged.value ? say.whichChanged : say.noneChanged}</span>
      <button type="button" onClick={undoChanges}>{say.reset}</button>
    </div>
  );
}

/** How many edges the reader has cut, and how many tokens the reader has masked, as text. */
function cutsText(): string {
  const nMasked = [...cut.value].filter((edge) => edge.startsWith("*")).length;
  const nEdges = cut.value.size - nMasked;
  return [nEdges && words().cuts(nEdges), nMasked && words().maskedKeys(nMasked)].filter(Boolean).join(", ");
}

export function WhatIf() {
  const say = words();
  if (!layer.value.query)
    return <Panel view="what-if" title={say.whatIf}><p class="caption">{say.whatIfNone}</p></Panel>;
  const from = queryItem.value;
  const [before, after] = [from && rowOf(from, undefined, undefined, UNCHANGED), from && rowOf(from)];
  const strongest = before ? keysByWeight(before).slice(0, LISTED_KEYS) : [];
  const canRun = trace.value.live && !trace.value.alignment && head.value !== null;
  const runNote = canRun ? say.whatIfRun : say.whatIfNote;
  return (
    <Panel view="what-if" title={say.whatIf} caption={cutsText() || say.whatIfHint}>
      <Slider
        label={say.temperature}
        min={-2}
        max={2}
        step={0.1}
        value={Math.log2(temperature.value)}
        text={`× ${temperature.value.toFixed(2)}`}
        choose={(power) => (temperature.value = 2 ** power)}
      />
      {from && before && after && (
        <>
          <table class="changes">
            <thead>
              <tr><th scope="col">{from.label} →</th><th scope="col">{say.before}</th><th scope="col">{say.after}</th><td /></tr>
            </thead>
            <tbody>
              {strongest.map((to) => {
                const [isEdgeCut, isKeyMasked] = [isCut(from, to), isCut(null, to)];
                const cutTitle = isEdgeCut ? say.restoreEdge(from.label, to.label) : say.cutEdge(from.label, to.label);
                const maskTitle = isKeyMasked ? say.unmaskKey(to.label) : say.maskKey(to.label);
                return (
                  <tr key={to.index} class={keyItem.value === to ? "near" : ""} onPointerEnter={() => (key.value = to.positions[0])}>
                    <th scope="row" dir="auto">{to.label}</th>
                    <td>{weightOrMasked(before, to.index)}</td>
                    <td>{isEdgeCut || isKeyMasked ? say.masked : weightOrMasked(after, to.index)}</td>
                    <td>
                      <button type="button" aria-pressed={isEdgeCut} aria-label={cutTitle} title={cutTitle} onClick={() => toggleCut(from, to)}>✂</button>
                      <button type="button" aria-pressed={isKeyMasked} aria-label={maskTitle} title={maskTitle} onClick={() => toggleCut(null, to)}>⊘</button>
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          <Numbers
            head={[say.key, say.before, say.after]}
            rows={() => visibleKeys.value.map((to) => [to.label, weightOrMasked(before, to.index, 5), weightOrMasked(after, to.index, 5)])}
          />
        </>
      )}
      {canRun && <Run />}
      <p class="caption">{changeEffect.value ? say.whatIfRan : runNote} {say.caution}</p>
    </Panel>
  );
}

function Run() {
  const say = words();
  return (
    <>
      <p class="run">
        <Check of={silenced} label={say.silence} />
        <button type="button" disabled={!isChanged.value || busy.value} onClick={() => void runChanged(readerChanges())}>{say.runModel}</button>
      </p>
      {changeEffect.value && <EffectOf effect={changeEffect.value} />}
    </>
  );
}

/** The reader's changes to the shown head, in the form in which a server or a web worker takes them. */
function readerChanges(): Change[] {
  const name = Object.keys(trace.value.kinds).length > 1 ? `${kindName.value} ${headName()}` : headName();
  if (silenced.value) return [{ kind: "silence", head: name }];
  const cuts = [...cut.value].map((edge): Change => {
    const [query, key] = edge.split(",");
    return { kind: "cut", query: query === "*" ? null : Number(query), key: Number(key), heads: [name] };
  });
  return temperature.value === 1 ? cuts : [...cuts, { kind: "sharpen", head: name, temperature: temperature.value }];
}

function EffectOf({ effect: { output, heads, before, after } }: { effect: Effect }) {
  const say = words();
  return (
    <div class="effect" role="status">
      {output !== null && <p>{say.effectOutput(output.toPrecision(4))}</p>}
      {before.length > 0 && (
        <Table
          name="changes"
          caption={say.nextTokens}
          head={[say.before, "", say.after, ""]}
          rows={before.map(([text, probability], i) => [text, probability.toFixed(4), after[i][0], after[i][1].toFixed(4)])}
        />
      )}
      {heads.length > 0 && (
        <Table
          name="changes"
          caption={say.effectHeads}
          head={[say.head, say.token, say.effectMoved]}
          rows={heads.map(({ head: name, token, moved }) => [name, token, moved.toFixed(4)])}
        />
      )}
    </div>
  );
}
