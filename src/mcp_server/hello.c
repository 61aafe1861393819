/* hello.c - how a conversation begins: initialize and ping (legacy), server/discover (2026-07-28). */
#include "result.h"
#include "server.h"
#include "session.h"

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

/* A line peer keeps its session itself; other transports keep it where the next request finds it. */
static idem_status open_session(idem__context *context, const idem__revision *revision,
                                yyjson_val *params) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (peer->edge) {
    idem_status status = peer->edge->open_session(peer->edge_ctx, revision, params, &peer->session);
    if (status != IDEM_OK) return status;
  } else {
    idem_status status =
        idem__session_init(&peer->own, &context->worker->alloc,
                           idem__router_seed(context->server->router), revision, params);
    if (status != IDEM_OK) {
      idem__session_deinit(&peer->own);
      return status;
    }
    peer->session = &peer->own;
    idem__list_append(&context->worker->peers, &peer->link);
    idem__conn_allow_batches(peer->conn, idem__revision_has(revision, IDEM__R_BATCH));
  }
  context->revision = revision;
  return IDEM_OK;
}

static bool refuse_again(idem__context *context) {
  static const char again[] = "{\"reason\":\"already-initialized\"}";
  static const char batched[] = "{\"reason\":\"batch-not-supported\"}";
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (idem__request_batched(context->request)) {
    idem__refuse(context, 400, IDEM_RPC_INVALID_REQUEST, batched, sizeof batched - 1);
    return true;
  }
  if (!peer->session) return false;
  idem__refuse(context, 400, IDEM_RPC_INVALID_REQUEST, again, sizeof again - 1);
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

void idem__run_initialize(idem__context *context, yyjson_val *params) {
  yyjson_val *version = params ? yyjson_obj_get(params, "protocolVersion") : NULL;
  yyjson_val *capabilities = params ? yyjson_obj_get(params, "capabilities") : NULL;
  yyjson_val *info = params ? yyjson_obj_get(params, "clientInfo") : NULL;
  if (refuse_again(context)) return;
  if (!yyjson_is_str(version)) {
    idem__reply_bad_param(context, "protocolVersion", "string", version);
  } else if (capabilities && !yyjson_is_obj(capabilities)) {
    idem__reply_bad_param(context, "capabilities", "object", capabilities);
  } else if (info && !yyjson_is_obj(info)) {
    idem__reply_bad_param(context, "clientInfo", "object", info);
  } else if (open_session(context, agree(context, version), params) != IDEM_OK) {
    idem_request_drop(context->request);
  } else {
    answer_initialize(context);
  }
}

void idem__run_ping(idem__context *context, yyjson_val *params) {
  (void)params;
  idem__reply_text(context, "{}", 2);
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
  idem__result_cacheable(&result);
  idem__result_end(&result, NULL);
}
