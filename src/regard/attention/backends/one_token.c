/* What one query of each row reads from tokens that may lie in other rows, as those of a beam's hypotheses do.

       scores   s_t = scale * query . key_t
       weights  e_t = exp(s_t - max s)
       context      = sum of e_t value_t / sum of e_t

   A row and head is some thousand operations: they are done where the numbers lie, without copying them together. */

#include "../lanes.h"

#define AT_ONCE 8 /* rows that a thread takes */

/* Where vectors lie: of a place, a head, a token, so many numbers behind the first. */
typedef struct {
  const float *numbers;
  int64_t place, head, token;
} Vectors;

typedef struct {
  int64_t rows, heads, key_heads, width; /* of a vector, a multiple of 16 */
  int64_t tokens;                        /* that a row has at most */
  float scale;
  Vectors query, key, value;
  const int64_t *places; /* where each token of each row lies, as places_row and places_token say */
  int64_t places_row, places_token;
  const int64_t *lengths; /* [rows], or null */
  float *scores;          /* [threads, tokens and 16 more] */
  float *context;         /* [rows heads width] */
  int64_t next;           /* the first row that nobody has taken */
  int64_t threads;        /* that have begun */
} Call;

static inline const float *vector(Vectors of, int64_t place, int64_t head, int64_t token) {
  return of.numbers + place * of.place + head * of.head + token * of.token;
}

/* Scores to weights e; gives 1 / their sum, 0 for a row without tokens. */
static float softmax(float *scores, int tokens) {
  wide largest = all(-INFINITY), total = all(0);
  for (int t = tokens; t % WIDE; t++) scores[t] = -INFINITY;
  for (int t = 0; t < tokens; t += WIDE) {
    wide s = load(scores + t);
    largest = choose(s > largest, s, largest);
  }
  float shift = largest_of(largest);
  for (int t = 0; t < tokens; t += WIDE) {
    wide e = exp_or_0_of(load(scores + t) - shift);
    store(scores + t, e);
    total += e;
  }
  return tokens ? 1 / sum_of(total) : 0.0f;
}

static void read_row(const Call *c, int64_t row, int64_t head, float *scores) {
  const float *query = vector(c->query, row, head, 0);
  const int64_t *places = c->places + row * c->places_row;
  float *context = c->context + (row * c->heads + head) * c->width;
  int tokens = (int)(c->lengths ? c->lengths[row] : c->tokens);
  int64_t key_head = head * c->key_heads / c->heads;
  for (int t = 0; t < tokens; t++) {
    const float *key = vector(c->key, places[t * c->places_token], key_head, t);
    wide sum = all(0);
    for (int i = 0; i < c->width; i += WIDE) sum += load(query + i) * load(key + i);
    scores[t] = sum_of(sum) * c->scale;
  }
  float inverse = softmax(scores, tokens);
  for (int i = 0; i < c->width; i += 2 * WIDE) { /* two sums side by side: each waits for itself */
    int second = i + WIDE < c->width ? WIDE : 0;
    wide a = all(0), b = a;
    for (int t = 0; t < tokens; t++) {
      const float *value = vector(c->value, places[t * c->places_token], key_head, t) + i;
      a += load(value) * scores[t];
      b += load(value + second) * scores[t];
    }
    store(context + i, a * inverse);
    store(context + i + second, (second ? b : a) * inverse);
  }
}

/* Read rows until none is left; several threads may, and the result does not depend on which takes what. */
void regard_one_token(Call *c) {
  float *scores = c->scores + __atomic_fetch_add(&c->threads, 1, __ATOMIC_RELAXED) * (c->tokens + WIDE);
  for (;;) {
    int64_t start = __atomic_fetch_add(&c->next, AT_ONCE, __ATOMIC_RELAXED);
    int64_t stop = start + AT_ONCE < c->rows ? start + AT_ONCE : c->rows;
    if (start >= c->rows) return;
    for (int64_t head = 0; head < c->heads; head++)
      for (int64_t row = start; row < stop; row++) read_row(c, row, head, scores);
  }
}
