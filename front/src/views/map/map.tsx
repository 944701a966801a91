// The map: all weights of a head for a long text. The reader can enlarge it down to single weights; the server sends it in square parts (tiles).

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared } from "../../parts/canvas";
import { dark } from "../../parts/colours";
import { Find } from "../../parts/find";
import { drawLabels, drawQuery, drawStrongest } from "../../parts/marks";
import { onKeys } from "../../parts/keys";
import { Caution, CellSize, Choice, Failed, Numbers, Panel, QueriesAs, queriesAs } from "../../parts/panel";
import { levelOf, type TilePlace, tilesInView, type View, weightAt } from "../../parts/view";
import { linkedPlace, useZoom } from "../../parts/zoom";
import { colourScale, headName, key, keyItems, query, runAgainOn, trace, visibleKeys, visibleQueries } from "../../state/state";
import type { Item } from "../../trace/items";
import { words } from "../../words";
import { readout, squareOf, strongestCells } from "./cells";
import { drawTiles, largestInView } from "./draw";
import { LevelProgress, type Levels, useLevels } from "./levels";
import { strongest, target } from "./map-strongest";
import { mapHead, pool, tilesOfHead } from "./server";
import type { Tiles } from "./tiles";

const HEIGHT = 640; // the height of the map in a wide window, in pixels; in a narrow window, it is as high as it is wide
const EDGE = 8; // the space at the right and below the weights, in pixels: half a label may reach into it
const READABLE = 24; // after a jump to a weight, its cell has at least this size, in pixels
const STEP = 0.15; // an arrow key moves the map by this share of the part in view

const zoomPlace = linkedPlace("map-at");

export function MapView() {
  const say = words();
  const [box, { width: canvasWidth }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const levels = useLevels();
  const { view, zoomed } = useView(canvas, canvasWidth);
  const level = levelOf(view);
  const tiles = useTiles(view, canvasWidth > 0, levels);
  useTarget(zoomed, canvasWidth > 0);
  const largest = colourScale.value === "row" ? largestInView(tiles, view) : 1;
  runAgainOn(dark, tiles.arrived, strongest, query, key);
  useLayoutEffect(() => void (canvasWidth && draw(canvas.current!, canvasWidth, tiles, view, largest)));
  const pointed = useSignal<Pair | null>(null);
  const pair = pointed.value;
  const isVisible = pair !== null && pair.query < view.queries.length && pair.key < view.keys.length; // tokens may have been hidden since
  const square = isVisible ? squareOf(view, level, pair.query, pair.key) : null;
  const pools = <Choice label={say.mapCell} of={pool} options={[["max", say.mapLargest], ["mean", say.mapMean]]} />;
  const tools = <>{pools} <QueriesAs /> <CellSize factor={2} zoomed={zoomed} /></>;
  return (
    <Panel view="pattern" title={`${say.pattern} · ${headName()}`} wide tools={tools}>
      <Find shows={(item) => (target.value = [item.positions[0], Math.min(item.positions[0], keyItems.value.length - 1)])} />
      <LevelProgress levels={levels} />
      <MissingTile tiles={tiles} />
      <p class={square ? "readout" : "readout quiet"} role="status" data-hint={say.mapHint}><span>{square ? readout(square, tiles) : say.mapHint}</span></p>
      <div class="pattern" ref={box}>
        <MapCanvas canvas={canvas} view={view} zoomed={zoomed} pointed={pointed} />
      </div>
      <Legend level={level} largest={largest} />
      <Caution />
      <Numbers head={[say.queries, say.keys, say.weight]} rows={() => strongestCells(tiles, view)} />
    </Panel>
  );
}

/** A query and a key, as indices into the visible tokens. */
interface Pair {
  query: number;
  key: number;
}

interface CanvasProps {
  canvas: { current: HTMLCanvasElement | null };
  view: View;
  zoomed: ReturnType<typeof useZoom>;
  pointed: Signal<Pair | null>; // the canvas sets it to the query and key under the pointer; null = no weight is under it
}

/** The canvas of the map. With pointer or keyboard, the reader moves the map, reads a weight, and chooses a query and a key. */
function MapCanvas({ canvas, view, zoomed, pointed }: CanvasProps) {
  const { queries, keys, left, top, width, height } = view;
  const pairAt = (event: MouseEvent) => weightAt(view, event.offsetX, event.offsetY);
  const middlePair = () => weightAt(view, left + width / 2, top + height / 2);
  const choose = (pair: Pair | null) => {
    if (pair) [query.value, key.value] = [queries[pair.query].positions[0], keys[pair.key].positions[0]];
  };
  const actions = {
    ArrowLeft: () => zoomed.moveBy(-STEP * width, 0),
    ArrowRight: () => zoomed.moveBy(STEP * width, 0),
    ArrowUp: () => zoomed.moveBy(0, -STEP * height),
    ArrowDown: () => zoomed.moveBy(0, STEP * height),
    "+": () => zoomed.scaleBy(2),
    "=": () => zoomed.scaleBy(2),
    "-": () => zoomed.scaleBy(1 / 2),
    "0": zoomed.reset,
    Enter: () => choose(middlePair()),
  };
  return (
    <canvas
      ref={canvas}
      role="application"
      tabIndex={0}
      aria-label={`${headName()}: ${queries.length} × ${keys.length}. ${words().mapHint}`}
      data-level={levelOf(view)}
      onPointerMove={(event) => (pointed.value = pairAt(event))}
      onPointerLeave={() => (pointed.value = null)}
      onClick={(event) => choose(pairAt(event))}
      onDblClick={() => zoomed.scaleBy(4)}
      onFocus={() => (pointed.value ??= middlePair())}
      onKeyDown={onKeys(actions)}
      onKeyUp={() => (pointed.value = middlePair())}
    />
  );
}

/** Return which part of the weights the canvas shows, and the zoom that changes it. */
function useView(canvas: { current: HTMLCanvasElement | null }, canvasWidth: number) {
  const [queries, keys] = [visibleQueries.value, visibleKeys.value];
  const turned = queriesAs.value === "columns";
  const [rows, columns] = turned ? [keys.length, queries.length] : [queries.length, keys.length];
  const [left, top] = canvasWidth < 600 ? [100, 100] : [118, 104];
  const [width, height] = [Math.max(1, canvasWidth - left - EDGE), heightOf(canvasWidth, top) - top - EDGE];
  const base = Math.min(width / columns, height / rows);
  const zoomed = useZoom(canvas, zoomPlace, { hasSize: canvasWidth > 0, base, rows, columns, turned, left, top, width, height });
  const view: View = { queries, keys, turned, left, top, width, height, x: zoomed.x, y: zoomed.y, size: base * zoomed.k };
  return { view, zoomed };
}

/** The height of the canvas. `top`: the height of the labels above the weights. All lengths are in pixels. */
const heightOf = (canvasWidth: number, top: number) => Math.min(HEIGHT, Math.max(top + 120, canvasWidth - EDGE)) + EDGE;

/** Load the tiles in view. Tiles of the coarse levels, in which a cell stands for many weights, wait until the server has computed these levels. */
function useTiles(view: View, hasSize: boolean, { progress }: Levels): Tiles {
  const { stored } = trace.value.map!;
  const tiles = useMemo(() => tilesOfHead(view.queries.length), [mapHead.value, pool.value]);
  const hasCoarseLevels = progress.value !== null && progress.value.done === progress.value.of;
  const level = levelOf(view);
  useEffect(() => {
    if (hasSize) tiles.want(tilesToLoad(view, level, tiles.side).filter((tile) => tile.level < stored || hasCoarseLevels));
  }, [tiles, hasSize, view.width, view.turned, view.x, view.y, view.size, level, hasCoarseLevels]);
  useEffect(() => () => tiles.want([]), [tiles]);
  return tiles;
}

/** Move the map so that the weight of the query on the key in `target` is in the middle; then set `target` to null. */
function useTarget(zoomed: ReturnType<typeof useZoom>, hasSize: boolean): void {
  useEffect(() => {
    if (!target.value || !hasSize) return;
    const [queryPosition, keyPosition] = target.value;
    zoomed.centre(placeOf(visibleQueries.value, queryPosition), placeOf(visibleKeys.value, keyPosition), READABLE);
    target.value = null;
  }, [target.value, hasSize]);
}

function draw(canvas: HTMLCanvasElement, canvasWidth: number, tiles: Tiles, view: View, largest: number): void {
  const context = cleared(canvas, canvasWidth, heightOf(canvasWidth, view.top));
  const queryPlace = shownPlace(view.queries, query.value);
  const strongestPlace = shownPlace(view.keys, strongest.value[0]?.[0]);
  drawTiles(context, tiles, view, largest);
  if (queryPlace !== null) drawQuery(context, view, queryPlace);
  if (queryPlace !== null && strongestPlace !== null) drawStrongest(context, view, queryPlace, strongestPlace, true);
  drawLabels(context, view, queryPlace, shownPlace(view.keys, key.value), true);
}

/** The tiles to load, in this order: the tiles in view, coarser tiles (two levels higher) of the part in view, and the tiles around the tiles in view. */
const tilesToLoad = (view: View, level: number, side: number): TilePlace[] => [
  ...tilesInView(view, level, side),
  ...tilesInView(view, level + 2, side),
  ...tilesInView(view, level, side, 1),
];

/** The index, among visible tokens, of the token at a position of the text or, if it is hidden, of the next visible token. */
function placeOf(items: Item[], position: number): number {
  let [first, last] = [0, items.length - 1];
  while (first < last) {
    const middle = (first + last) >> 1;
    if (items[middle].positions[0] < position) first = middle + 1;
    else last = middle;
  }
  return first;
}

/** The index, among visible tokens, of the token at a position of the text; null if it is hidden, or if there is no position. */
function shownPlace(items: Item[], position: number | null | undefined): number | null {
  const place = placeOf(items, position ?? 0);
  return items[place]?.positions[0] === position ? place : null;
}

function MissingTile({ tiles }: { tiles: Tiles }) {
  const say = words();
  if (!tiles.failure.value) return null;
  const { reason, givenUp } = tiles.failure.value;
  return <Failed reason={givenUp ? say.mapMissing(reason) : say.mapMissingNow(reason)} again={givenUp ? () => tiles.tryAgain() : undefined} />;
}

function Legend({ level, largest }: { level: number; largest: number }) {
  const say = words();
  const low = colourScale.value === "log" ? "0.000001" : "0";
  const high = colourScale.value === "row" ? String(largest) : "1";
  return (
    <p class="legend">
      {low} <span class="ramp" aria-hidden="true" /> {high}
      <span class="masked-legend"><span class="grey" aria-hidden="true" /> {say.legendMasked}</span>
      <strong>{level === 0 ? say.mapOne : say.mapSquare(pool.value, (2 ** level).toLocaleString("en"))}</strong>
    </p>
  );
}
