// The medium: the picture or the spectrogram that the model read, under the weights of the query

import { useEffect, useRef, useState } from "preact/hooks";
import { inflate } from "../blocks";
import { shownHue, strength, theme } from "../colours";
import type { Frame, Patch, Token } from "../data";
import { shownRow } from "../grid";
import { key, keyItems, keyTokens, queryItem, trace } from "../state";
import { strongestOf } from "../drawn";
import { words } from "../words";
import { figure } from "../drawn";
import { Numbers, Panel } from "./panel";

const WIDTH = 420;
const SOUND_HEIGHT = 140;

/** Pixels of the medium: red, green, blue. */
interface Pixels {
  image: ImageData;
  height: number;
  width: number;
}

const isPatch = (token: Token): token is Token & { place: Patch } => Boolean(token.place && "row" in token.place);
const isFrame = (token: Token): token is Token & { place: Frame } => Boolean(token.place && "start" in token.place);

export function Medium() {
  const say = words();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pixels, setPixels] = useState<Pixels | null>(null);
  const { image, spectrogram } = trace.value;
  const seesPicture = Boolean(image) && keyTokens.value.some(isPatch);
  const seesSound = Boolean(spectrogram) && keyTokens.value.some(isFrame);
  useEffect(() => {
    setPixels(null);
    if (seesPicture) void pictureOf(image!).then(setPixels);
    else if (seesSound) void soundOf(spectrogram!).then(setPixels);
  }, [trace.value, seesPicture, seesSound]);
  const row = queryItem.value && shownRow(queryItem.value);
  void key.value;
  useEffect(() => {
    if (pixels && canvas.current) draw(canvas.current, pixels, row?.weights ?? null);
  });
  if (!seesPicture && !seesSound) return null;
  return (
    <Panel view="medium" title={say.medium} caption={seesPicture ? say.mediumPicture : say.mediumSound}>
      <canvas ref={canvas} role="img" aria-label={say.medium} onPointerMove={point} onPointerLeave={() => (key.value = null)} />
      <Numbers
        head={[say.token, say.weight]}
        rows={() => keyItems.value.map((item) => [placeText(keyTokens.value[item.positions[0]]), figure(row, item.index, 5)])}
      />
    </Panel>
  );
}

function placeText(token: Token): string {
  return isFrame(token) ? words().seconds(token.place.start.toFixed(2), token.place.end.toFixed(2)) : token.text;
}

/** The rectangle of a token in parts of the whole medium: left, top, width, height. */
function rectangle(token: Token): [number, number, number, number] | null {
  const { image } = trace.value;
  if (isPatch(token)) {
    const { row, column, height, width } = token.place;
    return [(column * width) / image!.width, (row * height) / image!.height, width / image!.width, height / image!.height];
  }
  if (!isFrame(token)) return null;
  const end = Math.max(...keyTokens.value.filter(isFrame).map((one) => one.place.end));
  return [token.place.start / end, 0, (token.place.end - token.place.start) / end, 1];
}

function draw(canvas: HTMLCanvasElement, pixels: Pixels, weights: Float64Array | null): void {
  const [width, height] = [WIDTH, trace.value.image ? (WIDTH * pixels.height) / pixels.width : SOUND_HEIGHT];
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d")!;
  const whole = new OffscreenCanvas(pixels.width, pixels.height);
  whole.getContext("2d")!.putImageData(pixels.image, 0, 0);
  context.drawImage(whole, 0, 0, width, height);
  if (!weights) return;
  const row = { weights, masked: new Uint8Array(weights.length) };
  const most = strongestOf(row) || 1;
  for (const item of keyItems.value) {
    const place = rectangle(keyTokens.value[item.positions[0]]);
    if (!place) continue;
    const [x, y, w, h] = [place[0] * width, place[1] * height, place[2] * width, place[3] * height];
    context.fillStyle = theme("--veil");
    context.globalAlpha = 0.65;
    context.fillRect(x, y, w, h);
    context.globalAlpha = 0.85 * strength(weights[item.index], most);
    context.fillStyle = `oklch(0.65 0.2 ${shownHue()})`;
    context.fillRect(x, y, w, h);
    context.globalAlpha = 1;
    if (key.value === null || !item.positions.includes(key.value)) continue;
    context.strokeStyle = theme("--ink");
    context.strokeRect(x, y, w, h);
  }
}

function point(event: PointerEvent): void {
  const canvas = event.currentTarget as HTMLCanvasElement;
  const [x, y] = [event.offsetX / canvas.clientWidth, event.offsetY / canvas.clientHeight];
  key.value = keyTokens.value.findIndex((token) => {
    const place = rectangle(token);
    return place && x >= place[0] && y >= place[1] && x < place[0] + place[2] && y < place[1] + place[3];
  });
}

async function pictureOf({ block, height, width }: { block: string; height: number; width: number }): Promise<Pixels> {
  const bytes = await inflate(trace.value.blocks[block]); // [3 height width]
  const size = height * width;
  return pixelsOf(height, width, (at, channel) => bytes[channel * size + at]);
}

/** A spectrogram as grey, the lowest band at the bottom. */
async function soundOf({ block, bands, frames }: { block: string; bands: number; frames: number }): Promise<Pixels> {
  const bytes = await inflate(trace.value.blocks[block]); // [bands frames]
  return pixelsOf(bands, frames, (at) => bytes[(bands - 1 - Math.floor(at / frames)) * frames + (at % frames)]);
}

function pixelsOf(height: number, width: number, of: (at: number, channel: number) => number): Pixels {
  const data = new Uint8ClampedArray(4 * height * width);
  for (let at = 0; at < height * width; at++) data.set([of(at, 0), of(at, 1), of(at, 2), 255], 4 * at);
  return { image: new ImageData(data, width, height), height, width };
}
