/* peer.c - a conn in memory, with a clock that the test moves.
 * Output is cut into messages by code of its own, so that our framing is not checked by itself. */
#include "peer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- lists */

static void list_add(peer_list *list, const char *data, size_t len) {
  char *copy = malloc(len + 1);
  if (list->count == list->cap) {
    list->cap = list->cap ? list->cap * 2 : 16;
    list->items = realloc(list->items, list->cap * sizeof *list->items);
  }
  if (!list->items || !copy) abort();
  memcpy(copy, data, len);
  copy[len] = 0;
  list->items[list->count++] = (peer_text){copy, len};
}

void peer_send(peer *p, const char *data, size_t len) { list_add(&p->messages, data, len); }

static void list_clear(peer_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->items[i].data);
  free(list->items);
  *list = (peer_list){0};
}

const peer_text *peer_list_take(peer_list *list) {
  return list->taken < list->count ? &list->items[list->taken++] : NULL;
}

void peer_see(peer *p, const char *format, ...) {
  char *line = NULL;
  va_list args;
  va_start(args, format);
  int len = vasprintf(&line, format, args);
  va_end(args);
  if (len < 0) abort();
  list_add(&p->seen, line, (size_t)len);
  free(line);
}

const char *peer_status_word(idem_status status) {
  switch (status) {
  case IDEM_OK: return "ok";
  case IDEM_E_NOMEM: return "nomem";
  case IDEM_E_INVAL: return "inval";
  case IDEM_E_STATE: return "state";
  case IDEM_E_LIMIT: return "limit";
  case IDEM_E_PROTO: return "proto";
  case IDEM_E_CLOSED: return "closed";
  case IDEM_E_TIMEOUT: return "timeout";
  case IDEM_E_CANCELLED: return "cancelled";
  case IDEM_E_NOTFOUND: return "notfound";
  case IDEM_E_EXISTS: return "exists";
  case IDEM_E_REMOTE: return "remote";
  case IDEM_E_SYS: return "sys";
  }
  return "?";
}

/* --------------------------------------------------------------- output */

/* The length of the first whole message of `out` and where it begins; 0: not there yet. */
static size_t cut_line(const char *out, size_t len, size_t *start, size_t *message_len) {
  const char *end = memchr(out, '\n', len);
  if (!end) return 0;
  *start = 0;
  *message_len = (size_t)(end - out);
  return *message_len + 1;
}

static size_t cut_frame(peer *p, size_t *start, size_t *message_len) {
  static const char name[] = "Content-Length: ";
  const char *end = memmem(p->out, p->out_len, "\r\n\r\n", 4);
  if (!end) return 0;
  char *digits_end = NULL;
  if (strncmp(p->out, name, sizeof name - 1) == 0) {
    *message_len = strtoul(p->out + sizeof name - 1, &digits_end, 10);
  }
  if (digits_end != end) {
    p->malformed_output = true;
    return 0;
  }
  *start = (size_t)(end - p->out) + 4;
  return *start + *message_len <= p->out_len ? *start + *message_len : 0;
}

static size_t cut_next(peer *p, size_t *start, size_t *message_len) {
  if (!p->out_len) return 0;
  if (p->policy.framing == IDEM_FRAMING_LINE) {
    return cut_line(p->out, p->out_len, start, message_len);
  }
  return cut_frame(p, start, message_len);
}

static void take_bytes(peer *p, const char *data, size_t len) {
  if (p->policy.framing == IDEM_FRAMING_WHOLE) {
    list_add(&p->messages, data, len);
    return;
  }
  char *grown = realloc(p->out, p->out_len + len + 1);
  if (!grown) abort();
  memcpy(grown + p->out_len, data, len);
  p->out = grown;
  p->out_len += len;
  p->out[p->out_len] = 0;
  size_t start, message_len, used;
  while ((used = cut_next(p, &start, &message_len)) > 0) {
    list_add(&p->messages, p->out + start, message_len);
    p->out_len -= used;
    memmove(p->out, p->out + used, p->out_len + 1);
  }
}

void peer_collect(peer *p) {
  idem_chunk chunk;
  if (p->web) {
    peer_web_pump(p);
    return;
  }
  if (p->conn && !p->freed) peer_wait(p);
  while (p->conn && !p->freed && idem_conn_next_chunk(p->conn, &chunk)) {
    take_bytes(p, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
}

/* ------------------------------------------------------------ callbacks */

static uint64_t peer_now(void *ctx) { return ((peer *)ctx)->now_ms * 1000000u; }

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  (void)conn;
  if (error->code) {
    peer_see(user, "protocol %s: %lld %.*s", error->what, (long long)error->code,
             (int)error->message_len, error->message ? error->message : "");
  } else {
    peer_see(user, "protocol %s", error->what);
  }
}

static void on_shutdown(idem_conn *conn, void *user) {
  (void)conn;
  peer_see(user, "shutdown");
}

static char *json_of(const yyjson_val *value) {
  char *text = value ? yyjson_val_write(value, 0, NULL) : strdup("nothing");
  if (!text) abort();
  return text;
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  peer *p = user;
  unsigned long long id = response->id;
  p->calls_ended++;
  if (response->status == IDEM_OK) {
    char *result = json_of(response->result);
    peer_see(p, "call %llu ok %s", id, result);
    free(result);
  } else if (response->status == IDEM_E_REMOTE) {
    char *data = response->data ? json_of(response->data) : NULL;
    peer_see(p, "call %llu remote %lld %.*s%s%s", id, (long long)response->code,
             (int)response->message_len, response->message, data ? " " : "", data ? data : "");
    free(data);
  } else {
    peer_see(p, "call %llu %s", id, peer_status_word(response->status));
  }
}

/* -------------------------------------------------------- kept requests */

static size_t find_kept(const peer *p, const char *id) {
  for (size_t i = 0; i < p->kept_count; i++) {
    if (strcmp(p->kept[i].id, id) == 0) return i;
  }
  return SIZE_MAX;
}

static idem_request *take_kept(peer *p, size_t at) {
  idem_request *request = p->kept[at].request;
  free(p->kept[at].id);
  p->kept_count--;
  memmove(&p->kept[at], &p->kept[at + 1], (p->kept_count - at) * sizeof p->kept[0]);
  return request;
}

idem_request *peer_kept_request(peer *p, const char *id, bool take) {
  size_t at = find_kept(p, id);
  if (at == SIZE_MAX) return NULL;
  return take ? take_kept(p, at) : p->kept[at].request;
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  static const char *const words[] = {"peer", "deadline", "closed"};
  peer *p = user;
  for (size_t i = 0; i < p->kept_count; i++) {
    if (p->kept[i].request != request) continue;
    if (p->kept[i].wake_ms) { /* a sleeper gives up in silence */
      idem_request_drop(take_kept(p, i));
    } else {
      peer_see(p, "cancelled %s %s", p->kept[i].id, words[reason]);
    }
    return;
  }
}

void peer_keep(peer *p, idem_request *request, uint64_t wake_ms) {
  size_t len = 0;
  const char *id = idem_request_id(request, &len);
  if (p->kept_count == sizeof p->kept / sizeof p->kept[0]) return; /* idem answers for us */
  char *copy = id ? strndup(id, len) : strdup("none");
  if (!copy) abort();
  idem_request_keep(request);
  p->kept[p->kept_count++] = (peer_kept){request, copy, wake_ms};
  idem_request_on_cancel(request, on_cancel, p);
}

void peer_saw_reply(peer *p, const char *id, idem_status status) {
  if (status != IDEM_OK) peer_see(p, "reply %s %s", id, peer_status_word(status));
}

static void wake_sleepers(peer *p) {
  for (size_t i = 0; i < p->kept_count;) {
    if (!p->kept[i].wake_ms || p->kept[i].wake_ms > p->now_ms) {
      i++;
      continue;
    }
    idem_reply_json(take_kept(p, i), "null", 4);
    i = 0;
  }
}

static uint64_t next_event(const peer *p) {
  uint64_t next = p->freed ? UINT64_MAX : idem_conn_deadline(p->conn);
  if (!p->freed && peer_web_deadline(p) < next) next = peer_web_deadline(p);
  for (size_t i = 0; i < p->kept_count; i++) {
    if (p->kept[i].wake_ms && p->kept[i].wake_ms < next) next = p->kept[i].wake_ms;
  }
  return next;
}

void peer_advance(peer *p, uint64_t ms) {
  uint64_t until = p->now_ms + ms;
  for (int turns = 0; turns < 10000; turns++) {
    uint64_t next = next_event(p);
    if (next > until) break;
    if (next > p->now_ms) p->now_ms = next;
    wake_sleepers(p);
    if (!p->freed && p->status == IDEM_OK) p->status = idem_conn_expire(p->conn);
    peer_collect(p);
    if (p->status != IDEM_OK) break;
  }
  peer_deliver(p);
  p->now_ms = until;
  peer_collect(p);
}

/* What a driver does after each turn: sends what is there and runs what is due. */
static void run_due(peer *p) {
  peer_collect(p);
  for (int turns = 0; turns < 10000 && !p->freed && p->status == IDEM_OK; turns++) {
    if (idem_conn_deadline(p->conn) > p->now_ms) break;
    p->status = idem_conn_expire(p->conn);
    peer_collect(p);
  }
}

/* -------------------------------------------------------------- actions */

void peer_start_call(peer *p, const char *method, const char *params, uint64_t timeout_ms,
                     idem_response_fn fn, void *user) {
  idem_call_opts opts = {.timeout_ms = timeout_ms};
  idem_status status = idem_call_json(p->conn, method, *params ? params : NULL, strlen(params),
                                      &opts, fn ? fn : on_response, user ? user : p, NULL);
  if (status == IDEM_OK) {
    p->calls_started++;
  } else {
    peer_see(p, "call failed %s", peer_status_word(status));
  }
}

static void act_call(peer *p, const char *rest) {
  char method[256] = "";
  unsigned long long timeout = 0;
  int at = 0;
  if (sscanf(rest, "timeout=%llu %n", &timeout, &at) == 1) rest += at;
  at = 0;
  sscanf(rest, "%255s %n", method, &at);
  peer_start_call(p, method, rest + at, timeout, NULL, NULL);
}

static void act_notify(peer *p, const char *rest) {
  char method[256] = "";
  int at = 0;
  sscanf(rest, "%255s %n", method, &at);
  const char *params = rest + at;
  idem_status status = idem_notify_json(p->conn, method, *params ? params : NULL, strlen(params));
  if (status != IDEM_OK) peer_see(p, "notify failed %s", peer_status_word(status));
}

static void act_cancel(peer *p, const char *rest) {
  idem_status status = idem_cancel(p->conn, strtoull(rest, NULL, 10));
  if (status != IDEM_OK) peer_see(p, "cancel %s %s", rest, peer_status_word(status));
}

static void act_reply(peer *p, const char *rest) {
  char id[4096] = "";
  int at = 0;
  sscanf(rest, "%4095s %n", id, &at);
  size_t found = find_kept(p, id);
  if (found == SIZE_MAX) {
    peer_see(p, "reply %s not kept", id);
    return;
  }
  peer_saw_reply(p, id, idem_reply_json(take_kept(p, found), rest + at, strlen(rest + at)));
}

/* fail ID CODE MESSAGE */
static void act_fail(peer *p, const char *rest) {
  char id[256] = "";
  long long code = 0;
  int at = 0;
  sscanf(rest, "%255s %lld %n", id, &code, &at);
  size_t found = find_kept(p, id);
  if (found == SIZE_MAX) {
    peer_see(p, "reply %s not kept", id);
    return;
  }
  peer_saw_reply(p, id, idem_reply_error(take_kept(p, found), code, rest + at, NULL));
}

static void act_drop(peer *p, const char *id) {
  size_t found = find_kept(p, id);
  if (found == SIZE_MAX) {
    peer_see(p, "drop %s not kept", id);
    return;
  }
  idem_request_drop(take_kept(p, found));
}

static void act_close(peer *p, const char *rest) {
  (void)rest;
  idem_conn_close(p->conn);
}

static void act_abort(peer *p, const char *rest) {
  (void)rest;
  idem_conn_abort(p->conn);
}

static void act_free(peer *p, const char *rest) {
  (void)rest;
  p->freed = true;
  peer_web_leave(p);
  idem_conn_free(p->conn);
  p->conn = NULL;
}

static const struct {
  const char *word;
  void (*act)(peer *p, const char *rest);
  bool needs_conn;
} actions[] = {
    {"call", act_call, true},    {"notify", act_notify, true}, {"cancel", act_cancel, true},
    {"reply", act_reply, false}, {"fail", act_fail, false},    {"drop", act_drop, false},
    {"close", act_close, true},  {"abort", act_abort, true},   {"free", act_free, true},
};

bool peer_act(peer *p, const char *action) {
  if (peer_act_client(p, action)) {
    run_due(p);
    return true;
  }
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    size_t len = strlen(actions[i].word);
    if (strncmp(action, actions[i].word, len) != 0) continue;
    if (action[len] && action[len] != ' ') continue;
    if (actions[i].needs_conn && p->freed) return false;
    actions[i].act(p, action + len + (action[len] == ' '));
    run_due(p);
    return true;
  }
  bool known = peer_act_mcp(p, action);
  if (known) run_due(p);
  return known;
}

/* ------------------------------------------------------------- the conn */

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                     void *user) {
  (void)conn;
  const peer *p = user;
  if (p->asking)
    mcp_schema_trace_client(p->checker, direction, message, len);
  else
    mcp_schema_trace(p->checker, direction, message, len);
}

static idem_status note_status(peer *p, idem_status status) {
  if (p->status == IDEM_OK) p->status = status;
  peer_deliver(p);
  run_due(p);
  return status;
}

idem_status peer_feed(peer *p, const char *data, size_t len) {
  if (p->freed) return IDEM_E_CLOSED;
  if (p->web) {
    peer_web_feed(p, data, len);
    return note_status(p, IDEM_OK);
  }
  return note_status(p, idem_conn_feed(p->conn, data, len));
}

idem_status peer_feed_eof(peer *p) {
  if (p->freed) return IDEM_E_CLOSED;
  return note_status(p, idem_conn_feed_eof(p->conn));
}

bool peer_ended(const peer *p) {
  return p->freed || p->status != IDEM_OK || idem_conn_done(p->conn);
}

static idem_status register_all(peer *p, const peer_opts *opts) {
  idem_status status = peer_register_reference(p);
  if (status == IDEM_OK && opts->test_methods) status = peer_register_test(p);
  if (status == IDEM_OK && opts->profile == IDEM_PROFILE_LSP) {
    idem_lsp_opts lsp = {
        .server_name = "idem-reference", .server_version = IDEM_VERSION, .log = opts->log};
    status = idem_router_lsp(p->router, &lsp);
  }
  return status;
}

idem_status peer_open(peer *p, const peer_opts *opts) {
  *p = (peer){.now_ms = 1000, .policy = *opts->policy, .checker = opts->checker};
  idem_router_opts router_opts = {.alloc = opts->alloc, .seed = 7};
  bool plain = !opts->server && !opts->client;
  idem_status status = plain ? idem_router_new(&router_opts, &p->router) : IDEM_OK;
  if (status == IDEM_OK && plain) status = register_all(p, opts);
  idem_conn_opts conn_opts = {.router = p->router,
                              .policy = opts->policy,
                              .alloc = opts->alloc,
                              .now_ns = peer_now,
                              .clock_ctx = p,
                              .on_protocol_error = on_protocol_error,
                              .on_shutdown = on_shutdown,
                              .on_trace = opts->checker ? on_trace : NULL,
                              .user = p,
                              .log = opts->log,
                              .peer = "memory",
                              .seed = 11};
  if (status == IDEM_OK) {
    status = opts->server   ? peer_open_mcp(p, opts, &conn_opts)
             : opts->client ? peer_open_client(p, opts->client, opts->alloc, &conn_opts)
                            : idem_conn_new(&conn_opts, &p->conn);
  }
  if (status != IDEM_OK)
    peer_close(p);
  else if (opts->client)
    run_due(p); /* it asks at once */
  return status;
}

void peer_close(peer *p) {
  if (!p->freed) {
    peer_web_leave(p);
    idem_conn_free(p->conn);
  }
  p->freed = true;
  p->conn = NULL;
  while (p->kept_count) idem_request_drop(take_kept(p, 0));
  peer_close_mcp(p);
  peer_close_client(p);
  idem_router_free(p->router);
  list_clear(&p->messages);
  list_clear(&p->seen);
  free(p->out);
  p->out = NULL;
  p->conn = NULL;
  p->router = NULL;
}
