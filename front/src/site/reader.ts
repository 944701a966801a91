// What the worker asks of a model, whatever its kind

import type { Change, Effect, Trace } from "../data";

export interface Reader {
  /**
   * The trace of a text; what is shown first (`focus`) is not chosen yet.
   *
   * @param goOn asked now and then; an error that it throws ends the work.
   */
  trace: (text: string, goOn: () => void) => Promise<Trace>;
  /** What changes to the heads do; a model without it has none. */
  effect?: (text: string, changes: Change[]) => Promise<Effect>;
}
