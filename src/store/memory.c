/* memory.c - the store in memory: records under one short lock, for the threads of one process.
 * Values are counted, so that they are copied in before the lock is taken and shown after it was
 * given back. Records whose time is over go with the next operation in their space.
 * See docs/internals/store.md. */
#include "memory.h"

#include <string.h>

#define DEFAULT_BYTES ((size_t)512 << 20)

/* ----------------------------------------------------------------- values */

idem__store_value *idem__store_value_new(const idem_alloc *alloc, const void *bytes, size_t len) {
  if (len > SIZE_MAX / 2) return NULL;
  idem__store_value *value = idem__malloc(alloc, sizeof *value + len);
  if (!value) return NULL;
  atomic_init(&value->refs, 1);
  value->len = len;
  if (len) memcpy(value->bytes, bytes, len);
  return value;
}

void idem__store_value_unref(const idem_alloc *alloc, idem__store_value *value) {
  if (!value) return;
  if (atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel) == 1)
    idem__free(alloc, value);
}

/* ---------------------------------------------------------------- records */

/* What tasks come to is for their clients to say, so they leave a quarter to the others. */
idem_status idem__store_charge(idem__store_memory *memory, idem__store_space space, size_t bytes) {
  size_t most = memory->max_bytes;
  if (space == IDEM__STORE_TASKS) most -= most / 4;
  if (memory->bytes > most || bytes > most - memory->bytes) return IDEM_E_LIMIT;
  memory->bytes += bytes;
  return IDEM_OK;
}

/* Past the bound where the caller answers for it. */
static idem_status charge_for(idem__store_memory *memory, const idem__store_op *op, size_t bytes) {
  if (!op->owed) return idem__store_charge(memory, op->space, bytes);
  memory->bytes += bytes;
  return IDEM_OK;
}

idem__store_record *idem__store_record_find(idem__store_memory *memory, const idem__store_op *op) {
  return idem_map_get(&memory->rooms[op->space].by_name, op->name, op->name_len);
}

/* Without the lock: a log may be long. */
static void free_record(const idem__store_memory *memory, idem__store_record *record) {
  if (!record) return;
  idem__store_log_free(memory, &record->log);
  idem__store_value_unref(&memory->alloc, record->value);
  idem__free(&memory->alloc, record);
}

/* With the lock held: the group of a record that is to come in; NULL: no memory. */
static idem__store_group *group_for(idem__store_memory *memory, idem__store_room *room,
                                    const char *name, size_t len) {
  idem__store_group *group = idem_map_get(&room->groups, name, len);
  if (group) return group;
  group = idem__malloc(&memory->alloc, sizeof *group + len);
  if (!group) return NULL;
  *group = (idem__store_group){.len = len};
  memcpy(group->text, name, len);
  if (idem_map_put(&room->groups, group->text, len, group) == IDEM_OK) return group;
  idem__free(&memory->alloc, group);
  return NULL;
}

/* With the lock held: one less, or none came. */
static void leave_group(idem__store_memory *memory, idem__store_room *room,
                        idem__store_group *group) {
  if (group->count && --group->count) return;
  idem_map_remove(&room->groups, group->text, group->len);
  idem__free(&memory->alloc, group);
}

/* With the lock held: counted among its group. */
static idem_status join_group(idem__store_memory *memory, const idem__store_op *op,
                              const idem__store_record *record, idem__store_answer *answer) {
  idem__store_room *room = &memory->rooms[op->space];
  if (!record->group_len) return IDEM_OK;
  idem__store_group *group =
      group_for(memory, room, record->text + record->name_len, record->group_len);
  if (!group) return IDEM_E_NOMEM;
  if (op->group_limit && group->count >= op->group_limit) {
    answer->number = 1;
    return IDEM_E_LIMIT;
  }
  group->count++;
  return IDEM_OK;
}

static void leave_own_group(idem__store_memory *memory, idem__store_room *room,
                            const idem__store_record *record) {
  idem__store_group *group =
      record->group_len
          ? idem_map_get(&room->groups, record->text + record->name_len, record->group_len)
          : NULL;
  if (group) leave_group(memory, room, group);
}

/* With the lock held. The memory is the caller's to free. */
static void unlink_record(idem__store_memory *memory, idem__store_room *room,
                          idem__store_record *record) {
  idem_map_remove(&room->by_name, record->text, record->name_len);
  idem__heap_remove(&room->expiring, &record->timer);
  idem_list_remove(&record->link);
  leave_own_group(memory, room, record);
  memory->bytes -= record->charged + record->log.bytes;
}

static idem__store_record *new_record(const idem__store_memory *memory, const idem__store_op *op) {
  size_t group_len = op->group ? strlen(op->group) : 0;
  idem__store_record *record =
      idem__calloc(&memory->alloc, sizeof *record + op->name_len + group_len);
  if (!record) return NULL;
  idem_list_init(&record->link);
  record->name_len = op->name_len;
  record->group_len = group_len;
  memcpy(record->text, op->name, op->name_len);
  if (group_len) memcpy(record->text + op->name_len, op->group, group_len);
  return record;
}

/* With the lock held. A later end waits until the timer is looked at; an earlier one moves it. */
static idem_status set_expiry(idem__store_room *room, idem__store_record *record,
                              const idem__store_op *op) {
  uint64_t at = op->ttl_ms ? op->now_ms + op->ttl_ms : 0;
  if (!at) {
    idem__heap_remove(&room->expiring, &record->timer);
  } else if (!record->timer.index || at < record->timer.at_ms) {
    idem_status status = idem__heap_put(&room->expiring, &record->timer, at);
    if (status != IDEM_OK) return status;
  }
  record->expires_ms = at;
  return IDEM_OK;
}

/* --------------------------------------------------------------- expiring */

/* With the lock held: the next record whose time is over, taken out. */
static idem__store_record *take_expired(idem__store_memory *memory, idem__store_room *room,
                                        uint64_t now_ms) {
  for (idem__timer *first; (first = idem__heap_first(&room->expiring));) {
    if (first->at_ms > now_ms) return NULL;
    idem__store_record *record = IDEM_CONTAINER(first, idem__store_record, timer);
    if (record->expires_ms <= now_ms) {
      unlink_record(memory, room, record);
      return record;
    }
    idem__heap_put(&room->expiring, first, record->expires_ms); /* in it: cannot fail */
  }
  return NULL;
}

static void expire(idem__store_memory *memory, const idem__store_op *op) {
  idem__store_room *room = &memory->rooms[op->space];
  for (;;) {
    idem__lock_take(&memory->lock);
    idem__store_record *record = take_expired(memory, room, op->now_ms);
    idem__lock_give(&memory->lock);
    if (!record) return;
    idem__store_tell(memory, &(idem__store_change){.event = IDEM__STORE_WAS_EXPIRED,
                                                   .space = op->space,
                                                   .name = record->text,
                                                   .name_len = record->name_len,
                                                   .version = record->version});
    free_record(memory, record);
  }
}

/* -------------------------------------------------------------- operations */

static void run_get(idem__store_memory *memory, const idem__store_op *op,
                    idem__store_answer *answer, idem__store_value **held) {
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  answer->status = record ? IDEM_OK : IDEM_E_NOTFOUND;
  if (record) {
    answer->version = record->version;
    *held = idem__store_value_ref(record->value);
  }
  idem__lock_give(&memory->lock);
  if (!*held) return;
  answer->bytes = (*held)->bytes;
  answer->len = (*held)->len;
}

static void run_touch(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer) {
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  answer->status = record ? set_expiry(&memory->rooms[op->space], record, op) : IDEM_E_NOTFOUND;
  if (record) answer->version = record->version;
  idem__lock_give(&memory->lock);
}

static void run_peek(idem__store_memory *memory, const idem__store_op *op,
                     idem__store_answer *answer) {
  idem__lock_take(&memory->lock);
  const idem__store_record *record = idem__store_record_find(memory, op);
  answer->status = record ? IDEM_OK : IDEM_E_NOTFOUND;
  if (record) {
    answer->version = record->version;
    answer->number = record->expires_ms == (op->ttl_ms ? op->now_ms + op->ttl_ms : 0);
  }
  idem__lock_give(&memory->lock);
}

static void run_count(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer) {
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  answer->status = record ? IDEM_OK : IDEM_E_NOTFOUND;
  if (record) {
    answer->number = record->counter;
    record->counter += op->after;
  }
  idem__lock_give(&memory->lock);
}

static idem_status check_version(const idem__store_record *record, uint64_t expect,
                                 idem__store_answer *answer) {
  if (record) answer->version = record->version;
  if (expect == IDEM__STORE_ANY) return IDEM_OK;
  if (expect == IDEM__STORE_ABSENT) return record ? IDEM_E_EXISTS : IDEM_OK;
  if (!record) return IDEM_E_NOTFOUND;
  return record->version == expect ? IDEM_OK : IDEM_E_STATE;
}

/* With the lock held: a record that was made outside it comes in. */
static idem_status enter(idem__store_memory *memory, const idem__store_op *op,
                         idem__store_record *record, idem__store_answer *answer) {
  idem__store_room *room = &memory->rooms[op->space];
  if (!record) return IDEM_E_NOMEM;
  if (op->limit && room->by_name.count >= op->limit) return IDEM_E_LIMIT;
  size_t size = sizeof *record + record->name_len + record->group_len;
  idem_status status = charge_for(memory, op, size);
  if (status != IDEM_OK) return status;
  record->charged = size;
  bool joined = false;
  status = idem_map_put(&room->by_name, record->text, record->name_len, record);
  if (status == IDEM_OK) status = set_expiry(room, record, op);
  if (status == IDEM_OK) joined = (status = join_group(memory, op, record, answer)) == IDEM_OK;
  if (!joined) {
    idem_map_remove(&room->by_name, record->text, record->name_len);
    idem__heap_remove(&room->expiring, &record->timer);
    memory->bytes -= size;
    return status;
  }
  record->birth = atomic_fetch_add(memory->clock, 1) + 1;
  idem_list_append(&room->records, &record->link);
  return IDEM_OK;
}

/* With the lock held: *value goes in, what it replaces comes out. */
static idem_status set_value(idem__store_memory *memory, const idem__store_op *op,
                             idem__store_record *record, idem__store_value **value) {
  size_t old_len = record->value ? record->value->len : 0;
  idem_status status = IDEM_OK;
  if ((*value)->len > old_len) status = charge_for(memory, op, (*value)->len - old_len);
  if (status == IDEM_OK) status = set_expiry(&memory->rooms[op->space], record, op);
  if (status != IDEM_OK) return status;
  if ((*value)->len < old_len) memory->bytes -= old_len - (*value)->len;
  record->charged += (*value)->len - old_len; /* wraps around where it shrinks: still right */
  idem__store_value *old = record->value;
  record->value = *value;
  *value = old;
  record->version = atomic_fetch_add(memory->clock, 1) + 1;
  return IDEM_OK;
}

/* With the lock held. *spare is used if there is no such record yet. */
static idem_status put_locked(idem__store_memory *memory, const idem__store_op *op,
                              idem__store_record **spare, idem__store_value **value,
                              idem__store_answer *answer) {
  idem__store_record *record = idem__store_record_find(memory, op);
  idem_status status = check_version(record, op->expect, answer);
  bool fresh = !record;
  if (status == IDEM_OK && !*value) status = IDEM_E_NOMEM;
  if (status == IDEM_OK && fresh) {
    record = *spare;
    status = enter(memory, op, record, answer);
  }
  if (status != IDEM_OK) return status;
  status = set_value(memory, op, record, value);
  if (fresh && status == IDEM_OK) *spare = NULL;
  if (fresh && status != IDEM_OK) {
    unlink_record(memory, &memory->rooms[op->space], record);
    record->charged = 0;
  }
  if (status == IDEM_OK) answer->version = record->version;
  return status;
}

static void run_put(idem__store_memory *memory, const idem__store_op *op,
                    idem__store_answer *answer) {
  idem__store_value *value = idem__store_value_new(&memory->alloc, op->bytes, op->len);
  /* A change of a known version needs none; whoever may make one gets it ready before the lock. */
  bool may_make = op->expect == IDEM__STORE_ANY || op->expect == IDEM__STORE_ABSENT;
  idem__store_record *spare = may_make ? new_record(memory, op) : NULL;
  idem__lock_take(&memory->lock);
  answer->status = put_locked(memory, op, &spare, &value, answer);
  idem__lock_give(&memory->lock);
  idem__store_value_unref(&memory->alloc, value);
  idem__free(&memory->alloc, spare);
}

static void run_remove(idem__store_memory *memory, const idem__store_op *op,
                       idem__store_answer *answer) {
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  answer->status = record ? check_version(record, op->expect, answer) : IDEM_E_NOTFOUND;
  if (answer->status != IDEM_OK) record = NULL;
  if (record) unlink_record(memory, &memory->rooms[op->space], record);
  idem__lock_give(&memory->lock);
  free_record(memory, record);
}

/* ------------------------------------------------------------------ running */

static bool is_valid(const idem__store_op *op) {
  if ((unsigned)op->space >= IDEM__STORE_SPACES) return false;
  if (op->group && strlen(op->group) > IDEM__STORE_GROUP_MAX) return false;
  if (op->verb == IDEM__STORE_LIST) return op->each != NULL;
  return op->name && op->name_len && op->name_len <= IDEM__STORE_NAME_MAX;
}

static void tell_change(idem__store_memory *memory, const idem__store_op *op,
                        const idem__store_answer *answer) {
  static const idem__store_event events[] = {[IDEM__STORE_PUT] = IDEM__STORE_WAS_PUT,
                                             [IDEM__STORE_REMOVE] = IDEM__STORE_WAS_REMOVED,
                                             [IDEM__STORE_APPEND] = IDEM__STORE_WAS_APPENDED,
                                             [IDEM__STORE_TELL] = IDEM__STORE_WAS_TOLD};
  bool appended = op->verb == IDEM__STORE_APPEND;
  idem__store_tell(memory,
                   &(idem__store_change){.event = events[op->verb],
                                         .space = op->space,
                                         .name = op->name,
                                         .name_len = op->name_len,
                                         .version = appended ? answer->number : answer->version});
}

static bool changes(idem__store_verb verb) {
  return verb == IDEM__STORE_PUT || verb == IDEM__STORE_REMOVE || verb == IDEM__STORE_APPEND ||
         verb == IDEM__STORE_TELL;
}

static void perform(idem__store_memory *memory, const idem__store_op *op,
                    idem__store_answer *answer, idem__store_value **held) {
  switch (op->verb) {
  case IDEM__STORE_GET: run_get(memory, op, answer, held); return;
  case IDEM__STORE_TOUCH: run_touch(memory, op, answer); return;
  case IDEM__STORE_PEEK: run_peek(memory, op, answer); return;
  case IDEM__STORE_PUT: run_put(memory, op, answer); return;
  case IDEM__STORE_REMOVE: run_remove(memory, op, answer); return;
  case IDEM__STORE_APPEND: idem__store_append(memory, op, answer); return;
  case IDEM__STORE_READ: idem__store_read(memory, op, answer); return;
  case IDEM__STORE_COUNT: run_count(memory, op, answer); return;
  case IDEM__STORE_LIST: idem__store_list(memory, op, answer); return;
  case IDEM__STORE_TELL: answer->status = IDEM_OK; return;
  }
}

static void run(idem__store *store, const idem__store_op *op) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  idem__store_answer answer = {.status = IDEM_E_INVAL};
  idem__store_value *held = NULL;
  if (is_valid(op)) {
    expire(memory, op);
    perform(memory, op, &answer, &held);
    if (answer.status == IDEM_OK && changes(op->verb)) tell_change(memory, op, &answer);
  }
  if (op->done) op->done(&answer, op->user);
  idem__store_value_unref(&memory->alloc, held);
}

/* ----------------------------------------------------------------- lifetime */

static void free_memory(idem__store *store) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  for (size_t i = 0; i < IDEM__STORE_SPACES; i++) {
    idem__store_room *room = &memory->rooms[i];
    while (!idem_list_empty(&room->records)) {
      idem__store_record *record = IDEM_CONTAINER(room->records.next, idem__store_record, link);
      unlink_record(memory, room, record);
      free_record(memory, record);
    }
    idem_map_deinit(&room->by_name);
    idem_map_deinit(&room->groups);
    idem__heap_deinit(&room->expiring);
  }
  idem_alloc alloc = memory->alloc;
  idem__free(&alloc, memory);
}

static const idem__store_kind memory_kind = {
    .name = "memory",
    .immediate = true,
    .run = run,
    .watch = idem__store_memory_watch,
    .unwatch = idem__store_memory_unwatch,
    .free = free_memory,
};

idem_status idem__store_memory_new(const idem__store_memory_opts *opts, idem__store **out) {
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem__store_memory *memory = idem__calloc(&alloc, sizeof *memory);
  if (!memory) return IDEM_E_NOMEM;
  memory->head.kind = &memory_kind;
  atomic_init(&memory->head.refs, 1);
  memory->alloc = alloc;
  memory->max_bytes = opts->max_bytes ? opts->max_bytes : DEFAULT_BYTES;
  memory->clock = opts->clock ? opts->clock : &memory->own_clock;
  idem__lock_init(&memory->lock);
  for (size_t i = 0; i < IDEM__STORE_SPACES; i++) {
    idem_map_init(&memory->rooms[i].by_name, &memory->alloc, opts->seed);
    idem_map_init(&memory->rooms[i].groups, &memory->alloc, opts->seed);
    idem__heap_init(&memory->rooms[i].expiring, &memory->alloc);
    idem_list_init(&memory->rooms[i].records);
    idem_list_init(&memory->rooms[i].watchers);
  }
  *out = &memory->head;
  return IDEM_OK;
}

size_t idem__store_memory_records(idem__store *store, idem__store_space space) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  idem__lock_take(&memory->lock);
  size_t count = memory->rooms[space].by_name.count;
  idem__lock_give(&memory->lock);
  return count;
}

size_t idem__store_memory_bytes(idem__store *store) {
  idem__store_memory *memory = IDEM_CONTAINER(store, idem__store_memory, head);
  idem__lock_take(&memory->lock);
  size_t bytes = memory->bytes;
  idem__lock_give(&memory->lock);
  return bytes;
}
