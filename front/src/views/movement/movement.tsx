// The view of the movement: how each layer changes the hidden vector of the chosen token, drawn as arrows in a plane

import { computed } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { useSize } from "../../parts/boxes";
import { dark, grey, hueOf, shade } from "../../parts/colours";
import { Choice, Numbers, Panel } from "../../parts/panel";
import { linkedChoice } from "../../state/linked-signals";
import { chooseHead, chooseKind, head, key, keyLabels, kind, kindName, layerNumber, layerOf, query, queryLabels, trace } from "../../state/state";
import { words } from "../../words";
import { movement, movementPending, movements, moves, pointAfter, shownMove, type Arrow, type Move, type Point } from "./moves";

const dividedInto = linkedChoice("moved-by", "heads", "sources", "parts");
const pictureShows = linkedChoice("movement", "whole", "layer"); // what the picture shows: "whole" = the path through all layers, "layer" = the move in one layer
const whole = computed(() => pictureShows.value === "whole");
const HEIGHT = 360;
const MARGIN = 34;
const TIP = 8; // the length of an arrow's tip, in pixels
const [LINE, NAME_WIDTH] = [14, 90]; // the height and the largest width of a token's name in the picture, in pixels
const NAMED = 24; // if there are fewer other tokens than this, the picture names all of them; else only the nearest ones
// How faint a grey arrow is, by what it shows. These arrows are grey because any hue would be that of some head.
const [FEED_FORWARD, REST, OTHERS, BIAS] = [0, 1, 2, 3];
const ATTENTION = 75; // the hue of the arrow for all of attention

/**
 * The panel that shows how the layers move the hidden vector of a token. While this is computed for a new text, a copy of the
 * previous panel is shown, which does not react to clicks.
 */
export function MovementView() {
  const shown = useRef<HTMLDivElement>(null);
  const pending = movementPending.value;
  const copy = useMemo(() => (pending ? shown.current?.firstElementChild?.cloneNode(true) : null), [pending]);
  if (copy) return <div key="before" class="moving" aria-busy="true" inert ref={(box) => box?.replaceChildren(copy)} />;
  return <div key="now" class="moving" ref={shown}><Movement /></div>;
}

function Movement() {
  const say = words();
  const of = movement.value;
  if (!of) return <OtherKinds />;
  const move = shownMove.value;
  if (!move) return <Panel view="movement" title={say.movement}><p class="caption">{say.movementToken}</p></Panel>;
  const name = queryLabels.value[query.value!];
  const [first, second] = of.shares.map((share) => (100 * share).toFixed(1));
  return (
    <Panel
      view="movement"
      title={`${say.movement} · L${move.layer} · ${name}`}
      caption={say.movementPlane(first, second) + (of.left_out ? ` ${say.movementLeftOut(of.left_out, of.vectors)}` : "")}
      tools={
        <>
          <Choice label={say.movedBy} of={dividedInto} options={[["heads", say.byHeads], ["sources", say.bySources], ["parts", say.byParts]]} />
          <Choice label={say.movementShows} of={pictureShows} options={[["whole", say.wholeWay], ["layer", say.thisLayer]]} />
        </>
      }
    >
      <div class="moved">
        <Picture move={move} />
        <div>
          <MoveTable move={move} />
          <p class="caption nearest">
            {say.nearestAfter(`L${move.layer}`)}{" "}
            {move.nearest.map(([token, angle]) => `${queryLabels.value[token]} ${angle.toFixed(1)}°`).join(" · ")}
          </p>
        </div>
      </div>
      <p class="caption">{say.movementAngles}</p>
      <Numbers
        head={[say.layer, say.vectorBefore, say.byAttention, say.byFeedForward, restName(), say.vectorAfter, say.turnedBy]}
        rows={() => moves.value!.map((one) => [
          `L${one.layer}`,
          ...[one.lengths[0], one.attention.length, one.feedForward.length, one.rest.length, one.lengths[1]].map((number) => number.toFixed(5)),
          one.turned.toFixed(4),
        ])}
      />
    </Panel>
  );
}

/** While cross-attention is shown, which has no movement: buttons that switch to the kinds of attention that have one, if any. */
function OtherKinds() {
  const say = words();
  const kinds = Object.keys(movements.value) as ("encoder" | "decoder")[];
  if (!kinds.length) return null;
  return (
    <Panel view="movement" title={say.movement}>
      <p class="caption">{say.movementKinds}</p>
      <div class="layers">{kinds.map((kind) => <button type="button" key={kind} onClick={() => chooseKind(kind)}>{say[kind]}</button>)}</div>
    </Panel>
  );
}

/**
 * The name of the part of a layer's move that is neither attention nor feed-forward: the change made by layer norms and, in the
 * decoder of an encoder-decoder, the vector that cross-attention adds.
 */
const restName = () => (kindName.value === "decoder" && trace.value.kinds.cross ? words().byCrossAndRest : words().byRest);

/**
 * An arrow with its name and colour. `choose`: what a click on the name does; `near`: true = the arrow is that of the chosen head or
 * key, and is drawn thicker.
 */
interface NamedArrow extends Arrow {
  text: string;
  colour: string;
  choose?: () => void;
  near?: boolean;
}

/**
 * The arrows whose sum is the move of a layer. `dividedInto` says how the arrow of attention is divided: "heads" = one arrow for each
 * head, "sources" = one for each source token, "parts" = not divided.
 */
function arrowsOf(move: Move): NamedArrow[] {
  const say = words();
  const named = (arrow: Arrow, text: string, hue: number | null, faintness = 0): NamedArrow => ({ ...arrow, text, colour: hue === null ? grey(faintness) : shade(0.85, hue) });
  const others = (arrow: Arrow) => named(arrow, dividedInto.value === "heads" ? say.otherHeads : say.otherSources, null, OTHERS);
  const heads = layerOf(move.layer).heads;
  const attention =
    dividedInto.value === "parts"
      ? [named(move.attention, say.byAttention, ATTENTION)]
      : dividedInto.value === "heads"
        ? move.heads.map((arrow) =>
            arrow.index < 0 ? others(arrow) : { ...named(arrow, `H${arrow.index}`, hueOf(arrow.index, heads)), choose: () => chooseHead(move.layer, arrow.index), near: arrow.index === head.value && move.layer === layerNumber.value },
          )
        : move.sources.map((arrow) =>
            arrow.index < 0 ? others(arrow) : { ...named(arrow, keyLabels.value[arrow.index], 255), choose: () => (key.value = arrow.index), near: arrow.index === key.value },
          );
  const bias = dividedInto.value === "parts" || move.bias.length < 1e-3 ? [] : [named(move.bias, say.outputBias, null, BIAS)];
  const rest = move.rest.length < 1e-3 ? [] : [named(move.rest, restName(), null, REST)];
  return [...attention, ...bias, named(move.feedForward, say.byFeedForward, null, FEED_FORWARD), ...rest];
}

/** The table of the arrows of a move, with their lengths and their angles to the whole move. */
function MoveTable({ move }: { move: Move }) {
  const say = words();
  return (
    <div class="scroll" tabIndex={0}>
      <table class="parts">
        <thead>
          <tr><th scope="col">{say.adds}</th><th scope="col">{say.length}</th><th scope="col">{say.angle}</th></tr>
        </thead>
        <tbody>
          <tr class="state"><th scope="row">{say.vectorBefore}</th><td>{move.lengths[0].toFixed(3)}</td><td /></tr>
          {arrowsOf(move).map((arrow, i) => (
            <tr key={i} class={arrow.near ? "near" : ""}>
              <th scope="row" dir="auto">
                <i style={{ background: arrow.colour }} />
                {arrow.choose ? <button type="button" aria-pressed={arrow.near} onClick={arrow.choose}>{arrow.text}</button> : arrow.text}
              </th>
              <td>{arrow.length.toFixed(3)}</td>
              <td>{arrow.angle.toFixed(1)}°</td>
            </tr>
          ))}
          <tr class="state"><th scope="row">{say.vectorAfter}</th><td>{move.lengths[1].toFixed(3)}</td><td>{move.turned.toFixed(1)}°</td></tr>
        </tbody>
      </table>
    </div>
  );
}

/**
 * The picture of hidden vectors, projected onto a plane. It has an arrow for what each part of one layer adds to the token's vector; an
 * arrow begins where the one before it ends. It has points for the vectors of the other tokens after this layer and, if `whole`, the
 * path of the token's vector through all layers.
 */
function Picture({ move }: { move: Move }) {
  const say = words();
  const [box, { width }] = useSize<HTMLDivElement>();
  void dark.value;
  const all = moves.value!;
  const arrows = arrowsOf(move);
  const tips = [move.before];
  for (const { reach } of arrows) tips.push([tips.at(-1)![0] + reach[0], tips.at(-1)![1] + reach[1]]);
  const toPixels = scaled([...tips, move.after, ...(whole.value ? all.flatMap((one) => [one.before, one.after]) : [])], width);
  return (
    <div ref={box}>
      <svg class="plane" height={HEIGHT} role="img" aria-label={say.movementPicture(queryLabels.value[query.value!], all.length)}>
        <OtherTokens move={move} toPixels={toPixels} width={width} />
        {whole.value && all.map((one) => <path class="way" key={one.layer} d={line(toPixels(one.before), toPixels(one.after))} />)}
        {arrows.map((arrow, i) => <Part key={i} arrow={arrow} from={toPixels(tips[i])} to={toPixels(tips[i + 1])} />)}
        {(whole.value ? all : [move]).map((one) => <Stop key={one.layer} move={one} shown={one === move} toPixels={toPixels} />)}
        <Start at={toPixels((whole.value ? all[0] : move).before)} />
      </svg>
      <div class="layers" role="group" aria-label={say.movementLayer}>
        {kind.value.layers.map(({ layer }) => (
          <button type="button" key={layer} aria-pressed={layer === move.layer} onClick={() => chooseHead(layer, head.value)}>L{layer}</button>
        ))}
      </div>
    </div>
  );
}

type ToPixels = (point: Point) => Point; // turns a point of the plane into a point of the picture, in pixels

const line = (from: Point, to: Point) => `M${from.join(" ")}L${to.join(" ")}`;

/**
 * Points for the vectors of the other tokens after the layer. The nearest tokens have their names beside the points (all tokens do if
 * they are fewer than NAMED). If the point of a near token is out of the picture, its name stands at the edge, with an arrow.
 */
function OtherTokens({ move, toPixels, width }: { move: Move; toPixels: ToPixels; width: number }) {
  const near = new Set(move.nearest.map(([token]) => token));
  const taken: Point[] = []; // the places at the edge that already have a name
  const others = queryLabels.value.map((text, i) => ({ text, i, at: toPixels(pointAfter(move.layer, i)) })).filter(({ i }) => i !== query.value);
  return (
    <g class="other">
      {others.map(({ text, i, at: [x, y] }) => {
        const out = x < 4 ? "←" : x > width - 4 ? "→" : y < 4 ? "↑" : y > HEIGHT - 4 ? "↓" : "";
        if (out && !near.has(i)) return null;
        if (out) return <text key={i} class="out" {...edgeOf(x, y, width, taken)}>{out === "→" ? `${text} →` : `${out} ${text}`}</text>;
        return (
          <g key={i}>
            <circle cx={x} cy={y} r={near.has(i) ? 3.5 : 2} />
            {(near.has(i) || others.length < NAMED) && <text x={x + 5} y={y + 4}>{text}</text>}
          </g>
        );
      })}
    </g>
  );
}

/** The place at the edge of the picture for the name of a token whose point (x, y) is outside; names in `taken` are not overlapped. */
function edgeOf(x: number, y: number, width: number, taken: Point[]) {
  const at: Point = [Math.max(6, Math.min(width - 6, x)), Math.max(LINE, Math.min(HEIGHT - 6, y))];
  const down = at[1] < HEIGHT / 2 ? LINE : -LINE;
  while (taken.some((other) => Math.abs(other[0] - at[0]) < NAME_WIDTH && Math.abs(other[1] - at[1]) < LINE)) at[1] += down;
  taken.push(at);
  return { x: at[0], y: at[1], "text-anchor": x > width / 2 ? "end" : "start" };
}

/** One arrow of the move, with its name, length and angle as a tooltip. */
function Part({ arrow, from, to }: { arrow: NamedArrow; from: Point; to: Point }) {
  return (
    <g class="arrow" stroke={arrow.colour} fill={arrow.colour}>
      <title>{`${arrow.text} ${arrow.length.toFixed(3)}, ${arrow.angle.toFixed(1)}°`}</title>
      <path d={line(from, to)} stroke-width={arrow.near ? 3 : 1.6} />
      <path d={tipOf(from, to)} stroke="none" />
    </g>
  );
}

/** The point at which the token is after a layer. A click shows the move of this layer. */
function Stop({ move, shown, toPixels }: { move: Move; shown: boolean; toPixels: ToPixels }) {
  const [x, y] = toPixels(move.after);
  return (
    <g class={shown ? "stop shown" : "stop"} onClick={() => chooseHead(move.layer, head.value)}>
      <circle cx={x} cy={y} r={shown ? 6 : 5} />
      <text x={x} y={y - 9}>L{move.layer}</text>
    </g>
  );
}

/** The point at which the drawing begins: the vector before the first layer or, if only one layer is shown, the vector before this layer. */
function Start({ at: [x, y] }: { at: Point }) {
  if (!whole.value) return <circle class="from" cx={x} cy={y} r="4" />;
  return (
    <g class="stop start">
      <circle cx={x} cy={y} r="4" />
      <text x={x} y={y + 17}>{words().inputVector}</text>
    </g>
  );
}

/** The path of the triangle at the tip of an arrow. */
function tipOf([fromX, fromY]: Point, [x, y]: Point): string {
  const long = Math.hypot(x - fromX, y - fromY);
  if (long < 1) return "";
  const [along, across] = [(x - fromX) / long, (y - fromY) / long];
  const size = Math.min(TIP, long);
  const [backX, backY] = [x - size * along, y - size * across];
  const half = 0.45 * size;
  return `M${x} ${y}L${backX - half * across} ${backY + half * along}L${backX + half * across} ${backY - half * along}Z`;
}

/** Return a function that turns points of the plane into pixels: all given points are in view, and both axes have the same scale. */
function scaled(points: Point[], width: number): ToPixels {
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const size = Math.max(1e-9, Math.min(Math.max(1, width - 2 * MARGIN) / Math.max(right - left, 1e-9), (HEIGHT - 2 * MARGIN) / Math.max(high - low, 1e-9)));
  return ([x, y]) => [width / 2 + (x - (left + right) / 2) * size, HEIGHT / 2 - (y - (low + high) / 2) * size];
}
