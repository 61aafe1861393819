/* context.h - one request seen as MCP, whatever its era. It lives in the request's memory and holds
 * its snapshot and its worker until the request ends, which may be long after the conn. */
#ifndef IDEM_MCP_CONTEXT_H
#define IDEM_MCP_CONTEXT_H

#include "method.h"
#include "worker.h"
#include "json/grant.h"

/* One request seen as MCP. Lives in the request's own memory; request->attachment points to it. */
struct idem__context {
  idem_request *request;
  idem_server *server;
  idem__mcp_worker *worker;
  idem__worker_lists *lists;
  const idem__mcp_method *method;
  const idem__revision *revision;
  const char *principal; /* copied */
  idem__grant *grant;    /* counted; NULL: no token says what it may do */
  /* Of a legacy session, where client_info and capabilities lie; NULL in 2026-07-28, where they are the
   * request's own, and for stateless service. The session's while the first run of the handler is on the
   * stack; `counted` from then on. */
  struct idem__hello *hello;
  bool hello_counted;
  bool principal_claimed; /* nobody has checked it */
  bool begun;             /* its handler, which has not said that nothing was done (idem_not_run) */
  bool unmet;             /* it is answered with what its client lacks, or must do first */
  uint8_t error_detail;   /* idem_error_detail of its conn, which may be gone when it is answered */
  bool keyed;             /* it came with a key, and waits for it or has it */
  bool was_task;          /* see tool_count.c */
  yyjson_val *params;
  yyjson_val *meta;
  yyjson_val *client_info;
  yyjson_val *capabilities;   /* the client's; NULL: none */
  const char *progress_token; /* raw */
  size_t progress_token_len;
  double last_progress;
  int log_level; /* idem_mcp_level at and above which the peer wants lines; -1: none */
  /* what is called */
  const idem__tool_entry *tool;
  const idem__resource_entry *resource;
  const idem__prompt_entry *prompt;
  yyjson_val *arguments;
  const char *uri;
  struct idem__uri_variable *variables;
  size_t variable_count;
  /* input rounds: see input.c */
  yyjson_val *answers; /* object by key; NULL: none */
  yyjson_val *early;   /* answers that came before the question; NULL: none */
  const void *state;
  size_t state_len;
  struct idem__round *round; /* legacy: questions under way */
  unsigned rounds;
  unsigned changes;        /* tries to change somebody else's task: see task_method.c */
  idem__task *task;        /* what the request became */
  struct idem__once *once; /* the key it runs with; NULL: none. See once.h */
  void (*go_on)(idem__context *context); /* when it has waited for its key */
  /* of a tool's call, for who looks: see tool_count.c */
  idem_metrics *metrics; /* NULL: not counted */
  idem__method_label tool_label;
  int outcome; /* idem__outcome, as far as it is known; -1: not yet */
  uint64_t task_ms;
};
static inline idem__context *idem__context_of(const idem_request *request) {
  return idem__request_attachment(request);
}
/* The same while the request can be answered; NULL: it was, or it is not MCP's. */
static inline idem__context *idem__context_open(const idem_request *request) {
  return idem__request_in_use(request) ? idem__context_of(request) : NULL;
}
/* It is answered with what its client lacks, or must do first. Behind a question that was answered its handler may have done
 * something: that stays its outcome. */
static inline void idem__context_lacks(idem__context *context) {
  context->unmet = !context->rounds && !context->answers && !context->state;
}
/* cause.c: by which an answer is written that is not sent at once. */
idem_policy idem__context_policy(const idem__context *context);
/* tool_count.c: the call of a tool begins; a task that it became ends; the context goes. */
void idem__tool_count_begin(idem__context *context);
void idem__tool_count_task(idem__context *context, idem__outcome outcome);
void idem__tool_count_end(idem__context *context);
/* ending.c: its server or its session ends while it is under way. As idem__conn_on_abort wants it. */
bool idem__context_abort(idem_request *request);
/* ... what is said of it then: whether it was begun. */
const idem__answer *idem__context_cut_off(const idem_request *request);
/* Runs the handler (again): tool, resource or prompt, by what the context holds. */
void idem__context_run(idem__context *context);
/* ... a request whose handler had asked for more and has it now. */
void idem__context_rerun(idem__context *context);

#endif
