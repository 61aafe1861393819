/* call.c - the life of a call: its text is written once and sent as often as it takes, an answer ends it or
 * moves it on (answer.c), time and the end of the client end it otherwise. Each call's function runs exactly once.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define SLOT_BITS 20
#define NEVER UINT64_MAX

/* -------------------------------------------------------------------- handles */

static idem_status grow_slots(idem_mcp_client *client) {
  size_t cap = client->slot_cap ? client->slot_cap * 2 : 16;
  if (cap > client->opts.max_calls) cap = client->opts.max_calls;
  if (cap <= client->slot_cap) return IDEM_E_LIMIT;
  idem__mcp_call **slots = idem__realloc(&client->alloc, client->slots,
                                         client->slot_cap * sizeof *slots, cap * sizeof *slots);
  if (!slots) return IDEM_E_NOMEM;
  client->slots = slots;
  uint32_t *spare = idem__realloc(&client->alloc, client->free_slots,
                                  client->slot_cap * sizeof *spare, cap * sizeof *spare);
  if (!spare) return IDEM_E_NOMEM;
  client->free_slots = spare;
  for (size_t i = cap; i > client->slot_cap; i--) {
    slots[i - 1] = NULL;
    spare[client->free_count++] = (uint32_t)(i - 1);
  }
  client->slot_cap = cap;
  return IDEM_OK;
}

static idem_status take_slot(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  idem_status status = client->free_count ? IDEM_OK : grow_slots(client);
  if (status != IDEM_OK) return status;
  uint32_t slot = client->free_slots[--client->free_count];
  client->slots[slot] = call;
  call->handle = ++client->serial << SLOT_BITS | slot;
  return IDEM_OK;
}

static size_t slot_of(uint64_t handle) { return handle & (((uint64_t)1 << SLOT_BITS) - 1); }

idem__mcp_call *idem__mcp_call_find(const idem_mcp_client *client, uint64_t handle) {
  size_t slot = slot_of(handle);
  idem__mcp_call *call = slot < client->slot_cap ? client->slots[slot] : NULL;
  return call && call->handle == handle ? call : NULL;
}

/* ----------------------------------------------------------------------- time */

static uint64_t now_of(idem_mcp_client *client) {
  return client->conn ? idem__conn_read_clock(client->conn) : 0;
}

static uint64_t later(uint64_t now, uint64_t ms) { return ms > NEVER - now ? NEVER : now + ms; }

static uint64_t due_at(const idem__mcp_call *call) {
  if (call->stage == IDEM__MCP_DUE) return 0;
  bool hears = call->stage == IDEM__MCP_ASKED || call->stage == IDEM__MCP_LOOKING;
  uint64_t at = hears && !call->refused ? call->idle_at : NEVER;
  if (call->stage == IDEM__MCP_PAUSING) at = call->resume_at;
  return call->deadline_at < at ? call->deadline_at : at;
}

/* Without memory for the timer the call has no limit of time, which is better than no call. */
void idem__mcp_call_arm(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  uint64_t at = due_at(call);
  if (at == NEVER)
    idem__heap_remove(&client->timers, &call->timer);
  else
    (void)idem__heap_put(&client->timers, &call->timer, at);
}

void idem__mcp_call_touch(idem__mcp_call *call) {
  call->idle_at = later(now_of(call->client), call->idle_ms);
}

static void wake(const idem_mcp_client *client) {
  if (client->conn && !idem__conn_going(client->conn)) idem__conn_look(client->conn);
}

/* --------------------------------------------------------------------- making */

static uint64_t choose(uint64_t wanted, uint64_t otherwise) { return wanted ? wanted : otherwise; }

static void apply_opts(idem__mcp_call *call, const idem_mcp_call_opts *opts) {
  static const idem_mcp_call_opts none;
  const idem_mcp_client_opts *defaults = &call->client->opts;
  if (!opts) opts = &none;
  uint64_t now = now_of(call->client);
  call->on_progress = opts->on_progress;
  call->idle_ms = choose(opts->idle_ms, defaults->idle_ms);
  call->idle_at = later(now, call->idle_ms);
  call->deadline_at = later(now, choose(opts->deadline_ms, defaults->deadline_ms));
  call->detach = opts->detach;
  call->fresh = opts->fresh;
  call->no_key = opts->no_key;
}

static void copy_text(idem__mcp_call *call, const idem__mcp_ask *ask, size_t method_len) {
  char *at = call->text;
  if (ask->params_len) memcpy(at, ask->params, ask->params_len);
  if (ask->meta_len) memcpy(at + ask->params_len, ask->meta, ask->meta_len);
  call->params_len = ask->params_len;
  call->meta_len = ask->meta_len;
  call->subject_at = ask->subject_at;
  call->subject_len = ask->subject_len;
  call->args_at = ask->args_at;
  call->args_len = ask->args_len;
  char *method = at + ask->params_len + ask->meta_len;
  if (method_len) memcpy(method, ask->method, method_len);
  method[method_len] = 0;
  call->method = ask->row ? ask->row->name : method;
}

idem_status idem__mcp_call_make(idem_mcp_client *client, const idem__mcp_ask *ask,
                                idem__mcp_call **out) {
  size_t method_len = ask->row ? 0 : strlen(ask->method);
  size_t room = ask->params_len + ask->meta_len + method_len + 1;
  idem__mcp_call *call = idem__malloc(&client->alloc, sizeof *call + room);
  if (!call) return IDEM_E_NOMEM;
  *call = (idem__mcp_call){
      .client = client, .kind = ask->kind, .row = ask->row, .fn = ask->fn, .user = ask->user};
  idem_status status = take_slot(call);
  if (status != IDEM_OK) {
    idem__free(&client->alloc, call);
    return status;
  }
  copy_text(call, ask, method_len);
  apply_opts(call, ask->opts);
  idem_list_init(&call->waiting);
  idem_list_append(&client->calls, &call->link);
  client->call_count++;
  status = idem__mcp_once_own(call, ask);
  if (status == IDEM_OK)
    *out = call;
  else
    idem__mcp_call_drop(call);
  return status;
}

idem_status idem__mcp_call_start(idem_mcp_client *client, const idem__mcp_ask *ask,
                                 idem__mcp_call **out) {
  idem__mcp_call *call;
  idem_status status = idem__mcp_call_make(client, ask, &call);
  if (status != IDEM_OK) return status;
  status = idem__mcp_call_send(call);
  if (status != IDEM_OK) {
    idem__mcp_call_drop(call);
    return status;
  }
  if (out) *out = call;
  return IDEM_OK;
}

/* -------------------------------------------------------------------- sending */

static void put(idem_buf *out, idem_status *status, const char *text, size_t len) {
  if (*status == IDEM_OK) *status = idem_buf_put(out, text, len);
}

#define PUTS(out, status, literal) put((out), (status), "" literal, sizeof(literal) - 1)

static void put_number(idem_buf *out, idem_status *status, uint64_t number) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number);
  put(out, status, digits + at, sizeof digits - at);
}

static void put_level(const idem_mcp_client *client, idem_buf *out, idem_status *status) {
  static const char *const names[] = {"debug", "info",     "notice", "warning",
                                      "error", "critical", "alert",  "emergency"};
  if (client->level < 0) return;
  const char *name = names[client->level];
  PUTS(out, status, ",\"io.modelcontextprotocol/logLevel\":\"");
  put(out, status, name, strlen(name));
  PUTS(out, status, "\"");
}

/* What is said with every request: the token progress is told under, and who asks. */
static void put_meta(const idem__mcp_call *call, idem_buf *out, idem_status *status) {
  const idem_mcp_client *client = call->client;
  const idem__revision *revision = client->revision ? client->revision : client->offered;
  PUTS(out, status, "\"_meta\":{\"progressToken\":");
  put_number(out, status, call->handle);
  if (revision && idem__revision_has(revision, IDEM__R_MODERN)) {
    PUTS(out, status, ",\"io.modelcontextprotocol/protocolVersion\":\"");
    put(out, status, revision->date, strlen(revision->date));
    PUTS(out, status, "\",");
    put(out, status, client->identity.data, client->identity.len);
    put_level(client, out, status);
  }
  if (call->meta_len) PUTS(out, status, ",");
  put(out, status, call->text + call->params_len, call->meta_len);
  if (call->once && *status == IDEM_OK) *status = idem__mcp_once_put(call, out);
  PUTS(out, status, "}");
}

/* The answers of a round go with the repeated message, and its state as it came. */
static void put_round(const idem__mcp_call *call, idem_buf *out, idem_status *status) {
  const char *state;
  size_t len;
  if (!call->round || call->task) return;
  if (idem__mcp_round_asks(call->round)) {
    PUTS(out, status, ",\"inputResponses\":");
    if (*status == IDEM_OK) *status = idem__mcp_round_put(call->round, out);
  }
  if (!idem__mcp_round_state(call->round, &state, &len)) return;
  PUTS(out, status, ",\"requestState\":");
  if (*status == IDEM_OK) *status = idem_text_json_string(out, state, len);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  idem__mcp_call *call = user;
  call->asked = 0;
  idem__mcp_call_answered(call, response);
}

static idem_status send(idem__mcp_call *call, const char *params, size_t len) {
  idem_mcp_client *client = call->client;
  idem_buf *out = &client->scratch;
  if (!client->conn) return IDEM_E_CLOSED;
  idem_status status = idem__mcp_once_prepare(call);
  out->len = 0;
  PUTS(out, &status, "{");
  put(out, &status, params, len);
  if (strcmp(call->method, "initialize") != 0) {
    if (len) PUTS(out, &status, ",");
    put_meta(call, out, &status);
    put_round(call, out, &status);
  }
  PUTS(out, &status, "}");
  call->stage = IDEM__MCP_ASKED;
  client->heard_unknown = false;
  call->http_status = 0;
  call->retry_after_ms = 0;
  if (status == IDEM_OK)
    status = idem__call_own(client->conn, call->method, out->data, out->len, on_response, call,
                            &call->asked);
  if (out->cap > 65536) idem_buf_deinit(out);
  if (status != IDEM_OK) return status;
  if (!idem__mcp_once_silent(call)) idem__mcp_call_touch(call);
  idem__mcp_call_arm(call);
  return IDEM_OK;
}

idem_status idem__mcp_call_send(idem__mcp_call *call) {
  return send(call, call->text, call->params_len);
}

idem_status idem__mcp_call_send_other(idem__mcp_call *call, const idem__mcp_method *row,
                                      const char *params, size_t len) {
  call->method = row->name;
  return send(call, params, len);
}

idem__mcp_call *idem__mcp_call_of(const idem_mcp_client *client, uint64_t id) {
  return client->conn ? idem__call_user(client->conn, id, on_response) : NULL;
}

/* --------------------------------------------------------------------- ending */

static void unlink_call(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  size_t slot = slot_of(call->handle);
  idem_list_remove(&call->link);
  idem_list_leave(&call->waiting);
  idem__heap_remove(&client->timers, &call->timer);
  client->slots[slot] = NULL;
  client->free_slots[client->free_count++] = (uint32_t)slot;
  client->call_count--;
}

static void free_parts(idem__mcp_call *call) {
  if (call->round) idem__mcp_round_free(call);
  if (call->task) idem__mcp_task_free(call);
  if (call->addresses) idem__mcp_addresses_free(call);
  if (call->listening) idem__mcp_listen_free(call);
  if (call->skill) idem__mcp_skill_free(call);
  if (call->pages) idem__mcp_pages_free(call->client, call->pages);
  idem__free(&call->client->alloc, call->once);
}

void idem__mcp_call_drop(idem__mcp_call *call) {
  unlink_call(call);
  free_parts(call);
  idem__free(&call->client->alloc, call);
}

void idem__mcp_call_end(idem__mcp_call *call, idem_mcp_result *result) {
  idem_mcp_client *client = call->client;
  unlink_call(call);
  if (call->round) idem__mcp_round_free(call);
  result->call = call->handle;
  result->http_status = call->http_status;
  if (call->once) idem__mcp_once_tell(call, result);
  if (call->fn) call->fn(client, result, call->user);
  free_parts(call);
  idem__free(&client->alloc, call);
}

static idem_mcp_fate fate_of(const idem__mcp_call *call) {
  if (call->answered) return IDEM_MCP_ANSWERED;
  return call->was_sent || call->asked ? IDEM_MCP_UNKNOWN : IDEM_MCP_NOT_SENT;
}

void idem__mcp_call_fail(idem__mcp_call *call, idem_status status, const char *text) {
  idem_mcp_result result = {.status = status,
                            .fate = fate_of(call),
                            .message = text,
                            .message_len = text ? strlen(text) : 0};
  if (status == IDEM_E_CLOSED && call->kind != IDEM__MCP_HELLO) {
    if (result.fate == IDEM_MCP_NOT_SENT)
      call->client->lost_not_sent++;
    else
      call->client->lost_unknown++;
  }
  idem__mcp_call_end(call, &result);
}

void idem__mcp_call_end_soon(idem__mcp_call *call, idem_status status, const char *text) {
  call->stage = IDEM__MCP_DUE;
  call->early = status;
  call->early_text = text;
  idem__mcp_call_arm(call);
  wake(call->client);
}

void idem__mcp_call_pause(idem__mcp_call *call, uint64_t ms, void (*resume)(idem__mcp_call *call)) {
  call->stage = IDEM__MCP_PAUSING;
  call->resume = resume;
  call->resume_at = later(now_of(call->client), ms);
  idem__mcp_call_arm(call);
  wake(call->client);
}

/* ----------------------------------------------------------------- cancelling */

/* A handshake is never cancelled: whoever does not know its method may not know that either. */
static bool end_message(const idem__mcp_call *call, idem_status status) {
  idem_conn *conn = call->client->conn;
  call->client->given_up++;
  if (call->kind == IDEM__MCP_HELLO) return idem__call_fail(conn, call->asked, status, "");
  if (idem_cancel(conn, call->asked) != IDEM_OK) return false;
  idem__conn_look(conn); /* where going away is all that is said, somebody must go */
  return true;
}

/* The message under way ends by the rules of the conn, which tells the server; `early` says why. */
void idem__mcp_call_cancel(idem__mcp_call *call, idem_status status, const char *text) {
  idem_mcp_client *client = call->client;
  call->early = status;
  call->early_text = text;
  if (call->task && client->conn) idem__mcp_task_tell_cancel(call);
  if (call->listening && client->conn) idem__mcp_listen_leave(call);
  if (call->once && client->conn) idem__mcp_once_cancel(call);
  if (call->asked && client->conn && end_message(call, status)) return;
  idem__mcp_call_fail(call, status, text);
}

idem_status idem_mcp_cancel(idem_mcp_client *client, uint64_t handle) {
  idem__mcp_call *call = idem__mcp_call_find(client, handle);
  if (!call || call->kind == IDEM__MCP_HELLO) return IDEM_E_NOTFOUND;
  idem__mcp_call_cancel(call, IDEM_E_CANCELLED, NULL);
  return IDEM_OK;
}

void idem__mcp_calls_close(idem_mcp_client *client, idem_status status, const char *text) {
  uint64_t last = client->serial;
  while (!idem_list_empty(&client->calls)) {
    idem__mcp_call *call = IDEM_CONTAINER(client->calls.next, idem__mcp_call, link);
    if (call->handle >> SLOT_BITS > last) break; /* made by a function that ran here */
    if (call->kind == IDEM__MCP_HELLO) call->fn = NULL;
    idem__mcp_call_cancel(call, status, text);
  }
}

/* ----------------------------------------------------------------------- time */

/* Who answers 1 with "1" has answered nothing, and is not silent either. */
static const char *silence_of(const idem_mcp_client *client) {
  return client->heard_unknown ? "the answer is not to this call: a response with an unknown id"
                               : "the server said nothing for too long";
}

static void expire_call(idem__mcp_call *call, uint64_t now) {
  if (call->stage == IDEM__MCP_DUE) {
    if (call->early == IDEM_OK && call->kind == IDEM__MCP_LIST)
      idem__mcp_page_taken(call, NULL);
    else if (call->early == IDEM_OK && call->from_cache)
      idem__mcp_read_end(call);
    else if (call->early == IDEM_OK)
      idem__mcp_call_end(call, &(idem_mcp_result){.status = IDEM_OK});
    else
      idem__mcp_call_fail(call, call->early, call->early_text);
  } else if (call->deadline_at <= now) {
    idem__mcp_call_cancel(call, IDEM_E_TIMEOUT, "the deadline of the call has passed");
  } else if (call->stage == IDEM__MCP_PAUSING && call->resume_at <= now) {
    call->stage = IDEM__MCP_ASKED;
    call->resume(call);
  } else if (due_at(call) > now) {
    idem__mcp_call_arm(call);
  } else if (call->client->asked_by_server) {
    idem__mcp_call_touch(call); /* the server waits for us, perhaps for the sake of this call */
    idem__mcp_call_arm(call);
  } else {
    idem__mcp_call_cancel(call, IDEM_E_TIMEOUT, silence_of(call->client));
  }
}

void idem__mcp_calls_expire(idem_mcp_client *client, uint64_t now_ms) {
  for (;;) {
    idem__timer *first = idem__heap_first(&client->timers);
    if (!first || first->at_ms > now_ms) return;
    idem__mcp_call *call = IDEM_CONTAINER(first, idem__mcp_call, timer);
    idem__heap_remove(&client->timers, first);
    expire_call(call, now_ms);
  }
}
