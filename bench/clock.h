/* clock.h - the clock of the benchmarks, in nanoseconds. */
#ifndef IDEM_BENCH_CLOCK_H
#define IDEM_BENCH_CLOCK_H

#include <time.h>

static inline double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#endif
