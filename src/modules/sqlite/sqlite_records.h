/* sqlite_records.h - a record as it is found in the file, for those who change, find and remove it. */
#ifndef IDEM_MODULES_SQLITE_RECORDS_H
#define IDEM_MODULES_SQLITE_RECORDS_H

#include "sqlite_store.h"

#define SQLITE_RECORD_COST 128u /* of the store's bytes, beside what a record holds */

typedef struct sqlite_found {
  int64_t id; /* 0: there is none */
  uint64_t version, expires, counter, last_entry, log_bytes;
  uint64_t taken; /* by its value and the room behind it */
  uint64_t group_len;
} sqlite_found;

static inline uint64_t sqlite_column(sqlite3_stmt *row, int at) {
  return (uint64_t)sqlite3_column_int64(row, at);
}

static inline void sqlite_bind(sqlite3_stmt *statement, int at, uint64_t number) {
  sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
}

/* Also of no bytes: NULL would be another thing. */
static inline void sqlite_bind_bytes(sqlite3_stmt *statement, int at, const void *bytes,
                                     size_t len) {
  sqlite3_bind_blob64(statement, at, len ? bytes : "", len, SQLITE_STATIC);
}

static inline uint64_t sqlite_cost(const sqlite_found *record, size_t name_len) {
  return SQLITE_RECORD_COST + name_len + record->group_len + record->taken + record->log_bytes;
}

/* sqlite_find.c: by name; one whose time is over is not there. */
sqlite_found sqlite_find(sqlite_store *store, const idem__store_op *op);
/* By it names are found, and told apart: with the file's secret, or a client could have many fall together. */
int64_t sqlite_hash(const sqlite_store *store, idem__store_space space, const void *name,
                    size_t len);
/* The group of a row's record is kept; its length. */
uint64_t sqlite_keep_members(sqlite_store *store, sqlite3_stmt *row, int at);

/* sqlite_expiry.c: when it expires is written; keys have no index for that, and are noted. */
void sqlite_note_due(sqlite_store *store, const idem__store_op *op, uint64_t expires, int64_t id);
/* The record that was found last goes. */
void sqlite_delete(sqlite_store *store, int64_t id, idem__store_space space, uint64_t size);

#endif
