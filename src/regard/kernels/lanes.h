/* Vector registers of WIDE float32 numbers. A register of the processor has room for WIDE numbers or more, because wider
   types compile to very slow code. */

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(WIDE) /* the tests set WIDE to 4, 8 or 16 */
#elif defined(__AVX512F__)
#define WIDE 16
#elif defined(__AVX__)
#define WIDE 8
#else
#define WIDE 4
#endif

#define MOST_TERMS 256 /* a longer sum is computed as a sum of sums of this many numbers, to keep rounding errors small */

#define SMALLEST_EXPONENT -87.0f /* exp of a smaller number is below the smallest normal float32, and counts as 0 */

typedef float wide __attribute__((vector_size(4 * WIDE)));
typedef float unaligned_wide __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t lanes __attribute__((vector_size(4 * WIDE))); /* the type of a comparison of two `wide`: -1 true, 0 false */
typedef int32_t unaligned_lanes __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16)));
typedef int32_t four_lanes __attribute__((vector_size(16)));
typedef float unaligned_four __attribute__((vector_size(16), aligned(4), may_alias));

static inline wide load(const float *from) { return *(const unaligned_wide *)from; }
static inline void store(float *to, wide numbers) { *(unaligned_wide *)to = numbers; }
static inline void store_first(float *to, wide numbers, int n) {
  if (n >= WIDE)
    store(to, numbers);
  else if (n > 0)
    memcpy(to, &numbers, n * sizeof(float));
}
static inline wide broadcast(float number) { return (wide){} + number; }
/* Return `yes` in the lanes in which all bits of `where` are set, and `no` in the lanes in which no bit is set. */
static inline wide select_lanes(lanes where, wide yes, wide no) {
  return (wide)(((lanes)yes & where) | ((lanes)no & ~where));
}

/* KEEP_IN_REGISTER(numbers): else compilers load the numbers from memory again for every product. */
#if defined(__AVX512F__)
#define KEEP_IN_REGISTER(numbers) __asm__("" : "+v"(numbers))
#elif defined(__AVX__) && WIDE <= 8
#define KEEP_IN_REGISTER(numbers) __asm__("" : "+x"(numbers))
#elif defined(__aarch64__)
#define KEEP_IN_REGISTER(numbers) __asm__("" : "+w"(numbers))
#else
#define KEEP_IN_REGISTER(numbers)
#endif

/* Return a mask: all bits are set in the first n lanes, and no bit in the other lanes. The mask selects the last numbers of
   a row that ends within a register. The whole register is loaded and stored, and the numbers past the end of the row are
   stored unchanged, so no other thread may write to these numbers. */
static inline lanes first_lanes(int n) {
  static const int32_t lane_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return *(const unaligned_lanes *)lane_numbers < n;
}

#define GROUP(n, i, j, k, l) n + i, n + j, WIDE + n + k, WIDE + n + l
#if WIDE == 16
#define GROUPS(...) GROUP(0, __VA_ARGS__), GROUP(4, __VA_ARGS__), GROUP(8, __VA_ARGS__), GROUP(12, __VA_ARGS__)
#elif WIDE == 8
#define GROUPS(...) GROUP(0, __VA_ARGS__), GROUP(4, __VA_ARGS__)
#else
#define GROUPS(...) GROUP(0, __VA_ARGS__)
#endif
/* SHUFFLE(a, b, i, j, k, l) returns four of the eight numbers in the registers a and b: those with the indices i, j, k, l.
   SHUFFLE_FOURS(a, b, i, j, k, l) takes wide registers and returns, for each group of four lanes: number i of the group in
   a, number j in a, number k in b, number l in b. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define SHUFFLE_FOURS(a, b, ...) __builtin_shufflevector(a, b, GROUPS(__VA_ARGS__))
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (four_lanes){__VA_ARGS__})
#define SHUFFLE_FOURS(a, b, ...) __builtin_shuffle(a, b, (lanes){GROUPS(__VA_ARGS__)})
#endif

/* Return four partial sums of a register: sum i is the sum of the numbers i, i + 4, i + 8, ... */
static inline four folded(wide numbers) {
#if WIDE == 4
  return numbers;
#else
  typedef float eight __attribute__((vector_size(32)));
#if WIDE == 16
  union {
    wide whole;
    eight half[2];
  } of_16 = {numbers};
  eight numbers_8 = of_16.half[0] + of_16.half[1];
#else
  eight numbers_8 = numbers;
#endif
  union {
    eight whole;
    four half[2];
  } of_8 = {numbers_8};
  return of_8.half[0] + of_8.half[1];
#endif
}

static inline float sum_of_lanes(wide numbers) {
  four sums = folded(numbers);
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/* Return four sums: of the numbers in a, in b, in c and in d. */
static inline four sums_of_lanes(wide a, wide b, wide c, wide d) {
  wide ab = SHUFFLE_FOURS(a, b, 0, 1, 0, 1) + SHUFFLE_FOURS(a, b, 2, 3, 2, 3);
  wide cd = SHUFFLE_FOURS(c, d, 0, 1, 0, 1) + SHUFFLE_FOURS(c, d, 2, 3, 2, 3);
  return folded(SHUFFLE_FOURS(ab, cd, 0, 2, 0, 2) + SHUFFLE_FOURS(ab, cd, 1, 3, 1, 3));
}

/* Return the larger of two numbers; b if one of them is NaN. */
static inline float maximum(float a, float b) { return a > b ? a : b; }

static inline float maximum_of_lanes(wide numbers) {
  union {
    wide whole;
    four part[WIDE / 4];
  } parts_of = {numbers};
  for (int n = WIDE / 8; n; n /= 2) /* reduce 2 n parts to n: part i becomes the maxima of the parts i and i + n */
    for (int i = 0; i < n; i++) {
      four a = parts_of.part[i], b = parts_of.part[i + n];
      parts_of.part[i] = (four)(((four_lanes)a & (a > b)) | ((four_lanes)b & ~(a > b)));
    }
  four maxima = parts_of.part[0];
  return maximum(maximum(maxima[0], maxima[1]), maximum(maxima[2], maxima[3]));
}

/* Return exp(x) for x in [SMALLEST_EXPONENT, 88]: 2^k times a polynomial (Cephes' expf), within 2 units in the last
   place. */
static inline wide exp_of(wide x) {
  const wide shifter = broadcast(12582912.0f); /* 1.5 * 2^23: adding it puts the nearest integer into the low bits */
  wide shifted = x * 1.44269504f + shifter, k = shifted - shifter;
  wide f = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  wide p = broadcast(1.9875691500e-4f);
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  return p * (wide)(((lanes)shifted << 23) + 0x3f800000);
}

/* Return exp(x) for x up to 88, and 0 for x below SMALLEST_EXPONENT. */
static inline wide exp_or_0_of(wide x) {
  lanes too_small = x < SMALLEST_EXPONENT;
  return (wide)((lanes)exp_of(select_lanes(too_small, broadcast(SMALLEST_EXPONENT), x)) & ~too_small);
}

/* Return tanh(x), within 2 units in the last place (Cephes' tanhf). */
static inline wide tanh_of(wide x) {
  wide absolute = select_lanes(x < 0.0f, -x, x), square = x * x;
  wide p = broadcast(-5.70498872745e-3f);
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  p = p * square * x + x;
  /* tanh |x| for |x| above 0.625: 1 - 2 / (exp(2 |x|) + 1); for smaller |x|, the polynomial p is used */
  wide beyond = 1.0f - 2.0f / (exp_of(select_lanes(absolute > 20.0f, broadcast(40.0f), absolute + absolute)) + 1.0f);
  return select_lanes(absolute > 0.625f, select_lanes(x < 0.0f, -beyond, beyond), p);
}
