/* A projection of a few rows; each thread takes some outputs of all of them. */

#include "product.h"

#define AT_ONCE 64 /* outputs that a thread takes */

typedef struct {
  Projection of;
  int64_t rows;
  const float *x; /* [rows, n_in] */
  float *out;     /* [rows, n_out] */
  int64_t next;   /* the first output that nobody has taken */
} Call;

void regard_linear(Call *c) {
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next, AT_ONCE, __ATOMIC_RELAXED);
    int64_t stop = start + AT_ONCE < c->of.n_out ? start + AT_ONCE : c->of.n_out;
    if (start >= c->of.n_out) return;
    project(&c->of, c->x, c->rows, start, stop, c->out);
  }
}
