// Zoom and pan of a canvas that has cells, and labels at the left and top

import { type Signal, useSignal } from "@preact/signals";
import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { linkedSignal } from "../state/linked-signals";
import { LONG_TEXT } from "../state/state";

const CLOSEST = 60; // the largest size to which a cell can be enlarged, in pixels

interface ZoomLayout {
  hasSize: boolean; // whether the size of the canvas is known
  base: number; // the size of a cell before it is enlarged, in pixels
  rows: number;
  columns: number;
  turned: boolean; // true = the queries are the columns; false = the rows
  left: number; // the width of the labels left of the cells, in pixels
  top: number; // the height of the labels above the cells, in pixels
  width?: number; // the width of the part that shows cells, in pixels; left out = columns · base, the width of all cells
  height?: number; // the height of the part that shows cells, in pixels; left out = rows · base, the height of all cells
}

/** What the canvas shows: cells enlarged by the factor `k`, and in the middle the point (`row`, `column`), in cells: 2.5 is the middle of row 2. */
interface ZoomPlace {
  k: number;
  row: number;
  column: number;
}

/** A signal that the page keeps in its address. It says what a canvas shows: the zoom factor, and the row and column in the middle ("4 120.5 88.25"); null = all cells. */
export const linkedPlace = (name: string): Signal<ZoomPlace | null> =>
  linkedSignal<ZoomPlace | null>(
    name,
    null,
    (place) => [place!.k, place!.row, place!.column].map((number) => Number(number.toFixed(4))).join(" "),
    (text) => {
      const [k, row, column, ...others] = text.split(" ").map(Number);
      return k > 1 && row >= 0 && column >= 0 && !others.length ? { k, row, column } : undefined;
    },
  );

/** Let the reader zoom and move the cells of a canvas. `place`: what the canvas shows, null = all cells; the reader and the page may set it. */
export function useZoom(canvas: { current: HTMLCanvasElement | null }, place: Signal<ZoomPlace | null>, layout: ZoomLayout) {
  const { hasSize, base, rows, columns, turned, left, top } = layout;
  const [cellsWidth, cellsHeight] = [columns * base, rows * base];
  const { width = cellsWidth, height = cellsHeight } = layout;
  const transform = useSignal(zoomIdentity);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  const followed = useRef({ place: null as ZoomPlace | null, rows, columns, turned, base }); // what the canvas shows now, and its `rows`, `columns`, `turned` and `base`
  // Limit a transform: the cells fill their part of the canvas or, if they are smaller, begin at its top left corner.
  const inside = ({ x, y, k }: ZoomTransform) => {
    const limited = (start: number, room: number, size: number) => Math.min(0, Math.max(start, room - k * size));
    const [leftGrowth, topGrowth] = [left * (k - 1), top * (k - 1)]; // d3 enlarges the labels, too (see below)
    const limitedX = limited(x + leftGrowth, width, cellsWidth) - leftGrowth;
    const limitedY = limited(y + topGrowth, height, cellsHeight) - topGrowth;
    return zoomIdentity.translate(limitedX, limitedY).scale(k);
  };
  const placeOf = ({ x, y, k }: ZoomTransform): ZoomPlace | null => {
    const middle = (room: number, start: number, labels: number) => (room / 2 - start - labels * (k - 1)) / (base * k);
    return k === 1 ? null : { k, row: middle(height, y, top), column: middle(width, x, left) };
  };
  const transformTo = (wanted: ZoomPlace | null): ZoomTransform => {
    if (!wanted) return zoomIdentity;
    const k = Math.max(1, Math.min(wanted.k, CLOSEST / base));
    const start = (room: number, cell: number, labels: number) => room / 2 - cell * base * k - labels * (k - 1);
    return inside(zoomIdentity.translate(start(width, wanted.column, left), start(height, wanted.row, top)).scale(k));
  };
  /** What to show after rows and columns have changed. A new value of `place` is shown. Else the cells stay if rows and columns were swapped or are as many as before; if not, null = all cells. */
  const placeToShow = (): ZoomPlace | null => {
    const [wanted, before] = [place.peek(), followed.current];
    if (wanted !== before.place || !wanted) return wanted;
    const wereSwapped = turned !== before.turned && before.rows === columns && before.columns === rows;
    if (wereSwapped) return { k: (wanted.k * before.base) / base, row: wanted.column, column: wanted.row };
    return rows === before.rows && columns === before.columns ? wanted : null;
  };
  // A layout effect runs before the browser paints, so that swapped rows and columns are never seen at the wrong place.
  useLayoutEffect(() => {
    if (!hasSize) return;
    const behaviourNow = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, Math.max(1, CLOSEST / base)])
      .extent([[left, top], [left + width, top + height]])
      .constrain(inside)
      // While a short text is not enlarged, the wheel scrolls the page as usual; with Ctrl, it zooms.
      .filter((event: Event) => {
        const isPlainWheel = event.type === "wheel" && !(event as WheelEvent).ctrlKey;
        return !(isPlainWheel && transform.value.k === 1 && Math.max(rows, columns) <= LONG_TEXT);
      })
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
        transform.value = event.transform;
        place.value = followed.current.place = placeOf(event.transform);
      });
    behaviour.current = behaviourNow;
    const element = select(canvas.current!);
    element.call(behaviourNow).on("dblclick.zoom", null);
    element.call(behaviourNow.transform, transformTo(placeToShow()));
    followed.current = { ...followed.current, rows, columns, turned, base };
    return () => void element.on(".zoom", null);
  }, [hasSize, base, rows, columns, turned, left, top, width, height]);
  useEffect(() => {
    if (hasSize && place.value !== followed.current.place) select(canvas.current!).call(behaviour.current!.transform, transformTo(place.value));
  }, [place.value]);
  const element = () => select(canvas.current!);
  const { x, y, k } = transform.value;
  return {
    // d3 enlarges the labels, too: its first column is at x + left · k. The returned x and y are distances from the labels, which keep their size.
    x: x + left * (k - 1),
    y: y + top * (k - 1),
    k,
    scaleBy: (factor: number) => element().call(behaviour.current!.scaleBy, factor),
    moveBy: (right: number, down: number) => element().call(behaviour.current!.translateBy, -right / k, -down / k),
    reset: () => element().call(behaviour.current!.transform, zoomIdentity),
    /** Move the cell of a query and a key into the middle and, if it is smaller than `size` pixels, enlarge it to this size. */
    centre: (query: number, key: number, size = 0) => {
      const [row, column] = turned ? [key, query] : [query, key];
      const [middleX, middleY] = [left + (Math.max(0, column) + 0.5) * base, top + (Math.max(0, row) + 0.5) * base];
      if (base * k < size) element().call(behaviour.current!.scaleTo, size / base);
      element().call(behaviour.current!.translateTo, middleX, middleY);
    },
  };
}
