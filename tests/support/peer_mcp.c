/* peer_mcp.c - the peer of transcripts as an MCP server: the fixture behind a hub of its own, whose
 * news waits until the test (or the next message) has it delivered. */
#include "fault_alloc.h"
#include "later_store.h"
#include "peer.h"

#include "mcp_server/mcp_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_wake(idem__mcp_worker *hub, void *user) {
  (void)hub;
  ((peer *)user)->woken = true;
}

static void keep(idem_request *request, void *user) { peer_keep(user, request, 0); }

void peer_deliver(peer *p) {
  while (p->hub && p->woken) {
    p->woken = false;
    idem__worker_deliver(p->hub);
    peer_wait(p);
  }
}

void peer_wait(peer *p) {
  if (!p->hub || !p->later) return;
  while (later_store_pump(p->later)) idem__store_queue_run(p->hub->store_queue);
}

/* As IDEM_LATER_STORE of the environment, a seed, says. */
static idem_status use_later(peer *p) {
  const char *seed = getenv("IDEM_LATER_STORE");
  if (!seed) return IDEM_OK;
  idem_server *server = p->fixture.server;
  later_store_opts opts = {.seed = strtoull(seed, NULL, 10)};
  idem__store *inner;
  idem_status status =
      idem__store_memory_new(&(idem__store_memory_opts){.alloc = &server->alloc}, &inner);
  if (status != IDEM_OK) return status;
  p->later = later_store_new(inner, &opts);
  return idem__server_use_store(server, p->later);
}

/* What fails is counted from here on: how a server is made is tested elsewhere. */
static idem_status open_fixture(peer *p, const peer_opts *opts) {
  fault_alloc *memory = opts->memory;
  size_t fail_at = memory ? memory->fail_at : 0;
  if (memory) memory->fail_at = 0;
  idem_server_opts server = *opts->server;
  server.alloc = opts->alloc;
  server.log = opts->log;
  idem_status status = mcp_fixture_open(&p->fixture, &server);
  if (status == IDEM_OK) status = use_later(p);
  if (fail_at) memory->fail_at = memory->calls + fail_at;
  return status;
}

idem_status peer_open_mcp(peer *p, const peer_opts *opts, const idem_conn_opts *conn_opts) {
  idem_status status = open_fixture(p, opts);
  p->fixture.keep = keep;
  p->fixture.user = p;
  if (status == IDEM_OK) status = idem__worker_new(p->fixture.server, on_wake, p, &p->hub);
  if (status == IDEM_OK) status = idem__worker_accept(p->hub, conn_opts, opts->principal, &p->conn);
  return status;
}

void peer_close_mcp(peer *p) {
  idem__worker_free(p->hub);
  p->hub = NULL;
  mcp_fixture_close(&p->fixture);
  idem__store_unref(p->later);
  p->later = NULL;
}

/* -------------------------------------------------------------------- actions */

/* "DATE [CAPABILITIES]": a handshake whose answer is not looked at. */
static void act_hello(peer *p, const char *rest) {
  static const char done[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
  char date[32] = "", *line = NULL;
  int at = 0;
  sscanf(rest, "%31s %n", date, &at);
  if (asprintf(&line,
               "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
               "\"protocolVersion\":\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":\"c\","
               "\"version\":\"1\"}}}\n",
               date, rest[at] ? rest + at : "{}") < 0) {
    abort();
  }
  size_t before = p->messages.count;
  peer_feed(p, line, strlen(line));
  if (p->messages.count > before) free(p->messages.items[--p->messages.count].data);
  peer_feed(p, done, sizeof done - 1);
  free(line);
}

/* The request that stands first in "ID REST"; the caller's own once taken. */
static idem_request *kept_of(peer *p, const char **rest, bool take) {
  char id[256] = "";
  int at = 0;
  sscanf(*rest, "%255s %n", id, &at);
  *rest += at;
  idem_request *request = peer_kept_request(p, id, take);
  if (!request) peer_see(p, "%s not kept", id);
  return request;
}

static void act_text(peer *p, const char *rest) {
  idem_request *request = kept_of(p, &rest, true);
  if (request) idem_tool_text(request, rest, strlen(rest));
}

static void act_failed(peer *p, const char *rest) {
  idem_request *request = kept_of(p, &rest, true);
  if (request) idem_tool_failed(request, rest);
}

static void act_status(peer *p, const char *rest) {
  idem_request *request = kept_of(p, &rest, false);
  if (request) idem_task_status(request, rest);
}

static void act_progress(peer *p, const char *rest) {
  idem_request *request = kept_of(p, &rest, false);
  if (request) idem_progress(request, strtod(rest, NULL), 0, NULL);
}

static void act_ask(peer *p, const char *rest) {
  idem_request *request = kept_of(p, &rest, true);
  idem_ask ask = {.key = "r", .kind = IDEM_ASK_ROOTS};
  if (request) idem_needs_input(request, &ask, 1, NULL, 0);
}

static void act_add_tool(peer *p, const char *name) { mcp_fixture_add_tool(&p->fixture, name); }
static void act_add_prompt(peer *p, const char *name) { mcp_fixture_add_prompt(&p->fixture, name); }
static void act_add_resource(peer *p, const char *uri) {
  mcp_fixture_add_resource(&p->fixture, uri, false);
}
static void act_add_template(peer *p, const char *uri) {
  mcp_fixture_add_resource(&p->fixture, uri, true);
}
static void act_remove_tool(peer *p, const char *name) {
  idem_server_remove_tool(p->fixture.server, name);
}
static void act_remove_prompt(peer *p, const char *name) {
  idem_server_remove_prompt(p->fixture.server, name);
}
static void act_remove_resource(peer *p, const char *uri) {
  idem_server_remove_resource(p->fixture.server, uri);
}
static void act_updated(peer *p, const char *uri) {
  idem_server_resource_updated(p->fixture.server, uri);
}
static void act_deliver(peer *p, const char *rest) {
  (void)rest;
  peer_deliver(p);
}
static void act_visited(peer *p, const char *id) {
  idem_status status = idem_server_elicitation_complete(p->fixture.server, id);
  if (status != IDEM_OK) peer_see(p, "visited %s", idem_status_text(status));
}
/* "LEVEL JSON" */
static void act_log(peer *p, const char *rest) {
  char *json;
  long level = strtol(rest, &json, 10);
  json += *json == ' ';
  idem_status status =
      idem_server_log(p->fixture.server, (idem_mcp_level)level, "out", json, strlen(json));
  if (status != IDEM_OK) peer_see(p, "log %s", idem_status_text(status));
}
static void on_pong(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  peer_see(user, "pong %s", idem_status_text(response->status));
}
static void act_ping(peer *p, const char *rest) {
  idem_status status = idem_mcp_ping(p->conn, strtoull(rest, NULL, 10), on_pong, p);
  if (status != IDEM_OK) peer_see(p, "ping %s", idem_status_text(status));
}
static void act_end_listeners(peer *p, const char *rest) {
  (void)rest;
  idem__listeners_close(p->hub);
}
static void act_wall(peer *p, const char *rest) { p->fixture.wall_ms += strtoull(rest, NULL, 10); }

static const struct {
  const char *word;
  void (*act)(peer *p, const char *rest);
} actions[] = {
    {"hello", act_hello},
    {"text", act_text},
    {"failed", act_failed},
    {"status", act_status},
    {"progress", act_progress},
    {"ask", act_ask},
    {"add-tool", act_add_tool},
    {"add-prompt", act_add_prompt},
    {"add-resource", act_add_resource},
    {"add-template", act_add_template},
    {"remove-tool", act_remove_tool},
    {"remove-prompt", act_remove_prompt},
    {"remove-resource", act_remove_resource},
    {"updated", act_updated},
    {"visited", act_visited},
    {"log", act_log},
    {"ping", act_ping},
    {"deliver", act_deliver},
    {"end-listeners", act_end_listeners},
    {"wall", act_wall},
};

bool peer_act_mcp(peer *p, const char *action) {
  for (size_t i = 0; p->hub && i < sizeof actions / sizeof actions[0]; i++) {
    size_t len = strlen(actions[i].word);
    if (strncmp(action, actions[i].word, len) != 0) continue;
    if (action[len] && action[len] != ' ') continue;
    actions[i].act(p, action + len + (action[len] == ' '));
    return true;
  }
  return false;
}
