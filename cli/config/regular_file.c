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
  *why = known && !regular ? REGULAR_FILE_NOT : strerror(errno);
  if (fd >= 0) close(fd);
  if (known && !regular) errno = 0;
  return NULL;
}
