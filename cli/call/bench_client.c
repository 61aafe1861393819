/* bench_client.c - the same call over connections of the library: stdio, sockets, WebSocket, TLS. Each connection
 * carries one call at a time. An open loop watches the clock without sleeping: loops of libuv know milliseconds. */
#include "bench.h"

#include "config/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct client_load client_load;
typedef struct client_slot {
  client_load *load;
  idem_mcp_client *client; /* MCP, */
  idem_conn *conn;         /* or not */
  bool ready;
  bool busy;
  uint64_t from_ns;
} client_slot;

struct client_load {
  const bench_subject *subject;
  const bench_plan *plan;
  bench_tally *tally;
  uv_loop_t loop;
  uv_idle_t clock;
  uv_timer_t watch;
  client_slot *slots;
  size_t connecting;
  size_t busy;
  bool running;
  bool over;
  uint64_t begun_ns;
  uint64_t last_ns;
  yyjson_mut_doc *params;
};

static void go_on(client_load *self);

/* ------------------------------------------------------------------------- one call */

static void took(client_slot *slot) {
  client_load *self = slot->load;
  uint64_t now = uv_hrtime();
  slot->busy = false;
  self->busy--;
  self->last_ns = now;
  histogram_add(&self->tally->times, now - slot->from_ns);
}

static void count(client_slot *slot, idem_status status, bool is_error, const char *message,
                  size_t len) {
  bench_tally *tally = slot->load->tally;
  if (status == IDEM_OK || status == IDEM_E_REMOTE) {
    took(slot);
    tally->answered++;
    tally->refused += status == IDEM_E_REMOTE;
    tally->failed += is_error;
  } else {
    slot->busy = false;
    slot->load->busy--;
    tally->lost++;
  }
  if (status != IDEM_OK || is_error)
    bench_fault(tally, "%.*s", message ? (int)len : 40,
                message    ? message
                : is_error ? "the tool says that it failed"
                           : idem_status_text(status));
  if (!slot->load->over) go_on(slot->load);
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)client;
  count(user, result->status, result->is_error, result->message, result->message_len);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  count(user, response->status, false, response->message, response->message_len);
}

static idem_status ask_mcp(client_slot *slot) {
  const bench_subject *subject = slot->load->subject;
  const call_options *options = subject->session->options;
  const text *made = &subject->session->made;
  if (options->kind == CALL_TOOL)
    return idem_mcp_call_tool_json(slot->client, options->subject, made->data, made->len, NULL,
                                   on_result, slot, NULL);
  return idem_mcp_method(slot->client, subject->method, subject->params.data, subject->params.len,
                         NULL, on_result, slot, NULL);
}

static idem_status ask_plain(client_slot *slot) {
  const bench_subject *subject = slot->load->subject;
  idem_call_opts opts = {.timeout_ms = subject->session->options->timeout_ms};
  if (!subject->params.len)
    return idem_call(slot->conn, subject->method, NULL, &opts, on_response, slot, NULL);
  return idem_call_json(slot->conn, subject->method, subject->params.data, subject->params.len,
                        &opts, on_response, slot, NULL);
}

static void begin(client_slot *slot, uint64_t from_ns) {
  client_load *self = slot->load;
  slot->busy = true;
  slot->from_ns = from_ns;
  self->busy++;
  self->tally->begun++;
  idem_status status = slot->client ? ask_mcp(slot) : ask_plain(slot);
  if (status == IDEM_OK) return;
  slot->busy = slot->ready = false;
  self->busy--;
  self->tally->lost++;
  bench_fault(self->tally, "%s", idem_status_text(status));
}

/* ------------------------------------------------------------------------- the loop */

static void stop_all(client_load *self) {
  self->over = true;
  for (size_t i = 0; i < self->plan->connections; i++) {
    client_slot *slot = &self->slots[i];
    if (slot->client) idem_mcp_client_close(slot->client);
    if (slot->conn) idem_conn_close(slot->conn);
  }
  uv_idle_stop(&self->clock);
  uv_timer_stop(&self->watch);
}

static bool has_ready(const client_load *self) {
  for (size_t i = 0; i < self->plan->connections; i++)
    if (self->slots[i].ready) return true;
  return false;
}

static bool is_done(const client_load *self, uint64_t now) {
  self->tally->late = self->plan->end_ns && now > self->plan->end_ns;
  if (self->tally->late) bench_fault(self->tally, "no answer in time");
  bool late = self->plan->most_ns && now - self->begun_ns > self->plan->most_ns;
  bool all = self->tally->begun >= self->plan->requests || late;
  return *bench_stopped() || self->tally->late || (all && !self->busy) || !has_ready(self);
}

static bool is_due(const client_load *self, uint64_t now, uint64_t *from) {
  *from = now;
  if (self->tally->begun >= self->plan->requests) return false;
  if (self->plan->most_ns && now - self->begun_ns > self->plan->most_ns) return false;
  if (self->plan->rate <= 0) return true;
  *from = self->begun_ns + (uint64_t)((double)self->tally->begun * 1e9 / self->plan->rate);
  return *from <= now;
}

static void go_on(client_load *self) {
  uint64_t now = uv_hrtime(), from;
  if (!self->running || self->over) return;
  for (size_t i = 0; i < self->plan->connections; i++) {
    client_slot *slot = &self->slots[i];
    if (slot->ready && !slot->busy && is_due(self, now, &from)) begin(slot, from);
  }
  if (is_done(self, now)) stop_all(self);
}

static void on_clock(uv_idle_t *clock) { go_on(clock->data); }

static void on_watch(uv_timer_t *timer) { go_on(timer->data); }

/* All connections are there, or have failed. */
static void connected(client_load *self) {
  if (--self->connecting) return;
  self->running = true;
  self->begun_ns = self->last_ns = uv_hrtime();
  if (self->plan->rate > 0) uv_idle_start(&self->clock, on_clock);
  uv_timer_start(&self->watch, on_watch, 100, 100);
  go_on(self);
}

/* ----------------------------------------------------------------------- connecting */

static void fail(client_slot *slot, const char *why) {
  slot->load->tally->lost++;
  bench_fault(slot->load->tally, "cannot connect: %s", why);
}

static void on_ready_mcp(idem_mcp_client *client, idem_status status, void *user) {
  client_slot *slot = user;
  slot->client = status == IDEM_OK ? client : NULL;
  slot->ready = status == IDEM_OK;
  if (status != IDEM_OK) fail(slot, idem_mcp_client_trouble(client).text);
  connected(slot->load);
}

static void on_ready_plain(idem_conn *conn, idem_status status, void *user) {
  client_slot *slot = user;
  slot->conn = conn;
  slot->ready = conn != NULL;
  if (!conn) fail(slot, idem_status_text(status));
  if (conn) idem_conn_set_data(conn, slot);
  connected(slot->load);
}

static void on_close_mcp(idem_mcp_client *client, void *user) {
  client_slot *slot = user;
  (void)client;
  slot->client = NULL;
  slot->ready = false;
  go_on(slot->load);
}

static void on_close_plain(idem_conn *conn, void *user) {
  client_slot *slot = user;
  (void)conn;
  slot->conn = NULL;
  slot->ready = false;
  go_on(slot->load);
}

static idem_status connect_slot(client_slot *slot) {
  const bench_subject *subject = slot->load->subject;
  const call_session *session = subject->session;
  idem_client_opts wire = session_wire(session);
  const char *url = session->target.argv ? "exec:" : session->target.url;
  if (!subject->plain) {
    idem_mcp_client_opts opts = {.name = "idem call",
                                 .version = idem_version(),
                                 .revisions = (uint32_t)subject->revision,
                                 .idle_ms = session->options->timeout_ms,
                                 .handshake_ms = session->options->timeout_ms,
                                 .wire = &wire,
                                 .on_close = on_close_mcp,
                                 .user = slot};
    return idem_mcp_connect(&slot->load->loop, url, &opts, on_ready_mcp, slot, &slot->client);
  }
  bool lsp = session->options->profile == IDEM_PROFILE_LSP;
  idem_policy policy = idem_policy_preset(session->options->profile);
  policy.answer_junk = false;
  idem_connect_opts opts = {
      .policy = &policy, .client = &wire, .on_close = on_close_plain, .user = slot};
  return idem_connect(&slot->load->loop, lsp && session->target.argv ? "exec+lsp:" : url, &opts,
                      on_ready_plain, slot);
}

static void open_all(client_load *self) {
  self->connecting = self->plan->connections + 1;
  for (size_t i = 0; i < self->plan->connections; i++) {
    self->slots[i].load = self;
    idem_status status = connect_slot(&self->slots[i]);
    if (status == IDEM_OK) continue;
    fail(&self->slots[i], idem_status_text(status));
    self->connecting--;
  }
  connected(self);
}

bool bench_client(const bench_subject *subject, const bench_plan *plan, bench_tally *tally) {
  client_load *self = calloc(1, sizeof *self);
  if (!self) memory_exhausted();
  *self = (client_load){.subject = subject, .plan = plan, .tally = tally};
  self->slots = calloc(plan->connections, sizeof *self->slots);
  if (!self->slots || uv_loop_init(&self->loop) != 0) memory_exhausted();
  uv_idle_init(&self->loop, &self->clock);
  uv_timer_init(&self->loop, &self->watch);
  self->clock.data = self->watch.data = self;
  open_all(self);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  tally->took_ns = self->last_ns - self->begun_ns;
  uv_close((uv_handle_t *)&self->clock, NULL);
  uv_close((uv_handle_t *)&self->watch, NULL);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  uv_loop_close(&self->loop);
  free(self->slots);
  free(self);
  return true;
}
