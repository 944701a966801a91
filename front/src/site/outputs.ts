// The output projections of a model, from the file that Python's site/output_projections.py writes

import type { NumberArray, Trace } from "../data";

/** The arrays of all layers' output projections, by the names of their blocks. */
export interface Outputs {
  shown: Record<string, Float32Array>; // the arrays that the page gets: the first columns of W_O, the bias, and gram (see LayerOutput)
  projections: Record<string, Float32Array>; // the whole matrices W_O, which only the worker needs
}

export function outputArrays(file: Uint8Array, shape: Trace): Outputs {
  const numbers = new Float32Array(file.slice().buffer);
  const layers = Object.values(shape.kinds).flatMap((kind) => kind.layers);
  let at = 0;
  const take = ({ block, shape: sizes }: NumberArray): [string, Float32Array] => {
    const from = at;
    at += sizes.reduce((product, size) => product * size, 1);
    return [block, numbers.subarray(from, at)];
  };
  const [shown, projections]: [string, Float32Array][][] = [[], []];
  for (const { output } of layers) {
    if (!output) continue;
    shown.push(...Object.values(output.arrays).map(take));
    projections.push(take(output.weight!));
  }
  return { shown: Object.fromEntries(shown), projections: Object.fromEntries(projections) };
}
