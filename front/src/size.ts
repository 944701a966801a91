// The size of an element on the page. It is updated when it changes: in a frame that is not shown yet, each element has size 0.

import { useEffect, useRef, useState } from "preact/hooks";

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
