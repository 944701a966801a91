// Draw the weight map of a long text. A cell shows one weight or a square of weights; a large cell also has its weight as a number.

import { clip, putPixels } from "../../parts/canvas";
import { dark, pixelsOf, shades, shownHue, strength, theme } from "../../parts/colours";
import { MIRRORED } from "../../parts/marks";
import { axes, inView, levelOf, tilesInView, type View } from "../../parts/view";
import { colourScale } from "../../state/state";
import type { Tile, Tiles } from "./tiles";

const LEAST_NUMBER = 42; // in cells of at least this size, in pixels, the weight is written as a number
const FAINTEST = 1e-6; // on the logarithmic colour scale, this weight and smaller ones have the faintest colour
const COARSER = 12; // a tile that is not loaded is replaced by a coarser one; at most this many coarser levels are tried

/** The largest number of the tiles in view, rounded up to 1, 2 or 5 times a power of ten, so that the colours change seldom. */
export function largestInView(tiles: Tiles, view: View): number {
  const found = tilesInView(view, levelOf(view), tiles.side).map((place) => tiles.get(place)?.largest ?? 0);
  const largest = Math.max(0, ...found);
  if (!largest) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return Math.min(1, Number(([1, 2, 5, 10].find((n) => n * power >= largest * 0.999999)! * power).toPrecision(1)));
}

const pictures = new WeakMap<Tile, { madeFor: string; image: OffscreenCanvas }>();

/** Return a tile as an image. The image is kept, and is drawn again only if the colours have changed. */
function pictureOf(tile: Tile, largest: number): OffscreenCanvas {
  const madeFor = [colourScale.value, largest, shownHue(), dark.value].join();
  const before = pictures.get(tile);
  if (before?.madeFor === madeFor) return before.image;
  const colours = pixelsOf([...shades(shownHue()), theme("--masked")]);
  const pixels = Uint32Array.from(tile.numbers, (number) => colours[Number.isNaN(number) ? 256 : Math.round(255 * strength(number, largest, FAINTEST))]);
  const image = before?.image ?? new OffscreenCanvas(tile.columns, tile.rows);
  putPixels(image, pixels);
  pictures.set(tile, { madeFor, image });
  return image;
}

/** Draw the tiles in view. A tile that is not loaded is replaced by a coarser one, whose cells stand for more weights. `largest`: the weight with the full colour. */
export function drawTiles(context: CanvasRenderingContext2D, tiles: Tiles, view: View, largest: number): void {
  const level = levelOf(view);
  const [across, down] = view.turned ? [view.queries.length, view.keys.length] : [view.keys.length, view.queries.length];
  const [right, bottom] = [view.x + across * view.size, view.y + down * view.size];
  const { queriesFrom, keysFrom } = axes(view);
  const [x, y] = [Math.max(0, view.x), Math.max(0, view.y)];
  clip(context, view.left + x, view.top + y, Math.min(right, view.width) - x, Math.min(bottom, view.height) - y);
  context.translate(view.left, view.top); // without view.x and view.y: they may be large, and the canvas would add them in float32
  context.fillStyle = theme("--faint");
  context.fillRect(0, 0, view.width, view.height);
  context.imageSmoothingEnabled = false;
  if (view.turned) context.transform(...MIRRORED);
  const side = tiles.side * 2 ** level * view.size;
  for (const place of tilesInView(view, level, tiles.side)) {
    for (let up = 0; up <= COARSER; up++) {
      const [row, column] = [Math.floor(place.row / 2 ** up), Math.floor(place.column / 2 ** up)];
      const found = tiles.get({ level: level + up, row, column });
      if (!found) continue;
      const part = tiles.side / 2 ** up; // how many cells of the coarser tile, along an axis, cover the missing tile
      const [fromX, fromY] = [(place.column % 2 ** up) * part, (place.row % 2 ** up) * part];
      const [cellsX, cellsY] = [Math.min(part, found.columns - fromX), Math.min(part, found.rows - fromY)];
      const picture = pictureOf(found, largest);
      context.drawImage(picture, fromX, fromY, cellsX, cellsY, keysFrom + place.column * side, queriesFrom + place.row * side, (cellsX / part) * side, (cellsY / part) * side);
      break;
    }
  }
  context.restore();
  if (level === 0 && view.size >= LEAST_NUMBER) drawNumbers(context, tiles, view, largest);
}

/** Write the weights into their cells as numbers without the 0 before the point: ".0123". */
function drawNumbers(context: CanvasRenderingContext2D, tiles: Tiles, view: View, largest: number): void {
  const { queries, keys } = inView(view);
  clip(context, view.left, view.top, view.width, view.height);
  context.font = `${Math.min(13, view.size / 3.6)}px ${theme("--sans")}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let query = queries[0]; query < queries[1]; query++) {
    for (let key = keys[0]; key < keys[1]; key++) {
      const number = tiles.numberAt(0, query, key);
      const [across, down] = view.turned ? [query, key] : [key, query];
      if (number === undefined || Number.isNaN(number)) continue;
      context.fillStyle = strength(number, largest, FAINTEST) > 0.5 ? (dark.value ? "#000" : "#fff") : theme("--ink");
      context.fillText(number.toFixed(4).replace(/^0/, ""), view.left + view.x + (across + 0.5) * view.size, view.top + view.y + (down + 0.5) * view.size);
    }
  }
  context.restore();
}
