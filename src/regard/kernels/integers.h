/* Products of vectors with weights that are 8-bit integers. A sum of integers does not depend on their order, so the
   results of all processors have the same bits. */

#pragma once

#include "lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MOST_INPUTS 65536 /* a sum of more products, each up to 255 * 127, may overflow an int32 */

typedef int16_t pairs __attribute__((vector_size(4 * WIDE)));

/* Return, in each 32-bit lane, the sum of the products of its two 16-bit numbers. */
static inline lanes sum_of_two_products(lanes a, lanes b) {
#if WIDE == 16 && defined(__AVX512BW__)
  return (lanes)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif WIDE == 8 && defined(__AVX2__)
  return (lanes)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif WIDE == 4 && defined(__SSE2__)
  return (lanes)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* Add to each 32-bit lane the four products of its bytes: x has unsigned bytes, w signed ones. */
static inline lanes add_four_products(lanes sums, lanes x, lanes w) {
#if WIDE == 16 && defined(__AVX512VNNI__)
  return (lanes)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);
#else
  const pairs byte = (pairs){0} + (int16_t)8;
  /* the signed bytes of each lane of w as 16-bit numbers: bytes 0 and 2 in `even`, bytes 1 and 3 in `odd` */
  lanes even = (lanes)((pairs)w << byte >> byte), odd = (lanes)((pairs)w >> byte);
  return sums + sum_of_two_products(x & 0x00ff00ff, even) + sum_of_two_products(x >> 8 & 0x00ff00ff, odd);
#endif
}

/* Quantise n numbers: write round(x / scale) + 128 as bytes, and return the scale, max |x| / 127. If a number is infinite or
   NaN, the scale is NaN, so that all products are NaN. */
static float quantise(const float *x, int64_t n, uint8_t *bytes) {
  union {
    int32_t bits; /* the bits of |x|, compared as integers: a larger |x| has larger bits, and NaN the largest */
    float number;
  } largest = {0};
  for (int64_t i = 0; i < n; i++) {
    int32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffff;
    largest.bits = bits > largest.bits ? bits : largest.bits;
  }
  if (largest.number < 1e-30f || largest.bits >= 0x7f800000) {
    memset(bytes, 128, n); /* write n zeros, because 127 / max |x| may overflow, or max |x| is not finite */
    return largest.number * 0;
  }
  float inverse = 127 / largest.number;
  for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)((int32_t)rintf(x[i] * inverse) + 128);
  return largest.number / 127;
}
