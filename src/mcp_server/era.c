/* era.c - which era a request belongs to: the newer one, whose requests say all of themselves, or that of sessions. Each has its
 * checks; their order decides which error a peer sees (docs/internals/mcp_server.md). */
#include "era.h"

#include "header_check.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

#define META_VERSION IDEM__META_VERSION
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT_INFO "io.modelcontextprotocol/clientInfo"

/* ------------------------------------------------------------- the modern gate */

static bool refuse_meta(idem__context *context, const char *param, const char *expected,
                        yyjson_val *received) {
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "param", param);
  idem__write_member_text(&writer, "expected", expected);
  idem__write_member_text(&writer, "received", idem__json_type_name(received));
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Invalid params: %s: expected %s, received %s",
                                  param, expected, idem__json_type_name(received));
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_PARAMS, cause, data->data, data->len);
  return false;
}

static bool header_value(const idem__mcp_peer *peer, const char *name, const char **value,
                         size_t *len) {
  return peer->edge && peer->edge->header(peer->edge_ctx, name, value, len);
}

static bool refuse_header(idem__context *context, const char *header, const char *why) {
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "header", header);
  idem__write_member_text(&writer, "details", why);
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Header mismatch: %s: %s", header, why);
  idem__refuse_for(context, 400, -32020, cause, data->data, data->len);
  return false;
}

static bool version_header_matches(idem__context *context, const idem__mcp_peer *peer,
                                   yyjson_val *version) {
  const char *value;
  size_t len;
  if (!peer->edge) return true;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) {
    return refuse_header(context, "MCP-Protocol-Version", "the header is missing");
  }
  if (yyjson_equals_strn(version, value, len)) return true;
  return refuse_header(context, "MCP-Protocol-Version", "the header differs from _meta");
}

static bool refuse_version_text(idem__context *context, const char *requested, size_t len) {
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_key(&writer, "supported");
  idem__write_supported_versions(context->server, &writer);
  idem__write_key(&writer, "requested");
  idem__write_string(&writer, requested, len);
  idem__write_object_end(&writer);
  char text[IDEM__CAUSE], supported[IDEM__VERSIONS];
  const char *cause =
      idem__cause(context, text, "Unsupported protocol version: %.*s (supported: %s)",
                  (int)idem_utf8_cut(requested, len, 64), requested,
                  idem__supported_versions(context->server, supported));
  idem__refuse_for(context, 400, -32022, cause, data->data, data->len);
  return false;
}

static bool refuse_version(idem__context *context, yyjson_val *requested) {
  return refuse_version_text(context, yyjson_get_str(requested), yyjson_get_len(requested));
}

static bool modern_revision(idem__context *context, yyjson_val *version) {
  const idem__revision *revision =
      idem__revision_find(yyjson_get_str(version), yyjson_get_len(version));
  bool served = revision && idem__revision_has(revision, IDEM__R_MODERN) &&
                (context->server->opts.revisions & revision->bit);
  if (!served) return refuse_version(context, version);
  context->revision = revision;
  return true;
}

/* A capability is declared by an object, which may be empty. */
static bool capabilities_fit(idem__context *context, yyjson_val *capabilities) {
  static const char *const known[] = {"roots", "sampling", "elicitation", "extensions",
                                      "experimental"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    yyjson_val *received = yyjson_obj_get(capabilities, known[i]);
    if (!received || yyjson_is_obj(received)) continue;
    char path[sizeof "_meta." META_CAPABILITIES ".experimental"];
    snprintf(path, sizeof path, "_meta." META_CAPABILITIES ".%s", known[i]);
    return refuse_meta(context, path, "object", received);
  }
  return true;
}

/* Batches belong to one legacy revision; a claim inside one does not bring them back. */
static bool refuse_batched(idem__context *context) {
  static const char data[] = "{\"reason\":\"batch-not-supported\"}";
  char text[IDEM__CAUSE];
  const char *cause =
      idem__cause(context, text, "%s", idem__reason_cause(IDEM__BATCH_NOT_SUPPORTED));
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST, cause, data, sizeof data - 1);
  return false;
}

/* What every request of the newer era says of itself; refused where it is missing or of another type. */
static bool has_claims(idem__context *context, yyjson_val *version, yyjson_val *capabilities) {
  if (!yyjson_is_str(version))
    return refuse_meta(context, "_meta." META_VERSION, "string", version);
  if (!yyjson_get_len(version))
    return refuse_meta(context, "_meta." META_VERSION, "a revision", version);
  if (!yyjson_is_obj(capabilities))
    return refuse_meta(context, "_meta." META_CAPABILITIES, "object", capabilities);
  return capabilities_fit(context, capabilities);
}

static bool modern_client(idem__context *context) {
  yyjson_val *received = NULL, *info = yyjson_obj_get(context->meta, META_CLIENT_INFO);
  context->client_info = info;
  if (info && !yyjson_is_obj(info))
    return refuse_meta(context, "_meta." META_CLIENT_INFO, "object", info);
  const char *fault = idem__info_fault(info, &received);
  if (!fault) return true;
  char path[sizeof "_meta." META_CLIENT_INFO ".version"];
  snprintf(path, sizeof path, "_meta." META_CLIENT_INFO ".%s", fault);
  return refuse_meta(context, path, "string", received);
}

static bool pass_modern(idem__context *context, const idem__mcp_peer *peer) {
  yyjson_val *version = yyjson_obj_get(context->meta, META_VERSION);
  yyjson_val *capabilities = yyjson_obj_get(context->meta, META_CAPABILITIES);
  /* Until the revision is known errors take the modern form: that is what was claimed. */
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  if (idem__request_batched(context->request)) return refuse_batched(context);
  if (!has_claims(context, version, capabilities)) return false;
  if (!version_header_matches(context, peer, version)) return false;
  if (peer->edge && !idem__headers_check_method(context)) return false;
  if (!modern_revision(context, version)) return false;
  context->capabilities = capabilities;
  if (!modern_client(context)) return false;
  return !peer->edge || idem__headers_check(context, context->params);
}

/* ------------------------------------------------------------- the legacy gate */

static bool has_modern_header(const idem__mcp_peer *peer) {
  const char *value;
  size_t len;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) return false;
  const idem__revision *revision = idem__revision_find(value, len);
  return revision && idem__revision_has(revision, IDEM__R_MODERN);
}

/* What was said belongs to the newer era, and does not say in which revision. */
static bool refuse_claimless(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_meta(context, "_meta." META_VERSION, "string", NULL);
}

static bool refuse_old_handshake(idem__context *context) {
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  return refuse_header(context, "MCP-Protocol-Version", "initialize belongs to older revisions");
}

static void adopt_session(idem__context *context, const idem__mcp_session *session) {
  context->revision = session->revision;
  context->hello = session->hello;
  context->client_info = yyjson_obj_get(session->hello->root, "clientInfo");
  context->capabilities = yyjson_obj_get(session->hello->root, "capabilities");
  context->log_level = atomic_load_explicit(&session->log_level, memory_order_relaxed);
}

static idem_code_set legacy_codes(const idem__context *context) {
  bool own = context->server->opts.codes == IDEM_CODES_ERLMCP;
  return own ? IDEM_CODES_ERLMCP : context->revision->codes;
}

static bool refuse_uninitialized(idem__context *context) {
  if (context->server->opts.codes == IDEM_CODES_ERLMCP) {
    idem__answer fault = idem__answer_fault(IDEM_CODES_ERLMCP, IDEM_FAULT_NOT_INITIALIZED, NULL);
    idem__refuse_for(context, 400, fault.code, fault.message, NULL, 0);
    return false;
  }
  static const char data[] = "{\"reason\":\"not-initialized\"}";
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(
      context, text, "Invalid Request: not initialized; send initialize first, or %s in _meta",
      META_VERSION);
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST, cause, data, sizeof data - 1);
  return false;
}

/* Told apart from who never said hello: this one has to say it again. */
static bool refuse_session(idem__context *context) {
  static const char data[] = "{\"reason\":\"unknown-session\",\"hint\":\"initialize again\"}";
  bool own = context->server->opts.codes == IDEM_CODES_ERLMCP;
  idem__answer fault = idem__answer_fault(IDEM_CODES_ERLMCP, IDEM_FAULT_NOT_INITIALIZED, NULL);
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(
      context, text, "Invalid Request: the session is unknown or has ended; initialize again");
  idem__refuse_for(context, 404, own ? fault.code : IDEM_RPC_INVALID_REQUEST,
                   own ? fault.message : cause, data, sizeof data - 1);
  return false;
}

/* A server that speaks no legacy revision names what it speaks. */
static bool refuse_legacy(idem__context *context, const idem__mcp_peer *peer) {
  static const char assumed[] = "2025-03-26"; /* spoken over HTTP by who does not say it */
  const char *value;
  size_t len;
  yyjson_val *requested = yyjson_obj_get(context->params, "protocolVersion");
  if (!yyjson_is_str(requested) && !peer->edge) return refuse_claimless(context);
  context->revision = &idem__revisions[0];
  idem__request_set_codes(context->request, IDEM_CODES_MODERN);
  if (yyjson_is_str(requested)) return refuse_version(context, requested);
  bool said = header_value(peer, "mcp-protocol-version", &value, &len);
  return refuse_version_text(context, said ? value : assumed, said ? len : sizeof assumed - 1);
}

/* A header that names no revision served here: told with those that are. */
static bool version_header_served(idem__context *context, const idem__mcp_peer *peer) {
  const char *value;
  size_t len;
  if (!header_value(peer, "mcp-protocol-version", &value, &len)) return true;
  const idem__revision *revision = idem__revision_find(value, len);
  if (revision && (context->server->opts.revisions & revision->bit)) return true;
  char text[IDEM__CAUSE], supported[IDEM__VERSIONS];
  idem__supported_versions(context->server, supported);
  idem_buf *data = &context->worker->scratch;
  data->len = 0;
  idem__writer writer = idem__writer_on(data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "reason", "bad-version");
  idem__write_key(&writer, "supported");
  idem__write_supported_versions(context->server, &writer);
  idem__write_object_end(&writer);
  const char *cause = idem__cause(
      context, text, "Invalid Request: unsupported MCP-Protocol-Version: %.*s (supported: %s)",
      (int)idem_utf8_cut(value, len, 64), value, supported);
  idem__refuse_for(context, 400, IDEM_RPC_INVALID_REQUEST, cause, data->data, data->len);
  return false;
}

/* Over HTTP everything but initialize belongs to a session. */
static bool may_come_first(const idem__context *context, const idem__mcp_peer *peer) {
  if (!context->method || !context->method->before_initialize) return false;
  return !peer->edge || context->method == &idem__mcp_methods[IDEM__METHOD_INITIALIZE];
}

static bool pass_legacy(idem__context *context, const idem__mcp_peer *peer) {
  const idem__revision *newest = idem__revision_legacy(context->server->opts.revisions);
  bool hello = context->method == &idem__mcp_methods[IDEM__METHOD_INITIALIZE];
  if (has_modern_header(peer))
    return hello ? refuse_old_handshake(context) : refuse_claimless(context);
  if (peer->unavailable) {
    idem__refuse_unavailable(context);
    return false;
  }
  if (!newest) return refuse_legacy(context, peer);
  context->revision = newest;
  if (peer->unknown_session) return refuse_session(context);
  if (!version_header_served(context, peer)) return false;
  if (peer->session) {
    adopt_session(context, peer->session);
  } else if (peer->assumed) {
    context->revision = peer->assumed;
  } else if (!may_come_first(context, peer)) {
    return refuse_uninitialized(context);
  }
  idem__request_set_codes(context->request, legacy_codes(context));
  return true;
}

/* -------------------------------------------------------------------- which */

/* Whoever says a part of what the newer era says means it: what is missing is named. */
static bool is_modern(const idem__context *context) {
  static const char *const parts[] = {META_CAPABILITIES, META_CLIENT_INFO, IDEM__META_LOG_LEVEL};
  if (yyjson_obj_get(context->meta, META_VERSION)) return true;
  if (!idem__server_speaks(context->server, IDEM_MCP_2026_07_28)) return false;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (yyjson_obj_get(context->meta, parts[i])) return true;
  }
  return context->method && context->method->revisions == IDEM_MCP_2026_07_28;
}

bool idem__era_pass(idem__context *context, const idem__mcp_peer *peer) {
  return is_modern(context) ? pass_modern(context, peer) : pass_legacy(context, peer);
}
