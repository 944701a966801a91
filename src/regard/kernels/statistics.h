/* From rows of scores to unnormalised softmax weights and everything that is asked of them, while they are in the cache.

   Each row is gone through a few times where it lies, many numbers at once:

       largest  m = max s                          (and the update_top_keys keys, found among the scores)
       weights  e = exp(s - m), total = sum of e   (written over the scores; the weights are e / total)
       entropy      log total - sum of e (s - m) / total
       columns      sum over rows of e / total

   Rows that are too long for the cache come in parts, from the first keys to the last. The largest score so far is each
   part's m; when it grows, what was summed shrinks by exp(m before - m). After the last part each knows what its weights
   must be multiplied by, and the earlier parts are read once more, for the columns (Milakov & Gimelshein 2018).

   A score of -infinity is a key that is barred, as is one outside of the row's own range: nothing is computed there. A
   row that sees no key has weights 0. A NaN makes its whole row NaN. */

#pragma once

#include <float.h>
#include <sched.h>
#include <string.h>

#include "lanes.h"

/* Numbers that others are added to, and what rounding has error of them. */
typedef struct {
  double *rounded, *error;
} CompensatedSum;

/* The same for all blocks. What has a number for each query lies [batch heads queries], or is null. */
typedef struct {
  int64_t queries, keys_of_head; /* of a head */
  int64_t offset;            /* where the first query stands among the keys */
  float *inverse;            /* 1 / total of each row, 0 for a row that sees nothing */
  float *entropy, *distance, *first, *own, *previous;
  int32_t top;
  float *top_weights; /* [batch heads queries top] */
  int64_t *top_keys;
  int32_t map_rows, map_columns; /* rows and columns of a map, 0 for none */
  int32_t largest;      /* whether a cell holds its largest weight, or their sum */
  const int32_t *map_row_of_query; /* [queries] */
  const int32_t *first_key_of_column; /* [map_columns + 1] */
  CompensatedSum received; /* [batch heads keys], or null */
  CompensatedSum pooled;   /* [batch heads map_rows map_columns] */
  char *lock;  /* whether a thread is adding to the sums */
} Statistics;

typedef struct {
  const Statistics *of;
  int32_t rows, keys;
  int32_t width, parts;      /* the keys of a part, of which the last may have fewer, and how many parts there are */
  int64_t head;              /* its number among those of all batch items */
  int64_t query, first_key;  /* the numbers of its first row and of the first of its keys */
  float sink;                /* one more score, which takes weight and is no key; -infinity for none */
  const int32_t *starts, *stops; /* [queries], each row's range among all keys, or null */
  /* Memory for use here, one piece after the other, and 32 numbers more behind them. */
  float *scores;   /* [parts][rows keys], with weights e when done */
  float *shrink;   /* [rows]: by how much the latest part makes the sums of those before it less */
  float *total, *product; /* [rows]: the sums so far of e and of e (s - m) */
  float *largest;  /* [parts rows]: the m of each part's weights; the last of them is of the whole row */
  float *column;   /* [width]: the sum over the rows of one line of the map */
  float *key_sums;  /* [width]: the sum over all rows */
  float *cell_sums; /* [map_rows of these rows, map_columns] */
} QueryBlock;

/* The keys of a part that a row may see. */
typedef struct {
  float *weights; /* at first the scores */
  int keys;
  int64_t first_key;
} Row;

/* How many keys a part has. */
static inline int keys_of(const QueryBlock *b, int part) {
  return part + 1 < b->parts ? b->width : b->keys - part * b->width;
}

static inline int within(int64_t number, int least, int most) {
  return number < least ? least : number > most ? most : (int)number;
}

/* The largest numbers of a row, one for each of 2 WIDE classes of places: every so many-th is of one */
static void class_maxima(const float *row, int keys, wide *evens, wide *odds) {
  wide a = all(-INFINITY), b = a;
  int j = 0;
  for (; j + 2 * WIDE <= keys; j += 2 * WIDE) {
    wide x = load(row + j), y = load(row + j + WIDE);
    a = choose(x > a, x, a);
    b = choose(y > b, y, b);
  }
  wide x = load(row + j), y = load(row + j + WIDE);
  *evens = choose((x > a) & first(keys - j), x, a);
  *odds = choose((y > b) & first(keys - j - WIDE), y, b);
}

static float largest_in(const float *row, int keys) {
  wide a, b;
  class_maxima(row, keys, &a, &b);
  return largest_of(choose(b > a, b, a));
}

/* A number that at least `top` of a row's reach, as large a one as is cheap to have; -infinity for none. */
static float reached_score(const float *row, int keys, int top) {
  wide a, b, least = all(INFINITY);
  if (top > 2 * WIDE) return -INFINITY;
  class_maxima(row, keys, &a, &b);
  lanes above_a = {}, above_b = {}; /* how many of them are larger, less than nothing */
  for (int i = 0; i < WIDE; i++) {
    above_a += (lanes)(a < a[i]) + (lanes)(a < b[i]);
    above_b += (lanes)(b < a[i]) + (lanes)(b < b[i]);
  }
  least = choose(above_a > -top, a, least);
  least = choose((b < least) & (above_b > -top), b, least);
  return -largest_of(-least);
}

/* The update_top_keys keys of a row by their scores, update_top_keys first, those of its earlier parts among them; -1 where it has
   fewer that are not barred. */
static void update_top_keys(Row row, int top, int anew, float *scores, int64_t *numbers) {
  if (anew) {
    float reached = reached_score(row.weights, row.keys, top); /* below it by more than a subnormal, which may count as 0 */
    float below = fminf(nextafterf(reached, -INFINITY), reached - FLT_MIN);
    for (int i = 0; i < top; i++) scores[i] = below, numbers[i] = -1;
  }
  int j = 0;
  while (j < row.keys) {
    if (j + WIDE <= row.keys) {
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
      for (; at > 0 && score > scores[at - 1]; at--) scores[at] = scores[at - 1], numbers[at] = numbers[at - 1];
      scores[at] = score, numbers[at] = row.first_key + j;
    }
  }
}

/* Some scores to weights e = exp(s - shift); adds to their sum, and to the sum of e (s - shift). */
static inline void exponential(float *at, lanes inside, float shift, wide *total, wide *product) {
  wide scores = load(at), x = scores - shift;
  lanes none = (x < LEAST) | ~inside;
  x = choose(none, all(LEAST), x);
  wide e = (wide)((lanes)exp_of(x) & ~none);
  store(at, choose(inside, e, scores));
  *total += e;
  *product += e * x;
}

/* A row of scores to weights; gives the two sums. */
static float exponentials(float *row, int keys, float shift, float *product) {
  wide total = all(0), sum = total;
  int j = 0;
  for (; j + WIDE <= keys; j += WIDE) exponential(row + j, first(WIDE), shift, &total, &sum);
  if (j < keys) exponential(row + j, first(keys - j), shift, &total, &sum);
  *product = sum_of(sum);
  return sum_of(total);
}

static float mean_distance(Row row, int64_t here) {
  float position = (float)(here - row.first_key);
  wide sum = all(0), at = all(-position);
  for (int i = 0; i < WIDE; i++) at[i] += i;
  int j = 0;
  for (; j + WIDE <= row.keys; j += WIDE, at += WIDE) sum += load(row.weights + j) * choose(at < 0.0f, -at, at);
  wide last = choose(first(row.keys - j), load(row.weights + j), all(0));
  return sum_of(sum + last * choose(at < 0.0f, -at, at));
}

static void add(float *to, const float *row, int keys, float factor) {
  int j = 0;
  for (; j + WIDE <= keys; j += WIDE) store(to + j, load(to + j) + load(row + j) * factor);
  if (j == keys) return;
  wide before = load(to + j);
  store(to + j, choose(first(keys - j), before + load(row + j) * factor, before));
}

static inline double sum_in(const float *numbers, int n) {
  double sums[4] = {0}; /* side by side: each waits for itself */
  int j = 0;
  for (; j + 4 <= n; j += 4)
    for (int i = 0; i < 4; i++) sums[i] += numbers[j + i];
  for (; j < n; j++) sums[0] += numbers[j];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/* The column of the map that a key falls into. */
static inline int cell_of(const QueryBlock *b, int64_t key) { return (int)(key * b->of->map_columns / b->of->keys_of_head); }

/* CompensatedSum the columns of the rows of one line of the map into its map_columns, and into what each key receives. */
static void add_columns_to_cells(const QueryBlock *b, int part, int line) {
  float *map_columns = b->cell_sums + (int64_t)line * b->of->map_columns;
  int keys = keys_of(b, part);
  int64_t first_key = b->first_key + (int64_t)part * b->width, last = cell_of(b, first_key + keys - 1);
  for (int c = cell_of(b, first_key); c <= last; c++) {
    int start = within(b->of->first_key_of_column[c] - first_key, 0, keys);
    int stop = within(b->of->first_key_of_column[c + 1] - first_key, 0, keys);
    map_columns[c] += (float)sum_in(b->column + start, stop - start);
  }
  if (b->of->received.rounded) add(b->key_sums, b->column, keys, 1.0f);
  memset(b->column, 0, keys * sizeof(float));
}

static inline double larger_or_nan(double a, double b) { return a > b || isnan(a) ? a : b; }

static void raise_cells(const QueryBlock *b, int line, Row row, float factor) {
  float *map_columns = b->cell_sums + (int64_t)line * b->of->map_columns;
  int last = row.keys > 0 ? cell_of(b, row.first_key + row.keys - 1) : -1;
  for (int c = cell_of(b, row.first_key); c <= last; c++) {
    int start = within(b->of->first_key_of_column[c] - row.first_key, 0, row.keys);
    int keys = within(b->of->first_key_of_column[c + 1] - row.first_key, 0, row.keys) - start;
    float weight = (isnan(factor) ? NAN : largest_in(row.weights + start, keys) * factor);
    map_columns[c] = larger_or_nan(weight, map_columns[c]);
  }
}

/* Twice the digits of a double (Knuth 1997, section 4.2.2, theorem B): so the order of what is added does not matter. */
static void add_to_sum(CompensatedSum sum, int64_t at, const float *more, int64_t n) {
  double *rounded = sum.rounded + at, *error = sum.error + at;
  for (int64_t j = 0; j < n; j++) {
    double total = rounded[j] + more[j], added = total - rounded[j];
    error[j] += (rounded[j] - (total - added)) + (more[j] - added);
    rounded[j] = total;
  }
}

static void raise_sum(CompensatedSum sum, int64_t at, const float *least, int64_t n) {
  for (int64_t j = 0; j < n; j++) sum.rounded[at + j] = larger_or_nan(least[j], sum.rounded[at + j]);
}

/* Add what a part gives to keys to the sums, and what the block gives to map_columns after its last; one thread at a time. */
static void add_block_to_sums(const QueryBlock *b, int part, int map_columns) {
  if (!b->of->received.rounded && !map_columns) return;
  while (__atomic_test_and_set(b->of->lock, __ATOMIC_ACQUIRE)) sched_yield();
  if (b->of->received.rounded) {
    int64_t first_key = b->first_key + (int64_t)part * b->width;
    add_to_sum(b->of->received, b->head * b->of->keys_of_head + first_key, b->key_sums, keys_of(b, part));
  }
  if (map_columns) {
    int64_t first = b->of->map_row_of_query[b->query], last = b->of->map_row_of_query[b->query + b->rows - 1];
    (b->of->largest ? raise_sum : add_to_sum)(
        b->of->pooled, (b->head * b->of->map_rows + first) * b->of->map_columns, b->cell_sums, (last - first + 1) * b->of->map_columns);
  }
  __atomic_clear(b->of->lock, __ATOMIC_RELEASE);
}

/* What a row's range leaves it of a part. */
static inline Row row_of(const QueryBlock *b, int part, int i) {
  int keys = keys_of(b, part), start = 0, stop = keys;
  int64_t first_key = b->first_key + (int64_t)part * b->width;
  float *whole = b->scores + (int64_t)part * b->rows * b->width + (int64_t)i * keys;
  if (b->starts) {
    start = within(b->starts[b->query + i] - first_key, 0, keys);
    stop = within(b->stops[b->query + i] - first_key, start, keys);
  }
  return (Row){whole + start, stop - start, first_key + start};
}

/* What a part's weights e of a row are multiplied by, once all of the row is known. */
static inline float factor_of(const QueryBlock *b, int part, int i) {
  float m = b->largest[part * b->rows + i], of_row = b->largest[(b->parts - 1) * b->rows + i];
  float inverse = b->of->inverse[b->head * b->of->queries + b->query + i];
  return m == of_row ? inverse : expf(m - of_row) * inverse;
}

static float weight_on(const QueryBlock *b, int i, int64_t key) {
  int part = within(key - b->first_key, 0, b->keys - 1) / b->width;
  Row row = row_of(b, part, i);
  int64_t j = key - row.first_key;
  return (j >= 0 && j < row.keys ? row.weights[j] : 0.0f) * factor_of(b, part, i);
}

/* A part of a row from scores to weights e; what its range leaves out of it becomes 0. */
static inline void softmax(const QueryBlock *b, int part, int i, Row row) {
  int64_t at = (b->head * b->of->queries + b->query + i) * b->of->top;
  if (b->starts) {
    int keys = keys_of(b, part);
    float *whole = b->scores + (int64_t)part * b->rows * b->width + (int64_t)i * keys, *end = row.weights + row.keys;
    memset(whole, 0, (row.weights - whole) * sizeof(float));
    memset(end, 0, (whole + keys - end) * sizeof(float));
  }
  if (b->of->top) update_top_keys(row, b->of->top, part == 0, b->of->top_weights + at, b->of->top_keys + at);
  float earlier = part == 0 ? b->sink : b->largest[(part - 1) * b->rows + i];
  float m = larger(earlier, b->of->top ? b->of->top_weights[at] : largest_in(row.weights, row.keys));
  float product, total = exponentials(row.weights, row.keys, m == -INFINITY ? 0.0f : m, &product);
  if (part > 0) {
    float shrink = m == earlier ? 1.0f : expf(earlier - m), sum = b->total[i] * shrink;
    if (sum != 0.0f) product += b->product[i] * shrink + (earlier - m) * sum;
    total += sum;
    b->shrink[i] = shrink;
  }
  b->largest[part * b->rows + i] = m, b->total[i] = total, b->product[i] = product;
}

/* What belongs to a row, all of which is there. */
static inline void finish_row(const QueryBlock *b, int i) {
  int64_t at = b->head * b->of->queries + b->query + i, here = b->of->offset + b->query + i; /* among all keys */
  float m = b->largest[(b->parts - 1) * b->rows + i], total = b->total[i];
  float with_sink = total + (b->sink == -INFINITY ? 0.0f : expf(b->sink - m));
  float inverse = with_sink == 0.0f ? 0.0f : 1.0f / with_sink;
  b->of->inverse[at] = inverse;
  if (b->of->entropy) {
    float entropy = with_sink == 0.0f ? 0.0f : (logf(with_sink) * total - b->product[i]) * inverse;
    b->of->entropy[at] = entropy < 0.0f ? 0.0f : entropy;
  }
  float *top_weights = b->of->top_weights + at * b->of->top;
  int64_t *top_keys = b->of->top_keys + at * b->of->top;
  for (int t = 0; t < b->of->top; t++) {
    int none = top_keys[t] < 0;
    top_weights[t] = none && !isnan(inverse) ? 0.0f : none ? NAN : weight_on(b, i, top_keys[t]);
  }
  if (b->of->first) b->of->first[at] = weight_on(b, i, 0);
  if (b->of->own) b->of->own[at] = weight_on(b, i, here);
  if (b->of->previous) b->of->previous[at] = weight_on(b, i, here - 1);
}

/* What a part of a row gives to keys and map_columns, and to its mean distance. */
static inline void add_row_to_columns(const QueryBlock *b, int part, int i, Row row) {
  const int32_t *map_row_of = b->of->map_row_of_query + b->query;
  int64_t at = b->head * b->of->queries + b->query + i, here = b->of->offset + b->query + i;
  int line = b->of->map_columns ? map_row_of[i] - map_row_of[0] : 0;
  float factor = factor_of(b, part, i);
  int64_t start = row.first_key - b->first_key - (int64_t)part * b->width;
  if (b->of->distance) b->of->distance[at] += mean_distance(row, here) * factor;
  if (b->of->map_columns && !b->of->largest) {
    add(b->column + start, row.weights, row.keys, factor);
    if (i + 1 == b->rows || map_row_of[i + 1] != map_row_of[i]) add_columns_to_cells(b, part, line);
  } else {
    if (b->of->map_columns) raise_cells(b, line, row, factor);
    if (b->of->received.rounded) add(b->key_sums + start, row.weights, row.keys, factor);
  }
}

/* A part of a block, whose scores are there, from scores to weights. Parts come one after the other, the memory as the one
   before has left it. */
static void compute_statistics(const QueryBlock *b, int part) {
  const int32_t *map_row_of = b->of->map_row_of_query + b->query;
  int map_rows = b->of->map_columns ? map_row_of[b->rows - 1] - map_row_of[0] + 1 : 0, last = b->parts - 1;
  if (part < last) {
    for (int i = 0; i < b->rows; i++) softmax(b, part, i, row_of(b, part, i));
    return;
  }
  memset(b->cell_sums, 0, (int64_t)map_rows * b->of->map_columns * sizeof(float));
  memset(b->column, 0, b->width * sizeof(float));
  memset(b->key_sums, 0, b->width * sizeof(float));
  for (int i = 0; i < b->rows; i++) {
    Row row = row_of(b, last, i);
    softmax(b, last, i, row);
    finish_row(b, i);
    add_row_to_columns(b, last, i, row);
  }
  add_block_to_sums(b, last, b->parts == 1 && map_rows);
  for (int p = 0; p < last; p++) {
    memset(b->key_sums, 0, b->width * sizeof(float));
    for (int i = 0; i < b->rows; i++) add_row_to_columns(b, p, i, row_of(b, p, i));
    add_block_to_sums(b, p, p + 1 == last && map_rows);
  }
}
