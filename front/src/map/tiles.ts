// The tiles of a map: requested while they are in view, and kept while there is room

import { signal } from "@preact/signals";

/** A tile: one of the squares of cells into which a level is divided; a cell of level L is a square of 2^L × 2^L weights. */
export interface Place {
  level: number;
  row: number;
  column: number;
}

export interface Tile {
  numbers: Float32Array; // row after row; NaN = masked
  columns: number;
  rows: number;
  largest: number;
}

/** Why a tile is missing. */
export interface Failure {
  reason: string;
  givenUp: boolean; // requested again only if the reader asks for it
}

interface Failed {
  reason: string;
  times: number;
  rests: boolean; // not requested during a pause
  timer?: ReturnType<typeof setTimeout>; // ends the pause
}

const PAUSES = [500, 1000, 2000]; // milliseconds before the first, second and third new request for a tile that did not load
const MOST_KEPT = 256; // tiles; each takes 256 KB, and 256 KB more once its picture is drawn
const AT_ONCE = 3; // the most requests at one time

const nameOf = ({ level, row, column }: Place) => `${level} ${row} ${column}`;

export class Tiles {
  readonly arrived = signal(0); // rises whenever there are more tiles
  readonly failure = signal<Failure | null>(null);
  private kept = new Map<string, Tile>(); // the most recently used tile is at the end
  private asked = new Map<string, AbortController>();
  private failed = new Map<string, Failed>();
  private wanted: Place[] = [];

  constructor(private load: (place: Place, stopped: AbortSignal) => Promise<Tile>) {}

  get(place: Place): Tile | undefined {
    const name = nameOf(place);
    const tile = this.kept.get(name);
    if (tile) {
      this.kept.delete(name);
      this.kept.set(name, tile);
    }
    return tile;
  }

  /** Load these tiles, the first ones first, and no others. */
  want(places: Place[]): void {
    this.wanted = places.filter((place) => !this.kept.has(nameOf(place)));
    const names = new Set(this.wanted.map(nameOf));
    for (const [name, asked] of this.asked) if (!names.has(name)) asked.abort();
    for (const name of this.failed.keys()) if (!names.has(name)) this.forget(name);
    this.askForMore();
  }

  /** Ask again for the tiles that did not load. */
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

  private async ask(place: Place, name: string): Promise<void> {
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

  /** A tile failed to load: pause before it is requested again; after the last pause, give it up. */
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
