/* page_key.c - see page_key.h. A key goes to a terminal, or to a file of mode 0600: never into a log, and never into an
 * address that a server sees. */
#include "page_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES 24
#define KEY_LEAST 16

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Letters that stand for themselves in an address and in a header. */
static bool take_given(page_key *self, const char *given, const char **why) {
  size_t len = strlen(given);
  *why = "IDEM_PAGE_KEY wants 16 to 128 letters, digits, - or _";
  if (len < KEY_LEAST || len > PAGE_KEY_MOST || strspn(given, letters) != len) return false;
  memcpy(self->text, given, len + 1);
  return true;
}

static bool make(page_key *self, const char **why) {
  unsigned char bits[KEY_BYTES * 4 / 3];
  *why = "no randomness";
  if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) return false;
  for (size_t i = 0; i < sizeof bits; i++) self->text[i] = letters[bits[i] % 64];
  self->text[sizeof bits] = 0;
  return true;
}

bool page_key_init(page_key *self, const char *given, const char **why) {
  *self = (page_key){.text = ""};
  return given && *given ? take_given(self, given, why) : make(self, why);
}

/* The scheme and host of a URL. */
static size_t origin_len(const char *url) {
  const char *host = strstr(url, "://");
  return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/") : strlen(url);
}

bool page_key_address(const page_key *self, const char *url, char *address, size_t size) {
  int len = snprintf(address, size, "%.*s/#key=%s", (int)origin_len(url), url, self->text);
  return len > 0 && (size_t)len < size;
}

/* ---------------------------------------------------------------------------- the file */

/* A folder that is ours alone. */
static bool is_ours(const char *path) {
  struct stat about;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
  if (lstat(path, &about) != 0) return false;
  errno = EPERM;
  return S_ISDIR(about.st_mode) && about.st_uid == geteuid() && (about.st_mode & 022) == 0;
}

static bool runtime_folder(char *path, size_t size) {
  const char *given = getenv("XDG_RUNTIME_DIR");
  if (!given || *given != '/') given = getenv("RUNTIME_DIRECTORY");
  int len = given && *given == '/' ? snprintf(path, size, "%s/idem", given)
                                   : snprintf(path, size, "/tmp/idem-%ld", (long)geteuid());
  errno = ENAMETOOLONG;
  return len > 0 && (size_t)len < size && is_ours(path);
}

static bool write_line(int fd, const char *line) {
  size_t len = strlen(line);
  bool whole = write(fd, line, len) == (ssize_t)len && write(fd, "\n", 1) == 1;
  return close(fd) == 0 && whole;
}

static const char *port_of(const char *url, size_t *len) {
  const char *end = url + origin_len(url), *at = end;
  while (at > url && at[-1] >= '0' && at[-1] <= '9') at--;
  *len = (size_t)(end - at);
  return at;
}

bool page_key_write(page_key *self, const char *url) {
  char folder[300], address[512], path[sizeof self->file];
  size_t digits;
  const char *port = port_of(url, &digits);
  if (!runtime_folder(folder, sizeof folder)) return false;
  snprintf(path, sizeof path, "%s/page-%.*s", folder, (int)digits, port);
  if (!page_key_address(self, url, address, sizeof address)) return false;
  unlink(path); /* of one that did not end well; the port is ours now */
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  memcpy(self->file, path, sizeof path);
  return write_line(fd, address);
}

void page_key_deinit(page_key *self) {
  if (*self->file) unlink(self->file);
  explicit_bzero(self, sizeof *self);
}
