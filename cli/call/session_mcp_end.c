/* session_mcp_end.c - what the end of a call to an MCP server means: an answer, or trouble on the way. */
#include "session_mcp.h"

#include <stdlib.h>
#include <string.h>

static const char *phase_of(idem_mcp_phase phase) {
  static const char *const phases[] = {"connecting", "asking what it speaks (server/discover)",
                                       "shaking hands (initialize)", "the call"};
  return phases[phase];
}

/* Of what the system refused the log knows more. */
static const char *what_of(const idem_mcp_trouble *trouble) {
  bool system = trouble->status == IDEM_E_SYS && trouble->phase == IDEM_MCP_PHASE_CONNECT;
  return system && *trouble_logged() ? trouble_logged() : trouble->text;
}

static call_refusal refusal_of(const call_session *self, int http_status, char *flags,
                               size_t size) {
  login_flags(&self->login, flags, size);
  return (call_refusal){.http_status = http_status,
                        .why = login_why(&self->login),
                        .flags = flags,
                        .challenge = self->login.challenge};
}

void session_end_by_trouble(call_session *self, const idem_mcp_trouble *trouble) {
  char flags[256];
  call_trouble why = {.status = trouble->status,
                      .phase = phase_of(trouble->phase),
                      .what = what_of(trouble),
                      .http_status = trouble->http_status,
                      .exit_status = trouble->exit_status,
                      .signal = trouble->signal,
                      .errors = trouble->errors_len ? trouble->errors : self->errors,
                      .errors_len = trouble->errors_len ? trouble->errors_len : self->errors_len,
                      .stray = trouble->stray,
                      .stray_len = trouble->stray_len,
                      .data = trouble->data,
                      .data_len = trouble->data_len,
                      .fate = self->fate,
                      .sent = self->lost,
                      .login = refusal_of(self, trouble->http_status, flags, sizeof flags)};
  progress_clear(&self->progress);
  session_end(self, trouble_tell(&self->target, &why));
}

static void end_by_error(call_session *self, const idem_mcp_result *result,
                         const call_refusal *refusal) {
  int code = trouble_remote(result, idem_mcp_client_keys(self->client));
  if (session_is_refused(result->http_status)) trouble_login(&self->target, refusal);
  session_doubt_memory(self, result);
  session_end(self, code);
}

static void end_by_failure(call_session *self, const idem_mcp_result *result,
                           const call_refusal *refusal) {
  char *message = result->message ? strndup(result->message, result->message_len) : NULL;
  idem_mcp_trouble about = idem_mcp_client_trouble(self->client);
  call_trouble why = {.status = result->status,
                      .phase = self->options->subject ? "the call" : "looking at what is there",
                      .what = message ? message : idem_status_text(result->status),
                      .http_status = result->http_status,
                      .exit_status = -1,
                      .errors = self->errors,
                      .errors_len = self->errors_len,
                      .stray = about.stray,
                      .stray_len = about.stray_len,
                      .fate = result->fate,
                      .sent = true,
                      .key = result->key,
                      .store = idem_mcp_client_keys(self->client),
                      .repeats = result->repeats,
                      .login = *refusal};
  session_end(self, trouble_tell(&self->target, &why));
  free(message);
}

/* A server that knows no keys would make the call once more. */
static bool may_ask_by_key(const call_session *self, const idem_mcp_result *result) {
  return result->key && result->fate == IDEM_MCP_UNKNOWN && idem_mcp_client_keys(self->client);
}

static void say_how_to_ask(const call_session *self, const char *key) {
  text line = {.data = NULL};
  trouble_put_again(&line, key, idem_mcp_client_keys(self->client));
  call_say("ask what became of it with %s", line.data);
  text_free(&line);
}

void session_end_by_result(call_session *self, const idem_mcp_result *result) {
  bool web = self->target.url && strncmp(self->target.url, "http", 4) == 0;
  char flags[256];
  call_refusal refusal = refusal_of(self, result->http_status, flags, sizeof flags);
  progress_clear(&self->progress);
  if (self->interrupts || self->late) {
    if (may_ask_by_key(self, result))
      say_how_to_ask(self, result->key);
    else if (result->fate == IDEM_MCP_NOT_SENT)
      call_say("it was not sent: nothing happened there");
    session_end(self, CALL_GIVEN_UP); /* it was said already */
  } else if (result->status == IDEM_E_REMOTE) {
    end_by_error(self, result, &refusal);
  } else if (result->status == IDEM_E_CLOSED && !web) { /* how it ended is known later: on_lost */
    self->lost = true;
    self->calling = false;
    self->fate = result->fate;
  } else {
    end_by_failure(self, result, &refusal);
  }
}
