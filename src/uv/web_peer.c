/* web_peer.c - the machine of an HTTP connection: see driver.h. Who may come, and who makes room. */
#include "uv/clients.h"
#include "uv/secure.h"
#include "uv/tls_files.h"
#include "uv/web.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HANDSHAKE_MS 30000

static idem__web_peer *web_peer_of(idem__driver *driver) {
  return IDEM_CONTAINER(driver, idem__web_peer, driver);
}

/* -------------------------------------------------------------------- ending */

static void web_peer_close(idem__driver *driver) {
  idem__web_peer *peer = web_peer_of(driver);
  idem__web *web = peer->web;
  atomic_fetch_sub_explicit(&web->first->crowd, 1, memory_order_relaxed);
  if (peer->counted) idem__shares_give(web->shares, &peer->from);
  idem__crowd_place(peer, NULL);
  if (peer->conn) idem__http_chunk_free(peer->conn, &peer->chunk, 0);
  idem__http_conn_free(peer->conn);
  peer->conn = NULL;
}

static void web_peer_gone(idem__driver *driver) {
  idem__web_peer *peer = web_peer_of(driver);
  idem__web *web = peer->web;
  idem__socket_deinit(&peer->socket);
  idem__free(&driver->runtime->alloc, peer);
  if (--web->count > 0) return;
  if (web->stopping)
    idem__listener_look(web->listener);
  else
    idem__runtime_trim_later(web->listener->runtime);
}

/* -------------------------------------------------------------------- output */

static int web_peer_next(idem__driver *driver, struct iovec *pieces) {
  idem__web_peer *peer = web_peer_of(driver);
  if (!peer->chunk.owner) {
    peer->offset = 0;
    if (!idem__http_conn_next_chunk(peer->conn, &peer->chunk)) return 0;
  }
  pieces[0].iov_base = (void *)(uintptr_t)(peer->chunk.data + peer->offset);
  pieces[0].iov_len = peer->chunk.len - peer->offset;
  return 1;
}

static bool web_peer_sent(idem__driver *driver, size_t len) {
  idem__web_peer *peer = web_peer_of(driver);
  peer->offset += len;
  if (peer->offset < peer->chunk.len) return false;
  idem__http_chunk_free(peer->conn, &peer->chunk, peer->web->now_ms);
  return true;
}

/* --------------------------------------------------------------- input, time */

static void web_peer_wake(idem__driver *driver) { idem__web_now(web_peer_of(driver)->web); }

/* Before its answer is out it is no longer among those who wait. */
static void web_peer_feed(idem__driver *driver, const char *data, size_t len) {
  idem__web_peer *peer = web_peer_of(driver);
  if (peer->queue) idem__crowd_place(peer, NULL);
  idem__http_conn_feed(peer->conn, data, len, peer->web->now_ms);
}

static void web_peer_end(idem__driver *driver) {
  const idem__web_peer *peer = web_peer_of(driver);
  idem__http_conn_feed_eof(peer->conn, peer->web->now_ms);
}

static void web_peer_expire(idem__driver *driver) {
  const idem__web_peer *peer = web_peer_of(driver);
  idem__http_conn_expire(peer->conn, peer->web->now_ms);
}

static void web_peer_stop(idem__driver *driver, bool now) {
  const idem__web_peer *peer = web_peer_of(driver);
  if (now)
    idem__http_conn_abort(peer->conn, peer->web->now_ms);
  else
    idem__http_conn_close(peer->conn, peer->web->now_ms);
}

/* Who may give way has a place in the order of those who wait, at its end after whatever it did. */
static void take_place(idem__web_peer *peer) {
  idem__web *web = peer->web;
  bool may_go = !peer->chunk.owner && !idem__socket_holds(&peer->socket) &&
                idem__http_conn_may_go(peer->conn);
  bool silent = may_go && idem__http_conn_silent(peer->conn);
  idem__crowd_place(peer, !may_go ? NULL : silent ? &web->silent : &web->waiting);
}

static void web_peer_look(idem__driver *driver) {
  idem__wants *wants = &driver->wants;
  idem__web_peer *peer = web_peer_of(driver);
  take_place(peer);
  wants->deadline = idem__http_conn_deadline(peer->conn);
  wants->input = idem__http_conn_want_read(peer->conn);
  wants->end_output = idem__http_conn_closing(peer->conn);
  wants->done = idem__http_conn_finished(peer->conn);
}

static bool web_peer_waits(const idem__driver *driver) {
  const idem__web_peer *peer = IDEM_CONTAINER(driver, idem__web_peer, driver);
  return peer->conn && idem__http_conn_waits(peer->conn);
}

static const idem__machine web_peer_machine = {.wake = web_peer_wake,
                                               .feed = web_peer_feed,
                                               .end = web_peer_end,
                                               .next = web_peer_next,
                                               .sent = web_peer_sent,
                                               .look = web_peer_look,
                                               .waits = web_peer_waits,
                                               .expire = web_peer_expire,
                                               .stop = web_peer_stop,
                                               .close = web_peer_close,
                                               .gone = web_peer_gone};

/* ------------------------------------------------------------------- opening */

static void on_output(idem_http_conn *conn, void *user) {
  idem__web_peer *peer = user;
  (void)conn;
  idem__driver_mark(&peer->driver);
}

static idem_status open_conn(idem__web_peer *peer, const idem__address *from) {
  char text[64], name[80];
  idem__address_text(from, text, sizeof text);
  snprintf(name, sizeof name, "http %s", text);
  return idem__http_conn_new(&(idem__http_conn_opts){.server = peer->web->server,
                                                     .peer = name,
                                                     .from = peer->from,
                                                     .on_output = on_output,
                                                     .user = peer,
                                                     .now_ms = idem__web_now(peer->web)},
                             &peer->conn);
}

/* No room: says so, and reads what has come already, lest a reset overtake the answer. */
static void turn_away(idem__web *web, int fd) {
  idem__metrics_add(web->metrics, IDEM__M_REFUSED_CONNECTIONS, 1);
  if (!web->listener->tls &&
      send(fd, idem__http_busy, idem__http_busy_len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    shutdown(fd, SHUT_WR);
    recv(fd, web->listener->runtime->read_buffer, IDEM__READ_BYTES, MSG_DONTWAIT);
  }
  close(fd);
}

/* Connections of this machine and of trusted proxies are not one client's. */
static bool is_counted(const idem__web *web, const idem__ip *from) {
  return !idem__ip_loopback(from) && !idem__http_server_trusts(web->server, from);
}

/* Takes a share of its client's. Who has them all makes nobody give way. */
static bool find_room(idem__web_peer *peer, bool has_room) {
  idem__web *web = peer->web;
  bool counts = is_counted(web, &peer->from);
  peer->counted = counts && idem__shares_take(web->shares, &peer->from);
  return peer->counted == counts && (has_room || idem__crowd_make_room(web));
}

static void begin(idem__web_peer *peer) {
  idem__web *web = peer->web;
  peer->socket.probe_ms = web->listener->probe_ms;
  peer->driver.machine = &web_peer_machine;
  idem__driver_init(&peer->driver, web->listener->runtime);
  idem_list_init(&peer->place);
  idem_list_append(&web->peers, &peer->driver.node);
  web->count++;
}

/* The socket stays the caller's when there is none. */
static idem__web_peer *new_peer(idem__web *web, int fd, const idem__address *from, bool has_room) {
  idem__runtime *runtime = web->listener->runtime;
  idem__web_peer *peer = idem__calloc(&runtime->alloc, sizeof *peer);
  if (!peer) return NULL;
  peer->web = web;
  peer->from = idem__address_ip(from);
  if (find_room(peer, has_room) &&
      idem__socket_init(&peer->socket, &peer->driver, runtime->loop, fd) == IDEM_OK) {
    begin(peer);
    return peer;
  }
  if (peer->counted) idem__shares_give(web->shares, &peer->from);
  idem__free(&runtime->alloc, peer);
  return NULL;
}

static idem_status secure(idem__web_peer *peer) {
  idem__tls_files *files = peer->web->listener->tls;
  idem__tls_session *session;
  idem_status status = idem__tls_files_accept(files, &session);
  if (status != IDEM_OK) return status;
  status = idem__socket_secure(&peer->socket, idem__tls_files_module(files), session,
                               idem__clock_ms() + HANDSHAKE_MS);
  if (status == IDEM_OK)
    idem__secure_set_plain(peer->socket.secure, idem__http_plain, idem__http_plain_len);
  return status;
}

void idem__web_accept(idem__web *web, int fd, const idem__address *from) {
  size_t there = atomic_fetch_add_explicit(&web->first->crowd, 1, memory_order_relaxed);
  idem__web_peer *peer = new_peer(web, fd, from, there < web->listener->opts.max_connections);
  if (!peer) {
    atomic_fetch_sub_explicit(&web->first->crowd, 1, memory_order_relaxed);
    turn_away(web, fd);
    return;
  }
  if ((!web->listener->tls || secure(peer) == IDEM_OK) && open_conn(peer, from) == IDEM_OK)
    idem__driver_settle(&peer->driver);
  else
    idem__driver_close(&peer->driver);
}
