// The medium: the pictures or the spectrogram (a picture of sound) that the model read, coloured with the weights of the query; for a model that reads the waveform, the weights alone

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { scaleEnds, shownHue, strength, theme } from "../parts/colours";
import { weightOrMasked, weightText } from "../parts/numbers";
import { Caution, Check, Numbers, Panel } from "../parts/panel";
import { colourScale, key, keyItems, keyTokens, queryItem, queryItems, runAgainOn, trace, twoTexts } from "../state/state";
import { linkedFlag } from "../state/linked-signals";
import { lockQuery } from "../state/texts";
import { rowOf } from "../state/weights";
import { bytesOfBlock } from "../trace/blocks";
import type { Frame, Patch, Token } from "../trace/data";
import { words } from "../words";

const PICTURE_WIDTH = 560; // all lengths are in pixels
const SMALL_WIDTH = 180; // the width of a picture if there are several
const [SOUND_WIDTH, SOUND_HEIGHT] = [1200, 140];
const OTHERS = 6; // how many tokens outside the picture or sound, such as [CLS], are listed with their weights
const withoutBorder = linkedFlag("without-border"); // true = the parts at the border of the picture or sound have no colour; many heads look there when no other part matters

/** One drawing: a picture, a thumbnail (a small copy of a picture), merged frames of a video, or the spectrogram of a recording. */
interface Scene {
  name: string; // the caption; "" if there is only one drawing
  seconds?: number; // the length of a recording, or of a spectrogram that the model reads as a picture
  load: () => Promise<ImageBitmap>;
  rectangle: (token: Token) => Rectangle | null; // null = the token is no part of this drawing
}

/** Left, top, width and height of the part that a token stands for, as shares (0 to 1) of the whole drawing. */
type Rectangle = [number, number, number, number];

type Range = [number, number];

const isPatch = (token: Token): token is Token & { place: Patch } => Boolean(token.place && "image" in token.place);
const isFrame = (token: Token): token is Token & { place: Frame } => Boolean(token.place && "start" in token.place);

export function Medium() {
  const say = words();
  const scenes = useMemo(() => [...pictureScenes(keyTokens.value), ...soundScenes(keyTokens.value)], [keyTokens.value, say]);
  if (!scenes.length) return null;
  const row = queryItem.value && rowOf(queryItem.value);
  const range = rangeOf(row?.weights ?? null);
  const description = keyTokens.value.some(isPatch) ? say.mediumPicture : say.mediumSound;
  const caption = twoTexts.value ? description : `${description}; ${say.mediumChoose}`;
  const hasPictures = trace.value.images.length > 0;
  const singleWidth = hasPictures ? PICTURE_WIDTH : SOUND_WIDTH;
  const [low, high] = isRelative() ? range.map((weight) => numberIn(range, weight)) : [scaleEnds().low, scaleEnds().high];
  const tools = <Check of={withoutBorder} label={say.withoutBorder} title={say.withoutBorderTitle} />;
  return (
    <Panel view="medium" changed title={say.medium} caption={caption} tools={tools} wide={!hasPictures || scenes.length > 1}>
      <div class="scenes">
        {scenes.map((scene) => (
          <SceneCanvas key={scene.name} scene={scene} range={range} width={scenes.length > 1 ? SMALL_WIDTH : singleWidth} />
        ))}
      </div>
      <p class="legend">{low} <span class="ramp veiled" aria-hidden="true" /> {high}</p>
      <Others weights={row?.weights ?? null} />
      <Caution />
      <Numbers
        head={[say.token, say.weight]}
        rows={() => keyItems.value.map((item) => [placeText(keyTokens.value[item.positions[0]]), weightOrMasked(row, item.index, 5)])}
      />
    </Panel>
  );
}

/** The largest weights on tokens outside the picture or sound, such as [CLS], or the silence after a recording. */
function Others({ weights }: { weights: Float64Array | null }) {
  if (!weights) return null;
  const others = keyItems.value.filter((item) => !keyTokens.value[item.positions[0]].place && weights[item.index] > 0);
  if (!others.length) return null;
  const largest = others.sort((a, b) => weights[b.index] - weights[a.index]).slice(0, OTHERS);
  return (
    <p class="legend others">
      {words().mediumOthers}: {largest.map((item) => `${item.label} ${weightText(weights[item.index])}`).join(" · ")}
    </p>
  );
}

const isRelative = () => colourScale.value === "row";

/** Whether the token stands for a coloured part of the picture or sound. If `withoutBorder` is true, parts at the border are not coloured. */
const isColoured = ({ place }: Token): boolean => place !== undefined && !(withoutBorder.value && isAtBorder(place));

function isAtBorder(place: Patch | Frame): boolean {
  if ("start" in place) return place.start === 0 || place.end === lastSecond();
  const { height, width } = trace.value.images[place.image];
  const { top, left } = place;
  return top <= 0 || left <= 0 || top + place.height >= height || left + place.width >= width;
}

const lastSecond = () => Math.max(...keyTokens.value.filter(isFrame).map((one) => one.place.end));

/** The ends of the relative colour scale: the smallest weight above 0 and the largest weight on the coloured parts. */
function rangeOf(weights: Float64Array | null): Range {
  const parts = keyItems.value.filter((item) => isColoured(keyTokens.value[item.positions[0]]));
  const positive = parts.map((item) => weights?.[item.index] ?? 0).filter((weight) => weight > 0);
  return positive.length ? [Math.min(...positive), Math.max(...positive)] : [0, 0];
}

/** A weight as text. The smaller the range of the weights, the more decimals it has. */
function numberIn([smallest, largest]: Range, weight: number): string {
  const decimals = largest > smallest ? Math.max(4, 1 - Math.floor(Math.log10(largest - smallest))) : 4;
  return weight.toFixed(Math.min(12, decimals));
}

/** How strongly a weight is coloured, from 0 to 1; a weight of 0 has no colour. */
function strengthIn([smallest, largest]: Range, weight: number): number {
  if (!isRelative()) return strength(weight, 1);
  if (weight <= 0) return 0;
  return largest > smallest ? 0.1 + (0.9 * (weight - smallest)) / (largest - smallest) : 1;
}

function SceneCanvas({ scene, range, width }: { scene: Scene; range: Range; width: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pixels, setPixels] = useState<ImageBitmap | null>(null);
  useEffect(() => {
    setPixels(null);
    void scene.load().then(setPixels);
  }, [scene]);
  const row = queryItem.value && rowOf(queryItem.value);
  runAgainOn(key);
  useLayoutEffect(() => {
    if (pixels && canvas.current) draw(canvas.current, scene, pixels, width, range, row?.weights ?? null);
  });
  return (
    <figure>
      {scene.name && <figcaption>{scene.name}</figcaption>}
      <canvas
        ref={canvas}
        role="img"
        aria-label={scene.name || words().medium}
        onPointerMove={(event) => (key.value = tokenAt(event, scene))}
        onPointerLeave={() => (key.value = null)}
        onClick={(event) => choose(tokenAt(event, scene))}
      />
      {scene.seconds !== undefined && (
        <p class="times">{[0, 0.25, 0.5, 0.75, 1].map((share) => <span key={share}>{words().second((share * scene.seconds!).toFixed(2))}</span>)}</p>
      )}
    </figure>
  );
}

function pictureScenes(tokens: Token[]): Scene[] {
  const { images } = trace.value;
  const firstPatches = new Map<string, Patch>(); // the first patch of each scene
  for (const { place } of tokens.filter(isPatch)) {
    if (images[place.image] && !firstPatches.has(sceneOf(place))) firstPatches.set(sceneOf(place), place);
  }
  const sorted = [...firstPatches.values()].sort((a, b) => a.image - b.image || Number(a.thumbnail) - Number(b.thumbnail));
  return sorted.map((patch) => ({
    name: sorted.length > 1 || patch.n_images > 1 ? pictureName(patch) + timeOf(patch) : "",
    load: () => pictureOf(images[patch.image]),
    rectangle: (token) => {
      if (!isPatch(token) || sceneOf(token.place) !== sceneOf(patch)) return null;
      const { top, left, height, width } = token.place;
      const image = images[patch.image];
      return [left / image.width, top / image.height, width / image.width, height / image.height];
    },
    seconds: secondsOf(tokens.filter(isPatch).map((token) => token.place).filter((place) => sceneOf(place) === sceneOf(patch))),
  }));
}

/** The length of a spectrogram that the model reads as a picture; undefined for other pictures, whose patches have no times or all the same. */
function secondsOf([first, ...others]: Patch[]): number | undefined {
  const other = others.find(({ seconds }) => seconds && first.seconds && seconds[0] !== first.seconds[0]);
  if (!other) return undefined;
  return (trace.value.images[first.image].width * (other.seconds![0] - first.seconds![0])) / (other.left - first.left);
}

const sceneOf = (patch: Patch) => `${patch.image} ${patch.thumbnail}`;

function pictureName(patch: Patch): string {
  const say = words();
  if (patch.n_images > 1) return say.frames(patch.image, patch.image + patch.n_images - 1);
  const several = trace.value.images.length > 1;
  if (patch.thumbnail) return several ? say.thumbnailOf(say.pictureNumber(patch.image)) : say.thumbnail;
  return several ? say.pictureNumber(patch.image) : say.wholePicture;
}

const timeOf = ({ seconds }: Patch): string => seconds ? `, ${words().seconds(seconds[0].toFixed(2), seconds[1].toFixed(2))}` : "";

function soundScenes(tokens: Token[]): Scene[] {
  const { spectrogram } = trace.value;
  const frames = tokens.filter(isFrame);
  if (!frames.length) return [];
  const end = lastSecond();
  const rectangle = (token: Token): Rectangle | null =>
    isFrame(token) ? [token.place.start / end, 0, (token.place.end - token.place.start) / end, 1] : null;
  return [{ name: "", seconds: end, load: () => (spectrogram ? soundOf(spectrogram) : pixelsOf(1, 1, () => 255)), rectangle }];
}

const placeText = (token: Token): string =>
  isFrame(token) ? words().seconds(token.place.start.toFixed(2), token.place.end.toFixed(2)) : token.text;

function draw(canvas: HTMLCanvasElement, scene: Scene, pixels: ImageBitmap, width: number, range: Range, weights: Float64Array | null): void {
  const height = trace.value.images.length ? (width * pixels.height) / pixels.width : SOUND_HEIGHT;
  Object.assign(canvas, { width, height });
  if (!trace.value.images.length) canvas.style.height = `${height}px`; // also where the window is narrow
  const context = canvas.getContext("2d")!;
  context.drawImage(pixels, 0, 0, width, height);
  if (!weights) return;
  const outlines: { rectangle: Rectangle; lineWidth: number }[] = []; // of the chosen key and query, in pixels
  for (const item of keyItems.value) {
    const token = keyTokens.value[item.positions[0]];
    const shares = scene.rectangle(token);
    if (!shares) continue;
    const rectangle: Rectangle = [shares[0] * width, shares[1] * height, shares[2] * width, shares[3] * height];
    context.fillStyle = theme("--veil");
    context.globalAlpha = 0.65;
    context.fillRect(...rectangle);
    context.globalAlpha = isColoured(token) ? 0.85 * strengthIn(range, weights[item.index]) : 0;
    context.fillStyle = `oklch(0.65 0.2 ${shownHue()})`;
    context.fillRect(...rectangle);
    context.globalAlpha = 1;
    if (key.value !== null && item.positions.includes(key.value)) outlines.push({ rectangle, lineWidth: 1 });
    if (!twoTexts.value && item === queryItem.value) outlines.push({ rectangle, lineWidth: 3 });
  }
  context.strokeStyle = theme("--ink");
  for (const { rectangle, lineWidth } of outlines) {
    context.lineWidth = lineWidth;
    context.strokeRect(...rectangle);
  }
}

function tokenAt(event: MouseEvent, scene: Scene): number | null {
  const canvas = event.currentTarget as HTMLCanvasElement;
  const [x, y] = [event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight];
  const position = keyTokens.value.findIndex((token) => {
    const [left, top, width, height] = scene.rectangle(token) ?? [0, 0, 0, 0];
    return x >= left && y >= top && x < left + width && y < top + height;
  });
  return position < 0 ? null : position;
}

/** Lock the token at this position as the query, or unlock it. Do nothing in cross-attention, in which the tokens of a picture or sound are only keys. */
function choose(position: number | null): void {
  const item = queryItems.value.find((one) => position !== null && one.positions.includes(position));
  if (item && !twoTexts.value) lockQuery(item);
}

async function pictureOf({ block, height, width }: { block: string; height: number; width: number }): Promise<ImageBitmap> {
  const bytes = await bytesOfBlock(trace.value.blocks[block]); // the bytes of the pixels: [3 height width], with red, green and blue as the first axis
  const size = height * width;
  return pixelsOf(height, width, (index, channel) => bytes[channel * size + index]);
}

/** The pixels of a spectrogram, in grey, with the lowest frequency band at the bottom. */
async function soundOf({ block, bands, frames }: { block: string; bands: number; frames: number }): Promise<ImageBitmap> {
  const bytes = await bytesOfBlock(trace.value.blocks[block]); // one byte for each pixel: [bands frames], the lowest band first
  return pixelsOf(bands, frames, (index) => {
    const [row, frame] = [Math.floor(index / frames), index % frames];
    return bytes[(bands - 1 - row) * frames + frame];
  });
}

/** Make an image. `valueAt` returns the red, green or blue value (channel 0, 1, 2; 0 to 255) of a pixel; `index` counts pixels row by row. */
function pixelsOf(height: number, width: number, valueAt: (index: number, channel: number) => number): Promise<ImageBitmap> {
  const data = new Uint8ClampedArray(4 * height * width);
  for (let i = 0; i < height * width; i++) data.set([valueAt(i, 0), valueAt(i, 1), valueAt(i, 2), 255], 4 * i);
  return createImageBitmap(new ImageData(data, width, height));
}
