// Draw the map of a head (all its weights, see map/tiles.ts): tiles, labels along both axes, the chosen query, its strongest key

import { clip, putPixels } from "../canvas";
import { bytesOf, dark, shades, theme } from "../colours";
import type { Item } from "../items";
import { drawArrow, shortened } from "../views/cells";
import type { Tile, Tiles } from "./tiles";
import { axes, inView, levelOf, tilesInView, type View } from "./view";

const LABEL_PITCH = 15; // the least distance between two labels, in pixels
const LEAST_NUMBER = 42; // in cells of at least this size, in pixels, the weight is written as a number
const FAINTEST = 1e-6; // on the logarithmic scale, this number and smaller ones have strength 0
const COARSER = 12; // how many coarser levels are searched for a tile that can be shown while a tile in view is missing

const MIRRORED = [0, 1, 1, 0, 0, 0] as const; // the transform that swaps both axes

/** How the numbers of a map are turned into colours. */
export interface Colours {
  scale: "absolute" | "row" | "log";
  largest: number; // the number that has the full colour on the relative scale ("row")
  hue: number;
}

/** The strength (0 to 1) with which a number is drawn on a colour scale. */
export function strengthOf(number: number, { scale, largest }: Colours): number {
  if (scale === "log") return number <= FAINTEST ? 0 : Math.min(1, 1 - Math.log(number) / Math.log(FAINTEST));
  return Math.min(1, Math.max(0, scale === "row" ? (largest ? number / largest : 0) : number));
}

/** The largest number of the tiles in view, rounded up to 1, 2 or 5 times a power of ten, so that the colours change seldom. */
export function largestInView(tiles: Tiles, view: View, tile: number): number {
  const found = tilesInView(view, levelOf(view), tile).map((place) => tiles.get(place)?.largest ?? 0);
  const most = Math.max(0, ...found);
  if (!most) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return Math.min(1, Number(([1, 2, 5, 10].find((n) => n * power >= most * 0.999999)! * power).toPrecision(1)));
}

const pictures = new WeakMap<Tile, { made: string; image: OffscreenCanvas }>();

function pictureOf(tile: Tile, colours: Colours): OffscreenCanvas {
  const made = [colours.scale, colours.scale === "row" && colours.largest, colours.hue, dark.value].join();
  const before = pictures.get(tile);
  if (before?.made === made) return before.image;
  const bytes = bytesOf([...shades(colours.hue), theme("--masked")]);
  const pixels = Uint32Array.from(tile.numbers, (number) => (number === number ? bytes[Math.round(255 * strengthOf(number, colours))] : bytes[256]));
  const image = before?.image ?? new OffscreenCanvas(tile.columns, tile.rows);
  putPixels(image, pixels);
  pictures.set(tile, { made, image });
  return image;
}

/** Draw the tiles in view. In place of a missing tile, draw the same part of a tile of a coarser level. */
export function drawTiles(context: CanvasRenderingContext2D, tiles: Tiles, view: View, tile: number, colours: Colours): void {
  const level = levelOf(view);
  const [across, down] = view.turned ? [view.queries, view.keys] : [view.keys, view.queries];
  const [right, bottom] = [view.x + across * view.size, view.y + down * view.size];
  const { queriesFrom, keysFrom } = axes(view);
  const [x, y] = [Math.max(0, view.x), Math.max(0, view.y)];
  context.save();
  context.translate(view.left, view.top); // the map's x and y are added below instead: they may be large, and the canvas would add them in float32
  context.beginPath();
  context.rect(x, y, Math.min(right, view.width) - x, Math.min(bottom, view.height) - y);
  context.clip();
  context.fillStyle = theme("--faint");
  context.fillRect(0, 0, view.width, view.height);
  context.imageSmoothingEnabled = false;
  if (view.turned) context.transform(...MIRRORED);
  const side = tile * 2 ** level * view.size;
  for (const place of tilesInView(view, level, tile)) {
    for (let up = 0; up <= COARSER; up++) {
      const [row, column] = [Math.floor(place.row / 2 ** up), Math.floor(place.column / 2 ** up)];
      const found = tiles.get({ level: level + up, row, column });
      if (!found) continue;
      const part = tile / 2 ** up; // how many cells of the coarser tile, along an axis, cover the missing tile
      const [fromX, fromY] = [(place.column % 2 ** up) * part, (place.row % 2 ** up) * part];
      const [cellsX, cellsY] = [Math.min(part, found.columns - fromX), Math.min(part, found.rows - fromY)];
      const picture = pictureOf(found, colours);
      context.drawImage(picture, fromX, fromY, cellsX, cellsY, keysFrom + place.column * side, queriesFrom + place.row * side, (cellsX / part) * side, (cellsY / part) * side);
      break;
    }
  }
  context.restore();
  if (level === 0 && view.size >= LEAST_NUMBER) drawNumbers(context, tiles, view, tile, colours);
}

/** Write the weights into their cells as numbers without the 0 before the point: ".0123". */
function drawNumbers(context: CanvasRenderingContext2D, tiles: Tiles, view: View, tile: number, colours: Colours): void {
  const { queries, keys } = inView(view);
  clip(context, view.left, view.top, view.width, view.height);
  context.font = `${Math.min(13, view.size / 3.6)}px ${theme("--sans")}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let query = queries[0]; query < queries[1]; query++) {
    for (let key = keys[0]; key < keys[1]; key++) {
      const number = numberAt(tiles, tile, 0, query, key);
      const [across, down] = view.turned ? [query, key] : [key, query];
      if (number === undefined || Number.isNaN(number)) continue;
      const strength = strengthOf(number, colours);
      context.fillStyle = strength > 0.5 ? (dark.value ? "#000" : "#fff") : theme("--ink");
      context.fillText(number.toFixed(4).replace(/^0/, ""), view.left + view.x + (across + 0.5) * view.size, view.top + view.y + (down + 0.5) * view.size);
    }
  }
  context.restore();
}

/** The number of a cell, the largest or mean weight of its square (see `Pool`); undefined until the tile with it is loaded. */
export function numberAt(tiles: Tiles, tile: number, level: number, row: number, column: number): number | undefined {
  const found = tiles.get({ level, row: Math.floor(row / tile), column: Math.floor(column / tile) });
  return found?.numbers[(row % tile) * found.columns + (column % tile)];
}

/** The distance between labels, in tokens: 1, 2 or 5 times a power of ten, and large enough that labels do not overlap. */
function pitchOf(size: number): number {
  const least = LABEL_PITCH / size;
  if (least <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least)!;
}

/** Draw positions and words along both axes, as many as have room. The chosen query and key are always drawn, in bold. */
export function drawLabels(context: CanvasRenderingContext2D, view: View, queries: Item[], keys: Item[], query: number | null, key: number | null): void {
  const pitch = pitchOf(view.size);
  const inSight = inView(view);
  const label = (item: Item, token: number, bold: boolean, isRow: boolean) => {
    const middle = (token + 0.5) * view.size;
    const at = isRow ? view.y + middle : view.x + middle;
    if (at < 0 || at > (isRow ? view.height : view.width)) return;
    context.save();
    if (isRow) context.translate(view.left - 4, view.top + at);
    else {
      context.translate(view.left + at, view.top - 4);
      context.rotate(-Math.PI / 2);
    }
    context.fillStyle = theme(bold ? "--ink" : "--soft");
    context.fillRect(isRow ? 0 : -4, -0.5, 4, 1);
    context.font = `${bold ? 650 : 400} 11.5px ${theme("--sans")}`;
    context.textAlign = isRow ? "right" : "left";
    context.textBaseline = "middle";
    context.fillText(shortened(context, `${item.positions[0].toLocaleString("en")} ${item.text}`, (isRow ? view.left : view.top) - 14), isRow ? -4 : 4, 0);
    context.restore();
  };
  const marks = (items: Item[], [first, last]: [number, number], chosen: number | null, isRow: boolean) => {
    const isShown = chosen !== null && chosen >= first && chosen < last;
    for (let token = Math.ceil(first / pitch) * pitch; token < last; token += pitch) {
      if (!isShown || Math.abs(token - chosen) * view.size >= LABEL_PITCH) label(items[token], token, false, isRow);
    }
    if (isShown) label(items[chosen], chosen, true, isRow);
  };
  marks(queries, inSight.queries, query, !view.turned);
  marks(keys, inSight.keys, key, view.turned);
}

/** Draw a frame around the weights of the chosen query, and a ring around the largest of them or, if it is out of view, an arrow to it. */
export function drawChosen(context: CanvasRenderingContext2D, view: View, query: number | null, strongest: number | null): void {
  if (query === null) return;
  const { queriesFrom, queriesRoom, keysFrom, keysRoom } = axes(view);
  const y = queriesFrom + query * view.size;
  const ring = Math.max(4, view.size / 2 + 2);
  context.save();
  context.translate(view.left, view.top);
  context.beginPath();
  context.rect(-1, -1, view.width + 2, view.height + 2);
  context.clip();
  if (view.turned) context.transform(...MIRRORED);
  context.strokeStyle = theme("--accent");
  context.lineWidth = 1.5;
  if (y + view.size >= 0 && y <= queriesRoom) {
    const [from, to] = [Math.max(0, keysFrom), Math.min(keysRoom, keysFrom + view.keys * view.size)];
    if (view.size >= 6) context.strokeRect(from, y, to - from, view.size);
    else context.strokeRect(from, y + view.size / 2, to - from, 0);
  }
  if (strongest !== null) {
    const [across, down] = [keysFrom + (strongest + 0.5) * view.size, y + view.size / 2];
    if (across < 0 || down < 0 || across > keysRoom || down > queriesRoom) drawArrow(context, across, down, keysRoom, queriesRoom);
    else {
      context.strokeStyle = theme("--ink");
      context.beginPath();
      context.arc(across, down, ring, 0, 2 * Math.PI);
      context.stroke();
    }
  }
  context.restore();
}
