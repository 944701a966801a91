// A diagram of the Transformer: a block of the encoder beside a block of the decoder, and how vectors flow through them

import { Panel } from "../parts/panel";
import { words } from "../words";

const [WIDTH, HEIGHT, GAP, BETWEEN] = [152, 34, 16, 40]; // the width and height of a box, the space between boxes, and the space between encoder and decoder
const MARGIN = 18; // the space beside a box, for arrows that go past the box
const [UP, RIGHT] = ["m-4 6 l4 -6 l4 6", "m-6 -4 l6 4 l-6 4"]; // the head of an arrow, at the end of its path
const COLUMN = WIDTH + 2 * MARGIN;

/** A box of the diagram; `around`: the vectors also go past it and are added to what it computes. */
interface Part {
  name: string;
  around?: boolean;
}

export function Blocks() {
  const say = words();
  const feed = { name: say.byFeedForward, around: true };
  const encoder: Part[] = [{ name: say.embedded }, { name: say.selfAttention, around: true }, feed];
  const decoder: Part[] = [{ name: say.embedded }, { name: say.causalAttention, around: true }, { name: say.crossAttention, around: true }, feed, { name: say.nextToken }];
  const height = bottomOf(decoder, decoder.length - 1) + HEIGHT + 4;
  const [encoderTop, crossMiddle] = [height - bottomOf(encoder, 2) - HEIGHT - GAP - HEIGHT, height - bottomOf(decoder, 2) - HEIGHT / 2]; // the y coordinates of both ends of the arrow from the encoder to the decoder
  return (
    <Panel view="blocks" title={say.blocks} caption={say.blocksCaption}>
      <svg class="blocks" viewBox={`0 0 ${2 * COLUMN + BETWEEN} ${height}`} style={{ maxWidth: `${2 * COLUMN + BETWEEN}px` }} role="img" aria-label={say.blocks}>
        <Stack parts={encoder} name={say.encoder} x={0} height={height} />
        <Stack parts={decoder} name={say.decoder} x={COLUMN + BETWEEN} height={height} />
        <path class="flow" d={`M${COLUMN / 2} ${encoderTop} v-14 H${COLUMN + BETWEEN / 2} V${crossMiddle} H${COLUMN + BETWEEN + MARGIN} ${RIGHT}`} />
      </svg>
    </Panel>
  );
}

/** The distance from the bottom of the diagram to the bottom edge of a box. Above a box with `around` stands a second box, "add and normalise". */
const bottomOf = (parts: Part[], index: number) =>
  28 + parts.slice(0, index).reduce((sum, { around }) => sum + (around ? 2 * (HEIGHT + GAP) : HEIGHT + GAP + 14), 0);

function Stack({ parts, name, x, height }: { parts: Part[]; name: string; x: number; height: number }) {
  const say = words();
  const left = x + MARGIN;
  const middle = x + COLUMN / 2;
  const repeated = parts.flatMap(({ around }, i) => (around ? [i] : []));
  const bottom = height - bottomOf(parts, repeated[0]) + 13;
  const top = height - bottomOf(parts, repeated.at(-1)!) - 2 * HEIGHT - GAP - 10;
  return (
    <g>
      <rect class="block" x={x} y={top} width={COLUMN} height={bottom - top} rx="10" />
      <text class="name" x={x} y={bottom + 14}>{name} × N</text>
      {parts.map((part, i) => {
        const edge = height - bottomOf(parts, i);
        return (
          <g key={i}>
            <path class="flow" d={`M${middle} ${edge + (i ? GAP + (part.around && !parts[i - 1].around ? 14 : 0) : 22)} V${edge} ${UP}`} />
            <Box x={left} bottom={edge} text={part.name} strong={part.around} />
            {part.around && (
              <>
                <path class="flow" d={`M${middle} ${edge - HEIGHT} v${-GAP} ${UP}`} />
                <path class="flow" d={`M${middle} ${edge + 7} H${x + 10} V${edge - HEIGHT - GAP - HEIGHT / 2} H${left} ${RIGHT}`} />
                <Box x={left} bottom={edge - HEIGHT - GAP} text={say.addNormalise} />
              </>
            )}
          </g>
        );
      })}
    </g>
  );
}

function Box({ x, bottom, text, strong = false }: { x: number; bottom: number; text: string; strong?: boolean }) {
  return (
    <>
      <rect class={strong ? "strong" : ""} x={x} y={bottom - HEIGHT} width={WIDTH} height={HEIGHT} rx="7" />
      <text x={x + WIDTH / 2} y={bottom - HEIGHT / 2}>{text}</text>
    </>
  );
}
