/* From rows of scores to unnormalised softmax weights and everything that is asked of them, while they are in the cache.

   The caller multiplies queries and keys, and later weights and values: there a library is at the limit of the machine.
   Between the two, each row is gone through a few times where it lies, 16 numbers at once:

       largest  m = max s                          (and the strongest keys, found among the scores)
       weights  e = exp(s - m), total = sum of e   (written over the scores; the weights are e / total)
       entropy      log total - sum of e (s - m) / total
       columns      sum over rows of e / total

   A score of -infinity is a key that is barred; a row of nothing else has weights 0. A NaN makes its whole row NaN. */

#include <math.h>
#include <stdint.h>

#define WIDE 16
#define LEAST -87.0f /* exp of less is below the smallest normal float32 */

typedef float wide __attribute__((vector_size(4 * WIDE)));
typedef float unaligned __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t lanes __attribute__((vector_size(4 * WIDE)));

typedef struct {
  float *scores; /* [rows keys], with weights e when done */
  int64_t stride;
  int32_t rows, keys;
  int64_t first_key; /* the number of the first of these keys among all */
  int64_t position;  /* where the first row stands among all keys */
  float sink;        /* one more score, which takes weight and is no key; -infinity for none */
  float *inverse;    /* 1 / total of each row, 0 for a row that sees nothing */
  float *log_sum;    /* log of the sum of exp of each row's scores, +infinity for a row that sees nothing */
  float *entropy, *distance, *first, *own, *previous; /* of each row, or null */
  float *received;                                            /* [keys], added to, or null */
  int32_t top;
  float *top_weights; /* [rows top] */
  int64_t *top_keys;
  int32_t cells; /* columns of a map, 0 for none */
  int32_t largest; /* whether a cell holds its largest weight, or their sum */
  const int32_t *cell_of_row;    /* [rows], counted from 0 in this call */
  const int32_t *start_of_cell;  /* [cells + 1], in these keys */
  float *pooled;                 /* [rows of the map, cells], added to */
  float *column;                 /* [keys], for use here */
} Block;

static inline wide load(const float *from) { return *(const unaligned *)from; }
static inline void store(float *to, wide numbers) { *(unaligned *)to = numbers; }
static inline wide all(float number) { return (wide){} + number; }
static inline wide choose(lanes where, wide yes, wide no) {
  return (wide)(((lanes)yes & where) | ((lanes)no & ~where));
}

static inline float sum_of(wide numbers) {
  float sum = 0;
  for (int i = 0; i < WIDE; i++) sum += numbers[i];
  return sum;
}

static inline float largest_of(wide numbers) {
  float largest = numbers[0];
  for (int i = 1; i < WIDE; i++) largest = numbers[i] > largest ? numbers[i] : largest;
  return largest;
}

/* exp for numbers in [LEAST, 88]: 2^k times a polynomial (Cephes' expf), within 2 units in the last place. */
static inline wide exp_of(wide x) {
  const wide shifter = all(12582912.0f); /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */
  wide shifted = x * 1.44269504f + shifter, k = shifted - shifter;
  wide f = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  wide p = all(1.9875691500e-4f);
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  return p * (wide)(((lanes)shifted << 23) + 0x3f800000);
}

static float largest_in(const float *row, int keys) {
  wide a = all(-INFINITY), b = a;
  int j = 0;
  for (; j + 2 * WIDE <= keys; j += 2 * WIDE) {
    wide x = load(row + j), y = load(row + j + WIDE);
    a = choose(x > a, x, a);
    b = choose(y > b, y, b);
  }
  float largest = largest_of(choose(b > a, b, a));
  for (; j < keys; j++) largest = row[j] > largest ? row[j] : largest;
  return largest;
}

/* The strongest keys of a row by their scores, strongest first; -1 where the row has fewer that are not barred. */
static void strongest(const float *row, int keys, int top, float *scores, int64_t *numbers) {
  for (int i = 0; i < top; i++) scores[i] = -INFINITY, numbers[i] = -1;
  int j = 0;
  while (j < keys) {
    if (j + WIDE <= keys) {
      lanes above = load(row + j) > scores[top - 1];
      int64_t any = 0;
      for (int i = 0; i < WIDE / 2; i++) any |= ((int64_t __attribute__((vector_size(4 * WIDE))))above)[i];
      if (!any) {
        j += WIDE;
        continue;
      }
    }
    int end = j + WIDE < keys ? j + WIDE : keys;
    for (; j < end; j++) {
      if (!(row[j] > scores[top - 1])) continue;
      int at = top - 1;
      for (; at > 0 && row[j] > scores[at - 1]; at--) scores[at] = scores[at - 1], numbers[at] = numbers[at - 1];
      scores[at] = row[j], numbers[at] = j;
    }
  }
}

/* Scores to weights e = exp(s - shift); gives their sum, and the sum of e (s - shift). */
static float exponentials(float *row, int keys, float shift, float *product) {
  wide total_a = all(0), total_b = total_a, product_a = total_a, product_b = total_a;
  int j = 0;
  for (; j + 2 * WIDE <= keys; j += 2 * WIDE) {
    wide a = load(row + j) - shift, b = load(row + j + WIDE) - shift;
    lanes none_a = a < LEAST, none_b = b < LEAST;
    a = choose(none_a, all(LEAST), a);
    b = choose(none_b, all(LEAST), b);
    wide e = (wide)((lanes)exp_of(a) & ~none_a), f = (wide)((lanes)exp_of(b) & ~none_b);
    store(row + j, e);
    store(row + j + WIDE, f);
    total_a += e;
    total_b += f;
    product_a += e * a;
    product_b += f * b;
  }
  float total = sum_of(total_a + total_b), sum = sum_of(product_a + product_b);
  for (; j < keys; j++) {
    float x = row[j] - shift;
    row[j] = x < LEAST ? 0.0f : exp_of(all(x))[0];
    total += row[j];
    if (!(x < LEAST)) sum += row[j] * x;
  }
  *product = sum;
  return total;
}

static float mean_distance(const float *row, int keys, float position) {
  wide sum = all(0), at = all(-position);
  for (int i = 0; i < WIDE; i++) at[i] += i;
  int j = 0;
  for (; j + WIDE <= keys; j += WIDE, at += WIDE) sum += load(row + j) * choose(at < 0.0f, -at, at);
  float total = sum_of(sum);
  for (; j < keys; j++) total += row[j] * fabsf(j - position);
  return total;
}

static void add(float *to, const float *row, int keys, float factor) {
  int j = 0;
  for (; j + WIDE <= keys; j += WIDE) store(to + j, load(to + j) + load(row + j) * factor);
  for (; j < keys; j++) to[j] += row[j] * factor;
}

static float weight_at(const float *row, int keys, int64_t key, float inverse) {
  return key >= 0 && key < keys ? row[key] * inverse : 0.0f * inverse;
}

/* Sum the columns of the rows of one line of the map into its cells, and into what each key receives. */
static void into_cells(const Block *b, int line) {
  float *cells = b->pooled + (int64_t)line * b->cells;
  for (int c = 0; c < b->cells; c++) {
    double sum = 0;
    for (int j = b->start_of_cell[c]; j < b->start_of_cell[c + 1]; j++) sum += b->column[j];
    cells[c] += (float)sum;
  }
  if (b->received) add(b->received, b->column, b->keys, 1.0f);
  for (int j = 0; j < b->keys; j++) b->column[j] = 0.0f;
}

static void largest_into_cells(const Block *b, int line, const float *row, float inverse) {
  float *cells = b->pooled + (int64_t)line * b->cells;
  for (int c = 0; c < b->cells; c++) {
    int start = b->start_of_cell[c], keys = b->start_of_cell[c + 1] - start;
    if (keys <= 0) continue;
    float weight = (isnan(inverse) ? NAN : largest_in(row + start, keys) * inverse);
    if (!(weight <= cells[c])) cells[c] = weight;
  }
}

void regard_rows(const Block *b) {
  int sums = b->cells && !b->largest;
  if (sums) for (int j = 0; j < b->keys; j++) b->column[j] = 0.0f;
  for (int i = 0; i < b->rows; i++) {
    float *row = b->scores + i * b->stride, product;
    float *top_weights = b->top_weights + (int64_t)i * b->top;
    int64_t *top_keys = b->top_keys + (int64_t)i * b->top;
    if (b->top) strongest(row, b->keys, b->top, top_weights, top_keys);
    float shift = b->top ? top_weights[0] : largest_in(row, b->keys);
    if (b->sink > shift) shift = b->sink;
    if (shift == -INFINITY) shift = 0.0f;
    float total = exponentials(row, b->keys, shift, &product);
    float with_sink = total + (b->sink == -INFINITY ? 0.0f : expf(b->sink - shift));
    float inverse = with_sink == 0.0f ? 0.0f : 1.0f / with_sink;
    b->inverse[i] = inverse;
    b->log_sum[i] = with_sink == 0.0f ? INFINITY : shift + logf(with_sink);
    if (b->entropy) {
      float entropy = with_sink == 0.0f ? 0.0f : (logf(with_sink) * total - product) * inverse;
      b->entropy[i] = entropy < 0.0f ? 0.0f : entropy;
    }
    for (int t = 0; t < b->top; t++) {
      top_weights[t] = top_keys[t] < 0 && !isnan(inverse) ? 0.0f : row[top_keys[t] < 0 ? 0 : top_keys[t]] * inverse;
      if (top_keys[t] >= 0) top_keys[t] += b->first_key;
    }
    int64_t here = b->position + i - b->first_key; /* where the row stands among these keys */
    if (b->distance) b->distance[i] = mean_distance(row, b->keys, (float)here) * inverse;
    if (b->first) b->first[i] = weight_at(row, b->keys, -b->first_key, inverse);
    if (b->own) b->own[i] = weight_at(row, b->keys, here, inverse);
    if (b->previous) b->previous[i] = weight_at(row, b->keys, here - 1, inverse);
    if (sums) {
      add(b->column, row, b->keys, inverse);
      if (i + 1 == b->rows || b->cell_of_row[i + 1] != b->cell_of_row[i]) into_cells(b, b->cell_of_row[i]);
    } else {
      if (b->cells) largest_into_cells(b, b->cell_of_row[i], row, inverse);
      if (b->received) add(b->received, row, b->keys, inverse);
    }
  }
}
