/* x W^T + b for a few rows, W as it lies: no time goes into laying it out anew, and all of it is read only once.

   A row and an output are some sums side by side, which are added up at the end: the same steps for every row and
   output, so that a row's numbers do not depend on those it is projected with. */

#include "lanes.h"

/* Rows that are multiplied at once with 4 outputs' weights: as many as there are registers for. */
#define TILE (WIDE == 16 ? 4 : WIDE == 8 ? 2 : 1)

typedef struct {
  const float *weight, *bias; /* [n_out, n_in], [n_out] */
  int64_t n_in, n_out;        /* n_in: a multiple of 16 */
} Projection;

/* At most 4 rows and 4 outputs. */
static inline __attribute__((always_inline)) void tile(int rows, const float *x, int64_t n, const float *weight,
                                                       four bias, float *out, int64_t n_out) {
  wide sums[4][4], w[4];
  for (int r = 0; r < rows; r++)
    for (int o = 0; o < 4; o++) sums[r][o] = all(0);
  for (int64_t i = 0; i < n; i += WIDE) {
    for (int o = 0; o < 4; o++) {
      w[o] = load(weight + o * n + i);
      KEEP_IN_REGISTER(w[o]);
    }
    for (int r = 0; r < rows; r++) {
      wide v = load(x + r * n + i);
      KEEP_IN_REGISTER(v);
      for (int o = 0; o < 4; o++) sums[r][o] += v * w[o];
    }
  }
  for (int r = 0; r < rows; r++)
    *(any_four *)(out + r * n_out) = sums_of(sums[r][0], sums[r][1], sums[r][2], sums[r][3]) + bias;
}

static inline float product(const float *a, const float *b, int64_t n) {
  wide sum = all(0);
  for (int64_t i = 0; i < n; i += WIDE) sum += load(a + i) * load(b + i);
  return sum_of(sum);
}

/* The outputs from start to stop of rows that lie one behind the other, as their outputs do. */
static void project(const Projection *of, const float *x, int64_t rows, int64_t start, int64_t stop, float *out) {
  int64_t n = of->n_in, n_out = of->n_out, o = start;
  for (; o + 4 <= stop; o += 4) {
    const float *weight = of->weight + o * n;
    four bias = *(const any_four *)(of->bias + o);
    for (int64_t r = 0; r < rows; r += TILE) switch (rows - r < TILE ? rows - r : TILE) {
        case 1: tile(1, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        case 2: tile(2, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        case 3: tile(3, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        default: tile(4, x + r * n, n, weight, bias, out + r * n_out + o, n_out);
      }
  }
  for (; o < stop; o++)
    for (int64_t r = 0; r < rows; r++) out[r * n_out + o] = product(x + r * n, of->weight + o * n, n) + of->bias[o];
}
