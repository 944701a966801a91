/* The layers of Transformer blocks, for a few rows: vectors [rows, width]. Weights are read in the order in which PyTorch
   stores them, each once for all rows that a thread computes together. */

#pragma once

#include "lanes.h"

/* Activations, numbered as in `ACTIVATIONS` of transformer/feed_forward.py. */
enum { RELU, GELU, GELU_TANH, SWISH, MISH, SQUARED_RELU, TANH, SIGMOID, IDENTITY };

typedef struct {
  const float *weight, *bias; /* [n_out, n_in], [n_out] */
  int64_t n_in, n_out;        /* multiples of 16 */
} Linear;

typedef struct {
  const float *weight, *bias;
  float eps;
} Norm;

typedef struct {
  Linear query, key, value, self_attention_output;
  Linear cross_query, cross_attention_output;
  Linear widen, narrow;
  Norm self_attention_norm, cross_attention_norm, feed_forward_norm;
} Block;

/* Keys or values: the vector of a row, head and token begins at vectors + row * row_stride + head * head_stride +
   token * token_stride. */
typedef struct {
  const float *vectors;
  int64_t row_stride, head_stride, token_stride;
} Vectors;

/* The blocks of an encoder or a decoder. */
typedef struct {
  const Block *blocks;
  int64_t n_blocks, d_model, heads, key_heads, d_head;
  int64_t activation, gated, norm_first;
  Norm norm; /* after the last block; weight null: no norm */
} Stack;

/* The number of rows that are multiplied by the weights of 4 outputs at once, limited by the number of registers. */
#define TILE (WIDE == 16 ? 4 : WIDE == 8 ? 2 : 1)

/* Compute 4 outputs of a linear layer for 1 to 4 rows. */
static inline __attribute__((always_inline)) void linear_tile(int rows, const float *x, int64_t n,
                                                              const float *weight, four bias, float *out,
                                                              int64_t n_out) {
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

static inline float dot(const float *a, const float *b, int64_t n) {
  wide sum = all(0);
  for (int64_t i = 0; i < n; i += WIDE) sum += load(a + i) * load(b + i);
  return sum_of(sum);
}

/* Write out = x W^T + b. The order of each sum does not depend on the number of rows, so that a row's output does not
   change with the rows computed together with it. A step is the distance between two rows of the output, in floats. */
static void linear_rows(const Linear *layer, const float *x, int64_t rows, float *out, int64_t step) {
  int64_t n = layer->n_in, n_out = layer->n_out;
  for (int64_t o = 0; o < n_out; o += 4) {
    const float *weight = layer->weight + o * n;
    four bias = *(const any_four *)(layer->bias + o);
    for (int64_t r = 0; r < rows; r += TILE) switch (rows - r < TILE ? rows - r : TILE) {
        case 1: linear_tile(1, x + r * n, n, weight, bias, out + r * step + o, step); break;
        case 2: linear_tile(2, x + r * n, n, weight, bias, out + r * step + o, step); break;
        case 3: linear_tile(3, x + r * n, n, weight, bias, out + r * step + o, step); break;
        default: linear_tile(4, x + r * n, n, weight, bias, out + r * step + o, step);
      }
  }
}

static void linear(const Linear *layer, const float *x, int64_t rows, float *out) {
  linear_rows(layer, x, rows, out, layer->n_out);
}

/* A thread's scratch memory, for the rows that it computes together. */
typedef struct {
  float *normed, *output, *query, *key, *value, *context, *hidden, *scores;
} Scratch;

static void layer_norm(Norm by, const float *x, int64_t d, int64_t rows, float *out) {
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

/* Return the input of a sublayer: norm(x) if pre-norm, x if post-norm. */
static const float *sublayer_input(const Stack *c, Norm by, const float *x, int64_t rows, float *normed) {
  if (!c->norm_first) return x;
  layer_norm(by, x, c->d_model, rows, normed);
  return normed;
}

/* Replace x by x + output if pre-norm, by norm(x + output) if post-norm. */
static void add_residual(const Stack *c, Norm by, float *x, const float *output, int64_t rows) {
  for (int64_t i = 0; i < rows * c->d_model; i += WIDE) store(x + i, load(x + i) + load(output + i));
  if (!c->norm_first) layer_norm(by, x, c->d_model, rows, x);
}

static float activate(int64_t activation, float x) {
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

/* Apply the activation in place. If gated, a row has d_ff hidden numbers and then d_ff gates: hidden * activation(gate). */
static void activate_rows(const Stack *c, float *hidden, int64_t rows, int64_t d_hidden, int64_t d_ff) {
  if (!c->gated && c->activation == RELU)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(RELU, hidden[i]);
  else if (!c->gated)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(c->activation, hidden[i]);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < d_ff; i++)
        hidden[r * d_ff + i] = hidden[r * d_hidden + i] * activate(c->activation, hidden[r * d_hidden + d_ff + i]);
}

/* Replace each score s by e = exp(s - max s), and return 1 / the sum of e, or 0 if there are no tokens. */
static float exp_scores(float *scores, int64_t tokens) {
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

/* Return the vector of a token of a head whose vectors begin at `head`; the token is in row rows[token * stride]. */
static inline const float *vector(const float *head, Vectors of, const int64_t *rows, int64_t stride, int64_t token) {
  return head + rows[token * stride] * of.row_stride + token * of.token_stride;
}

/* Write the context of one query in one head. Token t is in row rows[t * stride], which may differ by token.

       scores   s_t = query . key_t / sqrt(d_head)
       weights  e_t = exp(s_t - max s)
       context      = sum of e_t value_t / sum of e_t */
static void attend(int64_t d, const float *query, Vectors key, Vectors value, int64_t head,
                   const int64_t *rows, int64_t stride, int64_t tokens, float *scores, float *context) {
  int64_t t = 0;
  float scale = 1 / sqrtf(d);
  const float *keys = key.vectors + head * key.head_stride, *values = value.vectors + head * value.head_stride;
  for (; t + 4 <= tokens; t += 4) {
    wide sums[4] = {all(0), all(0), all(0), all(0)};
    for (int64_t i = 0; i < d; i += WIDE)
      for (int64_t k = 0; k < 4; k++)
        sums[k] += load(query + i) * load(vector(keys, key, rows, stride, t + k) + i);
    *(any_four *)(scores + t) = sums_of(sums[0], sums[1], sums[2], sums[3]) * scale;
  }
  for (; t < tokens; t++) scores[t] = dot(query, vector(keys, key, rows, stride, t), d) * scale;
  float inverse = exp_scores(scores, tokens);
  for (int64_t i = 0; i < d; i += 2 * WIDE) { /* two independent sums, for the processor's pipeline */
    int64_t second = i + WIDE < d ? WIDE : 0;
    wide a = all(0), b = a;
    for (t = 0; t < tokens; t++) {
      const float *v = vector(values, value, rows, stride, t) + i;
      a += load(v) * scores[t];
      b += load(v + second) * scores[t];
    }
    store(context + i, a * inverse);
    store(context + i + second, b * inverse);
  }
}


/* Project the inputs of a block to the queries, keys and values of self-attention. */
static void project(const Stack *c, const Block *block, const float *x, int64_t rows, Scratch s) {
  const float *input = sublayer_input(c, block->self_attention_norm, x, rows, s.normed);
  linear(&block->query, input, rows, s.query);
  linear(&block->key, input, rows, s.key);
  linear(&block->value, input, rows, s.value);
}

/* Add the output of an attention layer, whose contexts are in the scratch memory, to x. */
static void add_attention(const Stack *c, const Linear *output, Norm norm, float *x, int64_t rows, Scratch s) {
  linear(output, s.context, rows, s.output);
  add_residual(c, norm, x, s.output, rows);
}

/* Add the output of the feed-forward network to x. */
static void add_feed_forward(const Stack *c, const Block *block, float *x, int64_t rows, Scratch s) {
  linear(&block->widen, sublayer_input(c, block->feed_forward_norm, x, rows, s.normed), rows, s.hidden);
  activate_rows(c, s.hidden, rows, block->widen.n_out, block->narrow.n_in);
  linear(&block->narrow, s.hidden, rows, s.output);
  add_residual(c, block->feed_forward_norm, x, s.output, rows);
}

/* Divide a thread's scratch memory into arrays for some rows. */
static Scratch divided(const Stack *c, float *free, int64_t rows) {
  int64_t d = rows * c->d_model, d_key = rows * c->key_heads * c->d_head;
  Scratch s = {.normed = free, .output = free + d, .query = free + 2 * d, .context = free + 3 * d};
  s.key = free + 4 * d, s.value = s.key + d_key;
  s.hidden = s.value + d_key, s.scores = s.hidden + rows * c->blocks->widen.n_out;
  return s;
}

/* Return the number of floats of scratch memory that a thread needs for some rows with at most `tokens` tokens to attend to;
   the scores of attention need a multiple of WIDE. */
static int64_t scratch_of(const Stack *c, int64_t rows, int64_t tokens) {
  int64_t numbers = 4 * c->d_model + 2 * c->key_heads * c->d_head + c->blocks->widen.n_out;
  return rows * numbers + (tokens + WIDE - 1) / WIDE * WIDE;
}

/* Return whether a linear layer has parameters, and the sizes that it should have. */
static int fits(const Linear *layer, int64_t n_in, int64_t n_out) {
  return layer->weight && layer->bias && layer->n_in == n_in && layer->n_out == n_out && n_in % 16 == 0 && n_out % 16 == 0;
}

/* Return why a block's parameters do not fit its stack, or null if they do; `cross` says whether it has cross-attention. */
static const char *block_error(const Stack *c, const Block *b, int cross) {
  int64_t d = c->d_model, d_key = c->key_heads * c->d_head, d_ff = b->narrow.n_in;
  if (!fits(&b->query, d, d) || !fits(&b->key, d, d_key) || !fits(&b->value, d, d_key))
    return "self-attention's query, key or value layer does not fit";
  if (!fits(&b->self_attention_output, d, d)) return "self-attention's output layer does not fit";
  if (cross && (!fits(&b->cross_query, d, d) || !fits(&b->cross_attention_output, d, d)))
    return "cross-attention's query or output layer does not fit";
  if (!fits(&b->widen, d, c->gated ? 2 * d_ff : d_ff) || !fits(&b->narrow, d_ff, d))
    return "the feed-forward layers do not fit";
  if (b->widen.n_out != c->blocks->widen.n_out) return "the blocks have feed-forward layers of different widths";
  return 0;
}

/* Return why the blocks cannot be computed, or null if they can. */
static const char *stack_error(const Stack *c, int cross) {
  if (c->n_blocks <= 0 || !c->blocks) return "there are no blocks";
  if (c->heads <= 0 || c->key_heads <= 0 || c->heads % c->key_heads) return "key_heads does not divide heads";
  if (c->d_head <= 0 || c->d_head % 16 || c->heads * c->d_head != c->d_model) return "d_head does not fit d_model";
  if (c->activation < RELU || c->activation > IDENTITY) return "the number of the activation is unknown";
  for (int64_t n = 0; n < c->n_blocks; n++) {
    const char *error = block_error(c, c->blocks + n, cross);
    if (error) return error;
  }
  return 0;
}
