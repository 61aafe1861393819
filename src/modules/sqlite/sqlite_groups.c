/* sqlite_groups.c - how many records each group has. A transaction often makes many records of one group: its count is read once,
 * kept here while the transaction lasts, and written once. See docs/internals/modules.md. */
#include "sqlite_store.h"

#include <stdio.h>
#include <string.h>

static sqlite3_stmt *statement_for(sqlite_store *store, sqlite_statement which,
                                   const sqlite_group *group) {
  sqlite3_stmt *statement = sqlite_use(store, which);
  sqlite3_bind_int64(statement, 1, group->space);
  sqlite3_bind_text(statement, 2, group->members, -1, SQLITE_STATIC);
  return statement;
}

static void write_group(sqlite_store *store, sqlite_group *group) {
  if (!group->changed) return;
  sqlite_statement which = group->count ? SQL_SET_GROUP : SQL_DELETE_GROUP;
  sqlite3_stmt *statement = statement_for(store, which, group);
  if (group->count) sqlite3_bind_int64(statement, 3, (sqlite3_int64)group->count);
  sqlite_execute(store, statement);
  group->changed = false;
}

static void read_group(sqlite_store *store, sqlite_group *group, idem__store_space space,
                       const char *members) {
  group->space = space;
  group->changed = false;
  snprintf(group->members, sizeof group->members, "%s", members);
  sqlite3_stmt *row = statement_for(store, SQL_GET_GROUP, group);
  group->count = sqlite_step(store, row) ? (uint64_t)sqlite3_column_int64(row, 0) : 0;
  sqlite_done(row);
}

/* Where there is no room for one more, the one that came first makes it. */
static sqlite_group *group_of(sqlite_store *store, idem__store_space space, const char *members) {
  for (size_t i = 0; i < store->group_count; i++) {
    sqlite_group *group = &store->groups[i];
    if (group->space == space && strcmp(group->members, members) == 0) return group;
  }
  if (store->group_count < SQLITE_GROUPS) {
    sqlite_group *group = &store->groups[store->group_count++];
    read_group(store, group, space, members);
    return group;
  }
  sqlite_group *group = &store->groups[store->group_next++ % SQLITE_GROUPS];
  write_group(store, group);
  read_group(store, group, space, members);
  return group;
}

uint64_t sqlite_group_count(sqlite_store *store, idem__store_space space, const char *members) {
  return group_of(store, space, members)->count;
}

/* One without a name is not counted. */
void sqlite_group_add(sqlite_store *store, idem__store_space space, const char *members, int step) {
  if (!*members) return;
  sqlite_group *group = group_of(store, space, members);
  if (step > 0) group->count++;
  if (step < 0 && group->count) group->count--;
  group->changed = true;
}

void sqlite_groups_forget(sqlite_store *store) { store->group_count = store->group_next = 0; }

void sqlite_groups_write(sqlite_store *store) {
  for (size_t i = 0; i < store->group_count; i++) write_group(store, &store->groups[i]);
}
