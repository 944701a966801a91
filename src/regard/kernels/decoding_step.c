/* One incremental decoding step: computes the newest token of each row through all blocks of a decoder with
   cross-attention. A row is one sequence of the batch.

   The computation of one row does not depend on other rows, only on cached keys and values. So each thread takes some rows
   through the whole decoder: no thread waits for another, and intermediate vectors stay in its processor's cache. Weights
   are read in the order in which PyTorch stores them, each once for all rows that a thread computes together. */

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

typedef struct {
  const Block *decoder;
  int64_t blocks, d_model, heads, key_heads, d_head;
  int64_t activation, gated, norm_first;
  Norm norm; /* after the last block; weight null: no norm */

  int64_t rows, tokens; /* the number of rows, and of tokens in each row, including the newest */
  float *buffer;        /* [rows, blocks, 2, key_heads, buffer_tokens, d_head] */
  int64_t buffer_tokens;
  int64_t n_buffer_rows;      /* the number of rows of the buffer */
  const int64_t *buffer_rows; /* [rows, tokens]: the row of the buffer that has the keys and values of each token */
  int64_t row_stride, token_stride;           /* of buffer_rows */
  const Vectors *source_keys, *source_values; /* [blocks] */
  int64_t sources;                            /* the number of sources */
  int64_t source_tokens;                      /* the number of tokens in the longest source */
  const int64_t *source_of_row, *lengths;     /* [rows]: each row's source, and its length; lengths null: source_tokens */
  const float *cosines, *sines;               /* [pairs]: rotary angles of the newest token; null: no rotation */
  int64_t pairs, pair_stride, pair_distance;  /* pairs in a head; floats from a pair to the next, and within a pair */

  float *x;       /* [rows, d_model]: input, the newest tokens' embeddings; overwritten by the decoder's output */
  float *queries; /* [blocks, rows, heads, d_head]: output, the queries of cross-attention */
  float *scratch; /* [threads, scratch_numbers] */
  int64_t scratch_numbers;
  int64_t rows_at_once; /* the number of rows that a thread computes together */
  int64_t next_row;     /* counter: the first row that no thread has taken */
  int64_t threads;      /* counter: the threads that have begun */
} StepArguments;

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
   change with the rows computed together with it. */
static void linear(const Linear *layer, const float *x, int64_t rows, float *out) {
  int64_t n = layer->n_in, n_out = layer->n_out;
  for (int64_t o = 0; o < n_out; o += 4) {
    const float *weight = layer->weight + o * n;
    four bias = *(const any_four *)(layer->bias + o);
    for (int64_t r = 0; r < rows; r += TILE) switch (rows - r < TILE ? rows - r : TILE) {
        case 1: linear_tile(1, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        case 2: linear_tile(2, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        case 3: linear_tile(3, x + r * n, n, weight, bias, out + r * n_out + o, n_out); break;
        default: linear_tile(4, x + r * n, n, weight, bias, out + r * n_out + o, n_out);
      }
  }
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
static const float *sublayer_input(const StepArguments *c, Norm by, const float *x, int64_t rows, float *normed) {
  if (!c->norm_first) return x;
  layer_norm(by, x, c->d_model, rows, normed);
  return normed;
}

/* Replace x by x + output if pre-norm, by norm(x + output) if post-norm. */
static void add_residual(const StepArguments *c, Norm by, float *x, const float *output, int64_t rows) {
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
static void activate_rows(const StepArguments *c, float *hidden, int64_t rows, int64_t d_hidden, int64_t d_ff) {
  if (!c->gated && c->activation == RELU)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(RELU, hidden[i]);
  else if (!c->gated)
    for (int64_t i = 0; i < rows * d_hidden; i++) hidden[i] = activate(c->activation, hidden[i]);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < d_ff; i++)
        hidden[r * d_ff + i] = hidden[r * d_hidden + i] * activate(c->activation, hidden[r * d_hidden + d_ff + i]);
}

/* Apply the rotary position of the newest token: rotate each pair of numbers of each head, in place. */
static void rotate(const StepArguments *c, float *vectors, int64_t heads) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < c->pairs; p++) {
      float *first = vectors + h * c->d_head + p * c->pair_stride, *second = first + c->pair_distance;
      float a = *first, b = *second;
      *first = a * c->cosines[p] - b * c->sines[p];
      *second = b * c->cosines[p] + a * c->sines[p];
    }
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
static void attend(const StepArguments *c, const float *query, Vectors key, Vectors value, int64_t head,
                   const int64_t *rows, int64_t stride, int64_t tokens, float *scores, float *context) {
  int64_t d = c->d_head, t = 0;
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

/* Write the key and value of a row's newest token into the buffer. */
static void append(const StepArguments *c, int64_t row, int64_t block, const float *key, const float *value) {
  int64_t head = c->buffer_tokens * c->d_head;
  float *keys = c->buffer + ((row * c->blocks + block) * 2 * c->key_heads) * head + (c->tokens - 1) * c->d_head;
  float *values = keys + c->key_heads * head;
  for (int64_t h = 0; h < c->key_heads; h++)
    for (int64_t i = 0; i < c->d_head; i += WIDE) {
      store(keys + h * head + i, load(key + h * c->d_head + i));
      store(values + h * head + i, load(value + h * c->d_head + i));
    }
}

static void self_attention(const StepArguments *c, int64_t start, int64_t rows, int64_t block, Scratch s) {
  int64_t d = c->heads * c->d_head, d_key = c->key_heads * c->d_head, head = c->buffer_tokens * c->d_head;
  const float *vectors = c->buffer + block * 2 * c->key_heads * head;
  Vectors key = {vectors, c->blocks * 2 * c->key_heads * head, head, c->d_head}, value = key;
  value.vectors += c->key_heads * head;
  for (int64_t r = 0; r < rows; r++) {
    if (c->cosines) rotate(c, s.query + r * d, c->heads), rotate(c, s.key + r * d_key, c->key_heads);
    append(c, start + r, block, s.key + r * d_key, s.value + r * d_key);
    for (int64_t h = 0; h < c->heads; h++)
      attend(c, s.query + r * d + h * c->d_head, key, value, h * c->key_heads / c->heads,
           c->buffer_rows + (start + r) * c->row_stride, c->token_stride, c->tokens, s.scores,
           s.context + r * d + h * c->d_head);
  }
}

static void cross_attention(const StepArguments *c, int64_t start, int64_t rows, int64_t block, const float *query,
                            Scratch s) {
  int64_t d = c->heads * c->d_head;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < c->heads; h++)
      attend(c, query + r * d + h * c->d_head, c->source_keys[block], c->source_values[block],
           h * c->key_heads / c->heads, c->source_of_row + start + r, 0,
           c->lengths ? c->lengths[start + r] : c->source_tokens, s.scores, s.context + r * d + h * c->d_head);
}

static void decode(const StepArguments *c, int64_t start, int64_t rows, Scratch s) {
  float *x = c->x + start * c->d_model;
  for (int64_t b = 0; b < c->blocks; b++) {
    const Block *block = c->decoder + b;
    const float *input = sublayer_input(c, block->self_attention_norm, x, rows, s.normed);
    linear(&block->query, input, rows, s.query);
    linear(&block->key, input, rows, s.key);
    linear(&block->value, input, rows, s.value);
    self_attention(c, start, rows, b, s);
    linear(&block->self_attention_output, s.context, rows, s.output);
    add_residual(c, block->self_attention_norm, x, s.output, rows);

    float *query = c->queries + (b * c->rows + start) * c->heads * c->d_head;
    linear(&block->cross_query, sublayer_input(c, block->cross_attention_norm, x, rows, s.normed), rows, query);
    cross_attention(c, start, rows, b, query, s);
    linear(&block->cross_attention_output, s.context, rows, s.output);
    add_residual(c, block->cross_attention_norm, x, s.output, rows);

    linear(&block->widen, sublayer_input(c, block->feed_forward_norm, x, rows, s.normed), rows, s.hidden);
    activate_rows(c, s.hidden, rows, block->widen.n_out, block->narrow.n_in);
    linear(&block->narrow, s.hidden, rows, s.output);
    add_residual(c, block->feed_forward_norm, x, s.output, rows);
  }
  if (c->norm.weight) layer_norm(c->norm, x, c->d_model, rows, x);
}

/* Decode rows that no other thread has taken, until none is left. Several threads may call this with the same arguments;
   the results do not depend on which thread takes which rows. */
void regard_decoding_step(StepArguments *c) {
  int64_t d = c->d_model, d_key = c->key_heads * c->d_head, n = c->rows_at_once;
  float *free = c->scratch + __atomic_fetch_add(&c->threads, 1, __ATOMIC_RELAXED) * c->scratch_numbers;
  Scratch s = {.normed = free, .output = free + n * d, .query = free + 2 * n * d, .context = free + 3 * n * d};
  s.key = free + 4 * n * d, s.value = s.key + n * d_key;
  s.hidden = s.value + n * d_key, s.scores = s.hidden + n * c->decoder->widen.n_out;
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next_row, n, __ATOMIC_RELAXED);
    if (start >= c->rows) return;
    decode(c, start, start + n < c->rows ? n : c->rows - start, s);
  }
}

/* Return the number of floats of scratch memory that a thread needs; the scores of attention need a multiple of WIDE. */
static int64_t scratch_of(const StepArguments *c) {
  int64_t tokens = c->tokens > c->source_tokens ? c->tokens : c->source_tokens;
  int64_t numbers = 4 * c->d_model + 2 * c->key_heads * c->d_head + c->decoder->widen.n_out;
  return c->rows_at_once * numbers + (tokens + WIDE - 1) / WIDE * WIDE;
}

/* Return whether a linear layer has parameters, and the sizes that it should have. */
static int fits(const Linear *layer, int64_t n_in, int64_t n_out) {
  return layer->weight && layer->bias && layer->n_in == n_in && layer->n_out == n_out && n_in % 16 == 0 && n_out % 16 == 0;
}

/* Return why a block's parameters do not fit the decoder, or null if they do. */
static const char *block_error(const StepArguments *c, const Block *b) {
  int64_t d = c->d_model, d_key = c->key_heads * c->d_head, d_ff = b->narrow.n_in;
  if (!fits(&b->query, d, d) || !fits(&b->key, d, d_key) || !fits(&b->value, d, d_key))
    return "self-attention's query, key or value layer does not fit";
  if (!fits(&b->self_attention_output, d, d)) return "self-attention's output layer does not fit";
  if (!fits(&b->cross_query, d, d) || !fits(&b->cross_attention_output, d, d))
    return "cross-attention's query or output layer does not fit";
  if (!fits(&b->widen, d, c->gated ? 2 * d_ff : d_ff) || !fits(&b->narrow, d_ff, d))
    return "the feed-forward layers do not fit";
  if (b->widen.n_out != c->decoder->widen.n_out) return "the blocks have feed-forward layers of different widths";
  return 0;
}

/* Return why regard_decoding_step cannot compute its arguments, or null if it can. */
const char *regard_decoding_step_error(const StepArguments *c) {
  if (c->blocks <= 0 || !c->decoder) return "there are no blocks";
  if (c->heads <= 0 || c->key_heads <= 0 || c->heads % c->key_heads) return "key_heads does not divide heads";
  if (c->d_head <= 0 || c->d_head % 16 || c->heads * c->d_head != c->d_model) return "d_head does not fit d_model";
  if (c->activation < RELU || c->activation > IDENTITY) return "the number of the activation is unknown";
  for (int64_t n = 0; n < c->blocks; n++) {
    const char *error = block_error(c, c->decoder + n);
    if (error) return error;
    if (!c->source_keys || !c->source_values || !c->source_keys[n].vectors || !c->source_values[n].vectors)
      return "source_keys or source_values has a null pointer";
  }
  if (c->rows < 0 || c->tokens <= 0 || c->tokens > c->buffer_tokens) return "the buffer has no room for the newest token";
  if (c->source_tokens <= 0 || c->sources <= 0) return "there are no sources";
  if (!c->buffer || !c->buffer_rows || !c->source_of_row || !c->x || !c->queries || !c->scratch)
    return "an array is a null pointer";
  if (c->rows_at_once <= 0 || scratch_of(c) > c->scratch_numbers) return "scratch_numbers or rows_at_once is too small";
  if (!c->cosines != !c->sines || (c->cosines && (c->pairs < 0 || 2 * c->pairs > c->d_head)))
    return "cosines, sines and pairs do not fit each other";
  for (int64_t r = 0; r < c->rows; r++) {
    if (c->source_of_row[r] < 0 || c->source_of_row[r] >= c->sources) return "a row reads a source that does not exist";
    if (c->lengths && (c->lengths[r] < 0 || c->lengths[r] > c->source_tokens))
      return "the length of a source is below 0 or above source_tokens";
    for (int64_t t = 0; t < c->tokens; t++) {
      int64_t row = c->buffer_rows[r * c->row_stride + t * c->token_stride];
      if (row < 0 || row >= c->n_buffer_rows) return "a token is in a row that the buffer does not have";
    }
  }
  return 0;
}
