// Drawing on canvases: size, clipping, pixels

/** Clear a canvas, give it a size in CSS pixels, and return its context. The canvas gets one pixel for each pixel of the screen. */
export function cleared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const [pixelWidth, pixelHeight] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) Object.assign(canvas, { width: pixelWidth, height: pixelHeight });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Draw nothing outside a rectangle, until `context.restore()`. */
export function clip(context: CanvasRenderingContext2D, left: number, top: number, width: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
}

/** Fill an image with pixels, given row after row as the four bytes of their colours (see `pixelsOf` in colours.ts). */
export function putPixels(image: OffscreenCanvas, pixels: Uint32Array): void {
  image.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer as ArrayBuffer), image.width, image.height), 0, 0);
}
