// Places for names beside points of a drawing, so that no name lies over another name or over a point

import { theme } from "./colours";

const [SIZE, ASCENT] = [12, 10]; // the height of a name, and its height above the baseline; all lengths are in pixels

type Box = [left: number, top: number, right: number, bottom: number];

export interface NamePlacer {
  take: (at: readonly [number, number], radius: number) => void; // keep a circle free of names
  /** Reserve room for a name beside the point `at`, and return where to write it: the left end of its baseline; null = there is no room. */
  place: (text: string, at: readonly [number, number], distance: number) => { x: number; y: number } | null;
}

export function namePlacer(width: number, height: number): NamePlacer {
  const taken: Box[] = [];
  const context = new OffscreenCanvas(1, 1).getContext("2d")!;
  context.font = `${SIZE}px ${theme("--sans")}`;
  const isInside = ([left, top, right, bottom]: Box) => left >= 2 && top >= 2 && right <= width - 2 && bottom <= height - 2;
  const overlap = ([left, top, right, bottom]: Box, other: Box) => left < other[2] && right > other[0] && top < other[3] && bottom > other[1];
  const isFree = (box: Box) => isInside(box) && !taken.some((other) => overlap(box, other));
  return {
    take: ([x, y], radius) => void taken.push([x - radius, y - radius, x + radius, y + radius]),
    place: (text, [x, y], distance) => {
      const width = context.measureText(text).width;
      const [near, half] = [0.7 * distance, SIZE / 2];
      const corners = [ // top left corners of the name, in the order in which they are tried: right of the point, above, left, below, diagonal
        [x + distance, y - half], [x - width / 2, y - distance - SIZE], [x - distance - width, y - half], [x - width / 2, y + distance],
        [x + near, y - near - SIZE], [x + near, y + near], [x - near - width, y - near - SIZE], [x - near - width, y + near],
      ];
      const box = corners.map(([left, top]): Box => [left, top, left + width, top + SIZE]).find(isFree);
      if (!box) return null;
      taken.push(box);
      return { x: box[0], y: box[1] + ASCENT };
    },
  };
}
