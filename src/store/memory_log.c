/* memory_log.c - logs of records, and lists of records, in the store in memory.
 * What is shown to the caller is counted, a handful at a time, and shown outside the lock.
 * See docs/internals/store.md. */
#include "memory.h"

#include <string.h>

#define HANDFUL 32
#define LOOKED_AT 256 /* records, with the lock of all held */

static size_t cost(const idem__store_value *value) {
  return sizeof(idem__store_entry) + value->len;
}

static idem__store_entry *entry_at(const idem__store_log *log, size_t index) {
  return &log->ring[(log->first + index) & (log->cap - 1)];
}

void idem__store_log_free(const idem__store_memory *memory, idem__store_log *log) {
  for (size_t i = 0; i < log->count; i++)
    idem__store_value_unref(&memory->alloc, entry_at(log, i)->value);
  idem__free(&memory->alloc, log->ring);
}

/* ------------------------------------------------------------------ append */

/* With the lock held. */
static void drop_oldest(idem__store_memory *memory, idem__store_log *log, size_t keep) {
  while (log->count && log->bytes > keep) {
    idem__store_value *oldest = entry_at(log, 0)->value;
    log->bytes -= cost(oldest);
    memory->bytes -= cost(oldest);
    idem__store_value_unref(&memory->alloc, oldest);
    log->first = (log->first + 1) & (log->cap - 1);
    log->count--;
  }
}

static bool make_room(const idem__store_memory *memory, idem__store_log *log) {
  if (log->count < log->cap) return true;
  size_t cap = log->cap ? log->cap * 2 : 4;
  idem__store_entry *ring = idem__calloc(&memory->alloc, cap * sizeof *ring);
  if (!ring) return false;
  for (size_t i = 0; i < log->count; i++) ring[i] = *entry_at(log, i);
  idem__free(&memory->alloc, log->ring);
  log->ring = ring;
  log->first = 0;
  log->cap = cap;
  return true;
}

/* With the lock held; true: the value is the record's now. */
static bool keep_entry(idem__store_memory *memory, idem__store_record *record,
                       idem__store_value *value, size_t limit) {
  idem__store_log *log = &record->log;
  size_t size = cost(value);
  if (limit && size > limit) return false;
  if (limit) drop_oldest(memory, log, limit - size);
  if (!make_room(memory, log) || idem__store_charge(memory, IDEM__STORE_SESSIONS, size) != IDEM_OK)
    return false;
  *entry_at(log, log->count++) = (idem__store_entry){.number = record->last_entry, .value = value};
  log->bytes += size;
  return true;
}

void idem__store_append(idem__store_memory *memory, const idem__store_op *op,
                        idem__store_answer *answer) {
  idem__store_value *value = idem__store_value_new(&memory->alloc, op->bytes, op->len);
  answer->status = value ? IDEM_OK : IDEM_E_NOMEM;
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  if (!record) answer->status = IDEM_E_NOTFOUND;
  if (record) answer->number = ++record->last_entry; /* also of one that could not be kept */
  if (record && value && keep_entry(memory, record, value, op->limit)) value = NULL;
  idem__lock_give(&memory->lock);
  idem__store_value_unref(&memory->alloc, value);
}

/* ----------------------------------------------------------- read and list */

typedef struct handful {
  idem__store_item items[HANDFUL];
  idem__store_value *values[HANDFUL];
  idem__store_value *names[HANDFUL]; /* LIST: copies */
  size_t count;
} handful;

/* The first entry after a number, by halves. */
static size_t entry_after(const idem__store_log *log, uint64_t after) {
  size_t low = 0, high = log->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (entry_at(log, middle)->number <= after)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* With the lock held. */
static void gather_entries(const idem__store_log *log, uint64_t after, handful *out) {
  for (size_t i = entry_after(log, after); i < log->count && out->count < HANDFUL; i++) {
    out->items[out->count].number = entry_at(log, i)->number;
    out->values[out->count++] = idem__store_value_ref(entry_at(log, i)->value);
  }
}

static bool in_group(const idem__store_record *record, const char *group, size_t len) {
  return record->group_len == len && memcmp(record->text + record->name_len, group, len) == 0;
}

static bool add_record(const idem__store_memory *memory, const idem__store_record *record,
                       handful *out) {
  idem__store_value *name = idem__store_value_new(&memory->alloc, record->text, record->name_len);
  if (!name) return false;
  out->items[out->count].number = record->birth;
  out->items[out->count].version = record->version;
  out->names[out->count] = name;
  out->values[out->count++] = idem__store_value_ref(record->value);
  return true;
}

/* Looks at records from the mark on, as many as one may with the lock of all held, and leaves the mark
 * behind them; true: there are more. A name that cannot be copied ends it: the caller sees less. */
static bool gather_records(idem__store_memory *memory, const idem__store_op *op, idem_list *mark,
                           handful *out) {
  idem_list *records = &memory->rooms[op->space].records, *at = mark->next;
  const char *group = op->group ? op->group : "";
  size_t group_len = strlen(group);
  bool good = true;
  idem_list_remove(mark);
  for (size_t i = 0; good && i < LOOKED_AT && at != records && out->count < HANDFUL; i++) {
    const idem__store_record *record = IDEM_CONTAINER(at, idem__store_record, link);
    at = at->next;
    if (record->birth > op->after && in_group(record, group, group_len))
      good = add_record(memory, record, out);
  }
  if (good && at != records) idem_list_append(at, mark);
  return good && at != records;
}

/* Shows them, lets them go; false: the caller has had enough. */
static bool show(idem__store_memory *memory, const idem__store_op *op, handful *shown,
                 size_t *left) {
  bool more = true;
  for (size_t i = 0; i < shown->count; i++) {
    idem__store_item *item = &shown->items[i];
    item->bytes = shown->values[i]->bytes;
    item->len = shown->values[i]->len;
    if (shown->names[i]) {
      item->name = shown->names[i]->bytes;
      item->name_len = shown->names[i]->len;
    }
    more = more && *left && op->each(item, op->user);
    if (more) --*left;
    idem__store_value_unref(&memory->alloc, shown->values[i]);
    idem__store_value_unref(&memory->alloc, shown->names[i]);
  }
  return more && *left;
}

void idem__store_read(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer) {
  uint64_t after = op->after;
  size_t left = SIZE_MAX;
  bool more = true;
  while (more) {
    handful found = {.count = 0};
    idem__lock_take(&memory->lock);
    idem__store_record *record = idem__store_record_find(memory, op);
    answer->status = record ? IDEM_OK : IDEM_E_NOTFOUND;
    if (record) answer->number = record->last_entry;
    if (record && op->each) gather_entries(&record->log, after, &found);
    idem__lock_give(&memory->lock);
    if (found.count) after = found.items[found.count - 1].number;
    more = show(memory, op, &found, &left) && found.count == HANDFUL;
  }
}

/* The mark stands among the records as one that was born before all of them: nobody lists it. */
void idem__store_list(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer) {
  idem__store_record mark = {.birth = 0};
  size_t left = op->limit ? op->limit : SIZE_MAX;
  idem__lock_take(&memory->lock);
  idem_list_append(memory->rooms[op->space].records.next, &mark.link);
  idem__lock_give(&memory->lock);
  for (bool more = true; more;) {
    handful found = {.count = 0};
    idem__lock_take(&memory->lock);
    more = gather_records(memory, op, &mark.link, &found);
    idem__lock_give(&memory->lock);
    more = show(memory, op, &found, &left) && more;
  }
  idem__lock_take(&memory->lock);
  idem_list_leave(&mark.link);
  idem__lock_give(&memory->lock);
  answer->status = IDEM_OK;
}
