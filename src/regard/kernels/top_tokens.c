/* The most probable next tokens of a few rows of logits. Each thread takes one row after the other. */

#include "lanes.h"

typedef struct {
  const float *logits; /* [rows, vocabulary] */
  int64_t rows, vocabulary;
  const int64_t *forbidden; /* [n_forbidden]: the ids of tokens that are never chosen */
  int64_t n_forbidden;
  int64_t n;                /* the number of tokens to choose in each row */
  float *log_probabilities; /* [rows, n]: output, the largest first; -infinity if fewer than n tokens are allowed */
  int64_t *tokens;          /* [rows, n]: output, their ids; where the log-probability is -infinity, a meaningless id */
  int64_t next_row;         /* counter: the first row that no thread has taken */
} TopTokensArguments;

#define BLOCK (4 * WIDE) /* the number of logits that are compared at once with the smallest logit chosen so far */

static inline wide larger_of(wide a, wide b) { return choose(b > a, b, a); }

/* Put a token among the n tokens with the largest logits, if it is one of them and is allowed. */
static void insert(const TopTokensArguments *choice, int64_t token, float logit, float *largest, int64_t *tokens) {
  int64_t at = choice->n - 1;
  if (!(logit > largest[at])) return;
  for (int64_t i = 0; i < choice->n_forbidden; i++)
    if (token == choice->forbidden[i]) return;
  for (; at > 0 && logit > largest[at - 1]; at--) largest[at] = largest[at - 1], tokens[at] = tokens[at - 1];
  largest[at] = logit, tokens[at] = token;
}

/* Return log(sum of exp(logit)); NaN if a logit is NaN. `largest`: the largest logit, subtracted to avoid overflow. */
static float log_sum_exp(const float *logits, int64_t n, float largest) {
  double total = 0;
  int64_t vectorised = n / WIDE * WIDE; /* the number of logits in whole registers */
  for (int64_t start = 0; start < vectorised; start += MOST_TERMS * WIDE) {
    int64_t end = start + MOST_TERMS * WIDE < vectorised ? start + MOST_TERMS * WIDE : vectorised;
    wide sum = broadcast(0);
    for (int64_t t = start; t < end; t += WIDE) sum += exp_or_0_of(load(logits + t) - largest);
    total += sum_of(sum);
  }
  for (int64_t t = vectorised; t < n; t++) total += expf(logits[t] - largest);
  return largest + (float)log(total);
}

/* Write the n most probable tokens of a row of logits, and their log-probabilities. */
static void choose_tokens(const TopTokensArguments *choice, const float *logits, float *chosen, int64_t *tokens) {
  int64_t t = 0;
  wide largest = broadcast(-INFINITY);
  for (int64_t i = 0; i < choice->n; i++) chosen[i] = -INFINITY, tokens[i] = 0;
  for (; t + BLOCK <= choice->vocabulary; t += BLOCK) {
    const float *block = logits + t;
    wide block_maxima = larger_of(larger_of(load(block), load(block + WIDE)),
                                   larger_of(load(block + 2 * WIDE), load(block + 3 * WIDE)));
    largest = larger_of(largest, block_maxima);
    if (largest_of(block_maxima) > chosen[choice->n - 1])
      for (int64_t i = 0; i < BLOCK; i++) insert(choice, t + i, block[i], chosen, tokens);
  }
  float shift = largest_of(largest);
  for (; t < choice->vocabulary; t++) {
    shift = larger(logits[t], shift);
    insert(choice, t, logits[t], chosen, tokens);
  }
  float total = log_sum_exp(logits, choice->vocabulary, shift);
  for (int64_t i = 0; i < choice->n; i++) chosen[i] -= total;
}

/* Choose the tokens of rows that no other thread has taken, until none is left. Several threads may call this with the same
   arguments. */
void regard_top_tokens(TopTokensArguments *choice) {
  int64_t row, n = choice->n;
  while ((row = __atomic_fetch_add(&choice->next_row, 1, __ATOMIC_RELAXED)) < choice->rows)
    choose_tokens(choice, choice->logits + row * choice->vocabulary, choice->log_probabilities + row * n,
                  choice->tokens + row * n);
}

/* Return why regard_top_tokens cannot run with these arguments, or null if it can. */
const char *regard_top_tokens_error(const TopTokensArguments *choice) {
  if (choice->rows < 0 || choice->n_forbidden < 0) return "rows and n_forbidden must be at least 0";
  if (choice->vocabulary <= 0 || choice->n <= 0) return "vocabulary and n must be above 0";
  if (!choice->logits || !choice->forbidden || !choice->log_probabilities || !choice->tokens)
    return "an array is a null pointer";
  return 0;
}
