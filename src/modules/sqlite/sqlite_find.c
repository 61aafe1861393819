/* sqlite_find.c - how a record is found by its name: by a hash of it, which takes a third of a name's place in an index.
 * Names are digests, so each new one falls on a page of its own, which is written with its transaction: the fewer there are, the
 * fewer are written. Two names may have one hash; the second has none in the file then, and is looked for among its kind. */
#include "sqlite_records.h"

#include "../../base/hash.h"

int64_t sqlite_hash(const sqlite_store *store, idem__store_space space, const void *name,
                    size_t len) {
  const uint64_t *secret = store->totals.secret;
  idem__hasher hasher = idem__hash_under(secret[0] ^ (uint64_t)space, secret[1]);
  idem__hash_text(&hasher, name, len);
  return (int64_t)idem__hash_end(hasher);
}

uint64_t sqlite_keep_members(sqlite_store *store, sqlite3_stmt *row, int at) {
  const void *text = sqlite3_column_text(row, at);
  size_t len = (size_t)sqlite3_column_bytes(row, at);
  if (len > IDEM__STORE_GROUP_MAX) len = 0; /* not one of ours */
  if (len) memcpy(store->members, text, len);
  store->members[len] = '\0';
  return len;
}

static sqlite_found read_row(sqlite_store *store, sqlite3_stmt *row) {
  return (sqlite_found){.id = sqlite3_column_int64(row, 0),
                        .version = sqlite_column(row, 1),
                        .expires = sqlite_column(row, 2),
                        .counter = sqlite_column(row, 3),
                        .last_entry = sqlite_column(row, 4),
                        .log_bytes = sqlite_column(row, 5),
                        .taken = sqlite_column(row, 6),
                        .group_len = sqlite_keep_members(store, row, 7)};
}

static sqlite_found look(sqlite_store *store, const idem__store_op *op, sqlite_statement how) {
  sqlite3_stmt *row = sqlite_use(store, how);
  sqlite_found record = {.id = 0};
  sqlite_bind(row, 1, op->space);
  sqlite_bind_bytes(row, 2, op->name, op->name_len);
  if (how == SQL_FIND)
    sqlite3_bind_int64(row, 3, sqlite_hash(store, op->space, op->name, op->name_len));
  if (sqlite_step(store, row)) record = read_row(store, row);
  sqlite_done(row);
  return record;
}

sqlite_found sqlite_find(sqlite_store *store, const idem__store_op *op) {
  sqlite_found record = look(store, op, SQL_FIND);
  if (!record.id) record = look(store, op, SQL_FIND_UNHASHED);
  if (record.expires && record.expires <= op->now_ms) record.id = 0; /* not swept yet */
  return record;
}
