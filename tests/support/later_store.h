/* later_store.h - a store for tests that answers every operation later, in odd orders, and some never:
 * another store in which things happen when this one lets them. What is asked of one record happens in
 * order, as the contract says. See docs/internals/tests.md. */
#ifndef IDEM_TEST_LATER_STORE_H
#define IDEM_TEST_LATER_STORE_H

#include "store/store.h"

typedef struct later_store_opts {
  uint64_t seed;
  unsigned never_in; /* one of so many has no answer before the store is freed; 0: all have one */
  bool threaded;     /* a thread of its own answers; else later_store_pump does */
} later_store_opts;

/* Takes the inner store over. NULL: no memory. */
idem__store *later_store_new(idem__store *inner, const later_store_opts *opts);
/* Lets one of those that wait happen, and answers it; false: none waits, or they are held. */
bool later_store_pump(idem__store *store);
size_t later_store_waiting(idem__store *store);
/* Until it is given up again nothing happens. */
void later_store_hold(idem__store *store, bool hold);
/* Answers, with that status, what is asked from now on, without its having happened; OK: as ever. LIMIT: it has no room for whatever else it
 * keeps. */
void later_store_fail(idem__store *store, idem_status status);
/* The same, and says that it has not happened, as one does that is not connected (SYS). */
void later_store_away(idem__store *store, idem_status status);
/* ... and the same of what has happened: the answer is lost. */
void later_store_lose(idem__store *store, idem_status status);
idem__store *later_store_inner(idem__store *store);

#endif
