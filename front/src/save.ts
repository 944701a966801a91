// Save a view as a picture: the panel itself, with the page's styles, as SVG that holds HTML, or as PNG drawn from it

import { headName } from "./state";

const RATIO = 2; // pixels of a PNG for each pixel of the page

export async function savePanel(panel: HTMLElement, ending: "svg" | "png"): Promise<void> {
  const svg = svgOf(panel);
  const name = `regard-${panel.dataset.view}-${headName().replace(" ", "-")}.${ending}`;
  if (ending === "svg") download(new Blob([svg], { type: "image/svg+xml" }), name);
  else download(await pngOf(svg, panel.offsetWidth, panel.offsetHeight), name);
}

function svgOf(panel: HTMLElement): string {
  const copy = panel.cloneNode(true) as HTMLElement;
  const canvases = panel.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => canvas.replaceWith(imageOf(canvases[i])));
  copy.querySelectorAll("details, .tools, .hint").forEach((control) => control.remove());
  const words = panel.querySelectorAll(".tokens"); // whose letters are sized by the window, which a picture has none of
  copy.querySelectorAll<HTMLElement>(".tokens").forEach((own, i) => (own.style.fontSize = getComputedStyle(words[i]).fontSize));
  const { offsetWidth: width, offsetHeight: height } = panel;
  const { fontFamily, fontSize, lineHeight, color } = getComputedStyle(document.body);
  Object.assign(copy.style, { width: `${width}px`, boxShadow: "none", fontFamily, fontSize, lineHeight, color });
  const hue = document.documentElement.style.getPropertyValue("--hue");
  const styles = [...document.querySelectorAll("style")].map((style) => style.textContent).join("\n");
  const xhtml = new XMLSerializer().serializeToString(copy);
  const sheet = new XMLSerializer().serializeToString(document.createTextNode(styles));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" style="--hue: ${hue}">` +
    `<style>${sheet}</style><foreignObject width="100%" height="100%">${xhtml}</foreignObject></svg>`
  );
}

/** A canvas as an image element of the same size on the page. */
function imageOf(canvas: HTMLCanvasElement): HTMLImageElement {
  const image = new Image();
  image.src = canvas.toDataURL();
  image.className = canvas.className;
  Object.assign(image.style, { width: `${canvas.clientWidth}px`, height: `${canvas.clientHeight}px`, display: "block" });
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
