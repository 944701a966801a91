// The layout of a pattern: where its cells are on the canvas

import type { Item } from "../items";

/** The rows and columns of a pattern, and where they are on the canvas; all lengths are in pixels. */
export interface Layout {
  rows: Item[];
  columns: Item[];
  left: number; // the width of the labels at the left; the first column begins at left + x
  top: number; // the height of the labels at the top; the first row begins at top + y
  size: number; // the width and height of a cell
  x: number;
  y: number;
  width: number; // the width and the height of the canvas
  height: number;
  turned: boolean; // true = the queries are the columns; false = the rows
  circles: boolean; // true = weights are the areas of circles; false = the colours of cells
}
