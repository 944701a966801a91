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
const MOST_KEPT = 256; // the most tiles in memory; each takes 256 KB, and 256 KB more after it has been drawn
const AT_ONCE = 3; // the most requests at one time

const nameOf = ({ level, row, column }: TilePlace) => `${level} ${row} ${column}`;

/** The tiles of one head: the tiles in memory, and the requests for other tiles. `side`: the cells along a side of a tile; `load` requests one tile. */
export class Tiles {
  readonly arrived = signal(0); // rises whenever a tile has been loaded
  readonly failure = signal<Failure | null>(null);
  private kept = new Map<string, Tile>(); // the most recently used tile is at the end
  private asked = new Map<string, AbortController>();
  private failed = new Map<string, Failed>();
  private wanted: TilePlace[] = [];

  constructor(
    readonly side: number,
    private load: (place: TilePlace, stopped: AbortSignal) => Promise<Tile>,
  ) {}

  get(place: TilePlace): Tile | undefined {
    const name = nameOf(place);
    const tile = this.kept.get(name);
    if (tile) {
      this.kept.delete(name);
      this.kept.set(name, tile);
    }
    return tile;
  }

  /** The number of a cell: the largest or the mean of the weights that the cell stands for (see `Pool`); undefined until it is loaded. */
  numberAt(level: number, row: number, column: number): number | undefined {
    const found = this.get({ level, row: Math.floor(row / this.side), column: Math.floor(column / this.side) });
    return found?.numbers[(row % this.side) * found.columns + (column % this.side)];
  }

  /** Load these tiles in their order, and cancel the requests for all other tiles. */
  want(places: TilePlace[]): void {
    this.wanted = places.filter((place) => !this.kept.has(nameOf(place)));
    const names = new Set(this.wanted.map(nameOf));
    for (const [name, asked] of this.asked) if (!names.has(name)) asked.abort();
    for (const name of this.failed.keys()) if (!names.has(name)) this.forget(name);
    this.askForMore();
  }

  tryAgain(): void {
    for (const name of this.failed.keys()) this.forget(name);
    this.askForMore();
  }

  private askForMore(): void {
    for (const place of this.wanted) {
      if (this.asked.size >= AT_ONCE) return;
      const name = nameOf(place);
      if (!this.asked.has(name) && !this.kept.has(name) && !this.failed.get(name)?.rests) void this.ask(place, name);
    }
  }

  private async ask(place: TilePlace, name: string): Promise<void> {
    const own = new AbortController();
    this.asked.set(name, own);
    try {
      this.kept.set(name, await this.load(place, own.signal));
      for (const oldest of this.kept.keys()) {
        if (this.kept.size <= MOST_KEPT) break;
        this.kept.delete(oldest);
      }
      this.forget(name);
      this.arrived.value += 1;
    } catch (error) {
      if (!own.signal.aborted) this.fail(name, error instanceof Error ? error.message : String(error));
    } finally {
      this.asked.delete(name);
      this.askForMore();
    }
  }

  /** Record that a tile failed to load, and request it again after a pause. After its fourth failure (there are three PAUSES), give it up. */
  private fail(name: string, reason: string): void {
    const failed: Failed = { reason, times: (this.failed.get(name)?.times ?? 0) + 1, rests: true };
    const end = () => ((failed.rests = false), this.askForMore());
    if (failed.times <= PAUSES.length) failed.timer = setTimeout(end, PAUSES[failed.times - 1]);
    this.failed.set(name, failed);
    this.tell();
  }

  private forget(name: string): void {
    clearTimeout(this.failed.get(name)?.timer);
    if (this.failed.delete(name)) this.tell();
  }

  private tell(): void {
    const all = [...this.failed.values()];
    const givenUp = all.find(({ times }) => times > PAUSES.length);
    const told = givenUp ?? all[0];
    this.failure.value = told ? { reason: told.reason, givenUp: Boolean(givenUp) } : null;
  }
}

export function tileOf(numbers: Float32Array, rows: number): Tile {
  let largest = 0;
  for (const number of numbers) if (number > largest) largest = number;
  return { numbers, rows, columns: numbers.length / rows, largest };
}
