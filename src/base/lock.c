/* lock.c - a lock for short sections, made of an atomic flag. */
#include "base.h"

#ifndef __STDC_NO_THREADS__
#include <threads.h>
#endif

#define SPINS 64

IDEM__EARLY void idem__lock_init(idem__lock *lock) { atomic_flag_clear(&lock->busy); }

void idem__lock_take(idem__lock *lock) {
  for (unsigned spins = 1; atomic_flag_test_and_set_explicit(&lock->busy, memory_order_acquire);
       spins++) {
#ifndef __STDC_NO_THREADS__
    if (spins % SPINS == 0) thrd_yield();
#endif
  }
}

void idem__lock_give(idem__lock *lock) {
  atomic_flag_clear_explicit(&lock->busy, memory_order_release);
}
