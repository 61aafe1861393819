/* clock.c - the two things the core must be given: time that never goes back, fine or cheap, and random bits.
 * Read from the system each time: a loop's cached time stands still while handlers run. */
#include "uv/runtime.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

IDEM__EARLY uint64_t idem__clock_ns(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Where the system has no cheap clock the fine one serves. */
IDEM__EARLY uint64_t idem__coarse_clock_ns(void *ctx) {
#ifdef CLOCK_MONOTONIC_COARSE
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#else
  return idem__clock_ns(ctx);
#endif
}

IDEM__EARLY uint64_t idem_random_seed(void) {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) return seed;
  /* Early in a machine's life there may be no entropy yet: better a weak seed than none. */
  return idem__clock_ns(NULL) * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;
}
