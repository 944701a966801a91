/* Checks of the arguments of regard_attention, before any thread reads them. They give an error message for a defect of
   regard's own Python code, which would otherwise make the kernel read or write memory outside the tensors. */

#include "attention.h"
#include "matrix.h"

static int both_or_none(const void *a, const void *b) { return !a == !b; }

/* Return why the statistics cannot be computed, or null if they can. If there is no block, no pointer is checked. */
static const char *statistics_error(const Statistics *s, int64_t n_blocks) {
  if (s->queries < 0 || s->keys_of_head < 0) return "queries or keys_of_head is below 0";
  if (n_blocks <= 0) return 0;
  if (!s->inverse && s->queries > 0) return "inverse is a null pointer";
  if (s->top < 0 || (s->top > 0 && (!s->top_weights || !s->top_keys)))
    return "top is below 0, or top_weights or top_keys is a null pointer";
  if (!both_or_none(s->received.rounded, s->received.error))
    return "received has only one of the pointers rounded and error";
  if (!both_or_none(s->pooled.rounded, s->pooled.error)) return "pooled has only one of the pointers rounded and error";
  if (s->map_rows < 0 || s->map_columns < 0 || !s->map_rows != !s->map_columns)
    return "map_rows or map_columns is below 0, or only one of them is 0";
  if (!s->pooled.rounded || !s->map_rows) return 0;
  if (!s->map_row_of_query || !s->first_key_of_column) return "map_row_of_query or first_key_of_column is a null pointer";
  for (int64_t i = 0; i < s->queries; i++)
    if (s->map_row_of_query[i] < 0 || s->map_row_of_query[i] >= s->map_rows)
      return "map_row_of_query has a row that the map does not have";
  for (int c = 0; c < s->map_columns; c++)
    if (s->first_key_of_column[c] < 0 || s->first_key_of_column[c] > s->first_key_of_column[c + 1])
      return "first_key_of_column is below 0 or descends";
  if (s->first_key_of_column[s->map_columns] > s->keys_of_head) return "first_key_of_column goes past the last key";
  return 0;
}

/* Return the number of floats of scratch memory that a block needs: for the arrays of QueryBlock from `scores` on, for a
   panel of keys or values (see matrix.h), and for 32 unused floats, which a load of a whole register may read. */
static int64_t scratch_of(const Arguments *p, BlockBounds at) {
  const Statistics *s = &p->statistics;
  int64_t parts = at.width ? (at.keys + at.width - 1) / at.width : 0;
  int64_t cells = (at.rows < s->map_rows ? at.rows : s->map_rows) * s->map_columns;
  int64_t panel = (int64_t)PANEL * p->d_key;
  if (p->n_weighted_sums && PANEL * at.width > panel) panel = PANEL * at.width;
  return at.rows * (at.keys + 3 + parts) + 2 * at.width + cells + 32 + panel;
}

static const char *block_error(const Arguments *p, BlockBounds at) {
  const Statistics *s = &p->statistics;
  if (at.batch < 0 || at.batch >= p->batch || at.head < 0 || at.head >= p->heads)
    return "a block has a batch item or a head that does not exist";
  if (at.first_query < 0 || at.rows < 0 || at.rows > s->queries - at.first_query) return "a block goes past the last query";
  if (at.first_key < 0 || at.keys < 0 || at.keys > s->keys_of_head - at.first_key) return "a block goes past the last key";
  if (at.width < 0 || at.width > at.keys || (at.keys > 0 && at.width == 0))
    return "the width of a block (the keys in a part) must be 1 to its number of keys, or 0 if it has no keys";
  /* the offset is an index into `scores` or `computed_masks`; without them, it is not used */
  if ((p->scores || p->computed_masks) && at.offset < 0) return "the offset of a block is below 0";
  if (scratch_of(p, at) > p->scratch_size) return "a block needs more scratch memory than scratch_size";
  return 0;
}

const char *regard_attention_error(const Arguments *p) {
  const char *error = statistics_error(&p->statistics, p->n_blocks);
  if (error) return error;
  if (p->batch < 0 || p->heads <= 0 || p->group <= 0 || p->heads % p->group)
    return "batch is below 0, heads or group is below 1, or heads is not a multiple of group";
  /* whether there are any weights to compute; if not, pointers to empty arrays may be null */
  int weights = p->n_blocks > 0 && p->statistics.queries > 0 && p->statistics.keys_of_head > 0;
  if (p->d_key < 0) return "d_key is below 0";
  if (weights && !p->scores && p->d_key > 0 && (!p->query.numbers || !p->key.numbers))
    return "query or key is a null pointer";
  if (!both_or_none(p->starts, p->stops)) return "only one of starts and stops is a null pointer";
  if (p->n_weighted_sums < 0 || p->n_weighted_sums > 2) return "n_weighted_sums is not 0, 1 or 2";
  for (int n = 0; n < p->n_weighted_sums; n++) {
    const WeightedSum *sum = p->weighted_sums + n;
    if (sum->width < 0) return "the width of a weighted sum is below 0";
    if (weights && sum->width > 0 && (!sum->vectors.numbers || !sum->sums.numbers))
      return "a weighted sum has a null pointer";
  }
  if (p->n_blocks < 0 || (p->n_blocks > 0 && (!p->bounds || !p->scratch)))
    return "n_blocks is below 0, or bounds or scratch is a null pointer";
  for (int64_t n = 0; n < p->n_blocks && !error; n++) error = block_error(p, p->bounds[n]);
  return error;
}
