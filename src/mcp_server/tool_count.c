/* tool_count.c - how often each tool was called, how that ended and how long it took.
 * Counted when a call is over, which for a task may be long after its conn. Names are those of tools that
 * exist: a peer cannot make one. See docs/internals/mcp_server.md. */
#include "context.h"
#include "server.h"
#include "task.h"

#include <string.h>

/* The counters of a runtime live as long as the worker: those of a listener may go before a task. */
idem_metrics *idem__worker_metrics(idem__mcp_worker *worker) {
  if (!worker->show_metrics) return NULL;
  if (!worker->metrics && idem_metrics_new(&worker->alloc, &worker->metrics) == IDEM_OK)
    (void)worker->show_metrics(worker->metrics); /* too many to show: counted all the same */
  return worker->metrics;
}

static idem_metrics *counters(const idem__context *context) {
  idem__mcp_worker *worker = context->worker;
  idem_metrics *metrics = idem__conn_metrics(idem_request_conn(context->request));
  return metrics && worker->show_metrics ? idem__worker_metrics(worker) : metrics;
}

/* A tool is one pointer as long as its registry lives, which the context sees to. */
static idem__method_label label_of(const idem__context *context) {
  const idem__tool_entry *tool = context->tool;
  uint64_t generation = context->lists->registry->generation;
  struct idem__tool_label *known = &context->worker->tool_labels[((uintptr_t)tool >> 6) & 7];
  if (known->tool == tool && known->generation == generation && known->metrics == context->metrics)
    return known->label;
  *known = (struct idem__tool_label){
      .tool = tool, .generation = generation, .metrics = context->metrics};
  (void)idem__metrics_tool_label(context->metrics, tool->name, strlen(tool->name), &known->label);
  return known->label;
}

void idem__tool_count_begin(idem__context *context) {
  context->metrics = counters(context);
  if (context->metrics) context->tool_label = label_of(context);
}

void idem__tool_count_task(idem__context *context, idem__outcome outcome) {
  uint64_t now = idem__server_wall_ms(context->server), began = context->task->created_ms;
  context->was_task = true;
  context->outcome = (int)outcome;
  context->task_ms = now > began ? now - began : 0;
}

void idem__tool_count_end(idem__context *context) {
  idem__outcome outcome = IDEM__OUTCOME_CANCELLED;
  idem__outcome answered;
  uint64_t took = UINT64_MAX;
  if (context->was_task) {
    outcome = (idem__outcome)context->outcome;
    took = context->task_ms * 1000000u;
  } else if (idem__request_measured(context->request, &answered, &took)) {
    bool known = answered == IDEM__OUTCOME_OK && context->outcome >= 0;
    outcome = known ? (idem__outcome)context->outcome : answered;
  }
  idem__metrics_tool(context->metrics, context->tool_label, outcome, took);
}
