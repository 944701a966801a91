// The places of words within a text

/** The place of a word within the text around it, in pixels. */
export interface Box {
  middle: number;
  top: number;
  bottom: number;
}

/** The boxes of the elements that match a selector inside a text, in its order. */
export function measured(text: HTMLElement, selector: string): Box[] {
  const from = text.getBoundingClientRect();
  return [...text.querySelectorAll(selector)].map((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { middle: (left + right) / 2 - from.left, top: top - from.top, bottom: bottom - from.top };
  });
}
