/* sqlite_folder.h - a folder of the test's own with SQLite files in it, each a store. */
#ifndef IDEM_TEST_SQLITE_FOLDER_H
#define IDEM_TEST_SQLITE_FOLDER_H

#include "modules/sqlite/sqlite.h"
#include "store_asker.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const idem__sqlite_module idem__sqlite_module_table;
static const idem__sqlite_module *const module = &idem__sqlite_module_table;

static char folder[] = "/tmp/idem-sqlite-XXXXXX";
static unsigned files;

static inline void name_file(char path[64]) { snprintf(path, 64, "%s/%u.db", folder, ++files); }

static inline idem__store *open_at(const char *path, size_t max_bytes) {
  char why[256] = "";
  idem__store *store;
  idem__sqlite_opts opts = {.path = path, .max_bytes = max_bytes, .sync = IDEM__SQLITE_OFF};
  if (module->open(&opts, &store, why, sizeof why) != IDEM_OK) print_error("%s\n", why);
  return store;
}

static inline idem__store *make(size_t max_bytes) {
  char path[64];
  name_file(path);
  idem__store *store = open_at(path, max_bytes);
  if (store) module->pass(store, 0); /* time goes by what the tests say */
  return store;
}

static inline int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
  char path[96];
  static const char *const endings[] = {"", "-wal", "-shm"};
  (void)state;
  for (unsigned i = 1; i <= files; i++)
    for (int j = 0; j < 3; j++) {
      snprintf(path, sizeof path, "%s/%u.db%s", folder, i, endings[j]);
      unlink(path);
    }
  return rmdir(folder);
}

#endif
