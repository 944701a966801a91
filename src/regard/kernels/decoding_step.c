/* The newest token of each row, through all blocks of a decoder that reads a source.

   A row needs no other for it, only keys and values that are there already. So a thread takes some rows through the
   whole decoder: no thread waits for another, and what is between two operations stays in its cache. */

#include "product.h"

enum { RELU, GELU, GELU_TANH, SWISH, MISH, SQUARED_RELU, TANH, SIGMOID, UNCHANGED };

typedef struct {
  const float *weight, *bias;
  float eps;
} Norm;

typedef struct {
  Projection query, key, value, own_output; /* what a token reads from those before it and itself */
  Projection source_query, source_output;   /* and from the source */
  Projection widen, narrow;
  Norm own_norm, source_norm, feed_forward_norm;
} Block;

/* Where the vectors of a block's tokens lie: of a place, a head, a token, so many numbers behind the first. */
typedef struct {
  const float *numbers;
  int64_t place, head, token;
} Vectors;

typedef struct {
  const Block *decoder;
  int64_t blocks, d_model, heads, key_heads, d_head;
  int64_t activation, gated, norm_before;
  Norm norm; /* of what comes out of the last block; null = there is none */

  int64_t rows, tokens; /* tokens that a row has, the newest counted */
  float *room;          /* [rows, blocks, 2, key_heads, most tokens, d_head] */
  int64_t room_tokens;
  const int64_t *places; /* in which row of the room each token of each row lies */
  int64_t places_row, places_token;
  const Vectors *source_keys, *source_values; /* [blocks] */
  int64_t source_tokens;                      /* of the longest source */
  const int64_t *sources, *lengths;           /* which source each row reads, and how many tokens it has; or null */
  const float *cosines, *sines;               /* of the newest token's position; null = nothing is turned */
  int64_t pairs, pair_first, pair_second;     /* how many are turned, and from one to the next, and to its second */

  float *x;     /* [rows, d_model]: the tokens' vectors, and what becomes of them */
  float *queries; /* [blocks, rows, heads, d_head]: the queries to the source */
  float *scratch;
  int64_t scratch_numbers;        /* of a thread */
  int64_t at_once, next, threads; /* rows that a thread takes, the first nobody has taken, threads that have begun */
} Call;

/* A thread's scratch, for as many rows as it takes at once. */
typedef struct {
  float *normed, *made, *query, *key, *value, *context, *hidden, *scores;
} Scratch;

static void norm(Norm by, const float *x, int64_t d, int64_t rows, float *out) {
  for (; rows; rows--, x += d, out += d) {
    wide sum = all(0), squares = all(0);
    for (int64_t i = 0; i < d; i += WIDE) sum += load(x + i);
    float mean = sum_of(sum) / d;
    for (int64_t i = 0; i < d; i += WIDE) {
      wide off = load(x + i) - mean;
      squares += off * off;
    }
    float scale = 1 / sqrtf(sum_of(squares) / d + by.eps);
    for (int64_t i = 0; i < d; i += WIDE)
      store(out + i, (load(x + i) - mean) * scale * load(by.weight + i) + load(by.bias + i));
  }
}

/* What a sublayer reads of x. */
static const float *enter(const Call *c, Norm by, const float *x, int64_t rows, float *normed) {
  if (!c->norm_before) return x;
  norm(by, x, c->d_model, rows, normed);
  return normed;
}

/* x and what a sublayer made of it, together. */
static void leave(const Call *c, Norm by, float *x, const float *made, int64_t rows) {
  for (int64_t i = 0; i < rows * c->d_model; i += WIDE) store(x + i, load(x + i) + load(made + i));
  if (!c->norm_before) norm(by, x, c->d_model, rows, x);
}

static void apply(const Projection *of, const float *x, int64_t rows, float *out) {
  project(of, x, rows, 0, of->n_out, out);
}

static float bent(int64_t activation, float x) {
  switch (activation) {
    case RELU: return x < 0 ? 0 : x;
    case GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case SWISH: return x / (1 + expf(-x));
    case MISH: return x * tanhf(log1pf(expf(x)));
    case SQUARED_RELU: return x < 0 ? 0 : x * x;
    case TANH: return tanhf(x);
    case SIGMOID: return 1 / (1 + expf(-x));
    default: return x;
  }
}

/* The hidden numbers of each row, in place; a gated row has its gates behind them, and they come together. */
static void bend(const Call *c, float *hidden, int64_t rows, int64_t d_hidden, int64_t d_ff) {
  if (!c->gated && c->activation == RELU)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = bent(RELU, hidden[i]);
  else if (!c->gated)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = bent(c->activation, hidden[i]);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < d_ff; i++)
        hidden[r * d_ff + i] = hidden[r * d_hidden + i] * bent(c->activation, hidden[r * d_hidden + d_ff + i]);
}

/* Turn pairs of each head's numbers to the newest token's position. */
static void turn(const Call *c, float *vectors, int64_t heads) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < c->pairs; p++) {
      float *first = vectors + h * c->d_head + p * c->pair_first, *second = first + c->pair_second;
      float a = *first, b = *second;
      *first = a * c->cosines[p] - b * c->sines[p];
      *second = b * c->cosines[p] + a * c->sines[p];
    }
}

/* Scores to weights e; gives 1 / their sum, 0 where there are no tokens. */
static float softmax(float *scores, int64_t tokens) {
  wide largest = all(-INFINITY), total = all(0);
  for (int64_t t = tokens; t % WIDE; t++) scores[t] = -INFINITY;
  for (int64_t t = 0; t < tokens; t += WIDE) {
    wide s = load(scores + t);
    largest = choose(s > largest, s, largest);
  }
  float shift = largest_of(largest);
  for (int64_t t = 0; t < tokens; t += WIDE) {
    wide e = exp_or_0_of(load(scores + t) - shift);
    store(scores + t, e);
    total += e;
  }
  return tokens ? 1 / sum_of(total) : 0.0f;
}

/* What a query of one head reads from tokens, each of which lies in a place of its own.

       scores   s_t = query . key_t / sqrt(d_head)
       weights  e_t = exp(s_t - max s)
       context      = sum of e_t value_t / sum of e_t */
static void look(const Call *c, const float *query, Vectors key, Vectors value, int64_t head, const int64_t *places,
                 int64_t step, int64_t tokens, float *scores, float *context) {
  int64_t d = c->d_head, t = 0;
  float scale = 1 / sqrtf(d);
  const float *keys = key.numbers + head * key.head, *values = value.numbers + head * value.head;
  for (; t + 4 <= tokens; t += 4) {
    wide sums[4] = {all(0), all(0), all(0), all(0)};
    for (int64_t i = 0; i < d; i += WIDE)
      for (int64_t k = 0; k < 4; k++)
        sums[k] += load(query + i) * load(keys + places[(t + k) * step] * key.place + (t + k) * key.token + i);
    *(any_four *)(scores + t) = sums_of(sums[0], sums[1], sums[2], sums[3]) * scale;
  }
  for (; t < tokens; t++) scores[t] = product(query, keys + places[t * step] * key.place + t * key.token, d) * scale;
  float inverse = softmax(scores, tokens);
  for (int64_t i = 0; i < d; i += 2 * WIDE) { /* two sums side by side: each waits for itself */
    int64_t second = i + WIDE < d ? WIDE : 0;
    wide a = all(0), b = a;
    for (t = 0; t < tokens; t++) {
      const float *v = values + places[t * step] * value.place + t * value.token + i;
      a += load(v) * scores[t];
      b += load(v + second) * scores[t];
    }
    store(context + i, a * inverse);
    store(context + i + second, b * inverse);
  }
}

/* Write the newest key and value of a row where they belong. */
static void remember(const Call *c, int64_t row, int64_t block, const float *key, const float *value) {
  int64_t head = c->room_tokens * c->d_head;
  float *keys = c->room + ((row * c->blocks + block) * 2 * c->key_heads) * head + (c->tokens - 1) * c->d_head;
  float *values = keys + c->key_heads * head;
  for (int64_t h = 0; h < c->key_heads; h++)
    for (int64_t i = 0; i < c->d_head; i += WIDE) {
      store(keys + h * head + i, load(key + h * c->d_head + i));
      store(values + h * head + i, load(value + h * c->d_head + i));
    }
}

static void read_past(const Call *c, int64_t start, int64_t rows, int64_t block, Scratch s) {
  int64_t d = c->heads * c->d_head, d_key = c->key_heads * c->d_head, head = c->room_tokens * c->d_head;
  const float *numbers = c->room + block * 2 * c->key_heads * head;
  Vectors key = {numbers, c->blocks * 2 * c->key_heads * head, head, c->d_head}, value = key;
  value.numbers += c->key_heads * head;
  for (int64_t r = 0; r < rows; r++) {
    if (c->cosines) turn(c, s.query + r * d, c->heads), turn(c, s.key + r * d_key, c->key_heads);
    remember(c, start + r, block, s.key + r * d_key, s.value + r * d_key);
    for (int64_t h = 0; h < c->heads; h++)
      look(c, s.query + r * d + h * c->d_head, key, value, h * c->key_heads / c->heads,
           c->places + (start + r) * c->places_row, c->places_token, c->tokens, s.scores,
           s.context + r * d + h * c->d_head);
  }
}

static void read_source(const Call *c, int64_t start, int64_t rows, int64_t block, const float *query, Scratch s) {
  int64_t d = c->heads * c->d_head;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < c->heads; h++)
      look(c, query + r * d + h * c->d_head, c->source_keys[block], c->source_values[block],
           h * c->key_heads / c->heads, c->sources + start + r, 0,
           c->lengths ? c->lengths[start + r] : c->source_tokens, s.scores, s.context + r * d + h * c->d_head);
}

static void go_through(const Call *c, int64_t start, int64_t rows, Scratch s) {
  float *x = c->x + start * c->d_model;
  for (int64_t b = 0; b < c->blocks; b++) {
    const Block *block = c->decoder + b;
    const float *read = enter(c, block->own_norm, x, rows, s.normed);
    apply(&block->query, read, rows, s.query);
    apply(&block->key, read, rows, s.key);
    apply(&block->value, read, rows, s.value);
    read_past(c, start, rows, b, s);
    apply(&block->own_output, s.context, rows, s.made);
    leave(c, block->own_norm, x, s.made, rows);

    float *query = c->queries + (b * c->rows + start) * c->heads * c->d_head;
    apply(&block->source_query, enter(c, block->source_norm, x, rows, s.normed), rows, query);
    read_source(c, start, rows, b, query, s);
    apply(&block->source_output, s.context, rows, s.made);
    leave(c, block->source_norm, x, s.made, rows);

    apply(&block->widen, enter(c, block->feed_forward_norm, x, rows, s.normed), rows, s.hidden);
    bend(c, s.hidden, rows, block->widen.n_out, block->narrow.n_in);
    apply(&block->narrow, s.hidden, rows, s.made);
    leave(c, block->feed_forward_norm, x, s.made, rows);
  }
  if (c->norm.weight) norm(c->norm, x, c->d_model, rows, x);
}

/* Take rows until none is left; several threads may, and the result does not depend on which takes what. */
void regard_newest(Call *c) {
  int64_t d = c->d_model, d_key = c->key_heads * c->d_head, n = c->at_once;
  float *free = c->scratch + __atomic_fetch_add(&c->threads, 1, __ATOMIC_RELAXED) * c->scratch_numbers;
  Scratch s = {.normed = free, .made = free + n * d, .query = free + 2 * n * d, .context = free + 3 * n * d};
  s.key = free + 4 * n * d, s.value = s.key + n * d_key;
  s.hidden = s.value + n * d_key, s.scores = s.hidden + n * c->decoder->widen.n_out;
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next, n, __ATOMIC_RELAXED);
    if (start >= c->rows) return;
    go_through(c, start, start + n < c->rows ? n : c->rows - start, s);
  }
}
