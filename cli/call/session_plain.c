/* session_plain.c - a call without MCP: JSON-RPC as it is, or with the Content-Length framing of editors' servers. */
#include "session.h"

#include "config/memory.h"

#include <stdlib.h>
#include <string.h>

static void end_by_failure(call_session *self, call_trouble *why) {
  progress_clear(&self->progress);
  session_end(self, trouble_tell(&self->target, why));
}

/* Of a conn that is lost more is known when it has gone; over HTTP only this request is. */
static bool is_told_later(const call_session *self, const idem_response *response) {
  return response->status == IDEM_E_CLOSED &&
         (self->target.argv || strncmp(self->target.url, "http", 4) != 0);
}

static void end_by_response(call_session *self, const idem_response *response) {
  char *what = response->message ? strndup(response->message, response->message_len) : NULL;
  call_trouble why = {.status = response->status,
                      .phase = "the call",
                      .exit_status = -1,
                      .what = what ? what : idem_status_text(response->status),
                      .fate = response->not_sent ? IDEM_MCP_NOT_SENT : IDEM_MCP_UNKNOWN,
                      .sent = true};
  end_by_failure(self, &why);
  free(what);
}

static void on_answer(idem_conn *conn, const idem_response *response, void *user) {
  call_session *self = user;
  (void)conn;
  self->calling = false;
  if (self->over) return;
  if (response->status == IDEM_OK) {
    print_json(&self->printer, response->result);
    session_end(self, CALL_WELL);
  } else if (response->status == IDEM_E_REMOTE) {
    idem_mcp_result result = {.code = response->code,
                              .message = response->message,
                              .message_len = response->message_len,
                              .data = response->data};
    session_end(self, trouble_remote(&result, NULL));
  } else if (self->interrupts || self->late) {
    session_end(self, CALL_GIVEN_UP);
  } else if (is_told_later(self, response)) {
    self->fate = response->not_sent ? IDEM_MCP_NOT_SENT : IDEM_MCP_UNKNOWN;
  } else {
    end_by_response(self, response);
  }
}

static idem_status begin(call_session *self) {
  const text *params = &self->arguments.base_text;
  const char *method = self->options->subject;
  uint64_t timeout = self->options->timeout_ms ? self->options->timeout_ms : 60000;
  idem_call_opts opts = {.timeout_ms = timeout};
  if (self->options->kind == CALL_NOTIFY)
    return params->data ? idem_notify_json(self->conn, method, params->data, params->len)
                        : idem_notify(self->conn, method, NULL);
  if (params->data)
    return idem_call_json(self->conn, method, params->data, params->len, &opts, on_answer, self,
                          &self->call);
  return idem_call(self->conn, method, NULL, &opts, on_answer, self, &self->call);
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  call_session *self = user;
  const char *logged = trouble_logged();
  self->conn = conn;
  if (self->over) {
    if (conn) idem_conn_close(conn);
    return;
  }
  if (conn) status = begin(self);
  if (status == IDEM_OK && self->options->kind == CALL_NOTIFY) {
    session_end(self, CALL_WELL);
    return;
  }
  self->calling = status == IDEM_OK;
  if (status == IDEM_OK) return;
  call_trouble why = {.status = status,
                      .phase = "connecting",
                      .exit_status = -1,
                      .what = *logged ? logged : idem_status_text(status)};
  if (status == IDEM_E_INVAL && conn) why.what = "params are an object or a list";
  end_by_failure(self, &why);
  if (status == IDEM_E_INVAL && conn) self->code = CALL_ASKED_WRONGLY;
}

static void on_gone(idem_conn *conn, void *user) {
  call_session *self = user;
  idem_close_reason reason = idem_conn_close_reason(conn);
  self->conn = NULL;
  if (self->over) return;
  call_trouble why = {.status = IDEM_E_CLOSED,
                      .phase = "the call",
                      .what = reason.text,
                      .exit_status = reason.exit_status,
                      .signal = reason.signal,
                      .errors = reason.errors,
                      .errors_len = reason.errors_len,
                      .fate = self->fate,
                      .sent = true};
  end_by_failure(self, &why);
}

static void on_fault(idem_conn *conn, const idem_protocol_error *error, void *user) {
  call_session *self = user;
  (void)conn;
  if (self->told_stray) return;
  self->told_stray = true;
  fprintf(stderr, "idem call: the server sent %s", error->what);
  if (error->message) {
    fputs(": ", stderr);
    text_show_line(stderr, error->message, error->message_len, 200);
  }
  fputc('\n', stderr);
}

static void on_stderr_of(idem_conn *conn, const char *data, size_t len, void *user) {
  (void)conn;
  session_raw(user, '!', data, len);
}

static void on_message(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                       void *user) {
  (void)conn;
  session_message(user, direction, message, len);
}

/* "tcp://" with Content-Length is "tcp+lsp://". */
static const char *address_of(call_session *self) {
  const char *url = self->target.url;
  bool lsp = self->options->profile == IDEM_PROFILE_LSP;
  if (self->target.argv) return lsp ? "exec+lsp:" : "exec:";
  size_t scheme = strcspn(url, ":");
  bool stream =
      strncmp(url, "tcp:", 4) == 0 || strncmp(url, "tls:", 4) == 0 || strncmp(url, "unix:", 5) == 0;
  if (!lsp || !stream) return url;
  size_t size = strlen(url) + 8;
  char *made = memory_zeroed(&self->target.memory, size, 1);
  snprintf(made, size, "%.*s+lsp%s", (int)scheme, url, url + scheme);
  return made;
}

bool session_begin_plain(call_session *self) {
  self->fate = IDEM_MCP_UNKNOWN;
  idem_client_opts wire = session_wire(self);
  idem_policy policy = idem_policy_preset(self->options->profile);
  policy.answer_junk = false;
  policy.limits.message_bytes = (size_t)64 << 20;
  idem_connect_opts opts = {.policy = &policy,
                            .log = self->log,
                            .client = &wire,
                            .on_close = on_gone,
                            .on_protocol_error = on_fault,
                            .user = self};
  if (session_watches(self)) {
    opts.on_stderr = on_stderr_of;
    opts.on_trace = on_message;
  }
  idem_status status = idem_connect(&self->loop, address_of(self), &opts, on_ready, self);
  if (status == IDEM_OK) return true;
  call_trouble why = {.status = status,
                      .phase = "starting it",
                      .exit_status = -1,
                      .what = *trouble_logged() ? trouble_logged() : idem_status_text(status)};
  self->code = trouble_tell(&self->target, &why);
  self->over = true;
  return false;
}

void session_cancel_plain(call_session *self) {
  if (self->calling) idem_cancel(self->conn, self->call);
  session_end(self, CALL_GIVEN_UP);
}
