/* session_mcp_hear.c - what a call to an MCP server hears on its way: log lines, strays, messages for --raw and --record, that it is asked
 * again, that the server is lost. */
#include "session_mcp.h"

#include <stdlib.h>
#include <string.h>

static void on_log(idem_mcp_client *client, const idem_mcp_log_line *line, void *user) {
  static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                       "error", "critical", "alert",  "emergency"};
  call_session *self = user;
  (void)client;
  if (line->level < IDEM_MCP_WARNING || self->options->raw) return;
  progress_clear(&self->progress);
  fprintf(stderr, "[%s] ", levels[line->level]);
  size_t len = 0;
  char *written = yyjson_is_str(line->data) ? NULL : yyjson_val_write(line->data, 0, &len);
  if (yyjson_is_str(line->data))
    text_show_line(stderr, yyjson_get_str(line->data), yyjson_get_len(line->data), 2000);
  else if (written)
    text_show_line(stderr, written, len, 2000);
  fputc('\n', stderr);
  free(written);
}

/* Told at once, since it may be all that comes until the time is over. */
static void tell_unknown(call_session *self) {
  if (self->told_unknown || self->over || self->options->raw) return;
  self->told_unknown = true;
  progress_clear(&self->progress);
  call_say("the server answers what nobody asked (a response with an unknown id), and it is passed "
           "over");
}

/* Told once: a server that logs to stdout does so all the time. */
static void on_problem(idem_mcp_client *client, const idem_mcp_problem *problem, void *user) {
  call_session *self = user;
  (void)client;
  if (strcmp(problem->what, "a response with an unknown id") == 0) tell_unknown(self);
  if (self->told_stray || !problem->bytes || self->options->raw) return;
  self->told_stray = true;
  progress_clear(&self->progress);
  fprintf(stderr, "idem call: the server wrote%s what is no message, and it is passed over: ",
          self->target.argv ? " to its stdout" : "");
  text_show_line(stderr, problem->bytes, problem->bytes_len, 120);
  fputc('\n', stderr);
}

static void on_traffic(idem_mcp_client *client, const idem_mcp_traffic *traffic, void *user) {
  call_session *self = user;
  (void)client;
  if (self->options->raw) progress_clear(&self->progress);
  if (traffic->kind == IDEM_MCP_TRAFFIC_MESSAGE)
    session_message(self, traffic->direction, traffic->data, traffic->len);
  else
    session_raw(self, traffic->direction == IDEM_OUT ? '>' : '<', traffic->data, traffic->len);
}

static void keep_errors(call_session *self, const char *data, size_t len) {
  size_t most = sizeof self->errors, used = len < most ? len : most;
  size_t kept = self->errors_len < most - used ? self->errors_len : most - used;
  memmove(self->errors, self->errors + self->errors_len - kept, kept);
  memcpy(self->errors + kept, data + len - used, used);
  self->errors_len = kept + used;
}

static void on_stderr_of(idem_mcp_client *client, const char *data, size_t len, void *user) {
  (void)client;
  keep_errors(user, data, len);
  session_raw(user, '!', data, len);
}

static void on_repeat(idem_mcp_client *client, const idem_mcp_repeat *repeat, void *user) {
  call_session *self = user;
  text why = {.data = NULL};
  (void)client;
  if (!self->options->verbose) return;
  progress_clear(&self->progress);
  text_escape_cut(&why, repeat->why ? repeat->why : "", repeat->why ? repeat->why_len : 0, 200);
  call_say("%s: asking again in %.1f s with the key %s (%u)",
           why.len ? why.data : idem_status_text(repeat->status), (double)repeat->after_ms / 1000,
           repeat->key, repeat->count);
  text_free(&why);
}

static void on_lost(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user) {
  call_session *self = user;
  (void)client;
  if (!self->over && !self->again) session_end_by_trouble(self, trouble);
}

static void on_close(idem_mcp_client *client, void *user) {
  call_session *self = user;
  idem_mcp_trouble trouble = idem_mcp_client_trouble(client);
  self->client = NULL;
  if (!self->over && !self->again) session_end_by_trouble(self, &trouble);
}

void session_observe(const call_session *self, idem_mcp_client_opts *opts) {
  opts->on_log = on_log;
  opts->on_problem = on_problem;
  opts->on_repeat = on_repeat;
  opts->on_lost = on_lost;
  opts->on_close = on_close;
  opts->on_stderr = on_stderr_of;
  if (session_watches(self)) opts->on_traffic = on_traffic;
}
