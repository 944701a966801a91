// Where words are drawn, for arcs and lines between them

/** Where a word is drawn: the middle of its width, its top and its bottom, in pixels from the top left corner of the text. */
export interface Box {
  middle: number;
  top: number;
  bottom: number;
}

/** Return the boxes of the elements inside `text` that match a CSS selector, in the order of the document. */
export function measured(text: HTMLElement, selector: string): Box[] {
  const from = text.getBoundingClientRect();
  return [...text.querySelectorAll(selector)].map((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { middle: (left + right) / 2 - from.left, top: top - from.top, bottom: bottom - from.top };
  });
}
