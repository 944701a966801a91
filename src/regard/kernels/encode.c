/* The encoder for a few short sources, and the keys and values of cross-attention: from the embeddings of the sources to what
   every decoding step reads. Each thread takes one source after the other through all blocks. */

#include "blocks.h"

typedef struct {
  Stack stack;
  int64_t sources, tokens; /* the number of sources, and of tokens in each source, padding included */
  const int64_t *lengths;  /* [sources]: the number of tokens before the padding; null: no padding */
  float *x;                /* [sources, tokens, d_model]: input, the embeddings; overwritten by the encoder's output */
  const Linear *layers;    /* [n_layers]: the key layer and the value layer of each cross-attention; equally wide */
  int64_t n_layers;
  float *memory;  /* [n_layers, sources, tokens, width]: output, not written for padding */
  float *scratch; /* [threads, scratch_numbers] */
  int64_t scratch_numbers;
  int64_t next_source; /* counter: the first source that no thread has taken */
  int64_t threads;     /* counter: the threads that have begun */
} EncodeArguments;

static void self_attention(const Stack *c, int64_t tokens, Scratch s) {
  int64_t d = c->d_head, row = 0;
  Vectors key = {s.key, 0, d, c->key_heads * d}, value = {s.value, 0, d, c->key_heads * d};
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t h = 0; h < c->heads; h++)
      attend(d, s.query + (t * c->heads + h) * d, key, value, h * c->key_heads / c->heads, &row, 0, tokens, s.scores,
             s.context + (t * c->heads + h) * d);
}

static void encode(const EncodeArguments *c, int64_t source, Scratch s) {
  const Stack *stack = &c->stack;
  int64_t first = source * c->tokens, tokens = c->lengths ? c->lengths[source] : c->tokens;
  float *x = c->x + first * stack->d_model;
  for (const Block *block = stack->blocks; block < stack->blocks + stack->n_blocks; block++) {
    project(stack, block, x, tokens, s);
    self_attention(stack, tokens, s);
    add_attention(stack, &block->self_attention_output, block->self_attention_norm, x, tokens, s);
    add_feed_forward(stack, block, x, tokens, s);
  }
  if (stack->norm.weight) layer_norm(stack->norm, x, stack->d_model, tokens, x);
  for (int64_t n = 0; n < c->n_layers; n++)
    linear(c->layers + n, x, tokens, c->memory + (n * c->sources * c->tokens + first) * c->layers->n_out);
}

/* Encode sources that no other thread has taken, until none is left. Several threads may call this with the same arguments;
   the results do not depend on which thread takes which source. */
void regard_encode(EncodeArguments *c) {
  int64_t thread = __atomic_fetch_add(&c->threads, 1, __ATOMIC_RELAXED), source;
  Scratch s = divided(&c->stack, c->scratch + thread * c->scratch_numbers, c->tokens);
  while ((source = __atomic_fetch_add(&c->next_source, 1, __ATOMIC_RELAXED)) < c->sources) encode(c, source, s);
}

/* Return why regard_encode cannot compute its arguments, or null if it can. */
const char *regard_encode_error(const EncodeArguments *c) {
  const char *error = stack_error(&c->stack, 0);
  if (error) return error;
  if (c->sources < 0 || c->tokens <= 0) return "there are no tokens";
  if (c->n_layers <= 0 || !c->layers || !c->x || !c->memory || !c->scratch) return "an array is a null pointer";
  for (int64_t n = 0; n < c->n_layers; n++)
    if (!fits(c->layers + n, c->stack.d_model, c->layers->n_out)) return "a key or value layer does not fit";
  if (scratch_of(&c->stack, c->tokens, c->tokens) > c->scratch_numbers) return "scratch_numbers is too small";
  for (int64_t n = 0; c->lengths && n < c->sources; n++)
    if (c->lengths[n] < 0 || c->lengths[n] > c->tokens) return "the length of a source is below 0 or above tokens";
  return 0;
}
