// Where the cells of a pattern are on its canvas

import type { Item } from "../items";

/** Lengths are in pixels. */
export interface Layout {
  rows: Item[];
  columns: Item[];
  left: number; // of the first column, before it is moved by x
  top: number;
  size: number; // of a cell
  x: number;
  y: number;
  width: number; // of the canvas
  height: number;
  turned: boolean; // queries are columns
  circles: boolean;
}
