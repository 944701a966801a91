// Colours: a weight is drawn in the hue of its head, with a strength from 0 (the colour of the background) to 1 (the full colour)

import { signal } from "@preact/signals";
import { colourScale, head, layer } from "../state/state";
import { words } from "../words";

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
export const dark = signal(prefersDark.matches);
prefersDark.addEventListener("change", () => (dark.value = prefersDark.matches));

/** The hue of a head of a layer that has `heads` heads; null = the average of the layer's heads. */
export const hueOf = (head: number | null, heads: number): number => (head === null ? 75 : Math.round(255 + (360 * head) / heads) % 360);
export const shownHue = () => hueOf(head.value, layer.value.heads);

/** The hues of a weight that is larger, or smaller, in the second of two traces. */
export const [MORE, LESS] = [40, 255];

/** A grey: 0 differs most from the background, and 3 least. */
export const grey = (faintness: number): string => `oklch(${dark.value ? 0.95 - 0.16 * faintness : 0.22 + 0.17 * faintness} 0 0)`;

export function shade(strength: number, hue: number): string {
  const mix = (from: number, to: number) => (from + (to - from) * strength).toFixed(3);
  return dark.value
    ? `oklch(${mix(0.245, 0.84)} ${mix(0.018, 0.14)} ${hue})`
    : `oklch(${mix(0.975, 0.475)} ${mix(0.008, 0.175)} ${hue})`;
}

/** The colour of text on a background of this strength: up to 0.1 "" (the element's own colour), then the page's text colour, then black or white. */
export function textColour(strength: number): string {
  if (strength <= 0.1) return "";
  const [faint, middle] = dark.value ? [0.4, 0.54] : [0.45, 0.82];
  const [onMiddle, onStrong] = dark.value ? ["#fff", "#000"] : ["#000", "#fff"];
  if (strength <= faint) return "var(--ink)";
  return strength <= middle ? onMiddle : onStrong;
}

const themeCache = new Map<string, string>();
/** The value of a variable of page.css, such as "--ink". */
export function theme(name: string): string {
  const cached = `${name} ${dark.value} ${shownHue()}`;
  if (!themeCache.has(cached)) themeCache.set(cached, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return themeCache.get(cached)!;
}

const shadeCache = new Map<string, string[]>();
/** 256 colours of a hue, from strength 0 to strength 1. */
export function shades(hue: number): string[] {
  const name = `${hue} ${dark.value}`;
  if (!shadeCache.has(name)) shadeCache.set(name, Array.from({ length: 256 }, (_, i) => shade(i / 255, hue)));
  return shadeCache.get(name)!;
}

/** The index of the colour of masked keys, if this colour follows the 256 `shades`. */
export const MASKED_COLOUR = 256;

const pixelCache = new Map<string, Uint32Array>();
/** CSS colours as pixels of four bytes (red, green, blue, opacity). The browser converts a colour when it is drawn on a canvas. */
export function pixelsOf(colours: string[]): Uint32Array {
  const name = colours.join();
  if (!pixelCache.has(name)) {
    const context = new OffscreenCanvas(colours.length, 1).getContext("2d", { willReadFrequently: true })!;
    colours.forEach((colour, i) => {
      context.fillStyle = colour;
      context.fillRect(i, 0, 1, 1);
    });
    pixelCache.set(name, new Uint32Array(context.getImageData(0, 0, colours.length, 1).data.buffer));
  }
  return pixelCache.get(name)!;
}

/** The strength (0 to 1) of a weight on the chosen scale. `fullWeight` has strength 1 on the relative scale, `faintest` 0 on the logarithmic one. */
export function strength(weight: number, fullWeight: number, faintest = 1e-4): number {
  if (colourScale.value === "row") return fullWeight ? Math.min(1, weight / fullWeight) : 0;
  if (colourScale.value === "log") return weight <= faintest ? 0 : Math.min(1, 1 - Math.log(weight) / Math.log(faintest));
  return Math.min(1, weight);
}

/** The weight that has the full colour: on the relative scale the largest of a query's weights, else 1. */
export const fullColourWeight = (weights: Float64Array): number => (colourScale.value === "row" ? weights.reduce((a, b) => Math.max(a, b), 0) : 1);

/** The weights of the least and of the full colour, as text for a legend. */
export const scaleEnds = () => ({
  low: colourScale.value === "log" ? "0.0001" : "0",
  high: colourScale.value === "row" ? words().largestOfEach : "1",
});
