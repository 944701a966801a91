// The map: all weights of a head for a long text, which the reader can enlarge down to single weights. The server sends it
// in tiles.

import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared } from "../../parts/canvas";
import { dark } from "../../parts/colours";
import { Find } from "../../parts/find";
import { drawLabels, drawQuery, drawStrongest } from "../../parts/marks";
import { preciseText } from "../../parts/numbers";
import { Caution, CellSize, Choice, Failed, Numbers, Panel, QueriesAs, queriesAs, RankedList } from "../../parts/panel";
import { inView, levelOf, type TilePlace, tilesInView, type View, weightAt } from "../../parts/view";
import { linkedPlace, useZoom } from "../../parts/zoom";
import { linkedChoice } from "../../state/linked-signals";
import { colourScale, head, headName, hidden, key, keyItems, kindName, layerNumber, query, queryItems, trace, visibleKeys, visibleQueries } from "../../state/state";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { drawTiles, largestInView, numberAt } from "./draw";
import { loadTile, strongestKeys, computeLevels, type MapHead, type Pool, type Progress } from "./server";
import { type Square, squareOf, Tiles } from "./tiles";

const HEIGHT = 640; // the height of the map in a wide window, in pixels; in a narrow window, it is as high as it is wide
const LISTED = 200; // the most cells of the map that the table below it lists as numbers
const EDGE = 8; // the space at the right and below the weights, in pixels: half a label may reach into it
const READABLE = 24; // after a jump to a weight, its cell has at least this size, in pixels
const STEP = 0.15; // an arrow key moves the map by this share of the part in view

const pool = linkedChoice<Pool>("cell", "max", "mean");
const zoomPlace = linkedPlace("map-at");
const strongest = signal<[number, number][]>([]); // the positions and weights of the chosen query's strongest keys, largest weight first
const strongestFailure = signal(""); // why the strongest keys could not be loaded; "" = no failure
const timesAsked = signal(0); // rises when the reader requests the strongest keys again, after a failure
const target = signal<[number, number] | null>(null); // the positions of a query and a key to which the map shall move; null = none

const headPlace = (): MapHead => ({ map: trace.value.map!.number, kind: kindName.value, layer: layerNumber.value, head: head.value, hidden: hidden.value });

export function MapView() {
  const say = words();
  const map = trace.value.map!;
  const [box, { width: whole }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const place = headPlace();
  const head = [map, place.kind, place.layer, place.head, place.hidden];
  const levels = useLevels(head);
  const { view, zoomed } = useView(canvas, whole);
  const level = levelOf(view);
  const tiles = useTiles(head, view, whole > 0, levels);
  useTarget(view, zoomed, whole > 0);
  useStrongest([...head, query.value, timesAsked.value]);
  const largest = colourScale.value === "row" ? largestInView(tiles, view, map.tile) : 1;
  void [dark.value, tiles.arrived.value];
  useEffect(() => void (whole && draw(canvas.current!, whole, tiles, view, largest)));
  const pointed = useMemo(() => signal<Tokens | null>(null), []);
  const at = pointed.value && pointed.value.query < view.queries.length && pointed.value.key < view.keys.length ? pointed.value : null;
  const square = at && squareOf(view, level, at.query, at.key);
  const pools = <Choice label={say.zoomCell} of={pool} options={[["max", say.zoomLargest], ["mean", say.zoomMean]]} />;
  const tools = <>{pools} <QueriesAs /> <CellSize factor={2} zoomed={zoomed} /></>;
  return (
    <Panel view="pattern" title={say.pattern} wide tools={tools}>
      <Find shows={(item) => (target.value = [item.positions[0], Math.min(item.positions[0], keyItems.value.length - 1)])} />
      <LevelProgress levels={levels} />
      <MissingTile tiles={tiles} />
      <p class={square ? "readout" : "readout quiet"} role="status">{square ? readout(square, tiles, map.tile) : say.zoomHint}</p>
      <div class="pattern" ref={box}>
        <MapCanvas canvas={canvas} view={view} zoomed={zoomed} pointed={pointed} />
      </div>
      <Legend level={level} largest={largest} />
      <Caution />
      <Numbers head={[say.queries, say.keys, say.weight]} rows={() => strongestCells(tiles, view, map.tile)} />
    </Panel>
  );
}

/** A query and a key, as indices into the visible tokens. */
interface Tokens {
  query: number;
  key: number;
}

interface CanvasProps {
  canvas: { current: HTMLCanvasElement | null };
  view: View;
  zoomed: ReturnType<typeof useZoom>;
  pointed: Signal<Tokens | null>; // the canvas sets it to the query and key under the pointer; null = no weight is under it
}

/** The canvas of the map. With pointer or keyboard, the reader moves the map, reads a weight, and chooses a query and a key. */
function MapCanvas({ canvas, view, zoomed, pointed }: CanvasProps) {
  const { queries, keys, left, top, width, height } = view;
  const at = (event: MouseEvent) => weightAt(view, event.offsetX, event.offsetY);
  const middle = () => weightAt(view, left + width / 2, top + height / 2);
  const choose = (tokens: Tokens | null) => {
    if (tokens) [query.value, key.value] = [queries[tokens.query].positions[0], keys[tokens.key].positions[0]];
  };
  const actions: Record<string, () => void> = {
    ArrowLeft: () => zoomed.moveBy(-STEP * width, 0),
    ArrowRight: () => zoomed.moveBy(STEP * width, 0),
    ArrowUp: () => zoomed.moveBy(0, -STEP * height),
    ArrowDown: () => zoomed.moveBy(0, STEP * height),
    "+": () => zoomed.scaleBy(2),
    "=": () => zoomed.scaleBy(2),
    "-": () => zoomed.scaleBy(1 / 2),
    "0": zoomed.reset,
    Enter: () => choose(middle()),
  };
  return (
    <canvas
      ref={canvas}
      role="application"
      tabIndex={0}
      aria-label={`${headName()}: ${queries.length} × ${keys.length}. ${words().zoomHint}`}
      data-level={levelOf(view)}
      onPointerMove={(event) => (pointed.value = at(event))}
      onPointerLeave={() => (pointed.value = null)}
      onClick={(event) => choose(at(event))}
      onDblClick={() => zoomed.scaleBy(4)}
      onFocus={() => (pointed.value ??= middle())}
      onKeyDown={(event) => {
        if (!actions[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        event.stopPropagation();
        actions[event.key]();
      }}
      onKeyUp={() => (pointed.value = middle())}
    />
  );
}

/** Return which part of the weights the canvas shows, and the zoom that changes it. `whole`: the width of the canvas, in pixels. */
function useView(canvas: { current: HTMLCanvasElement | null }, whole: number) {
  const [queries, keys] = [visibleQueries.value, visibleKeys.value];
  const turned = queriesAs.value === "columns";
  const [rows, columns] = turned ? [keys.length, queries.length] : [queries.length, keys.length];
  const [left, top] = whole < 600 ? [100, 100] : [118, 104];
  const [width, height] = [Math.max(1, whole - left - EDGE), heightOf(whole, top) - top - EDGE];
  const base = Math.min(width / columns, height / rows);
  const zoomed = useZoom(canvas, zoomPlace, { shown: whole > 0, base, rows, columns, turned, left, top, width, height });
  const view: View = { queries, keys, turned, left, top, width, height, x: zoomed.x, y: zoomed.y, size: base * zoomed.k };
  return { view, zoomed };
}

/** The height of the canvas in pixels. `whole`: its width; `top`: the height of the labels above the weights. */
const heightOf = (whole: number, top: number) => Math.min(HEIGHT, Math.max(top + 120, whole - EDGE)) + EDGE;

/**
 * Return the tiles of a head, and load those that are needed (see `tilesToLoad`). Tiles of the levels from `WeightMap.stored` up are
 * loaded only after the server has computed these levels. `head`: values that change when another head is shown.
 */
function useTiles(head: unknown[], view: View, shown: boolean, { progress }: Levels): Tiles {
  const map = trace.value.map!;
  const place = headPlace();
  const tiles = useMemo(() => new Tiles((tile, end) => loadTile(map, place, pool.value, view.queries.length, tile, end)), [...head, pool.value]);
  const ready = progress.value !== null && progress.value.done === progress.value.of;
  const level = levelOf(view);
  useEffect(() => {
    if (shown) tiles.want(tilesToLoad(view, level, map.tile).filter((one) => one.level < map.stored || ready));
  }, [tiles, shown, view.width, view.turned, view.x, view.y, view.size, level, ready]);
  useEffect(() => () => tiles.want([]), [tiles]);
  return tiles;
}

/** Move the map so that the weight of the query on the key in `target` is in the middle; then set `target` to null. */
function useTarget(view: View, zoomed: ReturnType<typeof useZoom>, shown: boolean): void {
  useEffect(() => {
    if (!target.value || !shown) return;
    const [at, to] = [placeOf(visibleQueries.value, target.value[0]), placeOf(visibleKeys.value, target.value[1])];
    zoomed.centre(...((view.turned ? [to, at] : [at, to]) as [number, number]), READABLE);
    target.value = null;
  }, [target.value, shown]);
}

function draw(canvas: HTMLCanvasElement, whole: number, tiles: Tiles, view: View, largest: number): void {
  const context = cleared(canvas, whole, heightOf(whole, view.top));
  const [chosen, seen] = [shownPlace(view.queries, query.value), shownPlace(view.keys, strongest.value[0]?.[0])];
  drawTiles(context, tiles, view, trace.value.map!.tile, largest);
  if (chosen !== null) drawQuery(context, view, chosen);
  if (chosen !== null && seen !== null) drawStrongest(context, view, chosen, seen, true);
  drawLabels(context, view, chosen, shownPlace(view.keys, key.value), true);
}

/** The tiles to load, in this order: the tiles in view, those of the same part two levels coarser, and those around the tiles in view. */
function tilesToLoad(view: View, level: number, tile: number): TilePlace[] {
  const shown = tilesInView(view, level, tile);
  return [...shown, ...tilesInView(view, level + 2, tile), ...tilesInView(view, level, tile, 1)];
}

/** How far the server has computed the levels of one head from `WeightMap.stored` up (see `computeLevels`), and whether it goes on. */
interface Levels {
  progress: Signal<Progress | null>; // null = the server has not answered yet
  stopped: Signal<boolean>; // true = the reader or a failure has stopped the computation
  failure: Signal<string>; // the reason of a failure; "" = no failure
}

/**
 * Let the server compute the levels of the shown head from `WeightMap.stored` up, until they are done, the reader stops it, or a
 * request fails. Returns the state of this computation. `head`: values that change when another head is shown.
 */
function useLevels(head: unknown[]): Levels {
  const levels = useMemo((): Levels => ({ progress: signal(null), stopped: signal(false), failure: signal("") }), head);
  useEffect(() => {
    if (levels.stopped.value) return;
    const own = new AbortController();
    computeLevels(headPlace(), own.signal, (now) => (levels.progress.value = now)).catch((error: Error) => {
      if (!own.signal.aborted) [levels.stopped.value, levels.failure.value] = [true, error.message];
    });
    return () => own.abort();
  }, [levels, levels.stopped.value]);
  return levels;
}

/** A line with the reason why a tile in view is missing; nothing if no tile failed to load. */
function MissingTile({ tiles }: { tiles: Tiles }) {
  const say = words();
  const failure = tiles.failure.value;
  if (!failure) return null;
  const { reason, givenUp } = failure;
  return <Failed reason={givenUp ? say.zoomMissing(reason) : say.zoomMissingNow(reason)} again={givenUp ? () => tiles.tryAgain() : undefined} />;
}

/** The progress of the server's computation of levels (see `Levels`), with a button that stops or resumes it; nothing when it is done. */
function LevelProgress({ levels: { progress, stopped, failure } }: { levels: Levels }) {
  const say = words();
  const { done, of } = progress.value ?? { done: 0, of: 1 };
  if (done === of) return null;
  const percent = Math.floor((100 * done) / of);
  return (
    <p class="turns">
      <progress value={done} max={of} aria-label={say.zoomComputing(percent)} />
      <span>{stopped.value ? say.zoomStopped(percent) : say.zoomComputing(percent)}</span>
      <button type="button" onClick={() => ([stopped.value, failure.value] = [!stopped.value, ""])}>{stopped.value ? say.goOn : say.cancel}</button>
      {failure.value && <span role="alert">{failure.value}</span>}
    </p>
  );
}

function useStrongest(chosen: unknown[]): void {
  useEffect(() => {
    [strongest.value, strongestFailure.value] = [[], ""];
    if (query.value === null) return;
    const own = new AbortController();
    strongestKeys(headPlace(), query.value, own.signal).then(
      (found) => (strongest.value = found),
      (error: Error) => void (own.signal.aborted || (strongestFailure.value = error.message)),
    );
    return () => own.abort();
  }, chosen);
}

/** The index, among visible tokens, of the token at a position of the text or, if it is hidden, of the next visible token. */
function placeOf(items: Item[], position: number): number {
  let [from, to] = [0, items.length - 1];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (items[middle].positions[0] < position) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The index, among visible tokens, of the token at a position of the text; null if it is hidden, or if there is no position. */
function shownPlace(items: Item[], position: number | null | undefined): number | null {
  const place = placeOf(items, position ?? 0);
  return items[place]?.positions[0] === position ? place : null;
}

/** The positions in the text of the first and the last token of a range of visible tokens. */
const positionsOf = (items: Item[], [first, last]: [number, number]): [number, number] => [items[first].positions[0], items[last].positions[0]];

const queriesText = (range: [number, number]) => span(positionsOf(visibleQueries.value, range));
const keysText = (range: [number, number]) => span(positionsOf(visibleKeys.value, range));

const span = ([first, last]: [number, number]) =>
  first === last ? first.toLocaleString("en") : `${first.toLocaleString("en")}–${last.toLocaleString("en")}`;

/** The text for the cell under the pointer: "queries 1,024–1,087, keys 0–63: the largest weight is 0.0123"; for a single weight, "5 it → 2 snake 0.0123". */
function readout({ level, queries, keys }: Square, tiles: Tiles, tile: number): string {
  const say = words();
  const number = numberAt(tiles, tile, level, queries[0] / 2 ** level, keys[0] / 2 ** level);
  if (number === undefined) return "…";
  if (level > 0) {
    if (Number.isNaN(number)) return say.zoomHidden(queriesText(queries), keysText(keys));
    return say.zoomRead(pool.value, queriesText(queries), keysText(keys), preciseText(number));
  }
  const [from, to] = [visibleQueries.value[queries[0]], visibleKeys.value[keys[0]]];
  return `${queriesText(queries)} ${from.text} → ${keysText(keys)} ${to.text} ${Number.isNaN(number) ? say.masked : preciseText(number)}`;
}

/** The rows of the table: the cells in view with the largest numbers, each with its queries and keys. */
function strongestCells(tiles: Tiles, view: View, tile: number): string[][] {
  const level = levelOf(view);
  const side = 2 ** level;
  const { queries, keys } = inView(view);
  const found: { number: number; row: number; column: number }[] = [];
  for (let row = Math.floor(queries[0] / side); row * side < queries[1]; row++) {
    for (let column = Math.floor(keys[0] / side); column * side < keys[1]; column++) {
      const number = numberAt(tiles, tile, level, row, column);
      if (number !== undefined && !Number.isNaN(number)) found.push({ number, row, column });
    }
  }
  found.sort((a, b) => b.number - a.number);
  return found.slice(0, LISTED).map(({ number, row, column }) => {
    const square = squareOf(view, level, row * side, column * side);
    return [queriesText(square.queries), keysText(square.keys), preciseText(number)];
  });
}

function Legend({ level, largest }: { level: number; largest: number }) {
  const say = words();
  const low = colourScale.value === "log" ? "0.000001" : "0";
  const high = colourScale.value === "row" ? String(largest) : "1";
  return (
    <p class="legend">
      {low} <span class="ramp" aria-hidden="true" /> {high}
      <span class="masked-legend"><span class="grey" aria-hidden="true" /> {say.legendMasked}</span>
      <strong>{level === 0 ? say.zoomOne : say.zoomSquare(pool.value, (2 ** level).toLocaleString("en"))}</strong>
    </p>
  );
}

/** The panel with the chosen query's strongest keys. A click on a key moves the map to its weight. */
export function MapStrongest() {
  const say = words();
  const from = query.value === null ? null : queryItems.value[query.value];
  const place = headPlace();
  const name = headName(place.layer, place.head);
  return (
    <Panel view="strongest" title={from ? say.strongest(from.label, name) : say.strongestAll(name)}>
      {strongestFailure.value && <Failed reason={strongestFailure.value} again={() => (timesAsked.value += 1)} />}
      <RankedList lines={(from ? strongest.value : []).map(([to, weight]) => ({
        name: `${to.toLocaleString("en")} ${keyItems.value[to].text}`,
        number: preciseText(weight),
        share: weight / strongest.value[0][1],
        title: say.zoomJump,
        choose: () => ([key.value, target.value] = [to, [query.value!, to]]),
      }))} />
    </Panel>
  );
}
