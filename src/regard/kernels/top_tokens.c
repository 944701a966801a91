/* The most probable next tokens of a few rows of logits, and their log-probabilities. Forbidden tokens are never chosen,
   but the softmax includes them. Each thread takes one row after the other. */

#include "lanes.h"

typedef struct {
  const float *logits; /* [rows, vocabulary] */
  int64_t rows, vocabulary;
  const int64_t *forbidden; /* [n_forbidden]: the ids of tokens that are never chosen */
  int64_t n_forbidden;
  int64_t n;                /* the number of tokens to choose in each row */
  float *log_probabilities; /* [rows, n]: output, the largest first; -infinity if fewer than n tokens are allowed */
  int64_t *tokens;          /* [rows, n]: output, the ids of the chosen tokens; undefined if log-probability is -infinity */
  int64_t next_row;         /* counter: the first row that no thread has taken */
} TopTokensArguments;

#define BLOCK (4 * WIDE) /* the number of logits that are compared at once with the smallest logit chosen so far */

static inline wide maxima(wide a, wide b) { return select_lanes(b > a, b, a); }

/* Put a token among the n tokens chosen so far, if its logit is larger than one of theirs and it is not forbidden.
   chosen: the logits of the chosen tokens, the largest first. */
static void insert(const TopTokensArguments *arguments, int64_t token, float logit, float *chosen, int64_t *tokens) {
  int64_t at = arguments->n - 1;
  if (!(logit > chosen[at])) return;
  for (int64_t i = 0; i < arguments->n_forbidden; i++)
    if (token == arguments->forbidden[i]) return;
  for (; at > 0 && logit > chosen[at - 1]; at--) {
    chosen[at] = chosen[at - 1];
    tokens[at] = tokens[at - 1];
  }
  chosen[at] = logit;
  tokens[at] = token;
}

/* Return log(sum of exp(logit)); NaN if a logit is NaN. `largest`: the largest logit, subtracted to avoid overflow. */
static float log_sum_exp(const float *logits, int64_t n, float largest) {
  double total = 0;
  int64_t vectorised = n / WIDE * WIDE; /* n, rounded down to a multiple of WIDE */
  for (int64_t start = 0; start < vectorised; start += MOST_TERMS * WIDE) {
    int64_t end = start + MOST_TERMS * WIDE < vectorised ? start + MOST_TERMS * WIDE : vectorised;
    wide sum = broadcast(0);
    for (int64_t t = start; t < end; t += WIDE) sum += exp_or_0_of(load(logits + t) - largest);
    total += sum_of_lanes(sum);
  }
  for (int64_t t = vectorised; t < n; t++) total += expf(logits[t] - largest);
  return largest + (float)log(total);
}

static void top_tokens_of_row(const TopTokensArguments *arguments, const float *logits, float *chosen, int64_t *tokens) {
  int64_t t = 0;
  wide largest_in_lane = broadcast(-INFINITY);
  for (int64_t i = 0; i < arguments->n; i++) {
    chosen[i] = -INFINITY;
    tokens[i] = 0;
  }
  for (; t + BLOCK <= arguments->vocabulary; t += BLOCK) {
    const float *block = logits + t;
    wide block_maxima = maxima(maxima(load(block), load(block + WIDE)),
                               maxima(load(block + 2 * WIDE), load(block + 3 * WIDE)));
    largest_in_lane = maxima(largest_in_lane, block_maxima);
    if (maximum_of_lanes(block_maxima) > chosen[arguments->n - 1])
      for (int64_t i = 0; i < BLOCK; i++) insert(arguments, t + i, block[i], chosen, tokens);
  }
  float largest = maximum_of_lanes(largest_in_lane);
  for (; t < arguments->vocabulary; t++) {
    largest = maximum(logits[t], largest);
    insert(arguments, t, logits[t], chosen, tokens);
  }
  float total = log_sum_exp(logits, arguments->vocabulary, largest);
  for (int64_t i = 0; i < arguments->n; i++) chosen[i] -= total;
}

/* Take rows that no other thread has taken, and choose their tokens, until all rows are taken. */
void regard_top_tokens(TopTokensArguments *arguments) {
  int64_t row, n = arguments->n;
  while ((row = __atomic_fetch_add(&arguments->next_row, 1, __ATOMIC_RELAXED)) < arguments->rows)
    top_tokens_of_row(arguments, arguments->logits + row * arguments->vocabulary, arguments->log_probabilities + row * n,
                      arguments->tokens + row * n);
}

const char *regard_top_tokens_error(const TopTokensArguments *arguments) {
  if (arguments->rows < 0 || arguments->n_forbidden < 0) return "rows and n_forbidden must be at least 0";
  if (arguments->vocabulary <= 0 || arguments->n <= 0) return "vocabulary and n must be above 0";
  if (!arguments->logits || !arguments->forbidden || !arguments->log_probabilities || !arguments->tokens)
    return "an array is a null pointer";
  return 0;
}
