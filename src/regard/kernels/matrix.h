/* Products of small matrices that fit into the CPU cache. The result is computed in tiles (blocks of rows and columns), and
   the sums of a tile are kept in vector registers. A panel is a copy of a part of the right matrix, PANEL columns wide. */

#pragma once

#include "lanes.h"

/* A tile (block of the result) has ROWS rows of REGISTERS * WIDE numbers. The sums of a tile take ROWS * REGISTERS of the
   processor's registers, a row of the right matrix takes REGISTERS, and a number of the left matrix takes one. */
#define ROWS 6 /* with 6 rows, 15 of the 16 registers of AVX are in use, or 29 of the 32 of AVX-512 */
#define REGISTERS (WIDE == 16 ? 4 : 2)
#define PANEL (REGISTERS * WIDE)

/* Load n numbers, with 0 in the other lanes. */
static inline wide load_first(const float *from, int n) {
  wide numbers = broadcast(0);
  if (n >= WIDE) return load(from);
  if (n > 0) memcpy(&numbers, from, n * sizeof(float));
  return numbers;
}

/* Return lanes in which all bits are set where the byte of the same index is not 0; from lane n on, none is set. */
static inline lanes nonzero_bytes(const uint8_t *from, int n) {
  typedef uint8_t bytes __attribute__((vector_size(WIDE)));
  bytes some = {0};
  memcpy(&some, from, n < WIDE ? n : WIDE);
  return __builtin_convertvector(some, lanes) != 0;
}

/* Write left @ right to sums, for the first `rows` rows of the left matrix and the first `registers` * WIDE columns of
   the right matrix. depth: the number of products in each sum. left_step, right_step: floats from one row of a matrix
   to the next. */
static inline __attribute__((always_inline)) void multiply(int rows, int registers, const float *left,
                                                           int64_t left_step, const float *right, int64_t right_step,
                                                           int64_t depth, wide sums[ROWS][REGISTERS]) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < registers; c++) sums[r][c] = broadcast(0);
  for (int64_t i = 0; i < depth; i++) {
    wide columns[REGISTERS];
    for (int c = 0; c < registers; c++) {
      columns[c] = load(right + i * right_step + c * WIDE);
      KEEP_IN_REGISTER(columns[c]);
    }
    for (int r = 0; r < rows; r++) {
      float x = left[r * left_step + i];
      for (int c = 0; c < registers; c++) sums[r][c] += x * columns[c];
    }
  }
}

/* Write out = scale * left @ panel. A sum that overflows becomes NaN, not infinity, because an infinity may be wrong: the
   exact sum may be finite, or have the other sign. */
static inline __attribute__((always_inline)) void scaled_product(int rows, const float *left, int64_t left_step,
                                                                 const float *panel, int64_t depth, float scale,
                                                                 float *out, int64_t out_step, int columns) {
  wide sums[ROWS][REGISTERS];
  multiply(rows, REGISTERS, left, left_step, panel, PANEL, depth, sums);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < REGISTERS; c++) {
      wide sum = sums[r][c] + sums[r][c] * 0.0f;
      store_first(out + r * out_step + c * WIDE, sum * scale, columns - c * WIDE);
    }
}

/* Write out = (rescale * out + left @ right) * factor, with one rescale and one factor for each row; without rescale, the
   numbers in out are not read. At most MOST_TERMS products are added up before their sum is added to out: in a float32 sum
   of thousands of similar numbers, added one by one, the rounding errors add up. */
static inline __attribute__((always_inline)) void add_product(int rows, int registers, const float *left,
                                                              int64_t left_step, const float *right,
                                                              int64_t right_step, int64_t depth,
                                                              const float *rescale, const float *factor, float *out,
                                                              int64_t out_step, int columns) {
  wide sums[ROWS][REGISTERS];
  int64_t start = 0;
  do { /* runs once even if depth is 0, since out must be multiplied by rescale and factor */
    int64_t remaining = depth - start, n_terms = remaining < MOST_TERMS ? remaining : MOST_TERMS;
    multiply(rows, registers, left + start, left_step, right + start * right_step, right_step, n_terms, sums);
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < registers; c++) {
        float *to = out + r * out_step + c * WIDE;
        int n = columns - c * WIDE;
        if (start) sums[r][c] += load_first(to, n);
        if (!start && rescale) sums[r][c] += load_first(to, n) * rescale[r];
        store_first(to, factor && n_terms == remaining ? sums[r][c] * factor[r] : sums[r][c], n);
      }
    start += n_terms;
  } while (start < depth);
}

/* Transpose n vectors into a panel: row i has number i of every vector, and 0 in the columns from n on. */
static void pack_panel(const float *vectors, int64_t step, int n, int width, float *panel) {
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    const float *from = vectors + j * step;
    int i = 0;
    for (; i + 4 <= width; i += 4) {
      four a = *(const unaligned_four *)(from + i), b = *(const unaligned_four *)(from + step + i);
      four c = *(const unaligned_four *)(from + 2 * step + i), d = *(const unaligned_four *)(from + 3 * step + i);
      four ab = SHUFFLE(a, b, 0, 4, 1, 5), cd = SHUFFLE(c, d, 0, 4, 1, 5);
      four ab_end = SHUFFLE(a, b, 2, 6, 3, 7), cd_end = SHUFFLE(c, d, 2, 6, 3, 7);
      float *to = panel + i * PANEL + j;
      *(unaligned_four *)to = SHUFFLE(ab, cd, 0, 1, 4, 5);
      *(unaligned_four *)(to + PANEL) = SHUFFLE(ab, cd, 2, 3, 6, 7);
      *(unaligned_four *)(to + 2 * PANEL) = SHUFFLE(ab_end, cd_end, 0, 1, 4, 5);
      *(unaligned_four *)(to + 3 * PANEL) = SHUFFLE(ab_end, cd_end, 2, 3, 6, 7);
    }
    for (; i < width; i++)
      for (int v = 0; v < 4; v++) panel[i * PANEL + j + v] = from[v * step + i];
  }
  for (; j < PANEL; j++)
    for (int i = 0; i < width; i++) panel[i * PANEL + j] = j < n ? vectors[j * step + i] : 0;
}
