/* hello.c - which era a server speaks, found by asking it: server/discover first, initialize where the answer is
 * not a modern one, whatever else it is. Nothing is asked where it is known. A fault of the way there
 * (no connection, no credentials, a broken server) says nothing about eras.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

static void discover(idem_mcp_client *client);
static void initialize(idem_mcp_client *client);

/* ---------------------------------------------------------------- what we are */

static void write_sampling(const idem_mcp_client_opts *opts, idem__writer *out, bool detailed) {
  if (!opts->on_sampling) return;
  idem__write_key(out, "sampling");
  idem__write_object(out);
  if (detailed && opts->sampling_tools) idem__write_member_raw(out, "tools", "{}");
  if (detailed && opts->sampling_context) idem__write_member_raw(out, "context", "{}");
  idem__write_object_end(out);
}

static void write_elicitation(const idem_mcp_client_opts *opts, idem__writer *out) {
  if (!opts->on_form && !opts->on_url) return;
  idem__write_key(out, "elicitation");
  idem__write_object(out);
  if (opts->on_form) idem__write_member_raw(out, "form", "{}");
  if (opts->on_url) idem__write_member_raw(out, "url", "{}");
  idem__write_object_end(out);
}

/* The members of an object that was checked with the options. */
static void write_members(idem__writer *out, const char *json) {
  const char *first = json ? strchr(json, '{') + 1 : "";
  const char *last = json ? strrchr(json, '}') : first;
  while (first < last && strchr(" \t\r\n", *first)) first++;
  if (first < last) idem__write_raw(out, first, (size_t)(last - first));
}

static void write_extensions(const idem_mcp_client_opts *opts, idem__writer *out) {
  if (!opts->tasks && !opts->extensions) return;
  idem__write_key(out, "extensions");
  idem__write_object(out);
  if (opts->tasks) idem__write_member_raw(out, "io.modelcontextprotocol/tasks", "{}");
  write_members(out, opts->extensions);
  idem__write_object_end(out);
}

static void write_capabilities(const idem_mcp_client *client, idem__writer *out, bool modern) {
  const idem_mcp_client_opts *opts = &client->opts;
  idem__write_object(out);
  if (opts->roots) idem__write_member_raw(out, "roots", modern ? "{}" : "{\"listChanged\":true}");
  write_sampling(opts, out, true);
  write_elicitation(opts, out);
  if (opts->experimental) idem__write_member_raw(out, "experimental", opts->experimental);
  if (modern) write_extensions(opts, out);
  idem__write_object_end(out);
}

static void write_info(const idem_mcp_client *client, idem__writer *out) {
  idem__write_object(out);
  idem__write_member_text(out, "name", client->opts.name);
  idem__write_member_text(out, "version", client->opts.version);
  idem__write_member_text(out, "title", client->opts.title);
  idem__write_object_end(out);
}

idem_status idem__mcp_identity(idem_mcp_client *client) {
  idem__writer out = idem__writer_on(&client->identity);
  client->identity.len = 0;
  idem__write_key(&out, "io.modelcontextprotocol/clientCapabilities");
  write_capabilities(client, &out, true);
  idem__write_key(&out, "io.modelcontextprotocol/clientInfo");
  write_info(client, &out);
  return out.status;
}

/* ------------------------------------------------------------ what the server is */

static idem_status keep_hello(idem_mcp_client *client, yyjson_val *info, yyjson_val *capabilities,
                              yyjson_val *instructions) {
  idem_buf text;
  idem_buf_init(&text, &client->alloc, client->opts.message_bytes);
  idem__writer out = idem__writer_on(&text);
  idem__write_object(&out);
  if (yyjson_is_obj(info)) idem__write_member_value(&out, "info", info);
  if (yyjson_is_obj(capabilities)) idem__write_member_value(&out, "capabilities", capabilities);
  if (yyjson_is_str(instructions)) idem__write_member_value(&out, "instructions", instructions);
  idem__write_object_end(&out);
  idem_status status = out.status;
  yyjson_alc alc = idem__json_alc(&client->alloc);
  yyjson_doc *doc =
      status == IDEM_OK ? idem__json_read_text(text.data, text.len, 1024, &alc, &status) : NULL;
  idem_buf_deinit(&text);
  if (!doc) return status == IDEM_OK ? IDEM_E_NOMEM : status;
  yyjson_doc_free(client->hello);
  client->hello = doc;
  return IDEM_OK;
}

static void settle(idem_mcp_client *client, const idem__revision *revision) {
  client->revision = revision;
  client->state = IDEM__MCP_READY;
  idem__conn_allow_batches(client->conn, idem__revision_has(revision, IDEM__R_BATCH));
  if (idem__mcp_mirrors(client)) /* who goes away has cancelled */
    idem__conn_set_cancel(client->conn, (idem_cancel_form){0});
  if (client->the_link->settled) client->the_link->settled(client->link_user, revision);
  idem__mcp_learnt(client);
}

static void be_ready(idem_mcp_client *client) {
  if (client->again) {
    client->again = false;
    if (client->the_link->session) client->the_link->session(client->link_user, true);
    return;
  }
  if (client->told_ready) return;
  client->told_ready = true;
  if (client->the_link->ready)
    client->the_link->ready(client->link_user, IDEM_OK);
  else if (client->on_ready)
    client->on_ready(client, IDEM_OK, client->ready_user);
}

/* -------------------------------------------------------------------- failing */

/* What the server says beside its message is worth having where nothing else will come. */
static void keep_data(idem_mcp_client *client, const idem_mcp_result *result) {
  idem_buf *kept = &client->trouble_data;
  if (result->data && idem__json_put_any(kept, result->data) != IDEM_OK) kept->len = 0;
}

static void fail(idem_mcp_client *client, const idem_mcp_result *result) {
  if (client->starting) { /* whoever starts it is told by its return */
    client->start_failure = result->status;
    return;
  }
  if (client->again) {
    client->again = false;
    client->state = IDEM__MCP_READY;
    if (client->the_link->session) client->the_link->session(client->link_user, false);
    return;
  }
  idem__mcp_client_trouble(client, result->status, result->message, result->message_len);
  client->trouble.code = result->code;
  client->trouble.http_status = result->http_status;
  keep_data(client, result);
  idem__mcp_client_fail(client, result->status, NULL);
}

static void fail_with(idem_mcp_client *client, idem_status status, const char *text) {
  fail(client, &(idem_mcp_result){.status = status, .message = text, .message_len = strlen(text)});
}

/* The fault lies before the server's understanding. */
static bool is_no_evidence(const idem_mcp_client *client, const idem_mcp_result *result) {
  int http = result->http_status;
  if (http == 401 || http == 403 || http >= 500) return true;
  switch (result->status) {
  case IDEM_E_SYS:
  case IDEM_E_NOMEM:
  case IDEM_E_LIMIT:
  case IDEM_E_CANCELLED: return true;
  case IDEM_E_TIMEOUT: return client->the_link->http;
  case IDEM_E_CLOSED: return client->the_link->http || !client->the_link->restart;
  default: return false;
  }
}

/* ------------------------------------------------------------------- versions */

/* The newest of the versions that both speak and that are of the era. */
static const idem__revision *common(const idem_mcp_client *client, yyjson_val *versions,
                                    bool modern) {
  const idem__revision *found = NULL;
  yyjson_val *each;
  size_t index, max;
  yyjson_arr_foreach(versions, index, max, each) {
    const idem__revision *row =
        yyjson_is_str(each) ? idem__revision_find(yyjson_get_str(each), yyjson_get_len(each))
                            : NULL;
    if (row && (row->bit & client->opts.revisions) &&
        idem__revision_has(row, IDEM__R_MODERN) == modern && (!found || row < found))
      found = row; /* rows are newest first */
  }
  return found;
}

static const idem__revision *newest_modern(const idem_mcp_client *client) {
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    const idem__revision *row = &idem__revisions[i];
    if (idem__revision_has(row, IDEM__R_MODERN) && (row->bit & client->opts.revisions)) return row;
  }
  return NULL;
}

/* ------------------------------------------------------------ server/discover */

static void be_modern(idem_mcp_client *client, const idem__revision *revision, yyjson_val *result) {
  yyjson_val *meta = yyjson_obj_get(result, "_meta");
  idem_status status =
      keep_hello(client, yyjson_obj_get(meta, "io.modelcontextprotocol/serverInfo"),
                 yyjson_obj_get(result, "capabilities"), yyjson_obj_get(result, "instructions"));
  if (status != IDEM_OK) {
    fail_with(client, status, idem_status_text(status));
    return;
  }
  settle(client, revision);
  be_ready(client);
}

/* Older servers are asked their way, if we speak it. */
static void ask_the_older_way(idem_mcp_client *client, const idem_mcp_result *result) {
  if (client->legacy && !client->revision) {
    initialize(client);
  } else if (result->status == IDEM_E_REMOTE || result->status == IDEM_OK) {
    /* Only the newer era is spoken here, and it does not need to be discovered. */
    be_modern(client, client->offered, NULL);
  } else {
    fail(client, result);
  }
}

static void take_versions(idem_mcp_client *client, const idem_mcp_result *result,
                          yyjson_val *versions, bool refused) {
  const idem__revision *modern = common(client, versions, true);
  if (modern && !refused) {
    be_modern(client, modern, result->result);
  } else if (modern && !client->tried_version) {
    client->tried_version = true;
    client->offered = modern;
    discover(client);
  } else if (!modern && common(client, versions, false)) {
    initialize(client);
  } else if (refused) {
    fail(client, result);
  } else {
    fail_with(client, IDEM_E_PROTO, "the server and this client have no version in common");
  }
}

static bool is_modern_refusal(int64_t code) { return code == -32020 || code == -32021; }

static void on_discovered(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)user;
  yyjson_val *versions = yyjson_obj_get(result->result, "supportedVersions");
  if (client->closing) return;
  if (result->status == IDEM_OK && yyjson_is_arr(versions)) {
    take_versions(client, result, versions, false);
  } else if (result->status == IDEM_OK && yyjson_obj_get(result->result, "resultType")) {
    be_modern(client, client->offered, result->result);
  } else if (result->status == IDEM_E_REMOTE && result->code == -32022) {
    take_versions(client, result, yyjson_obj_get(result->data, "supported"), true);
  } else if ((result->status == IDEM_E_REMOTE && is_modern_refusal(result->code)) ||
             is_no_evidence(client, result)) {
    fail(client, result);
  } else if (result->status == IDEM_E_CLOSED) {
    client->restarting = client->legacy && client->the_link->restart(client->link_user);
    if (!client->restarting) fail(client, result);
  } else {
    client->was_silent = result->status == IDEM_E_TIMEOUT && !client->was_silent;
    ask_the_older_way(client, result);
  }
}

static void ask(idem_mcp_client *client, idem__method_row row, const char *params, size_t len,
                uint64_t allowed_ms, idem_mcp_result_fn fn) {
  idem_mcp_call_opts opts = {.idle_ms = allowed_ms, .deadline_ms = UINT64_MAX};
  idem__mcp_ask what = {.kind = IDEM__MCP_HELLO,
                        .row = &idem__mcp_methods[row],
                        .params = params,
                        .params_len = len,
                        .opts = &opts,
                        .fn = fn};
  idem_status status = idem__mcp_call_start(client, &what, NULL);
  if (status != IDEM_OK) fail_with(client, status, idem_status_text(status));
}

static void discover(idem_mcp_client *client) {
  bool wait = client->the_link->http || !client->legacy || client->tried_modern;
  client->state = IDEM__MCP_DISCOVERING;
  client->tried_modern = true;
  ask(client, IDEM__METHOD_DISCOVER, "", 0,
      wait ? client->opts.handshake_ms : client->opts.probe_ms, on_discovered);
}

/* ------------------------------------------------------------------ initialize */

static void be_legacy(idem_mcp_client *client, const idem__revision *revision, yyjson_val *result) {
  idem_status status =
      keep_hello(client, yyjson_obj_get(result, "serverInfo"),
                 yyjson_obj_get(result, "capabilities"), yyjson_obj_get(result, "instructions"));
  if (status == IDEM_OK) {
    settle(client, revision);
    status = idem_notify(client->conn, "notifications/initialized", NULL);
  }
  if (status == IDEM_OK)
    be_ready(client);
  else
    fail_with(client, status, idem_status_text(status));
}

static void take_version(idem_mcp_client *client, const idem_mcp_result *result) {
  yyjson_val *version = yyjson_obj_get(result->result, "protocolVersion");
  const idem__revision *row =
      yyjson_is_str(version) ? idem__revision_find(yyjson_get_str(version), yyjson_get_len(version))
                             : NULL;
  if (row && (row->bit & client->opts.revisions) && !idem__revision_has(row, IDEM__R_MODERN))
    be_legacy(client, row, result->result);
  else if (!yyjson_is_str(version))
    fail_with(client, IDEM_E_PROTO, "the server answers initialize without a protocolVersion");
  else
    fail_with(client, IDEM_E_PROTO,
              "the server wants a version of the protocol that is not spoken here");
}

static bool no_such_endpoint(int http_status) {
  return http_status == 400 || http_status == 404 || http_status == 405;
}

static void on_initialized(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)user;
  const idem__mcp_link *link = client->the_link;
  if (client->closing) return;
  if (result->status == IDEM_OK) {
    take_version(client, result);
  } else if (!client->again && no_such_endpoint(result->http_status) && link->fall_back &&
             (client->opts.revisions & IDEM_MCP_2024_11_05) && link->fall_back(client->link_user)) {
    initialize(client);
  } else if (!client->again && result->status == IDEM_E_REMOTE && newest_modern(client) &&
             (!client->tried_modern || client->was_silent)) {
    /* What was known of it is no longer so, or it was only slow to start. */
    client->was_silent = false;
    client->offered = newest_modern(client);
    discover(client);
  } else {
    fail(client, result);
  }
}

static void initialize(idem_mcp_client *client) {
  idem_buf params;
  idem_buf_init(&params, &client->alloc, (size_t)2 << 20);
  idem__writer out = idem__writer_on(&params);
  const idem__revision *offer = client->revision ? client->revision : client->legacy;
  client->state = IDEM__MCP_INITIALIZING;
  client->offered = offer;
  idem__write_member_text(&out, "protocolVersion", offer->date);
  idem__write_key(&out, "capabilities");
  write_capabilities(client, &out, false);
  idem__write_key(&out, "clientInfo");
  write_info(client, &out);
  if (out.status == IDEM_OK)
    ask(client, IDEM__METHOD_INITIALIZE, params.data, params.len, client->opts.handshake_ms,
        on_initialized);
  else
    fail_with(client, out.status, idem_status_text(out.status));
  idem_buf_deinit(&params);
}

/* -------------------------------------------------------------------- the start */

static const idem__revision *row_of(idem_revision bit) {
  for (size_t i = 0; i < IDEM__REVISIONS; i++) {
    if (idem__revisions[i].bit == bit) return &idem__revisions[i];
  }
  return NULL;
}

static void be_ready_soon(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)user;
  if (result->status == IDEM_OK) be_ready(client);
}

/* Nothing is asked; on_ready waits for the next turn all the same. */
static void start_at_once(idem_mcp_client *client) {
  idem__mcp_call *call;
  idem__mcp_ask what = {.kind = IDEM__MCP_PLAIN,
                        .row = &idem__mcp_methods[IDEM__METHOD_DISCOVER],
                        .fn = be_ready_soon};
  idem_status status = idem__mcp_call_make(client, &what, &call);
  if (status != IDEM_OK) {
    fail_with(client, status, idem_status_text(status));
    return;
  }
  settle(client, client->offered);
  idem__mcp_call_end_soon(call, IDEM_OK, NULL);
}

void idem__mcp_hello(idem_mcp_client *client) {
  const idem__revision *known = row_of(client->opts.known);
  bool legacy = known && !idem__revision_has(known, IDEM__R_MODERN);
  client->offered = newest_modern(client);
  if (legacy) client->legacy = known;
  if (client->closing) return;
  if (legacy || !client->offered || client->tried_modern)
    initialize(client);
  else if (known && client->opts.at_once && client->the_link->http)
    start_at_once(client);
  else
    discover(client);
}

void idem__mcp_hello_again(idem_mcp_client *client) {
  if (client->again || client->closing) return;
  client->again = true;
  initialize(client);
}

void idem__mcp_hello_failed(idem_mcp_client *client, const char *text, int http_status) {
  if (client->told_ready) return;
  fail(client, &(idem_mcp_result){.status = IDEM_E_PROTO,
                                  .message = text,
                                  .message_len = strlen(text),
                                  .http_status = http_status});
}
