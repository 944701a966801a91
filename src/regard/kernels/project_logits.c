/* The output projection of a decoder for a few rows: logits = x W^T + b. Each thread computes some logits of all rows, so
   that it reads its part of the weights once. */

#include "blocks.h"

typedef struct {
  Linear layer;       /* n_out need not be a multiple of 16 */
  int64_t rows;
  const float *x;     /* [rows, n_in]: the decoder's output */
  float *logits;      /* [rows, n_out]: output */
  int64_t next_logit; /* counter: the first logit that no thread has taken */
} ProjectionArguments;

#define LOGITS_AT_ONCE 128 /* the number of logits that a thread takes; a multiple of 16 */

/* Compute logits that no other thread has taken, until none is left. */
void regard_project_logits(ProjectionArguments *projection) {
  int64_t n = projection->layer.n_in, n_out = projection->layer.n_out, first;
  while ((first = __atomic_fetch_add(&projection->next_logit, LOGITS_AT_ONCE, __ATOMIC_RELAXED)) < n_out) {
    int64_t end = first + LOGITS_AT_ONCE < n_out ? first + LOGITS_AT_ONCE : n_out;
    Linear part = projection->layer;
    part.bias += first;
    if (part.weight) {
      part.weight += first * n;
      part.n_out = (end - first) / 4 * 4; /* linear_rows computes 4 logits at once; the rest follow below */
    } else {
      part.integers += first * n, part.scales += first, part.corrections += first;
      part.n_out = end - first;
    }
    linear_rows(&part, projection->x, projection->rows, projection->logits + first, n_out);
    for (int64_t o = first + part.n_out; o < end; o++)
      for (int64_t r = 0; r < projection->rows; r++)
        projection->logits[r * n_out + o] =
            dot(projection->x + r * n, projection->layer.weight + o * n, n) + projection->layer.bias[o];
  }
}

const char *regard_project_logits_error(const ProjectionArguments *projection) {
  if (projection->layer.n_in <= 0 || projection->layer.n_in % 16) return "n_in must be a multiple of 16, above 0";
  if (projection->layer.n_out <= 0 || projection->rows < 0) return "n_out must be above 0, and rows at least 0";
  if (!has_parameters(&projection->layer) || !projection->x || !projection->logits)
    return "an array is a null pointer, or there are too many inputs for integers";
  return 0;
}
