// Patterns with very small cells, drawn as images: a pixel has the colour of the strongest cell in a square of cells

import { putPixels } from "../../parts/canvas";
import { bytesOf, dark, shades, shownHue, strength, theme } from "../../parts/colours";
import { MIRRORED } from "../../parts/marks";
import { axes, levelOf, type TilePlace, tilesInView, type View } from "../../parts/view";
import { colourScale } from "../../state/state";
import { pairedQuery } from "../../state/texts";
import { largestWeight, type Grid } from "../../state/weights";
import type { Item } from "../../trace/items";

const SIDE = 512; // the width and height of an image, in its pixels
const MOST_KEPT = 80; // the most images in memory; each takes 1.5 MB

interface Part {
  done: number; // how many queries of the part are drawn
  strongest: Int16Array; // for each pixel, 255 times the strength (0 to 1, see `strengthsOf`) of its strongest cell; -1 = all its cells are masked
  pixels: Uint32Array; // the colours of the pixels; 0 (transparent) where no query is drawn yet
  image: OffscreenCanvas;
}

/** The images of a grid. They are dropped when one of the values of `made` changes: the colours, the queries or the keys. */
interface Images {
  made: unknown[];
  parts: Map<string, Part>;
}

const imagesOf = new WeakMap<Grid, Images>();

/** Draw the weights in view, as tiles (see parts/view.ts). Rows of the grid that are not computed yet are drawn by a later call. */
export function drawPixels(context: CanvasRenderingContext2D, grid: Grid, view: View): void {
  const hue = shownHue();
  const made = [hue, dark.value, colourScale.value, view.queries, view.keys];
  let images = imagesOf.get(grid);
  if (!images || made.some((one, i) => one !== images!.made[i])) {
    images = { made, parts: new Map() };
    imagesOf.set(grid, images);
  }
  const level = levelOf(view);
  const side = SIDE * 2 ** level * view.size; // the width and height, on the canvas, of the image of one part
  const bytes = bytesOf([...shades(hue), theme("--masked")]);
  const { queriesFrom, keysFrom } = axes(view);
  context.imageSmoothingEnabled = false;
  if (view.turned) context.transform(...MIRRORED);
  for (const place of tilesInView(view, level, SIDE)) {
    const name = `${level} ${place.row} ${place.column}`;
    const part = images.parts.get(name) ?? emptyPart();
    images.parts.delete(name);
    images.parts.set(name, part); // the most recently used part is at the end
    update(part, grid, view, place, bytes);
    context.drawImage(part.image, keysFrom + place.column * side, queriesFrom + place.row * side, side, side);
  }
  for (const oldest of images.parts.keys()) {
    if (images.parts.size <= MOST_KEPT) break;
    images.parts.delete(oldest);
  }
}

const emptyPart = (): Part => ({
  done: 0,
  strongest: new Int16Array(SIDE * SIDE).fill(-1),
  pixels: new Uint32Array(SIDE * SIDE),
  image: new OffscreenCanvas(SIDE, SIDE),
});

function update(part: Part, grid: Grid, view: View, { level, row, column }: TilePlace, bytes: Uint32Array): void {
  const along = SIDE * 2 ** level;
  const queries = view.queries.slice(row * along, (row + 1) * along);
  const keys = view.keys.slice(column * along, (column + 1) * along);
  const before = part.done;
  const isReady = (from: Item) => from.index < grid.done && (pairedQuery(from)?.index ?? -1) < (grid.beside?.done ?? Infinity);
  for (; part.done < queries.length && isReady(queries[part.done]); part.done++) {
    const line = (part.done >> level) * SIDE;
    const strengthOf = strengthsOf(grid, queries[part.done]);
    for (let key = 0; key < keys.length; key++) {
      const pixel = line + (key >> level);
      const shown = Math.round(255 * strengthOf(keys[key]));
      if (shown > part.strongest[pixel]) part.strongest[pixel] = shown;
      part.pixels[pixel] = bytes[part.strongest[pixel] < 0 ? 256 : part.strongest[pixel]];
    }
  }
  if (part.done > before) putPixels(part.image, part.pixels);
}

/** For the query `from`, the strength (0 to 1) of the weight on a key; -1 if it is masked. */
export function strengthsOf(grid: Grid, from: Item): (to: Item) => number {
  const row = from.index * grid.keys.length;
  const fullColour = colourScale.value === "row" ? largestWeight(grid, from) : 1;
  return ({ index }) => (grid.masked[row + index] ? -1 : strength(grid.weights[row + index], fullColour));
}
