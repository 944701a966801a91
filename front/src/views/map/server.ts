// Requests to the server for a head's weights on a long text: tiles of the map, its coarse levels (reduced copies), a query's strongest keys

import { computed } from "@preact/signals";
import { linkedChoice } from "../../state/linked-signals";
import { send } from "../../state/questions";
import { head, hidden, kindName, layerNumber, trace } from "../../state/state";
import { tileOf, Tiles } from "./tiles";

/** What the number of a map's cell is: the largest or the mean of the weights in the cell's square (see tiles.ts). */
export type Pool = "max" | "mean";

export const pool = linkedChoice<Pool>("cell", "max", "mean");

interface MapHead {
  map: number; // the id of the map (`WeightMap.number`)
  kind: string;
  layer: number;
  head: number | null; // null = the average of the layer's heads
  hidden: boolean; // true = special tokens are left out; if the text has none, its first token is left out
}

export const mapHead = computed<MapHead>(() => {
  return { map: trace.value.map!.number, kind: kindName.value, layer: layerNumber.value, head: head.value, hidden: hidden.value };
});

/** `done`: how many rows of a head's coarse levels the server has computed; `of`: how many rows there are. */
export interface Progress {
  done: number;
  of: number;
}

/** The tiles of the head that is shown. The tiles of the last queries may have fewer rows than others. */
export function tilesOfHead(nQueries: number): Tiles {
  const side = trace.value.map!.tile;
  const headAndPool = { ...mapHead.value, pool: pool.value };
  return new Tiles(side, async (place, stopped) => {
    const answer = await send("map/tile", { ...headAndPool, ...place }, stopped);
    const rowsLeft = Math.ceil(nQueries / 2 ** place.level) - place.row * side;
    return tileOf(new Float32Array(await answer.arrayBuffer()), Math.min(side, rowsLeft));
  });
}

/** Let the server compute the coarse levels of a head's map (see `WeightMap`), some rows with each request. Call `report` after each request. */
export async function computeLevels(stopped: AbortSignal, report: (progress: Progress) => void): Promise<void> {
  const head = mapHead.value;
  for (;;) {
    const answer = await send("map/turn", head, stopped);
    const progress = (await answer.json()) as Progress;
    if (stopped.aborted) return;
    report(progress);
    if (progress.done === progress.of) return;
  }
}

/** The positions and weights of the query's strongest keys, the largest weight first. */
export async function strongestKeys(query: number, stopped: AbortSignal): Promise<[number, number][]> {
  const answer = await send("map/strongest", { ...mapHead.value, query }, stopped);
  const { keys, weights } = (await answer.json()) as { keys: number[]; weights: number[] };
  return keys.map((key, i) => [key, weights[i]]);
}
