/* query_files.c - how SQLite opens files: without waiting for a FIFO, and without mapping what a program
 * may cut short, since reading behind the end of a file that is mapped ends the process. */
#include "query_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNMAPPED "idem-unmapped"

/* A link that a program put in a database's place would have it read another's. SQLite follows links before it
 * opens, and is told not to; what is left is one that comes in between. Its own temporary files are new ones. */
static int open_file(const char *path, int flags, int mode) {
  struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_NO_SYMLINKS};
  if (flags & O_CREAT) how.mode = (unsigned)mode & 07777;
  long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && !(errno == ELOOP && (flags & O_EXCL)))) return (int)fd;
  return open(path, flags, mode);
}

/* In place of SQLite's open: a FIFO would be waited for until someone writes to it. */
static int open_without_waiting(const char *path, int flags, int mode) {
  struct stat about;
  int fd = open_file(path, flags | O_NONBLOCK | O_NOCTTY, mode);
  if (fd < 0 || (fstat(fd, &about) == 0 && !S_ISFIFO(about.st_mode))) return fd;
  close(fd);
  errno = EINVAL;
  return -1;
}

/* ------------------------------------------------------------------ nothing mapped */

static sqlite3_vfs unmapped;
static sqlite3_io_methods methods; /* of database files, as SQLite's but for those that map */
static pthread_once_t methods_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t methods_lock = PTHREAD_MUTEX_INITIALIZER;

static void take_methods(const sqlite3_io_methods *theirs) {
  pthread_mutex_lock(&methods_lock);
  if (!methods.xRead) {
    methods = *theirs;
    methods.iVersion = 1; /* 2 maps the index of a WAL, 3 the file itself */
  }
  pthread_mutex_unlock(&methods_lock);
}

static int open_unmapped(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                         int *opened) {
  sqlite3_vfs *theirs = vfs->pAppData;
  int code = theirs->xOpen(theirs, name, file, flags, opened);
  if (code != SQLITE_OK || !file->pMethods || !(flags & SQLITE_OPEN_MAIN_DB)) return code;
  take_methods(file->pMethods);
  file->pMethods = &methods;
  return code;
}

static void set_up(void) {
  sqlite3_vfs *theirs = sqlite3_vfs_find(NULL);
  if (!theirs) return;
  if (theirs->iVersion >= 3 && theirs->xSetSystemCall)
    theirs->xSetSystemCall(theirs, "open", (sqlite3_syscall_ptr)open_without_waiting);
  unmapped = *theirs;
  unmapped.zName = UNMAPPED;
  unmapped.pNext = NULL;
  unmapped.pAppData = theirs;
  unmapped.xOpen = open_unmapped;
  sqlite3_vfs_register(&unmapped, 0);
}

const char *query_files_vfs(const tool_config *tool) {
  pthread_once(&methods_once, set_up);
  return tool->database_writer ? UNMAPPED : NULL;
}
