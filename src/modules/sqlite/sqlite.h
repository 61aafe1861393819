/* sqlite.h - what the SQLite module offers: a store of src/store in a file, which survives its process and which
 * several processes of one machine may share. The runtime loads the module when a server names "sqlite:/path".
 * See docs/internals/modules.md. */
#ifndef IDEM_MODULES_SQLITE_H
#define IDEM_MODULES_SQLITE_H

#include "../../store/store.h"

#define IDEM__SQLITE_SYMBOL "idem__sqlite_module_table"

/* What a commit waits for. NORMAL survives the death of any process, not a loss of power. */
typedef enum idem__sqlite_sync {
  IDEM__SQLITE_NORMAL,
  IDEM__SQLITE_FULL, /* survives a loss of power, too */
  IDEM__SQLITE_OFF   /* a loss of power may break the file */
} idem__sqlite_sync;

typedef struct idem__sqlite_opts {
  const char *path;
  idem__sqlite_sync sync;
  size_t max_bytes;    /* of values, names and log entries together; 0: 512 MiB */
  size_t queued_count; /* operations that wait for the writer; 0: 65,536 */
  size_t queued_bytes; /* of them; 0: 64 MiB */
  uint64_t busy_ms;    /* how long another process may hold the file; 0: 5,000 */
} idem__sqlite_opts;

typedef struct idem__sqlite_module {
  /* INVAL: the file cannot be used, or is not one of ours: `why` (of `size` bytes) says so. */
  idem_status (*open)(const idem__sqlite_opts *opts, idem__store **out, char *why, size_t size);
  /* Whether `open` could make or open the file, as far as can be seen without doing so. INVAL as there. */
  idem_status (*check)(const idem__sqlite_opts *opts, char *why, size_t size);
  /* For tests: from the first call on this store's time stands still, but for the time that passes so. */
  void (*pass)(idem__store *store, uint64_t ms);
} idem__sqlite_module;

#endif
