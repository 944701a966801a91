/* Structs and functions of both attention.c and statistics.c: the structs that Python fills in (attention.py), and the block
   of queries that a thread computes. In the code, p are the arguments, b is the block, and s are the statistics.

   A block has some consecutive queries of one head, and a range of keys that contains all keys to which these queries may
   attend. Row i of a block is the row of scores of its query i. A block too large for the CPU cache is computed in parts:
   consecutive ranges of its keys, `width` keys each (fewer in the last part). */

#pragma once

#include <stdint.h>

/* Compensated sums: each sum is a rounded double plus the rounding error of that double. */
typedef struct {
  double *rounded, *error;
} CompensatedSum;

/* Which statistics to compute and where to write them; a null pointer or a size of 0 leaves a statistic out. Arrays with
   one number for each query have the axes [batch heads queries]. */
typedef struct {
  int64_t queries, keys_of_head; /* the number of queries and of keys of one head */
  int64_t offset;                /* the position of the first query among the keys */
  float *inverse; /* 1 / sum of exp(score - maximum), sink included; 0 for a query without keys and sink; required */
  float *entropy, *distance; /* the entropy in nats; the mean distance from the query to a key, in tokens */
  float *first, *own, *previous; /* the weights on key 0, on the key at the query's own position, and on the key before that */
  int32_t top;        /* how many of the strongest keys to find for each query */
  float *top_weights; /* [batch heads queries top]: the largest weights, in descending order */
  int64_t *top_keys;  /* [batch heads queries top]: their keys; -1 where a query may attend to fewer than `top` keys */
  int32_t map_rows, map_columns; /* the pooled map: the weights of a head, reduced to a matrix of this size */
  int32_t reduce_max;            /* 1: a cell of the map is the maximum of its weights; 0: their sum */
  const int32_t *map_row_of_query;    /* [queries]: the row of each query in the pooled map; null if there is no map */
  const int32_t *first_key_of_column; /* [map_columns + 1]: for each column of the map, its first key, and at the end the
                                         number of keys. Null if there is no map */
  CompensatedSum received; /* [batch heads keys]: the sum of the weights on each key */
  CompensatedSum pooled;   /* [batch heads map_rows map_columns]: the pooled map of the weights */
  char lock;               /* a spin lock: 1 while a thread adds to received and pooled */
} Statistics;

/* Vectors in memory, and the strides of the batch, head and token axes, in floats. The floats of a vector are adjacent. */
typedef struct {
  float *numbers;
  int64_t batch, head, token;
} Vectors;

/* A mask in memory, one byte for each query and key (nonzero: the query may attend to the key), and the strides of the
   batch, head and query axes, in bytes. The bytes of a query's keys are adjacent. */
typedef struct {
  const uint8_t *bytes;
  int64_t batch, head, query;
} ByteMask;

/* A weighted sum to compute: for each query, the sum over all keys of weight * vector of the key. */
typedef struct {
  Vectors vectors, sums; /* input: a vector for each key; output: a weighted sum for each query */
  int32_t width;         /* the number of floats in a vector */
} WeightedSum;

/* A block to compute: `rows` queries from `first_query` on, and `keys` keys from `first_key` on. */
typedef struct {
  int64_t batch, head, first_query, rows, first_key, keys;
  int64_t width;  /* the number of keys in a part of the block */
  int64_t offset; /* the index of the block's first number in the arrays `scores` and `computed_masks` of Arguments */
} BlockBounds;

typedef struct {
  Statistics statistics;
  const BlockBounds *bounds; /* [n_blocks]: the blocks to compute */
  int64_t n_blocks;
  Vectors query, key;
  float *scores;                 /* scores from torch, overwritten by weights; null: the kernel computes the scores */
  const uint8_t *computed_masks; /* masks computed by torch: a byte per score (nonzero: may attend); null: none */
  float scale, softcap;          /* scores: softcap * tanh(scale * query . key), or scale * query . key if softcap is below 0 */
  Vectors bias;                  /* added to the scores: for each query, a vector of its keys' biases; null: no bias */
  float bias_factor;             /* multiplies the bias */
  ByteMask mask;                 /* nonzero where a query may attend to a key; null: no mask */
  int32_t d_key, n_weighted_sums;
  WeightedSum weighted_sums[2];
  /* 1: weighted_sums[0] may be wrong because of an overflow, so Python checks it at the end (may_be_wrong in overflow.py).
     The kernel sets 1 if a sum contains NaN or infinity, or begins with 0: all scores of its query may be -infinity.
     Python sets 1 before the start if the kernel may not notice an overflow (hides_overflow in overflow.py). */
  int32_t doubtful;
  int64_t batch;        /* the number of batch items */
  int64_t heads, group; /* the number of query heads, and of query heads per key head */
  const float *sinks;   /* [heads]: one more score in each softmax, which belongs to no key; null: no sinks */
  const int32_t *starts, *stops; /* [batch heads queries]: the range of keys to which a query may attend; null: all */
  int64_t limits_batch, limits_head; /* strides of starts and stops, for the batch axis and the head axis */
  float *scratch;                    /* scratch memory: scratch_size floats for each thread */
  int64_t scratch_size;
  double seconds; /* after this many seconds, a thread begins no further block */
  int64_t threads, next, done; /* counters: threads that have begun; the next block to compute; weights computed */
} Arguments;

/* A block of queries, while a thread computes it. The arrays from `scores` on are in scratch memory one after the other,
   in this order (scores that torch has computed are elsewhere, and leave a gap). At least 32 unused floats follow the last array, because
   a load of a whole register may read past its end. */
typedef struct {
  Statistics *statistics;
  int32_t rows, keys;
  int32_t width, parts;          /* the number of keys in a part (the last part may have fewer), and the number of parts */
  int64_t head;                  /* the head's number among the heads of all batch items */
  int64_t first_query, first_key;
  float sink;                    /* the head's sink (a score that belongs to no key); -infinity: no sink */
  const int32_t *starts, *stops; /* [queries]: the range of keys to which each query of the head may attend; null: all */
  float *scores;       /* for each part, the scores [rows, keys of the part]; later exp(score - running maximum) */
  float *rescale;      /* [rows]: exp(running maximum before this part - running maximum after this part) */
  float *total;        /* [rows]: for each query, the sum of exp(score - running maximum) over the keys so far */
  float *exponent_sum; /* [rows]: the sum of x * exp(x), x = score - running maximum, from which the entropy is computed */
  float *maximum;      /* [parts rows]: the largest score of each row up to the end of each part */
  float *column_sums;  /* [width]: for each key of a part, the sum of weights over the queries of one row of the map */
  float *key_sums;     /* [width]: for each key of a part, the sum of weights over all queries of the block */
  float *cells;        /* [map rows of this block, map_columns]: the block's sums (or maxima) for the cells of the map */
} QueryBlock;

/* The scores of one query in one part of a block, without the keys that the mask hides from the query. */
typedef struct {
  float *weights; /* scores, later overwritten by exp(score - running maximum) */
  int keys;
  int64_t first_key;
} Row;

/* Replace the scores of a part of a block by exp(score - running maximum), and compute the statistics. Must be called for
   the parts of a block in order. */
__attribute__((visibility("hidden"))) void compute_statistics(const QueryBlock *b, int part);

static inline int n_keys_of(const QueryBlock *b, int part) {
  return part + 1 < b->parts ? b->width : b->keys - part * b->width;
}

/* Return the first key in part number `part` of a block, counted among all keys of the head. */
static inline int64_t first_key_of(const QueryBlock *b, int part) { return b->first_key + (int64_t)part * b->width; }

/* Return a pointer to the scores of a block's query i on the keys of part number `part`. */
static inline float *scores_of(const QueryBlock *b, int part, int i) {
  return b->scores + (int64_t)part * b->rows * b->width + (int64_t)i * n_keys_of(b, part);
}

static inline int clamped(int64_t number, int low, int high) {
  return number < low ? low : number > high ? high : (int)number;
}

/* Return the scores of query i of a block on those keys of a part to which the query may attend. */
static inline Row row_of(const QueryBlock *b, int part, int i) {
  int keys = n_keys_of(b, part), start = 0, stop = keys;
  int64_t first_key = first_key_of(b, part);
  if (b->starts) {
    start = clamped(b->starts[b->first_query + i] - first_key, 0, keys);
    stop = clamped(b->stops[b->first_query + i] - first_key, start, keys);
  }
  return (Row){scores_of(b, part, i) + start, stop - start, first_key + start};
}
