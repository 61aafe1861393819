/* web_tls.c - TLS between a socket and its HTTP connection, by a module that is loaded for it.
 * Output is encrypted a slice at a time, as the socket takes it, so that a large answer is not held
 * twice. See docs/internals/uv.md. */
#include "uv/tls_files.h"
#include "uv/web.h"

#include <errno.h>
#include <string.h>

#define HANDSHAKE_MS 30000
#define SLICE ((size_t)16 * 1024)
#define BUFFER_BYTES ((size_t)24 * 1024) /* a slice and what TLS adds */

struct idem__web_tls {
  const idem__tls_module *module; /* the files' */
  idem__tls_files *files;
  char *plain, *cipher; /* one of each for the loop */
};

struct idem__tls_stream {
  idem__tls_session *session;
  uint64_t opened_ms;
  char *rest; /* bytes for the wire that wait; NULL: none */
  size_t rest_len, rest_at;
  bool over; /* nothing more is encrypted */
};

idem_status idem__web_tls_open(idem__web *web) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__web_tls *tls = web->tls = idem__calloc(alloc, sizeof *tls);
  if (!tls) return IDEM_E_NOMEM;
  tls->plain = idem__malloc(alloc, BUFFER_BYTES);
  tls->cipher = idem__malloc(alloc, BUFFER_BYTES);
  if (!tls->plain || !tls->cipher) return IDEM_E_NOMEM;
  idem_status status = idem__tls_files_open(web->listener, &tls->files);
  if (status == IDEM_OK) tls->module = idem__tls_files_module(tls->files);
  return status;
}

void idem__web_tls_free(idem__web *web) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__web_tls *tls = web->tls;
  if (!tls) return;
  idem__tls_files_free(tls->files);
  idem__free(alloc, tls->plain);
  idem__free(alloc, tls->cipher);
  idem__free(alloc, tls);
}

/* ------------------------------------------------------------- a connection */

idem_status idem__tls_stream_open(idem__web_peer *peer) {
  idem__web *web = peer->web;
  peer->secret = idem__calloc(&web->listener->runtime->alloc, sizeof *peer->secret);
  if (!peer->secret) return IDEM_E_NOMEM;
  peer->secret->opened_ms = idem__clock_ms();
  return idem__tls_files_accept(web->tls->files, &peer->secret->session);
}

void idem__tls_stream_free(idem__web_peer *peer) {
  const idem_alloc *alloc = &peer->web->listener->runtime->alloc;
  if (!peer->secret) return;
  peer->web->tls->module->session_free(peer->secret->session);
  idem__free(alloc, peer->secret->rest);
  idem__free(alloc, peer->secret);
  peer->secret = NULL;
}

uint64_t idem__tls_stream_deadline(const idem__web_peer *peer) {
  bool ready = peer->web->tls->module->ready(peer->secret->session);
  return ready ? UINT64_MAX : peer->secret->opened_ms + HANDSHAKE_MS;
}

bool idem__tls_stream_unsent(const idem__web_peer *peer) { return peer->secret->rest != NULL; }

bool idem__tls_stream_take(idem__web_peer *peer, const char *data, size_t len, uint64_t now) {
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
  idem__tls_stream *secret = peer->secret;
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
  idem__tls_stream *secret = peer->secret;
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
  idem__tls_stream *secret = peer->secret;
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

bool idem__tls_stream_send(idem__web_peer *peer, uint64_t now) {
  int sent = send_rest(peer);
  while (sent == 1) {
    sent = send_cipher(peer);
    if (sent == 2) sent = encrypt_slice(peer, now) ? 1 : 0;
  }
  return sent == 0 && !(peer->secret->over && !peer->shut);
}

void idem__tls_stream_end(idem__web_peer *peer) {
  peer->web->tls->module->close(peer->secret->session);
  peer->secret->over = true;
  send_cipher(peer);
}
