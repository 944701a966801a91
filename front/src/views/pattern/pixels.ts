// Patterns with very small cells, drawn as images (tiles): a pixel has the colour of the strongest cell in a square of cells

import { putPixels } from "../../parts/canvas";
import { dark, MASKED_COLOUR, pixelsOf, shades, shownHue, strength, theme } from "../../parts/colours";
import { MIRRORED } from "../../parts/marks";
import { axes, levelOf, type TilePlace, tilesInView, type View } from "../../parts/view";
import { colourScale } from "../../state/state";
import { pairedQuery } from "../../state/texts";
import { largestWeight, type Grid } from "../../state/weights";
import type { Item } from "../../trace/items";

const SIDE = 512; // the width and height of a tile (an image), in pixels of this image
const MOST_TILES = 80; // the most tiles in memory; each takes 1.5 MB

interface Tile {
  nDrawn: number; // how many queries of the tile are drawn
  strongest: Int16Array; // for each pixel, 255 times the strength (0 to 1, see `strengthsOf`) of its strongest cell; -1 = all its cells are masked
  pixels: Uint32Array; // the colours of the pixels; 0 (transparent) where no query is drawn yet
  image: OffscreenCanvas;
}

/** The tiles of one head's weights. If one of the things in `dependencies` (colours, queries, keys) changes, all tiles are made anew. */
interface Images {
  dependencies: unknown[];
  tiles: Map<string, Tile>;
}

const imagesOf = new WeakMap<Grid, Images>();

/** Draw the weights in view as tiles (images of SIDE × SIDE pixels), without the rows that are not computed yet: a later call adds them. */
export function drawPixels(context: CanvasRenderingContext2D, grid: Grid, view: View): void {
  const hue = shownHue();
  const dependencies = [hue, dark.value, colourScale.value, view.queries, view.keys];
  let images = imagesOf.get(grid);
  if (!images || dependencies.some((value, i) => value !== images!.dependencies[i])) {
    images = { dependencies, tiles: new Map() };
    imagesOf.set(grid, images);
  }
  const level = levelOf(view);
  const side = SIDE * 2 ** level * view.size; // the width and height of a tile on the canvas
  const colours = pixelsOf([...shades(hue), theme("--masked")]); // 256 shades, then MASKED_COLOUR
  const { queriesFrom, keysFrom } = axes(view);
  context.imageSmoothingEnabled = false;
  if (view.turned) context.transform(...MIRRORED);
  for (const place of tilesInView(view, level, SIDE)) {
    const name = `${level} ${place.row} ${place.column}`;
    const tile = images.tiles.get(name) ?? emptyTile();
    images.tiles.delete(name);
    images.tiles.set(name, tile); // the tiles used least recently come first, and are removed first
    update(tile, grid, view, place, colours);
    context.drawImage(tile.image, keysFrom + place.column * side, queriesFrom + place.row * side, side, side);
  }
  for (const oldest of images.tiles.keys()) {
    if (images.tiles.size <= MOST_TILES) break;
    images.tiles.delete(oldest);
  }
}

const emptyTile = (): Tile => ({
  nDrawn: 0,
  strongest: new Int16Array(SIDE * SIDE).fill(-1),
  pixels: new Uint32Array(SIDE * SIDE),
  image: new OffscreenCanvas(SIDE, SIDE),
});

function update(tile: Tile, grid: Grid, view: View, { level, row, column }: TilePlace, colours: Uint32Array): void {
  const cellsPerSide = SIDE * 2 ** level; // the number of queries, and of keys, of a tile
  const queries = view.queries.slice(row * cellsPerSide, (row + 1) * cellsPerSide);
  const keys = view.keys.slice(column * cellsPerSide, (column + 1) * cellsPerSide);
  const nDrawnBefore = tile.nDrawn;
  const isComputed = (query: Item) => {
    if (query.index >= grid.nComputed) return false;
    const paired = grid.otherGrid && pairedQuery(query); // its weights in the other trace are needed too (see `largestWeight`)
    return !paired || paired.index < grid.otherGrid!.nComputed;
  };
  for (; tile.nDrawn < queries.length && isComputed(queries[tile.nDrawn]); tile.nDrawn++) {
    const line = (tile.nDrawn >> level) * SIDE; // the index of the line's first pixel
    const strengthOf = strengthsOf(grid, queries[tile.nDrawn]);
    for (let key = 0; key < keys.length; key++) {
      const pixel = line + (key >> level);
      const strength255 = Math.round(255 * strengthOf(keys[key]));
      if (strength255 > tile.strongest[pixel]) tile.strongest[pixel] = strength255;
      tile.pixels[pixel] = colours[tile.strongest[pixel] < 0 ? MASKED_COLOUR : tile.strongest[pixel]];
    }
  }
  if (tile.nDrawn > nDrawnBefore) putPixels(tile.image, tile.pixels);
}

/** Return how strongly the weight of the query `from` on a key is coloured, from 0 to 1; -1 if the key is masked. */
export function strengthsOf(grid: Grid, from: Item): (to: Item) => number {
  const row = from.index * grid.keys.length;
  const fullColour = colourScale.value === "row" ? largestWeight(grid, from) : 1;
  return ({ index }) => (grid.masked[row + index] ? -1 : strength(grid.weights[row + index], fullColour));
}
