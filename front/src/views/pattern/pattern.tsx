// The pattern: every weight of the head is a cell of a grid, which the reader enlarges by wheel or pinch and moves by dragging

import { useLayoutEffect, useRef } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared } from "../../parts/canvas";
import { dark, LESS, MORE, scaleEnds, shade, theme } from "../../parts/colours";
import { Find } from "../../parts/find";
import { onKeys } from "../../parts/keys";
import { weightOrMasked } from "../../parts/numbers";
import { CellSize, Choice, Numbers, Panel, QueriesAs, queriesAs } from "../../parts/panel";
import { type View, weightAt } from "../../parts/view";
import { linkedPlace, useZoom } from "../../parts/zoom";
import { linkedChoice } from "../../state/linked-signals";
import { colourScale, headName, runAgainOn, traceName, visibleKeys, visibleQueries } from "../../state/state";
import { chooseQuery, hoverQuery, inPlace, lockQuery, pairedKey, pairedQuery, pointAt, type ShownText, shownTexts } from "../../state/texts";
import { differenceAt, type Grid, isComplete, largestDifference, progress, shownGrid, strongestPairs } from "../../state/weights";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { drawPattern, LARGEST_CELL } from "./cells";

const drawnAs = linkedChoice("pattern", "heat", "circles");
const zoomPlaces = [linkedPlace("pattern-at"), linkedPlace("second-pattern-at")];
const LISTED_PAIRS = 200; // the most pairs (query, key) in the table; if there are more, it has those with the largest weights
const MOST_HEIGHT = 620; // of labels and cells, in pixels
const ZOOM = 1.6; // how much larger the cells become at one press of a button or key
const LEGIBLE_CELL = 12; // the size of a cell, in pixels, in a grid with a long side; only a part of this side is in view, and the reader drags the grid along it
const [LEAST_PATTERN, GAP] = [270, 20]; // the least width of patterns that are side by side, and the space between them, in pixels

export function Pattern() {
  const say = words();
  const [box, { width: boxWidth }] = useSize<HTMLDivElement>();
  const texts = shownTexts.value;
  const hasTwoTraces = texts.length > 1;
  const patterns = texts.map((_, traceIndex) => ({ traceIndex, name: traceName(traceIndex), isDifference: false }));
  if (inPlace.value) patterns.push({ traceIndex: 0, name: say.patternDifference, isDifference: true });
  const width = patternWidth(boxWidth, patterns.length);
  const canvases = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)];
  const grid = shownGrid.value;
  const turned = queriesAs.value === "columns";
  const layouts = texts.map((text) => layOut(text, width, turned));
  const nZooms = inPlace.value ? 1 : texts.length; // patterns that can be subtracted are zoomed together
  const zooms = [0, 1].map((i) => useZoom(canvases[i], zoomPlaces[i], { ...(layouts[i] ?? layouts[0]), hasSize: width > 0 && i < nZooms }));
  const zoomOf = (traceIndex: number) => zooms[inPlace.value ? 0 : traceIndex];
  const views = layouts.map(({ left, top, across, base, ...cells }, traceIndex): View => {
    const { x, y, k } = zoomOf(traceIndex);
    // One pixel more in width and height, for the last line of the grid
    return { ...texts[traceIndex], turned, left, top, width: Math.min(across, cells.width + 1), height: cells.height + 1, x, y, size: base * k };
  });
  const circles = drawnAs.value === "circles";
  runAgainOn(progress, dark, colourScale);
  useLayoutEffect(() => {
    if (!width) return;
    patterns.forEach(({ traceIndex, isDifference }, i) => {
      const view = views[traceIndex];
      const patternGrid = traceIndex ? grid?.otherGrid : grid;
      const context = canvases[i].current && cleared(canvases[i].current, view.left + view.width, view.top + view.height);
      if (context && patternGrid) drawPattern(context, patternGrid, texts[traceIndex], view, circles, isDifference);
    });
  });
  const point = (event: MouseEvent, traceIndex: number, choose: typeof hoverQuery) => {
    const { queries, keys } = views[traceIndex];
    const cell = weightAt(views[traceIndex], event.offsetX, event.offsetY);
    if (!cell) return pointAt(null);
    choose(queries[cell.query], traceIndex);
    pointAt(keys[cell.key], traceIndex);
  };
  const readoutText = readout(grid);
  const zoomAll = (factor: number) => zooms.slice(0, nZooms).forEach((zoom) => zoom.scaleBy(factor));
  const resetAll = () => zooms.slice(0, nZooms).forEach((zoom) => zoom.reset());
  /** Choose the weight that is so many rows and columns away from the chosen one, and show it in the middle. */
  const step = (traceIndex: number, rows: number, columns: number) => {
    const { queries, keys, query, key } = texts[traceIndex];
    const indexAfter = (items: Item[], item: Item | null, steps: number) => Math.max(0, Math.min(items.length - 1, item ? items.indexOf(item) + steps : 0));
    const queryIndex = indexAfter(queries, query, turned ? columns : rows);
    const keyIndex = indexAfter(keys, key, turned ? rows : columns);
    chooseQuery(queries[queryIndex], traceIndex);
    pointAt(keys[keyIndex], traceIndex);
    zoomOf(traceIndex).centre(queryIndex, keyIndex);
  };
  const actions = (traceIndex: number) => ({
    ArrowUp: () => step(traceIndex, -1, 0),
    ArrowDown: () => step(traceIndex, 1, 0),
    ArrowLeft: () => step(traceIndex, 0, -1),
    ArrowRight: () => step(traceIndex, 0, 1),
    "+": () => zoomAll(ZOOM),
    "=": () => zoomAll(ZOOM),
    "-": () => zoomAll(1 / ZOOM),
    "0": resetAll,
  });
  const weightColumns = hasTwoTraces ? [traceName(0), traceName(1)] : [say.weight];
  if (inPlace.value) weightColumns.push(say.patternDifference);
  return (
    <Panel
      view="pattern"
      changed
      both
      title={`${say.pattern} · ${headName()}`}
      tools={
        <>
          <Choice label={say.drawnAs} of={drawnAs} options={[["heat", say.heat], ["circles", say.circles]]} />
          <QueriesAs />
          <CellSize factor={ZOOM} zoomed={{ scaleBy: zoomAll, reset: resetAll }} />
        </>
      }
    >
      <Find shows={(item) => zooms[0].centre(visibleQueries.value.indexOf(item), 0)} />
      <p class={readoutText ? "readout" : "readout quiet"} role="status" data-hint={say.patternHint}><span>{readoutText || say.patternHint}</span></p>
      <div class="pattern" ref={box}>
        {patterns.map(({ traceIndex, name, isDifference }, i) => (
          <figure key={i} style={{ width: `${width}px` }}>
            {hasTwoTraces && <figcaption class="caption">{isDifference ? <DifferenceScale grid={grid} /> : <b>{name}</b>}</figcaption>}
            <canvas
              ref={canvases[i]}
              role="application"
              tabIndex={0}
              aria-label={`${hasTwoTraces ? `${name}, ` : ""}${headName()}: ${texts[traceIndex].queries.length} × ${texts[traceIndex].keys.length}. ${say.patternKeys}`}
              onKeyDown={onKeys(actions(traceIndex))}
              onPointerMove={(event) => point(event, traceIndex, hoverQuery)}
              onPointerLeave={() => pointAt(null)}
              onClick={(event) => point(event, traceIndex, lockQuery)}
            />
          </figure>
        ))}
      </div>
      <Legend grid={grid} />
      {grid && isComplete(grid) && <Numbers head={[say.query, say.key, ...weightColumns]} rows={() => tableRows(grid)} />}
    </Panel>
  );
}

/** The width of each pattern, if as many patterns as have room are side by side. */
function patternWidth(boxWidth: number, nPatterns: number): number {
  const widthIf = (nColumns: number) => (boxWidth - (nColumns - 1) * GAP) / nColumns;
  let nColumns = nPatterns;
  while (nColumns > 1 && widthIf(nColumns) < LEAST_PATTERN) nColumns--;
  return widthIf(nColumns);
}

/** How a grid of weights is laid out; all lengths are in pixels. `turned`: whether queries are columns; `left`, `top`: the space for labels; `across`: the width of the room for cells; `width`, `height`: the size of all cells, as far as they have room; `base`: the size of a cell before the reader enlarges it. */
function layOut({ queries, keys }: ShownText, patternWidth: number, turned: boolean) {
  const [rows, columns] = turned ? [keys, queries] : [queries, keys];
  const [left, top] = [labelWidth(rows), labelWidth(columns)];
  const [across, down] = [Math.max(1, patternWidth - left), MOST_HEIGHT - top]; // the room for cells
  const [widest, highest] = [across / columns.length, down / rows.length]; // the sizes of a cell with which all columns, or all rows, are in view
  const fitting = Math.min(widest, highest);
  const isLong = fitting < LEGIBLE_CELL / 2 && Math.max(widest, highest) >= LEGIBLE_CELL;
  const base = isLong ? LEGIBLE_CELL : Math.min(LARGEST_CELL, fitting);
  const [width, height] = [Math.min(across, columns.length * base), Math.min(down, rows.length * base)];
  return { rows: rows.length, columns: columns.length, turned, left, top, across, base, width, height };
}

const labelWidths = new WeakMap<Item[], number>();

function labelWidth(items: Item[]): number {
  const known = labelWidths.get(items);
  if (known) return known;
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = `650 13px ${theme("--sans")}`;
  const longest = [...items].sort((one, other) => other.label.length - one.label.length).slice(0, 400);
  const widths = longest.map((item) => context.measureText(item.label).width);
  const width = Math.ceil(Math.min(104, Math.max(18, ...widths))) + 12;
  labelWidths.set(items, width);
  return width;
}

/** The weight of the chosen query on the chosen key in each trace, and the difference. A pair of tokens that is the same in both traces is named once. */
function readout(grid: Grid | null): string {
  const readouts = [grid, grid?.otherGrid].flatMap((traceGrid, traceIndex) => {
    const { query, key } = shownTexts.value[traceIndex] ?? {};
    if (!traceGrid || !query || !key || query.index >= traceGrid.nComputed) return [];
    const index = query.index * traceGrid.keys.length + key.index;
    return { pair: `${query.label} → ${key.label} `, index, weight: weightOrMasked(traceGrid, index) };
  });
  const texts = readouts.map(({ pair, weight }, i) => (pair === readouts[i - 1]?.pair ? weight : pair + weight));
  if (readouts.length > 1 && inPlace.value) texts.push(`2 − 1: ${differenceText(grid!, readouts[0].index)}`);
  return texts.join(" | ");
}

/** The rows of the table: all pairs (query, key) or, if there are many, those with the largest weights. In a comparison of two texts, pairs that only the second text has come last. */
function tableRows(grid: Grid): string[][] {
  const { otherGrid } = grid;
  const rows = listedPairs(grid).map(({ from, to }) => {
    const row = [from.label, to.label, weightText(grid, from, to)];
    if (otherGrid) row.push(weightText(otherGrid, pairedQuery(from), pairedKey(to)));
    if (inPlace.value) row.push(differenceText(grid, from.index * grid.keys.length + to.index, 5));
    return row;
  });
  if (!otherGrid || inPlace.value) return rows;
  const unpaired = listedPairs(otherGrid).filter(({ from, to }) => !pairedQuery(from) || !pairedKey(to));
  return [...rows, ...unpaired.map(({ from, to }) => [from.label, to.label, "", weightText(otherGrid, from, to)])];
}

function listedPairs(grid: Grid): { from: Item; to: Item }[] {
  const { queries, keys } = shownTexts.value[grid.traceIndex];
  if (queries.length * keys.length > LISTED_PAIRS) return strongestPairs(grid, LISTED_PAIRS);
  return queries.flatMap((from) => keys.map((to) => ({ from, to })));
}

const weightText = (grid: Grid, from?: Item, to?: Item) => (from && to ? weightOrMasked(grid, from.index * grid.keys.length + to.index, 5) : "");

/** The weight in the second trace minus that in the first, as text with its sign; the word for "masked" if the key is masked in both. */
function differenceText(grid: Grid, index: number, decimals = 4): string {
  const difference = differenceAt(grid, index);
  return Number.isNaN(difference) ? words().masked : signed(difference, decimals);
}

function signed(number: number, decimals = 4): string {
  const sign = number ? (number > 0 ? "+" : "−") : "";
  return sign + Math.abs(number).toFixed(decimals);
}

function DifferenceScale({ grid }: { grid: Grid | null }) {
  runAgainOn(progress);
  const largest = grid ? largestDifference(grid, visibleQueries.value, visibleKeys.value) : 0;
  return (
    <>
      <b title={words().patternDifference}>2 − 1</b> {signed(-largest)} <span class="ramp signed" aria-hidden="true" style={{ "--more": shade(1, MORE), "--less": shade(1, LESS) }} /> {signed(largest)}
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
    </p>
  );
}
