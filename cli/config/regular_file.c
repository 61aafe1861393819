/* regular_file.c - see regular_file.h. */
#include "regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
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
