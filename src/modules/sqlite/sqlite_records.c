/* sqlite_records.c - the operations of a store on its file's records, each inside the writer's transaction.
 * What they come to is known to others when the transaction has been committed. */
#include "sqlite_records.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_COST 64u /* of a log's bytes, beside what it holds */
#define SLACK_FROM                                                                                 \
  60000u               /* ms: times to live from here on are written with some slack, so that ... */
#define SLACK_PART 16u /* ... not every touch is a write: this part of them */
#define ROOM_MAX 1024u /* left behind a value, at most */
#define SHORT_BLOB 58u /* bytes from which on the length of a blob takes SQLite two */

/* What tasks come to is for their clients to say, so they leave a quarter to the others. */
static bool charge(sqlite_store *store, idem__store_space space, uint64_t bytes) {
  uint64_t most = store->max_bytes;
  if (space == IDEM__STORE_TASKS) most -= most / 4;
  if (store->totals.bytes > most || bytes > most - store->totals.bytes) return false;
  store->totals.bytes += bytes;
  return true;
}

/* Past the bound where the caller answers for it. */
static bool charge_for(sqlite_store *store, const idem__store_op *op, uint64_t bytes) {
  if (!op->owed) return charge(store, op->space, bytes);
  store->totals.bytes += bytes;
  return true;
}

static bool version_fits(const sqlite_found *record, uint64_t expect, idem__store_answer *answer) {
  answer->version = record->id ? record->version : 0;
  answer->status = IDEM_OK;
  if (expect == IDEM__STORE_ANY) return true;
  if (expect == IDEM__STORE_ABSENT)
    answer->status = record->id ? IDEM_E_EXISTS : IDEM_OK;
  else if (!record->id)
    answer->status = IDEM_E_NOTFOUND;
  else if (record->version != expect)
    answer->status = IDEM_E_STATE;
  return answer->status == IDEM_OK;
}

static void run_remove(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = IDEM_E_NOTFOUND;
  if (!record.id || !version_fits(&record, job->op.expect, &job->answer)) return;
  sqlite_delete(store, record.id, job->op.space, sqlite_cost(&record, job->op.name_len));
}

/* ----------------------------------------------------------------- putting */

static uint64_t expiry(const idem__store_op *op) {
  uint64_t slack = op->ttl_ms >= SLACK_FROM ? op->ttl_ms / SLACK_PART : 0;
  return op->ttl_ms ? op->now_ms + op->ttl_ms + slack : 0;
}

/* When it expires is written with slack: it need not be written again. */
static bool keeps_expiry(const idem__store_op *op, uint64_t expires) {
  if (!op->ttl_ms) return !expires;
  return expires >= op->now_ms + op->ttl_ms && expires <= expiry(op);
}

void sqlite_forget_seen(sqlite_store *store) { memset(store->seen, 0, sizeof store->seen); }

static void remember(sqlite_store *store, const idem__store_op *op, int64_t id, uint64_t expires,
                     uint64_t room) {
  uint64_t version = store->totals.clock;
  store->seen[version % SQLITE_SEEN] = (sqlite_seen){
      .version = version, .expires = expires, .len = op->len, .taken = op->len + room, .id = id};
}

/* A key's record is made before its answer is there: as much as answers took lately is left for it. */
static uint64_t room_for_more(const sqlite_store *store, const idem__store_op *op) {
  return op->space == IDEM__STORE_ONCE ? store->growth : 0;
}

/* It follows the larger ones at once, and the smaller ones slowly: too much costs little. */
static void learn_growth(sqlite_store *store, const idem__store_op *op, uint64_t before) {
  if (op->space != IDEM__STORE_ONCE || op->len <= before) return;
  size_t more = op->len - (size_t)before;
  if (more > ROOM_MAX) more = ROOM_MAX;
  store->growth = more > store->growth ? more : store->growth - (store->growth - more) / 64;
}

static bool insert(sqlite_store *store, const idem__store_op *op, const char *group, uint64_t room,
                   bool hashed) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_MAKE);
  sqlite_bind(statement, 1, op->space);
  sqlite_bind_bytes(statement, 2, op->name, op->name_len);
  sqlite3_bind_text(statement, 3, group, -1, SQLITE_STATIC);
  sqlite_bind_bytes(statement, 4, op->bytes, op->len);
  sqlite_bind(statement, 5, store->totals.clock + 2);
  sqlite_bind(statement, 6, store->totals.clock + 1);
  sqlite_bind(statement, 7, expiry(op));
  sqlite3_bind_zeroblob64(statement, 8, room);
  if (hashed)
    sqlite3_bind_int64(statement, 9, sqlite_hash(store, op->space, op->name, op->name_len));
  return sqlite_execute(store, statement);
}

/* EXISTS: the name is in use, perhaps by a record whose time is over; or its hash is, by another name. */
static idem_status make(sqlite_store *store, const idem__store_op *op, idem__store_answer *answer,
                        bool hashed) {
  const char *group = op->group ? op->group : "";
  uint64_t room = room_for_more(store, op);
  sqlite_found made = {.group_len = strlen(group), .taken = op->len + room};
  uint64_t size = sqlite_cost(&made, op->name_len);
  if (op->limit && store->totals.counts[op->space] >= op->limit) return IDEM_E_LIMIT;
  if (op->group_limit && sqlite_group_count(store, op->space, group) >= op->group_limit) {
    answer->number = 1;
    return IDEM_E_LIMIT;
  }
  if (!charge_for(store, op, size)) return IDEM_E_LIMIT;
  if (!insert(store, op, group, room, hashed)) return IDEM_E_SYS;
  if (sqlite3_changes(store->database) == 0) {
    store->totals.bytes -= size;
    return IDEM_E_EXISTS;
  }
  store->totals.clock += 2;
  store->totals.counts[op->space]++;
  sqlite_group_add(store, op->space, group, 1);
  int64_t id = sqlite3_last_insert_rowid(store->database);
  sqlite_note_due(store, op, expiry(op), id);
  remember(store, op, id, expiry(op), room);
  return IDEM_OK;
}

/* The name was looked for, and there is none. */
static idem_status make_absent(sqlite_store *store, const idem__store_op *op,
                               idem__store_answer *answer) {
  idem_status status = make(store, op, answer, true);
  if (status != IDEM_E_EXISTS) return status;
  store->totals.clashes++;
  return make(store, op, answer, false);
}

/* What is left of a row as it was; SQLite writes one that stays as long in place. Where a row's length fits into a byte less, that
 * byte is made up for. */
static uint64_t room_left(const idem__store_op *op, uint64_t taken, uint64_t had) {
  uint64_t room = taken > op->len ? taken - op->len : 0;
  if (room > ROOM_MAX) return 0;
  return room < SHORT_BLOB && had >= SHORT_BLOB ? room + 1 : room;
}

static bool charge_change(sqlite_store *store, const idem__store_op *op, uint64_t before,
                          uint64_t after) {
  if (after > before) return charge_for(store, op, after - before);
  uint64_t less = before - after;
  store->totals.bytes -= less < store->totals.bytes ? less : store->totals.bytes;
  return true;
}

static idem_status change(sqlite_store *store, const idem__store_op *op,
                          const sqlite_found *record) {
  uint64_t room = room_left(op, record->taken, 0);
  if (!charge_change(store, op, record->taken, op->len + room)) return IDEM_E_LIMIT;
  sqlite3_stmt *statement = sqlite_use(store, SQL_CHANGE);
  uint64_t expires = keeps_expiry(op, record->expires) ? record->expires : expiry(op);
  sqlite_bind_bytes(statement, 1, op->bytes, op->len);
  sqlite_bind(statement, 2, ++store->totals.clock);
  sqlite3_bind_zeroblob64(statement, 3, room);
  sqlite_bind(statement, 4, expires);
  sqlite3_bind_int64(statement, 5, record->id);
  remember(store, op, record->id, expires, room);
  if (expires != record->expires) sqlite_note_due(store, op, expires, record->id);
  return sqlite_execute(store, statement) ? IDEM_OK : IDEM_E_SYS;
}

static bool update_seen(sqlite_store *store, const idem__store_op *op, const sqlite_seen *seen,
                        uint64_t room) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_CHANGE_SEEN);
  sqlite_bind_bytes(statement, 1, op->bytes, op->len);
  sqlite_bind(statement, 2, store->totals.clock + 1);
  sqlite3_bind_zeroblob64(statement, 3, room);
  sqlite3_bind_int64(statement, 4, seen->id);
  sqlite_bind(statement, 5, seen->version);
  sqlite_bind(statement, 6, seen->expires);
  sqlite_bind(statement, 7, op->space);
  sqlite_bind_bytes(statement, 8, op->name, op->name_len);
  return sqlite_execute(store, statement) && sqlite3_changes(store->database) == 1;
}

/* The record that has the version which is expected, if we wrote it and nobody has changed it since. False: it is to be looked for. */
static bool change_seen(sqlite_store *store, const idem__store_op *op) {
  sqlite_seen seen = store->seen[op->expect % SQLITE_SEEN];
  if (!seen.version || seen.version != op->expect || !keeps_expiry(op, seen.expires)) return false;
  uint64_t room = room_left(op, seen.taken, seen.taken - seen.len), bytes = store->totals.bytes;
  if (!charge_change(store, op, seen.taken, op->len + room)) return false;
  if (!update_seen(store, op, &seen, room)) {
    store->totals.bytes = bytes;
    return false;
  }
  store->totals.clock++;
  learn_growth(store, op, seen.len);
  remember(store, op, seen.id, seen.expires, room);
  return true;
}

/* One whose time is over but who is still there must go first: its log and counter do not live on. */
static void clear_the_way(sqlite_store *store, const idem__store_op *op) {
  while (!store->broken && !store->swept) store->swept = !sqlite_expire(store, op->now_ms);
}

/* Most names are new, and most changes are made from what was written a moment ago: neither is looked for first. */
static bool put_at_once(sqlite_store *store, const idem__store_op *op, idem__store_answer *answer) {
  if (op->expect != IDEM__STORE_ABSENT) return change_seen(store, op);
  return store->swept && !store->totals.clashes && make(store, op, answer, true) == IDEM_OK;
}

static void run_put(sqlite_store *store, sqlite_job *job) {
  idem__store_answer *answer = &job->answer;
  if (put_at_once(store, &job->op, answer)) {
    *answer = (idem__store_answer){.status = IDEM_OK, .version = store->totals.clock};
    return;
  }
  answer->number = 0;
  sqlite_found record = sqlite_find(store, &job->op);
  if (!version_fits(&record, job->op.expect, answer)) return;
  if (!record.id) clear_the_way(store, &job->op);
  answer->status =
      record.id ? change(store, &job->op, &record) : make_absent(store, &job->op, answer);
  if (answer->status == IDEM_OK) answer->version = store->totals.clock;
}

static void run_touch(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  job->answer.version = record.version;
  if (!record.id || keeps_expiry(&job->op, record.expires)) return;
  sqlite3_stmt *statement = sqlite_use(store, SQL_SET_EXPIRY);
  sqlite_bind(statement, 1, expiry(&job->op));
  sqlite3_bind_int64(statement, 2, record.id);
  sqlite_note_due(store, &job->op, expiry(&job->op), record.id);
  sqlite_execute(store, statement);
}

/* ----------------------------------------------------------------- getting */

static void run_peek(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  job->answer.version = record.id ? record.version : 0;
  job->answer.number = record.id && keeps_expiry(&job->op, record.expires);
}

static void run_get(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  job->answer.version = record.id ? record.version : 0;
  if (!record.id) return;
  sqlite3_stmt *row = sqlite_use(store, SQL_GET_VALUE);
  sqlite3_bind_int64(row, 1, record.id);
  if (sqlite_step(store, row)) {
    const void *bytes = sqlite3_column_blob(row, 0);
    job->answer.len = (size_t)sqlite3_column_bytes(row, 0);
    job->value = malloc(job->answer.len + 1);
    if (!job->value)
      job->answer = (idem__store_answer){.status = IDEM_E_NOMEM};
    else if (job->answer.len)
      memcpy(job->value, bytes, job->answer.len);
    job->answer.bytes = job->value;
  }
  sqlite_done(row);
}

static void run_count(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  if (!record.id) return;
  job->answer.number = record.counter;
  sqlite3_stmt *statement = sqlite_use(store, SQL_SET_COUNTER);
  sqlite_bind(statement, 1, record.counter + job->op.after);
  sqlite3_bind_int64(statement, 2, record.id);
  sqlite_execute(store, statement);
}

/* -------------------------------------------------------------------- logs */

static void drop_oldest(sqlite_store *store, sqlite_found *record) {
  sqlite3_stmt *row = sqlite_use(store, SQL_OLDEST_ENTRY);
  sqlite3_bind_int64(row, 1, record->id);
  bool there = sqlite_step(store, row);
  uint64_t number = there ? sqlite_column(row, 0) : 0,
           size = there ? ENTRY_COST + sqlite_column(row, 1) : 0;
  sqlite_done(row);
  if (!there) size = record->log_bytes; /* a log that holds nothing costs nothing */
  record->log_bytes -= size < record->log_bytes ? size : record->log_bytes;
  store->totals.bytes -= size < store->totals.bytes ? size : store->totals.bytes;
  if (!there) return;
  sqlite3_stmt *statement = sqlite_use(store, SQL_DELETE_ENTRY);
  sqlite3_bind_int64(statement, 1, record->id);
  sqlite_bind(statement, 2, number);
  sqlite_execute(store, statement);
}

static void keep_entry(sqlite_store *store, const idem__store_op *op, sqlite_found *record) {
  uint64_t size = ENTRY_COST + op->len;
  if (op->limit && size > op->limit) return;
  while (op->limit && record->log_bytes && record->log_bytes > op->limit - size)
    drop_oldest(store, record);
  if (!charge(store, IDEM__STORE_SESSIONS, size)) return;
  record->log_bytes += size;
  sqlite3_stmt *statement = sqlite_use(store, SQL_ADD_ENTRY);
  sqlite3_bind_int64(statement, 1, record->id);
  sqlite_bind(statement, 2, record->last_entry);
  sqlite_bind_bytes(statement, 3, op->bytes, op->len);
  sqlite_execute(store, statement);
}

static void run_append(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  if (!record.id) return;
  job->answer.number = ++record.last_entry; /* also of one that cannot be kept */
  keep_entry(store, &job->op, &record);
  sqlite3_stmt *statement = sqlite_use(store, SQL_SET_LOG);
  sqlite_bind(statement, 1, record.last_entry);
  sqlite_bind(statement, 2, record.log_bytes);
  sqlite3_bind_int64(statement, 3, record.id);
  sqlite_execute(store, statement);
}

static void run_read(sqlite_store *store, sqlite_job *job) {
  sqlite_found record = sqlite_find(store, &job->op);
  job->answer.status = record.id ? IDEM_OK : IDEM_E_NOTFOUND;
  job->answer.number = record.id ? record.last_entry : 0;
  if (!record.id || !job->op.each) return;
  sqlite3_stmt *row = sqlite_use(store, SQL_READ_LOG);
  sqlite3_bind_int64(row, 1, record.id);
  sqlite_bind(row, 2, job->op.after);
  for (bool more = true; more && sqlite_step(store, row);) {
    idem__store_item item = {.number = sqlite_column(row, 0), .bytes = sqlite3_column_blob(row, 1)};
    item.len = (size_t)sqlite3_column_bytes(row, 1);
    more = job->op.each(&item, job->op.user);
  }
  sqlite_done(row);
}

static void run_list(sqlite_store *store, sqlite_job *job) {
  bool keys = job->op.space == IDEM__STORE_ONCE; /* by_birth has none of them */
  sqlite3_stmt *row = sqlite_use(store, keys ? SQL_LIST_UNLISTED : SQL_LIST);
  sqlite_bind(row, 1, job->op.space);
  sqlite3_bind_text(row, 2, job->op.group ? job->op.group : "", -1, SQLITE_STATIC);
  sqlite_bind(row, 3, job->op.after);
  sqlite_bind(row, 4, job->op.now_ms);
  sqlite_bind(row, 5, job->op.limit ? job->op.limit : INT64_MAX);
  for (bool more = true; more && sqlite_step(store, row);) {
    idem__store_item item = {.number = sqlite_column(row, 0),
                             .version = sqlite_column(row, 1),
                             .name = sqlite3_column_blob(row, 2),
                             .bytes = sqlite3_column_blob(row, 3)};
    item.name_len = (size_t)sqlite3_column_bytes(row, 2);
    item.len = (size_t)sqlite3_column_bytes(row, 3);
    more = job->op.each(&item, job->op.user);
  }
  sqlite_done(row);
  job->answer.status = IDEM_OK;
}

/* ------------------------------------------------------------------ running */

bool sqlite_changes(const idem__store_op *op) {
  return op->verb != IDEM__STORE_GET && op->verb != IDEM__STORE_PEEK &&
         op->verb != IDEM__STORE_READ && op->verb != IDEM__STORE_LIST;
}

static void note_change(sqlite_store *store, const sqlite_job *job) {
  const idem__store_op *op = &job->op;
  static const idem__store_event events[] = {[IDEM__STORE_PUT] = IDEM__STORE_WAS_PUT,
                                             [IDEM__STORE_REMOVE] = IDEM__STORE_WAS_REMOVED,
                                             [IDEM__STORE_APPEND] = IDEM__STORE_WAS_APPENDED,
                                             [IDEM__STORE_TELL] = IDEM__STORE_WAS_TOLD};
  bool told = op->verb == IDEM__STORE_PUT || op->verb == IDEM__STORE_REMOVE ||
              op->verb == IDEM__STORE_APPEND || op->verb == IDEM__STORE_TELL;
  bool appended = op->verb == IDEM__STORE_APPEND;
  if (told && !op->quiet && job->answer.status == IDEM_OK)
    sqlite_note(store, events[op->verb], op->space, op->name, op->name_len,
                appended ? job->answer.number : job->answer.version);
}

void sqlite_perform(sqlite_store *store, sqlite_job *job) {
  switch (job->op.verb) {
  case IDEM__STORE_GET: run_get(store, job); break;
  case IDEM__STORE_TOUCH: run_touch(store, job); break;
  case IDEM__STORE_PEEK: run_peek(store, job); break;
  case IDEM__STORE_PUT: run_put(store, job); break;
  case IDEM__STORE_REMOVE: run_remove(store, job); break;
  case IDEM__STORE_APPEND: run_append(store, job); break;
  case IDEM__STORE_READ: run_read(store, job); break;
  case IDEM__STORE_COUNT: run_count(store, job); break;
  case IDEM__STORE_LIST: run_list(store, job); break;
  case IDEM__STORE_TELL: job->answer.status = IDEM_OK; break;
  }
  note_change(store, job);
}
