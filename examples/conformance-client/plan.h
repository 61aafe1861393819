/* plan.h - what the scenarios of the official suite want of a client, as steps one after the other. */
#ifndef CONFORMANCE_CLIENT_PLAN_H
#define CONFORMANCE_CLIENT_PLAN_H

#include <idem/mcp_client.h>

typedef struct plan plan;
/* Starts something whose result is given to `took`, or returns false: it has nothing to do. */
typedef bool (*step_fn)(plan *self);

struct plan {
  idem_mcp_client *client;
  struct idem_auth *auth; /* of the auth scenarios; else NULL */
  const char *scenario;
  const step_fn *steps; /* ends with NULL */
  bool errors_are_fine; /* the scenario is about what must not be done */
  int failures;
  yyjson_doc *context; /* MCP_CONFORMANCE_CONTEXT */
  size_t at;           /* in a step that repeats itself */
  yyjson_doc *tools, *resources, *prompts, *skills;
};

/* The steps of a scenario; NULL: it is not known. */
const step_fn *plan_steps(const char *scenario);
/* Goes on to the next step, or closes the client. */
void plan_go_on(plan *self);
/* The end of a call: goes on. */
void plan_took(idem_mcp_client *client, const idem_mcp_result *result, void *user);
void plan_free(plan *self);
/* Answers of the user. */
void plan_on_form(idem_mcp_client *client, idem_mcp_question *question, void *user);
void plan_on_sampling(idem_mcp_client *client, idem_mcp_question *question, void *user);

#endif
