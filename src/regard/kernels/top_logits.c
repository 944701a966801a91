/* The likeliest tokens of each row and their log-probabilities.

       log p_i = x_i - max x - log(sum over j of exp(x_j - max x))

   A search wants some five of a vocabulary's ten thousand: the others' log-probabilities are never written down. */

#include "lanes.h"

#define AT_ONCE 4          /* rows that a thread takes */
#define STRETCH (4 * WIDE) /* numbers that are compared at once with the least of those found */

typedef struct {
  int64_t rows, vocabulary, row; /* row: from one to the next */
  int64_t n;                     /* tokens that are wanted of each */
  int64_t never[2];              /* tokens that are not wanted of any */
  const float *logits;
  double *log_probabilities; /* [rows n], likeliest first; where there are no more tokens, -inf */
  int64_t *tokens;           /* [rows n]; where there are no more tokens, 0 */
  int64_t next;              /* the first row that nobody has taken */
} Call;

/* Put a token where it belongs among those found; of equal ones the first stays before. */
static void insert(const Call *c, float logit, int64_t token, float *found, int64_t *tokens) {
  if (!(logit > found[c->n - 1]) || token == c->never[0] || token == c->never[1]) return;
  int64_t place = c->n - 1;
  for (; place && logit > found[place - 1]; place--) {
    found[place] = found[place - 1];
    tokens[place] = tokens[place - 1];
  }
  found[place] = logit;
  tokens[place] = token;
}

static inline wide larger_of(wide a, wide b) { return choose(a > b, a, b); }

/* The logits of the likeliest tokens, and the largest of all. */
static float find(const Call *c, const float *logits, float *found, int64_t *tokens) {
  float largest = -INFINITY;
  int64_t start = 0;
  for (int64_t place = 0; place < c->n; place++) found[place] = -INFINITY, tokens[place] = 0;
  for (; start + STRETCH <= c->vocabulary; start += STRETCH) {
    const float *x = logits + start;
    wide a = larger_of(load(x), load(x + WIDE)), b = larger_of(load(x + 2 * WIDE), load(x + 3 * WIDE));
    float most = largest_of(larger_of(a, b));
    largest = larger(most, largest);
    if (most > found[c->n - 1])
      for (int64_t i = 0; i < STRETCH; i++) insert(c, x[i], start + i, found, tokens);
  }
  for (; start < c->vocabulary; start++) {
    largest = larger(logits[start], largest);
    insert(c, logits[start], start, found, tokens);
  }
  return largest;
}

static double log_of_sum(const float *logits, int64_t vocabulary, float largest) {
  wide sums[2] = {all(0), all(0)}; /* side by side: each waits for itself */
  int64_t start = 0;
  for (; start + 2 * WIDE <= vocabulary; start += 2 * WIDE) {
    sums[0] += exp_or_0_of(load(logits + start) - largest);
    sums[1] += exp_or_0_of(load(logits + start + WIDE) - largest);
  }
  double sum = sum_of(sums[0] + sums[1]);
  for (; start < vocabulary; start++) sum += exp((double)logits[start] - largest);
  return log(sum);
}

/* Do rows until none is left; several threads may. */
void regard_likeliest(Call *c) {
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next, AT_ONCE, __ATOMIC_RELAXED);
    int64_t stop = start + AT_ONCE < c->rows ? start + AT_ONCE : c->rows;
    if (start >= c->rows) return;
    for (int64_t row = start; row < stop; row++) {
      const float *logits = c->logits + row * c->row;
      double *log_probabilities = c->log_probabilities + row * c->n;
      float found[c->n];
      float largest = find(c, logits, found, c->tokens + row * c->n);
      double below = log_of_sum(logits, c->vocabulary, largest);
      for (int64_t i = 0; i < c->n; i++) log_probabilities[i] = (double)found[i] - largest - below;
    }
  }
}
