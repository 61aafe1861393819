/* sqlite_wal.c - the file of a store's WAL, between SQLite and the operating system. SQLite writes a transaction page by page, a head and
 * then the page, two system calls for each; here they are gathered and written together when the transaction's last one comes. Nothing is
 * told before that: until then nobody, SQLite itself apart, may know of any of it. See docs/internals/modules.md. */
#include "sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#define NAME "idem-wal"
#define FRAME_HEAD 24 /* bytes before each page in a WAL */
/* At most; larger transactions are several writes. SQLite's own files take no write of 128 KiB: they read its length modulo that. */
#define GATHERED 122880

/* A sqlite3_file of ours, with the operating system's behind it in the same memory. */
typedef struct wal_file {
  sqlite3_file head;
  sqlite3_file *real;
  char *bytes;       /* from malloc, when first needed */
  int len;           /* gathered */
  sqlite3_int64 at;  /* where they belong */
  sqlite3_int64 end; /* of what was written last, gathered or not */
  bool last;         /* that was the head of a transaction's last page */
} wal_file;

static wal_file *wal_of(sqlite3_file *file) { return (wal_file *)(void *)file; }

/* Where it fails SQLite gives the transaction up, and writes the next one over it. */
static int flush(wal_file *wal) {
  int len = wal->len;
  wal->len = 0;
  return len ? wal->real->pMethods->xWrite(wal->real, wal->bytes, len, wal->at) : SQLITE_OK;
}

static bool has_room(wal_file *wal, int len) {
  if (!wal->bytes) wal->bytes = malloc(GATHERED);
  return wal->bytes && len <= GATHERED - wal->len;
}

static void gather(wal_file *wal, const void *bytes, int len, sqlite3_int64 at) {
  if (!wal->len) wal->at = at;
  memcpy(wal->bytes + wal->len, bytes, (size_t)len);
  wal->len += len;
}

/* The second number of a head is 0 but in that of a transaction's last page. */
static bool is_last_head(const void *bytes, int len) {
  static const char none[4];
  return len == FRAME_HEAD && memcmp((const char *)bytes + 4, none, sizeof none) != 0;
}

/* What goes behind what was written last is part of a transaction, whose last page has all of it written. Whatever goes elsewhere is
 * written at once: of heads that are written anew nothing says which is the last. */
static int wal_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at) {
  wal_file *wal = wal_of(file);
  bool follows = at == wal->end, ends = wal->last && follows;
  int code = follows && has_room(wal, len) ? SQLITE_OK : flush(wal);
  wal->end = at + len;
  wal->last = is_last_head(bytes, len);
  if (code != SQLITE_OK) return code;
  if (!follows || !has_room(wal, len))
    return wal->real->pMethods->xWrite(wal->real, bytes, len, at);
  gather(wal, bytes, len, at);
  return ends ? flush(wal) : SQLITE_OK;
}

/* ----------------------------------------------------- whatever else is asked comes behind what was written */

static int wal_close(sqlite3_file *file) {
  wal_file *wal = wal_of(file);
  int code = flush(wal);
  free(wal->bytes);
  int closed = wal->real->pMethods->xClose(wal->real);
  return code != SQLITE_OK ? code : closed;
}

static int wal_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 at) {
  wal_file *wal = wal_of(file);
  int code = flush(wal);
  return code != SQLITE_OK ? code : wal->real->pMethods->xRead(wal->real, bytes, len, at);
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size) {
  wal_file *wal = wal_of(file);
  int code = flush(wal);
  return code != SQLITE_OK ? code : wal->real->pMethods->xTruncate(wal->real, size);
}

static int wal_sync(sqlite3_file *file, int flags) {
  wal_file *wal = wal_of(file);
  int code = flush(wal);
  return code != SQLITE_OK ? code : wal->real->pMethods->xSync(wal->real, flags);
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *size) {
  wal_file *wal = wal_of(file);
  int code = flush(wal);
  return code != SQLITE_OK ? code : wal->real->pMethods->xFileSize(wal->real, size);
}

static int wal_lock(sqlite3_file *file, int how) {
  return wal_of(file)->real->pMethods->xLock(wal_of(file)->real, how);
}

static int wal_unlock(sqlite3_file *file, int how) {
  return wal_of(file)->real->pMethods->xUnlock(wal_of(file)->real, how);
}

static int wal_is_reserved(sqlite3_file *file, int *reserved) {
  return wal_of(file)->real->pMethods->xCheckReservedLock(wal_of(file)->real, reserved);
}

static int wal_control(sqlite3_file *file, int what, void *arg) {
  return wal_of(file)->real->pMethods->xFileControl(wal_of(file)->real, what, arg);
}

static int wal_sector(sqlite3_file *file) {
  return wal_of(file)->real->pMethods->xSectorSize(wal_of(file)->real);
}

static int wal_traits(sqlite3_file *file) {
  return wal_of(file)->real->pMethods->xDeviceCharacteristics(wal_of(file)->real);
}

static const sqlite3_io_methods wal_methods = {.iVersion = 1,
                                               .xClose = wal_close,
                                               .xRead = wal_read,
                                               .xWrite = wal_write,
                                               .xTruncate = wal_truncate,
                                               .xSync = wal_sync,
                                               .xFileSize = wal_size,
                                               .xLock = wal_lock,
                                               .xUnlock = wal_unlock,
                                               .xCheckReservedLock = wal_is_reserved,
                                               .xFileControl = wal_control,
                                               .xSectorSize = wal_sector,
                                               .xDeviceCharacteristics = wal_traits};

/* ------------------------------------------------------------------ opening */

static sqlite3_vfs *beneath, ours;

/* Every other file is the operating system's, as ever. */
static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags) {
  (void)vfs;
  if (!(flags & SQLITE_OPEN_WAL)) return beneath->xOpen(beneath, name, file, flags, out_flags);
  wal_file *wal = wal_of(file);
  *wal = (wal_file){.real = (sqlite3_file *)(void *)(wal + 1)};
  int code = beneath->xOpen(beneath, name, wal->real, flags, out_flags);
  if (code == SQLITE_OK) wal->head.pMethods = &wal_methods;
  return code;
}

static void make_vfs(void) {
  beneath = sqlite3_vfs_find(NULL);
  if (!beneath) return;
  ours = *beneath;
  ours.zName = NAME;
  ours.pNext = NULL;
  ours.szOsFile = (int)sizeof(wal_file) + beneath->szOsFile;
  ours.xOpen = open_file;
  if (sqlite3_vfs_register(&ours, 0) != SQLITE_OK) ours.zName = NULL;
}

const char *sqlite_wal_vfs(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_vfs);
  return ours.zName;
}
