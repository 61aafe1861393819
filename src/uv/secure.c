/* secure.c - TLS as a filter between a socket and a peer, by the tls module.
 * What a read brings is decrypted whole, so nothing readable is left inside when the socket is
 * empty; what a write encrypts and the socket does not take waits here, a slice at most.
 * See docs/internals/uv.md. */
#include "uv/secure.h"

#include <errno.h>
#include <string.h>

#define SLICE ((size_t)16 * 1024)
#define BUFFER_BYTES ((size_t)24 * 1024) /* a slice and what TLS adds */

struct idem__secure {
  const idem__tls_module *module;
  idem__tls_session *session;
  idem_alloc alloc;
  char *rest; /* bytes for the wire; NULL: none wait */
  size_t rest_len, rest_at;
  bool ending;       /* the socket is shut down after the rest */
  bool heard;        /* the other side has said something */
  const char *plain; /* for who begins with HTTP; NULL: nothing */
  size_t plain_len;
};

idem_status idem__secure_new(const idem_alloc *alloc, const idem__tls_module *module,
                             idem__tls_session *session, idem__secure **out) {
  idem__secure *secure = *out = idem__calloc(alloc, sizeof *secure);
  if (!secure) {
    module->session_free(session);
    return IDEM_E_NOMEM;
  }
  secure->module = module;
  secure->session = session;
  secure->alloc = *alloc;
  return IDEM_OK;
}

void idem__secure_free(idem__secure *secure) {
  if (!secure) return;
  idem_alloc alloc = secure->alloc;
  secure->module->session_free(secure->session);
  idem__free(&alloc, secure->rest);
  idem__free(&alloc, secure);
}

bool idem__secure_ready(const idem__secure *secure) {
  return secure->module->ready(secure->session);
}
bool idem__secure_unsent(const idem__secure *secure) { return secure->rest != NULL; }
const char *idem__secure_fault(const idem__secure *secure) {
  return secure->module->fault(secure->session);
}

/* --------------------------------------------------------------------- output */

/* How many bytes the socket took; -1: it is lost. */
static ssize_t send_some(int fd, const char *data, size_t len) {
  ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

static bool send_rest(idem__secure *secure, int fd) {
  if (!secure->rest) return true;
  ssize_t n = send_some(fd, secure->rest + secure->rest_at, secure->rest_len - secure->rest_at);
  if (n < 0) return false;
  secure->rest_at += (size_t)n;
  if (secure->rest_at < secure->rest_len) return true;
  idem__free(&secure->alloc, secure->rest);
  secure->rest = NULL;
  return true;
}

static bool keep(idem__secure *secure, const char *data, size_t len) {
  secure->rest = idem__malloc(&secure->alloc, len);
  if (!secure->rest) return false;
  memcpy(secure->rest, data, len);
  secure->rest_len = len;
  secure->rest_at = 0;
  return true;
}

bool idem__secure_flush(idem__secure *secure, int fd) {
  char cipher[BUFFER_BYTES];
  if (!send_rest(secure, fd)) return false;
  while (!secure->rest) {
    size_t len = secure->module->take(secure->session, cipher, sizeof cipher);
    if (!len) break;
    ssize_t n = send_some(fd, cipher, len);
    if (n < 0 || ((size_t)n < len && !keep(secure, cipher + n, len - (size_t)n))) return false;
  }
  if (secure->ending && !secure->rest) shutdown(fd, SHUT_WR);
  return true;
}

ssize_t idem__secure_write(idem__secure *secure, int fd, const struct iovec *pieces, int count) {
  size_t taken = 0;
  if (!idem__secure_flush(secure, fd)) return -ECONNRESET;
  if (!idem__secure_ready(secure)) return -EAGAIN;
  for (int i = 0; i < count; i++) {
    for (size_t at = 0; at < pieces[i].iov_len && !secure->rest;) {
      size_t left = pieces[i].iov_len - at, slice = left < SLICE ? left : SLICE;
      const char *data = (const char *)pieces[i].iov_base + at;
      if (secure->module->write(secure->session, data, slice) != IDEM_OK) return -EPROTO;
      at += slice;
      taken += slice;
      if (!idem__secure_flush(secure, fd)) return -ECONNRESET;
    }
  }
  return taken ? (ssize_t)taken : -EAGAIN;
}

bool idem__secure_end(idem__secure *secure, int fd) {
  secure->module->close(secure->session);
  secure->ending = true;
  return idem__secure_flush(secure, fd);
}

/* ---------------------------------------------------------------------- input */

/* Decrypts all there is; *verdict is what the module said last. */
static size_t decrypt(idem__secure *secure, char *into, size_t size, long *verdict) {
  size_t got = 0;
  *verdict = 0;
  while (got < size) {
    *verdict = secure->module->read(secure->session, into + got, size - got);
    if (*verdict <= 0) break;
    got += (size_t)*verdict;
  }
  return got;
}

void idem__secure_set_plain(idem__secure *secure, const char *text, size_t len) {
  secure->plain = text;
  secure->plain_len = len;
}

/* A method begins with a capital letter, which no record of TLS does. */
static bool begins_with_http(idem__secure *secure, char first) {
  bool begins = !secure->heard && secure->plain && first >= 'A' && first <= 'Z';
  secure->heard = true;
  return begins;
}

/* Says so, and reads what has come already, lest a reset overtake the answer. */
static ssize_t turn_away(const idem__secure *secure, int fd) {
  char nothing[BUFFER_BYTES];
  if (send_some(fd, secure->plain, secure->plain_len) > 0) {
    shutdown(fd, SHUT_WR);
    recv(fd, nothing, sizeof nothing, MSG_DONTWAIT);
  }
  return -EPROTO;
}

void idem__secure_begin(idem__secure *secure, int fd) {
  char nothing; /* can come before anything was received */
  secure->module->read(secure->session, &nothing, 1);
  idem__secure_flush(secure, fd); /* a lost socket is noticed when it is read */
}

ssize_t idem__secure_read(idem__secure *secure, int fd, char *into, size_t size) {
  char cipher[BUFFER_BYTES];
  for (;;) {
    long verdict;
    size_t got = decrypt(secure, into, size, &verdict);
    if (!idem__secure_flush(secure, fd)) return -ECONNRESET; /* its answers, and alerts */
    if (got) return (ssize_t)got;
    if (verdict == -1) return 0;
    if (verdict < 0) return -EPROTO;
    ssize_t n = recv(fd, cipher, sizeof cipher, MSG_DONTWAIT);
    if (n < 0) return -errno;
    if (n == 0) return idem__secure_ready(secure) ? 0 : -ECONNRESET;
    if (begins_with_http(secure, cipher[0])) return turn_away(secure, fd);
    if (secure->module->feed(secure->session, cipher, (size_t)n) != IDEM_OK) return -ENOMEM;
  }
}
