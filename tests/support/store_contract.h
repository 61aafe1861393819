/* store_contract.h - the promises of src/store/store.h as tests that any kind of store runs: its own
 * test program makes stores and hands them in. */
#ifndef IDEM_TEST_STORE_CONTRACT_H
#define IDEM_TEST_STORE_CONTRACT_H

#include "store/store.h"

typedef struct store_maker {
  const char *name;
  /* A fresh, empty store that may hold about max_bytes (0: its default). */
  idem__store *(*make)(size_t max_bytes);
  /* Lets one that answers later go on; NULL for immediate ones. */
  void (*pump)(idem__store *store);
  /* Lets `ms` pass for a store with a clock of its own; NULL: it goes by now_ms. */
  void (*pass)(idem__store *store, uint64_t ms);
  /* Of one that is spread over several; 0: it is whole. Limits are divided among them, so they are tried with so many times as
   * much and with names that live together. */
  unsigned parts;
} store_maker;

/* The first name that begins with `stem` and lives, in a space that is spread over so many, in that part. */
#define STORE_NAME_ROOM 32
const char *store_name_in(char name[STORE_NAME_ROOM], unsigned parts, idem__store_space space,
                          unsigned part, const char *stem);

/* Runs them all as a cmocka group; returns how many failed. */
int store_contract_run(const store_maker *which);

#endif
