/* peer.c - drives one conn over a wire: read, feed, send, pause, expire, end.
 * Everything that may have changed a conn ends in idem__peer_settle, the one place that looks at
 * what the conn wants now. A peer is freed only after its wire has closed, so lists stay walkable. */
#include "rpc/rpc.h"
#include "uv/runtime.h"

#include <errno.h>
#include <string.h>

#define READS_A_TURN 4
#define EXPIRES_A_TURN 16
#define LINGER_MS 500
#define TRIM_AFTER_MS 1000

static void note(const idem__peer *peer, idem_log_level level, const char *message,
                 const char *detail) {
  idem_log_record record = {.level = level,
                            .message = message,
                            .peer = peer->conn ? idem_conn_peer(peer->conn) : NULL,
                            .detail = detail,
                            .detail_len = detail ? strlen(detail) : 0};
  idem_log_write(peer->opts->log, &record);
}

static bool is_live(const idem__peer *peer) {
  return !peer->closed && !peer->lingering && !peer->leaving;
}

/* --------------------------------------------------------- what the conn tells */

static void on_output(idem_conn *conn, void *user) {
  (void)conn;
  idem__peer *peer = user;
  if (!peer->busy && is_live(peer)) idem__runtime_mark(peer->runtime, peer);
}

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  const idem__peer *peer = user;
  if (peer->opts->on_protocol_error) {
    peer->opts->on_protocol_error(conn, error, peer->opts->user);
  }
}

static void on_shutdown(idem_conn *conn, void *user) {
  (void)conn;
  const idem__peer *peer = user;
  if (peer->listener) idem__listener_shutdown_asked(peer->listener);
}

/* ------------------------------------------------------------------- the end */

/* What kept idem_connect from succeeding. */
static const char *fault_of(const idem__peer *peer) {
  const char *wire = peer->wire->fault ? peer->wire->fault(peer) : "";
  if (*wire || !peer->codec) return wire;
  return peer->codec->fault(peer);
}

/* A certificate that is not wanted is no better than a name that is not found. */
static idem_status opening_failure(const idem__peer *peer) {
  if (peer->open_failure != IDEM_OK) return peer->open_failure;
  if (peer->wire->fault && *peer->wire->fault(peer)) return IDEM_E_SYS;
  return peer->failed || peer->broken ? IDEM_E_PROTO : IDEM_E_CLOSED;
}

/* The conn goes before whoever waited for it is told, so that he may do what he likes. */
static void release_conn(idem__peer *peer) {
  idem_conn *conn = peer->conn;
  idem_ready_fn on_ready = peer->on_ready;
  if (!conn) return;
  idem_status failure = opening_failure(peer);
  if (!peer->reason.text) peer->reason.text = peer->eof ? "the peer ended its side" : "closed";
  if (on_ready)
    note(peer, IDEM_LOG_WARN, "cannot connect", fault_of(peer));
  else
    note(peer, IDEM_LOG_DEBUG, "connection closed", peer->reason.text);
  if (!on_ready && peer->opts->on_close) peer->opts->on_close(conn, peer->opts->user);
  if (peer->codec) peer->codec->free(peer);
  idem__buf_deinit(&peer->out);
  peer->on_ready = NULL;
  peer->conn = NULL;
  idem_conn_free(conn);
  idem__metrics_add(peer->opts->metrics, IDEM__M_CONNECTIONS_CLOSED, 1);
  if (on_ready) on_ready(NULL, failure, peer->ready_user);
}

static void release_chunks(idem__peer *peer) {
  for (size_t i = 0; i < peer->chunk_count; i++) idem_chunk_free(&peer->chunks[i]);
  peer->chunk_count = 0;
}

/* False: what is behind the wire is ended first. Nobody hears the conn meanwhile. */
static bool depart(idem__peer *peer) {
  if (!peer->wire->depart || peer->departed) return true;
  if (peer->leaving) return false;
  peer->leaving = true;
  idem__list_remove(&peer->dirty);
  idem__heap_remove(&peer->runtime->deadlines, &peer->deadline);
  release_chunks(peer);
  idem_conn_abort(peer->conn);
  peer->wire->depart(peer);
  return false;
}

bool idem__peer_depart_in(idem__peer *peer, uint64_t ms) {
  idem__runtime *runtime = peer->runtime;
  if (idem__heap_put(&runtime->deadlines, &peer->deadline, idem__clock_ms() + ms) != IDEM_OK)
    return false;
  idem__runtime_arm(runtime);
  return true;
}

void idem__peer_departed(idem__peer *peer) {
  peer->departed = true;
  idem__peer_close(peer);
}

void idem__peer_close(idem__peer *peer) {
  if (peer->closed) return;
  if (peer->busy) {
    peer->doomed = true;
    return;
  }
  if (!depart(peer)) return;
  peer->closed = true;
  idem__list_remove(&peer->dirty);
  idem__heap_remove(&peer->runtime->deadlines, &peer->deadline);
  release_chunks(peer);
  release_conn(peer);
  peer->wire->close(peer);
}

void idem__peer_gone(idem__peer *peer) {
  idem__runtime *runtime = peer->runtime;
  idem_listener *listener = peer->listener;
  idem__list_remove(&peer->node);
  peer->on_freed(peer);
  if (listener) idem__listener_peer_gone(listener);
  idem__runtime_release(runtime);
}

static bool unsent(const idem__peer *peer) { return peer->chunk_count > 0 || peer->out.len > 0; }

/* Closing a socket with unread input resets it, and a reset may overtake the last answers. So say
 * that we are done, and wait a moment for the other side to have read that. */
static void finish(idem__peer *peer) {
  if (peer->eof || unsent(peer) || !peer->wire->end_output(peer)) {
    idem__peer_close(peer);
    return;
  }
  peer->lingering = true;
  release_conn(peer);
  if (idem__heap_put(&peer->runtime->deadlines, &peer->deadline, idem__clock_ms() + LINGER_MS) !=
          IDEM_OK ||
      peer->wire->interest(peer, true, false) != IDEM_OK) {
    idem__peer_close(peer);
    return;
  }
  idem__runtime_arm(peer->runtime);
}

/* A peer that leaves is nothing special; a full disk under stdout is. */
static void lose(idem__peer *peer, ssize_t error) {
  bool left = error == -EPIPE || error == -ECONNRESET || error == -ETIMEDOUT || error == -EPROTO;
  peer->broken = error == -EPROTO;
  peer->reason.text = strerror((int)-error);
  note(peer, left ? IDEM_LOG_DEBUG : IDEM_LOG_WARN, "connection lost", strerror((int)-error));
  if (!left && peer->listener) idem__listener_end_failed(peer->listener);
  idem__peer_close(peer);
}

/* ------------------------------------------------------------------- output */

static void take_chunks(idem__peer *peer) {
  while (peer->chunk_count < IDEM__PEER_CHUNKS &&
         idem_conn_next_chunk(peer->conn, &peer->chunks[peer->chunk_count])) {
    peer->chunk_count++;
  }
}

static size_t gather(const idem__peer *peer, struct iovec *pieces) {
  size_t total = 0;
  for (size_t i = 0; i < peer->chunk_count; i++) {
    size_t skip = i == 0 ? peer->chunk_offset : 0;
    pieces[i].iov_base = (void *)(uintptr_t)(peer->chunks[i].data + skip);
    pieces[i].iov_len = peer->chunks[i].len - skip;
    total += pieces[i].iov_len;
  }
  return total;
}

static void drop_written(idem__peer *peer, size_t written) {
  size_t done = 0;
  peer->used = true;
  written += peer->chunk_offset;
  while (done < peer->chunk_count && written >= peer->chunks[done].len) {
    written -= peer->chunks[done].len;
    idem_chunk_free(&peer->chunks[done++]);
  }
  peer->chunk_offset = written;
  peer->chunk_count -= done;
  if (done > 0 && peer->chunk_count > 0) {
    memmove(peer->chunks, peer->chunks + done, peer->chunk_count * sizeof *peer->chunks);
  }
}

/* The same for what a codec makes of the conn's output. */
static ssize_t send_encoded(idem__peer *peer) {
  for (;;) {
    peer->failed |= peer->codec->pump(peer) != IDEM_OK;
    if (peer->out.len == 0) return 0;
    struct iovec piece = {.iov_base = peer->out.data + peer->chunk_offset,
                          .iov_len = peer->out.len - peer->chunk_offset};
    ssize_t written = peer->wire->write(peer, &piece, 1);
    if (written == -EAGAIN || written == -EINTR) return 0;
    if (written < 0) return written;
    peer->chunk_offset += (size_t)written;
    if (peer->chunk_offset < peer->out.len) return 0;
    peer->chunk_offset = peer->out.len = 0;
  }
}

/* Writes until there is nothing left or the other side must read first. 0, or -errno. */
static ssize_t send_output(idem__peer *peer) {
  struct iovec pieces[IDEM__PEER_CHUNKS];
  if (peer->codec) return send_encoded(peer);
  for (;;) {
    take_chunks(peer);
    if (peer->chunk_count == 0) return 0;
    size_t total = gather(peer, pieces);
    ssize_t written = peer->wire->write(peer, pieces, (int)peer->chunk_count);
    if (written == -EAGAIN || written == -EINTR) return 0;
    if (written < 0) return written;
    drop_written(peer, (size_t)written);
    if ((size_t)written < total) return 0;
  }
}

/* ------------------------------------------------------------------ settling */

/* CLOSED is no failure: someone closed the conn, and what runs may still finish. */
static void judge(idem__peer *peer, idem_status status) {
  if (status == IDEM_OK) return;
  peer->draining = true;
  if (status != IDEM_E_CLOSED) peer->failed = true; /* the conn has logged why */
}

static bool overdue(const idem__peer *peer, uint64_t deadline) {
  if (deadline == UINT64_MAX) return false;
  if (peer->deadline.index != 0 && deadline >= peer->deadline.at_ms) return false;
  return deadline <= idem__clock_ms();
}

static void expire(idem__peer *peer) {
  peer->busy = true;
  idem_status status = idem_conn_expire(peer->conn);
  peer->busy = false;
  judge(peer, status);
}

static bool finished(const idem__peer *peer) {
  return peer->failed || peer->doomed || (!unsent(peer) && idem_conn_done(peer->conn));
}

/* The deadline of a conn recedes with every message; one that is in the heap already and earlier
 * only costs a look when it comes. */
static idem_status watch_deadline(idem__peer *peer, bool again) {
  uint64_t deadline = idem_conn_deadline(peer->conn);
  if (peer->open_by_ms && peer->open_by_ms < deadline) deadline = peer->open_by_ms;
  if (peer->message_by_ms && peer->message_by_ms < deadline) deadline = peer->message_by_ms;
  if (deadline == UINT64_MAX) {
    idem__heap_remove(&peer->runtime->deadlines, &peer->deadline);
    return IDEM_OK;
  }
  if (again) deadline = idem__clock_ms() + 1; /* the other peers come first */
  if (peer->deadline.index != 0 && peer->deadline.at_ms <= deadline) return IDEM_OK;
  idem_status status = idem__heap_put(&peer->runtime->deadlines, &peer->deadline, deadline);
  if (status == IDEM_OK) idem__runtime_arm(peer->runtime);
  return status;
}

static bool is_open(const idem__peer *peer) {
  return (!peer->wire->open || peer->wire->open(peer)) && (!peer->codec || peer->codec->open(peer));
}

static void settle_live(idem__peer *peer) {
  ssize_t sent = send_output(peer);
  int rounds = 0;
  while (sent == 0 && !finished(peer) && rounds < EXPIRES_A_TURN &&
         overdue(peer, idem_conn_deadline(peer->conn))) {
    expire(peer);
    sent = send_output(peer);
    rounds++;
  }
  if (sent < 0) {
    lose(peer, sent);
  } else if (finished(peer)) {
    finish(peer);
  } else {
    bool reading = !peer->eof && !peer->draining && idem_conn_want_read(peer->conn);
    if (peer->wire->interest(peer, reading, unsent(peer)) != IDEM_OK ||
        watch_deadline(peer, rounds == EXPIRES_A_TURN) != IDEM_OK) {
      idem__peer_close(peer);
    }
  }
}

/* Handshakes have succeeded: whoever waits for the conn gets it. */
static void announce(idem__peer *peer) {
  if (!peer->open_by_ms || !is_live(peer) || !is_open(peer)) return;
  idem_ready_fn on_ready = peer->on_ready;
  peer->open_by_ms = 0;
  peer->on_ready = NULL;
  if (!on_ready) return;
  if (peer->opts->on_open) peer->opts->on_open(peer->conn, peer->opts->user);
  on_ready(peer->conn, IDEM_OK, peer->ready_user);
}

void idem__peer_settle(idem__peer *peer) {
  if (peer->busy || !is_live(peer)) return;
  settle_live(peer);
  announce(peer);
}

void idem__peer_expire(idem__peer *peer) {
  if (peer->lingering) {
    idem__peer_close(peer);
  } else if (peer->leaving) {
    peer->wire->depart(peer);
  } else if (!peer->busy && !peer->closed) {
    if (peer->open_by_ms && peer->open_by_ms <= idem__clock_ms()) {
      peer->open_failure = IDEM_E_TIMEOUT; /* too late for a handshake to succeed */
      idem__peer_close(peer);
      return;
    }
    if (peer->message_by_ms && peer->message_by_ms <= idem__clock_ms()) {
      lose(peer, -ETIMEDOUT);
      return;
    }
    expire(peer);
    settle_live(peer);
  }
}

/* -------------------------------------------------------------------- input */

static void feed(idem__peer *peer, size_t len) {
  peer->used = peer->busy = true;
  idem_status status = peer->codec ? peer->codec->feed(peer, peer->runtime->read_buffer, len)
                                   : idem_conn_feed(peer->conn, peer->runtime->read_buffer, len);
  peer->busy = false;
  judge(peer, status);
  if (len == IDEM__READ_BYTES && peer->runtime->trim_ms == UINT64_MAX) {
    peer->runtime->trim_ms = idem__clock_ms() + TRIM_AFTER_MS;
    idem__runtime_arm(peer->runtime);
  }
}

static void end_input(idem__peer *peer) {
  peer->eof = true;
  peer->busy = true;
  idem_status status = idem_conn_feed_eof(peer->conn);
  peer->busy = false;
  judge(peer, status);
  if (peer->listener) idem__listener_input_ended(peer->listener);
}

/* False when there is no more to read for now. */
static bool take(idem__peer *peer, ssize_t n) {
  if (n == -EAGAIN || n == -EINTR) return false;
  if (peer->lingering) {
    if (n <= 0) idem__peer_close(peer);
    return n == (ssize_t)IDEM__READ_BYTES;
  }
  if (n < 0) {
    lose(peer, n);
    return false;
  }
  if (n == 0) {
    end_input(peer);
    return false;
  }
  feed(peer, (size_t)n);
  return n == (ssize_t)IDEM__READ_BYTES && !peer->failed && !peer->draining && !peer->doomed &&
         idem_conn_want_read(peer->conn);
}

void idem__peer_take(idem__peer *peer, ssize_t n) {
  take(peer, n);
  idem__peer_settle(peer);
}

void idem__peer_readable(idem__peer *peer) {
  if (peer->busy || peer->closed) return;
  int reads = 0;
  while (take(peer, peer->wire->read(peer, peer->runtime->read_buffer, IDEM__READ_BYTES)) &&
         peer->wire->reads_until_empty && ++reads < READS_A_TURN && !peer->closed) {
  }
  idem__peer_settle(peer);
}

void idem__peer_writable(idem__peer *peer) { idem__peer_settle(peer); }

/* -------------------------------------------------------------------- stopping */

void idem__peer_drain(idem__peer *peer) {
  if (!is_live(peer)) return;
  peer->draining = true;
  idem_conn_close(peer->conn);
  idem__runtime_mark(peer->runtime, peer);
}

void idem__peer_abort(idem__peer *peer) {
  if (!is_live(peer)) return;
  peer->draining = true;
  idem_conn_abort(peer->conn);
  idem__runtime_mark(peer->runtime, peer);
}

/* --------------------------------------------------------------------- opening */

idem_status idem__peer_open(idem__peer *peer, const idem_policy *policy, const char *name) {
  const idem_serve_opts *opts = peer->opts;
  idem__list_init(&peer->node);
  idem__list_init(&peer->dirty);
  peer->reason.exit_status = -1;
  idem_conn_opts conn_opts = {.router = opts->router,
                              .policy = policy,
                              .alloc = opts->alloc,
                              .pool = peer->runtime->pool,
                              .now_ns = idem__clock_ns,
                              .on_output = on_output,
                              .on_protocol_error = on_protocol_error,
                              .on_shutdown = on_shutdown,
                              .user = peer,
                              .log = opts->log,
                              .metrics = opts->metrics,
                              .peer = name,
                              .seed = idem_random_seed()};
  idem_status status =
      opts->server ? idem__runtime_accept(peer->runtime, opts->server, &conn_opts, &peer->conn)
                   : idem_conn_new(&conn_opts, &peer->conn);
  if (status != IDEM_OK) return status;
  idem__conn_set_host(peer->conn, peer->runtime->loop);
  idem__conn_set_driver(peer->conn, peer);
  idem__metrics_add(opts->metrics, IDEM__M_CONNECTIONS_OPENED, 1);
  note(peer, IDEM_LOG_DEBUG, "connection opened", NULL);
  idem__runtime_mark(peer->runtime, peer); /* so that reading begins */
  return IDEM_OK;
}

uv_loop_t *idem_conn_loop(const idem_conn *conn) { return idem__conn_host(conn); }
void idem_conn_set_data(idem_conn *conn, void *data) { idem__conn_set_host_data(conn, data); }
void *idem_conn_data(const idem_conn *conn) { return idem__conn_host_data(conn); }

idem_close_reason idem_conn_close_reason(const idem_conn *conn) {
  const idem__peer *peer = idem__conn_driver(conn);
  idem_close_reason reason = peer ? peer->reason : (idem_close_reason){.exit_status = -1};
  if (!reason.text) reason.text = "closed";
  return reason;
}
