// Draw a pattern: the weights [queries keys] of a head as cells, of which only those in view are drawn

import { clip } from "../../parts/canvas";
import { LESS, MORE, shades, shownHue, theme } from "../../parts/colours";
import { drawLabels, drawQuery, drawStrongest } from "../../parts/marks";
import { inView, type View } from "../../parts/view";
import type { ShownText } from "../../state/texts";
import { differenceAt, type Grid, largestDifference } from "../../state/weights";
import type { Item } from "../../trace/items";
import { drawPixels, strengthsOf } from "./pixels";

export const LARGEST_CELL = 44;
const LEAST_DRAWN = 3; // cells smaller than this, in pixels, are drawn as pixels of images (see pixels.ts)
const LEAST_FRAMED = 6; // the weights of the chosen query have a frame if cells have at least this size, in pixels
const LEAST_CIRCLE = 5; // in smaller cells, no circles are drawn
const LEAST_HATCHED = 6; // smaller cells of masked keys have one colour, without hatching
const LEAST_ROUNDED = 14; // smaller cells have no round corners

/** Draw the weights of a grid, whose text is `text`; or, if `difference`, the weights of the second of two traces minus those of the first. */
export function drawPattern(context: CanvasRenderingContext2D, grid: Grid, text: ShownText, view: View, circles: boolean, difference = false): void {
  clip(context, view.left, view.top, view.width, view.height);
  context.translate(view.left, view.top);
  if (difference) drawCells(context, view, circles, differenceCells(grid, view));
  else if (view.size < LEAST_DRAWN) drawPixels(context, grid, view);
  else drawCells(context, view, circles, weightCells(grid));
  context.restore();
  const { query, key } = text;
  const [queryPlace, keyPlace] = [placeIn(view.queries, query), placeIn(view.keys, key)]; // among the visible items
  if (queryPlace !== null && view.size >= LEAST_FRAMED) drawQuery(context, view, queryPlace);
  drawLabels(context, view, queryPlace, keyPlace);
  if (difference || !query || queryPlace === null || query.index >= grid.nComputed) return;
  const weightOn = (item: Item) => grid.weights[query.index * grid.keys.length + item.index];
  const strongest = view.keys.reduce((best, item, i) => (weightOn(item) > weightOn(view.keys[best]) ? i : best), 0);
  drawStrongest(context, view, queryPlace, strongest);
}

function placeIn(items: Item[], item: Item | null): number | null {
  const index = item ? items.indexOf(item) : -1;
  return index < 0 ? null : index;
}

/** For a query, then a key: the strength of their cell (0 to 1), and the colours from strength 0 to strength 1; null = the key is masked. */
type Cells = (from: Item) => (to: Item) => { strength: number; colours: string[] } | null;

function weightCells(grid: Grid): Cells {
  const colours = shades(shownHue());
  return (from) => {
    const strengthOf = strengthsOf(grid, from);
    return (to) => (strengthOf(to) < 0 ? null : { strength: strengthOf(to), colours });
  };
}

/** The weight in the second trace minus that in the first. The largest absolute difference of visible tokens has the full colour. */
function differenceCells(grid: Grid, { queries, keys }: View): Cells {
  const largest = largestDifference(grid, queries, keys) || 1;
  const [more, less] = [shades(MORE), shades(LESS)];
  return (from) => (to) => {
    const difference = differenceAt(grid, from.index * grid.keys.length + to.index);
    return Number.isNaN(difference) ? null : { strength: Math.abs(difference) / largest, colours: difference > 0 ? more : less };
  };
}

function drawCells(context: CanvasRenderingContext2D, view: View, circles: boolean, cells: Cells): void {
  const { queries, keys, size } = view;
  const shown = inView(view);
  const [masked, zero] = [size >= LEAST_HATCHED ? hatching(context) : theme("--masked"), theme("--zero")];
  const smallGap = size >= 6 ? 1 : 0;
  const gap = size >= 12 ? 1.5 : smallGap;
  const side = size - gap;
  const asCircles = circles && size >= LEAST_CIRCLE;
  for (let query = shown.queries[0]; query < shown.queries[1]; query++) {
    const cellOf = cells(queries[query]);
    for (let key = shown.keys[0]; key < shown.keys[1]; key++) {
      const cell = cellOf(keys[key]);
      const [column, row] = view.turned ? [query, key] : [key, query];
      const [x, y] = [view.x + column * size, view.y + row * size];
      if (!cell) context.fillStyle = masked;
      else context.fillStyle = asCircles ? zero : cell.colours[Math.round(255 * cell.strength)];
      if (size >= LEAST_ROUNDED) {
        context.beginPath();
        context.roundRect(x, y, side, side, 3);
        context.fill();
      } else context.fillRect(x, y, side, side);
      if (asCircles && cell) drawCircle(context, x + side / 2, y + side / 2, (side / 2) * Math.sqrt(cell.strength), cell.colours[255]);
    }
  }
}

function drawCircle(context: CanvasRenderingContext2D, x: number, y: number, radius: number, colour: string): void {
  if (radius < 0.2) return;
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function hatching(context: CanvasRenderingContext2D): CanvasPattern {
  const tile = new OffscreenCanvas(6, 6);
  const pen = tile.getContext("2d")!;
  pen.fillStyle = theme("--masked");
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = theme("--masked-line");
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat")!;
}
