// What if: another temperature, or an edge that is cut; the query's weights before and after

import { UNCHANGED } from "../attention";
import { shownRow } from "../grid";
import { weightText } from "../numbers";
import { cut, isChanged, isCut, key, keyItem, layer, queryItem, temperature, toggleCut, undoChanges, visibleKeys } from "../state";
import { words } from "../words";
import { Numbers, Panel } from "./panel";

const LISTED = 6;

export function WhatIf() {
  const say = words();
  if (!layer.value.query)
    return <Panel view="what-if" title={say.whatIf}><p class="caption">{say.whatIfNone}</p></Panel>;
  const from = queryItem.value;
  const [before, after] = [from && shownRow(from, undefined, undefined, UNCHANGED), from && shownRow(from)];
  const strongest = before
    ? [...visibleKeys.value].sort((a, b) => before.weights[b.index] - before.weights[a.index]).slice(0, LISTED)
    : [];
  return (
    <Panel
      view="what-if"
      title={say.whatIf}
      caption={cut.value.size ? say.cuts(cut.value.size) : ""}
      tools={isChanged.value && <button type="button" onClick={undoChanges}>{say.reset}</button>}
    >
      <label class="slider">
        {say.temperature}
        <input
          type="range"
          min="-2"
          max="2"
          step="0.1"
          value={Math.log2(temperature.value)}
          aria-valuetext={temperature.value.toFixed(2)}
          onInput={(event) => (temperature.value = 2 ** Number(event.currentTarget.value))}
        />
        <output>× {temperature.value.toFixed(2)}</output>
      </label>
      {from && before && after && (
        <>
          <table class="changes">
            <thead>
              <tr><th scope="col">{from.label} →</th><th scope="col">{say.before}</th><th scope="col">{say.after}</th><th /></tr>
            </thead>
            <tbody>
              {strongest.map((to) => (
                <tr key={to.index} class={keyItem.value === to ? "near" : ""} onPointerEnter={() => (key.value = to.positions[0])}>
                  <th scope="row" dir="auto">{to.label}</th>
                  <td>{weightText(before.weights[to.index])}</td>
                  <td>{after.masked[to.index] || isCut(from, to) ? say.masked : weightText(after.weights[to.index])}</td>
                  <td>
                    <button
                      type="button"
                      aria-pressed={isCut(from, to)}
                      aria-label={isCut(from, to) ? say.restoreEdge(from.label, to.label) : say.cutEdge(from.label, to.label)}
                      title={isCut(from, to) ? say.restoreEdge(from.label, to.label) : say.cutEdge(from.label, to.label)}
                      onClick={() => toggleCut(from, to)}
                    >
                      ✂
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <Numbers
            head={[say.key, say.before, say.after]}
            rows={() => visibleKeys.value.map((to) => [to.label, before.weights[to.index].toFixed(5), after.weights[to.index].toFixed(5)])}
          />
        </>
      )}
      <p class="caption">{say.whatIfNote}</p>
    </Panel>
  );
}
