// The list of the chosen query's strongest keys, beside the map

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { numberedName } from "../../parts/marks";
import { preciseText } from "../../parts/numbers";
import { Failed, Panel, RankedList } from "../../parts/panel";
import { headName, key, keyItems, query, queryItems } from "../../state/state";
import { words } from "../../words";
import { mapHead, strongestKeys } from "./server";

export const target = signal<[number, number] | null>(null); // the positions of a query and a key to which the map shall move; null = none
export const strongest = signal<[number, number][]>([]); // the positions and weights of the chosen query's strongest keys, largest weight first
const failure = signal(""); // why the strongest keys could not be loaded; "" = no failure
const timesAsked = signal(0); // rises when the reader requests the strongest keys again, after a failure

export function MapStrongest() {
  const say = words();
  useEffect(() => {
    [strongest.value, failure.value] = [[], ""];
    if (query.value === null) return;
    const request = new AbortController();
    strongestKeys(query.value, request.signal).then(
      (keys) => (strongest.value = keys),
      (error: Error) => {
        if (!request.signal.aborted) failure.value = error.message;
      },
    );
    return () => request.abort();
  }, [mapHead.value, query.value, timesAsked.value]);
  const queryItem = query.value === null ? null : queryItems.value[query.value];
  const name = headName();
  return (
    <Panel view="strongest" title={queryItem ? say.strongest(numberedName(queryItem), name) : say.strongestAll(name)}>
      {failure.value && <Failed reason={failure.value} again={() => (timesAsked.value += 1)} />}
      <RankedList lines={(queryItem ? strongest.value : []).map(([position, weight]) => ({
        name: numberedName(keyItems.value[position]),
        number: preciseText(weight),
        share: weight / strongest.value[0][1],
        title: say.mapJump,
        choose: () => ([key.value, target.value] = [position, [query.value!, position]]),
      }))} />
    </Panel>
  );
}
