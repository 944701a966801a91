// Products of matrices and vectors

type Numbers = Float32Array | Float64Array;

/** The product of matrices [rows inner] and [inner columns]. */
export function product(a: Numbers, b: Numbers, rows: number, inner: number, columns: number): Float64Array {
  const result = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++)
    for (let i = 0; i < inner; i++) {
      const factor = a[row * inner + i];
      for (let column = 0, from = i * columns, to = row * columns; column < columns; column++) result[to + column] += factor * b[from + column];
    }
  return result;
}

export function dot(a: Numbers, b: Numbers): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export const scaled = (vector: Float64Array, factor: number): Float64Array => vector.map((number) => number * factor);
export const plus = (a: Float64Array, b: Float64Array): Float64Array => a.map((number, i) => number + b[i]);
export const minus = (a: Float64Array, b: Float64Array): Float64Array => a.map((number, i) => number - b[i]);
