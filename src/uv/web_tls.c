/* web_tls.c - TLS between a socket and its HTTP connection, by a module that is loaded for it.
 * Output is encrypted a slice at a time, as the socket takes it, so that a large answer is not held
 * twice. Changed certificate files are noticed when a connection comes. See docs/internals/uv.md. */
#include "uv/web.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define HANDSHAKE_MS 30000
#define SLICE ((size_t)16 * 1024)
#define BUFFER_BYTES ((size_t)24 * 1024) /* a slice and what TLS adds */
#define LOOK_MS 1000

struct idem__web_tls {
  const idem__tls_module *module;
  idem__tls_context *context;
  char *files[3]; /* certificate, key, client authority */
  struct timespec changed[3];
  uint64_t looked_ms;
  char *plain, *cipher; /* one of each for the loop */
};

struct idem__web_secret {
  idem__tls_session *session;
  uint64_t opened_ms;
  char *rest; /* bytes for the wire that wait; NULL: none */
  size_t rest_len, rest_at;
  bool over; /* nothing more is encrypted */
};

/* ---------------------------------------------------------------- the files */

static idem_status load(const idem__web_tls *tls, idem__tls_context **out, char *why, size_t size) {
  idem__tls_opts opts = {
      .cert_file = tls->files[0], .key_file = tls->files[1], .ca_file = tls->files[2]};
  return tls->module->server_new(&opts, out, why, size);
}

/* True when a file is another than the last time. */
static bool files_changed(idem__web_tls *tls) {
  bool changed = false;
  for (size_t i = 0; i < 3; i++) {
    struct stat now;
    if (!tls->files[i] || stat(tls->files[i], &now) != 0) continue;
    changed |= now.st_mtim.tv_sec != tls->changed[i].tv_sec ||
               now.st_mtim.tv_nsec != tls->changed[i].tv_nsec;
    tls->changed[i] = now.st_mtim;
  }
  return changed;
}

/* Connections that are open keep the certificate they began with. */
static void reload_if_changed(idem__web *web) {
  idem__web_tls *tls = web->tls;
  uint64_t now = idem__clock_ms();
  if (now - tls->looked_ms < LOOK_MS) return;
  tls->looked_ms = now;
  if (!files_changed(tls)) return;
  char why[256] = "";
  idem__tls_context *fresh;
  if (load(tls, &fresh, why, sizeof why) == IDEM_OK) {
    tls->module->context_free(tls->context);
    tls->context = fresh;
    idem_logf(web->listener->opts.log, IDEM_LOG_INFO, "certificate read again", "%s",
              web->listener->url);
  } else {
    idem_logf(web->listener->opts.log, IDEM_LOG_ERROR,
              "the changed certificate cannot be used; the old one stays", "%s", why);
  }
}

static idem_status copy_files(const idem__web *web, idem__web_tls *tls) {
  const idem_http_opts *http = web->listener->opts.http;
  const char *names[3] = {http ? http->tls_cert : NULL, http ? http->tls_key : NULL,
                          http ? http->tls_client_ca : NULL};
  for (size_t i = 0; i < 3; i++) {
    if (!names[i]) continue;
    tls->files[i] = idem__strndup(&web->listener->runtime->alloc, names[i], strlen(names[i]));
    if (!tls->files[i]) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

idem_status idem__web_tls_open(idem__web *web) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  char why[256] = "";
  idem__web_tls *tls = web->tls = idem__calloc(alloc, sizeof *tls);
  if (!tls) return IDEM_E_NOMEM;
  tls->plain = idem__malloc(alloc, BUFFER_BYTES);
  tls->cipher = idem__malloc(alloc, BUFFER_BYTES);
  idem_status status = tls->plain && tls->cipher ? copy_files(web, tls) : IDEM_E_NOMEM;
  if (status != IDEM_OK) return status;
  tls->module = idem__module_load("tls", IDEM__TLS_SYMBOL, why, sizeof why);
  if (tls->module && tls->module->version != IDEM__TLS_VERSION) tls->module = NULL;
  files_changed(tls);
  if (!tls->module || load(tls, &tls->context, why, sizeof why) != IDEM_OK) {
    idem_logf(web->listener->opts.log, IDEM_LOG_ERROR, "cannot serve", "%s: %s", web->listener->url,
              why);
    return IDEM_E_SYS;
  }
  return IDEM_OK;
}

void idem__web_tls_free(idem__web *web) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__web_tls *tls = web->tls;
  if (!tls) return;
  if (tls->context) tls->module->context_free(tls->context);
  for (size_t i = 0; i < 3; i++) idem__free(alloc, tls->files[i]);
  idem__free(alloc, tls->plain);
  idem__free(alloc, tls->cipher);
  idem__free(alloc, tls);
}

/* ------------------------------------------------------------- a connection */

idem_status idem__web_secret_open(idem__web_peer *peer) {
  idem__web *web = peer->web;
  reload_if_changed(web);
  peer->secret = idem__calloc(&web->listener->runtime->alloc, sizeof *peer->secret);
  if (!peer->secret) return IDEM_E_NOMEM;
  peer->secret->opened_ms = idem__clock_ms();
  return web->tls->module->accept(web->tls->context, &peer->secret->session);
}

void idem__web_secret_free(idem__web_peer *peer) {
  const idem_alloc *alloc = &peer->web->listener->runtime->alloc;
  if (!peer->secret) return;
  peer->web->tls->module->session_free(peer->secret->session);
  idem__free(alloc, peer->secret->rest);
  idem__free(alloc, peer->secret);
  peer->secret = NULL;
}

uint64_t idem__web_secret_deadline(const idem__web_peer *peer) {
  bool ready = peer->web->tls->module->ready(peer->secret->session);
  return ready ? UINT64_MAX : peer->secret->opened_ms + HANDSHAKE_MS;
}

bool idem__web_secret_unsent(const idem__web_peer *peer) { return peer->secret->rest != NULL; }

bool idem__web_secret_take(idem__web_peer *peer, const char *data, size_t len, uint64_t now) {
  const idem__web_tls *tls = peer->web->tls;
  if (tls->module->feed(peer->secret->session, data, len) != IDEM_OK) return false;
  for (;;) {
    long n = tls->module->read(peer->secret->session, tls->plain, BUFFER_BYTES);
    if (n == 0) return true;
    if (n == -1) {
      idem__http_conn_feed_eof(peer->conn, now);
      return true;
    }
    if (n < 0) return false;
    idem__http_conn_feed(peer->conn, tls->plain, (size_t)n, now);
  }
}

/* How many of the bytes the socket took; -1: it is lost. */
static ssize_t send_some(const idem__web_peer *peer, const char *data, size_t len) {
  ssize_t n = send(peer->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return n;
}

/* 1: nothing waits any more; 0: the socket takes no more; -1: lost. */
static int send_rest(idem__web_peer *peer) {
  idem__web_secret *secret = peer->secret;
  if (!secret->rest) return 1;
  ssize_t n = send_some(peer, secret->rest + secret->rest_at, secret->rest_len - secret->rest_at);
  if (n < 0) return -1;
  secret->rest_at += (size_t)n;
  if (secret->rest_at < secret->rest_len) return 0;
  idem__free(&peer->web->listener->runtime->alloc, secret->rest);
  secret->rest = NULL;
  return 1;
}

/* What the socket does not take is kept. As send_rest, or 2: there was nothing to say. */
static int send_cipher(idem__web_peer *peer) {
  const idem__web_tls *tls = peer->web->tls;
  idem__web_secret *secret = peer->secret;
  size_t len = tls->module->take(secret->session, tls->cipher, BUFFER_BYTES);
  if (!len) return 2;
  ssize_t n = send_some(peer, tls->cipher, len);
  if (n < 0 || (size_t)n == len) return n < 0 ? -1 : 1;
  secret->rest_len = len - (size_t)n;
  secret->rest_at = 0;
  secret->rest = idem__malloc(&peer->web->listener->runtime->alloc, secret->rest_len);
  if (!secret->rest) return -1;
  memcpy(secret->rest, tls->cipher + n, secret->rest_len);
  return 0;
}

/* Encrypts the next slice; false: there is none, or not yet. */
static bool encrypt_slice(idem__web_peer *peer, uint64_t now) {
  const idem__tls_module *module = peer->web->tls->module;
  idem__web_secret *secret = peer->secret;
  if (secret->over || !module->ready(secret->session)) return false;
  if (!peer->chunk.owner) {
    peer->offset = 0;
    if (!idem__http_conn_next_chunk(peer->conn, &peer->chunk)) return false;
  }
  size_t left = peer->chunk.len - peer->offset, slice = left < SLICE ? left : SLICE;
  if (module->write(secret->session, peer->chunk.data + peer->offset, slice) != IDEM_OK)
    secret->over = true;
  peer->offset += slice;
  if (peer->offset == peer->chunk.len) idem__http_chunk_free(peer->conn, &peer->chunk, now);
  return true;
}

bool idem__web_secret_send(idem__web_peer *peer, uint64_t now) {
  int sent = send_rest(peer);
  while (sent == 1) {
    sent = send_cipher(peer);
    if (sent == 2) sent = encrypt_slice(peer, now) ? 1 : 0;
  }
  return sent == 0 && !(peer->secret->over && !peer->shut);
}

void idem__web_secret_end(idem__web_peer *peer) {
  peer->web->tls->module->close(peer->secret->session);
  peer->secret->over = true;
  send_cipher(peer);
}
