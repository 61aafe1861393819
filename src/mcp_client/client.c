/* client.c - the life of a client: its options, its conn, what it knows of the server, and its end.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ the options */

static size_t text_room(const char *const *texts, size_t count) {
  size_t room = 1;
  for (size_t i = 0; i < count; i++) room += texts[i] ? strlen(texts[i]) + 1 : 0;
  return room;
}

static idem_status copy_texts(idem_mcp_client *client) {
  idem_mcp_client_opts *opts = &client->opts;
  const char **const fields[] = {&opts->name,       &opts->version,      &opts->title,
                                 &opts->extensions, &opts->experimental, &opts->known_keys};
  enum { COUNT = sizeof fields / sizeof *fields };
  const char *texts[COUNT];
  for (size_t i = 0; i < COUNT; i++) texts[i] = *fields[i];
  char *at = client->texts = idem__malloc(&client->alloc, text_room(texts, COUNT));
  if (!at) return IDEM_E_NOMEM;
  for (size_t i = 0; i < COUNT; i++) {
    if (!texts[i]) continue;
    size_t len = strlen(texts[i]) + 1;
    memcpy(at, texts[i], len);
    *fields[i] = at;
    at += len;
  }
  return IDEM_OK;
}

static void set_default(uint64_t *value, uint64_t otherwise) {
  if (!*value) *value = otherwise;
}

static void set_default_size(size_t *value, size_t otherwise) {
  if (!*value) *value = otherwise;
}

static void fill_defaults(idem_mcp_client_opts *opts) {
  set_default(&opts->probe_ms, 5000);
  set_default(&opts->handshake_ms, 30000);
  set_default(&opts->idle_ms, 60000);
  set_default(&opts->deadline_ms, UINT64_MAX);
  set_default_size(&opts->max_calls, 4096);
  set_default_size(&opts->max_items, 10000);
  set_default_size(&opts->max_pages, 1000);
  set_default_size(&opts->max_list_bytes, (size_t)32 << 20);
  set_default_size(&opts->max_questions, 64);
  set_default_size(&opts->message_bytes, (size_t)64 << 20);
  set_default_size(&opts->max_cache_bytes, (size_t)8 << 20);
  set_default(&opts->repeat_ms, 30000);
  if (!opts->max_repeats) opts->max_repeats = 16;
  if (!opts->max_rounds) opts->max_rounds = 10;
  if (!opts->revisions) opts->revisions = UINT32_MAX;
  if (!opts->name) opts->version = IDEM_VERSION;
  if (!opts->name) opts->name = "idem";
}

static bool is_object(const idem_alloc *alloc, const char *json) {
  if (!json) return true;
  yyjson_alc alc = idem__json_alc(alloc);
  idem_status status;
  yyjson_doc *doc = idem__json_read_text(json, strlen(json), 64, &alc, &status);
  bool good = yyjson_is_obj(yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  return good;
}

static idem_status check_opts(const idem_mcp_client *client) {
  const idem_mcp_client_opts *opts = &client->opts;
  bool speaks = false;
  for (size_t i = 0; i < IDEM__REVISIONS; i++)
    speaks |= (opts->revisions & idem__revisions[i].bit) != 0;
  if (!speaks || !opts->version || opts->max_calls > ((size_t)1 << 20)) return IDEM_E_INVAL;
  if (opts->known && !(opts->known & opts->revisions)) return IDEM_E_INVAL;
  if (!is_object(&client->alloc, opts->extensions)) return IDEM_E_INVAL;
  return is_object(&client->alloc, opts->experimental) ? IDEM_OK : IDEM_E_INVAL;
}

/* What a server may do to this conn. */
static void set_policy(idem_mcp_client *client) {
  idem_policy *policy = &client->policy;
  *policy = idem_policy_preset(IDEM_PROFILE_MCP);
  policy->answer_junk = false;
  policy->null_id_error = IDEM_NULL_ID_ERROR_FAIL_ONLY;
  policy->error_message = IDEM_MESSAGE_CANONICAL;
  policy->limits.idle_ms = 0;
  policy->limits.in_flight = client->opts.max_questions + 16;
  policy->limits.message_bytes = client->opts.message_bytes;
  if (client->opts.message_bytes > policy->limits.parse_bytes / 4)
    policy->limits.parse_bytes = client->opts.message_bytes * 4;
}

/* -------------------------------------------------------------------- the life */

static const idem__mcp_link no_link;

static void init_parts(idem_mcp_client *client) {
  const idem_alloc *alloc = &client->alloc;
  idem_list_init(&client->calls);
  idem_list_init(&client->looking);
  idem_list_init(&client->questions);
  idem_list_init(&client->reads);
  idem__heap_init(&client->timers, alloc);
  idem_map_init(&client->tools, alloc, client->opts.seed);
  idem_buf_init(&client->identity, alloc, (size_t)1 << 20);
  idem_buf_init(&client->roots, alloc, (size_t)1 << 20);
  idem_buf_init(&client->scratch, alloc, (size_t)256 << 20);
  idem_buf_init(&client->learnt, alloc, (size_t)256 << 20);
  idem_buf_init(&client->trouble_data, alloc, IDEM__MCP_TROUBLE_DATA);
  client->the_link = &no_link;
  client->level = -1;
  client->legacy = idem__revision_legacy(client->opts.revisions);
}

static idem_status make_parts(idem_mcp_client *client) {
  idem_router_opts router = {.alloc = &client->alloc,
                             .seed = client->opts.seed,
                             .parse_bytes_total = client->policy.limits.parse_bytes * 2};
  idem_status status = idem_buf_puts(&client->roots, "[]");
  if (status == IDEM_OK) status = idem__mcp_identity(client);
  if (status == IDEM_OK) status = idem_router_new(&router, &client->router);
  return status == IDEM_OK ? idem__mcp_notices_register(client) : status;
}

idem_status idem_mcp_client_new(const idem_mcp_client_opts *opts, idem_mcp_client **out) {
  static const idem_mcp_client_opts none;
  if (!opts) opts = &none;
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  *out = NULL;
  idem_mcp_client *client = idem__calloc(&alloc, sizeof *client);
  if (!client) return IDEM_E_NOMEM;
  client->alloc = alloc;
  client->opts = *opts;
  init_parts(client);
  idem_status status = copy_texts(client);
  fill_defaults(&client->opts);
  client->legacy = idem__revision_legacy(client->opts.revisions);
  set_policy(client);
  if (status == IDEM_OK) status = check_opts(client);
  if (status == IDEM_OK) status = make_parts(client);
  if (status != IDEM_OK) {
    idem_mcp_client_free(client);
    return status;
  }
  *out = client;
  return IDEM_OK;
}

static void unbind(void *attachment) {
  idem_mcp_client *client = attachment;
  client->conn = NULL;
  idem__mcp_client_lost(client);
}

static const idem__attachment_kind client_kind = {unbind};

idem_mcp_client *idem__mcp_client_of(const idem_conn *conn) {
  return idem__conn_attachment(conn, &client_kind);
}

void idem__mcp_client_unbind(idem_mcp_client *client) {
  if (!client->conn) return;
  idem__conn_set_layer(client->conn, NULL);
  idem__conn_attach(client->conn, NULL, NULL);
  client->conn = NULL;
}

static void free_parts(idem_mcp_client *client) {
  idem_map_deinit(&client->tools);
  idem__heap_deinit(&client->timers);
  idem_buf_deinit(&client->identity);
  idem_buf_deinit(&client->roots);
  idem_buf_deinit(&client->scratch);
  idem_buf_deinit(&client->learnt);
  idem_buf_deinit(&client->trouble_data);
  yyjson_doc_free(client->hello);
  idem_schema_ctx_free(client->schema_ctx);
  idem_router_free(client->router);
  idem__free(&client->alloc, client->slots);
  idem__free(&client->alloc, client->free_slots);
  idem__free(&client->alloc, client->texts);
}

void idem_mcp_client_free(idem_mcp_client *client) {
  if (!client) return;
  client->closing = true;
  client->told_ready = true;
  if (client->conn) {
    idem_conn *conn = client->conn;
    idem__mcp_calls_close(client, IDEM_E_CANCELLED, NULL);
    idem__mcp_questions_close(client);
    idem__mcp_client_unbind(client);
    idem_conn_abort(conn);
  }
  client->state = IDEM__MCP_OVER;
  idem__mcp_calls_close(client, IDEM_E_CANCELLED, NULL);
  idem__mcp_questions_close(client);
  idem__mcp_tools_forget(client);
  idem__mcp_caches_drop(client, false);
  free_parts(client);
  idem_alloc alloc = client->alloc;
  idem__free(&alloc, client);
}

/* --------------------------------------------------------------------- the conn */

static void on_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len) {
  idem_mcp_client *client = idem__mcp_client_of(conn);
  if (direction == IDEM_IN) {
    client->hearing = message;
    client->hearing_len = len;
  }
  if (!client->opts.on_traffic) return;
  idem_mcp_traffic traffic = {.direction = direction,
                              .at_ns = idem__conn_read_clock(conn) * 1000000u,
                              .data = message,
                              .len = len};
  client->opts.on_traffic(client, &traffic, client->opts.user);
}

static void keep_stray(idem_mcp_client *client, const char *bytes, size_t len) {
  if (client->stray_len || !len) return;
  client->stray_len = len < IDEM__MCP_STRAY ? len : IDEM__MCP_STRAY;
  memcpy(client->stray, bytes, client->stray_len);
}

/* An answer that is too large names no call; where only one waits, it was its. */
static void fail_oversize(idem_mcp_client *client) {
  idem__mcp_call *only = NULL;
  for (idem_list *node = client->calls.next; node != &client->calls; node = node->next) {
    idem__mcp_call *call = IDEM_CONTAINER(node, idem__mcp_call, link);
    if (!call->asked) continue;
    if (only) return;
    only = call;
  }
  if (only) idem__mcp_call_cancel(only, IDEM_E_LIMIT, "the answer is too large");
}

static void note_unknown(idem_mcp_client *client) {
  if (client->given_up)
    client->given_up--;
  else
    client->heard_unknown = true;
}

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error) {
  idem_mcp_client *client = idem__mcp_client_of(conn);
  char detail[IDEM__MCP_TROUBLE];
  size_t len =
      error->message ? idem_utf8_cut(error->message, error->message_len, sizeof detail - 1) : 0;
  if (len) memcpy(detail, error->message, len);
  detail[len] = 0;
  bool junk = strcmp(error->what, "something that is no message") == 0;
  bool large = junk && strcmp(detail, "oversize") == 0;
  if (strcmp(error->what, "a response with an unknown id") == 0) note_unknown(client);
  idem_mcp_problem problem = {.what = error->what, .detail = len ? detail : NULL};
  if (junk && !large && client->hearing) {
    problem.bytes = client->hearing;
    problem.bytes_len = client->hearing_len < 4096 ? client->hearing_len : 4096;
    keep_stray(client, problem.bytes, problem.bytes_len);
  }
  if (client->opts.on_problem) client->opts.on_problem(client, &problem, client->opts.user);
  if (large) fail_oversize(client);
}

static uint64_t deadline(const idem_conn *conn) {
  const idem__timer *first = idem__heap_first(&idem__mcp_client_of(conn)->timers);
  return first ? first->at_ms : UINT64_MAX;
}

static void expire(idem_conn *conn, uint64_t now_ms) {
  idem__mcp_calls_expire(idem__mcp_client_of(conn), now_ms);
}

static const idem__conn_layer layer = {
    .trace = on_trace, .protocol_error = on_protocol_error, .deadline = deadline, .expire = expire};

static bool cancelled_by_server(idem_conn *conn, const idem__id *id, bool cancel) {
  idem_mcp_client *client = idem__mcp_client_of(conn);
  if (!cancel || !client || id->kind != IDEM__ID_INTEGER || id->integer <= 0) return false;
  idem__mcp_call *call = idem__mcp_call_of(client, (uint64_t)id->integer);
  if (call && call->kind == IDEM__MCP_LISTEN) idem__mcp_listen_over(call);
  return false;
}

void idem__mcp_client_bind(idem_mcp_client *client, idem_conn *conn) {
  client->conn = conn;
  client->restarting = false;
  client->hearing = NULL;
  idem__conn_attach(conn, &client_kind, client);
  idem__conn_set_layer(conn, &layer);
  if (client->opts.on_notification) idem__conn_set_heard(conn, idem__mcp_heard);
  idem__conn_set_siblings(conn, &(idem__conn_siblings){.in_flight_elsewhere = cancelled_by_server});
  idem__mcp_hello(client);
}

void idem__mcp_client_set_link(idem_mcp_client *client, const idem__mcp_link *link, void *user) {
  client->the_link = link;
  client->link_user = user;
}

idem_status idem_mcp_client_open(idem_mcp_client *client, const idem_conn_opts *opts,
                                 idem_mcp_ready_fn on_ready, void *user, idem_conn **out) {
  *out = NULL;
  if (client->conn || client->state != IDEM__MCP_NEW) return IDEM_E_STATE;
  idem_conn_opts own = *opts;
  idem_policy policy = client->policy;
  if (opts->policy) policy.framing = opts->policy->framing;
  own.router = client->router;
  own.policy = &policy;
  if (!own.alloc) own.alloc = &client->alloc;
  idem_conn *conn;
  idem_status status = idem_conn_new(&own, &conn);
  if (status != IDEM_OK) return status;
  client->on_ready = on_ready;
  client->ready_user = user;
  client->starting = true;
  idem__mcp_client_bind(client, conn);
  client->starting = false;
  status = client->start_failure;
  if (status != IDEM_OK) {
    idem__mcp_client_unbind(client);
    client->state = IDEM__MCP_NEW;
    client->start_failure = IDEM_OK;
    idem_conn_free(conn);
    return status;
  }
  *out = conn;
  return IDEM_OK;
}

/* --------------------------------------------------------------------- the end */

void idem__mcp_client_trouble(idem_mcp_client *client, idem_status status, const char *text,
                              size_t len) {
  static const idem_mcp_phase phases[] = {[IDEM__MCP_NEW] = IDEM_MCP_PHASE_CONNECT,
                                          [IDEM__MCP_DISCOVERING] = IDEM_MCP_PHASE_DISCOVER,
                                          [IDEM__MCP_INITIALIZING] = IDEM_MCP_PHASE_HANDSHAKE,
                                          [IDEM__MCP_READY] = IDEM_MCP_PHASE_READY,
                                          [IDEM__MCP_OVER] = IDEM_MCP_PHASE_READY};
  size_t cut = text ? idem_utf8_cut(text, len, IDEM__MCP_TROUBLE - 1) : 0;
  client->trouble =
      (idem_mcp_trouble){.status = status, .phase = phases[client->state], .exit_status = -1};
  client->trouble_data.len = 0;
  if (cut) memcpy(client->trouble_text, text, cut);
  client->trouble_text[cut] = 0;
}

static void tell_ready(idem_mcp_client *client, idem_status status) {
  if (client->told_ready) return;
  client->told_ready = true;
  const idem__mcp_link *link = client->the_link;
  if (link->ready)
    link->ready(client->link_user, status);
  else if (client->on_ready)
    client->on_ready(client, status, client->ready_user);
}

void idem__mcp_client_fail(idem_mcp_client *client, idem_status status, const char *text) {
  if (client->told_ready) return;
  if (text) idem__mcp_client_trouble(client, status, text, strlen(text));
  client->state = IDEM__MCP_OVER;
  idem__mcp_calls_close(client, status, NULL);
  tell_ready(client, status);
}

void idem__mcp_client_lost(idem_mcp_client *client) {
  if (client->lost_told || client->state == IDEM__MCP_OVER) return;
  bool was_ready = client->told_ready;
  if (client->restarting && !client->closing) return; /* there will be another conn */
  client->lost_told = true;
  if (!client->closing) idem__mcp_client_trouble(client, IDEM_E_CLOSED, NULL, 0);
  client->state = IDEM__MCP_OVER;
  idem_status status = client->closing ? IDEM_E_CANCELLED : IDEM_E_CLOSED;
  idem__mcp_calls_close(client, status, client->closing ? NULL : "the connection was lost");
  idem__mcp_questions_close(client);
  client->trouble.not_sent = client->lost_not_sent;
  client->trouble.unknown = client->lost_unknown;
  if (!was_ready) {
    tell_ready(client, status);
  } else if (!client->closing && client->opts.on_lost) {
    idem_mcp_trouble trouble = idem_mcp_client_trouble(client);
    client->opts.on_lost(client, &trouble, client->opts.user);
  }
}

void idem_mcp_client_close(idem_mcp_client *client) {
  if (client->closing) return;
  client->closing = true;
  if (client->state != IDEM__MCP_OVER)
    idem__mcp_client_trouble(client, IDEM_E_CANCELLED, "closed", 6);
  idem__mcp_calls_close(client, IDEM_E_CANCELLED, NULL);
  idem__mcp_questions_close(client);
  if (client->the_link->close)
    client->the_link->close(client->link_user);
  else if (client->conn)
    idem_conn_close(client->conn);
  if (!client->the_link->close && !client->told_ready) {
    client->state = IDEM__MCP_OVER;
    tell_ready(client, IDEM_E_CANCELLED);
  }
}

void idem__mcp_client_problem(idem_mcp_client *client, const char *what, const char *detail) {
  idem_log_record record = {.level = IDEM_LOG_WARN,
                            .message = what,
                            .peer = client->conn ? idem_conn_peer(client->conn) : NULL,
                            .detail = detail,
                            .detail_len = detail ? strlen(detail) : 0};
  if (client->conn)
    idem__log_limited(client->opts.log, &record, &client->bucket, idem__conn_now_ms(client->conn));
  if (!client->opts.on_problem) return;
  idem_mcp_problem problem = {.what = what, .detail = detail};
  client->opts.on_problem(client, &problem, client->opts.user);
}

/* -------------------------------------------------------------------- looking */

void *idem_mcp_client_user(const idem_mcp_client *client) { return client->opts.user; }
idem_conn *idem_mcp_client_conn(const idem_mcp_client *client) { return client->conn; }
bool idem_mcp_client_ready(const idem_mcp_client *client) {
  return client->state == IDEM__MCP_READY && !client->closing;
}
idem_revision idem_mcp_client_revision(const idem_mcp_client *client) {
  return client->revision ? client->revision->bit : (idem_revision)0;
}
size_t idem_mcp_client_calls(const idem_mcp_client *client) { return client->call_count; }

const char *idem_mcp_revision_date(idem_revision revision) {
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    if (idem__revisions[i].bit == revision) return idem__revisions[i].date;
  }
  return "";
}

static yyjson_val *hello_member(const idem_mcp_client *client, const char *name) {
  return yyjson_obj_get(yyjson_doc_get_root(client->hello), name);
}

yyjson_val *idem_mcp_client_server_info(const idem_mcp_client *client) {
  return hello_member(client, "info");
}
yyjson_val *idem_mcp_client_capabilities(const idem_mcp_client *client) {
  return hello_member(client, "capabilities");
}
const char *idem_mcp_client_instructions(const idem_mcp_client *client, size_t *len) {
  yyjson_val *text = hello_member(client, "instructions");
  if (len) *len = yyjson_get_len(text);
  return yyjson_get_str(text);
}

bool idem_mcp_client_declares(const idem_mcp_client *client, const char *const *path) {
  yyjson_val *at = idem_mcp_client_capabilities(client);
  for (; at && *path; path++) at = yyjson_obj_get(at, *path);
  return at && !yyjson_is_false(at) && !yyjson_is_null(at);
}

idem_mcp_trouble idem_mcp_client_trouble(const idem_mcp_client *client) {
  idem_mcp_trouble trouble = client->trouble;
  trouble.text = client->trouble_text;
  if (client->the_link->reason) client->the_link->reason(client->link_user, &trouble);
  if (!trouble.text[0]) trouble.text = idem_status_text(trouble.status);
  trouble.data = client->trouble_data.len ? client->trouble_data.data : NULL;
  trouble.data_len = client->trouble_data.len;
  trouble.stray = client->stray_len ? client->stray : NULL;
  trouble.stray_len = client->stray_len;
  return trouble;
}
