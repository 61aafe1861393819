/* connect_ws.c - a connected peer behind a WebSocket: src/http/ws_client.c as the codec of a peer.
 * See docs/internals/uv.md. */
#include "http/ws_client.h"
#include "uv/client.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define FRAMES_BYTES ((size_t)1024 * 1024) /* what frames may add to the conn's own limit */

static idem_status ws_feed(idem__peer *peer, const char *data, size_t len) {
  uint64_t limit_ms = idem_conn_policy(peer->conn)->limits.frame_ms;
  idem_status status = idem__ws_client_feed(peer->codec_state, data, len);
  if (limit_ms)
    peer->message_by_ms = idem__ws_client_due(peer->codec_state, idem__clock_ms(), limit_ms);
  return status;
}
static idem_status ws_pump(idem__peer *peer) { return idem__ws_client_pump(peer->codec_state); }
static bool ws_open(const idem__peer *peer) { return idem__ws_client_open(peer->codec_state); }
static const char *ws_fault(const idem__peer *peer) {
  return idem__ws_client_fault(peer->codec_state);
}
static void ws_free(idem__peer *peer) { idem__ws_client_free(peer->codec_state); }

static const idem__codec ws_codec = {
    .feed = ws_feed, .pump = ws_pump, .open = ws_open, .fault = ws_fault, .free = ws_free};

/* Masks and the key: nobody on the way may guess them. */
static void random_bytes(void *ctx, uint8_t *bytes, size_t len) {
  (void)ctx;
  if (getrandom(bytes, len, 0) == (ssize_t)len) return;
  uint64_t seed = idem_random_seed();
  for (size_t i = 0; i < len; i++) bytes[i] = (uint8_t)(seed >> (i % 8 * 8));
}

static void name_host(const idem__url *url, char *host, size_t size) {
  bool v6 = strchr(url->host, ':') != NULL, usual = url->port == (url->tls ? 443 : 80);
  int len = snprintf(host, size, "%s%s%s", v6 ? "[" : "", url->host, v6 ? "]" : "");
  if (!usual) snprintf(host + len, size - (size_t)len, ":%u", url->port);
}

idem_status idem__peer_websocket(idem__peer *peer, const idem__url *url, const char *target,
                                 const char *const *headers) {
  const idem_alloc *alloc = &peer->driver.runtime->alloc;
  char host[sizeof url->host + 16], path[2048];
  name_host(url, host, sizeof host);
  int len = snprintf(path, sizeof path, "%s%s", *target == '/' ? "" : "/", target);
  if (len < 0 || (size_t)len >= sizeof path) return IDEM_E_INVAL;
  size_t queued = idem_conn_policy(peer->conn)->limits.queued_output_bytes;
  idem_buf_init(&peer->out, alloc, queued * 2 + FRAMES_BYTES);
  idem__ws_client *client;
  idem_status status = idem__ws_client_new(&(idem__ws_client_opts){.host = host,
                                                                   .target = path,
                                                                   .headers = headers,
                                                                   .conn = peer->conn,
                                                                   .out = &peer->out,
                                                                   .random = random_bytes,
                                                                   .alloc = alloc},
                                           &client);
  if (status != IDEM_OK) return status;
  peer->codec = &ws_codec;
  peer->codec_state = client;
  return IDEM_OK;
}
