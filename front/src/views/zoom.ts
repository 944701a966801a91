// Zoom and pan of a canvas with labels at its left and top

import { signal } from "@preact/signals";
import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent, type ZoomBehavior } from "d3-zoom";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { LONG_TEXT } from "../state";

const CLOSEST = 60; // the largest size of a cell, in pixels

export interface Zoomed {
  base: number; // the size of a cell before it is enlarged, in pixels
  rows: number;
  columns: number;
  left: number; // the room of the labels, in pixels
  top: number;
  width?: number; // of the part in which cells are seen; without it, the size of all cells before they are enlarged
  height?: number;
}

/** A transform that moves and enlarges the cells, never the labels. */
export function useZoom(canvas: { current: HTMLCanvasElement | null }, of: Zoomed) {
  const { base, rows, columns, left, top } = of;
  const [across, down] = [columns * base, rows * base];
  const [width, height] = [of.width ?? across, of.height ?? down];
  const moved = useMemo(() => signal(zoomIdentity), []);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  useEffect(() => {
    const behaves = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, Math.max(1, CLOSEST / base)])
      .extent([[left, top], [left + width, top + height]])
      .constrain(({ x, y, k }) => {
        // Cells fill the part in which they are seen, or begin at its left and top if they are smaller.
        const inside = (at: number, room: number, size: number) => Math.min(0, Math.max(at, room - k * size));
        const [right, lower] = [left * (k - 1), top * (k - 1)];
        return zoomIdentity.translate(inside(x + right, width, across) - right, inside(y + lower, height, down) - lower).scale(k);
      })
      // A page is scrolled by wheel and finger as usual, until there is something to zoom into.
      .filter((event: Event) => !(event.type === "wheel" && !(event as WheelEvent).ctrlKey && moved.value.k === 1 && Math.max(rows, columns) <= LONG_TEXT))
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => (moved.value = event.transform));
    behaviour.current = behaves;
    const element = select(canvas.current!);
    element.call(behaves).on("dblclick.zoom", null);
    element.call(behaves.transform, zoomIdentity);
    return () => void element.on(".zoom", null);
  }, [base, rows, columns, left, top, width, height]);
  const element = () => select(canvas.current!);
  const { x, y, k } = moved.value;
  return {
    // d3 zooms about the canvas's corner, and the cells begin at `left` and `top`.
    x: x + left * (k - 1),
    y: y + top * (k - 1),
    k,
    scaleBy: (factor: number) => element().call(behaviour.current!.scaleBy, factor),
    moveBy: (right: number, lower: number) => element().call(behaviour.current!.translateBy, -right / k, -lower / k),
    reset: () => element().call(behaviour.current!.transform, zoomIdentity),
    /** Put a cell into the middle, enlarged to `size` pixels at least. */
    centre: (row: number, column: number, size = 0) => {
      const [at, lower] = [left + (Math.max(0, column) + 0.5) * base, top + (Math.max(0, row) + 0.5) * base];
      if (base * k < size) element().call(behaviour.current!.scaleTo, size / base);
      element().call(behaviour.current!.translateTo, at, lower);
    },
  };
}
