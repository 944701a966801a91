// Draw the weight map of a long text. A cell shows one weight or a square of weights; a large cell also has its weight as a number.

import { clip, putPixels } from "../../parts/canvas";
import { dark, MASKED_COLOUR, pixelsOf, shades, shownHue, strength, theme } from "../../parts/colours";
import { MIRRORED } from "../../parts/marks";
import { axes, inView, levelOf, tilesInView, type View } from "../../parts/view";
import { colourScale } from "../../state/state";
import type { Tile, Tiles } from "./tiles";

const LEAST_NUMBER = 42; // in cells of at least this size, in pixels, the weight is written as a number
const FAINTEST = 1e-6; // on the logarithmic colour scale, this weight and smaller ones have the faintest colour
const COARSER = 12; // a tile that is not loaded is replaced by a coarser one; at most this many coarser levels are tried

/** The largest number of the tiles in view, rounded up to 1, 2 or 5 times a power of ten, so that the colours change seldom. */
export function largestInView(tiles: Tiles, view: View): number {
  const largestOfTiles = tilesInView(view, levelOf(view), tiles.side).map((place) => tiles.get(place)?.largest ?? 0);
  const largest = Math.max(0, ...largestOfTiles);
  if (!largest) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  const factor = [1, 2, 5, 10].find((n) => n * power >= largest * 0.999999)!;
  return Math.min(1, Number((factor * power).toPrecision(1)));
}

const pictures = new WeakMap<Tile, { colouring: string; image: OffscreenCanvas }>();

/** Return a tile as an image. The image is kept, and is drawn again only if the colours have changed. */
function pictureOf(tile: Tile, largest: number): OffscreenCanvas {
  const colouring = [colourScale.value, largest, shownHue(), dark.value].join();
  const drawn = pictures.get(tile);
  if (drawn?.colouring === colouring) return drawn.image;
  const colours = pixelsOf([...shades(shownHue()), theme("--masked")]);
  const colourOf = (number: number) => (Number.isNaN(number) ? MASKED_COLOUR : Math.round(255 * strength(number, largest, FAINTEST)));
  const pixels = Uint32Array.from(tile.numbers, (number) => colours[colourOf(number)]);
  const image = drawn?.image ?? new OffscreenCanvas(tile.columns, tile.rows);
  putPixels(image, pixels);
  pictures.set(tile, { colouring, image });
  return image;
}

/** Draw the tiles in view. A tile that is not loaded is replaced by a coarser one, whose cells stand for more weights. `largest`: the weight with the full colour. */
export function drawTiles(context: CanvasRenderingContext2D, tiles: Tiles, view: View, largest: number): void {
  const level = levelOf(view);
  const [nColumns, nRows] = view.turned ? [view.queries.length, view.keys.length] : [view.keys.length, view.queries.length];
  const [right, bottom] = [view.x + nColumns * view.size, view.y + nRows * view.size];
  const { queriesFrom, keysFrom } = axes(view);
  const [x, y] = [Math.max(0, view.x), Math.max(0, view.y)];
  clip(context, view.left + x, view.top + y, Math.min(right, view.width) - x, Math.min(bottom, view.height) - y);
  context.translate(view.left, view.top); // without view.x and view.y: they may be large, and the canvas would add them in float32
  context.fillStyle = theme("--faint");
  context.fillRect(0, 0, view.width, view.height);
  context.imageSmoothingEnabled = false;
  if (view.turned) context.transform(...MIRRORED);
  const side = tiles.side * 2 ** level * view.size; // of a tile, in pixels
  for (const place of tilesInView(view, level, tiles.side)) {
    for (let levelsUp = 0; levelsUp <= COARSER; levelsUp++) {
      const scale = 2 ** levelsUp; // how many missing tiles, along an axis, the coarser tile covers
      const tile = tiles.get({ level: level + levelsUp, row: Math.floor(place.row / scale), column: Math.floor(place.column / scale) });
      if (!tile) continue;
      const part = tiles.side / scale; // how many cells of the coarser tile, along an axis, cover the missing tile
      const [fromColumn, fromRow] = [(place.column % scale) * part, (place.row % scale) * part];
      const [nColumns, nRows] = [Math.min(part, tile.columns - fromColumn), Math.min(part, tile.rows - fromRow)];
      const [left, top] = [keysFrom + place.column * side, queriesFrom + place.row * side];
      context.drawImage(pictureOf(tile, largest), fromColumn, fromRow, nColumns, nRows, left, top, (nColumns / part) * side, (nRows / part) * side);
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
  const onStrong = dark.value ? "#000" : "#fff";
  for (let query = queries[0]; query < queries[1]; query++) {
    for (let key = keys[0]; key < keys[1]; key++) {
      const number = tiles.numberAt(0, query, key);
      if (number === undefined || Number.isNaN(number)) continue;
      const [column, row] = view.turned ? [query, key] : [key, query];
      context.fillStyle = strength(number, largest, FAINTEST) > 0.5 ? onStrong : theme("--ink");
      context.fillText(number.toFixed(4).replace(/^0/, ""), view.left + view.x + (column + 0.5) * view.size, view.top + view.y + (row + 0.5) * view.size);
    }
  }
  context.restore();
}
