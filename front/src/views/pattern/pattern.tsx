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
const LISTED = 200; // the most pairs (query, key) in the table; if there are more, it has those with the largest weights
const MOST_HEIGHT = 620;
const ZOOM = 1.6; // how much larger the cells become at one press of a button or key
const LEGIBLE_CELL = 12; // the size of a cell, in pixels, in a grid with a long side; only a part of this side is in view, and the reader drags the grid along it
const [LEAST_PATTERN, GAP] = [270, 20]; // the least width of patterns that are side by side, and the space between them, in pixels

export function Pattern() {
  const say = words();
  const [box, { width: whole }] = useSize<HTMLDivElement>();
  const texts = shownTexts.value;
  const two = texts.length > 1;
  const beside = two ? [inPlace.value ? 3 : 2, 2, 1].find((count) => (whole - (count - 1) * GAP) / count >= LEAST_PATTERN) ?? 1 : 1;
  const width = (whole - (beside - 1) * GAP) / beside;
  const canvases = [useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null), useRef<HTMLCanvasElement>(null)];
  const grid = shownGrid.value;
  const turned = queriesAs.value === "columns";
  const laid = texts.map((text) => layOut(text, width, turned));
  const zoomed = [0, 1].map((place) => useZoom(canvases[place], zoomPlaces[place], { ...(laid[place] ?? laid[0]), shown: width > 0 && (!place || (two && !inPlace.value)) }));
  const views = laid.map((one, place): View => {
    const { x, y, k } = zoomed[inPlace.value ? 0 : place];
    // One pixel more in width and height, for the last line of the grid
    return { ...texts[place], turned, left: one.left, top: one.top, width: Math.min(one.across, one.width + 1), height: one.height + 1, x, y, size: one.base * k };
  });
  const circles = drawnAs.value === "circles";
  const drawn = [...texts.map((_, place) => ({ place, name: traceName(place), difference: false })), ...(inPlace.value ? [{ place: 0, name: say.patternDifference, difference: true }] : [])];
  runAgainOn(progress, dark, colourScale);
  useLayoutEffect(() => {
    if (!width) return;
    drawn.forEach(({ place, difference }, i) => {
      const [view, shown] = [views[place], place ? grid?.beside : grid];
      const context = canvases[i].current && cleared(canvases[i].current, view.left + view.width, view.top + view.height);
      if (context && shown) drawPattern(context, shown, texts[place], view, circles, difference);
    });
  });
  const point = (event: MouseEvent, place: number, click = false) => {
    const view = views[place];
    const at = weightAt(view, event.offsetX, event.offsetY);
    if (!at) return pointAt(null);
    (click ? lockQuery : hoverQuery)(view.queries[at.query], place);
    pointAt(view.keys[at.key], place);
  };
  const read = readout(grid);
  const toAll = (move: (one: (typeof zoomed)[0]) => void) => zoomed.slice(0, inPlace.value ? 1 : texts.length).forEach(move);
  /** Choose the weight that is so many rows and columns away from the chosen one, and show it in the middle. */
  const step = (place: number, rows: number, columns: number) => {
    const { queries, keys, query: from, key: to } = texts[place];
    const near = (items: Item[], item: Item | null, steps: number) => Math.max(0, Math.min(items.length - 1, item ? items.indexOf(item) + steps : 0));
    const [q, k] = [near(queries, from, turned ? columns : rows), near(keys, to, turned ? rows : columns)];
    chooseQuery(queries[q], place);
    pointAt(keys[k], place);
    zoomed[inPlace.value ? 0 : place].centre(q, k);
  };
  const actions = (place: number) => ({
    ArrowUp: () => step(place, -1, 0),
    ArrowDown: () => step(place, 1, 0),
    ArrowLeft: () => step(place, 0, -1),
    ArrowRight: () => step(place, 0, 1),
    "+": () => toAll((one) => one.scaleBy(ZOOM)),
    "=": () => toAll((one) => one.scaleBy(ZOOM)),
    "-": () => toAll((one) => one.scaleBy(1 / ZOOM)),
    "0": () => toAll((one) => one.reset()),
  });
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
          <CellSize factor={ZOOM} zoomed={{ scaleBy: (factor) => toAll((one) => one.scaleBy(factor)), reset: () => toAll((one) => one.reset()) }} />
        </>
      }
    >
      <Find shows={(item) => zoomed[0].centre(item.index, 0)} />
      <p class={read ? "readout" : "readout quiet"} role="status" data-hint={say.patternHint}><span>{read || say.patternHint}</span></p>
      <div class="pattern" ref={box}>
        {drawn.map(({ place, name, difference }, i) => (
          <figure key={i} style={{ width: `${width}px` }}>
            {two && <figcaption class="caption">{difference ? <DifferenceScale grid={grid} /> : <b>{name}</b>}</figcaption>}
            <canvas
              ref={canvases[i]}
              role="application"
              tabIndex={0}
              aria-label={`${two ? `${name}, ` : ""}${headName()}: ${texts[place].queries.length} × ${texts[place].keys.length}. ${say.patternKeys}`}
              onKeyDown={onKeys(actions(place))}
              onPointerMove={(event) => point(event, place)}
              onPointerLeave={() => pointAt(null)}
              onClick={(event) => point(event, place, true)}
            />
          </figure>
        ))}
      </div>
      <Legend grid={grid} />
      {grid && isComplete(grid) && (
        <Numbers head={[say.query, say.key, ...(two ? [0, 1].map(traceName) : [say.weight]), ...(inPlace.value ? [say.patternDifference] : [])]} rows={() => tableRows(grid)} />
      )}
    </Panel>
  );
}

/** How a grid of weights is laid out; all lengths are in pixels. `turned`: whether queries are columns; `left`, `top`: the space for labels; `base`: the size of a cell before the reader enlarges it. */
function layOut({ queries, keys }: ShownText, width: number, turned: boolean) {
  const [rows, columns] = turned ? [keys, queries] : [queries, keys];
  const [left, top] = [labelWidth(rows), labelWidth(columns)];
  const [across, down] = [Math.max(1, width - left), MOST_HEIGHT - top]; // the room for cells
  const [widest, highest] = [across / columns.length, down / rows.length]; // the sizes of a cell with which all columns, or all rows, are in view
  const small = Math.min(widest, highest);
  const isLong = small < LEGIBLE_CELL / 2 && Math.max(widest, highest) >= LEGIBLE_CELL;
  const base = isLong ? LEGIBLE_CELL : Math.min(LARGEST_CELL, small);
  const size = { width: Math.min(across, columns.length * base), height: Math.min(down, rows.length * base) };
  return { rows: rows.length, columns: columns.length, turned, left, top, across, base, ...size };
}

const labelWidths = new WeakMap<Item[], number>();

function labelWidth(items: Item[]): number {
  const known = labelWidths.get(items);
  if (known) return known;
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = `650 13px ${theme("--sans")}`;
  const widths = items.slice(0, 400).map((item) => context.measureText(item.label).width);
  const width = Math.ceil(Math.min(104, Math.max(18, ...widths))) + 12;
  labelWidths.set(items, width);
  return width;
}

function readout(grid: Grid | null): string {
  const parts = [grid, grid?.beside].flatMap((one, place) => {
    const { query: from, key: to } = shownTexts.value[place] ?? {};
    if (!one || !from || !to || from.index >= one.done) return [];
    return { name: `${from.label} → ${to.label} `, at: from.index * one.keys.length + to.index, grid: one };
  });
  const texts = parts.map(({ name, grid: one, at }, i) => `${name === parts[i - 1]?.name ? "" : name}${weightOrMasked(one, at)}`);
  const difference = parts.length > 1 && inPlace.value ? [`2 − 1: ${differenceText(grid!, parts[0].at)}`] : [];
  return [...texts, ...difference].join(" | ");
}

/** The rows of the table: all pairs (query, key) or, if there are many, those with the largest weights. In a comparison of two texts, pairs that only the second text has come last. */
function tableRows(grid: Grid): string[][] {
  const weightAt = (one: Grid, from?: Item, to?: Item) => (from && to ? weightOrMasked(one, from.index * one.keys.length + to.index, 5) : "");
  const listed = (one: Grid) => {
    const { queries, keys } = shownTexts.value[one.traceIndex];
    const isShort = queries.length * keys.length <= LISTED;
    return isShort ? queries.flatMap((from) => keys.map((to) => ({ from, to }))) : strongestPairs(one, LISTED);
  };
  const { beside } = grid;
  const own = listed(grid).map(({ from, to }) => [
    from.label,
    to.label,
    weightAt(grid, from, to),
    ...(beside ? [weightAt(beside, pairedQuery(from), pairedKey(to))] : []),
    ...(inPlace.value ? [differenceText(grid, from.index * grid.keys.length + to.index, 5)] : []),
  ]);
  if (!beside || inPlace.value) return own;
  return [...own, ...listed(beside).filter(({ from, to }) => !pairedQuery(from) || !pairedKey(to)).map(({ from, to }) => [from.label, to.label, "", weightAt(beside, from, to)])];
}

/** The weight in the second trace minus that in the first, as text with its sign; the word for "masked" if the key is masked in both. */
function differenceText(grid: Grid, at: number, decimals = 4): string {
  const difference = differenceAt(grid, at);
  return Number.isNaN(difference) ? words().masked : signed(difference, decimals);
}

const signed = (number: number, decimals = 4) => `${number > 0 ? "+" : number < 0 ? "−" : ""}${Math.abs(number).toFixed(decimals)}`;

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
