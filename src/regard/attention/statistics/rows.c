/* From rows of scores to unnormalised softmax weights and everything that is asked of them, while they are in the cache.

   The caller multiplies queries and keys, and later weights and values: there a library is at the limit of the machine.
   Between the two, each row is gone through a few times where it lies, many numbers at once:

       largest  m = max s                          (and the strongest keys, found among the scores)
       weights  e = exp(s - m), total = sum of e   (written over the scores; the weights are e / total)
       entropy      log total - sum of e (s - m) / total
       columns      sum over rows of e / total

   A score of -infinity is a key that is barred, as is one outside of the row's own range: nothing is computed there. A
   row that sees no key has weights 0. A NaN makes its whole row NaN. */

#include <float.h>
#include <sched.h>
#include <string.h>

#include "../lanes.h"

/* Numbers that others are added to, and what rounding has lost of them. */
typedef struct {
  double *rounded, *lost;
} Sum;

/* The same for all blocks. What has a number for each query lies [batch heads queries], or is null. */
typedef struct {
  int64_t queries, all_keys; /* of a head */
  int64_t offset;            /* where the first query stands among the keys */
  float *inverse;            /* 1 / total of each row, 0 for a row that sees nothing */
  float *entropy, *distance, *first, *own, *previous;
  int32_t top;
  float *top_weights; /* [batch heads queries top] */
  int64_t *top_keys;
  int32_t lines, cells; /* rows and columns of a map, 0 for none */
  int32_t largest;      /* whether a cell holds its largest weight, or their sum */
  const int32_t *line_of_query; /* [queries] */
  const int32_t *start_of_cell; /* [cells + 1] */
  Sum received; /* [batch heads keys], or null */
  Sum pooled;   /* [batch heads lines cells] */
  char *taken;  /* whether a thread is adding to the sums */
} Call;

typedef struct {
  const Call *of;
  int32_t rows, keys;
  int64_t head;              /* its number among those of all batch items */
  int64_t query, first_key;  /* the numbers of its first row and of the first of its keys */
  float sink;                /* one more score, which takes weight and is no key; -infinity for none */
  const int32_t *starts, *stops; /* [queries], each row's range among all keys, or null */
  /* Memory for use here, one piece after the other, and 32 numbers more behind them. */
  float *scores;   /* [rows keys], with weights e when done */
  float *column;   /* [keys]: the sum over the rows of one line of the map */
  float *of_keys;  /* [keys]: the sum over all rows */
  float *of_cells; /* [lines of these rows, cells] */
} Block;

/* The keys that a row may see. */
typedef struct {
  float *weights; /* at first the scores */
  int keys;
  int64_t first_key;
} Row;

static inline int within(int64_t number, int least, int most) {
  return number < least ? least : number > most ? most : (int)number;
}

/* The largest numbers of a row, one for each of 2 WIDE classes of places: every so many-th is of one */
static void largest_by_class(const float *row, int keys, wide *evens, wide *odds) {
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
  largest_by_class(row, keys, &a, &b);
  return largest_of(choose(b > a, b, a));
}

/* A number that at least `top` of a row's reach, as large a one as is cheap to have; -infinity for none. */
static float reached_by(const float *row, int keys, int top) {
  wide a, b, least = all(INFINITY);
  if (top > 2 * WIDE) return -INFINITY;
  largest_by_class(row, keys, &a, &b);
  lanes above_a = {}, above_b = {}; /* how many of them are larger, less than nothing */
  for (int i = 0; i < WIDE; i++) {
    above_a += (lanes)(a < a[i]) + (lanes)(a < b[i]);
    above_b += (lanes)(b < a[i]) + (lanes)(b < b[i]);
  }
  least = choose(above_a > -top, a, least);
  least = choose((b < least) & (above_b > -top), b, least);
  return -largest_of(-least);
}

/* The strongest keys of a row by their scores, strongest first; -1 where the row has fewer that are not barred. */
static void strongest(const float *row, int keys, int top, float *scores, int64_t *numbers) {
  float reached = reached_by(row, keys, top); /* below it by more than a subnormal, which may count as 0 */
  float below = fminf(nextafterf(reached, -INFINITY), reached - FLT_MIN);
  for (int i = 0; i < top; i++) scores[i] = below, numbers[i] = -1;
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

static float weight_on(Row row, int64_t key, float inverse) {
  int64_t j = key - row.first_key;
  return (j >= 0 && j < row.keys ? row.weights[j] : 0.0f) * inverse;
}

static inline double sum_in(const float *numbers, int n) {
  double sums[4] = {0}; /* side by side: each waits for itself */
  int j = 0;
  for (; j + 4 <= n; j += 4)
    for (int i = 0; i < 4; i++) sums[i] += numbers[j + i];
  for (; j < n; j++) sums[0] += numbers[j];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/* Sum the columns of the rows of one line of the map into its cells, and into what each key receives. */
static void into_cells(const Block *b, int line) {
  float *cells = b->of_cells + (int64_t)line * b->of->cells;
  for (int c = 0; c < b->of->cells; c++) {
    int start = within(b->of->start_of_cell[c] - b->first_key, 0, b->keys);
    int stop = within(b->of->start_of_cell[c + 1] - b->first_key, 0, b->keys);
    cells[c] += (float)sum_in(b->column + start, stop - start);
  }
  if (b->of->received.rounded) add(b->of_keys, b->column, b->keys, 1.0f);
  memset(b->column, 0, b->keys * sizeof(float));
}

static inline double larger_or_nan(double a, double b) { return a > b || isnan(a) ? a : b; }

static void largest_into_cells(const Block *b, int line, Row row, float inverse) {
  float *cells = b->of_cells + (int64_t)line * b->of->cells;
  for (int c = 0; c < b->of->cells; c++) {
    int start = within(b->of->start_of_cell[c] - row.first_key, 0, row.keys);
    int keys = within(b->of->start_of_cell[c + 1] - row.first_key, 0, row.keys) - start;
    if (keys == 0) continue;
    float weight = (isnan(inverse) ? NAN : largest_in(row.weights + start, keys) * inverse);
    cells[c] = larger_or_nan(weight, cells[c]);
  }
}

/* Twice the digits of a double (Knuth 1997, section 4.2.2, theorem B): so the order of what is added does not matter. */
static void add_to(Sum sum, int64_t at, const float *more, int64_t n) {
  double *rounded = sum.rounded + at, *lost = sum.lost + at;
  for (int64_t j = 0; j < n; j++) {
    double total = rounded[j] + more[j], added = total - rounded[j];
    lost[j] += (rounded[j] - (total - added)) + (more[j] - added);
    rounded[j] = total;
  }
}

static void raise_to(Sum sum, int64_t at, const float *least, int64_t n) {
  for (int64_t j = 0; j < n; j++) sum.rounded[at + j] = larger_or_nan(least[j], sum.rounded[at + j]);
}

/* Add what the block gives to keys and cells to the sums, one thread at a time. */
static void into_sums(const Block *b) {
  if (!b->of->received.rounded && !b->of->cells) return;
  while (__atomic_test_and_set(b->of->taken, __ATOMIC_ACQUIRE)) sched_yield();
  if (b->of->received.rounded) add_to(b->of->received, b->head * b->of->all_keys + b->first_key, b->of_keys, b->keys);
  if (b->of->cells) {
    int64_t first = b->of->line_of_query[b->query], last = b->of->line_of_query[b->query + b->rows - 1];
    (b->of->largest ? raise_to : add_to)(
        b->of->pooled, (b->head * b->of->lines + first) * b->of->cells, b->of_cells, (last - first + 1) * b->of->cells);
  }
  __atomic_clear(b->of->taken, __ATOMIC_RELEASE);
}

/* The part of a row of the block that its range leaves it; the rest becomes 0. */
static Row row_of(const Block *b, int i) {
  float *whole = b->scores + (int64_t)i * b->keys;
  if (!b->starts) return (Row){whole, b->keys, b->first_key};
  int start = within(b->starts[b->query + i] - b->first_key, 0, b->keys);
  int stop = within(b->stops[b->query + i] - b->first_key, start, b->keys);
  memset(whole, 0, start * sizeof(float));
  memset(whole + stop, 0, (b->keys - stop) * sizeof(float));
  return (Row){whole + start, stop - start, b->first_key + start};
}

/* From scores to weights e, with what belongs to the row; gives 1 / total. */
static float softmax(const Block *b, int i, Row row) {
  int64_t at = b->head * b->of->queries + b->query + i;
  float product, *top_weights = b->of->top_weights + at * b->of->top;
  int64_t *top_keys = b->of->top_keys + at * b->of->top;
  if (b->of->top) strongest(row.weights, row.keys, b->of->top, top_weights, top_keys);
  float shift = b->of->top ? top_weights[0] : largest_in(row.weights, row.keys);
  if (b->sink > shift) shift = b->sink;
  if (shift == -INFINITY) shift = 0.0f;
  float total = exponentials(row.weights, row.keys, shift, &product);
  float with_sink = total + (b->sink == -INFINITY ? 0.0f : expf(b->sink - shift));
  float inverse = with_sink == 0.0f ? 0.0f : 1.0f / with_sink;
  b->of->inverse[at] = inverse;
  if (b->of->entropy) {
    float entropy = with_sink == 0.0f ? 0.0f : (logf(with_sink) * total - product) * inverse;
    b->of->entropy[at] = entropy < 0.0f ? 0.0f : entropy;
  }
  for (int t = 0; t < b->of->top; t++) {
    int none = top_keys[t] < 0;
    top_weights[t] = none && !isnan(inverse) ? 0.0f : none ? NAN : row.weights[top_keys[t]] * inverse;
    if (!none) top_keys[t] += row.first_key;
  }
  int64_t here = b->of->offset + b->query + i; /* where the row stands among all keys */
  if (b->of->distance) b->of->distance[at] = mean_distance(row, here) * inverse;
  if (b->of->first) b->of->first[at] = weight_on(row, 0, inverse);
  if (b->of->own) b->of->own[at] = weight_on(row, here, inverse);
  if (b->of->previous) b->of->previous[at] = weight_on(row, here - 1, inverse);
  return inverse;
}

/* The block of so many rows and keys that begins at a query and a key of a head; its scores are there. */
void regard_rows(const Call *of, int32_t rows, int32_t keys, int64_t head, int64_t query, int64_t first_key, float sink,
                 const int32_t *starts, const int32_t *stops, float *scores) {
  float *column = scores + (int64_t)rows * keys, *of_keys = column + keys, *of_cells = of_keys + keys;
  const Block block = {of, rows, keys, head, query, first_key, sink, starts, stops, scores, column, of_keys, of_cells};
  const Block *b = &block;
  const int32_t *line_of = b->of->line_of_query + b->query;
  int sums = b->of->cells && !b->of->largest;
  memset(b->column, 0, b->keys * sizeof(float));
  memset(b->of_keys, 0, b->keys * sizeof(float));
  if (b->of->cells) memset(b->of_cells, 0, (line_of[b->rows - 1] - line_of[0] + 1) * b->of->cells * sizeof(float));
  for (int i = 0; i < b->rows; i++) {
    Row row = row_of(b, i);
    float inverse = softmax(b, i, row);
    int64_t start = row.first_key - b->first_key;
    int line = b->of->cells ? line_of[i] - line_of[0] : 0;
    if (sums) {
      add(b->column + start, row.weights, row.keys, inverse);
      if (i + 1 == b->rows || line_of[i + 1] != line_of[i]) into_cells(b, line);
    } else {
      if (b->of->cells) largest_into_cells(b, line, row, inverse);
      if (b->of->received.rounded) add(b->of_keys + start, row.weights, row.keys, inverse);
    }
  }
  into_sums(b);
}
