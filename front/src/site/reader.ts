// The interface of a model in the worker, which every kind of model implements

import type { Change, Effect, Reading, Trace } from "../trace/data";

/** A model in the worker: it reads a text and returns a trace. */
export interface Reader {
  /**
   * Run the model on a text and return the trace, with hidden vectors. The caller still has to choose what is shown first (`focus`).
   *
   * @param throwIfOutdated is called now and then; it throws an error to stop the work.
   */
  trace: (reading: Reading, throwIfOutdated: () => void) => Promise<Trace>;
  projections: Record<string, Float32Array>; // the output projection W_O of each layer, by name: "encoder layer 0 output weight"
  /** Return how changes to heads alter the output and the attention; left out by models whose heads cannot be changed. */
  effect?: (reading: Reading, changes: Change[]) => Promise<Effect>;
}
