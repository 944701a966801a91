// Draw a pattern, the weights [queries keys] of a head as a grid of cells: the cells in view, and the words along both axes

import { cellsInView, clip } from "../canvas";
import { LESS, MORE, shades, shownHue, strength, theme } from "../colours";
import { differenceAt, largestDifference, largestWeight, type Grid } from "../grid";
import { isolated, type Item } from "../items";
import { colourScale, key, queryItem } from "../state";
import type { Layout } from "./layout";
import { drawPixels } from "./pixels";

export const LARGEST_CELL = 44;
const LEAST_DRAWN = 3; // cells smaller than this, in pixels, are drawn as pixels of an image (see pixels.ts)
const LEAST_OUTLINED = 6;
const LEAST_CIRCLE = 5;
const LABEL_PITCH = 14; // the least distance between two labels, in pixels

/** Draw the weights of a grid; or, if `difference`, the weights of the second of two traces minus those of the first. */
export function drawPattern(context: CanvasRenderingContext2D, grid: Grid, layout: Layout, difference = false): void {
  clip(context, layout.left, layout.top, layout.width, layout.height);
  if (difference) drawCells(context, layout, differences(grid, layout));
  else if (layout.size < LEAST_DRAWN) drawPixels(context, grid, layout);
  else drawCells(context, layout, weights(grid, layout));
  drawOutlines(context, layout);
  context.restore();
  drawLabels(context, layout);
  if (!difference) drawPointer(context, grid, layout);
}

/** How a cell is drawn: the strength (0 to 1) and the colours for the strengths 0, 1/255, … 1; null = the cell is masked. */
type Reader = (row: number, column: number) => { shown: number; colours: string[] } | null;

const pairOf = (layout: Layout, row: number, column: number): [Item, Item] =>
  layout.turned ? [layout.columns[column], layout.rows[row]] : [layout.rows[row], layout.columns[column]];

const inView = ({ x, y, size, left, top, width, height, rows, columns }: Layout) => ({
  rows: cellsInView(y, height - top, size, rows.length),
  columns: cellsInView(x, width - left, size, columns.length),
});

function weights(grid: Grid, layout: Layout): Reader {
  const colours = shades(shownHue());
  const most = new Map<number, number>();
  const visible = layout.turned ? layout.rows : layout.columns;
  const mostOf = (query: number) => {
    if (colourScale.value !== "row") return 1;
    if (!most.has(query)) most.set(query, largestWeight(grid, query, visible));
    return most.get(query)!;
  };
  return (row, column) => {
    const [from, to] = pairOf(layout, row, column);
    const at = from.index * grid.keys.length + to.index;
    return grid.masked[at] ? null : { shown: strength(grid.weights[at], mostOf(from.index)), colours };
  };
}

/** Cells of the differences between two traces; the largest absolute difference of the visible cells has the full colour. */
function differences(grid: Grid, layout: Layout): Reader {
  const [queries, keys] = layout.turned ? [layout.columns, layout.rows] : [layout.rows, layout.columns];
  const most = largestDifference(grid, queries, keys) || 1;
  const [more, less] = [shades(MORE), shades(LESS)];
  return (row, column) => {
    const [from, to] = pairOf(layout, row, column);
    const difference = differenceAt(grid, from.index * grid.keys.length + to.index);
    return Number.isNaN(difference) ? null : { shown: Math.abs(difference) / most, colours: difference > 0 ? more : less };
  };
}

function drawCells(context: CanvasRenderingContext2D, layout: Layout, read: Reader): void {
  const { rows, columns } = inView(layout);
  const [hatch, grey, empty] = [hatching(context), theme("--masked"), theme("--zero")];
  const size = layout.size;
  const gap = size >= 12 ? 1.5 : size >= 6 ? 1 : 0;
  const asCircles = layout.circles && size >= LEAST_CIRCLE;
  for (let row = rows[0]; row < rows[1]; row++) {
    for (let column = columns[0]; column < columns[1]; column++) {
      const cell = read(row, column);
      const [x, y] = [layout.left + layout.x + column * size, layout.top + layout.y + row * size];
      context.fillStyle = !cell ? (size >= 6 ? hatch : grey) : asCircles ? empty : cell.colours[Math.round(255 * cell.shown)];
      if (size >= 14) {
        context.beginPath();
        context.roundRect(x, y, size - gap, size - gap, 3);
        context.fill();
      } else context.fillRect(x, y, size - gap, size - gap);
      if (asCircles && cell) drawCircle(context, x + (size - gap) / 2, y + (size - gap) / 2, ((size - gap) / 2) * Math.sqrt(cell.shown), cell.colours[255]);
    }
  }
}

/** Draw a filled circle. Its area shows the weight, so the caller makes the radius proportional to the root of the weight. */
function drawCircle(context: CanvasRenderingContext2D, x: number, y: number, radius: number, colour: string): void {
  if (radius < 0.2) return;
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

function drawOutlines(context: CanvasRenderingContext2D, layout: Layout): void {
  if (!queryItem.value || layout.size < LEAST_OUTLINED) return;
  const [wide, high] = [layout.columns.length * layout.size, layout.rows.length * layout.size];
  const [x, y] = [layout.left + layout.x, layout.top + layout.y];
  const place = (layout.turned ? layout.columns : layout.rows).indexOf(queryItem.value) * layout.size;
  context.strokeStyle = theme("--accent");
  context.lineWidth = 1.5;
  if (layout.turned) context.strokeRect(x + place - 1, y + 0.5, layout.size, high - 2);
  else context.strokeRect(x + 0.5, y + place - 1, wide - 2, layout.size);
}

/** Draw the words along both axes, as many as have room. The chosen query and key are always drawn, in bold. */
function drawLabels(context: CanvasRenderingContext2D, layout: Layout): void {
  const { rows, columns } = inView(layout);
  const every = Math.max(1, Math.ceil(LABEL_PITCH / layout.size));
  const isQuery = (item: Item) => item === queryItem.value;
  const isKey = (item: Item) => key.value !== null && item.positions.includes(key.value);
  const middleOf = (place: number, isRow: boolean) => (isRow ? layout.y : layout.x) + (place + 0.5) * layout.size;
  const marks = (items: Item[], [first, last]: [number, number], isRow: boolean) => {
    const queries = isRow !== layout.turned;
    const chosen = items.findIndex(queries ? isQuery : isKey);
    for (let place = first; place < last; place++) {
      const near = chosen >= first && chosen < last && Math.abs(place - chosen) < every;
      if (place !== chosen && (place % every || near)) continue;
      const middle = middleOf(place, isRow);
      // Leave out a label that would be cut off at the edge, or lie over a label of the other axis.
      if (middle < 0 || middle > (isRow ? layout.height - layout.top : layout.width - layout.left)) continue;
      label(items[place], place, place === chosen, isRow);
    }
  };
  const label = (item: Item, place: number, bold: boolean, isRow: boolean) => {
    context.save();
    const middle = middleOf(place, isRow);
    const room = (isRow ? layout.left : layout.top) - 10;
    if (isRow) context.translate(layout.left - 6, layout.top + middle);
    else {
      context.translate(layout.left + middle, layout.top - 6);
      context.rotate(-Math.PI / 2);
    }
    context.font = `${bold ? 650 : 400} ${Math.max(9, Math.min(13, layout.size * every * 0.8))}px ${theme("--sans")}`;
    context.fillStyle = theme(bold ? "--ink" : "--soft");
    context.textAlign = isRow ? "right" : "left";
    context.textBaseline = "middle";
    context.fillText(shortened(context, item.text, room), 0, 0);
    context.restore();
  };
  marks(layout.rows, rows, true);
  marks(layout.columns, columns, false);
}

/** The text or, if it is wider than `room` pixels, as much of its beginning as fits, and "…". In Arabic and Hebrew, "…" is at the left. */
export function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters = letters.slice(0, -1);
  return isolated(`${letters.join("")}…`);
}

/** If the query's largest weight is out of view, draw a small arrow at the edge that points to it. */
function drawPointer(context: CanvasRenderingContext2D, grid: Grid, layout: Layout): void {
  const from = queryItem.value;
  if (!from || from.index >= grid.done) return;
  const [queries, keys] = layout.turned ? [layout.columns, layout.rows] : [layout.rows, layout.columns];
  const weightOf = (item: Item) => grid.weights[from.index * grid.keys.length + item.index];
  const strongest = keys.reduce((best, item) => (weightOf(item) > weightOf(best) ? item : best), keys[0]);
  const [across, down] = [queries.indexOf(from), keys.indexOf(strongest)].map((place) => (place + 0.5) * layout.size);
  const [x, y] = layout.turned ? [across + layout.x, down + layout.y] : [down + layout.x, across + layout.y];
  const [right, bottom] = [layout.width - layout.left, layout.height - layout.top];
  if (x >= 0 && y >= 0 && x <= right && y <= bottom) return;
  context.save();
  context.translate(layout.left, layout.top);
  drawArrow(context, x, y, right, bottom);
  context.restore();
}

/** Draw an arrow at the edge of a part of the canvas (`width`, `height`) that points to (x, y), which is outside of this part. */
export function drawArrow(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  const [inside, lower] = [[x, width], [y, height]].map(([value, most]) => Math.max(9, Math.min(most - 9, value)));
  context.save();
  context.translate(inside, lower);
  context.rotate(Math.atan2(y - lower, x - inside));
  context.fillStyle = theme("--accent");
  context.beginPath();
  context.moveTo(8, 0);
  context.lineTo(-6, -6);
  context.lineTo(-6, 6);
  context.fill();
  context.restore();
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
