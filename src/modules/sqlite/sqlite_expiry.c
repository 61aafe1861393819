/* sqlite_expiry.c - records whose time is over. Those of most spaces are in an index by it. Keys are made by the thousand: a row
 * of `due` says among which ids some expire by then, so that an index has not each. Times are rounded up there, so that there
 * are few rows: a key that lives for a minute or more is swept a sixteenth of that late at most, and is not found from its own
 * time on. */
#include "sqlite_records.h"

#define STEPS 64 /* of one sweep */

void sqlite_delete(sqlite_store *store, int64_t id, idem__store_space space, uint64_t size) {
  static const sqlite_statement both[] = {SQL_DELETE_LOG, SQL_DELETE};
  for (int i = 0; i < 2; i++) {
    sqlite3_stmt *statement = sqlite_use(store, both[i]);
    sqlite3_bind_int64(statement, 1, id);
    sqlite_execute(store, statement);
  }
  store->totals.bytes -= size < store->totals.bytes ? size : store->totals.bytes;
  if (store->totals.counts[space]) store->totals.counts[space]--;
  sqlite_group_add(store, space, store->members, -1);
}

/* ------------------------------------------------------------------ keys */

void sqlite_write_due(sqlite_store *store) {
  sqlite_due *due = &store->due;
  if (!due->expires) return;
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADD_DUE);
  sqlite_bind(statement, 1, due->expires);
  sqlite3_bind_int64(statement, 2, due->first);
  sqlite3_bind_int64(statement, 3, due->last);
  sqlite_execute(store, statement);
  *due = (sqlite_due){.expires = 0};
}

/* Up to a power of two below a sixteenth of what is left; who lives for less than a minute is soon gone. */
static uint64_t round_up(uint64_t expires, uint64_t left) {
  uint64_t step = 1;
  while (left >= 60000 && step < left / 32) step *= 2;
  return (expires + step - 1) / step * step;
}

void sqlite_note_due(sqlite_store *store, const idem__store_op *op, uint64_t expires, int64_t id) {
  sqlite_due *due = &store->due;
  if (op->space != IDEM__STORE_ONCE || !expires) return;
  uint64_t by = round_up(expires, expires > op->now_ms ? expires - op->now_ms : 0);
  if (due->expires != by) {
    sqlite_write_due(store);
    *due = (sqlite_due){.expires = by, .first = id, .last = id};
  }
  if (id < due->first) due->first = id;
  if (id > due->last) due->last = id;
}

static bool first_due(sqlite_store *store, uint64_t now_ms, sqlite_due *out) {
  sqlite3_stmt *row = sqlite_use(store, SQL_DUE);
  sqlite_bind(row, 1, now_ms);
  bool there = sqlite_step(store, row);
  if (there)
    *out = (sqlite_due){.expires = sqlite_column(row, 0),
                        .first = sqlite3_column_int64(row, 1),
                        .last = sqlite3_column_int64(row, 2)};
  sqlite_done(row);
  return there;
}

static void forget_due(sqlite_store *store, const sqlite_due *due) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_FORGET_DUE);
  sqlite_bind(statement, 1, due->expires);
  sqlite_execute(store, statement);
}

/* What is before it was looked at. */
static void advance_due(sqlite_store *store, const sqlite_due *due, int64_t first) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADVANCE_DUE);
  sqlite3_bind_int64(statement, 1, first);
  sqlite_bind(statement, 2, due->expires);
  sqlite_execute(store, statement);
}

/* -------------------------------------------------------------- sweeping */

/* A record of a space that this version does not know counts as the last one's. */
static idem__store_space space_of(uint64_t number) {
  return number < IDEM__STORE_SPACES ? (idem__store_space)number : IDEM__STORE_NEWS;
}

/* The one that the statement finds; its id, or 0: it finds none. */
static int64_t remove_found(sqlite_store *store, sqlite3_stmt *row) {
  int64_t found = sqlite_step(store, row) ? sqlite3_column_int64(row, 0) : 0;
  if (found) {
    sqlite_found record = {.id = sqlite3_column_int64(row, 0),
                           .log_bytes = sqlite_column(row, 4),
                           .taken = sqlite_column(row, 5),
                           .group_len = sqlite_keep_members(store, row, 6)};
    idem__store_space space = space_of(sqlite_column(row, 1));
    size_t name_len = (size_t)sqlite3_column_bytes(row, 2);
    sqlite_note(store, IDEM__STORE_WAS_EXPIRED, space, sqlite3_column_blob(row, 2), name_len,
                sqlite_column(row, 3));
    sqlite_delete(store, record.id, space, sqlite_cost(&record, name_len));
  }
  sqlite_done(row);
  return found;
}

static bool expire_listed(sqlite_store *store, uint64_t now_ms) {
  sqlite3_stmt *row = sqlite_use(store, SQL_EXPIRED);
  sqlite_bind(row, 1, now_ms);
  return remove_found(store, row) != 0;
}

/* A key, or what said when it was due. */
static bool expire_key(sqlite_store *store, uint64_t now_ms) {
  sqlite_due due;
  sqlite_write_due(store);
  if (!first_due(store, now_ms, &due)) return false;
  sqlite3_stmt *row = sqlite_use(store, SQL_EXPIRED_KEY);
  sqlite3_bind_int64(row, 1, due.first);
  sqlite3_bind_int64(row, 2, due.last);
  sqlite_bind(row, 3, now_ms);
  int64_t removed = remove_found(store, row);
  if (removed)
    advance_due(store, &due, removed + 1);
  else
    forget_due(store, &due);
  return true;
}

bool sqlite_expire(sqlite_store *store, uint64_t now_ms) {
  for (int i = 0; i < STEPS; i++) {
    bool more = expire_listed(store, now_ms) || expire_key(store, now_ms);
    if (!more || store->broken) return false;
  }
  return true;
}

bool sqlite_something_expired(sqlite_store *store, uint64_t now_ms) {
  sqlite_due due;
  sqlite3_stmt *row = sqlite_use(store, SQL_EXPIRED);
  sqlite_bind(row, 1, now_ms);
  bool there = sqlite_step(store, row);
  sqlite_done(row);
  return there || first_due(store, now_ms, &due);
}
