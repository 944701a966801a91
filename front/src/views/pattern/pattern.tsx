// The pattern: every weight of the head is a cell of a grid, which the reader enlarges by wheel or pinch and moves by dragging

import { useEffect, useMemo, useRef } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared } from "../../parts/canvas";
import { dark, LESS, MORE, scaleEnds, shade, theme } from "../../parts/colours";
import { Find } from "../../parts/find";
import { weightOrMasked } from "../../parts/numbers";
import { CellSize, Choice, Numbers, Panel, QueriesAs, queriesAs } from "../../parts/panel";
import { type View, weightAt } from "../../parts/view";
import { linkedPlace, useZoom } from "../../parts/zoom";
import { linkedChoice } from "../../state/linked-signals";
import { colourScale, hoverQuery, headName, isChanged, key, keyItem, lockQuery, query, queryItem, trace, traceName, visibleKeys, visibleQueries } from "../../state/state";
import { differenceAt, type Grid, largestDifference, progress, shownGrid, strongestPairs } from "../../state/weights";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { drawPattern, LARGEST_CELL } from "./cells";

const drawnAs = linkedChoice("pattern", "heat", "circles");
const zoomPlace = linkedPlace("pattern-at");
const LISTED = 200; // the most pairs (query, key) in the table; if there are more, it has those with the largest weights
const MOST_HEIGHT = 620;
const LEGIBLE_CELL = 12; // the size of a cell, in pixels, if one side of the pattern is so long that cells would have less than half this size; this side is then moved
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
  const [queries, keys] = [visibleQueries.value, visibleKeys.value];
  const [rows, columns] = turned ? [keys, queries] : [queries, keys];
  const margins = useMemo(() => ({ left: labelWidth(rows), top: labelWidth(columns) }), [rows, columns, width]);
  const room = { across: Math.max(1, width - margins.left), down: MOST_HEIGHT - margins.top };
  const [widest, highest] = [room.across / columns.length, room.down / rows.length]; // the sizes of a cell with which all columns, or all rows, are in view
  const small = Math.min(widest, highest);
  const isLong = small < LEGIBLE_CELL / 2 && Math.max(widest, highest) >= LEGIBLE_CELL;
  const base = isLong ? LEGIBLE_CELL : Math.min(LARGEST_CELL, small);
  const size = { width: Math.min(room.across, columns.length * base), height: Math.min(room.down, rows.length * base) };
  const zoomed = useZoom(canvas, zoomPlace, { shown: width > 0, base, rows: rows.length, columns: columns.length, turned, ...margins, ...size });
  const view: View = {
    queries,
    keys,
    turned,
    ...margins,
    width: Math.min(room.across, size.width + 1), // with the last line of the grid
    height: size.height + 1,
    x: zoomed.x,
    y: zoomed.y,
    size: base * zoomed.k,
  };
  const circles = drawnAs.value === "circles";
  void [progress.value, dark.value, colourScale.value, query.value, key.value];
  useEffect(() => {
    if (!width) return;
    for (const [{ current }, shown] of [[canvas, grid], [second, grid?.beside], [difference, grid]] as const) {
      const context = current && cleared(current, view.left + view.width, view.top + view.height);
      if (context && shown) drawPattern(context, shown, view, circles, current === difference.current);
    }
  });
  const point = (event: MouseEvent, click = false) => {
    const at = weightAt(view, event.offsetX, event.offsetY);
    if (!at) return void (key.value = null);
    (click ? lockQuery : hoverQuery)(queries[at.query]);
    key.value = keys[at.key].positions[0];
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
          <CellSize factor={1.6} zoomed={zoomed} />
        </>
      }
    >
      <Find shows={(item) => zoomed.centre(rows.indexOf(item), columns.indexOf(item))} />
      <p class={read ? "readout" : "readout quiet"} role="status">{read || say.patternHint}</p>
      <div class="pattern" ref={box}>
        {(two ? [canvas, second, difference] : [canvas]).map((own, i) => (
          <figure key={i} style={{ width: `${width}px` }}>
            {two && <figcaption class="caption">{own === difference ? <DifferenceScale grid={grid} /> : <b>{traceName(i)}</b>}</figcaption>}
            <canvas
              ref={own}
              role="img"
              aria-label={`${two ? `${own === difference ? say.patternDifference : traceName(i)}, ` : ""}${headName()}: ${queries.length} × ${keys.length}`}
              onPointerMove={(event) => point(event)}
              onPointerLeave={() => (key.value = null)}
              onClick={(event) => point(event, true)}
            />
          </figure>
        ))}
      </div>
      <Legend grid={grid} />
      {grid && grid.done === grid.queries.length && (
        <Numbers head={[say.query, say.key, ...(two ? [...[0, 1].map(traceName), say.patternDifference] : [say.weight])]} rows={() => tableRows(grid)} />
      )}
    </Panel>
  );
}

function labelWidth(items: Item[]): number {
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = `650 13px ${theme("--sans")}`;
  const widths = items.slice(0, 400).map((item) => context.measureText(item.label).width);
  return Math.ceil(Math.min(104, Math.max(18, ...widths))) + 12;
}

function readout(grid: Grid | null): string {
  const [from, to] = [queryItem.value, keyItem.value];
  if (!grid || !from || !to || from.index >= grid.done) return "";
  const at = from.index * grid.keys.length + to.index;
  return `${from.label} → ${to.label} ${weightOrMasked(grid, at)}${grid.beside ? ` | ${weightOrMasked(grid.beside, at)} | 2 − 1: ${differenceText(grid, at)}` : ""}`;
}

/** The rows of the table: all pairs of a query and a key, in the order of the text, or the LISTED pairs with the largest weights. */
function tableRows(grid: Grid): string[][] {
  const [queries, keys] = [visibleQueries.value, visibleKeys.value];
  const isShort = queries.length * keys.length <= LISTED;
  const pairs = isShort ? queries.flatMap((from) => keys.map((to) => ({ from, to }))) : strongestPairs(grid, LISTED);
  return pairs.map(({ from, to }) => {
    const at = from.index * grid.keys.length + to.index;
    return [from.label, to.label, weightOrMasked(grid, at, 5), ...(grid.beside ? [weightOrMasked(grid.beside, at, 5), differenceText(grid, at, 5)] : [])];
  });
}

/** The weight in the second trace minus that in the first, as text with its sign; the word for "masked" if the key is masked in both. */
function differenceText(grid: Grid, at: number, decimals = 4): string {
  const difference = differenceAt(grid, at);
  return Number.isNaN(difference) ? words().masked : signed(difference, decimals);
}

const signed = (number: number, decimals = 4) => `${number > 0 ? "+" : number < 0 ? "−" : ""}${Math.abs(number).toFixed(decimals)}`;

/** The legend of the differences between two traces: "2 − 1", and the colours from the lowest to the highest difference. */
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
