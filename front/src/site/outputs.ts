// The output projections of a model, from the file that Python's site/output_projections.py writes

import type { Trace } from "../data";

/** The arrays of all layers, by the names of their blocks. */
export function outputArrays(file: Uint8Array, shape: Trace): Record<string, Float32Array> {
  const numbers = new Float32Array(file.slice().buffer);
  const layers = Object.values(shape.kinds).flatMap((kind) => kind.layers);
  let at = 0;
  return Object.fromEntries(
    layers.flatMap(({ output }) => Object.values(output?.arrays ?? {})).map((array) => {
      const from = at;
      at += array.shape.reduce((product, size) => product * size, 1);
      return [array.block, numbers.subarray(from, at)];
    }),
  );
}
