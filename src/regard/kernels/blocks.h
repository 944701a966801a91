/* The layers of Transformer blocks, computed for a few rows (tokens) at a time. The vectors of these rows are an array
   [rows, width]. */

#pragma once

#include "linear.h"

/* Activations, numbered as in `ACTIVATIONS` of transformer/feed_forward.py. */
enum { RELU, GELU, GELU_TANH, SWISH, MISH, SQUARED_RELU, TANH, SIGMOID, IDENTITY };

typedef struct {
  const float *vectors; /* [vocabulary, d_model] */
  int64_t vocabulary;
  float scale;            /* multiplies a token's vector, before a vector of `positions` is added */
  const float *positions; /* [n_positions, d_model]; null: no positions are added */
  int64_t n_positions;
} Embedding;

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
} TokenVectors;

typedef struct {
  const Block *blocks;
  int64_t n_blocks, d_model, heads, key_heads, d_head;
  int64_t activation;        /* a number of the enum RELU ... IDENTITY */
  int64_t gated, norm_first; /* 1 = yes, 0 = no */
  Norm norm;                 /* the layer norm after the last block; weight null: no norm */
} Stack;

static void embed(const Embedding *embedding, int64_t token, int64_t position, int64_t d, float *x) {
  const float *vector = embedding->vectors + token * d;
  const float *added = embedding->positions ? embedding->positions + position * d : 0;
  for (int64_t i = 0; i < d; i += WIDE) {
    wide scaled = load(vector + i) * embedding->scale;
    store(x + i, added ? scaled + load(added + i) : scaled);
  }
}

static inline float dot(const float *a, const float *b, int64_t n) {
  wide sum = broadcast(0);
  for (int64_t i = 0; i < n; i += WIDE) sum += load(a + i) * load(b + i);
  return sum_of_lanes(sum);
}

/* A thread's scratch memory, divided into arrays [rows, width] for the rows that the thread computes together, and into
   scores [tokens] of one query in one head. */
typedef struct {
  float *normed, *output, *query, *key, *value, *context, *hidden, *scores;
} Scratch;

static void layer_norm(Norm norm, const float *x, int64_t d, int64_t rows, float *out) {
  for (; rows; rows--, x += d, out += d) {
    wide sum = broadcast(0), squares = broadcast(0);
    for (int64_t i = 0; i < d; i += WIDE) sum += load(x + i);
    float mean = sum_of_lanes(sum) / d;
    for (int64_t i = 0; i < d; i += WIDE) {
      wide difference = load(x + i) - mean;
      squares += difference * difference;
    }
    float scale = 1 / sqrtf(sum_of_lanes(squares) / d + norm.eps);
    for (int64_t i = 0; i < d; i += WIDE)
      store(out + i, (load(x + i) - mean) * scale * load(norm.weight + i) + load(norm.bias + i));
  }
}

/* Return the input of a sublayer: norm(x), written to `normed`, if pre-norm; x itself if post-norm. */
static const float *sublayer_input(const Stack *stack, Norm norm, const float *x, int64_t rows, float *normed) {
  if (!stack->norm_first) return x;
  layer_norm(norm, x, stack->d_model, rows, normed);
  return normed;
}

/* Replace x by x + output if pre-norm, by norm(x + output) if post-norm. */
static void add_residual(const Stack *stack, Norm norm, float *x, const float *output, int64_t rows) {
  for (int64_t i = 0; i < rows * stack->d_model; i += WIDE) store(x + i, load(x + i) + load(output + i));
  if (!stack->norm_first) layer_norm(norm, x, stack->d_model, rows, x);
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

/* Apply the activation in place. If gated, a row has d_ff hidden numbers and then d_ff gates; hidden * activation(gate)
   replaces them, so that rows of d_ff numbers are left, without gaps. */
static void activate_rows(const Stack *stack, float *hidden, int64_t rows, int64_t d_hidden, int64_t d_ff) {
  if (!stack->gated && stack->activation == RELU) /* a constant activation, so that the compiler vectorises the loop */
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(RELU, hidden[i]);
  else if (!stack->gated)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(stack->activation, hidden[i]);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < d_ff; i++)
        hidden[r * d_ff + i] = hidden[r * d_hidden + i] * activate(stack->activation, hidden[r * d_hidden + d_ff + i]);
}

/* Replace each score s by e = exp(s - max s), and return 1 / the sum of e, or 0 if there are no tokens. `scores` has room
   for `tokens` numbers, rounded up to a multiple of WIDE. */
static float exp_scores(float *scores, int64_t tokens) {
  wide largest = broadcast(-INFINITY), total = broadcast(0);
  for (int64_t t = tokens; t % WIDE; t++) scores[t] = -INFINITY; /* e = 0 in the rest of the last register */
  for (int64_t t = 0; t < tokens; t += WIDE) {
    wide s = load(scores + t);
    largest = select_lanes(s > largest, s, largest);
  }
  float shift = maximum_of_lanes(largest);
  for (int64_t t = 0; t < tokens; t += WIDE) {
    wide e = exp_or_0_of(load(scores + t) - shift);
    store(scores + t, e);
    total += e;
  }
  return tokens ? 1 / sum_of_lanes(total) : 0.0f;
}

/* The `count` tokens to which a query attends. The key and value of token t are in row rows[t * stride] of
   TokenVectors. If stride is 0, all tokens have the same row. */
typedef struct {
  const int64_t *rows;
  int64_t stride, count;
} Tokens;

/* Return the address of the key or value of token number `token` in one head. head: the address of the head's vector
   for token 0 in row 0; vectors: only its strides are used. */
static inline const float *token_vector(const float *head, TokenVectors vectors, Tokens tokens, int64_t token) {
  return head + tokens.rows[token * tokens.stride] * vectors.row_stride + token * vectors.token_stride;
}

/* Write the context of one query of `d` numbers in one head. `key` and `value` hold the vectors of all tokens of all rows;
   `tokens` says which of them the query attends to.

       scores   s_t = query . key_t / sqrt(d)
       weights  e_t = exp(s_t - max s)
       context      = sum of e_t value_t / sum of e_t */
static void attend(int64_t d, const float *query, TokenVectors key, TokenVectors value, int64_t head, Tokens tokens,
                   float *scores, float *context) {
  int64_t t = 0;
  float scale = 1 / sqrtf(d);
  const float *keys = key.vectors + head * key.head_stride, *values = value.vectors + head * value.head_stride;
  for (; t + 4 <= tokens.count; t += 4) {
    wide sums[4] = {broadcast(0), broadcast(0), broadcast(0), broadcast(0)};
    for (int64_t i = 0; i < d; i += WIDE)
      for (int64_t k = 0; k < 4; k++)
        sums[k] += load(query + i) * load(token_vector(keys, key, tokens, t + k) + i);
    *(unaligned_four *)(scores + t) = sums_of_lanes(sums[0], sums[1], sums[2], sums[3]) * scale;
  }
  for (; t < tokens.count; t++) scores[t] = dot(query, token_vector(keys, key, tokens, t), d) * scale;
  float inverse = exp_scores(scores, tokens.count);
  for (int64_t i = 0; i < d; i += 2 * WIDE) { /* two independent sums run faster than one */
    int64_t second = i + WIDE < d ? WIDE : 0; /* if only WIDE numbers are left, b repeats a */
    wide a = broadcast(0), b = a;
    for (t = 0; t < tokens.count; t++) {
      const float *v = token_vector(values, value, tokens, t) + i;
      a += load(v) * scores[t];
      b += load(v + second) * scores[t];
    }
    store(context + i, a * inverse);
    store(context + i + second, b * inverse);
  }
}

static void project(const Stack *stack, const Block *block, const float *x, int64_t rows, Scratch scratch) {
  const float *input = sublayer_input(stack, block->self_attention_norm, x, rows, scratch.normed);
  linear(&block->query, input, rows, scratch.query);
  linear(&block->key, input, rows, scratch.key);
  linear(&block->value, input, rows, scratch.value);
}

static void add_attention(const Stack *stack, const Linear *output, Norm norm, float *x, int64_t rows,
                          Scratch scratch) {
  linear(output, scratch.context, rows, scratch.output);
  add_residual(stack, norm, x, scratch.output, rows);
}

static void add_feed_forward(const Stack *stack, const Block *block, float *x, int64_t rows, Scratch scratch) {
  linear(&block->widen, sublayer_input(stack, block->feed_forward_norm, x, rows, scratch.normed), rows, scratch.hidden);
  activate_rows(stack, scratch.hidden, rows, block->widen.n_out, block->narrow.n_in);
  linear(&block->narrow, scratch.hidden, rows, scratch.output);
  add_residual(stack, block->feed_forward_norm, x, scratch.output, rows);
}

static Scratch divide_scratch(const Stack *stack, float *memory, int64_t rows) {
  int64_t d = rows * stack->d_model, d_key = rows * stack->key_heads * stack->d_head;
  Scratch scratch = {.normed = memory, .output = memory + d, .query = memory + 2 * d, .context = memory + 3 * d};
  scratch.key = memory + 4 * d, scratch.value = scratch.key + d_key;
  scratch.hidden = scratch.value + d_key, scratch.scores = scratch.hidden + rows * stack->blocks->widen.n_out;
  return scratch;
}

/* Return the number of floats of scratch memory that a thread needs for `rows` rows, each of which attends to at most
   `tokens` tokens. The number of scores is rounded up to a multiple of WIDE. */
static int64_t scratch_of(const Stack *stack, int64_t rows, int64_t tokens) {
  int64_t numbers = 4 * stack->d_model + 2 * stack->key_heads * stack->d_head + stack->blocks->widen.n_out;
  return rows * numbers + (tokens + WIDE - 1) / WIDE * WIDE;
}

static const char *embedding_error(const Embedding *embedding, const int64_t *ids, int64_t n_ids, int64_t n_positions) {
  if (!embedding->vectors || !ids) return "an array is a null pointer";
  if (embedding->positions && n_positions > embedding->n_positions) return "there must be a vector for each position";
  for (int64_t n = 0; n < n_ids; n++)
    if (ids[n] < 0 || ids[n] >= embedding->vocabulary) return "token ids must be 0 to vocabulary - 1";
  return 0;
}

/* cross: 1 if the block has cross-attention, else 0. */
static const char *block_error(const Stack *stack, const Block *b, int cross) {
  int64_t d = stack->d_model, d_key = stack->key_heads * stack->d_head, d_ff = b->narrow.n_in;
  if (!fits(&b->query, d, d) || !fits(&b->key, d, d_key) || !fits(&b->value, d, d_key))
    return "self-attention's query, key and value layers must have d_model inputs and d_model or key_heads * d_head outputs";
  if (!fits(&b->self_attention_output, d, d)) return "self-attention's output layer must have d_model inputs and outputs";
  if (cross && (!fits(&b->cross_query, d, d) || !fits(&b->cross_attention_output, d, d)))
    return "cross-attention's query and output layers must have d_model inputs and outputs";
  if (!fits(&b->widen, d, stack->gated ? 2 * d_ff : d_ff) || !fits(&b->narrow, d_ff, d))
    return "the feed-forward layers must have d_model inputs, d_ff hidden numbers (if gated, 2 d_ff) and d_model outputs";
  if (b->widen.n_out != stack->blocks->widen.n_out) return "all blocks must have feed-forward layers of the same width";
  return 0;
}

static const char *stack_error(const Stack *stack, int cross) {
  if (stack->n_blocks <= 0 || !stack->blocks) return "there are no blocks";
  if (stack->heads <= 0 || stack->key_heads <= 0 || stack->heads % stack->key_heads)
    return "heads and key_heads must be above 0, and heads a multiple of key_heads";
  if (stack->d_head <= 0 || stack->d_head % 16 || stack->heads * stack->d_head != stack->d_model)
    return "d_head must be a multiple of 16, and heads * d_head must be d_model";
  if (stack->activation < RELU || stack->activation > IDENTITY) return "the number of the activation is unknown";
  for (int64_t n = 0; n < stack->n_blocks; n++) {
    const char *error = block_error(stack, stack->blocks + n, cross);
    if (error) return error;
  }
  return 0;
}
