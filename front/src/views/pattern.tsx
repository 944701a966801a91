// The pattern: every weight of the head is a cell of a grid, which the reader enlarges by wheel or pinch and moves by dragging

import { useEffect, useMemo, useRef } from "preact/hooks";
import { cleared } from "../canvas";
import { dark, LESS, MORE, shade, theme } from "../colours";
import { differenceAt, largestDifference, progress, shownGrid, type Grid } from "../grid";
import type { Item } from "../items";
import { weightText } from "../numbers";
import { useSize } from "../size";
import { colourScale, glance, headName, isChanged, key, keyItem, lock, query, queryItem, trace, traceName, visibleKeys, visibleQueries } from "../state";
import { switchOf } from "../switches";
import { words } from "../words";
import { scaleEnds } from "../drawn";
import { drawPattern, LARGEST_CELL } from "./cells";
import { Find } from "./find";
import type { Layout } from "./layout";
import { CellSize, Choice, Numbers, Panel, QueriesAs, queriesAs } from "./panel";
import { linkedPlace, useZoom } from "./zoom";

const drawnAs = switchOf("pattern", "heat", "circles");
const zoomPlace = linkedPlace("pattern-at");
const LISTED = 200; // the most pairs (query, key) in the table; if there are more, it has those with the largest weights
const MOST_HEIGHT = 620;
const [LEAST_PATTERN, GAP] = [270, 20]; // the least width of patterns that are side by side, and the space between them, in pixels

export function Pattern() {
  const say = words();
  const [box, { width: whole }] = useSize<HTMLDivElement>();
  const two = Boolean(trace.value.second);
  const beside = two ? [3, 2, 1].find((count) => (whole - (count - 1) * GAP) / count >= LEAST_PATTERN) ?? 1 : 1;
  const width = (whole - (beside - 1) * GAP) / beside;
  const [canvas, second, difference] = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)];
  const grid = shownGrid.value;
  const turned = queriesAs.value === "columns";
  const [rows, columns] = turned ? [visibleKeys.value, visibleQueries.value] : [visibleQueries.value, visibleKeys.value];
  const margins = useMemo(() => ({ left: labelWidth(rows), top: labelWidth(columns) }), [rows, columns, width]);
  const room = { across: Math.max(1, width - margins.left), down: MOST_HEIGHT - margins.top };
  const base = Math.min(LARGEST_CELL, room.across / columns.length, room.down / rows.length);
  const transform = useZoom(canvas, zoomPlace, { shown: width > 0, base, rows: rows.length, columns: columns.length, turned, ...margins });
  const layout: Layout = {
    rows,
    columns,
    ...margins,
    size: base * transform.k,
    x: transform.x,
    y: transform.y,
    width: Math.min(width, margins.left + columns.length * base + 1),
    height: margins.top + rows.length * base + 1,
    turned,
    circles: drawnAs.value === "circles",
  };
  void [progress.value, dark.value, colourScale.value, query.value, key.value];
  useEffect(() => {
    if (!width) return;
    for (const [{ current }, shown] of [[canvas, grid], [second, grid?.beside], [difference, grid]] as const) {
      const context = current && cleared(current, layout.width, layout.height);
      if (context && shown) drawPattern(context, shown, layout, current === difference.current);
    }
  });
  const point = (event: PointerEvent, click = false) => {
    const pair = pairAt(layout, event);
    if (!pair) return void (key.value = null);
    if (click) lock(pair[0]);
    else glance(pair[0]);
    key.value = pair[1].positions[0];
  };
  const read = readout(grid);
  return (
    <Panel
      view="pattern"
      both
      title={say.pattern}
      tools={
        <>
          <Choice label={say.drawnAs} of={drawnAs} options={[["heat", say.heat], ["circles", say.circles]]} />
          <QueriesAs />
          <CellSize factor={1.6} zoomed={transform} />
        </>
      }
    >
      <Find shows={(item) => transform.centre(rows.indexOf(item), columns.indexOf(item))} />
      <p class={read ? "readout" : "readout quiet"} role="status">{read || say.patternHint}</p>
      <div class="pattern" ref={box}>
        {(two ? [canvas, second, difference] : [canvas]).map((own, i) => (
          <figure key={i} style={{ width: `${width}px` }}>
            {two && <figcaption class="caption">{own === difference ? <DifferenceScale grid={grid} /> : <b>{traceName(i)}</b>}</figcaption>}
            <canvas
              ref={own}
              role="img"
              aria-label={`${two ? `${own === difference ? say.patternDifference : traceName(i)}, ` : ""}${headName()}: ${visibleQueries.value.length} × ${visibleKeys.value.length}`}
              onPointerMove={(event) => point(event)}
              onPointerLeave={() => (key.value = null)}
              onClick={(event) => point(event as unknown as PointerEvent, true)}
            />
          </figure>
        ))}
      </div>
      <Legend grid={grid} />
      {grid && grid.done === grid.queries.length && (
        <Numbers head={[say.query, say.key, ...(two ? [...[0, 1].map(traceName), say.patternDifference] : [say.weight])]} rows={() => strongestPairs(grid)} />
      )}
    </Panel>
  );
}

function labelWidth(items: Item[]): number {
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = `650 13px ${theme("--sans")}`;
  const widths = items.slice(0, 400).map((item) => context.measureText(item.text).width);
  return Math.ceil(Math.min(104, Math.max(18, ...widths))) + 12;
}

function pairAt(layout: Layout, event: PointerEvent): [Item, Item] | null {
  const [x, y] = [event.offsetX - layout.left - layout.x, event.offsetY - layout.top - layout.y];
  const inside = event.offsetX >= layout.left && event.offsetY >= layout.top;
  const [column, row] = [layout.columns[Math.floor(x / layout.size)], layout.rows[Math.floor(y / layout.size)]];
  if (!inside || !column || !row) return null;
  return layout.turned ? [column, row] : [row, column];
}

function readout(grid: Grid | null): string {
  const [from, to] = [queryItem.value, keyItem.value];
  if (!grid || !from || !to || from.index >= grid.done) return "";
  const at = from.index * grid.keys.length + to.index;
  const weight = (one: Grid) => (one.masked[at] ? words().masked : weightText(one.weights[at]));
  return `${from.label} → ${to.label} ${weight(grid)}${grid.beside ? ` | ${weight(grid.beside)} | 2 − 1: ${differenceText(grid, at)}` : ""}`;
}

function strongestPairs(grid: Grid): string[][] {
  const [queries, keys] = [visibleQueries.value, visibleKeys.value];
  const pairs = queries.flatMap((from) => keys.map((to) => ({ from, to, at: from.index * grid.keys.length + to.index })));
  const all = pairs.length <= LISTED;
  if (!all) pairs.sort((a, b) => grid.weights[b.at] - grid.weights[a.at]);
  return pairs
    .slice(0, all ? pairs.length : LISTED)
    .map(({ from, to, at }) => [
      from.label,
      to.label,
      ...[grid, grid.beside].flatMap((one) => (one ? [one.masked[at] ? words().masked : one.weights[at].toFixed(5)] : [])),
      ...(grid.beside ? [differenceText(grid, at, 5)] : []),
    ]);
}

/** The weight in the second trace minus that in the first, as text with its sign; "masked" if the key is masked in both. */
function differenceText(grid: Grid, at: number, decimals = 4): string {
  const difference = differenceAt(grid, at);
  return Number.isNaN(difference) ? words().masked : signed(difference, decimals);
}

const signed = (number: number, decimals = 4) => `${number > 0 ? "+" : number < 0 ? "−" : ""}${Math.abs(number).toFixed(decimals)}`;

/** The caption of the differences between two traces: what they are, and their colours from the lowest to the highest. */
function DifferenceScale({ grid }: { grid: Grid | null }) {
  void progress.value;
  const most = grid ? largestDifference(grid, visibleQueries.value, visibleKeys.value) : 0;
  return (
    <>
      <b title={words().patternDifference}>2 − 1</b> {signed(-most)} <span class="ramp signed" aria-hidden="true" style={{ "--more": shade(1, MORE), "--less": shade(1, LESS) }} /> {signed(most)}
    </>
  );
}

function Legend({ grid }: { grid: Grid | null }) {
  const say = words();
  const { low, high } = scaleEnds();
  return (
    <p class="legend">
      {low} {drawnAs.value === "circles" ? <span class="dots" aria-hidden="true">· • ●</span> : <span class="ramp" aria-hidden="true" />} {high}
      {grid?.masked.includes(1) && (
        <span class="masked-legend">
          <span class="hatch" aria-hidden="true" /> {say.legendMasked}
        </span>
      )}
      {isChanged.value && <strong>{say.whatIf}</strong>}
    </p>
  );
}
