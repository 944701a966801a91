// What the worker asks of a model, whatever its kind

import type { Change, Effect, Trace } from "../data";
import type { Reading } from "./messages";

export interface Reader {
  /**
   * The trace of a text, with its hidden vectors; what is shown first (`focus`) is not chosen yet.
   *
   * @param goOn called now and then; if it throws an error, the work ends.
   */
  trace: (reading: Reading, goOn: () => void) => Promise<Trace>;
  projections: Record<string, Float32Array>; // the matrices W_O, by the names of their blocks
  /** What changes to the heads do to the output; missing for a model whose heads cannot be changed. */
  effect?: (reading: Reading, changes: Change[]) => Promise<Effect>;
}
