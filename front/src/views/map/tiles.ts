// The tiles of a map. A map has levels: on level L, the weights are divided into squares of 2^L × 2^L, and a cell has the largest
// or mean weight of a square. A tile is a square of cells, which are loaded with one request.

import { signal } from "@preact/signals";
import type { TilePlace } from "../../parts/view";

export interface Tile {
  numbers: Float32Array; // the cells' numbers, row after row; NaN = all weights of the cell are masked
  columns: number;
  rows: number;
  largest: number; // the largest of `numbers`
}

interface Failure {
  reason: string;
  givenUp: boolean; // true = the tile is not requested again until the reader presses a button
}

/** What is known about a tile that failed to load; `times`: how often it failed. */
interface Failed {
  reason: string;
  times: number;
  rests: boolean; // true = the tile is not requested now: the pause before its next request has not ended, or the tile is given up
  timer?: ReturnType<typeof setTimeout>; // the timer that ends the pause before the next request
}

const PAUSES = [500, 1000, 2000]; // milliseconds before the first, second and third new request after a tile failed to load
const MOST_TILES = 256; // the most tiles in memory; each takes 256 KB, and 256 KB more after it has been drawn
const MOST_REQUESTS = 3; // the most requests at one time

const nameOf = ({ level, row, column }: TilePlace) => `${level} ${row} ${column}`;

/** The tiles of one head: the tiles in memory, and the requests for other tiles. `side`: the cells along a side of a tile; `load` requests one tile. */
export class Tiles {
  readonly arrived = signal(0); // rises whenever a tile has been loaded
  readonly failure = signal<Failure | null>(null);
  private loaded = new Map<string, Tile>(); // the most recently used tile is at the end
  private requests = new Map<string, AbortController>();
  private failed = new Map<string, Failed>();
  private wanted: TilePlace[] = [];

  constructor(
    readonly side: number,
    private load: (place: TilePlace, stopped: AbortSignal) => Promise<Tile>,
  ) {}

  get(place: TilePlace): Tile | undefined {
    const name = nameOf(place);
    const tile = this.loaded.get(name);
    if (tile) {
      this.loaded.delete(name);
      this.loaded.set(name, tile);
    }
    return tile;
  }

  /** The number of a cell: the largest or the mean of the weights that the cell stands for (see `Pool`); undefined until it is loaded. */
  numberAt(level: number, row: number, column: number): number | undefined {
    const tile = this.get({ level, row: Math.floor(row / this.side), column: Math.floor(column / this.side) });
    return tile?.numbers[(row % this.side) * tile.columns + (column % this.side)];
  }

  /** Load these tiles in their order, and cancel the requests for all other tiles. */
  want(places: TilePlace[]): void {
    this.wanted = places.filter((place) => !this.loaded.has(nameOf(place)));
    const names = new Set(this.wanted.map(nameOf));
    for (const [name, request] of this.requests) if (!names.has(name)) request.abort();
    for (const name of this.failed.keys()) if (!names.has(name)) this.forgetFailure(name);
    this.requestMore();
  }

  tryAgain(): void {
    for (const name of this.failed.keys()) this.forgetFailure(name);
    this.requestMore();
  }

  private requestMore(): void {
    for (const place of this.wanted) {
      if (this.requests.size >= MOST_REQUESTS) return;
      const name = nameOf(place);
      if (!this.requests.has(name) && !this.loaded.has(name) && !this.failed.get(name)?.rests) void this.request(place, name);
    }
  }

  private async request(place: TilePlace, name: string): Promise<void> {
    const controller = new AbortController();
    this.requests.set(name, controller);
    try {
      this.loaded.set(name, await this.load(place, controller.signal));
      for (const oldest of this.loaded.keys()) {
        if (this.loaded.size <= MOST_TILES) break;
        this.loaded.delete(oldest);
      }
      this.forgetFailure(name);
      this.arrived.value += 1;
    } catch (error) {
      if (!controller.signal.aborted) this.recordFailure(name, error instanceof Error ? error.message : String(error));
    } finally {
      this.requests.delete(name);
      this.requestMore();
    }
  }

  /** Record that a tile failed to load, and request it again after a pause. After its fourth failure (there are three PAUSES), give it up. */
  private recordFailure(name: string, reason: string): void {
    const times = (this.failed.get(name)?.times ?? 0) + 1;
    const failed: Failed = { reason, times, rests: true };
    const endPause = () => {
      failed.rests = false;
      this.requestMore();
    };
    if (times <= PAUSES.length) failed.timer = setTimeout(endPause, PAUSES[times - 1]);
    this.failed.set(name, failed);
    this.updateFailure();
  }

  private forgetFailure(name: string): void {
    clearTimeout(this.failed.get(name)?.timer);
    if (this.failed.delete(name)) this.updateFailure();
  }

  private updateFailure(): void {
    const failures = [...this.failed.values()];
    const givenUp = failures.find(({ times }) => times > PAUSES.length);
    const first = givenUp ?? failures[0];
    this.failure.value = first ? { reason: first.reason, givenUp: Boolean(givenUp) } : null;
  }
}

export function tileOf(numbers: Float32Array, rows: number): Tile {
  let largest = 0;
  for (const number of numbers) if (number > largest) largest = number;
  return { numbers, rows, columns: numbers.length / rows, largest };
}
