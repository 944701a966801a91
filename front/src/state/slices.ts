// Long computations in slices of a few milliseconds, with pauses in which the page can react to the reader

const SLICE_MILLISECONDS = 10;
const SHORT_SLICE_MILLISECONDS = 2; // the length of a slice while the reader moves the pointer, turns the wheel or presses keys
const REST_MILLISECONDS = 150; // slices are short until the reader has done nothing for this time
const TELL_MILLISECONDS = 100; // `inSlices` reports new results at most once in this time, and once at the end
const PAUSE_MILLISECONDS = 4; // the pause between two slices

let lastAction = -Infinity; // when the reader last moved the pointer, turned the wheel or pressed a key
for (const name of ["pointermove", "wheel", "keydown"]) addEventListener(name, () => (lastAction = performance.now()), { capture: true, passive: true });

/**
 * Run a generator in slices until it ends.
 *
 * @param work yields "new" after a new result, "mayPause" where the slice may end although there is no new result, and "wait"
 *   to end the slice at once.
 * @param tell is called when there are new results: at most every TELL_MILLISECONDS, and at the end.
 * @param finish is called at the end.
 * @returns a function that stops the work.
 */
export function inSlices(work: Iterator<"new" | "wait" | "mayPause">, tell: () => void, finish?: () => void): () => void {
  let lastTold = performance.now();
  let [hasNews, stopped] = [false, false];
  const slice = () => {
    const start = performance.now();
    const isReaderActive = start - lastAction < REST_MILLISECONDS;
    const end = start + (isReaderActive ? SHORT_SLICE_MILLISECONDS : SLICE_MILLISECONDS);
    let step: IteratorResult<string> | null = null;
    while (!stopped && !step?.done && step?.value !== "wait" && performance.now() < end) {
      step = work.next();
      hasNews ||= step.value === "new";
    }
    if (stopped) return;
    if (hasNews && (step?.done || performance.now() - lastTold > TELL_MILLISECONDS)) {
      tell();
      [lastTold, hasNews] = [performance.now(), false];
    }
    if (step?.done) finish?.();
    else setTimeout(slice, PAUSE_MILLISECONDS);
  };
  setTimeout(slice, 0);
  return () => void (stopped = true);
}
