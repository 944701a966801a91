// Very many heads, drawn on one canvas: a row for each layer, a column for each head; only heads in view are drawn

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { cleared, clip, putPixels } from "../../parts/canvas";
import { dark, hueOf, pixelsOf, shades, theme } from "../../parts/colours";
import { colourScale, head, kind, layerNumber, runAgainOn } from "../../state/state";
import { words } from "../../words";
import { cellOf, chooseCell, colourOf, type Cell, type CellShows } from "./head-cell";
import { headsDone, type Summary } from "./summaries";

const [LEFT, TOP] = [34, 18]; // the space for the names of layers at the left and of heads at the top, in pixels
const [LEAST, LARGEST, LEAST_PATTERN] = [7, 22, 18]; // the least and the largest size of a cell, and the least size of a cell with a small picture, in pixels
const NAME_PITCH = 26; // the least distance between the names of two heads, in pixels

/** `count`: the number of all heads; `maxHeads`: the largest number of heads in a layer; `labelOf` returns the text for a cell under the pointer. */
export function HeadsCanvas({ count, shows, maxHeads, labelOf }: { count: number; shows: CellShows; maxHeads: number; labelOf: (cell: Cell) => string }) {
  const [box, { width, height }] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [scrolled, setScrolled] = useState({ x: 0, y: 0 });
  const [pointed, setPointed] = useState<Cell | null>(null);
  const layers = kind.value.layers;
  const least = shows === "patterns" ? LEAST_PATTERN : LEAST;
  const size = Math.max(least, Math.min(LARGEST, Math.floor((width - LEFT) / maxHeads)));
  runAgainOn(dark, colourScale, head, layerNumber, headsDone);
  useLayoutEffect(() => {
    if (!width) return;
    const context = cleared(canvas.current!, width, height);
    const [firstRow, firstColumn] = [Math.floor(scrolled.y / size), Math.floor(scrolled.x / size)];
    const [nRows, nColumns] = [Math.ceil((height - TOP) / size) + 1, Math.ceil((width - LEFT) / size) + 1]; // in view
    const cornerOf = (row: number, column: number) => [LEFT + column * size - scrolled.x, TOP + row * size - scrolled.y];
    clip(context, LEFT, TOP, width, height);
    for (let row = firstRow; row < Math.min(layers.length, firstRow + nRows); row++) {
      for (let column = firstColumn; column < Math.min(layers[row].heads, firstColumn + nColumns); column++) {
        const [x, y] = cornerOf(row, column);
        drawCell(context, cellOf(layers[row], column), x, y, size - 1, shows);
      }
    }
    context.restore();
    drawNames(context, layers.map((layer) => `L${layer.layer}`), Array.from({ length: maxHeads }, (_, i) => `H${i}`), cornerOf, size);
  });
  const cellAt = (event: MouseEvent) => {
    const column = Math.floor((event.offsetX - LEFT + scrolled.x) / size);
    const layer = layers[Math.floor((event.offsetY - TOP + scrolled.y) / size)];
    return layer && column >= 0 && column < layer.heads ? cellOf(layer, column) : null;
  };
  return (
    <>
      <p class={pointed ? "readout" : "readout quiet"} role="status" data-hint={words().manyHeads(count)}><span>{pointed ? labelOf(pointed) : words().manyHeads(count)}</span></p>
      <div class="scroll heads-canvas" tabIndex={0} ref={box} onScroll={(event) => setScrolled({ x: event.currentTarget.scrollLeft, y: event.currentTarget.scrollTop })}>
        <div style={{ width: `${LEFT + maxHeads * size}px`, height: `${TOP + layers.length * size}px` }}>
          <canvas
            ref={canvas}
            role="img"
            aria-label={words().manyHeads(count)}
            onPointerMove={(event) => setPointed(cellAt(event))}
            onPointerLeave={() => setPointed(null)}
            onClick={(event) => {
              const cell = cellAt(event);
              if (cell) chooseCell(cell, shows);
            }}
          />
        </div>
      </div>
    </>
  );
}

function drawCell(context: CanvasRenderingContext2D, cell: Cell, x: number, y: number, size: number, shows: CellShows): void {
  if (shows === "patterns" && cell.summary) {
    context.imageSmoothingEnabled = false;
    context.drawImage(thumbnail(cell.summary, shades(hueOf(cell.head, cell.layer.heads))), x, y, size, size);
  } else {
    const colour = colourOf(cell, shows);
    context.fillStyle = colour ? shades(colour.hue)[Math.round(255 * colour.strength)] : theme("--faint");
    context.fillRect(x, y, size, size);
  }
  if (cell.layer.layer !== layerNumber.value || cell.head !== head.value) return;
  context.strokeStyle = theme("--ink");
  context.lineWidth = 2;
  context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
}

const thumbnails = new WeakMap<Summary, { colours: string[]; image: OffscreenCanvas }>();

/** Return a small picture of a head's weights. The picture is kept, and is drawn again only if the colours have changed. */
export function thumbnail(summary: Summary, colours: string[]): OffscreenCanvas {
  const drawn = thumbnails.get(summary);
  if (drawn?.colours === colours) return drawn.image;
  const pixelOf = pixelsOf(colours);
  const pixels = Uint32Array.from(summary.pooled, (strength) => pixelOf[Math.round(255 * strength)]);
  const image = new OffscreenCanvas(summary.columns, summary.rows);
  putPixels(image, pixels);
  thumbnails.set(summary, { colours, image });
  return image;
}

function drawNames(context: CanvasRenderingContext2D, rows: string[], columns: string[], cornerOf: (row: number, column: number) => number[], size: number): void {
  context.font = `10px ${theme("--sans")}`;
  context.fillStyle = theme("--soft");
  context.textBaseline = "middle";
  context.textAlign = "right";
  const everyRow = Math.ceil(14 / size);
  const everyColumn = Math.ceil(NAME_PITCH / size);
  rows.forEach((text, row) => {
    const y = cornerOf(row, 0)[1] + size / 2;
    if (row % everyRow === 0 && y > TOP) context.fillText(text, LEFT - 5, y);
  });
  context.textAlign = "center";
  columns.forEach((text, column) => {
    const x = cornerOf(0, column)[0] + size / 2;
    if (column % everyColumn === 0 && x > LEFT) context.fillText(text, x, TOP / 2);
  });
}
