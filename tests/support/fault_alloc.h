/* fault_alloc.h - an allocator that counts, remembers and fails on demand.
 * Tests make each allocation fail in turn and then ask whether anything leaked. One thread only;
 * misuse (a wrong old size, a foreign or twice freed pointer) aborts with a sentence. */
#ifndef IDEM_TEST_FAULT_ALLOC_H
#define IDEM_TEST_FAULT_ALLOC_H

#include <idem/base.h>

typedef struct fault_alloc {
  idem_alloc alloc;     /* hand &fault.alloc to what is tested */
  size_t calls;         /* malloc and realloc calls so far, failed ones included */
  size_t failures;      /* how many of them were made to fail */
  size_t fail_at;       /* the call with this number fails; 0: none */
  bool fail_ever_after; /* and so do all that follow */
  size_t live_blocks;
  size_t live_bytes;
  size_t peak_bytes;
  size_t limit_bytes; /* requests that would pass it fail; 0: no limit */
} fault_alloc;

void fault_alloc_init(fault_alloc *fault);
/* The nth malloc or realloc from now fails (1: the next one); 0: none does. */
void fault_alloc_fail_in(fault_alloc *fault, size_t n);
/* From the nth call on every one fails. */
void fault_alloc_fail_from(fault_alloc *fault, size_t n);
/* Aborts, naming what leaked, unless everything was given back. */
void fault_alloc_assert_clean(const fault_alloc *fault);

/* Plays the scenario again and again, with the 1st, 2nd, 3rd ... allocation failing, until a run
 * meets no failure; each run must leave nothing behind. The scenario gets a fresh allocator and
 * must cope with any status. Returns the number of runs that met a failure; aborts past max_runs.
 */
typedef void (*fault_scenario)(fault_alloc *fault, void *user);
size_t fault_alloc_sweep(fault_scenario scenario, void *user, size_t max_runs);
/* The same, but once failing, the allocator keeps failing. */
size_t fault_alloc_sweep_ever_after(fault_scenario scenario, void *user, size_t max_runs);

#endif
