// Sizes and places of elements on the page

import { useEffect, useRef, useState } from "preact/hooks";

/** A reference for an element, and its present size: 0 while the page is in a frame that is not shown. */
export function useSize<Kind extends Element>(): [{ current: Kind | null }, { width: number; height: number }] {
  const ref = useRef<Kind>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize({ width, height });
    });
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  return [ref, size];
}

/** Where a word is drawn, in pixels from the top left corner of the text; `middle` is the middle of its width. */
export interface Box {
  left: number;
  middle: number;
  right: number;
  top: number;
  bottom: number;
}

/** Return the boxes of the elements inside `text` that match a CSS selector, in the order of the document. */
export function boxesOf(text: HTMLElement, selector: string): Box[] {
  const from = text.getBoundingClientRect();
  return [...text.querySelectorAll(selector)].map((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { left: left - from.left, middle: (left + right) / 2 - from.left, right: right - from.left, top: top - from.top, bottom: bottom - from.top };
  });
}
