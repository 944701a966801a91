// Arrays of numbers: the rows of a matrix, and the largest numbers

type Numbers = Float32Array | Float64Array;

/** The rows of a matrix [count …], as arrays that share its memory. */
export function rowsOf<Matrix extends Numbers>(matrix: Matrix, count: number): Matrix[] {
  const size = matrix.length / count;
  return Array.from({ length: count }, (_, row) => matrix.subarray(row * size, (row + 1) * size) as Matrix);
}

/** The indices of the `count` largest numbers, the largest first; of equal numbers, the one with the smaller index comes first. */
export function indicesOfLargest(numbers: ArrayLike<number>, count: number): number[] {
  const best: number[] = [];
  for (let index = 0; index < numbers.length; index++) {
    if (best.length === count && numbers[index] <= numbers[best[count - 1]]) continue;
    let place = best.length;
    while (place > 0 && numbers[best[place - 1]] < numbers[index]) place -= 1;
    best.splice(place, 0, index);
    best.length = Math.min(best.length, count);
  }
  return best;
}
