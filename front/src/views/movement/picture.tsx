// The movement of a token in a plane: at the left its vector's way through all layers, at the right the parts of one layer's move

import { useSize } from "../../parts/boxes";
import { namePlacer, type NamePlacer } from "../../parts/names";
import { chooseHead, head, kind, query, queryLabels } from "../../state/state";
import { words } from "../../words";
import { moves, pointAfter, type Arrow, type Move, type Point } from "./moves";

const HEIGHT = 360; // all lengths are in pixels
const MARGIN = 34;
const TIP = 9; // the length of an arrow's tip
const LEAST_BESIDE = 520; // if the picture is narrower than this, the right drawing stands below the left one
const WAY_SHARE = 0.42; // the share of the picture's width that the left drawing has

/** An arrow to draw. `dashes` "" = solid; `choose`: what a click on its name does; `isChosen`: true = the arrow of the chosen head or key. */
export interface NamedArrow extends Arrow {
  text: string;
  colour: string;
  dashes: string;
  choose?: () => void;
  isChosen?: boolean;
}

interface Plane extends NamePlacer {
  toPixels: (point: Point) => Point;
}

export function Picture({ move, arrows }: { move: Move; arrows: NamedArrow[] }) {
  const say = words();
  const [box, { width }] = useSize<HTMLDivElement>();
  const allMoves = moves.value!;
  const isBeside = width >= LEAST_BESIDE;
  const wayWidth = Math.round(isBeside ? WAY_SHARE * width : width);
  const partsBox = isBeside ? { x: wayWidth, y: 0, width: width - wayWidth } : { x: 0, y: HEIGHT, width };
  return (
    <div ref={box}>
      <svg class="plane" height={isBeside ? HEIGHT : 2 * HEIGHT} role="img" aria-label={say.movementPicture(queryLabels.value[query.value!], allMoves.length)}>
        <svg width={wayWidth} height={HEIGHT}><Way allMoves={allMoves} move={move} width={wayWidth} /></svg>
        <svg {...partsBox} height={HEIGHT}><Parts move={move} arrows={arrows} width={partsBox.width} /></svg>
        <path class="border" d={isBeside ? `M${wayWidth} 0V${HEIGHT}` : `M0 ${HEIGHT}H${width}`} />
      </svg>
      <div class="layers" role="group" aria-label={say.movementLayer}>
        {kind.value.layers.map(({ layer }) => (
          <button type="button" key={layer} aria-pressed={layer === move.layer} onClick={() => chooseHead(layer, head.value)}>L{layer}</button>
        ))}
      </div>
    </div>
  );
}

/** The left drawing: the token's vector after each layer, and other tokens' vectors after the shown layer. A click on a layer's point shows this layer. */
function Way({ allMoves, move, width }: { allMoves: Move[]; move: Move; width: number }) {
  const nearest = move.nearest.map(([token]) => pointAfter(move.layer, token));
  const plane = planeOf([...allMoves.flatMap(({ before, after }) => [before, after]), ...nearest], width);
  const { toPixels, take, place } = plane;
  const start = { text: words().inputVector, at: toPixels(allMoves[0].before), layer: null, radius: 4 };
  const stops = allMoves.map(({ layer, after }) => ({ text: `L${layer}`, at: toPixels(after), layer, radius: layer === move.layer ? 6 : 5 }));
  [start, ...stops].forEach(({ at }) => take(at, 5));
  const title = place(words().wholeWay, ...TITLE);
  const shownFirst = [start, ...stops].sort((a, b) => Number(b.layer === move.layer) - Number(a.layer === move.layer)); // so that its name has room
  const named = shownFirst.map((stop) => ({ ...stop, name: place(stop.text, stop.at, 8) }));
  return (
    <>
      <text {...title}>{words().wholeWay}</text>
      {allMoves.map(({ layer, before, after }) => <path class="way" key={layer} d={line(toPixels(before), toPixels(after))} />)}
      <g class="move"><ArrowPath from={toPixels(move.before)} to={toPixels(move.after)} width={2} /></g>
      <OtherTokens move={move} plane={plane} width={width} />
      {named.map(({ text, at: [cx, cy], layer, radius, name }) => (
        <g
          key={text}
          class={`stop${layer === move.layer ? " shown" : ""}${layer === null ? " start" : ""}`}
          onClick={() => layer !== null && chooseHead(layer, head.value)}
        >
          <circle cx={cx} cy={cy} r={radius} />
          {name && <text {...name}>{text}</text>}
        </g>
      ))}
    </>
  );
}

function Parts({ move, arrows, width }: { move: Move; arrows: NamedArrow[]; width: number }) {
  const joints = [move.before]; // each arrow begins where the one before it ends
  for (const { vector: [x, y] } of arrows) joints.push([joints.at(-1)![0] + x, joints.at(-1)![1] + y]);
  const plane = planeOf([...joints, move.after], width);
  const { toPixels, take, place } = plane;
  const points = joints.map(toPixels);
  const [start, end] = [points[0], toPixels(move.after)];
  const title = place(`L${move.layer}`, ...TITLE);
  [start, end].forEach((at) => take(at, 6));
  arrows.forEach((_, i) => {
    for (let part = 0; part <= 1; part += 1 / 16) take(between(points[i], points[i + 1], part), 2); // so that no name covers the arrow
  });
  const names = arrows.map(({ text }, i) => place(text, between(points[i], points[i + 1], 0.5), 7));
  return (
    <>
      <text {...title}>{`L${move.layer}`}</text>
      <OtherTokens move={move} plane={plane} width={width} />
      {arrows.map((arrow, i) => (
        <g key={i} class="arrow" fill={arrow.colour} stroke={arrow.colour}>
          <title>{`${arrow.text} ${arrow.length.toFixed(3)}, ${arrow.angle.toFixed(1)}°`}</title>
          <ArrowPath from={points[i]} to={points[i + 1]} width={arrow.isChosen ? 3.5 : 2} dashes={arrow.dashes} />
          {names[i] && <text {...names[i]} style={{ fill: arrow.colour }}>{arrow.text}</text>}
        </g>
      ))}
      <circle class="from" cx={start[0]} cy={start[1]} r="4" />
      <g class="stop shown start"><circle cx={end[0]} cy={end[1]} r="6" /></g>
    </>
  );
}

/** Points for the vectors of the other tokens after the layer. A point has a name if there is room for it; the nearest tokens get names first. */
function OtherTokens({ move, plane: { toPixels, take, place }, width }: { move: Move; plane: Plane; width: number }) {
  const nearest = new Set(move.nearest.map(([token]) => token));
  const isInView = ([x, y]: Point) => x > 4 && y > 4 && x < width - 4 && y < HEIGHT - 4;
  const others = queryLabels.value
    .map((text, i) => ({ text, i, at: toPixels(pointAfter(move.layer, i)), size: nearest.has(i) ? 3.5 : 2 }))
    .filter(({ i, at }) => i !== query.value && isInView(at))
    .sort((a, b) => b.size - a.size);
  others.forEach(({ at, size }) => take(at, size));
  return (
    <g class="other">
      {others.map(({ text, i, at, size }) => {
        const name = place(text, at, 5);
        return (
          <g key={i}>
            <title>{text}</title>
            <circle cx={at[0]} cy={at[1]} r={size} />
            {name && <text {...name}>{text}</text>}
          </g>
        );
      })}
    </g>
  );
}

const TITLE = [[2, 14], 8] as const; // the title of a drawing is written 8 pixels beside the point (2, 14)
const between = ([x, y]: Point, to: Point, part: number): Point => [x + part * (to[0] - x), y + part * (to[1] - y)];
const line = (from: Point, to: Point) => `M${from.join(" ")}L${to.join(" ")}`;

function ArrowPath({ from, to, width, dashes = "" }: { from: Point; to: Point; width: number; dashes?: string }) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  if (length < 1) return null;
  const [unitX, unitY] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length]; // the arrow's direction
  const tip = Math.min(TIP, length);
  const [tipX, tipY] = [to[0] - tip * unitX, to[1] - tip * unitY]; // where the tip begins
  const [sideX, sideY] = [-0.45 * tip * unitY, 0.45 * tip * unitX]; // from there to a corner of the tip, at a right angle
  return (
    <>
      <path d={line(from, [tipX, tipY])} stroke-width={width} stroke-dasharray={dashes || undefined} />
      <path d={`M${to.join(" ")}L${tipX + sideX} ${tipY + sideY}L${tipX - sideX} ${tipY - sideY}Z`} stroke="none" />
    </>
  );
}

/** A plane in which all given points are in view. Both axes have the same scale. */
function planeOf(points: Point[], width: number): Plane {
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const pixelsPerX = Math.max(1, width - 2 * MARGIN) / Math.max(right - left, 1e-9);
  const pixelsPerY = (HEIGHT - 2 * MARGIN) / Math.max(high - low, 1e-9);
  const scale = Math.max(1e-9, Math.min(pixelsPerX, pixelsPerY));
  const toPixels = ([x, y]: Point): Point => [width / 2 + (x - (left + right) / 2) * scale, HEIGHT / 2 - (y - (low + high) / 2) * scale];
  return { toPixels, ...namePlacer(width, HEIGHT) };
}
