/* The encoder for short sources: from their token ids to the keys and values of cross-attention, which every decoding
   step reads. Each thread takes one source after the other through all blocks. */

#include "blocks.h"

typedef struct {
  Stack stack;
  int64_t sources, tokens; /* the number of sources, and of tokens in each source, padding included */
  const int64_t *lengths;  /* [sources]: the number of tokens before the padding; null: no padding */
  Embedding embedding;
  const int64_t *ids;      /* [sources, tokens] */
  float *x;                /* [sources, tokens, d_model]: the encoder's output */
  const Linear *layers;    /* [n_layers]: the key and the value layer of each cross-attention, all with `width` outputs */
  int64_t n_layers;
  float *memory;  /* [n_layers, sources, tokens, width]: output, keys and values; not written for padding */
  float *scratch; /* [threads, scratch_numbers] */
  int64_t scratch_numbers;
  int64_t next_source; /* counter: the first source that no thread has taken */
  int64_t threads;     /* counter: the threads that have begun */
} EncodeArguments;

static void self_attention(const Stack *stack, int64_t tokens, Scratch scratch) {
  int64_t d = stack->d_head, row = 0;
  Tokens attended = {&row, 0, tokens}; /* stride 0: all tokens are in row 0, the thread's only source */
  TokenVectors key = {scratch.key, 0, d, stack->key_heads * d}, value = {scratch.value, 0, d, stack->key_heads * d};
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t h = 0; h < stack->heads; h++)
      attend(d, scratch.query + (t * stack->heads + h) * d, key, value, h * stack->key_heads / stack->heads, attended,
             scratch.scores, scratch.context + (t * stack->heads + h) * d);
}

static void encode(const EncodeArguments *encoding, int64_t source, Scratch scratch) {
  const Stack *stack = &encoding->stack;
  int64_t first = source * encoding->tokens, tokens = encoding->lengths ? encoding->lengths[source] : encoding->tokens;
  float *x = encoding->x + first * stack->d_model;
  for (int64_t t = 0; t < tokens; t++)
    embed(&encoding->embedding, encoding->ids[first + t], t, stack->d_model, x + t * stack->d_model);
  for (const Block *block = stack->blocks; block < stack->blocks + stack->n_blocks; block++) {
    project(stack, block, x, tokens, scratch);
    self_attention(stack, tokens, scratch);
    add_attention(stack, &block->self_attention_output, block->self_attention_norm, x, tokens, scratch);
    add_feed_forward(stack, block, x, tokens, scratch);
  }
  if (stack->norm.weight) layer_norm(stack->norm, x, stack->d_model, tokens, x);
  for (int64_t n = 0; n < encoding->n_layers; n++)
    linear(encoding->layers + n, x, tokens,
           encoding->memory + (n * encoding->sources * encoding->tokens + first) * encoding->layers->n_out);
}

/* Encode sources that no other thread has taken, until none is left. */
void regard_encode(EncodeArguments *encoding) {
  int64_t thread = __atomic_fetch_add(&encoding->threads, 1, __ATOMIC_RELAXED), source;
  float *memory = encoding->scratch + thread * encoding->scratch_numbers;
  Scratch scratch = divide_scratch(&encoding->stack, memory, encoding->tokens);
  while ((source = __atomic_fetch_add(&encoding->next_source, 1, __ATOMIC_RELAXED)) < encoding->sources)
    encode(encoding, source, scratch);
}

const char *regard_encode_error(const EncodeArguments *encoding) {
  const char *error = stack_error(&encoding->stack, 0);
  if (error) return error;
  if (encoding->sources < 0 || encoding->tokens <= 0) return "sources must be at least 0, and tokens above 0";
  if (encoding->n_layers <= 0 || !encoding->layers || !encoding->x || !encoding->memory || !encoding->scratch)
    return "an array is a null pointer";
  for (int64_t n = 0; n < encoding->n_layers; n++)
    if (!fits(encoding->layers + n, encoding->stack.d_model, encoding->layers->n_out))
      return "the key and value layers must have d_model inputs, and all the same number of outputs";
  if (scratch_of(&encoding->stack, encoding->tokens, encoding->tokens) > encoding->scratch_numbers)
    return "scratch_numbers must be enough for the tokens of a source";
  for (int64_t n = 0; encoding->lengths && n < encoding->sources; n++)
    if (encoding->lengths[n] < 0 || encoding->lengths[n] > encoding->tokens) return "lengths must be 0 to tokens";
  return embedding_error(&encoding->embedding, encoding->ids, encoding->sources * encoding->tokens, encoding->tokens);
}
