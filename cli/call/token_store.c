/* token_store.c - see token_store.h. A file is written beside and renamed, so that a reader sees a whole one or none; what
 * is not ours and nobody else's is not read. */
#include "token_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)256 << 10)

static bool fault(token_store *self, const char *name, const char *what) {
  snprintf(self->why, sizeof self->why, "%.200s%s%.64s: %.40s", self->path, *name ? "/" : "", name,
           what);
  return false;
}

/* ------------------------------------------------------------------------- names */

/* FNV-1a. What a file says of its server and client is compared anyway: this only tells names apart. */
static uint64_t digest_of(const char *words) {
  uint64_t digest = UINT64_C(0xcbf29ce484222325);
  for (; *words; words++) digest = (digest ^ (unsigned char)*words) * UINT64_C(0x100000001b3);
  return digest;
}

/* The host, for people who look into the folder; then what tells this server from others there. */
static void put_stem(token_store *self, const char *url) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
  const char *host = strstr(url, "://");
  host = host ? host + 3 : url;
  size_t len = strcspn(host, ":/?#");
  if (len > 64) len = 64;
  char shown[65] = "";
  for (size_t i = 0; i < len; i++) shown[i] = strchr(letters, host[i]) ? host[i] : '_';
  snprintf(self->stem, sizeof self->stem, "%s-%016llx", shown, (unsigned long long)digest_of(url));
}

static bool put_folder(token_store *self) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  int len = -1;
  if (state && *state == '/')
    len = snprintf(self->path, sizeof self->path, "%s/idem/tokens", state);
  else if (home && *home == '/')
    len = snprintf(self->path, sizeof self->path, "%s/.local/state/idem/tokens", home);
  if (len > 0 && (size_t)len < sizeof self->path) return true;
  snprintf(self->why, sizeof self->why, "neither XDG_STATE_HOME nor HOME names a folder");
  return false;
}

void token_store_name(const token_store *self, char *out, size_t size) {
  snprintf(out, size, "%s/%s.json", self->path, self->stem);
}

/* ------------------------------------------------------------------------ the folder */

static bool is_private(token_store *self, int fd, const char *name, bool folder) {
  struct stat about;
  if (fstat(fd, &about) != 0) return fault(self, name, strerror(errno));
  if (folder ? !S_ISDIR(about.st_mode) : !S_ISREG(about.st_mode))
    return fault(self, name, folder ? "is no folder" : "is no regular file");
  if (about.st_uid != geteuid()) return fault(self, name, "belongs to somebody else");
  if (about.st_mode & 077)
    return fault(self, name,
                 folder ? "is open to others: chmod 700" : "is open to others: chmod 600");
  if (!folder && about.st_nlink > 1) return fault(self, name, "has another name, a hard link");
  return true;
}

static const char *open_fault(int error) {
  return error == ELOOP ? "is a link, which is not followed" : strerror(error);
}

/* O_DIRECTORY finds a link, a file, and a file on the way to it to be no folder. */
static const char *folder_fault(const char *path, int error) {
  struct stat about;
  if (error != ENOTDIR) return open_fault(error);
  if (lstat(path, &about) != 0) return "has a file, not a folder, on its way";
  return S_ISLNK(about.st_mode) ? open_fault(ELOOP) : "is a file, not a folder";
}

static void make_folders(const char *path) {
  char part[2048];
  snprintf(part, sizeof part, "%s/", path);
  for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(part, 0700);
    *slash = '/';
  }
}

static bool open_folder(token_store *self, bool make) {
  if (self->folder >= 0) return true;
  if (!*self->path) return false; /* `why` is known */
  if (make) make_folders(self->path);
  self->folder = open(self->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (self->folder < 0) return fault(self, "", folder_fault(self->path, errno));
  if (is_private(self, self->folder, "", true)) return true;
  close(self->folder);
  self->folder = -1;
  return false;
}

bool token_store_open(token_store *self, const char *url, const char *client) {
  *self = (token_store){.folder = -1, .lock = -1};
  put_stem(self, url);
  size_t len = strlen(self->stem);
  if (client)
    snprintf(self->stem + len, sizeof self->stem - len, "-%016llx",
             (unsigned long long)digest_of(client));
  if (!put_folder(self)) return true; /* nothing is kept, nor can it be */
  struct stat about;
  if (lstat(self->path, &about) != 0 && errno == ENOENT) return true; /* nothing is kept yet */
  return open_folder(self, false);
}

void token_store_close(token_store *self) {
  token_store_unlock(self);
  if (self->folder >= 0) close(self->folder);
  self->folder = -1;
}

/* ------------------------------------------------------------------------ the file */

static bool read_whole(token_store *self, int fd, const char *name, text *out) {
  char piece[4096];
  ssize_t got;
  while ((got = read(fd, piece, sizeof piece)) > 0) {
    if (out->len + (size_t)got > FILE_BYTES) return fault(self, name, "is too long");
    text_put(out, piece, (size_t)got);
  }
  return got == 0 || fault(self, name, strerror(errno));
}

token_file token_store_read(token_store *self, text *out) {
  char name[256];
  if (self->folder < 0) return TOKEN_FILE_NONE;
  snprintf(name, sizeof name, "%s.json", self->stem);
  int fd = openat(self->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return TOKEN_FILE_NONE;
  bool fine = fd >= 0 ? is_private(self, fd, name, false) && read_whole(self, fd, name, out)
                      : fault(self, name, open_fault(errno));
  if (fd >= 0) close(fd);
  return fine ? TOKEN_FILE_READ : TOKEN_FILE_REFUSED;
}

static bool write_all(int fd, const char *data, size_t len) {
  while (len) {
    ssize_t done = write(fd, data, len);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    len -= (size_t)done;
  }
  return fdatasync(fd) == 0;
}

bool token_store_write(token_store *self, const char *data, size_t len) {
  char name[256], beside[300];
  if (!open_folder(self, true)) return false;
  snprintf(name, sizeof name, "%s.json", self->stem);
  snprintf(beside, sizeof beside, ".%s.%ld", name, (long)getpid());
  unlinkat(self->folder, beside, 0); /* of a process that had our number and died */
  int fd = openat(self->folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return fault(self, beside, strerror(errno));
  bool fine = write_all(fd, data, len);
  fine = close(fd) == 0 && fine;
  fine = fine && renameat(self->folder, beside, self->folder, name) == 0;
  if (fine) return true;
  fault(self, name, strerror(errno));
  unlinkat(self->folder, beside, 0);
  return false;
}

bool token_store_remove(token_store *self) {
  char name[256];
  if (self->folder < 0) return true;
  snprintf(name, sizeof name, "%s.json", self->stem);
  if (unlinkat(self->folder, name, 0) != 0 && errno != ENOENT)
    return fault(self, name, strerror(errno));
  snprintf(name, sizeof name, "%s.lock", self->stem);
  if (self->lock >= 0) unlinkat(self->folder, name, 0);
  return true;
}

/* ------------------------------------------------------------------------ the lock */

/* Whoever logs out takes the lock's file away: one without a name is nobody's any more. */
static token_lock take(token_store *self, int fd, const char *name) {
  struct stat about;
  if (!is_private(self, fd, name, false)) return TOKEN_LOCK_REFUSED;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0)
    return fstat(fd, &about) == 0 && about.st_nlink ? TOKEN_LOCK_HELD : TOKEN_LOCK_BUSY;
  if (errno == EWOULDBLOCK || errno == EINTR) return TOKEN_LOCK_BUSY;
  fault(self, name, strerror(errno));
  return TOKEN_LOCK_REFUSED;
}

token_lock token_store_lock(token_store *self) {
  char name[256];
  if (self->lock >= 0) return TOKEN_LOCK_HELD;
  if (!open_folder(self, true)) return TOKEN_LOCK_REFUSED;
  snprintf(name, sizeof name, "%s.lock", self->stem);
  int fd = openat(self->folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) fault(self, name, open_fault(errno));
  token_lock got = fd < 0 ? TOKEN_LOCK_REFUSED : take(self, fd, name);
  if (got == TOKEN_LOCK_HELD)
    self->lock = fd;
  else if (fd >= 0)
    close(fd);
  return got;
}

void token_store_unlock(token_store *self) {
  if (self->lock >= 0) close(self->lock);
  self->lock = -1;
}
