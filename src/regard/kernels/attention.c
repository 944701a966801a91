/* Attention of one head, block by block:

       scores  s = scale * query @ key^T, with softcap, bias and mask (unless torch has computed the scores)
       weights  = softmax(s), in parts: statistics.c computes e = exp(s - m), m = the largest s so far, and the statistics
       sums     = weights @ value, and in the same way the weight on each group of keys

   The weighted sums are computed from e: each part multiplies the sums so far by exp(old m - new m) and adds its own
   e @ value; the last part divides by the sum of e (Milakov & Gimelshein 2018).

   Every thread runs regard_attention with the same arguments. A thread that has computed a block takes the next block. */

#include "attention.h"

#include <time.h>

#include "matrix.h"

static inline float *vector(Vectors vectors, int64_t batch, int64_t head, int64_t token) {
  return vectors.numbers + batch * vectors.batch + head * vectors.head + token * vectors.token;
}

/* Return how many queries the next matrix product takes of the `rows` that are left: ROWS, or 1 if fewer are left. */
static inline int rows_at_once(int rows) { return rows >= ROWS ? ROWS : 1; }

/* A range of keys, counted from the first key of a part of a block. */
typedef struct {
  int start, stop;
} KeyRange;

/* Return the smallest range of keys, in part number `part` of a block, that contains all keys to which any of the
   queries i to i + rows - 1 of the block may attend. */
static inline KeyRange key_range(const QueryBlock *b, int part, int i, int rows) {
  int keys = n_keys_of(b, part);
  if (!b->starts) return (KeyRange){0, keys};
  KeyRange range = {keys, 0};
  for (int r = 0; r < rows; r++) {
    Row row = row_of(b, part, i + r);
    int start = (int)(row.first_key - first_key_of(b, part));
    if (row.keys == 0) continue;
    if (start < range.start) range.start = start;
    if (start + row.keys > range.stop) range.stop = start + row.keys;
  }
  return range.stop ? range : (KeyRange){0, 0};
}

/* Write scale * query @ key^T for the queries of a block and the keys of a part, ROWS queries and PANEL keys at a time.
   Where none of these queries may attend to any of these keys, nothing is written. */
static void compute_products(const Arguments *p, BlockBounds at, const QueryBlock *b, int part, float *panel) {
  int keys = n_keys_of(b, part);
  const float *query = vector(p->query, at.batch, at.head, at.first_query);
  const float *key = vector(p->key, at.batch, at.head / p->group, first_key_of(b, part));
  for (int j = 0; j < keys; j += PANEL) {
    int n = keys - j < PANEL ? keys - j : PANEL;
    pack_panel(key + j * p->key.token, p->key.token, n, p->d_key, panel);
    for (int i = 0, rows; i < b->rows; i += rows) {
      rows = rows_at_once(b->rows - i);
      KeyRange range = key_range(b, part, i, rows);
      if (range.stop <= j || range.start >= j + n) continue;
      const float *left = query + i * p->query.token;
      float *out = scores_of(b, part, i) + j;
      if (rows == ROWS)
        scaled_product(ROWS, left, p->query.token, panel, p->d_key, p->scale, out, keys, n);
      else
        scaled_product(1, left, p->query.token, panel, p->d_key, p->scale, out, keys, n);
    }
  }
}

/* Apply softcap, bias and mask, in this order, to the scores `row` of query i of a block. */
static void modify_scores(const Arguments *p, BlockBounds at, Row row, int i) {
  const float *bias = 0;
  const uint8_t *mask = 0;
  if (p->bias.numbers) bias = vector(p->bias, at.batch, at.head, at.first_query + i) + row.first_key;
  if (p->computed_masks) mask = p->computed_masks + at.offset + i * at.keys + row.first_key - at.first_key;
  if (p->mask.bytes) {
    int64_t index = at.batch * p->mask.batch + at.head * p->mask.head + (at.first_query + i) * p->mask.query;
    mask = p->mask.bytes + index + row.first_key;
  }
  for (int j = 0; j < row.keys; j += WIDE) {
    int n = row.keys - j;
    wide scores = load_first(row.weights + j, n);
    if (p->softcap >= 0) scores = tanh_of(scores) * p->softcap;
    if (bias) {
      wide added = load_first(bias + j, n) * p->bias_factor;
      /* a bias of -infinity masks a key, whatever its score */
      scores = select_lanes(added == -INFINITY, added, scores + added);
    }
    if (mask) scores = select_lanes(nonzero_bytes(mask + j, n), scores, broadcast(-INFINITY));
    store_first(row.weights + j, scores, n);
  }
}

/* Call add_product (see matrix.h) with constant numbers of rows and registers, so that the compiler keeps all sums in
   registers. */
#define ADD(rows, registers)                                                                                         \
  add_product(rows, registers, left, keys, right, step, range.stop - range.start, rescale, inverse, out,             \
              sum->sums.token, n)

/* For each query of a block, add weight * vector of the keys of one part to the sum so far, PANEL columns at a time. The
   weights are exp(score - maximum so far), so the sum so far is first multiplied by exp(old maximum - new maximum). After
   the last part, it is divided by the sum of the weights, sink included. */
static void add_weighted_sum(const WeightedSum *sum, BlockBounds at, int64_t group, const QueryBlock *b, int part,
                             float *panel) {
  const Statistics *s = b->statistics;
  int keys = n_keys_of(b, part);
  const float *vectors = vector(sum->vectors, at.batch, at.head / group, first_key_of(b, part));
  for (int c = 0, n; c < sum->width; c += n) {
    n = sum->width - c < PANEL ? sum->width - c : PANEL;
    const float *columns = vectors + c;
    int64_t step = sum->vectors.token;
    int registers = (n + WIDE - 1) / WIDE;
    if (n % WIDE) { /* copy the vectors and add zeros, because a load of the last register reads past their end */
      for (int j = 0; j < keys; j++) {
        memset(panel + (int64_t)j * registers * WIDE, 0, registers * WIDE * sizeof(float));
        memcpy(panel + (int64_t)j * registers * WIDE, vectors + j * step + c, n * sizeof(float));
      }
      columns = panel, step = registers * WIDE;
    }
    for (int i = 0, rows; i < b->rows; i += rows) {
      rows = rows_at_once(b->rows - i);
      KeyRange range = key_range(b, part, i, rows);
      const float *left = scores_of(b, part, i) + range.start, *right = columns + range.start * step;
      const float *rescale = part ? b->rescale + i : 0, *inverse = 0;
      if (part + 1 == b->parts) inverse = s->inverse + b->head * s->queries + b->first_query + i;
      float *out = vector(sum->sums, at.batch, at.head, at.first_query + i) + c;
      switch (rows == ROWS ? registers : -registers) { /* the number of registers; negative for a single row */
        case 1: ADD(ROWS, 1); break;
        case 2: ADD(ROWS, 2); break;
        case -1: ADD(1, 1); break;
        case -2: ADD(1, 2); break;
#if WIDE == 16
        case 3: ADD(ROWS, 3); break;
        case 4: ADD(ROWS, 4); break;
        case -3: ADD(1, 3); break;
        case -4: ADD(1, 4); break;
#endif
      }
    }
  }
}

/* Return 1 if the weighted sum of a query of the block may be wrong: if it contains NaN or infinity, or if its first number
   is 0. (The sum is 0 if all scores of the query overflow to -infinity.) Else return 0. */
static int is_doubtful(const WeightedSum *sum, BlockBounds at) {
  for (int64_t i = 0; i < at.rows && sum->width; i++) {
    const float *numbers = vector(sum->sums, at.batch, at.head, at.first_query + i);
    wide zeros = broadcast(0); /* 0 * number is NaN if the number is NaN or infinity, else 0 */
    for (int c = 0; c < sum->width; c += WIDE) zeros += load_first(numbers + c, sum->width - c) * 0.0f;
    if (numbers[0] == 0.0f || sum_of_lanes(zeros) != 0.0f) return 1;
  }
  return 0;
}

static void compute_block(Arguments *p, BlockBounds at, float *scratch) {
  Statistics *s = &p->statistics;
  int64_t parts = at.width ? (at.keys + at.width - 1) / at.width : 0;
  QueryBlock b = {.statistics = s,
                  .rows = (int)at.rows,
                  .keys = (int)at.keys,
                  .width = (int)at.width,
                  .parts = (int)parts,
                  .head = at.batch * p->heads + at.head,
                  .first_query = at.first_query,
                  .first_key = at.first_key,
                  .sink = p->sinks ? p->sinks[at.head] : -INFINITY};
  if (p->starts) {
    int64_t limits = at.batch * p->limits_batch + at.head * p->limits_head;
    b.starts = p->starts + limits, b.stops = p->stops + limits;
  }
  /* the arrays of QueryBlock (see attention.h), one after the other; then 32 unused floats, and the panel */
  b.scores = p->scores ? p->scores + at.offset : scratch;
  b.rescale = scratch + at.rows * at.keys;
  b.total = b.rescale + at.rows;
  b.exponent_sum = b.total + at.rows;
  b.maximum = b.exponent_sum + at.rows;
  b.column_sums = b.maximum + parts * at.rows;
  b.key_sums = b.column_sums + at.width;
  b.cells = b.key_sums + at.width;
  float *panel = b.cells + (at.rows < s->map_rows ? at.rows : s->map_rows) * s->map_columns + 32;
  for (int n = 0; n < p->n_weighted_sums && !parts; n++) /* no keys, so no parts: the sums are 0 */
    for (int i = 0; i < b.rows; i++) {
      const WeightedSum *sum = p->weighted_sums + n;
      memset(vector(sum->sums, at.batch, at.head, at.first_query + i), 0, sum->width * sizeof(float));
    }
  int modified = !p->scores && (p->softcap >= 0 || p->bias.numbers || p->mask.bytes || p->computed_masks);
  for (int part = 0; part < parts; part++) {
    if (!p->scores) compute_products(p, at, &b, part, panel);
    for (int i = 0; i < b.rows && modified; i++) modify_scores(p, at, row_of(&b, part, i), i);
    compute_statistics(&b, part);
    for (int n = 0; n < p->n_weighted_sums; n++) add_weighted_sum(p->weighted_sums + n, at, p->group, &b, part, panel);
  }
  if (p->n_weighted_sums && parts && is_doubtful(p->weighted_sums, at)) __atomic_store_n(&p->doubtful, 1, __ATOMIC_RELAXED);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Compute the attention of blocks of queries that no other thread has taken, until none is left or `seconds` have passed. */
void regard_attention(Arguments *p) {
  float *scratch = p->scratch + p->scratch_size * __atomic_fetch_add(&p->threads, 1, __ATOMIC_RELAXED);
  double begun = now();
  do {
    int64_t number = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
    if (number >= p->n_blocks) return;
    compute_block(p, p->bounds[number], scratch);
    __atomic_fetch_add(&p->done, p->bounds[number].rows * p->bounds[number].keys, __ATOMIC_RELAXED);
  } while (now() - begun < p->seconds);
}
