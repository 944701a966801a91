// Colours: a weight is drawn with a strength from 0 to 1, in the hue of its head

const dark = matchMedia("(prefers-color-scheme: dark)");
const hueOf = (head, heads = layerOf().heads) => Math.round(255 + (360 * head) / heads) % 360;

function shade(strength, hue) {
  const mix = (from, to) => (from + (to - from) * strength).toFixed(3);
  return dark.matches
    ? `oklch(${mix(0.245, 0.84)} ${mix(0.018, 0.14)} ${hue})`
    : `oklch(${mix(0.975, 0.475)} ${mix(0.008, 0.175)} ${hue})`;
}

const textColour = (strength) => (strength > 0.5 ? (dark.matches ? "#111" : "#fff") : "");
const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const shadeCache = new Map();
function shades(hue) {
  const name = `${hue} ${dark.matches}`;
  if (!shadeCache.has(name)) shadeCache.set(name, Array.from({ length: 256 }, (_, i) => shade(i / 255, hue)));
  return shadeCache.get(name);
}

// Colours as bytes, converted by drawing them on a canvas
const byteCache = new Map();
function bytesOf(colours) {
  const name = colours.join();
  if (byteCache.has(name)) return byteCache.get(name);
  const canvas = new OffscreenCanvas(colours.length, 1);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  colours.forEach((colour, i) => {
    context.fillStyle = colour;
    context.fillRect(i, 0, 1, 1);
  });
  const bytes = new Uint32Array(context.getImageData(0, 0, colours.length, 1).data.buffer);
  byteCache.set(name, bytes);
  return bytes;
}

// The strength of a weight: relative to 1, or to the largest visible weight of its query
function strengthScale(read, visible) {
  if (state.scale === "absolute") return (query, units) => units / trace.units;
  const most = new Map();
  return (query, units) => {
    if (!most.has(query)) most.set(query, largest(read, query, visible).units);
    return most.get(query) ? Math.min(1, units / most.get(query)) : 0;
  };
}
