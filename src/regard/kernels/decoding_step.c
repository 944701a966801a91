/* One step of incremental decoding: runs the newest token of each row through all blocks of a decoder with
   cross-attention. A row is one sequence of the batch.

   The computation of one row does not depend on other rows, only on cached keys and values. So each thread takes some
   rows through the whole decoder: no thread waits for another, and intermediate vectors stay in the CPU cache. */

#include "blocks.h"

typedef struct {
  Stack stack;
  Embedding embedding;
  int64_t rows, tokens;    /* the number of rows, and of tokens in each row, including the newest */
  const int64_t *newest;   /* [rows]: the id of each row's newest token */
  const int64_t *parents;  /* [rows]: which row of the previous step each row continues; in the first step, its source */
  int64_t most_rows, most_tokens; /* the most rows, and tokens in each row, for which buffer and tables have room */
  float *buffer;                  /* [most_rows, blocks, 2, key_heads, most_tokens, d_head]: cached keys and values */
  int64_t *tables; /* [2, most_rows, 1 + most_tokens]: two tables; a step reads one and writes the other. A row has the
                      index of its source, then for each token the row of `buffer` with the token's keys and values */
  /* [blocks]: for each block of the decoder, the keys and values that its cross-attention reads, of all sources */
  const TokenVectors *source_keys, *source_values;
  int64_t sources;                            /* the number of source texts; several rows may translate one */
  int64_t source_tokens;                      /* the number of tokens in the longest source */
  const int64_t *lengths;                     /* [sources]: the tokens of each source; null: each has source_tokens */
  const float *cosines, *sines;               /* [most_tokens, pairs]: rotary angles; null: no rotation */
  int64_t pairs, pair_stride;                 /* how many pairs of numbers a head rotates; floats from one pair to the next */
  int64_t pair_distance;                      /* floats between the two numbers of a pair */

  float *x;       /* [rows, d_model]: output, the hidden states of the newest tokens */
  float *queries; /* [blocks, rows, heads, d_head]: output, the queries of cross-attention */
  float *scratch; /* [threads, scratch_numbers] */
  int64_t scratch_numbers;
  int64_t rows_at_once; /* the number of rows that a thread computes together */
  int64_t next_row;     /* counter: the first row that no thread has taken */
  int64_t threads;      /* counter: the threads that have begun */
} StepArguments;

/* Return the address of a row in the table that step number `tokens` writes. The steps write the two tables in turn. */
static int64_t *table_row(const StepArguments *step, int64_t tokens, int64_t row) {
  return step->tables + (tokens % 2 * step->most_rows + row) * (1 + step->most_tokens);
}

/* Write the embedding of a row's newest token to x. Write the row's list in `tables`: a copy of the list of its parent (the
   row of the previous step that it continues), and then the newest token's row of `buffer`. */
static void begin(const StepArguments *step, int64_t row) {
  int64_t d = step->stack.d_model, *to = table_row(step, step->tokens, row);
  const int64_t *from = table_row(step, step->tokens - 1, step->parents[row]);
  for (int64_t t = 0; t < step->tokens; t++) to[t] = from[t];
  to[step->tokens] = row;
  embed(&step->embedding, step->newest[row], step->tokens - 1, d, step->x + row * d);
}

/* Apply the rotary position of the newest token: rotate each pair of numbers of each head, in place. */
static void rotate(const StepArguments *step, float *vectors, int64_t heads) {
  int64_t angle = (step->tokens - 1) * step->pairs;
  const float *cosines = step->cosines + angle, *sines = step->sines + angle;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t p = 0; p < step->pairs; p++) {
      float *first = vectors + h * step->stack.d_head + p * step->pair_stride, *second = first + step->pair_distance;
      float a = *first, b = *second;
      *first = a * cosines[p] - b * sines[p];
      *second = b * cosines[p] + a * sines[p];
    }
}

static void append(const StepArguments *step, int64_t row, int64_t block, const float *key, const float *value) {
  int64_t n_heads = step->stack.key_heads, d = step->stack.d_head, head_size = step->most_tokens * d;
  float *keys = step->buffer + ((row * step->stack.n_blocks + block) * 2 * n_heads) * head_size + (step->tokens - 1) * d;
  float *values = keys + n_heads * head_size;
  for (int64_t h = 0; h < n_heads; h++)
    for (int64_t i = 0; i < d; i += WIDE) {
      store(keys + h * head_size + i, load(key + h * d + i));
      store(values + h * head_size + i, load(value + h * d + i));
    }
}

static void self_attention(const StepArguments *step, int64_t start, int64_t rows, int64_t block, Scratch scratch) {
  int64_t n_heads = step->stack.heads, n_key_heads = step->stack.key_heads, d = step->stack.d_head;
  int64_t head_size = step->most_tokens * d, block_size = 2 * n_key_heads * head_size;
  TokenVectors key = {step->buffer + block * block_size, step->stack.n_blocks * block_size, head_size, d}, value = key;
  value.vectors += n_key_heads * head_size;
  for (int64_t r = 0; r < rows; r++) {
    float *query = scratch.query + r * n_heads * d, *new_key = scratch.key + r * n_key_heads * d;
    if (step->cosines) {
      rotate(step, query, n_heads);
      rotate(step, new_key, n_key_heads);
    }
    append(step, start + r, block, new_key, scratch.value + r * n_key_heads * d);
    Tokens tokens = {table_row(step, step->tokens, start + r) + 1, 1, step->tokens};
    for (int64_t h = 0; h < n_heads; h++)
      attend(d, query + h * d, key, value, h * n_key_heads / n_heads, tokens, scratch.scores,
             scratch.context + (r * n_heads + h) * d);
  }
}

static void cross_attention(const StepArguments *step, int64_t start, int64_t rows, int64_t block, const float *query,
                            Scratch scratch) {
  int64_t n_heads = step->stack.heads, d = step->stack.d_head;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t *source = table_row(step, step->tokens, start + r);
    int64_t n_tokens = step->lengths ? step->lengths[*source] : step->source_tokens;
    Tokens tokens = {source, 0, n_tokens}; /* stride 0: all tokens have the same row, that of the source */
    for (int64_t h = 0; h < n_heads; h++)
      attend(d, query + (r * n_heads + h) * d, step->source_keys[block], step->source_values[block],
             h * step->stack.key_heads / n_heads, tokens, scratch.scores, scratch.context + (r * n_heads + h) * d);
  }
}

static void decode(const StepArguments *step, int64_t start, int64_t rows, Scratch scratch) {
  const Stack *stack = &step->stack;
  float *x = step->x + start * stack->d_model;
  for (int64_t row = start; row < start + rows; row++) begin(step, row);
  for (int64_t b = 0; b < stack->n_blocks; b++) {
    const Block *block = stack->blocks + b;
    project(stack, block, x, rows, scratch);
    self_attention(step, start, rows, b, scratch);
    add_attention(stack, &block->self_attention_output, block->self_attention_norm, x, rows, scratch);

    float *query = step->queries + (b * step->rows + start) * stack->d_model;
    linear(&block->cross_query, sublayer_input(stack, block->cross_attention_norm, x, rows, scratch.normed), rows, query);
    cross_attention(step, start, rows, b, query, scratch);
    add_attention(stack, &block->cross_attention_output, block->cross_attention_norm, x, rows, scratch);

    add_feed_forward(stack, block, x, rows, scratch);
  }
  if (stack->norm.weight) layer_norm(stack->norm, x, stack->d_model, rows, x);
}

/* Decode rows that no other thread has taken, until none is left. */
void regard_decoding_step(StepArguments *step) {
  int64_t thread = __atomic_fetch_add(&step->threads, 1, __ATOMIC_RELAXED), n = step->rows_at_once;
  Scratch scratch = divide_scratch(&step->stack, step->scratch + thread * step->scratch_numbers, n);
  for (;;) {
    int64_t start = __atomic_fetch_add(&step->next_row, n, __ATOMIC_RELAXED);
    if (start >= step->rows) return;
    decode(step, start, start + n < step->rows ? n : step->rows - start, scratch);
  }
}

const char *regard_decoding_step_error(const StepArguments *step) {
  const char *error = stack_error(&step->stack, 1);
  if (error) return error;
  for (int64_t n = 0; n < step->stack.n_blocks; n++)
    if (!step->source_keys || !step->source_values || !step->source_keys[n].vectors || !step->source_values[n].vectors)
      return "source_keys or source_values has a null pointer";
  if (step->rows < 0 || step->rows > step->most_rows) return "rows must be 0 to most_rows";
  if (step->tokens <= 0 || step->tokens > step->most_tokens) return "tokens must be 1 to most_tokens";
  if (step->source_tokens <= 0 || step->sources <= 0) return "sources and source_tokens must be above 0";
  if (!step->parents || !step->buffer || !step->tables || !step->x || !step->queries || !step->scratch)
    return "an array is a null pointer";
  int64_t tokens = step->tokens > step->source_tokens ? step->tokens : step->source_tokens;
  if (step->rows_at_once <= 0 || scratch_of(&step->stack, step->rows_at_once, tokens) > step->scratch_numbers)
    return "rows_at_once must be above 0, and scratch_numbers enough for these rows";
  if (!step->cosines != !step->sines || (step->cosines && (step->pairs < 0 || 2 * step->pairs > step->stack.d_head)))
    return "cosines and sines must both be null or both be set, and 2 * pairs must be at most d_head";
  for (int64_t n = 0; step->lengths && n < step->sources; n++)
    if (step->lengths[n] < 0 || step->lengths[n] > step->source_tokens) return "lengths must be 0 to source_tokens";
  if ((error = embedding_error(&step->embedding, step->newest, step->rows, step->tokens))) return error;
  for (int64_t r = 0; r < step->rows; r++) {
    if (step->parents[r] < 0 || step->parents[r] >= step->most_rows) return "parents must be 0 to most_rows - 1";
    const int64_t *from = table_row(step, step->tokens - 1, step->parents[r]);
    if (from[0] < 0 || from[0] >= step->sources) return "the source of a row must be 0 to sources - 1";
    for (int64_t t = 1; t < step->tokens; t++)
      if (from[t] < 0 || from[t] >= step->most_rows) return "the buffer row of a token must be 0 to most_rows - 1";
  }
  return 0;
}
