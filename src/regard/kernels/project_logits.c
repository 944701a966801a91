/* The output projection of a decoder for a few rows: logits = x W^T + b. Each thread computes some logits of all rows, so that
   it reads its part of the weights once. */

#include "blocks.h"

typedef struct {
  Linear layer;         /* its n_out may be any number */
  int64_t rows;         /* the number of rows */
  const float *x;       /* [rows, n_in]: the decoder's output */
  float *logits;        /* [rows, n_out]: output */
  int64_t next_logit;   /* counter: the first logit that no thread has taken */
} ProjectionArguments;

#define LOGITS_AT_ONCE 128 /* the number of logits that a thread takes; a multiple of 4 */

/* Compute logits that no other thread has taken, until none is left. Several threads may call this with the same arguments;
   the results do not depend on which thread computes which logits. */
void regard_project_logits(ProjectionArguments *c) {
  int64_t n = c->layer.n_in, n_out = c->layer.n_out, first;
  while ((first = __atomic_fetch_add(&c->next_logit, LOGITS_AT_ONCE, __ATOMIC_RELAXED)) < n_out) {
    int64_t end = first + LOGITS_AT_ONCE < n_out ? first + LOGITS_AT_ONCE : n_out, by_four = first + (end - first) / 4 * 4;
    Linear part = {c->layer.weight + first * n, c->layer.bias + first, n, by_four - first};
    linear_rows(&part, c->x, c->rows, c->logits + first, n_out);
    for (int64_t o = by_four; o < end; o++)
      for (int64_t r = 0; r < c->rows; r++)
        c->logits[r * n_out + o] = dot(c->x + r * n, c->layer.weight + o * n, n) + c->layer.bias[o];
  }
}

/* Return why regard_project_logits cannot compute its arguments, or null if it can. */
const char *regard_project_logits_error(const ProjectionArguments *c) {
  if (c->layer.n_in <= 0 || c->layer.n_in % 16 || c->layer.n_out <= 0 || c->rows < 0) return "a size does not fit";
  if (!c->layer.weight || !c->layer.bias || !c->x || !c->logits) return "an array is a null pointer";
  return 0;
}
