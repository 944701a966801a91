/* Compute unnormalised softmax weights and statistics from rows of scores, while the rows are in the CPU cache. The
   statistics are described in attention.h.

   A row has the scores s of one query. Each row is read a few times, many numbers at once in vector registers:

       maximum  m = max s                          (and the strongest keys, found among the scores)
       weights  e = exp(s - m), total = sum of e   (written over the scores; the softmax weights are e / total)
       entropy      log total - sum of e (s - m) / total
       columns  sum over rows of e / total         (the attention that each key receives, and a coarser map of all weights)

   A row too long for the CPU cache comes in parts (consecutive ranges of its keys), from the first keys to the last. m is
   the running maximum. When m grows from one part to the next, the sums so far are multiplied by exp(m before - m). After
   the last part, the total of the row is known, and the earlier parts are read once more for the columns (Milakov &
   Gimelshein 2018).

   A key with score -infinity or outside of the row's key range is masked: its weight is 0. A row in which all keys are
   masked has weights 0. One NaN makes its whole row NaN. */

#include "attention.h"

#include <float.h>
#include <sched.h>
#include <string.h>

#include "lanes.h"

/* Divide the scores of a row into 2 WIDE classes (key j belongs to class j modulo 2 WIDE), and write the maximum of each
   class. */
static void class_maxima(const float *row, int keys, wide *first_half, wide *second_half) {
  wide a = broadcast(-INFINITY), b = a;
  int j = 0;
  for (; j + 2 * WIDE <= keys; j += 2 * WIDE) {
    wide x = load(row + j), y = load(row + j + WIDE);
    a = select_lanes(x > a, x, a);
    b = select_lanes(y > b, y, b);
  }
  wide x = load(row + j), y = load(row + j + WIDE);
  *first_half = select_lanes((x > a) & first_lanes(keys - j), x, a);
  *second_half = select_lanes((y > b) & first_lanes(keys - j - WIDE), y, b);
}

static float row_maximum(const float *row, int keys) {
  wide a, b;
  class_maxima(row, keys, &a, &b);
  return maximum_of_lanes(select_lanes(b > a, b, a));
}

/* Return a number that at least `top` scores of a row reach: the top-th largest of the 2 WIDE maxima that class_maxima
   finds, or -infinity if `top` is above 2 WIDE. */
static float score_reached_by(const float *row, int keys, int top) {
  wide a, b, reached = broadcast(INFINITY);
  if (top > 2 * WIDE) return -INFINITY;
  class_maxima(row, keys, &a, &b);
  /* above_a[i]: minus the number of maxima (in a and b) that are larger than a[i], since a true comparison gives -1 */
  lanes above_a = {}, above_b = {};
  for (int i = 0; i < WIDE; i++) {
    above_a += (lanes)(a < a[i]) + (lanes)(a < b[i]);
    above_b += (lanes)(b < a[i]) + (lanes)(b < b[i]);
  }
  /* the top-th largest maximum is the smallest maximum for which fewer than `top` maxima are larger */
  reached = select_lanes(above_a > -top, a, reached);
  reached = select_lanes((b < reached) & (above_b > -top), b, reached);
  return -maximum_of_lanes(-reached);
}

/* Read the scores of a query's next keys (`row`), and update `scores` (the `top` largest scores so far, in descending
   order) and `top_keys` (the indices of their keys; -1: no key). */
static void update_top_keys(Row row, int top, int is_first_part, float *scores, int64_t *top_keys) {
  if (is_first_part) {
    float reached = score_reached_by(row.weights, row.keys, top);
    /* a score equal to `reached` must be above `below`; the processor may take a step of less than FLT_MIN as 0 */
    float below = fminf(nextafterf(reached, -INFINITY), reached - FLT_MIN);
    for (int i = 0; i < top; i++) scores[i] = below, top_keys[i] = -1;
  }
  int j = 0;
  while (j < row.keys) {
    if (j + WIDE <= row.keys) { /* WIDE scores are left: skip them if none is above scores[top - 1] */
      lanes above = load(row.weights + j) > scores[top - 1];
      int64_t any = 0;
      for (int i = 0; i < WIDE / 2; i++) any |= ((int64_t __attribute__((vector_size(4 * WIDE))))above)[i];
      if (!any) {
        j += WIDE;
        continue;
      }
    }
    int end = j + WIDE < row.keys ? j + WIDE : row.keys;
    for (; j < end; j++) {
      float score = row.weights[j];
      if (!(score > scores[top - 1])) continue;
      int at = top - 1;
      for (; at > 0 && score > scores[at - 1]; at--) scores[at] = scores[at - 1], top_keys[at] = top_keys[at - 1];
      scores[at] = score, top_keys[at] = row.first_key + j;
    }
  }
}

/* Replace the scores in the lanes `inside` by e = exp(s - m); add e to total, and e * (s - m) to exponent_sum. */
static inline void exponential(float *row, lanes inside, float m, wide *total, wide *exponent_sum) {
  wide scores = load(row), x = scores - m;
  lanes zero = (x < SMALLEST_EXPONENT) | ~inside;
  x = select_lanes(zero, broadcast(SMALLEST_EXPONENT), x);
  wide e = (wide)((lanes)exp_of(x) & ~zero);
  store(row, select_lanes(inside, e, scores));
  *total += e;
  *exponent_sum += e * x;
}

/* Replace a row of scores s by e = exp(s - m); return the sum of e, and write the sum of e * (s - m) to exponent_sum. */
static float exponentials(float *row, int keys, float m, float *exponent_sum) {
  wide total = broadcast(0), sum = total;
  for (int j = 0; j < keys;) {
    wide part_total = broadcast(0), part_sum = part_total; /* the sums over the next MOST_TERMS keys */
    int end = keys - j < MOST_TERMS ? keys : j + MOST_TERMS;
    for (; j + WIDE <= end; j += WIDE) exponential(row + j, first_lanes(WIDE), m, &part_total, &part_sum);
    if (j < end) exponential(row + j, first_lanes(end - j), m, &part_total, &part_sum), j = end;
    total += part_total, sum += part_sum;
  }
  *exponent_sum = sum_of_lanes(sum);
  return sum_of_lanes(total);
}

/* Return the sum over the keys of `row` of row.weights * |position of the key - query_position|, in tokens. */
static float distance_sum(Row row, int64_t query_position) {
  float position = (float)(query_position - row.first_key);
  wide sum = broadcast(0), offset = broadcast(-position); /* position of each key - position of the query */
  for (int i = 0; i < WIDE; i++) offset[i] += i;
  int j = 0;
  for (; j + WIDE <= row.keys; j += WIDE, offset += WIDE)
    sum += load(row.weights + j) * select_lanes(offset < 0.0f, -offset, offset);
  wide last = select_lanes(first_lanes(row.keys - j), load(row.weights + j), broadcast(0));
  return sum_of_lanes(sum + last * select_lanes(offset < 0.0f, -offset, offset));
}

static void add_row(float *to, const float *row, int keys, float factor) {
  int j = 0;
  for (; j + WIDE <= keys; j += WIDE) store(to + j, load(to + j) + load(row + j) * factor);
  if (j == keys) return;
  wide before = load(to + j);
  store(to + j, select_lanes(first_lanes(keys - j), before + load(row + j) * factor, before));
}

/* Return the sum of n numbers in float64; four independent sums run faster than one. */
static inline double sum_in(const float *numbers, int n) {
  double sums[4] = {0};
  int j = 0;
  for (; j + 4 <= n; j += 4)
    for (int i = 0; i < 4; i++) sums[i] += numbers[j + i];
  for (; j < n; j++) sums[0] += numbers[j];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

static inline int column_of(const Statistics *s, int64_t key) { return (int)(key * s->map_columns / s->keys_of_head); }

/* Add column_sums to row map_row of the pooled map (a small matrix of sums) and to key_sums. Then set column_sums to 0.
   column_sums: for each key, the sum of the weights of the queries that belong to this row of the map. */
static void add_columns_to_cells(const QueryBlock *b, int part, int map_row) {
  const Statistics *s = b->statistics;
  float *cells = b->cells + (int64_t)map_row * s->map_columns;
  int keys = n_keys_of(b, part);
  int64_t first_key = first_key_of(b, part), last = column_of(s, first_key + keys - 1);
  for (int c = column_of(s, first_key); c <= last; c++) {
    int start = clamped(s->first_key_of_column[c] - first_key, 0, keys);
    int stop = clamped(s->first_key_of_column[c + 1] - first_key, 0, keys);
    cells[c] += (float)sum_in(b->column_sums + start, stop - start);
  }
  if (s->received.rounded) add_row(b->key_sums, b->column_sums, keys, 1.0f);
  memset(b->column_sums, 0, keys * sizeof(float));
}

static inline double maximum_or_nan(double a, double b) { return a > b || isnan(a) ? a : b; }

/* In row map_row of the pooled map (a small matrix of maxima), raise each cell to the query's largest weight on the cell's
   keys; NaN replaces any number. The query's weights are row.weights * factor. */
static void raise_cells(const QueryBlock *b, int map_row, Row row, float factor) {
  const Statistics *s = b->statistics;
  float *cells = b->cells + (int64_t)map_row * s->map_columns;
  int last = row.keys > 0 ? column_of(s, row.first_key + row.keys - 1) : -1;
  for (int c = column_of(s, row.first_key); c <= last; c++) {
    int start = clamped(s->first_key_of_column[c] - row.first_key, 0, row.keys);
    int keys = clamped(s->first_key_of_column[c + 1] - row.first_key, 0, row.keys) - start;
    float weight = (isnan(factor) ? NAN : row_maximum(row.weights + start, keys) * factor);
    cells[c] = maximum_or_nan(weight, cells[c]);
  }
}

/* Add n numbers to compensated sums (Knuth 1997, section 4.2.2, theorem B), so that the order of additions does not
   matter. */
static void add_to_sum(CompensatedSum sum, int64_t at, const float *numbers, int64_t n) {
  double *rounded = sum.rounded + at, *error = sum.error + at;
  for (int64_t j = 0; j < n; j++) {
    double total = rounded[j] + numbers[j], added = total - rounded[j];
    error[j] += (rounded[j] - (total - added)) + (numbers[j] - added);
    rounded[j] = total;
  }
}

/* Replace each of the n maxima from sum.rounded[at] on by its number in `cells`, if this number is larger or NaN. */
static void raise_maxima(CompensatedSum sum, int64_t at, const float *cells, int64_t n) {
  for (int64_t j = 0; j < n; j++) sum.rounded[at + j] = maximum_or_nan(cells[j], sum.rounded[at + j]);
}

/* Under a spin lock, add key_sums (for each key of one part, the sum of the block's weights) to `received`. If has_cells
   is 1 (in the last call for a block), combine the block's cells of the pooled map with `pooled`, too. */
static void add_block_to_sums(const QueryBlock *b, int part, int has_cells) {
  Statistics *s = b->statistics;
  if (!s->received.rounded && !has_cells) return;
  while (__atomic_test_and_set(&s->lock, __ATOMIC_ACQUIRE)) sched_yield();
  if (s->received.rounded)
    add_to_sum(s->received, b->head * s->keys_of_head + first_key_of(b, part), b->key_sums, n_keys_of(b, part));
  if (has_cells) {
    int64_t first = s->map_row_of_query[b->first_query], last = s->map_row_of_query[b->first_query + b->rows - 1];
    (s->reduce_max ? raise_maxima : add_to_sum)(
        s->pooled, (b->head * s->map_rows + first) * s->map_columns, b->cells, (last - first + 1) * s->map_columns);
  }
  __atomic_clear(&s->lock, __ATOMIC_RELEASE);
}

/* Return the index of query i of a block in a statistic with the axes [batch heads queries]. */
static inline int64_t index_of(const QueryBlock *b, int i) { return b->head * b->statistics->queries + b->first_query + i; }

/* Return the factor from e = exp(s - m) to the softmax weights of query i, for one part (range) of the keys; m is the
   largest score up to this part. All parts must be computed before: the factor depends on the largest of all scores. */
static inline float factor_of(const QueryBlock *b, int part, int i) {
  float m = b->maximum[part * b->rows + i], row_m = b->maximum[(b->parts - 1) * b->rows + i];
  float inverse = b->statistics->inverse[index_of(b, i)];
  return m == row_m ? inverse : expf(m - row_m) * inverse;
}

/* Return the softmax weight of query i of a block on one key; 0 if the key is masked. */
static float weight_on(const QueryBlock *b, int i, int64_t key) {
  int part = clamped(key - b->first_key, 0, b->keys - 1) / b->width;
  Row row = row_of(b, part, i);
  int64_t j = key - row.first_key;
  return (j >= 0 && j < row.keys ? row.weights[j] : 0.0f) * factor_of(b, part, i);
}

/* Replace the scores of query i on one part (range) of the keys by e = exp(s - m), where m is the largest score so far, and
   by 0 where the query may not attend to the key. Update the query's strongest keys, running maximum and sums. */
static inline void softmax(const QueryBlock *b, int part, int i, Row row) {
  const Statistics *s = b->statistics;
  int64_t at = index_of(b, i) * s->top;
  if (b->starts) {
    int keys = n_keys_of(b, part);
    float *scores = scores_of(b, part, i), *end = row.weights + row.keys;
    memset(scores, 0, (row.weights - scores) * sizeof(float));
    memset(end, 0, (scores + keys - end) * sizeof(float));
  }
  if (s->top) update_top_keys(row, s->top, part == 0, s->top_weights + at, s->top_keys + at);
  float earlier = part == 0 ? b->sink : b->maximum[(part - 1) * b->rows + i];
  float m = maximum(earlier, s->top ? s->top_weights[at] : row_maximum(row.weights, row.keys));
  float exponent_sum, total = exponentials(row.weights, row.keys, m == -INFINITY ? 0.0f : m, &exponent_sum);
  if (part > 0) {
    float rescale = m == earlier ? 1.0f : expf(earlier - m), sum = b->total[i] * rescale;
    if (sum != 0.0f) exponent_sum += b->exponent_sum[i] * rescale + (earlier - m) * sum;
    total += sum;
    b->rescale[i] = rescale;
  }
  b->maximum[part * b->rows + i] = m, b->total[i] = total, b->exponent_sum[i] = exponent_sum;
}

/* Write the statistics of query i that are known only when all its keys have been read: `inverse`, `entropy`,
   `top_weights`, `first`, `own` and `previous` (see Statistics in attention.h). */
static inline void finish_row(const QueryBlock *b, int i) {
  const Statistics *s = b->statistics;
  int64_t at = index_of(b, i), position = s->offset + b->first_query + i; /* the query's position among the keys */
  float m = b->maximum[(b->parts - 1) * b->rows + i], total = b->total[i];
  float with_sink = total + (b->sink == -INFINITY ? 0.0f : expf(b->sink - m));
  float inverse = with_sink == 0.0f ? 0.0f : 1.0f / with_sink;
  s->inverse[at] = inverse;
  if (s->entropy) {
    float entropy = with_sink == 0.0f ? 0.0f : (logf(with_sink) * total - b->exponent_sum[i]) * inverse;
    s->entropy[at] = entropy < 0.0f ? 0.0f : entropy;
  }
  float *top_weights = s->top_weights + at * s->top;
  int64_t *top_keys = s->top_keys + at * s->top;
  for (int t = 0; t < s->top; t++) {
    if (top_keys[t] < 0) /* the query may attend to fewer than `top` keys, or a score is NaN */
      top_weights[t] = isnan(inverse) ? NAN : 0.0f;
    else
      top_weights[t] = weight_on(b, i, top_keys[t]);
  }
  if (s->first) s->first[at] = weight_on(b, i, 0);
  if (s->own) s->own[at] = weight_on(b, i, position);
  if (s->previous) s->previous[at] = weight_on(b, i, position - 1);
}

/* Add the weights of query i on one part (range) of the keys to three statistics: `received` (the sum of the weights on
   each key), `pooled` (a small matrix of sums or maxima) and `distance` (the query's mean distance to its keys). */
static inline void add_row_to_columns(const QueryBlock *b, int part, int i, Row row) {
  const Statistics *s = b->statistics;
  const int32_t *map_row_of = s->map_columns ? s->map_row_of_query + b->first_query : 0;
  int map_row = map_row_of ? map_row_of[i] - map_row_of[0] : 0;
  float factor = factor_of(b, part, i);
  int64_t start = row.first_key - first_key_of(b, part);
  if (s->distance) {
    int64_t at = index_of(b, i);
    float sum_of_weights = b->sink == -INFINITY ? 1.0f : b->total[i] * s->inverse[at];
    float sum = distance_sum(row, s->offset + b->first_query + i) * factor;
    s->distance[at] += sum_of_weights == 0.0f ? 0.0f : sum / sum_of_weights;
  }
  if (s->map_columns && !s->reduce_max) {
    add_row(b->column_sums + start, row.weights, row.keys, factor);
    if (i + 1 == b->rows || map_row_of[i + 1] != map_row_of[i]) add_columns_to_cells(b, part, map_row);
  } else {
    if (s->map_columns) raise_cells(b, map_row, row, factor);
    if (s->received.rounded) add_row(b->key_sums + start, row.weights, row.keys, factor);
  }
}

void compute_statistics(const QueryBlock *b, int part) {
  const Statistics *s = b->statistics;
  const int32_t *map_row_of = s->map_columns ? s->map_row_of_query + b->first_query : 0;
  int map_rows = map_row_of ? map_row_of[b->rows - 1] - map_row_of[0] + 1 : 0, last = b->parts - 1;
  if (part < last) {
    for (int i = 0; i < b->rows; i++) softmax(b, part, i, row_of(b, part, i));
    return;
  }
  memset(b->cells, 0, (int64_t)map_rows * s->map_columns * sizeof(float));
  memset(b->column_sums, 0, b->width * sizeof(float));
  memset(b->key_sums, 0, b->width * sizeof(float));
  for (int i = 0; i < b->rows; i++) {
    Row row = row_of(b, last, i);
    softmax(b, last, i, row);
    finish_row(b, i);
    add_row_to_columns(b, last, i, row);
  }
  add_block_to_sums(b, last, b->parts == 1 && map_rows);
  for (int p = 0; p < last; p++) { /* read the earlier parts again, since the total of each row is known only now */
    memset(b->key_sums, 0, b->width * sizeof(float));
    for (int i = 0; i < b->rows; i++) add_row_to_columns(b, p, i, row_of(b, p, i));
    add_block_to_sums(b, p, p + 1 == last && map_rows);
  }
}
