/* once.c - calls of tools that happen once: which of them carry a key, and asking again with it when a connection breaks, so that
 * "did it happen?" has an answer. What must hold: a repetition says so and names the store of the server that was asked first, so that
 * no server which knows nothing of the key runs it again. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define FIRST_PAUSE_MS 100
#define MOST_PAUSE_MS 5000
#define MADE_BYTES 16
#define IDLE_MOST_MS                                                                               \
  600000 /* who may be silent for longer keeps its key as long as the server does */
#define SPARE_MS 60000

struct idem__mcp_once {
  char key[IDEM__ONCE_KEY_MAX + 1];
  char store[IDEM__ONCE_STORE_ID + 1]; /* of the server that was asked first; "": not known */
  bool own;                            /* the program's */
  bool begun; /* what was sent last may have reached the server, which has said nothing to it */
  unsigned repeats; /* since the server said something, */
  unsigned all;     /* and all of the call */
  uint64_t until;   /* when repeating ends */
  bool silent;      /* nothing was heard: the time of silence goes on over the repetition */
};

/* ------------------------------------------------------------ what a server knows */

static bool is_store_id(const char *text, size_t len) {
  return idem__once_is_key(text, len) && len <= IDEM__ONCE_STORE_ID && !memchr(text, '"', len) &&
         !memchr(text, '\\', len);
}

const char *idem_mcp_client_keys(const idem_mcp_client *client) {
  yyjson_val *all = yyjson_obj_get(idem_mcp_client_capabilities(client), "experimental");
  yyjson_val *once = yyjson_obj_get(all, IDEM__ONCE_CAPABILITY);
  yyjson_val *store = yyjson_obj_get(once, "store");
  if (!client->hello) return client->opts.known_keys;
  if (!yyjson_is_obj(once)) return NULL;
  bool named = yyjson_is_str(store) && is_store_id(yyjson_get_str(store), yyjson_get_len(store));
  return named ? yyjson_get_str(store) : "";
}

/* ------------------------------------------------------------------------ the key */

static bool is_tool_call(const idem__mcp_call *call) {
  return call->kind == IDEM__MCP_TOOL && call->row == &idem__mcp_methods[IDEM__METHOD_TOOLS_CALL];
}

static idem__mcp_once *attach(idem__mcp_call *call) {
  return call->once = idem__calloc(&call->client->alloc, sizeof *call->once);
}

idem_status idem__mcp_once_own(idem__mcp_call *call, const idem__mcp_ask *ask) {
  size_t store_len = ask->key_store ? strlen(ask->key_store) : 0;
  if (!ask->key) return store_len ? IDEM_E_INVAL : IDEM_OK;
  if (!idem__once_is_key(ask->key, ask->key_len)) return IDEM_E_INVAL;
  if (store_len && !is_store_id(ask->key_store, store_len)) return IDEM_E_INVAL;
  idem__mcp_once *once = attach(call);
  if (!once) return IDEM_E_NOMEM;
  memcpy(once->key, ask->key, ask->key_len);
  if (store_len) memcpy(once->store, ask->key_store, store_len);
  once->own = true;
  once->begun = store_len > 0; /* what was sent before may have reached that server */
  call->was_sent = once->begun;
  return IDEM_OK;
}

static void make_key(const idem_mcp_client *client, char *key) {
  uint8_t bytes[MADE_BYTES];
  client->opts.random(client->opts.random_ctx, bytes, sizeof bytes);
  idem__text_hex(key, bytes, sizeof bytes);
}

static bool is_read_only(const idem__mcp_call *call) {
  const idem__mcp_tool *tool =
      idem__mcp_tool_named(call->client, call->text + call->subject_at, call->subject_len);
  return tool && tool->read_only;
}

/* Where it is asked first is where it may be asked again: a server's name for its store is taken down once. */
static void note_store(idem__mcp_call *call) {
  const char *store = idem_mcp_client_keys(call->client);
  idem__mcp_once *once = call->once;
  if (!store || once->store[0] || once->begun) return;
  size_t len = strlen(store);
  if (is_store_id(store, len)) memcpy(once->store, store, len);
}

idem_status idem__mcp_once_prepare(idem__mcp_call *call) {
  const idem_mcp_client *client = call->client;
  if (!is_tool_call(call) || call->task) return IDEM_OK;
  if (!call->once) {
    bool wanted = !client->opts.no_keys && !call->no_key && client->opts.random &&
                  idem_mcp_client_keys(client) && !is_read_only(call);
    if (!wanted) return IDEM_OK;
    if (!attach(call)) return IDEM_E_NOMEM;
    make_key(client, call->once->key);
  }
  note_store(call);
  return IDEM_OK;
}

/* A key of ours is of no use when we have stopped asking; the server may forget it then. */
static uint64_t needed_ms(const idem__mcp_call *call) {
  if (call->once->own || call->idle_ms > IDLE_MOST_MS) return 0;
  return call->client->opts.repeat_ms + call->idle_ms + SPARE_MS;
}

bool idem__mcp_once_silent(idem__mcp_call *call) {
  bool silent = call->once && call->once->silent;
  if (silent) call->once->silent = false;
  return silent;
}

idem_status idem__mcp_once_put(const idem__mcp_call *call, idem_buf *out) {
  const idem__mcp_once *once = call->once;
  uint64_t needed = needed_ms(call);
  if (call->task) return IDEM_OK; /* which has a name of its own */
  idem_status status = idem_buf_puts(out, ",\"" IDEM__ONCE_META "\":");
  if (status == IDEM_OK) status = idem_text_json_string(out, once->key, strlen(once->key));
  if (status == IDEM_OK && needed)
    status = idem_buf_printf(out, ",\"" IDEM__ONCE_KEY_MS "\":%llu", (unsigned long long)needed);
  if (status == IDEM_OK && once->begun)
    status = idem_buf_printf(out, ",\"" IDEM__ONCE_REPEAT "\":\"%s\"", once->store);
  return status;
}

void idem__mcp_once_tell(const idem__mcp_call *call, idem_mcp_result *result) {
  yyjson_val *meta = yyjson_obj_get(result->result, "_meta");
  result->key = call->once->key;
  result->repeats = call->once->all;
  result->replayed = yyjson_is_true(yyjson_obj_get(meta, IDEM__ONCE_REPLAYED));
}

/* ------------------------------------------------------------------- what came */

static bool has_reason(const idem_response *response, const char *reason) {
  return yyjson_equals_str(yyjson_obj_get(response->data, "reason"), reason);
}

/* The session of the older era is lost and could not be made anew. */
static bool has_no_session(const idem__mcp_call *call) {
  return call->http_status == 404 && call->tried_session;
}

/* Nobody says anything of the call itself. */
static bool is_unavailable(const idem__mcp_call *call, const idem_response *response) {
  int http = call->http_status;
  bool died = !call->task && has_reason(response, "process-ended"); /* a task has failed with it */
  return http == 502 || http == 503 || http == 504 || has_reason(response, "unavailable") || died ||
         has_no_session(call);
}

/* Only of HTTP can more be had where one connection broke. */
static bool is_broken(const idem__mcp_call *call, const idem_response *response) {
  const idem_mcp_client *client = call->client;
  bool there = client->the_link->http && client->conn && !idem__conn_going(client->conn);
  switch (response->status) {
  case IDEM_E_REMOTE: return is_unavailable(call, response);
  case IDEM_E_SYS:
  case IDEM_E_TIMEOUT:
  case IDEM_E_CLOSED: return there;
  case IDEM_E_PROTO: return there && has_no_session(call);
  default: return false;
  }
}

idem_mcp_fate idem__mcp_once_fate(const idem__mcp_call *call, const idem_response *response) {
  if (has_reason(response, "outcome-unknown")) return IDEM_MCP_OUTCOME_UNKNOWN;
  bool begun = call->once && call->once->begun && is_unavailable(call, response);
  return begun ? IDEM_MCP_UNKNOWN : IDEM_MCP_ANSWERED;
}

/* There is no room for one more key, at all or for this caller: nothing was run. */
static bool lacks_room(const idem_response *response) {
  return has_reason(response, "too-many-keys") || has_reason(response, "too-many-keys-of-caller");
}

/* A key that nobody asked for is left out then. */
static bool is_dispensable(const idem__mcp_call *call, const idem_response *response) {
  const idem__mcp_once *once = call->once;
  return once && !once->own && !once->begun && !call->round && !call->task && lacks_room(response);
}

bool idem__mcp_once_mend(idem__mcp_call *call, const idem_response *response) {
  if (!is_dispensable(call, response)) return false;
  idem__free(&call->client->alloc, call->once);
  call->once = NULL;
  call->no_key = true;
  return idem__mcp_call_send(call) == IDEM_OK;
}

/* ------------------------------------------------------------------- repeating */

static uint64_t random_below(const idem__mcp_call *call, uint64_t bound) {
  const idem_mcp_client_opts *opts = &call->client->opts;
  uint64_t bits = (call->handle + call->once->all) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
  if (opts->random) opts->random(opts->random_ctx, &bits, sizeof bits);
  return bits % bound;
}

/* Doubled each time; from half of it to the whole, so that those who lost the same server do not come back at once. */
static uint64_t pause_of(const idem__mcp_call *call) {
  unsigned count = call->once->repeats;
  uint64_t most = count < 6 ? (uint64_t)FIRST_PAUSE_MS << count : MOST_PAUSE_MS;
  if (most > MOST_PAUSE_MS) most = MOST_PAUSE_MS;
  uint64_t pause = most / 2 + random_below(call, most / 2 + 1);
  return call->retry_after_ms > most / 2 ? call->retry_after_ms + pause / 4 : pause;
}

/* The last try is at the very end of the time that there is, unless the server wants to be left alone for longer. */
static uint64_t fit_pause(const idem__mcp_call *call, uint64_t now, uint64_t pause) {
  uint64_t until = call->once->until, left = until > now ? until - now : 0;
  return left && pause > left && call->retry_after_ms <= left ? left : pause;
}

static void repeat(idem__mcp_call *call) {
  idem_status status = call->task ? idem__mcp_task_again(call) : idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, "the call could not be repeated");
}

static void tell(idem__mcp_call *call, const idem_response *response, uint64_t pause) {
  const idem_mcp_client_opts *opts = &call->client->opts;
  idem_mcp_repeat about = {.call = call->handle,
                           .key = call->once->key,
                           .count = call->once->all,
                           .after_ms = pause,
                           .status = response->status,
                           .http_status = call->http_status,
                           .why = response->message,
                           .why_len = response->message_len};
  if (opts->on_repeat) opts->on_repeat(call->client, &about, opts->user);
}

static bool may_repeat(const idem__mcp_call *call, uint64_t now, uint64_t pause) {
  const idem__mcp_once *once = call->once;
  const idem_mcp_client_opts *opts = &call->client->opts;
  if (opts->no_keys || call->no_key || !once->store[0]) return false;
  return once->repeats < opts->max_repeats && now + pause <= once->until;
}

/* A connection on which nothing comes may be dead; whether its server is, the call's own time of silence says, which goes on over all tries. */
static bool is_over(const idem__mcp_call *call, const idem_response *response, uint64_t until) {
  bool counts = !call->client->asked_by_server;
  return response->status == IDEM_E_TIMEOUT && counts && until >= call->idle_at;
}

/* A task has a name by which anybody may ask for it: that is no call that could happen twice. */
static void note_break(idem__mcp_call *call, const idem_response *response) {
  bool refused = response->status == IDEM_E_REMOTE && lacks_room(response);
  if (response->not_sent || refused) return;
  call->was_sent = true;
  if (!call->task) call->once->begun = true;
}

bool idem__mcp_once_again(idem__mcp_call *call, const idem_response *response) {
  idem_mcp_client *client = call->client;
  idem__mcp_once *once = call->once;
  if (!is_broken(call, response) || is_dispensable(call, response)) {
    if (response->status == IDEM_OK) once->begun = false;
    if (response->status == IDEM_OK) once->repeats = 0;
    return false;
  }
  uint64_t now = idem__conn_read_clock(client->conn);
  if (!once->repeats) once->until = now + client->opts.repeat_ms;
  uint64_t pause = fit_pause(call, now, pause_of(call));
  note_break(call, response);
  if (is_over(call, response, now + pause)) {
    idem__mcp_once_cancel(call);
    return false;
  }
  if (client->closing || !may_repeat(call, now, pause)) return false;
  once->silent = response->status == IDEM_E_TIMEOUT;
  once->repeats++;
  once->all++;
  call->tried_session = false;
  idem__mcp_call_pause(call, pause, repeat);
  tell(call, response, pause);
  return true;
}

/* ------------------------------------------------------------------- giving up */

/* A connection that goes does not end a call with a key, and where none is there nothing can be said by it. */
void idem__mcp_once_cancel(idem__mcp_call *call) {
  const idem_mcp_client *client = call->client;
  bool untold = client->the_link->http && (idem__mcp_modern(client) || !call->asked);
  bool reached = call->asked || call->once->begun;
  idem_buf params;
  if (!untold || !reached || call->task || !call->subject_len || !idem_mcp_client_keys(client))
    return;
  idem_buf_init(&params, &client->alloc, (size_t)1 << 16);
  idem_status status = idem_buf_puts(&params, "{\"name\":");
  if (status == IDEM_OK)
    status = idem_buf_put(&params, call->text + call->subject_at, call->subject_len);
  if (status == IDEM_OK) status = idem_buf_puts(&params, ",\"_meta\":{\"" IDEM__ONCE_META "\":");
  if (status == IDEM_OK)
    status = idem_text_json_string(&params, call->once->key, strlen(call->once->key));
  if (status == IDEM_OK) status = idem_buf_puts(&params, "}}");
  if (status == IDEM_OK)
    (void)idem_notify_json(client->conn, IDEM__ONCE_CANCELLED, params.data, params.len);
  idem_buf_deinit(&params);
}
