/* peer.c - the machine of a conn whose messages are the wire's bytes, or what a codec makes of them.
 * See driver.h. */
#include "rpc/rpc.h"
#include "uv/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LAST_MS 5000 /* for a server to read anything of what a closed client has left for it */

static IDEM__EARLY void note(const idem__peer *peer, idem_log_level level, const char *message,
                             const char *detail) {
  idem_log_record record = {.level = level,
                            .message = message,
                            .peer = peer->conn ? idem_conn_peer(peer->conn) : NULL,
                            .detail = detail,
                            .detail_len = detail ? strlen(detail) : 0};
  idem_log_write(peer->opts->log, &record);
}

/* --------------------------------------------------------- what the conn tells */

static void on_output(idem_conn *conn, void *user) {
  (void)conn;
  idem__peer *peer = user;
  idem__driver_mark(&peer->driver);
}

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  const idem__peer *peer = user;
  if (peer->opts->on_protocol_error) {
    peer->opts->on_protocol_error(conn, error, peer->opts->user);
  }
}

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  const idem__peer *peer = user;
  peer->on_trace(conn, direction, message, len, peer->opts->user);
}

void idem__peer_trace(idem__peer *peer) { idem__conn_set_trace(peer->conn, on_trace); }

static bool on_admit(idem_conn *conn, void *user) {
  const idem__peer *peer = user;
  (void)conn;
  return idem__clients_admit(peer->listener->clients, &peer->client);
}

static bool is_limited(const idem__peer *peer) {
  const idem_listener *listener = peer->listener;
  return listener && listener->clients && idem__clients_limited(listener->clients);
}

static void on_shutdown(idem_conn *conn, void *user) {
  (void)conn;
  const idem__peer *peer = user;
  if (peer->listener) idem__listener_shutdown_asked(peer->listener);
}

/* ------------------------------------------------------------------- the end */

static const char *wire_fault(const idem__peer *peer) {
  const idem__wire *wire = peer->driver.wire;
  return wire->fault ? wire->fault(&peer->driver) : "";
}

/* What kept idem_connect from succeeding. */
static const char *fault_of(const idem__peer *peer) {
  const char *wire = wire_fault(peer);
  if (*wire || !peer->codec) return wire;
  return peer->codec->fault(peer);
}

/* A certificate that is not wanted is no better than a name that is not found. */
static idem_status opening_failure(const idem__peer *peer) {
  if (peer->open_failure != IDEM_OK) return peer->open_failure;
  if (peer->driver.late) return IDEM_E_TIMEOUT;
  if (*wire_fault(peer)) return IDEM_E_SYS;
  bool refused = peer->codec && *peer->codec->fault(peer); /* and ended before all was said */
  return peer->driver.failed || peer->broken || refused ? IDEM_E_PROTO : IDEM_E_CLOSED;
}

static void tell_failure(idem__runtime *runtime, idem_ready_fn on_ready, idem_status failure,
                         const char *fault, void *user) {
  runtime->fault = fault;
  on_ready(NULL, failure, user);
  runtime->fault = NULL;
}

/* The conn goes before whoever waited for it is told, so that he may do what he likes. */
static void release_conn(idem__peer *peer) {
  idem_conn *conn = peer->conn;
  idem_ready_fn on_ready = peer->on_ready;
  char fault[IDEM__FAULT];
  if (!conn) return;
  idem_status failure = opening_failure(peer);
  snprintf(fault, sizeof fault, "%s", fault_of(peer));
  if (!peer->reason.text)
    peer->reason.text = peer->driver.eof ? "the peer ended its side" : "closed";
  if (on_ready)
    note(peer, IDEM_LOG_WARN, "cannot connect", fault);
  else
    note(peer, IDEM_LOG_DEBUG, "connection closed", peer->reason.text);
  if (!on_ready && peer->opts->on_close) peer->opts->on_close(conn, peer->opts->user);
  if (peer->codec) peer->codec->free(peer);
  idem_buf_deinit(&peer->out);
  peer->on_ready = NULL;
  peer->conn = NULL;
  idem__unfinished_forget(&peer->driver.runtime->unfinished, &peer->unfinished);
  idem_conn_free(conn);
  idem__metrics_add(peer->opts->metrics, IDEM__M_CONNECTIONS_CLOSED, 1);
  if (on_ready) tell_failure(peer->driver.runtime, on_ready, failure, fault, peer->ready_user);
}

static void peer_close(idem__driver *driver) {
  idem__peer *peer = idem__peer_of(driver);
  for (size_t i = 0; i < peer->chunk_count; i++) idem_chunk_free(&peer->chunks[i]);
  peer->chunk_count = 0;
  release_conn(peer);
}

static void peer_gone(idem__driver *driver) {
  idem__peer *peer = idem__peer_of(driver);
  idem_listener *listener = peer->listener;
  if (listener && listener->clients) idem__clients_leave(listener->clients, &peer->client);
  peer->on_freed(peer);
  if (listener) idem__listener_peer_gone(listener);
}

/* Only what is written can meet these. */
static const char *stdio_words(ssize_t error) {
  bool output = error == -EPIPE || error == -ENOSPC || error == -EFBIG || error == -EDQUOT;
  return output ? "stdout is broken" : "stdin or stdout failed";
}

/* A peer that leaves is nothing special. Whoever is behind stdout was owed what can no longer be written: a full disk,
 * a reader that has gone. Of a program that has ended it is known how: the broken pipe is only what came of that. */
static void peer_lost(idem__driver *driver, ssize_t error) {
  idem__peer *peer = idem__peer_of(driver);
  bool stdio = peer->listener && peer->listener->scheme == IDEM__SCHEME_STDIO;
  bool left = !stdio &&
              (error == -EPIPE || error == -ECONNRESET || error == -ETIMEDOUT || error == -EPROTO);
  peer->broken = error == -EPROTO;
  bool ended = peer->reason.exit_status >= 0 || peer->reason.signal;
  if (!ended) peer->reason.text = strerror((int)-error);
  if (stdio)
    note(peer, IDEM_LOG_ERROR, stdio_words(error), peer->reason.text);
  else
    note(peer, left ? IDEM_LOG_DEBUG : IDEM_LOG_WARN, "connection lost", peer->reason.text);
  if (!left && peer->listener) idem__listener_end_failed(peer->listener);
}

/* ------------------------------------------------------------------- output */

static void take_chunks(idem__peer *peer) {
  while (peer->chunk_count < IDEM__PIECES &&
         idem_conn_next_chunk(peer->conn, &peer->chunks[peer->chunk_count])) {
    peer->chunk_count++;
  }
}

/* What a codec makes of the conn's output. */
static int next_encoded(idem__peer *peer, struct iovec *pieces) {
  peer->driver.failed |= peer->codec->pump(peer) != IDEM_OK;
  if (!peer->out.len) return 0;
  pieces[0].iov_base = peer->out.data + peer->chunk_offset;
  pieces[0].iov_len = peer->out.len - peer->chunk_offset;
  return 1;
}

static int peer_next(idem__driver *driver, struct iovec *pieces) {
  idem__peer *peer = idem__peer_of(driver);
  if (peer->codec) return next_encoded(peer, pieces);
  take_chunks(peer);
  for (size_t i = 0; i < peer->chunk_count; i++) {
    size_t skip = i == 0 ? peer->chunk_offset : 0;
    pieces[i].iov_base = (void *)(uintptr_t)(peer->chunks[i].data + skip);
    pieces[i].iov_len = peer->chunks[i].len - skip;
  }
  return (int)peer->chunk_count;
}

static bool sent_encoded(idem__peer *peer, size_t len) {
  peer->chunk_offset += len;
  if (peer->chunk_offset < peer->out.len) return false;
  peer->chunk_offset = peer->out.len = 0;
  return true;
}

static IDEM__EARLY bool peer_sent(idem__driver *driver, size_t len) {
  idem__peer *peer = idem__peer_of(driver);
  peer->used = true;
  peer->last_by_ms = 0;
  if (peer->codec) return sent_encoded(peer, len);
  size_t done = 0;
  len += peer->chunk_offset;
  while (done < peer->chunk_count && len >= peer->chunks[done].len) {
    len -= peer->chunks[done].len;
    idem_chunk_free(&peer->chunks[done++]);
  }
  peer->chunk_offset = len;
  peer->chunk_count -= done;
  if (peer->chunk_count == 0) return true;
  if (done > 0)
    memmove(peer->chunks, peer->chunks + done, peer->chunk_count * sizeof *peer->chunks);
  return false;
}

/* -------------------------------------------------------------------- input */

/* CLOSED is no failure: someone closed the conn, and what runs may still finish. */
static void judge(idem__peer *peer, idem_status status) {
  if (status == IDEM_OK) return;
  peer->draining = true;
  if (status != IDEM_E_CLOSED) peer->driver.failed = true; /* the conn has logged why */
}

static void give_way(idem__half *half, uint64_t now_ms) {
  idem__peer *peer = IDEM_CONTAINER(half, idem__peer, unfinished);
  (void)now_ms;
  if (idem__conn_give_way(peer->conn)) peer->draining = true;
}

/* Those that we connect to are as many as we like: only who comes to us is counted. */
static void count_unfinished(idem__peer *peer) {
  size_t bytes = peer->listener ? idem__conn_unfinished(peer->conn) : 0;
  if (!bytes && !peer->unfinished.bytes) return;
  peer->unfinished.give_way = give_way;
  idem__unfinished_count(&peer->driver.runtime->unfinished, &peer->unfinished, bytes,
                         peer->listener->unfinished_bytes, idem__clock_ms());
}

static IDEM__EARLY void peer_feed(idem__driver *driver, const char *data, size_t len) {
  idem__peer *peer = idem__peer_of(driver);
  peer->used = true;
  judge(peer,
        peer->codec ? peer->codec->feed(peer, data, len) : idem_conn_feed(peer->conn, data, len));
  count_unfinished(peer);
}

static void peer_end(idem__driver *driver) {
  idem__peer *peer = idem__peer_of(driver);
  judge(peer, idem_conn_feed_eof(peer->conn));
  if (peer->listener) idem__listener_input_ended(peer->listener);
}

static bool is_silent(const idem__peer *peer) { return peer->first_by_ms && !peer->used; }

static void peer_expire(idem__driver *driver) {
  idem__peer *peer = idem__peer_of(driver);
  if (is_silent(peer) && peer->first_by_ms <= idem__clock_ms()) {
    peer->reason.text = "the peer said nothing";
    idem__driver_close(driver);
  } else if (peer->message_by_ms && peer->message_by_ms <= idem__clock_ms()) {
    peer_lost(driver, -ETIMEDOUT);
    idem__driver_close(driver);
  } else if (peer->last_by_ms && peer->last_by_ms <= idem__clock_ms()) {
    peer->reason.text = "the peer reads nothing";
    idem__driver_close(driver);
  } else {
    judge(peer, idem_conn_expire(peer->conn));
  }
}

/* A listener's peers are cut off by whoever stops the listener. */
static void watch_the_end(idem__peer *peer) {
  bool stuck = !peer->listener && peer->driver.blocked && idem__conn_closed(peer->conn);
  if (!stuck)
    peer->last_by_ms = 0;
  else if (!peer->last_by_ms)
    peer->last_by_ms = idem__clock_ms() + LAST_MS;
}

static void look_encoded(idem__peer *peer, idem__wants *wants) {
  if (peer->message_by_ms && peer->message_by_ms < wants->deadline)
    wants->deadline = peer->message_by_ms;
  if (peer->codec->look) peer->codec->look(peer, wants);
}

static IDEM__EARLY void peer_look(idem__driver *driver) {
  idem__wants *wants = &driver->wants;
  idem__peer *peer = idem__peer_of(driver);
  watch_the_end(peer);
  wants->deadline = idem_conn_deadline(peer->conn);
  if (peer->last_by_ms && peer->last_by_ms < wants->deadline) wants->deadline = peer->last_by_ms;
  if (is_silent(peer) && peer->first_by_ms < wants->deadline) wants->deadline = peer->first_by_ms;
  wants->input = !peer->draining && idem_conn_want_read(peer->conn);
  wants->end_output = false;
  wants->done = idem_conn_done(peer->conn);
  if (peer->codec) look_encoded(peer, wants);
}

/* ------------------------------------------------------------ opening, stopping */

/* A peer that has ended its input asks nothing more: what it asked before is begun and answered in its order, within
 * the grace. */
static void peer_stop(idem__driver *driver, bool now) {
  idem__peer *peer = idem__peer_of(driver);
  peer->draining = true;
  if (now)
    idem_conn_abort(peer->conn);
  else if (!driver->eof)
    idem_conn_close(peer->conn);
}

static bool peer_is_open(const idem__driver *driver) {
  const idem__peer *peer = IDEM_CONTAINER(driver, idem__peer, driver);
  return !peer->codec || peer->codec->open(peer);
}

static void peer_opened(idem__driver *driver) {
  idem__peer *peer = idem__peer_of(driver);
  idem_ready_fn on_ready = peer->on_ready;
  peer->on_ready = NULL;
  if (!on_ready) return;
  if (peer->opts->on_open) peer->opts->on_open(peer->conn, peer->opts->user);
  on_ready(peer->conn, IDEM_OK, peer->ready_user);
}

static bool peer_waits(const idem__driver *driver) {
  const idem__peer *peer = IDEM_CONTAINER(driver, idem__peer, driver);
  return peer->conn && idem__conn_waits(peer->conn);
}

static const idem__machine peer_machine = {.feed = peer_feed,
                                           .end = peer_end,
                                           .next = peer_next,
                                           .sent = peer_sent,
                                           .look = peer_look,
                                           .expire = peer_expire,
                                           .stop = peer_stop,
                                           .waits = peer_waits,
                                           .lost = peer_lost,
                                           .open = peer_is_open,
                                           .opened = peer_opened,
                                           .close = peer_close,
                                           .gone = peer_gone,
                                           .lingers = true};

void idem__peer_init(idem__peer *peer, idem__runtime *runtime) {
  peer->driver.machine = &peer_machine;
  peer->reason.exit_status = -1;
  idem__driver_init(&peer->driver, runtime);
}

IDEM__EARLY idem_status idem__peer_open(idem__peer *peer, const idem_policy *policy,
                                        const char *name) {
  const idem_serve_opts *opts = peer->opts;
  idem__runtime *runtime = peer->driver.runtime;
  idem_conn_opts conn_opts = {.router = opts->router,
                              .policy = policy,
                              .alloc = opts->alloc,
                              .pool = runtime->pool,
                              .now_ns = idem__clock_ns,
                              .on_output = on_output,
                              .on_protocol_error = on_protocol_error,
                              .on_trace = peer->on_trace ? on_trace : NULL,
                              .on_shutdown = on_shutdown,
                              .admit = is_limited(peer) ? on_admit : NULL,
                              .user = peer,
                              .log = opts->log,
                              .metrics = opts->metrics,
                              .peer = name,
                              .seed = idem_random_seed()};
  idem_status status = opts->server
                           ? idem__runtime_accept(runtime, opts->server, &conn_opts, &peer->conn)
                           : idem_conn_new(&conn_opts, &peer->conn);
  if (status != IDEM_OK) return status;
  idem__conn_set_host(peer->conn, runtime->loop);
  idem__conn_set_driver(peer->conn, peer);
  idem__metrics_add(opts->metrics, IDEM__M_CONNECTIONS_OPENED, 1);
  note(peer, IDEM_LOG_DEBUG, "connection opened", NULL);
  idem__driver_mark(&peer->driver); /* so that reading begins */
  return IDEM_OK;
}

void idem__peer_discard(idem__peer *peer) {
  peer->driver.closed = true;
  peer->listener = NULL; /* which has not counted it */
  peer->driver.wire->close(&peer->driver);
}

uv_loop_t *idem_conn_loop(const idem_conn *conn) {
  const idem__peer *peer = idem__conn_driver(conn);
  if (peer && !peer->driver.runtime->lent) peer->driver.runtime->lent = true;
  return idem__conn_host(conn);
}
void idem_conn_set_data(idem_conn *conn, void *data) { idem__conn_set_host_data(conn, data); }
void *idem_conn_data(const idem_conn *conn) { return idem__conn_host_data(conn); }

idem_close_reason idem_conn_close_reason(const idem_conn *conn) {
  const idem__peer *peer = idem__conn_driver(conn);
  idem_close_reason reason = peer ? peer->reason : (idem_close_reason){.exit_status = -1};
  if (!reason.text) reason.text = "closed";
  return reason;
}
