// The plane of the first two principal components of vectors, as in Python's effects/plane.py

import { dot, minus, product, scaled } from "./matrices";

const TOO_LONG = 10; // vectors longer than this many times the median length are left out: these few alone would determine the axes
const DIRECTIONS = 8; // the dimensions of the subspace in which eigenvectors are sought; with more, the first two converge faster
const MOST_ROUNDS = 1_000;
const CLOSE_ENOUGH = 1e-10; // stop when |matrix · vector − eigenvalue · vector| / largest eigenvalue is at most this for both eigenvectors

/** Two axes at right angles, of length 1, through the mean of the vectors (`middle`). */
export interface Plane {
  middle: Float64Array;
  axes: [Float64Array, Float64Array];
  shares: [number, number]; // for each axis, its share of the variance of the vectors
  leftOut: number; // how many vectors were left out when the axes were computed, because they are too long (see TOO_LONG)
}

export function planeThrough(vectors: Float64Array[]): Plane {
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)));
  const median = [...lengths].sort((a, b) => a - b)[(lengths.length - 1) >> 1];
  const fitted = vectors.filter((_, i) => lengths[i] <= TOO_LONG * median);
  const width = vectors[0].length;
  const middle = Float64Array.from({ length: width }, (_, i) => fitted.reduce((sum, vector) => sum + vector[i], 0) / fitted.length);
  const rows = fitted.map((vector) => vector.map((number, i) => number - middle[i]));
  const totalVariance = Math.max(rows.reduce((sum, row) => sum + dot(row, row), 0), 1e-300);
  // The axes are eigenvectors of XᵀX [width width], where X [vectors width] has the rows. XXᵀ [vectors vectors] has the same eigenvalues,
  // apart from zeros, and is used if it is smaller.
  const hasFewRows = rows.length < width;
  const components = eigenvectors(products(hasFewRows ? rows : columnsOf(rows)), Math.min(rows.length, width));
  const axes = components.map(({ vector }) => signed(hasFewRows ? combined(rows, vector) : vector));
  return {
    middle,
    axes: [axes[0], axes[1]],
    shares: [components[0].value / totalVariance, components[1].value / totalVariance],
    leftOut: vectors.length - fitted.length,
  };
}

const columnsOf = (rows: Float64Array[]): Float64Array[] => Array.from(rows[0], (_, column) => Float64Array.from(rows, (row) => row[column]));

function combined(vectors: Float64Array[], factors: ArrayLike<number>): Float64Array {
  const sum = new Float64Array(vectors[0].length);
  vectors.forEach((vector, k) => {
    for (let i = 0; i < sum.length; i++) sum[i] += factors[k] * vector[i];
  });
  return sum;
}

/** The vector scaled to length 1, with the sign that makes its number of largest absolute value positive; a zero vector stays zero. */
function signed(vector: Float64Array): Float64Array {
  const largest = vector.reduce((best, number) => (Math.abs(number) > Math.abs(best) ? number : best), 0);
  return scaled(vector, Math.sign(largest) / Math.max(Math.sqrt(dot(vector, vector)), 1e-300));
}

/** The dot products of all pairs of vectors: a symmetric matrix [vectors vectors]. */
function products(vectors: Float64Array[]): Float64Array {
  const size = vectors.length;
  const matrix = new Float64Array(size * size);
  for (let i = 0; i < size; i++) for (let j = 0; j <= i; j++) matrix[i * size + j] = matrix[j * size + i] = dot(vectors[i], vectors[j]);
  return matrix;
}

interface Eigen {
  value: number;
  vector: Float64Array;
}

/**
 * The eigenvectors of the two largest eigenvalues of a symmetric matrix [size size].
 *
 * Subspace iteration with the Rayleigh-Ritz procedure: Saad, "Numerical methods for large eigenvalue problems", section 5.2.
 */
function eigenvectors(matrix: Float64Array, size: number): Eigen[] {
  const count = Math.min(DIRECTIONS, size);
  // To begin with, any linearly independent vectors
  let basis = orthonormal(Array.from({ length: count }, (_, k) => Float64Array.from({ length: size }, (_, i) => Math.sin((k + 1) * (i + 1)))));
  let found: Eigen[] = [];
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const images = basis.map((vector) => product(matrix, vector, size, size, 1));
    const projected = basis.map((vector) => images.map((image) => dot(vector, image)));
    const { values, vectors } = jacobi(projected);
    const order = [...values.keys()].sort((a, b) => values[b] - values[a]);
    const turned = (parts: Float64Array[]) => order.map((column) => combined(parts, vectors.map((row) => row[column])));
    const [approximate, next] = [turned(basis), turned(images)];
    found = order.slice(0, 2).map((column, k) => ({ value: Math.max(0, values[column]), vector: approximate[k] }));
    const errors = found.map(({ value, vector }, k) => minus(next[k], scaled(vector, value)));
    if (errors.every((error) => Math.sqrt(dot(error, error)) <= CLOSE_ENOUGH * found[0].value)) break;
    basis = orthonormal(next);
  }
  return [...found, { value: 0, vector: new Float64Array(size) }].slice(0, 2);
}

/** Orthonormal vectors that span the same space (Gram-Schmidt, twice for accuracy). A vector that depends linearly on those before it becomes 0. */
function orthonormal(vectors: Float64Array[]): Float64Array[] {
  const basis: Float64Array[] = [];
  for (const vector of vectors) {
    let rest = vector; // the part of the vector that is at right angles to the basis
    for (let round = 0; round < 2; round++)
      for (const unit of basis) {
        const component = dot(rest, unit);
        rest = rest.map((number, i) => number - component * unit[i]);
      }
    const [length, restLength] = [Math.sqrt(dot(vector, vector)), Math.sqrt(dot(rest, rest))];
    basis.push(scaled(rest, restLength > 1e-12 * length ? 1 / restLength : 0));
  }
  return basis;
}

/** The eigenvalues of a small symmetric matrix, and its eigenvectors as columns, by Jacobi's rotations. */
function jacobi(given: number[][]): { values: number[]; vectors: number[][] } {
  const a = given.map((row, i) => row.map((number, j) => (number + given[j][i]) / 2));
  const vectors = a.map((row, i) => row.map((_, j) => Number(i === j)));
  const rotate = (matrix: number[][], i: number, j: number, cos: number, sin: number) => {
    for (const row of matrix) [row[i], row[j]] = [cos * row[i] - sin * row[j], sin * row[i] + cos * row[j]];
  };
  for (let sweep = 0; sweep < 30; sweep++)
    for (let i = 0; i < a.length; i++)
      for (let j = i + 1; j < a.length; j++) {
        if (a[i][j] === 0) continue;
        const angle = 0.5 * Math.atan2(2 * a[i][j], a[j][j] - a[i][i]);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        rotate(a, i, j, cos, sin);
        const [one, other] = [[...a[i]], [...a[j]]];
        a[i] = one.map((number, k) => cos * number - sin * other[k]);
        a[j] = one.map((number, k) => sin * number + cos * other[k]);
        rotate(vectors, i, j, cos, sin);
      }
  return { values: a.map((row, i) => row[i]), vectors };
}
