// Patterns whose cells are very small, drawn as images. A pixel of an image has the colour of the strongest cell in a
// square of cells.

import { cellsInView, putPixels } from "../canvas";
import { bytesOf, dark, shades, shownHue, strength, theme } from "../colours";
import { largestWeight, type Grid } from "../grid";
import type { Item } from "../items";
import { colourScale } from "../state";
import type { Layout } from "./layout";

const SIDE = 512; // the width and height of an image, in its pixels
const MOST_KEPT = 80; // the most images in memory; each takes 1.5 MB

/** A square part of the pattern, drawn as an image. */
interface Part {
  done: number; // how many queries of the part are drawn
  strongest: Int16Array; // for each pixel, the strength of its strongest cell, times 255; -1 = all its cells are masked
  pixels: Uint32Array; // the colours of the pixels; 0 (transparent) where no query is drawn yet
  image: OffscreenCanvas;
}

/** The images of a grid. `made` holds the colours, rows and columns for which they are drawn; if one of these changes, they are dropped. */
interface Images {
  made: unknown[];
  parts: Map<string, Part>;
  most: Float64Array; // for each query, its largest weight on a visible key; -1 = not computed yet
}

const imagesOf = new WeakMap<Grid, Images>();

/** Draw the part of the pattern that is in view. Rows of the grid that are not computed yet are drawn by a later call. */
export function drawPixels(context: CanvasRenderingContext2D, grid: Grid, layout: Layout): void {
  const hue = shownHue();
  const made = [hue, dark.value, colourScale.value, layout.turned, layout.rows, layout.columns];
  let images = imagesOf.get(grid);
  if (!images || made.some((one, i) => one !== images!.made[i])) {
    images = { made, parts: new Map(), most: new Float64Array(grid.queries.length).fill(-1) };
    imagesOf.set(grid, images);
  }
  const level = Math.max(0, Math.ceil(-Math.log2(layout.size * (devicePixelRatio || 1))));
  const across = SIDE * 2 ** level; // how many cells an image has along each side
  const inView = (moved: number, room: number, count: number) => cellsInView(moved, room, layout.size * across, Math.ceil(count / across));
  const [firstRow, endRow] = inView(layout.y, layout.height - layout.top, layout.rows.length);
  const [firstColumn, endColumn] = inView(layout.x, layout.width - layout.left, layout.columns.length);
  const bytes = bytesOf([...shades(hue), theme("--masked")]);
  context.imageSmoothingEnabled = false;
  for (let row = firstRow; row < endRow; row++) {
    for (let column = firstColumn; column < endColumn; column++) {
      const name = `${level} ${row} ${column}`;
      const part = images.parts.get(name) ?? emptyPart();
      images.parts.delete(name);
      images.parts.set(name, part); // the most recently used part is at the end
      update(part, grid, layout, row * across, column * across, level, images.most, bytes);
      const size = across * layout.size;
      context.drawImage(part.image, layout.left + layout.x + column * size, layout.top + layout.y + row * size, size, size);
    }
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

/** Draw the queries of a part that were computed since it was last drawn. `row`, `column`: the part's first cell in the pattern. */
function update(part: Part, grid: Grid, layout: Layout, row: number, column: number, level: number, most: Float64Array, bytes: Uint32Array): void {
  const across = SIDE * 2 ** level;
  const [queries, keys] = layout.turned ? [layout.columns.slice(column, column + across), layout.rows] : [layout.rows.slice(row, row + across), layout.columns];
  const firstKey = layout.turned ? row : column;
  const ownKeys = keys.slice(firstKey, firstKey + across);
  const [stepQuery, stepKey] = layout.turned ? [1, SIDE] : [SIDE, 1]; // the distance in `pixels` from one query to the next, and from one key to the next
  const before = part.done;
  for (; part.done < queries.length && queries[part.done].index < Math.min(grid.done, grid.beside?.done ?? grid.done); part.done++) {
    const query = queries[part.done].index;
    const [first, line, largest] = [query * grid.keys.length, (part.done >> level) * stepQuery, mostOf(query, grid, keys, most)];
    for (let key = 0; key < ownKeys.length; key++) {
      const [cell, pixel] = [first + ownKeys[key].index, line + (key >> level) * stepKey];
      const shown = grid.masked[cell] ? -1 : Math.round(255 * strength(grid.weights[cell], largest));
      if (shown > part.strongest[pixel]) part.strongest[pixel] = shown;
      part.pixels[pixel] = bytes[part.strongest[pixel] < 0 ? 256 : part.strongest[pixel]];
    }
  }
  if (part.done === before) return;
  putPixels(part.image, part.pixels);
}

/** The weight with the full colour: on the relative scale, the query's largest weight on the given keys, kept in `most`; else 1. */
function mostOf(query: number, grid: Grid, keys: Item[], most: Float64Array): number {
  if (colourScale.value !== "row") return 1;
  if (most[query] < 0) most[query] = largestWeight(grid, query, keys);
  return most[query];
}
