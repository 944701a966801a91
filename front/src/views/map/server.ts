// Requests to the server about the map of a head: tiles, computation of coarse levels (see tiles.ts), strongest keys

import type { TilePlace } from "../../parts/view";
import { send } from "../../state/questions";
import type { WeightMap } from "../../trace/data";
import { tileOf, type Tile } from "./tiles";

/** What the number of a map's cell is: the largest or the mean of the weights in the cell's square (see tiles.ts). */
export type Pool = "max" | "mean";

/** Which head a request is about. */
export interface MapHead {
  map: number; // the number of the map, from `WeightMap`
  kind: string;
  layer: number;
  head: number | null; // null = the average of the layer's heads
  hidden: boolean; // true = special tokens are left out; if the text has none, its first token is left out
}

/** How many rows the server has computed for the levels from `WeightMap.stored` up (`done`), and how many there are in all (`of`). */
export interface Progress {
  done: number;
  of: number;
}

/** Request a tile. `queries` is the number of all queries, from which the number of the tile's rows follows. */
export async function loadTile(map: WeightMap, head: MapHead, pool: Pool, queries: number, place: TilePlace, stopped: AbortSignal): Promise<Tile> {
  const answer = await send("map/tile", { ...head, ...place, pool }, stopped);
  const rows = Math.ceil(queries / 2 ** place.level) - place.row * map.tile;
  return tileOf(new Float32Array(await answer.arrayBuffer()), Math.min(map.tile, rows));
}

/**
 * Let the server compute the levels from `WeightMap.stored` up, some rows with each request, until all rows are done. `report` is
 * called after each request.
 */
export async function computeLevels(head: MapHead, stopped: AbortSignal, report: (progress: Progress) => void): Promise<void> {
  for (;;) {
    const progress = (await (await send("map/turn", head, stopped)).json()) as Progress;
    if (stopped.aborted) return;
    report(progress);
    if (progress.done === progress.of) return;
  }
}

/** Request the keys to which a query gives the largest weights: their positions and weights, largest first. */
export async function strongestKeys(head: MapHead, query: number, stopped: AbortSignal): Promise<[number, number][]> {
  const answer = await send("map/strongest", { ...head, query }, stopped);
  const { keys, weights } = (await answer.json()) as { keys: number[]; weights: number[] };
  return keys.map((key, i) => [key, weights[i]]);
}
