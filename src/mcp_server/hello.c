/* hello.c - how a conversation begins: initialize and ping (legacy), server/discover (2026-07-28). */
#include "result.h"
#include "server.h"
#include "session.h"
#include "wait.h"

#include <stdio.h>
#include <string.h>

void idem__write_supported_versions(const idem_server *server, idem__writer *writer) {
  idem__write_array(writer);
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    if (server->opts.revisions & idem__revisions[i].bit) {
      idem__write_text(writer, idem__revisions[i].date);
    }
  }
  idem__write_array_end(writer);
}

const char *idem__supported_versions(const idem_server *server, char out[IDEM__VERSIONS]) {
  size_t len = 0;
  out[0] = '\0';
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    if (!(server->opts.revisions & idem__revisions[i].bit)) continue;
    len += (size_t)snprintf(out + len, IDEM__VERSIONS - len, "%s%s", len ? ", " : "",
                            idem__revisions[i].date);
  }
  return out;
}

/* The version asked for, if it is a legacy one we serve; else our newest: never an error. */
static const idem__revision *agree(const idem__context *context, yyjson_val *asked) {
  const idem__revision *revision =
      idem__revision_find(yyjson_get_str(asked), yyjson_get_len(asked));
  if (revision && !idem__revision_has(revision, IDEM__R_MODERN) &&
      (context->server->opts.revisions & revision->bit)) {
    return revision;
  }
  return idem__revision_legacy(context->server->opts.revisions);
}

static bool refuse_again(idem__context *context) {
  static const char again[] = "{\"reason\":\"already-initialized\"}";
  char text[IDEM__CAUSE];
  static const char batched[] = "{\"reason\":\"batch-not-supported\"}";
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (idem__request_batched(context->request)) {
    idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST,
                     idem__cause(context, text, "Invalid Request: initialize in a batch"), batched,
                     sizeof batched - 1);
    return true;
  }
  if (!peer->session) return false;
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST,
                   idem__cause(context, text, "Invalid Request: already initialized"), again,
                   sizeof again - 1);
  return true;
}

static void answer_initialize(idem__context *context) {
  idem__result result;
  idem__result_begin(&result, context, NULL);
  idem__write_member_text(&result.writer, "protocolVersion", context->revision->date);
  idem__write_key(&result.writer, "capabilities");
  idem__server_write_capabilities(context, &result.writer);
  idem__write_key(&result.writer, "serverInfo");
  idem__server_write_info(context->server, context->revision, &result.writer);
  idem__write_member_text(&result.writer, "instructions", context->server->opts.instructions);
  idem__result_end(&result, NULL);
}

/* ------------------------------------------------------------------ sessions */

static void on_opened(idem__context *context, idem_status status, void *user) {
  const idem__revision *revision = user;
  context->revision = revision;
  if (status == IDEM_OK)
    answer_initialize(context);
  else if (idem__is_unknown(status) || status == IDEM_E_LIMIT)
    idem__refuse_unavailable(context);
  else
    idem_request_drop(context->request);
}

static idem_status open_line_session(const idem__context *context, idem__mcp_peer *peer,
                                     const idem__revision *revision, yyjson_val *params) {
  idem_status status =
      idem__session_init(&peer->own, &context->worker->alloc,
                         idem__router_seed(context->server->router), revision, params);
  if (status != IDEM_OK) {
    idem__session_deinit(&peer->own);
    return status;
  }
  idem_server *server = context->server;
  snprintf(peer->name, sizeof peer->name, "line-%llu",
           (unsigned long long)atomic_fetch_add(&server->line_sessions, 1));
  peer->own.name = peer->name;
  peer->session = &peer->own;
  idem_list_append(&context->worker->peers, &peer->link);
  idem__conn_allow_batches(peer->conn, idem__revision_has(revision, IDEM__R_BATCH));
  return IDEM_OK;
}

/* A line peer keeps its session itself; other transports keep it where the next request finds it. */
static void open_session(idem__context *context, const idem__revision *revision,
                         yyjson_val *params) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  void *agreed = (void *)(uintptr_t)revision;
  if (!peer->edge) {
    on_opened(context, open_line_session(context, peer, revision, params), agreed);
    return;
  }
  idem__wait *wait = idem__wait_begin(context, on_opened, agreed);
  if (!wait) return;
  peer->edge->open_session(peer->edge_ctx, revision, params, idem__wait_end, wait);
  idem__wait_keep(wait);
}

/* What keeping it costs. The values below one follow it in memory. */
static size_t weight(yyjson_val *value) {
  size_t bytes = 0;
  if (!value) return 0;
  const yyjson_val *end = unsafe_yyjson_get_next(value);
  for (yyjson_val *each = value; each < end; each++) {
    bool has_text = yyjson_is_str(each) || yyjson_is_raw(each);
    bytes += sizeof *each + (has_text ? unsafe_yyjson_get_len(each) : 0);
  }
  return bytes;
}

static void refuse_size(idem__context *context) {
  static const char large[] = "{\"reason\":\"client-info-too-large\"}";
  char text[IDEM__CAUSE];
  const char *cause =
      idem__cause(context, text, "Invalid params: clientInfo and capabilities are too large");
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_PARAMS, cause, large, sizeof large - 1);
}

const char *idem__info_fault(yyjson_val *info, yyjson_val **received) {
  static const char *const names[] = {"name", "version"};
  for (size_t i = 0; info && i < sizeof names / sizeof *names; i++) {
    *received = yyjson_obj_get(info, names[i]);
    if (!yyjson_is_str(*received)) return names[i];
  }
  return NULL;
}

void idem__run_initialize(idem__context *context, yyjson_val *params) {
  yyjson_val *version = params ? yyjson_obj_get(params, "protocolVersion") : NULL;
  yyjson_val *capabilities = params ? yyjson_obj_get(params, "capabilities") : NULL;
  yyjson_val *info = params ? yyjson_obj_get(params, "clientInfo") : NULL;
  yyjson_val *received = NULL;
  if (refuse_again(context)) return;
  const char *fault = yyjson_is_obj(info) ? idem__info_fault(info, &received) : NULL;
  if (!yyjson_is_str(version)) {
    idem__reply_bad_param(context, "protocolVersion", "string", version);
  } else if (capabilities && !yyjson_is_obj(capabilities)) {
    idem__reply_bad_param(context, "capabilities", "object", capabilities);
  } else if (info && !yyjson_is_obj(info)) {
    idem__reply_bad_param(context, "clientInfo", "object", info);
  } else if (fault) {
    char path[32];
    snprintf(path, sizeof path, "clientInfo.%s", fault);
    idem__reply_bad_param(context, path, "string", received);
  } else if (weight(capabilities) + weight(info) > IDEM__HELLO_BYTES) {
    refuse_size(context);
  } else {
    open_session(context, agree(context, version), params);
  }
}

void idem__run_ping(idem__context *context, yyjson_val *params) {
  (void)params;
  idem__reply_text(context, "{}", 2);
}

#define PING_MS 30000u

idem_status idem_mcp_ping(idem_conn *conn, uint64_t timeout_ms, idem_response_fn fn, void *user) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(conn);
  idem_call_opts opts = {.timeout_ms = timeout_ms ? timeout_ms : PING_MS};
  if (!peer || !peer->session) return IDEM_E_STATE;
  if (peer->edge && !peer->edge->can_reach(peer->edge_ctx)) return IDEM_E_STATE;
  return idem_call(conn, "ping", NULL, &opts, fn, user, NULL);
}

void idem__run_discover(idem__context *context, yyjson_val *params) {
  (void)params;
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__write_key(&result.writer, "supportedVersions");
  idem__write_supported_versions(context->server, &result.writer);
  idem__write_key(&result.writer, "capabilities");
  idem__server_write_capabilities(context, &result.writer);
  idem__write_member_text(&result.writer, "instructions", context->server->opts.instructions);
  idem__result_cacheable(&result, context->server->opts.discover_ttl_ms, false);
  idem__result_end(&result, NULL);
}
