/* steps.c - tools that take a while: progress, log lines, and an answer that comes after its stream
 * was closed. */
#include "fixtures.h"

#define STEP_MS 50u
#define LATE_MS 100u
#define SLOW_MS 60000u

static bool progress_step(idem_request *request, unsigned number, void *user) {
  (void)user;
  if (number < 3) {
    idem_progress(request, 50.0 * number, 100, number == 2 ? "Done" : "Working");
    return false;
  }
  say(request, "Finished after three steps");
  return true;
}

static void with_progress(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, STEP_MS, progress_step, NULL);
}

static bool logging_step(idem_request *request, unsigned number, void *user) {
  (void)user;
  static const char *const lines[] = {"Tool execution started", "Tool processing data",
                                      "Tool execution completed"};
  if (number < COUNT(lines)) {
    idem_mcp_log(request, IDEM_MCP_INFO, NULL, lines[number]);
    return false;
  }
  say(request, "Logged three lines");
  return true;
}

static void with_logging(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, STEP_MS, logging_step, NULL);
}

/* Who did not ask for log lines gets none. */
static void log_unasked(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_mcp_log(request, IDEM_MCP_INFO, NULL, "A line for those who want it");
  say(request, "Logged");
}

static bool late_step(idem_request *request, unsigned number, void *user) {
  (void)number, (void)user;
  say(request, "Reconnection test completed successfully");
  return true;
}

static void reconnection(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, LATE_MS, late_step, NULL);
  idem_leave_stream(request);
}

static void slow(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  take_steps(request, SLOW_MS, late_step, NULL);
}

static void count_cancelled(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  say(request, "%u", cancelled_count());
}

static const idem_tool tools[] = {
    {.name = "test_tool_with_progress",
     .description = "Tells of its progress in three steps",
     .fn = with_progress},
    {.name = "test_tool_with_logging",
     .description = "Logs three lines while it runs",
     .fn = with_logging},
    {.name = "test_logging_tool", .description = "Logs one line", .fn = log_unasked},
    {.name = "test_reconnection",
     .description = "Closes its stream and answers a little later",
     .fn = reconnection},
    {.name = "test_slow", .description = "Takes a minute, unless cancelled", .fn = slow},
    {.name = "test_cancelled_count",
     .description = "How many running calls were cancelled so far",
     .fn = count_cancelled},
};

bool steps_register(idem_server *server) { return tools_add(server, tools, COUNT(tools)); }
