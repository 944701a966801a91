/* Attention in blocks: some queries of one head, and all the keys that they can reach, so many at a time as the cache
   holds.

       scores   = scale * query @ key^T     with softcap, bias and mask; unless they are there, being more than that
       weights  = softmax(scores)           with everything that is asked of them, in rows.h
       context  = weights @ value           where it is asked for, as the weight on groups of keys is

   Threads take the next compute_block as soon as they are free. */

#include <time.h>

#include "matrix.h"
#include "statistics.h"

/* Vectors as they lie: from one batch item, head and token to the next there are so many numbers. */
typedef struct {
  float *numbers;
  int64_t batch, head, token;
} Vectors;

/* Bytes as they lie, from one batch item, head and query to the next; those of the keys are side by side. */
typedef struct {
  const uint8_t *bytes;
  int64_t batch, head, query;
} ByteMask;

/* Vectors that belong to the keys, and what the weights sum of them for each query. */
typedef struct {
  Vectors keys, queries;
  int32_t width;
} WeightedSum;

/* Where a compute_block begins and ends, how many keys of it are gone through at a time, and where its scores or its mask lie
   among those that were offset. */
typedef struct {
  int64_t batch, head, query, rows, first_key, keys, width, offset;
} BlockBounds;

typedef struct {
  Statistics statistics;
  const BlockBounds *bounds;
  int64_t n_blocks;
  Vectors query, key;
  float *scores;        /* those that were offset, or null */
  const uint8_t *computed_masks; /* likewise, a byte for each weight */
  float scale, softcap; /* of the scores that are offset here; below 0 for no softcap */
  Vectors bias;         /* what is added to them for each query, a number for each key, or null */
  float bias_factor;        /* what it is multiplied by before */
  ByteMask mask;            /* whether each query sees each key, or null */
  int32_t d_key, n_weighted_sums;
  WeightedSum weighted_sums[2];
  int64_t heads, group;          /* of queries, and how many of them share a head of keys */
  const float *sinks;            /* [heads], or null */
  const int32_t *starts, *stops; /* [batch heads queries], or null */
  int64_t limits_batch, limits_head;
  float *scratch; /* for each thread a scratch_size of so many numbers */
  int64_t scratch_size;
  double seconds; /* after so many no compute_block is begun */
  int64_t threads, next, done; /* that have begun; the first place that nobody has lock; weights */
} Arguments;

static inline float *vector(Vectors of, int64_t batch, int64_t head, int64_t token) {
  return of.numbers + batch * of.batch + head * of.head + token * of.token;
}

/* How many rows are multiplied rows_at_once, where so many are left. */
static inline int rows_at_once(int rows) { return rows >= ROWS ? ROWS : 1; }

/* The keys of a part from the first to the last that one of these rows may see. */
typedef struct {
  int start, stop;
} KeyReach;

static inline KeyReach reach_of(const QueryBlock *b, int part, int i, int rows) {
  int keys = keys_of(b, part);
  if (!b->starts) return (KeyReach){0, keys};
  KeyReach reach = {keys, 0};
  for (int r = 0; r < rows; r++) {
    Row row = row_of(b, part, i + r);
    int start = (int)(row.first_key - b->first_key - (int64_t)part * b->width);
    if (row.keys == 0) continue;
    if (start < reach.start) reach.start = start;
    if (start + row.keys > reach.stop) reach.stop = start + row.keys;
  }
  return reach.stop ? reach : (KeyReach){0, 0};
}

/* The scores of a part; what no query near may see is left as it is. */
static void compute_products(const Arguments *p, BlockBounds at, const QueryBlock *b, int part, float *panel) {
  int keys = keys_of(b, part);
  const float *query = vector(p->query, at.batch, at.head, at.query);
  const float *key = vector(p->key, at.batch, at.head / p->group, at.first_key + (int64_t)part * b->width);
  float *scores = b->scores + (int64_t)part * b->rows * b->width;
  for (int j = 0; j < keys; j += PANEL) {
    int n = keys - j < PANEL ? keys - j : PANEL;
    pack_panel(key + j * p->key.token, p->key.token, n, p->d_key, panel);
    for (int i = 0, rows; i < b->rows; i += rows) {
      rows = rows_at_once(b->rows - i);
      KeyReach reach = reach_of(b, part, i, rows);
      if (reach.stop <= j || reach.start >= j + n) continue;
      const float *left = query + i * p->query.token;
      float *out = scores + (int64_t)i * keys + j;
      if (rows == ROWS)
        scaled_product(ROWS, left, p->query.token, panel, p->d_key, p->scale, out, keys, n);
      else
        scaled_product(1, left, p->query.token, panel, p->d_key, p->scale, out, keys, n);
    }
  }
}

/* What becomes of the scores of a row once they are compute_products. */
static void finish_scores(const Arguments *p, BlockBounds at, Row row, int i) {
  const float *added = 0;
  const uint8_t *mask = 0;
  if (p->bias.numbers) added = vector(p->bias, at.batch, at.head, at.query + i) + row.first_key;
  if (p->computed_masks) mask = p->computed_masks + at.offset + i * at.keys + row.first_key - at.first_key;
  if (p->mask.bytes) {
    int64_t steps = at.batch * p->mask.batch + at.head * p->mask.head + (at.query + i) * p->mask.query;
    mask = p->mask.bytes + steps + row.first_key;
  }
  for (int j = 0; j < row.keys; j += WIDE) {
    int n = row.keys - j;
    wide scores = load_first(row.weights + j, n);
    if (p->softcap >= 0) scores = tanh_of(scores) * p->softcap;
    if (added) {
      wide more = load_first(added + j, n) * p->bias_factor;
      scores = choose(more == -INFINITY, more, scores + more);
    }
    if (mask) scores = choose(nonzero_bytes(mask + j, n), scores, all(-INFINITY));
    store_first(row.weights + j, scores, n);
  }
}

#define ADD(rows, lanes)                                                                                              \
  add_product(rows, lanes, left, keys, right, step, reach.stop - reach.start, shrink, factor, out, r->queries.token, n)

/* Add what the weights of a part sum up to; after the last they are divided by their total. */
static void add_weighted_sum(const WeightedSum *r, BlockBounds at, int64_t group, const QueryBlock *b, int part, float *panel) {
  int keys = keys_of(b, part);
  const float *key = vector(r->keys, at.batch, at.head / group, at.first_key + (int64_t)part * b->width);
  for (int c = 0, n; c < r->width; c += n) {
    n = r->width - c < PANEL ? r->width - c : PANEL;
    const float *right = key + c;
    int64_t step = r->keys.token;
    int lanes = (n + WIDE - 1) / WIDE;
    if (n % WIDE) { /* a register would be filled from beyond the last vector */
      for (int j = 0; j < keys; j++) {
        memset(panel + (int64_t)j * lanes * WIDE, 0, lanes * WIDE * sizeof(float));
        memcpy(panel + (int64_t)j * lanes * WIDE, key + j * step + c, n * sizeof(float));
      }
      right = panel, step = lanes * WIDE;
    }
    const float *first = right;
    for (int i = 0, rows; i < b->rows; i += rows) {
      rows = rows_at_once(b->rows - i);
      KeyReach reach = reach_of(b, part, i, rows);
      const float *left = b->scores + (int64_t)part * b->rows * b->width + (int64_t)i * keys + reach.start;
      const float *shrink = part ? b->shrink + i : 0, *factor = 0;
      if (part + 1 == b->parts) factor = b->of->inverse + b->head * b->of->queries + b->query + i;
      float *out = vector(r->queries, at.batch, at.head, at.query + i) + c;
      right = first + reach.start * step;
      switch (rows == ROWS ? lanes : -lanes) {
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

/* One compute_block, from its compute_products to its add_weighted_sum. */
static void compute_block(const Arguments *p, BlockBounds at, float *scratch) {
  int64_t parts = at.width ? (at.keys + at.width - 1) / at.width : 0;
  QueryBlock b = {.of = &p->statistics,
             .rows = (int)at.rows,
             .keys = (int)at.keys,
             .width = (int)at.width,
             .parts = (int)parts,
             .head = at.batch * p->heads + at.head,
             .query = at.query,
             .first_key = at.first_key,
             .sink = p->sinks ? p->sinks[at.head] : -INFINITY};
  if (p->starts) {
    int64_t limits = at.batch * p->limits_batch + at.head * p->limits_head;
    b.starts = p->starts + limits, b.stops = p->stops + limits;
  }
  b.scores = p->scores ? p->scores + at.offset : scratch;
  b.shrink = scratch + (p->scores ? 0 : at.rows * at.keys), b.total = b.shrink + at.rows, b.product = b.total + at.rows;
  b.largest = b.product + at.rows, b.column = b.largest + parts * at.rows, b.key_sums = b.column + at.width;
  b.cell_sums = b.key_sums + at.width;
  float *panel = b.cell_sums + (at.rows < p->statistics.map_rows ? at.rows : p->statistics.map_rows) * p->statistics.map_columns + 32;
  for (int r = 0; r < p->n_weighted_sums && !parts; r++) /* nothing is seen */
    for (int i = 0; i < b.rows; i++)
      memset(vector(p->weighted_sums[r].queries, at.batch, at.head, at.query + i), 0, p->weighted_sums[r].width * sizeof(float));
  int more = !p->scores && (p->softcap >= 0 || p->bias.numbers || p->mask.bytes || p->computed_masks);
  for (int part = 0; part < parts; part++) {
    if (!p->scores) compute_products(p, at, &b, part, panel);
    for (int i = 0; i < b.rows && more; i++) finish_scores(p, at, row_of(&b, part, i), i);
    compute_statistics(&b, part);
    for (int r = 0; r < p->n_weighted_sums; r++) add_weighted_sum(p->weighted_sums + r, at, p->group, &b, part, panel);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

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
