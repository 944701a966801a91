/* Return how many of the x86-64 levels in `LEVELS` (build.py) the processor and the system support, from the lowest on; 0
   on other architectures, which have only one library. Python calls this function in the library of the lowest level. */
int regard_processor_level(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!(__builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
        __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")))
    return 0;
  if (!(__builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")))
    return 1;
  if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")))
    return 2;
  if (!__builtin_cpu_supports("avx512vnni")) return 3;
  return 4;
#else
  return 0;
#endif
}
