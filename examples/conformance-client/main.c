/* main.c - idem-conformance-client: what the official MCP conformance suite wants of a client.
 * idem-conformance-client URL, with MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION and
 * MCP_CONFORMANCE_CONTEXT in the environment, as the suite starts it. */
#include "login.h"

#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* A client that is gone refuses nothing any more. */
static void end(plan *self) {
  idem_auth_free(self->auth);
  self->auth = NULL;
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  plan *self = user;
  if (status == IDEM_OK) {
    plan_go_on(self);
    return;
  }
  idem_mcp_trouble trouble = idem_mcp_client_trouble(client);
  fprintf(stderr, "%s: cannot connect: %s (%s, phase %d, HTTP %d)\n", self->scenario, trouble.text,
          idem_status_text(status), (int)trouble.phase, trouble.http_status);
  if (self->auth) fprintf(stderr, "auth: %s\n", idem_auth_why(self->auth));
  self->failures++;
  end(self);
}

static void on_close(idem_mcp_client *client, void *user) {
  (void)client;
  end(user);
}

static void on_problem(idem_mcp_client *client, const idem_mcp_problem *problem, void *user) {
  (void)client, (void)user;
  fprintf(stderr, "problem: %s %s\n", problem->what, problem->detail ? problem->detail : "");
}

static void on_lost(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user) {
  plan *self = user;
  (void)client;
  fprintf(stderr, "lost: %s\n", trouble->text);
  self->failures++;
}

static void on_traffic(idem_mcp_client *client, const idem_mcp_traffic *traffic, void *user) {
  (void)client, (void)user;
  fprintf(stderr, "%c %.*s\n", traffic->direction == IDEM_OUT ? '>' : '<', (int)traffic->len,
          traffic->data);
}

/* The revision the suite plays is the one that is spoken, so that what it checks is what is said. */
static uint32_t revision_of(const char *date) {
  static const idem_revision all[] = {IDEM_MCP_2024_11_05, IDEM_MCP_2025_03_26, IDEM_MCP_2025_06_18,
                                      IDEM_MCP_2025_11_25, IDEM_MCP_2026_07_28};
  for (size_t i = 0; date && i < sizeof all / sizeof *all; i++) {
    if (strcmp(idem_mcp_revision_date(all[i]), date) == 0) return all[i];
  }
  return 0;
}

static int run(plan *self, const char *url) {
  uv_loop_t loop;
  uint32_t revision = revision_of(getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"));
  idem_mcp_client_opts opts = {.name = "idem-conformance-client",
                               .version = IDEM_VERSION,
                               .revisions = revision,
                               .on_form = plan_on_form,
                               .on_sampling = plan_on_sampling,
                               .roots = true,
                               .on_problem = on_problem,
                               .on_lost = on_lost,
                               .on_close = on_close,
                               .on_refused = login_wanted(self) ? login_on_refused : NULL,
                               .on_sending = login_wanted(self) ? login_on_sending : NULL,
                               .on_answered = login_wanted(self) ? login_on_answered : NULL,
                               .on_traffic = getenv("IDEM_TRAFFIC") ? on_traffic : NULL,
                               .extensions = strncmp(self->scenario, "sep-2640", 8) == 0
                                                 ? "{\"io.modelcontextprotocol/skills\":{}}"
                                                 : NULL,
                               .idle_ms = 20000,
                               .user = self};
  if (uv_loop_init(&loop) != 0) return 1;
  idem_status status = login_wanted(self) ? login_new(self, &loop, url) : IDEM_OK;
  if (status == IDEM_OK)
    status = idem_mcp_connect(&loop, url, &opts, on_ready, self, &self->client);
  if (status != IDEM_OK) {
    fprintf(stderr, "idem-conformance-client: cannot use %s: %s\n", url, idem_status_text(status));
    return 2;
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 && self->failures == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *scenario = getenv("MCP_CONFORMANCE_SCENARIO");
  const char *context = getenv("MCP_CONFORMANCE_CONTEXT");
  plan self = {.scenario = scenario ? scenario : "initialize"};
  self.steps = plan_steps(self.scenario);
  if (argc != 2 || !self.steps) {
    fprintf(stderr, "usage: MCP_CONFORMANCE_SCENARIO=NAME idem-conformance-client URL\n");
    if (!self.steps) fprintf(stderr, "the scenario %s is not known\n", self.scenario);
    return 2;
  }
  if (context) self.context = yyjson_read(context, strlen(context), 0);
  int code = run(&self, argv[1]);
  plan_free(&self);
  return code;
}
