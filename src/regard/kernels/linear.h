/* Linear layers, for a few rows at a time, with weights that are floats or 8-bit integers. Weights are read in the order in
   which they are stored, each once for all rows that a thread computes together. */

#pragma once

#include "integers.h"

typedef struct {
  const float *weight, *bias; /* [n_out, n_in] and [n_out]; weight null: the weights are `integers` times `scales` */
  int64_t n_in, n_out;        /* multiples of 16 */
  const int8_t *integers;     /* weights in blocks of 16 outputs and 4 inputs: [n_out / 16, n_in / 4, 16, 4] */
  const float *scales;        /* [n_out] */
  const int32_t *corrections; /* [n_out]: -128 * (sum of an output's integer weights), to undo the 128 added to each input */
} Linear;

/* The number of rows that are multiplied by the weights of 4 outputs at once, limited by the number of registers. */
#define TILE (WIDE == 16 ? 6 : WIDE == 8 ? 2 : 1)

/* Rows of inputs. If the weights are integers, the inputs are bytes, with a scale for each row. */
typedef struct {
  const float *numbers;
  const uint8_t *bytes;
  const float *scales;
} Inputs;

/* Compute 4 outputs, from output `first` on, for 1 to 6 rows. row_stride: floats from one row of `out` to the next. */
static inline __attribute__((always_inline)) void linear_tile(int rows, const Linear *layer, const float *x,
                                                              int64_t first, float *out, int64_t row_stride) {
  int64_t n_in = layer->n_in;
  const float *weight = layer->weight + first * n_in;
  four bias = *(const unaligned_four *)(layer->bias + first);
  wide sums[6][4], w[4];
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < 4; o++) sums[r][o] = broadcast(0);
  for (int64_t i = 0; i < n_in; i += WIDE) {
    for (int o = 0; o < 4; o++) {
      w[o] = load(weight + o * n_in + i);
      KEEP_IN_REGISTER(w[o]);
    }
    for (int r = 0; r < rows; r++) {
      wide v = load(x + r * n_in + i);
      KEEP_IN_REGISTER(v);
      for (int o = 0; o < 4; o++) sums[r][o] += v * w[o];
    }
  }
  for (int r = 0; r < rows; r++)
    *(unaligned_four *)(out + r * row_stride) = sums_of_lanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3]) + bias;
}

/* Compute 16 outputs, or as many as are left, from output `first` on, for 1 to 6 rows, with weights that are integers. */
static inline __attribute__((always_inline)) void integer_tile(int rows, const Linear *layer, Inputs x, int64_t first,
                                                               float *out, int64_t row_stride) {
  int64_t n_in = layer->n_in;
  for (int part = 0; part < 16; part += WIDE) {
    const int8_t *weight = layer->integers + first * n_in + 4 * part;
    lanes sums[6][4], w[4]; /* four independent sums run faster than one */
    for (int r = 0; r < rows; r++)
      for (int s = 0; s < 4; s++) sums[r][s] = (lanes){0};
    for (int64_t i = 0; i < n_in; i += 16) {
      for (int s = 0; s < 4; s++) {
        w[s] = *(const unaligned_lanes *)(weight + 16 * i + 64 * s);
        KEEP_IN_REGISTER(w[s]);
      }
      for (int r = 0; r < rows; r++)
        for (int s = 0; s < 4; s++) {
          int32_t four_bytes;
          memcpy(&four_bytes, x.bytes + r * n_in + i + 4 * s, 4);
          sums[r][s] = add_four_products(sums[r][s], (lanes){0} + four_bytes, w[s]);
        }
    }
    int64_t o = first + part;
    for (int r = 0; r < rows; r++) {
      lanes sum = sums[r][0] + sums[r][1] + sums[r][2] + sums[r][3] + *(const unaligned_lanes *)(layer->corrections + o);
      wide product = __builtin_convertvector(sum, wide) * (load(layer->scales + o) * x.scales[r]);
      KEEP_IN_REGISTER(product); /* prevents a fused multiply-add, so that all processors give the same bits */
      store_first(out + r * row_stride + part, product + load(layer->bias + o), layer->n_out - o);
    }
  }
}

static inline __attribute__((always_inline)) void tile(int rows, const Linear *layer, Inputs x, int64_t r, int64_t first,
                                                       float *out, int64_t row_stride) {
  int64_t n = layer->n_in;
  out += r * row_stride + first;
  if (layer->weight)
    linear_tile(rows, layer, x.numbers + r * n, first, out, row_stride);
  else
    integer_tile(rows, layer, (Inputs){0, x.bytes + r * n, x.scales + r}, first, out, row_stride);
}

static void product(const Linear *layer, Inputs x, int64_t rows, float *out, int64_t row_stride) {
  for (int64_t o = 0; o < layer->n_out; o += layer->weight ? 4 : 16)
    for (int64_t r = 0; r < rows; r += TILE) switch (rows - r < TILE ? rows - r : TILE) {
        /* each call has a constant number of rows, so that the compiler unrolls the loops over rows */
        case 1: tile(1, layer, x, r, o, out, row_stride); break;
        case 2: tile(2, layer, x, r, o, out, row_stride); break;
        case 3: tile(3, layer, x, r, o, out, row_stride); break;
        case 4: tile(4, layer, x, r, o, out, row_stride); break;
        case 5: tile(5, layer, x, r, o, out, row_stride); break;
        default: tile(6, layer, x, r, o, out, row_stride);
      }
}

/* Write out = x W^T + b. If the weights are integers, each row of x is quantised first. The order of each sum does not
   depend on the number of rows, so that a row's output does not change with the rows computed together with it. */
static void linear_rows(const Linear *layer, const float *x, int64_t rows, float *out, int64_t row_stride) {
  if (layer->weight) {
    product(layer, (Inputs){.numbers = x}, rows, out, row_stride);
    return;
  }
  uint8_t bytes[MOST_INPUTS];
  float scales[MOST_INPUTS / 16];
  int64_t n = layer->n_in, at_once = MOST_INPUTS / n;
  for (int64_t start = 0; start < rows; start += at_once) {
    int64_t n_rows = rows - start < at_once ? rows - start : at_once;
    for (int64_t r = 0; r < n_rows; r++) scales[r] = quantise(x + (start + r) * n, n, bytes + r * n);
    product(layer, (Inputs){0, bytes, scales}, n_rows, out + start * row_stride, row_stride);
  }
}

static void linear(const Linear *layer, const float *x, int64_t rows, float *out) {
  linear_rows(layer, x, rows, out, layer->n_out);
}

static int has_parameters(const Linear *layer) {
  int integers = layer->integers && layer->scales && layer->corrections && layer->n_in <= MOST_INPUTS;
  return layer->bias && (layer->weight || integers);
}

static int fits(const Linear *layer, int64_t n_in, int64_t n_out) {
  return has_parameters(layer) && layer->n_in == n_in && layer->n_out == n_out && n_in % 16 == 0 && n_out % 16 == 0;
}
