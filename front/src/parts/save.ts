// Save a panel of the page as a picture: an SVG file that contains the panel's HTML with the page's styles, or a PNG drawn from it

import { headName } from "../state/state";

const RATIO = 2; // a PNG is this many times as wide and high, in pixels, as the panel

export async function savePanel(panel: HTMLElement, ending: "svg" | "png"): Promise<void> {
  const copy = copyOf(panel);
  const [width, height] = [panel.offsetWidth, heightOf(copy, panel)];
  const svg = svgOf(copy, width, height);
  const name = `regard-${panel.dataset.view}-${headName().replace(" ", "-")}.${ending}`;
  if (ending === "svg") download(new Blob([svg], { type: "image/svg+xml" }), name);
  else download(await pngOf(svg, width, height), name);
}

/** A copy of the panel without its controls. Canvases become images, tables are shown whole, and other content keeps its scroll position. */
function copyOf(panel: HTMLElement): HTMLElement {
  const copy = panel.cloneNode(true) as HTMLElement;
  const scrolled = panel.querySelectorAll(".scroll");
  copy.querySelectorAll<HTMLElement>(".scroll").forEach((copied, i) => {
    const { scrollLeft, scrollTop } = scrolled[i];
    const content = copied.firstElementChild as HTMLElement;
    if (content instanceof HTMLTableElement) Object.assign(copied.style, { maxHeight: "none", overflow: "visible" });
    else {
      Object.assign(copied.style, { maxHeight: getComputedStyle(scrolled[i]).maxHeight, overflow: "hidden" }); // in page.css, it depends on the panel before
      Object.assign(content.style, { marginTop: `${-scrollTop}px`, marginLeft: `${-scrollLeft}px` });
    }
  });
  const canvases = panel.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => canvas.replaceWith(imageOf(canvases[i])));
  copy.querySelectorAll("details, .tools, .hint, .quiet, .keys-hint, .find, .layers, .rule button, .caution button").forEach((control) => control.remove());
  const texts = panel.querySelectorAll(".tokens"); // in page.css, the size of letters depends on the width of the window: the copy gets the present size
  copy.querySelectorAll<HTMLElement>(".tokens").forEach((copied, i) => (copied.style.fontSize = getComputedStyle(texts[i]).fontSize));
  const { fontFamily, fontSize, lineHeight, color } = getComputedStyle(document.body);
  Object.assign(copy.style, { width: `${panel.offsetWidth}px`, boxShadow: "none", fontFamily, fontSize, lineHeight, color });
  return copy;
}

/** The height of a copy of a panel. The panel itself may be higher, since all panels in a row of the page have the same height. */
function heightOf(copy: HTMLElement, panel: HTMLElement): number {
  Object.assign(copy.style, { position: "absolute", visibility: "hidden" });
  panel.after(copy);
  const height = copy.offsetHeight;
  copy.remove();
  Object.assign(copy.style, { position: "", visibility: "" });
  return height;
}

function svgOf(copy: HTMLElement, width: number, height: number): string {
  const hue = document.documentElement.style.getPropertyValue("--hue");
  const sheets = [...document.querySelectorAll("style")].map((style) => style.textContent).join("\n");
  // The result of a media query (`@media` in the styles) depends on the window. The picture is narrower than this window, and may be
  // opened in another one. So each query is replaced by the result that it has now.
  const styles = sheets.replace(/@media([^{]+)/g, (_, query: string) => `@media ${matchMedia(query).matches ? "all" : "not all"}`);
  const xhtml = new XMLSerializer().serializeToString(copy);
  const sheet = new XMLSerializer().serializeToString(document.createTextNode(styles));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" style="--hue: ${hue}">` +
    `<style>${sheet}</style><foreignObject width="100%" height="100%">${xhtml}</foreignObject></svg>`
  );
}

/** An image of a canvas. A sticky canvas stays in place when its panel scrolls; a picture does not scroll, so the image is moved instead. */
function imageOf(canvas: HTMLCanvasElement): HTMLImageElement {
  const image = new Image();
  image.src = canvas.toDataURL();
  image.className = canvas.className;
  const { scrollLeft, scrollTop } = canvas.closest(".scroll") ?? { scrollLeft: 0, scrollTop: 0 };
  const transform = `translate(${scrollLeft}px, ${scrollTop}px)`;
  Object.assign(image.style, { width: `${canvas.clientWidth}px`, height: `${canvas.clientHeight}px`, display: "block", transform });
  return image;
}

async function pngOf(svg: string, width: number, height: number): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: RATIO * width, height: RATIO * height });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob!)));
}

function download(content: Blob, name: string): void {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
