/* hash.c - the hash of bytes, and the secret behind it. See hash.h. */
#define _DEFAULT_SOURCE /* arc4random_buf */
#include "base.h"

#include <stdlib.h>
#include <time.h>

idem__hash_secret idem__hash_own;
static idem__lock making = {ATOMIC_FLAG_INIT};

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static void find_secret(uint64_t secret[4]) { secret[0] = secret[1] = 0; }
#elif defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 36))
static void find_secret(uint64_t secret[4]) { arc4random_buf(secret, 4 * sizeof *secret); }
#else
/* Without random bits: where the system laid code, heap and stack, and when. */
static void find_secret(uint64_t secret[4]) {
  struct timespec now = {0};
  void *heap = malloc(1);
  timespec_get(&now, TIME_UTC);
  const uint64_t found[] = {(uint64_t)(uintptr_t)&making, (uint64_t)(uintptr_t)&now,
                            (uint64_t)(uintptr_t)heap,    (uint64_t)now.tv_sec,
                            (uint64_t)now.tv_nsec,        (uint64_t)clock()};
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, found, sizeof found);
  idem_sha256_end(&sha, (uint8_t *)secret);
  free(heap);
}
#endif

void idem__hash_set_secret(uint64_t low, uint64_t high) {
  idem__hash_own.low = low;
  idem__hash_own.high = high;
  atomic_store_explicit(&idem__hash_own.ready, true, memory_order_release);
}

/* Threads that come at the same time wait for the first. */
IDEM__EARLY void idem__hash_make_secret(void) {
  uint64_t secret[4];
  find_secret(secret);
  idem__lock_take(&making);
  if (!atomic_load_explicit(&idem__hash_own.ready, memory_order_relaxed))
    idem__hash_set_secret(secret[0], secret[1]);
  idem__lock_give(&making);
}

IDEM__EARLY uint64_t idem__hash(const void *bytes, size_t len, uint64_t seed) {
  idem__hasher hasher = idem__hash_begin(seed);
  idem__hash_text(&hasher, bytes, len);
  return idem__hash_end(hasher);
}
