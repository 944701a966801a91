// The sentence as two columns, queries and keys, with lines for the weights between them

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared } from "../../parts/canvas";
import { dark, shade, shades, strength, textColour } from "../../parts/colours";
import { weightOrMasked } from "../../parts/numbers";
import { colourScale, runAgainOn, twoTexts } from "../../state/state";
import { hoverQuery, lockQuery, pointAt } from "../../state/texts";
import { progress, type Grid } from "../../state/weights";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { FAINTEST_LINE, type DrawnHead } from "./drawn-heads";

const PITCHES = [[64, 22], [16, 27], [0, 32]] as const; // pairs [n, height]: a row is `height` pixels high if there are more than n tokens; the first such pair is used

/** Scroll the row of a query that was chosen elsewhere into view; -1 = no query. Under the pointer, no row moves. */
function showRow(box: HTMLElement, row: number, pitch: number): void {
  const top = row * pitch - box.scrollTop;
  const isInView = top >= 0 && top + pitch <= box.clientHeight;
  if (row >= 0 && !isInView && !box.matches(":hover")) box.scrollTop += top - box.clientHeight / 2;
}

export function Columns({ drawn }: { drawn: DrawnHead[] }) {
  const say = words();
  const [box] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [, setScrolled] = useState(0);
  const { queries, keys, query, key, traceIndex } = drawn[0].text;
  const nRows = Math.max(queries.length, keys.length);
  const [, pitch] = PITCHES.find(([n]) => nRows > n)!;
  runAgainOn(progress, dark, colourScale);
  useLayoutEffect(() => showRow(box.current!, query ? queries.indexOf(query) : -1, pitch), [query, queries, pitch]);
  useLayoutEffect(() => drawLines(canvas.current!, box.current!, drawn, pitch));
  const { row, hue, fullWeight, grid } = drawn[0];
  const keysName = row ? say.keysWeights : say.keys;
  return (
    <div class={row ? "two-columns" : "two-columns all"}>
      <div class="ends" aria-hidden="true">
        <span>{twoTexts.value ? say.targetQueries : say.queries}</span>
        <span>{twoTexts.value ? say.sourceKeys : keysName}</span>
      </div>
      <div class="scroll" tabIndex={0} ref={box} onScroll={(event) => setScrolled(event.currentTarget.scrollTop)}>
        <div class={row ? "columns" : "columns all"} style={{ "--row": `${pitch}px` }}>
          <ul role="listbox" tabIndex={0} aria-label={say.queries}>
            {queries.map((item) => (
              <li
                key={item.positions[0]}
                role="option"
                aria-selected={query === item}
                class={item.special ? "special" : ""}
                title={item.title}
                onPointerEnter={() => hoverQuery(item, traceIndex)}
                onClick={() => lockQuery(item, traceIndex)}
              >
                <b>{weightToKey(item, key, grid)}</b>
                <span dir="auto">{item.text}</span>
              </li>
            ))}
          </ul>
          <canvas ref={canvas} aria-hidden="true" />
          <ul aria-label={say.keysWeights}>
            {keys.map((item) => {
              const { index } = item;
              const isMasked = Boolean(row?.masked[index]);
              const weightStrength = row && !isMasked ? strength(row.weights[index], fullWeight) : 0;
              const colours = { background: shades(hue)[Math.round(255 * weightStrength)], color: textColour(weightStrength) };
              return (
                <li
                  key={item.positions[0]}
                  class={`${item.special ? "special " : ""}${isMasked ? "masked " : ""}${key === item ? "near" : ""}`}
                  title={item.title}
                  onPointerEnter={() => pointAt(item, traceIndex)}
                  onPointerLeave={() => pointAt(null)}
                >
                  <span dir="auto" style={weightStrength > 0.004 ? colours : undefined}>{item.text}</span>
                  {row && <i style={{ width: `${100 * weightStrength}%` }} />}
                  <b>{weightOrMasked(row, index)}</b>
                </li>
              );
            })}
          </ul>
        </div>
      </div>
    </div>
  );
}

/** The weight of a query on the key under the pointer, as text; "" if the pointer is on no key or the weight is not computed yet. */
function weightToKey(query: Item, key: Item | null, grid: Grid | null): string {
  if (!key || !grid || query.index >= grid.nComputed) return "";
  return weightOrMasked(grid, query.index * grid.keys.length + key.index);
}

/** Draw lines for the chosen query's weights or, if none is chosen, for all weights of at least FAINTEST_LINE of the queries in view. */
function drawLines(canvas: HTMLCanvasElement, box: HTMLElement, drawn: DrawnHead[], pitch: number): void {
  const { queries, keys, query, key } = drawn[0].text;
  const height = Math.min(box.clientHeight, Math.max(queries.length, keys.length) * pitch);
  canvas.style.width = "100%";
  const width = canvas.clientWidth;
  const context = cleared(canvas, width, height);
  canvas.style.width = "100%"; // `cleared` has set it in pixels
  const middleOf = (row: number) => (row + 0.5) * pitch - box.scrollTop;
  const drawLine = (queryRow: number, keyRow: number, weightStrength: number, hue: number, isPointed: boolean) => {
    const [from, to] = [middleOf(queryRow), middleOf(keyRow)];
    context.globalAlpha = 0.1 + 0.85 * weightStrength;
    context.lineWidth = (isPointed ? 1 : 0.6) + 7 * weightStrength;
    context.strokeStyle = shade(1, hue);
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(4, from);
    context.bezierCurveTo(width * 0.45, from, width * 0.55, to, width - 6, to);
    context.stroke();
  };
  for (const { row, hue, fullWeight } of drawn) {
    if (!row || !query) continue;
    const queryRow = queries.indexOf(query);
    keys.forEach((item, keyRow) => {
      const weight = row.weights[item.index];
      if (weight > 0) drawLine(queryRow, keyRow, strength(weight, fullWeight), hue, item === key);
    });
  }
  const { grid } = drawn[0];
  if (query || !grid) return;
  queries.forEach(({ index }, queryRow) => {
    const isInView = middleOf(queryRow) >= -pitch && middleOf(queryRow) <= height + pitch;
    if (!isInView || index >= grid.nComputed) return;
    keys.forEach((item, keyRow) => {
      const weight = grid.weights[index * grid.keys.length + item.index];
      if (weight >= FAINTEST_LINE && (!key || item === key)) drawLine(queryRow, keyRow, weight, drawn[0].hue, false);
    });
  });
}
