/* regular_file.c - see regular_file.h. */
#include "regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

FILE *regular_file_open(const char *path, const char **why) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool known = fd >= 0 && fstat(fd, &about) == 0;
  bool regular = known && S_ISREG(about.st_mode);
  FILE *file = regular ? fdopen(fd, "r") : NULL;
  if (file) return file;
  int fault = errno;
  if (known && !regular) fault = S_ISDIR(about.st_mode) ? EISDIR : 0;
  *why = fault ? strerror(fault) : REGULAR_FILE_NOT;
  if (fd >= 0) close(fd);
  errno = fault;
  return NULL;
}

FILE *regular_file_open_secret(const char *path, const char **why) {
  struct stat about;
  FILE *file = regular_file_open(path, why);
  if (!file || (fstat(fileno(file), &about) == 0 && about.st_nlink <= 1)) return file;
  *why = "has another name, a hard link, by which programs could read it: copy it to a file of its "
         "own";
  fclose(file);
  errno = 0;
  return NULL;
}

int regular_file_open_unlinked(const char *path, int flags) {
  struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_NO_SYMLINKS};
  long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0 || errno != ENOSYS) return (int)fd;
  return open(path, flags | O_NOFOLLOW); /* before Linux 5.6: the last part of it at least */
}
