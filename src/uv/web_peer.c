/* web_peer.c - one HTTP connection on a non-blocking socket.
 * Input is read into the loop's one buffer and fed; output is tried at once, and only what the
 * socket does not take waits for it. See docs/internals/uv.md. */
#include "uv/clients.h"
#include "uv/web.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READS_A_TURN 4
#define EXPIRES_A_TURN 16

/* -------------------------------------------------------------------- ending */

static void on_closed(uv_handle_t *handle) {
  idem__web_peer *peer = handle->data;
  idem__web *web = peer->web;
  idem__free(&web->listener->runtime->alloc, peer);
  web->count--;
  if (web->count == 0 && web->stopping) idem__listener_look(web->listener);
}

void idem__web_peer_close(idem__web_peer *peer) {
  if (peer->closed) return;
  idem__web *web = peer->web;
  peer->closed = true;
  atomic_fetch_sub_explicit(&web->first->crowd, 1, memory_order_relaxed);
  if (peer->counted) idem__shares_give(web->shares, &peer->from);
  idem__list_remove(&peer->place);
  idem__list_remove(&peer->node);
  idem__list_remove(&peer->dirty);
  idem__heap_remove(&web->deadlines, &peer->deadline);
  if (peer->conn) idem__http_chunk_free(peer->conn, &peer->chunk, 0);
  idem__http_conn_free(peer->conn);
  idem__tls_stream_free(peer);
  peer->conn = NULL;
  uv_close((uv_handle_t *)&peer->poll, on_closed);
  close(peer->fd);
}

/* -------------------------------------------------------------------- output */

/* False: the connection is lost. */
static bool send_output(idem__web_peer *peer, uint64_t now) {
  if (peer->secret) return idem__tls_stream_send(peer, now);
  for (;;) {
    if (!peer->chunk.owner) {
      peer->offset = 0;
      if (!idem__http_conn_next_chunk(peer->conn, &peer->chunk)) return true;
    }
    ssize_t n = send(peer->fd, peer->chunk.data + peer->offset, peer->chunk.len - peer->offset,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    peer->offset += (size_t)n;
    if (peer->offset < peer->chunk.len) return true;
    idem__http_chunk_free(peer->conn, &peer->chunk, now);
  }
}

/* ------------------------------------------------------------------ settling */

static void on_poll(uv_poll_t *poll, int status, int events);

static bool unsent(const idem__web_peer *peer) {
  return peer->chunk.owner || (peer->secret && idem__tls_stream_unsent(peer));
}

/* Who has ended its input and is owed an answer may be gone: nothing is sent that would tell, so the
 * kernel asks. One that is there acknowledges. */
static void ask_for_life(const idem__web_peer *peer) {
  const idem_http_opts *http = peer->web->listener->opts.http;
  uint64_t ms = http && http->stream_ms ? http->stream_ms : 15000;
  int on = 1, tries = 3, first_s = ms > 1000 ? (int)(ms / 1000) : 1, again_s = (first_s + 2) / 3;
  if (ms > 1000000) return;
  setsockopt(peer->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPIDLE, &first_s, sizeof first_s);
  setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPINTVL, &again_s, sizeof again_s);
  setsockopt(peer->fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

static bool watch_socket(idem__web_peer *peer) {
  bool read = idem__http_conn_want_read(peer->conn);
  int events = (read ? UV_READABLE : 0) | (unsent(peer) ? UV_WRITABLE : 0);
  if (events == 0) events = UV_PRIORITIZED; /* errors only: see socket.c */
  if (events == peer->events) return true;
  peer->events = events;
  if (events == UV_PRIORITIZED) ask_for_life(peer);
  return uv_poll_start(&peer->poll, events, on_poll) == 0;
}

static uint64_t deadline_of(const idem__web_peer *peer) {
  uint64_t at = idem__http_conn_deadline(peer->conn);
  uint64_t secret = peer->secret ? idem__tls_stream_deadline(peer) : UINT64_MAX;
  return secret < at ? secret : at;
}

static bool watch_deadline(idem__web_peer *peer, bool again, uint64_t now) {
  uint64_t deadline = deadline_of(peer);
  if (deadline == UINT64_MAX) {
    idem__heap_remove(&peer->web->deadlines, &peer->deadline);
    return true;
  }
  if (again) deadline = now + 1; /* the other peers come first */
  if (peer->deadline.index != 0 && peer->deadline.at_ms <= deadline) return true;
  if (idem__heap_put(&peer->web->deadlines, &peer->deadline, deadline) != IDEM_OK) return false;
  idem__web_arm(peer->web);
  return true;
}

/* All is said: tell the other side, and go on reading until it has heard. */
static void end_output(idem__web_peer *peer) {
  if (peer->shut || unsent(peer) || !idem__http_conn_closing(peer->conn)) return;
  peer->shut = true;
  if (peer->secret) idem__tls_stream_end(peer);
  shutdown(peer->fd, SHUT_WR);
}

static bool overdue(const idem__web_peer *peer, uint64_t now) {
  uint64_t deadline = idem__http_conn_deadline(peer->conn);
  if (peer->deadline.index != 0 && deadline >= peer->deadline.at_ms) return false;
  return deadline <= now;
}

/* Who may give way has a place in the order of those who wait, at its end after whatever it did. */
static void take_place(idem__web_peer *peer) {
  idem__web *web = peer->web;
  idem__list_remove(&peer->place);
  if (unsent(peer) || !idem__http_conn_may_go(peer->conn)) return;
  bool silent = idem__http_conn_silent(peer->conn);
  idem__list_append(silent ? &web->silent : &web->waiting, &peer->place);
}

static void settle(idem__web_peer *peer, uint64_t now) {
  int rounds = 0;
  bool sent = send_output(peer, now);
  while (sent && rounds < EXPIRES_A_TURN && overdue(peer, now)) {
    peer->busy = true;
    idem__http_conn_expire(peer->conn, now);
    peer->busy = false;
    sent = send_output(peer, now);
    rounds++;
  }
  if (!sent || (idem__http_conn_finished(peer->conn) && !unsent(peer))) {
    idem__web_peer_close(peer);
    return;
  }
  end_output(peer);
  if (!watch_socket(peer) || !watch_deadline(peer, rounds == EXPIRES_A_TURN, now)) {
    idem__web_peer_close(peer);
    return;
  }
  take_place(peer);
}

void idem__web_peer_settle(idem__web_peer *peer) {
  if (!peer->busy && !peer->closed) settle(peer, idem__web_now(peer->web));
}

void idem__web_peer_expire(idem__web_peer *peer) {
  if (peer->busy || peer->closed) return;
  uint64_t now = idem__web_now(peer->web);
  if (peer->secret && idem__tls_stream_deadline(peer) <= now) {
    idem__web_peer_close(peer);
    return;
  }
  peer->busy = true;
  idem__http_conn_expire(peer->conn, now);
  peer->busy = false;
  settle(peer, now);
}

/* --------------------------------------------------------------------- input */

/* False: there is no more for now. */
static bool read_some(idem__web_peer *peer, uint64_t now) {
  char *buffer = peer->web->listener->runtime->read_buffer;
  ssize_t n = recv(peer->fd, buffer, IDEM__READ_BYTES, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n < 0) {
    idem__web_peer_close(peer);
    return false;
  }
  peer->busy = true;
  bool goes_on = true;
  if (n == 0)
    idem__http_conn_feed_eof(peer->conn, now);
  else if (peer->secret)
    goes_on = idem__tls_stream_take(peer, buffer, (size_t)n, now);
  else
    idem__http_conn_feed(peer->conn, buffer, (size_t)n, now);
  peer->busy = false;
  if (!goes_on) {
    send_output(peer, now); /* an alert says why */
    idem__web_peer_close(peer);
    return false;
  }
  return n == (ssize_t)IDEM__READ_BYTES && idem__http_conn_want_read(peer->conn);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  idem__web_peer *peer = poll->data;
  if (status < 0 || (events & UV_PRIORITIZED)) {
    idem__web_peer_close(peer);
    return;
  }
  uint64_t now = idem__web_now(peer->web);
  if (events & UV_READABLE) {
    for (int i = 0; i < READS_A_TURN && read_some(peer, now); i++) continue;
  }
  if (!peer->closed) settle(peer, now);
}

/* ------------------------------------------------------------------- opening */

static void on_output(idem__http_conn *conn, void *user) {
  idem__web_peer *peer = user;
  (void)conn;
  idem__web_mark(peer->web, peer);
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
  if (!web->tls &&
      send(fd, idem__http_busy, idem__http_busy_len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    shutdown(fd, SHUT_WR);
    recv(fd, web->listener->runtime->read_buffer, IDEM__READ_BYTES, MSG_DONTWAIT);
  }
  close(fd);
}

/* Whoever has waited longest for nothing makes room; who has never said a word comes first. */
static bool make_room(idem__web *web) {
  idem__list *from = idem__list_empty(&web->silent) ? &web->waiting : &web->silent;
  if (idem__list_empty(from)) return false;
  idem__metrics_add(web->metrics, IDEM__M_REFUSED_CONNECTIONS, 1);
  idem__web_peer_close(IDEM__CONTAINER(from->next, idem__web_peer, place));
  return true;
}

/* Connections of this machine and of trusted proxies are not one client's. */
static bool is_counted(const idem__web *web, const idem__ip *from) {
  return !idem__ip_loopback(from) && !idem__http_server_trusts(web->server, from);
}

/* Who has his share makes nobody give way. */
static idem__web_peer *new_peer(idem__web *web, int fd, const idem__address *from, bool has_room) {
  const idem_alloc *alloc = &web->listener->runtime->alloc;
  idem__web_peer *peer = idem__calloc(alloc, sizeof *peer);
  if (!peer) return NULL;
  peer->from = idem__address_ip(from);
  peer->counted = is_counted(web, &peer->from);
  bool welcome = !peer->counted || idem__shares_take(web->shares, &peer->from);
  if (welcome && (has_room || make_room(web)) &&
      uv_poll_init(web->listener->runtime->loop, &peer->poll, fd) == 0)
    return peer;
  if (welcome && peer->counted) idem__shares_give(web->shares, &peer->from);
  idem__free(alloc, peer);
  return NULL;
}

void idem__web_accept(idem__web *web, int fd, const idem__address *from) {
  size_t there = atomic_fetch_add_explicit(&web->first->crowd, 1, memory_order_relaxed);
  idem__web_peer *peer = new_peer(web, fd, from, there < web->listener->opts.max_connections);
  if (!peer) {
    atomic_fetch_sub_explicit(&web->first->crowd, 1, memory_order_relaxed);
    turn_away(web, fd);
    return;
  }
  peer->web = web;
  peer->fd = fd;
  peer->poll.data = peer;
  idem__list_init(&peer->node);
  idem__list_init(&peer->dirty);
  idem__list_init(&peer->place);
  idem__list_append(&web->peers, &peer->node);
  web->count++;
  if ((!web->tls || idem__tls_stream_open(peer) == IDEM_OK) && open_conn(peer, from) == IDEM_OK)
    idem__web_peer_settle(peer);
  else
    idem__web_peer_close(peer);
}
