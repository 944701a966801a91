// Marks of the weights on a canvas (see view.ts): labels of the tokens, a frame around the chosen query, a ring or an arrow at a weight

import { isolated, type Item } from "../trace/items";
import { clip } from "./canvas";
import { theme } from "./colours";
import { axes, inView, type View } from "./view";

const LABEL_PITCH = 15; // the least distance between two labels, in pixels
const LEAST_FRAMED = 6; // if cells are at least this many pixels large, a frame is drawn around the chosen query's weights; else a line through them
const [TICK, GAP] = [4, 4]; // the length of a line from a numbered label to its weights, and the space between label and line, in pixels

export const MIRRORED = [0, 1, 1, 0, 0, 0] as const; // the transform that swaps both axes

/** The distance between labels, in tokens: 1, 2 or 5 times a power of ten, and large enough that labels do not overlap. */
function pitchOf(size: number): number {
  const leastPitch = LABEL_PITCH / size;
  if (leastPitch <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(leastPitch));
  return [1, 2, 5, 10].map((n) => n * power).find((pitch) => pitch >= leastPitch)!;
}

/** Draw as many labels as have room, and in bold the labels of the chosen query and key. `numbered`: add each token's position, and a line from the label to the weights. */
export function drawLabels(context: CanvasRenderingContext2D, view: View, query: number | null, key: number | null, numbered = false): void {
  const pitch = pitchOf(view.size);
  const shown = inView(view);
  const gap = GAP + (numbered ? TICK : 2);
  const label = (item: Item, token: number, bold: boolean, isRow: boolean) => {
    const middle = (isRow ? view.y : view.x) + (token + 0.5) * view.size;
    if (middle < 0 || middle > (isRow ? view.height : view.width)) return; // the label would be cut off, or lie over a label of the other axis
    context.save();
    if (isRow) context.translate(view.left, view.top + middle);
    else {
      context.translate(view.left + middle, view.top);
      context.rotate(-Math.PI / 2);
    }
    context.fillStyle = theme(bold ? "--ink" : "--soft");
    if (numbered) context.fillRect(isRow ? -TICK : 0, -0.5, TICK, 1);
    context.font = `${bold ? 650 : 400} ${Math.max(9, Math.min(13, view.size * pitch * 0.8))}px ${theme("--sans")}`;
    context.textAlign = isRow ? "right" : "left";
    context.textBaseline = "middle";
    const text = numbered ? numberedName(item) : item.label;
    context.fillText(shortened(context, text, (isRow ? view.left : view.top) - gap - GAP), isRow ? -gap : gap, 0);
    context.restore();
  };
  const labels = (items: Item[], [first, last]: [number, number], chosen: number | null, isRow: boolean) => {
    const isShown = chosen !== null && chosen >= first && chosen < last;
    for (let token = Math.ceil(first / pitch) * pitch; token < last; token += pitch) {
      if (!isShown || Math.abs(token - chosen) * view.size >= LABEL_PITCH) label(items[token], token, false, isRow);
    }
    if (isShown) label(items[chosen], chosen, true, isRow);
  };
  labels(view.queries, shown.queries, query, !view.turned);
  labels(view.keys, shown.keys, key, view.turned);
}

/** The position and the text of a token of a long text, such as "1,202 it". */
export const numberedName = ({ positions, text }: Item) => `${positions[0].toLocaleString("en")} ${text}`;

/** The text or, if it is wider than `room` pixels, as much of its beginning as fits, and "…". In Arabic and Hebrew, "…" is at the left. */
function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters = letters.slice(0, -1);
  return isolated(`${letters.join("")}…`);
}

/** Until `context.restore()`, draw only where the weights are, with the origin at the top left corner of this part of the canvas. */
function overWeights(context: CanvasRenderingContext2D, { left, top, width, height }: View): void {
  clip(context, left - 1, top - 1, width + 2, height + 2);
  context.translate(left, top);
}

/** Draw a frame around the weights of a query or, if their cells are only a few pixels large, a line through them. */
export function drawQuery(context: CanvasRenderingContext2D, view: View, query: number): void {
  const { queriesFrom, keysFrom, keysRoom } = axes(view);
  const y = queriesFrom + query * view.size;
  const [from, to] = [Math.max(0, keysFrom), Math.min(keysRoom, keysFrom + view.keys.length * view.size)];
  overWeights(context, view);
  if (view.turned) context.transform(...MIRRORED);
  context.strokeStyle = theme("--accent");
  context.lineWidth = 1.5;
  if (view.size >= LEAST_FRAMED) context.strokeRect(from, y, to - from, view.size);
  else context.strokeRect(from, y + view.size / 2, to - from, 0);
  context.restore();
}

/** If a weight is out of view, draw an arrow at the edge that points to it, with the name of the key; else, if `ringed`, draw a ring around it. */
export function drawStrongest(context: CanvasRenderingContext2D, view: View, query: number, key: number, ringed = false): void {
  const { queriesFrom, keysFrom } = axes(view);
  const [ofQuery, ofKey] = [queriesFrom + (query + 0.5) * view.size, keysFrom + (key + 0.5) * view.size];
  const [x, y] = view.turned ? [ofQuery, ofKey] : [ofKey, ofQuery];
  const isInView = x >= 0 && y >= 0 && x <= view.width && y <= view.height;
  overWeights(context, view);
  context.beginPath();
  if (isInView && ringed) {
    context.strokeStyle = theme("--ink");
    context.lineWidth = 1.5;
    context.arc(x, y, Math.max(4, view.size / 2 + 2), 0, 2 * Math.PI);
    context.stroke();
  } else if (!isInView) {
    const [insideX, insideY] = [[x, view.width], [y, view.height]].map(([value, length]) => Math.max(9, Math.min(length - 9, value)));
    const [inwardX, inwardY] = [Math.sign(insideX - x), Math.sign(insideY - y)];
    const item = view.keys[key];
    context.font = `650 12px ${theme("--sans")}`;
    const sideAlign = inwardX > 0 ? "left" : "right";
    context.textAlign = inwardX ? sideAlign : "center";
    context.textBaseline = "middle";
    context.strokeStyle = theme("--panel");
    context.lineWidth = 4;
    context.fillStyle = theme("--accent");
    const name = shortened(context, ringed ? numberedName(item) : item.label, view.width - (inwardX ? 24 : 4));
    const place = [name, insideX + 11 * inwardX, insideY + (inwardX ? 0 : 16 * inwardY)] as const;
    context.strokeText(...place);
    context.fillText(...place);
    context.translate(insideX, insideY);
    context.rotate(Math.atan2(y - insideY, x - insideX));
    context.moveTo(8, 0);
    context.lineTo(-6, -6);
    context.lineTo(-6, 6);
    context.fill();
  }
  context.restore();
}
