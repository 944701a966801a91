/* One incremental decoding step: computes the newest token of each row through all blocks of a decoder with
   cross-attention. A row is one sequence of the batch.

   The computation of one row does not depend on other rows, only on cached keys and values. So each thread takes some rows
   through the whole decoder: no thread waits for another, and intermediate vectors stay in its processor's cache. */

#include "blocks.h"

typedef struct {
  Stack stack;
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

/* Apply the rotary position of the newest token: rotate each pair of numbers of each head, in place. */
static void rotate(const StepArguments *c, float *vectors, int64_t heads) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < c->pairs; p++) {
      float *first = vectors + h * c->stack.d_head + p * c->pair_stride, *second = first + c->pair_distance;
      float a = *first, b = *second;
      *first = a * c->cosines[p] - b * c->sines[p];
      *second = b * c->cosines[p] + a * c->sines[p];
    }
}

/* Write the key and value of a row's newest token into the buffer. */
static void append(const StepArguments *c, int64_t row, int64_t block, const float *key, const float *value) {
  int64_t n_heads = c->stack.key_heads, d = c->stack.d_head, head = c->buffer_tokens * d;
  float *keys = c->buffer + ((row * c->stack.n_blocks + block) * 2 * n_heads) * head + (c->tokens - 1) * d;
  float *values = keys + n_heads * head;
  for (int64_t h = 0; h < n_heads; h++)
    for (int64_t i = 0; i < d; i += WIDE) {
      store(keys + h * head + i, load(key + h * d + i));
      store(values + h * head + i, load(value + h * d + i));
    }
}

static void self_attention(const StepArguments *c, int64_t start, int64_t rows, int64_t block, Scratch s) {
  int64_t n_heads = c->stack.heads, n_key_heads = c->stack.key_heads, d = c->stack.d_head, head = c->buffer_tokens * d;
  const float *vectors = c->buffer + block * 2 * n_key_heads * head;
  Vectors key = {vectors, c->stack.n_blocks * 2 * n_key_heads * head, head, d}, value = key;
  value.vectors += n_key_heads * head;
  for (int64_t r = 0; r < rows; r++) {
    float *query = s.query + r * n_heads * d, *new_key = s.key + r * n_key_heads * d;
    if (c->cosines) rotate(c, query, n_heads), rotate(c, new_key, n_key_heads);
    append(c, start + r, block, new_key, s.value + r * n_key_heads * d);
    for (int64_t h = 0; h < n_heads; h++)
      attend(d, query + h * d, key, value, h * n_key_heads / n_heads, c->buffer_rows + (start + r) * c->row_stride,
             c->token_stride, c->tokens, s.scores, s.context + (r * n_heads + h) * d);
  }
}

static void cross_attention(const StepArguments *c, int64_t start, int64_t rows, int64_t block, const float *query,
                            Scratch s) {
  int64_t n_heads = c->stack.heads, d = c->stack.d_head;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < n_heads; h++)
      attend(d, query + (r * n_heads + h) * d, c->source_keys[block], c->source_values[block],
             h * c->stack.key_heads / n_heads, c->source_of_row + start + r, 0,
             c->lengths ? c->lengths[start + r] : c->source_tokens, s.scores, s.context + (r * n_heads + h) * d);
}

static void decode(const StepArguments *c, int64_t start, int64_t rows, Scratch s) {
  const Stack *stack = &c->stack;
  float *x = c->x + start * stack->d_model;
  for (int64_t b = 0; b < stack->n_blocks; b++) {
    const Block *block = stack->blocks + b;
    project(stack, block, x, rows, s);
    self_attention(c, start, rows, b, s);
    add_attention(stack, &block->self_attention_output, block->self_attention_norm, x, rows, s);

    float *query = c->queries + (b * c->rows + start) * stack->d_model;
    linear(&block->cross_query, sublayer_input(stack, block->cross_attention_norm, x, rows, s.normed), rows, query);
    cross_attention(c, start, rows, b, query, s);
    add_attention(stack, &block->cross_attention_output, block->cross_attention_norm, x, rows, s);

    add_feed_forward(stack, block, x, rows, s);
  }
  if (stack->norm.weight) layer_norm(stack->norm, x, stack->d_model, rows, x);
}

/* Decode rows that no other thread has taken, until none is left. Several threads may call this with the same arguments;
   the results do not depend on which thread takes which rows. */
void regard_decoding_step(StepArguments *c) {
  int64_t thread = __atomic_fetch_add(&c->threads, 1, __ATOMIC_RELAXED), n = c->rows_at_once;
  Scratch s = divided(&c->stack, c->scratch + thread * c->scratch_numbers, n);
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next_row, n, __ATOMIC_RELAXED);
    if (start >= c->rows) return;
    decode(c, start, start + n < c->rows ? n : c->rows - start, s);
  }
}

/* Return why regard_decoding_step cannot compute its arguments, or null if it can. */
const char *regard_decoding_step_error(const StepArguments *c) {
  const char *error = stack_error(&c->stack, 1);
  if (error) return error;
  for (int64_t n = 0; n < c->stack.n_blocks; n++)
    if (!c->source_keys || !c->source_values || !c->source_keys[n].vectors || !c->source_values[n].vectors)
      return "source_keys or source_values has a null pointer";
  if (c->rows < 0 || c->tokens <= 0 || c->tokens > c->buffer_tokens) return "the buffer has no room for the newest token";
  if (c->source_tokens <= 0 || c->sources <= 0) return "there are no sources";
  if (!c->buffer || !c->buffer_rows || !c->source_of_row || !c->x || !c->queries || !c->scratch)
    return "an array is a null pointer";
  int64_t tokens = c->tokens > c->source_tokens ? c->tokens : c->source_tokens;
  if (c->rows_at_once <= 0 || scratch_of(&c->stack, c->rows_at_once, tokens) > c->scratch_numbers)
    return "scratch_numbers or rows_at_once is too small";
  if (!c->cosines != !c->sines || (c->cosines && (c->pairs < 0 || 2 * c->pairs > c->stack.d_head)))
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
