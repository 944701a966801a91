// Patterns with very small cells, drawn as images (tiles): a pixel has the colour of the strongest cell in a square of cells

import { putPixels } from "../../parts/canvas";
import { dark, pixelsOf, shades, shownHue, strength, theme } from "../../parts/colours";
import { MIRRORED } from "../../parts/marks";
import { axes, levelOf, type TilePlace, tilesInView, type View } from "../../parts/view";
import { colourScale } from "../../state/state";
import { pairedQuery } from "../../state/texts";
import { largestWeight, type Grid } from "../../state/weights";
import type { Item } from "../../trace/items";

const SIDE = 512; // the width and height of a tile (an image), in pixels of this image
const MOST_KEPT = 80; // the most tiles in memory; each takes 1.5 MB

interface Tile {
  done: number; // how many queries of the tile are drawn
  strongest: Int16Array; // for each pixel, 255 times the strength (0 to 1, see `strengthsOf`) of its strongest cell; -1 = all its cells are masked
  pixels: Uint32Array; // the colours of the pixels; 0 (transparent) where no query is drawn yet
  image: OffscreenCanvas;
}

/** The tiles of one head's weights. If one of the colours, queries and keys in `madeFor` changes, all tiles are made anew. */
interface Images {
  madeFor: unknown[];
  tiles: Map<string, Tile>;
}

const imagesOf = new WeakMap<Grid, Images>();

/** Draw the weights in view as tiles (images of SIDE × SIDE pixels), without the rows that are not computed yet: a later call adds them. */
export function drawPixels(context: CanvasRenderingContext2D, grid: Grid, view: View): void {
  const hue = shownHue();
  const madeFor = [hue, dark.value, colourScale.value, view.queries, view.keys];
  let images = imagesOf.get(grid);
  if (!images || madeFor.some((one, i) => one !== images!.madeFor[i])) {
    images = { madeFor, tiles: new Map() };
    imagesOf.set(grid, images);
  }
  const level = levelOf(view);
  const side = SIDE * 2 ** level * view.size; // the width and height of a tile on the canvas
  const colours = pixelsOf([...shades(hue), theme("--masked")]);
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
    if (images.tiles.size <= MOST_KEPT) break;
    images.tiles.delete(oldest);
  }
}

const emptyTile = (): Tile => ({
  done: 0,
  strongest: new Int16Array(SIDE * SIDE).fill(-1),
  pixels: new Uint32Array(SIDE * SIDE),
  image: new OffscreenCanvas(SIDE, SIDE),
});

function update(tile: Tile, grid: Grid, view: View, { level, row, column }: TilePlace, colours: Uint32Array): void {
  const nCells = SIDE * 2 ** level; // the number of queries, and of keys, of a tile
  const queries = view.queries.slice(row * nCells, (row + 1) * nCells);
  const keys = view.keys.slice(column * nCells, (column + 1) * nCells);
  const before = tile.done;
  const isReady = (from: Item) => {
    const paired = grid.beside && pairedQuery(from); // its weights in the other trace are needed too (see `largestWeight`)
    return from.index < grid.done && (!paired || paired.index < grid.beside!.done);
  };
  for (; tile.done < queries.length && isReady(queries[tile.done]); tile.done++) {
    const line = (tile.done >> level) * SIDE;
    const strengthOf = strengthsOf(grid, queries[tile.done]);
    for (let key = 0; key < keys.length; key++) {
      const pixel = line + (key >> level);
      const shown = Math.round(255 * strengthOf(keys[key]));
      if (shown > tile.strongest[pixel]) tile.strongest[pixel] = shown;
      tile.pixels[pixel] = colours[tile.strongest[pixel] < 0 ? 256 : tile.strongest[pixel]];
    }
  }
  if (tile.done > before) putPixels(tile.image, tile.pixels);
}

/** Return how strongly the weight of the query `from` on a key is coloured, from 0 to 1; -1 if the key is masked. */
export function strengthsOf(grid: Grid, from: Item): (to: Item) => number {
  const row = from.index * grid.keys.length;
  const fullColour = colourScale.value === "row" ? largestWeight(grid, from) : 1;
  return ({ index }) => (grid.masked[row + index] ? -1 : strength(grid.weights[row + index], fullColour));
}
