// A progress bar while the server computes the coarse levels (reduced copies) of a head's weight map, with a button that stops it

import { signal, type Signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { words } from "../../words";
import { computeLevels, mapHead, type Progress } from "./server";

export interface Levels {
  progress: Signal<Progress | null>; // null = the server has not answered yet
  stopped: Signal<boolean>; // true = the reader or a failure has stopped the computation
  failure: Signal<string>; // why the computation failed; "" = it has not failed
}

/** Let the server compute the coarse levels (reduced copies) of the shown head's map, until it is done, the reader stops it, or a request fails. */
export function useLevels(): Levels {
  const levels = useMemo((): Levels => ({ progress: signal(null), stopped: signal(false), failure: signal("") }), [mapHead.value]);
  useEffect(() => {
    if (levels.stopped.value) return;
    const requests = new AbortController();
    computeLevels(requests.signal, (progress) => (levels.progress.value = progress)).catch((error: Error) => {
      if (!requests.signal.aborted) [levels.stopped.value, levels.failure.value] = [true, error.message];
    });
    return () => requests.abort();
  }, [levels, levels.stopped.value]);
  return levels;
}

export function LevelProgress({ levels: { progress, stopped, failure } }: { levels: Levels }) {
  const say = words();
  const { done, of } = progress.value ?? { done: 0, of: 1 };
  if (done === of) return null;
  const percent = Math.floor((100 * done) / of);
  return (
    <p class="turns">
      <progress value={done} max={of} aria-label={say.mapComputing(percent)} />
      <span>{stopped.value ? say.mapStopped(percent) : say.mapComputing(percent)}</span>
      <button type="button" onClick={() => ([stopped.value, failure.value] = [!stopped.value, ""])}>{stopped.value ? say.goOn : say.cancel}</button>
      {failure.value && <span role="alert">{failure.value}</span>}
    </p>
  );
}
