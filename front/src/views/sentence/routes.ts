// The paths of arcs between words. An arc crosses a line of text in a gap between two words, or goes around the line.

import type { Box } from "../../parts/boxes";

const LABEL_HEIGHT = 18; // the height of a weight that is written under a word; all lengths are in pixels
const LEAST_GAP = 5; // arcs pass only through gaps of at least this width, and so not between the pieces of a word
const OUTSIDE = 7; // an arc that goes around a line keeps this distance from its first or last word

/** A line of words: where it lies, and where arcs can pass it: the middles of the gaps between its words, and its two ends. */
export interface Line {
  top: number;
  bottom: number;
  gaps: number[];
}

/** Whether two words, or a word and a line of words, lie on one line of text. */
export const isOneLine = (one: { top: number }, other: { top: number }) => Math.abs(one.top - other.top) < 4;

/** The lines on which words lie. `hasLabels`: whether weights are written under the words. */
export function linesOf(boxes: Box[], hasLabels: boolean): Line[] {
  const lines: Box[][] = [];
  for (const box of [...boxes].sort((a, b) => a.top - b.top)) {
    const line = lines.at(-1);
    if (line && isOneLine(box, line[0])) line.push(box);
    else lines.push([box]);
  }
  return lines.map((line) => {
    const words = line.sort((a, b) => a.left - b.left);
    const gaps = words.slice(1).map(({ left }, i) => [words[i].right, left]);
    const wideGaps = gaps.filter(([from, to]) => to - from >= LEAST_GAP);
    return {
      top: words[0].top,
      bottom: words[0].bottom + (hasLabels ? LABEL_HEIGHT : 0),
      gaps: [words[0].left - OUTSIDE, ...wideGaps.map(([from, to]) => (from + to) / 2), words.at(-1)!.right + OUTSIDE],
    };
  });
}

/** The path of an arc from a query to a key. It joins their tops if both are on one line of text; else the edges that face each other. */
export function arc(start: Box, end: Box, lines: Line[], room: number): string {
  if (isOneLine(start, end)) {
    const across = Math.abs(start.middle - end.middle);
    const rise = (4 / 3) * Math.min(room - 5, 19 + 0.17 * across);
    const aside = across < 1 ? 20 : 0; // makes an arc from a word to itself a loop
    return `M${start.middle} ${start.top}C${start.middle - aside} ${start.top - rise} ${end.middle + aside} ${end.top - rise} ${end.middle} ${end.top}`;
  }
  const [startLine, endLine] = [start, end].map((box) => lines.findIndex((line) => isOneLine(line, box)));
  const isDown = startLine < endLine;
  const passed = isDown ? lines.slice(startLine + 1, endLine) : lines.slice(endLine + 1, startLine).reverse();
  const [startY, endY] = isDown ? [lines[startLine].bottom, end.top] : [start.top, lines[endLine].bottom];
  let [x, y] = [start.middle, startY];
  let path = `M${x} ${y}`;
  const curveTo = (toX: number, toY: number) => {
    const half = (y + toY) / 2;
    path += `C${x} ${half} ${toX} ${half} ${toX} ${toY}`;
    [x, y] = [toX, toY];
  };
  for (const { top, bottom, gaps } of passed) {
    const straightX = start.middle + ((end.middle - start.middle) * ((top + bottom) / 2 - startY)) / (endY - startY); // where a straight line would pass
    const nearestGap = gaps.reduce((best, gap) => (Math.abs(gap - straightX) < Math.abs(best - straightX) ? gap : best));
    curveTo(nearestGap, isDown ? top : bottom);
    y = isDown ? bottom : top;
    path += `V${y}`;
  }
  curveTo(end.middle, endY);
  return path;
}
