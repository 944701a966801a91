// Ask the server for the map of a head

import type { WeightMap } from "../data";
import { send } from "../live";
import { tileOf, type Place, type Tile } from "./tiles";

export type Pool = "max" | "mean";

export interface HeadPlace {
  map: number;
  kind: string;
  layer: number;
  head: number | null; // null = the average over the heads of the layer
  hidden: boolean; // whether special tokens, or else the first token, are left out
}

/** How many rows of the high levels are done. */
export interface Progress {
  done: number;
  of: number;
}

/** Ask for a tile; `queries` is the number of rows of level 0. */
export async function loadTile(map: WeightMap, head: HeadPlace, pool: Pool, queries: number, place: Place, stopped: AbortSignal): Promise<Tile> {
  const answer = await send("map/tile", { ...head, ...place, pool }, stopped);
  const rows = Math.ceil(queries / 2 ** place.level) - place.row * map.tile;
  return tileOf(new Float32Array(await answer.arrayBuffer()), Math.min(map.tile, rows));
}

/** Let the server compute the high levels, turn after turn, until they are done. */
export async function takeTurns(head: HeadPlace, stopped: AbortSignal, report: (progress: Progress) => void): Promise<void> {
  for (;;) {
    const progress = (await (await send("map/turn", head, stopped)).json()) as Progress;
    if (stopped.aborted) return;
    report(progress);
    if (progress.done === progress.of) return;
  }
}

/** The strongest keys of a query, and their weights. */
export async function strongestKeys(head: HeadPlace, query: number, stopped: AbortSignal): Promise<[number, number][]> {
  const answer = await send("map/strongest", { ...head, query }, stopped);
  const { keys, weights } = (await answer.json()) as { keys: number[]; weights: number[] };
  return keys.map((key, i) => [key, weights[i]]);
}
