/* memory_log.c - logs of records, and lists of records, in the store in memory.
 * What is shown to the caller is counted, a handful at a time, and shown outside the lock.
 * See docs/internals/store.md. */
#include "memory.h"

#include <string.h>

#define HANDFUL 32

static size_t cost(const idem__store_entry *entry) { return sizeof *entry + entry->value->len; }

void idem__store_drop_entries(idem__store_memory *memory, idem__store_record *record, size_t keep) {
  while (record->entries && record->log_bytes > keep) {
    idem__store_entry *oldest = record->entries;
    record->entries = oldest->next;
    record->log_bytes -= cost(oldest);
    memory->bytes -= cost(oldest);
    idem__store_value_unref(&memory->alloc, oldest->value);
    idem__free(&memory->alloc, oldest);
  }
  if (!record->entries) record->entries_end = &record->entries;
}

/* ------------------------------------------------------------------ append */

static idem__store_entry *new_entry(const idem__store_memory *memory, const idem__store_op *op) {
  idem__store_entry *entry = idem__calloc(&memory->alloc, sizeof *entry);
  if (!entry) return NULL;
  entry->value = idem__store_value_new(&memory->alloc, op->bytes, op->len);
  if (entry->value) return entry;
  idem__free(&memory->alloc, entry);
  return NULL;
}

static void free_entry(const idem__store_memory *memory, idem__store_entry *entry) {
  if (!entry) return;
  idem__store_value_unref(&memory->alloc, entry->value);
  idem__free(&memory->alloc, entry);
}

/* With the lock held; true: the entry is the record's now. */
static bool keep_entry(idem__store_memory *memory, idem__store_record *record,
                       idem__store_entry *entry, size_t limit) {
  size_t size = cost(entry);
  if (limit && size > limit) return false;
  if (limit) idem__store_drop_entries(memory, record, limit - size);
  if (idem__store_charge(memory, size) != IDEM_OK) return false;
  entry->number = record->last_entry;
  *record->entries_end = entry;
  record->entries_end = &entry->next;
  record->log_bytes += size;
  return true;
}

void idem__store_append(idem__store_memory *memory, const idem__store_op *op,
                        idem__store_answer *answer) {
  idem__store_entry *entry = new_entry(memory, op);
  answer->status = entry ? IDEM_OK : IDEM_E_NOMEM;
  idem__lock_take(&memory->lock);
  idem__store_record *record = idem__store_record_find(memory, op);
  if (!record) answer->status = IDEM_E_NOTFOUND;
  if (record) answer->number = ++record->last_entry; /* also of one that could not be kept */
  if (record && entry && keep_entry(memory, record, entry, op->limit)) entry = NULL;
  idem__lock_give(&memory->lock);
  free_entry(memory, entry);
}

/* ----------------------------------------------------------- read and list */

typedef struct handful {
  idem__store_item items[HANDFUL];
  idem__store_value *values[HANDFUL];
  idem__store_value *names[HANDFUL]; /* LIST: copies */
  size_t count;
} handful;

/* With the lock held. */
static void gather_entries(const idem__store_record *record, uint64_t after, handful *out) {
  for (const idem__store_entry *at = record->entries; at && out->count < HANDFUL; at = at->next) {
    if (at->number <= after) continue;
    out->items[out->count].number = at->number;
    out->values[out->count++] = idem__store_value_ref(at->value);
  }
}

static bool in_group(const idem__store_record *record, const char *group, size_t len) {
  return record->group_len == len && memcmp(record->text + record->name_len, group, len) == 0;
}

/* With the lock held. A name that cannot be copied ends the handful: the caller sees less. */
static void gather_records(const idem__store_memory *memory, const idem__store_op *op,
                           uint64_t after, handful *out) {
  const idem__list *records = &memory->rooms[op->space].records;
  const char *group = op->group ? op->group : "";
  size_t group_len = strlen(group);
  for (const idem__list *at = records->next; at != records && out->count < HANDFUL; at = at->next) {
    idem__store_record *record =
        IDEM__CONTAINER((idem__list *)(uintptr_t)at, idem__store_record, link);
    if (record->birth <= after || !in_group(record, group, group_len)) continue;
    idem__store_value *name = idem__store_value_new(&memory->alloc, record->text, record->name_len);
    if (!name) return;
    out->items[out->count].number = record->birth;
    out->items[out->count].version = record->version;
    out->names[out->count] = name;
    out->values[out->count++] = idem__store_value_ref(record->value);
  }
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
  return more && *left && shown->count == HANDFUL;
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
    if (record && op->each) gather_entries(record, after, &found);
    idem__lock_give(&memory->lock);
    if (found.count) after = found.items[found.count - 1].number;
    more = show(memory, op, &found, &left);
  }
}

void idem__store_list(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer) {
  uint64_t after = op->after;
  size_t left = op->limit ? op->limit : SIZE_MAX;
  bool more = true;
  while (more) {
    handful found = {.count = 0};
    idem__lock_take(&memory->lock);
    gather_records(memory, op, after, &found);
    idem__lock_give(&memory->lock);
    if (found.count) after = found.items[found.count - 1].number;
    more = show(memory, op, &found, &left);
  }
  answer->status = IDEM_OK;
}
