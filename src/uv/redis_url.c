/* redis_url.c - how a Redis store is named: redis://, rediss://, redis+unix:. A password is never in the name, which others
 * see in the list of processes: the name says which file or variable has it. */
#include "uv/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_BYTES 4096u /* below it there is no room for what every store holds */

static bool copy(char *into, size_t size, const char *text, size_t len) {
  if (!len || len >= size) return false;
  memcpy(into, text, len);
  into[len] = 0;
  return true;
}

static bool read_number(const char *text, size_t len, unsigned long long most,
                        unsigned long long *number) {
  char digits[24];
  if (!copy(digits, sizeof digits, text, len) || strspn(digits, "0123456789") != len || len > 18)
    return false;
  *number = strtoull(digits, NULL, 10);
  return *number <= most;
}

/* ---------------------------------------------------------------- password */

/* A file of this user's that others cannot read, or one that whoever started us handed over on a descriptor. */
static const char *judge(int fd) {
  struct stat found;
  if (fstat(fd, &found) != 0) return strerror(errno);
  if (!S_ISREG(found.st_mode)) return "it is no regular file";
  if (found.st_mode & (S_IWGRP | S_IRWXO)) return "others may read or change it: chmod 600";
  return NULL;
}

static bool read_secret(const char *path, char *secret, size_t size, char *why, size_t why_size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const char *fault = fd < 0 ? strerror(errno) : judge(fd);
  ssize_t len = fault ? 0 : read(fd, secret, size - 1);
  if (fd >= 0) close(fd);
  if (!fault && len == (ssize_t)size - 1) fault = "it is too long";
  while (!fault && len > 0 && (secret[len - 1] == '\n' || secret[len - 1] == '\r')) len--;
  if (!fault && (len <= 0 || memchr(secret, 0, (size_t)len))) fault = "there is no password in it";
  secret[fault ? 0 : len] = 0;
  if (fault)
    snprintf(why, why_size, "what password_file names cannot be used: %s: %s", path, fault);
  return !fault;
}

static bool read_variable(const char *name, char *secret, size_t size, char *why, size_t why_size) {
  const char *value = getenv(name);
  bool fine = value && copy(secret, size, value, strlen(value));
  bool plain = !name[strspn(
      name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")]; /* else it may be the password itself */
  if (!fine)
    snprintf(why, why_size, "the variable of password_env is not set, or too long%s%s",
             plain ? ": " : "", plain ? name : "");
  return fine;
}

/* ----------------------------------------------------------------- options */

typedef struct parsing {
  idem__redis_url *url;
  char *why;
  size_t size;
  idem_status status;
} parsing;

static idem_status refuse(const parsing *self, const char *reason) {
  snprintf(self->why, self->size, "%s", reason);
  return IDEM_E_INVAL;
}

static idem_status read_password(const parsing *self, const char *value, size_t len, bool file) {
  char name[512];
  if (!copy(name, sizeof name, value, len)) return refuse(self, "this password is nowhere");
  if (self->url->password[0]) return refuse(self, "one password is enough");
  char *secret = self->url->password;
  bool there = file
                   ? read_secret(name, secret, sizeof self->url->password, self->why, self->size)
                   : read_variable(name, secret, sizeof self->url->password, self->why, self->size);
  if (there && file) memcpy(self->url->password_file, name, sizeof name);
  return there ? IDEM_OK : IDEM_E_SYS;
}

bool idem__redis_url_password(idem__redis_url *url, char *why, size_t size) {
  return read_secret(url->password_file, url->password, sizeof url->password, why, size);
}

static idem_status read_database(const parsing *self, const char *value, size_t len) {
  unsigned long long number;
  if (!read_number(value, len, 65535, &number))
    return refuse(self, "a database is a number, 0 to 65535");
  if (self->url->has_database) return refuse(self, "one database is enough");
  self->url->has_database = true;
  self->url->database = (unsigned)number;
  return IDEM_OK;
}

static idem_status read_replicas(const parsing *self, const char *value, size_t len) {
  unsigned long long number;
  if (!read_number(value, len, 16, &number)) return refuse(self, "replicas is a number, 0 to 16");
  self->url->replicas = (unsigned)number;
  return IDEM_OK;
}

static idem_status read_parts(const parsing *self, const char *value, size_t len) {
  unsigned long long number;
  if (!read_number(value, len, IDEM__STORE_PARTS_MAX, &number) || !number)
    return refuse(self, "parts is a number, 1 to 64");
  self->url->parts = (unsigned)number;
  return IDEM_OK;
}

static idem_status read_most(const parsing *self, const char *value, size_t len) {
  unsigned long long number;
  if (!read_number(value, len, (unsigned long long)1 << 50, &number) || number < LEAST_BYTES)
    return refuse(self, "max_bytes is a number of bytes, 4096 at least");
  self->url->max_bytes = (size_t)number;
  return IDEM_OK;
}

static idem_status read_option(const parsing *self, const char *option, size_t len) {
  idem__redis_url *url = self->url;
  size_t name = 0;
  while (name < len && option[name] != '=') name++;
  const char *value = option + name + 1;
  size_t value_len = name < len ? len - name - 1 : 0;
#define IS(text) (name == sizeof(text) - 1 && memcmp(option, text, name) == 0)
  if (IS("db")) return read_database(self, value, value_len);
  if (IS("replicas")) return read_replicas(self, value, value_len);
  if (IS("parts")) return read_parts(self, value, value_len);
  if (IS("max_bytes")) return read_most(self, value, value_len);
  if (IS("password_file")) return read_password(self, value, value_len, true);
  if (IS("password_env")) return read_password(self, value, value_len, false);
  if (IS("prefix"))
    return copy(url->prefix, sizeof url->prefix, value, value_len)
               ? IDEM_OK
               : refuse(self,
                        "a prefix has up to 48 letters, digits, dots, dashes and underscores");
  if (IS("ca") && url->tls)
    return copy(url->ca_file, sizeof url->ca_file, value, value_len)
               ? IDEM_OK
               : refuse(self, "ca names a file");
#undef IS
  return refuse(self,
                "behind ? go prefix, db, replicas, parts, max_bytes, password_file, password_env, "
                "and with rediss:// ca");
}

static idem_status read_options(const parsing *self, const char *text) {
  idem_status status = IDEM_OK;
  while (*text && status == IDEM_OK) {
    size_t len = strcspn(text, "&");
    status = read_option(self, text, len);
    text += len + (text[len] == '&');
  }
  return status;
}

/* ------------------------------------------------------------------- where */

/* Nothing in these looks like a secret to who writes the log: names alone, without = or : behind them. */
#define WHERE "in a file or a variable that the option password_file or password_env names"
static const char in_url[] = "a password does not belong in a URL, which others see, but " WHERE;

/* "USER@"; a password beside it is refused before anything repeats it. */
static idem_status read_user(const parsing *self, const char **text, size_t *len) {
  const char *at = memchr(*text, '@', *len);
  if (!at) return IDEM_OK;
  size_t user = (size_t)(at - *text);
  if (memchr(*text, ':', user)) return refuse(self, in_url);
  if (!copy(self->url->user, sizeof self->url->user, *text, user))
    return refuse(self, "the user's name is missing or too long");
  *text += user + 1;
  *len -= user + 1;
  return IDEM_OK;
}

/* "HOST", "HOST:PORT", "[V6]:PORT". */
static idem_status read_host(const parsing *self, const char *text, size_t len) {
  idem__redis_url *url = self->url;
  bool v6 = len && *text == '[';
  const char *close = v6 ? memchr(text, ']', len) : NULL;
  const char *host = v6 ? text + 1 : text;
  const char *rest = v6 ? (close ? close + 1 : NULL) : memchr(text, ':', len);
  const char *end = text + len;
  size_t host_len =
      v6 ? (close ? (size_t)(close - host) : 0) : (size_t)((rest ? rest : end) - text);
  unsigned long long port = 6379;
  bool fine = copy(url->host, sizeof url->host, host, host_len);
  if (fine && rest && rest < end)
    fine = *rest == ':' && read_number(rest + 1, (size_t)(end - rest - 1), 65535, &port) && port;
  if (!fine) return refuse(self, "a Redis is named redis://HOST:PORT");
  snprintf(url->port, sizeof url->port, "%u", (unsigned)(port & 65535u));
  return IDEM_OK;
}

/* "[USER@]HOST[:PORT][/DATABASE]" */
static idem_status read_network(const parsing *self, const char *text, size_t len) {
  const char *slash = memchr(text, '/', len);
  size_t authority = slash ? (size_t)(slash - text) : len;
  size_t rest = slash ? len - authority - 1 : 0;
  if (memchr(text, '@', len) && !memchr(text, '@', authority)) return refuse(self, in_url);
  idem_status status = read_user(self, &text, &authority);
  if (status == IDEM_OK) status = read_host(self, text, authority);
  if (status == IDEM_OK && rest) status = read_database(self, slash + 1, rest);
  return status;
}

/* "[USER@]/PATH" */
static idem_status read_socket(const parsing *self, const char *text, size_t len) {
  idem_status status = read_user(self, &text, &len);
  if (status != IDEM_OK) return status;
  if (!len || *text != '/' || !copy(self->url->path, sizeof self->url->path, text, len))
    return refuse(self, "a Redis on this machine is named redis+unix:/PATH");
  return IDEM_OK;
}

idem_status idem__redis_url_parse(const char *text, idem__redis_url *url, char *why, size_t size) {
  parsing self = {.url = url, .why = why, .size = size};
  *url = (idem__redis_url){.tls = strncmp(text, "rediss://", 9) == 0};
  bool network = url->tls || strncmp(text, "redis://", 8) == 0;
  if (!network && strncmp(text, "redis+unix:", 11) != 0)
    return refuse(&self,
                  "a Redis is named redis://HOST:PORT, rediss://HOST:PORT or redis+unix:/PATH");
  const char *place = text + (network ? (url->tls ? 9 : 8) : 11);
  size_t len = strcspn(place, "?");
  idem_status status = network ? read_network(&self, place, len) : read_socket(&self, place, len);
  if (status == IDEM_OK && place[len]) status = read_options(&self, place + len + 1);
  if (status == IDEM_OK && url->user[0] && !url->password[0])
    status = refuse(&self, "a user has a password, " WHERE);
  if (status != IDEM_OK) explicit_bzero(url->password, sizeof url->password);
  return status;
}
