/* http_tool.c - one HTTP call from its arguments to its answer. The request is the runtime's (fetch);
 * what may be shown of an answer that tells of a failure is decided here. */
#include "http_tool.h"

#include "service/edition.h"
#include "uv/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 64u /* of one edition, at a time */
#define EXCERPT_BYTES 2048u

typedef struct http_call {
  const http_tool *tool;
  idem_request *request;
  idem__fetch *fetch;
} http_call;

static void http_call_free(http_call *self) {
  edition *held = self->tool->edition;
  free(self);
  held->http_calls--;
  edition_release(held);
}

/* ------------------------------------------------------------------------ answering */

/* Without secrets, and no more than a model needs to see what was wrong. */
static void put_excerpt(const http_call *self, idem__buf *out, const char *text, size_t len) {
  const serve_config *file = self->tool->file;
  idem__buf safe, clean;
  idem__buf_init(&safe, NULL, EXCERPT_BYTES);
  idem__buf_init(&clean, NULL, (size_t)3 * EXCERPT_BYTES);
  idem__redact_cut(&safe, text, len, file->secrets, file->secret_count, false);
  reply_put_clean(&clean, safe.data, safe.len);
  idem__buf_put(out, clean.data, clean.len);
  if (len > EXCERPT_BYTES) idem__buf_puts(out, " [...]");
  idem__buf_deinit(&safe);
  idem__buf_deinit(&clean);
}

/* `text` is the other side's. */
static void fail(http_call *self, const char *what, const char *text, size_t len) {
  idem__buf sentence;
  idem__buf_init(&sentence, NULL, (size_t)5 * EXCERPT_BYTES);
  idem__buf_printf(&sentence, "%s: %s%s", self->tool->config->name, what, len ? ": " : "");
  if (len) put_excerpt(self, &sentence, text, len);
  if (idem__buf_put(&sentence, "", 1) == IDEM_OK)
    reply_failed(self->request, sentence.data);
  else
    reply_no_memory(self->request, self->tool->config);
  idem__buf_deinit(&sentence);
}

static void answer_text(const http_call *self, const char *body, size_t len) {
  idem_request *request = self->request;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  static const char notice[] =
      "The answer held bytes that are no text; \xEF\xBF\xBD stands for them.";
  idem__buf text;
  idem__buf_init(&text, NULL, len * 3 + 1);
  bool replaced = reply_put_clean(&text, body, len);
  bool built =
      doc && content && idem_content_text(doc, content, text.len ? text.data : "", text.len);
  if (built && replaced) built = idem_content_text(doc, content, notice, sizeof notice - 1);
  if (built)
    reply_tool(request, self->tool->config, &(idem_tool_result){.content = content});
  else
    reply_no_memory(request, self->tool->config);
  idem__buf_deinit(&text);
}

/* The addresses in it without their paths, where arguments stand. */
static void tell_failure(const http_call *self, const char *what, const char *why) {
  const char *address = strstr(why, "://");
  size_t len = address ? (size_t)(address - why) + 3 : strlen(why);
  if (address) len += strcspn(why + len, "/?# ");
  failure_tell(self->request, self->tool->config, "%s%s%.*s", what, len ? ": " : "", (int)len, why);
}

static void answer_failure(http_call *self, const idem__fetch_answer *answer) {
  const tool_config *config = self->tool->config;
  char what[96] = "the call failed";
  if (answer->status == IDEM_E_TIMEOUT)
    snprintf(what, sizeof what, "no whole answer within %llu ms (deadline_ms, idle_ms)",
             (unsigned long long)config->deadline_ms);
  else if (answer->status == IDEM_E_LIMIT)
    snprintf(what, sizeof what, "the answer is larger than %zu bytes (output_bytes)",
             config->output_bytes);
  bool told = answer->status == IDEM_E_LIMIT; /* it would be told twice */
  tell_failure(self, what, told ? "" : answer->why);
  fail(self, what, told ? "" : answer->why, told ? 0 : strlen(answer->why));
}

static void on_answer(const idem__fetch_answer *answer, void *user) {
  http_call *self = user;
  char what[64];
  if (answer->status != IDEM_OK) {
    answer_failure(self, answer);
  } else if (answer->http_status >= 400) {
    snprintf(what, sizeof what, "the server answered with status %d", answer->http_status);
    tell_failure(self, what, "");
    fail(self, what, answer->body, answer->body_len);
  } else if (self->tool->config->output_json) {
    reply_json(self->request, self->tool->config, answer->body, answer->body_len);
  } else {
    answer_text(self, answer->body, answer->body_len);
  }
  http_call_free(self);
}

/* -------------------------------------------------------------------------- calling */

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  http_call *self = user;
  (void)reason;
  idem__fetch_cancel(self->fetch);
  idem_request_drop(request);
  http_call_free(self);
}

static idem_status start(http_call *self, const http_request *built) {
  const tool_config *config = self->tool->config;
  idem__fetch_opts opts = {.method = config->http->method,
                           .url = built->url.data,
                           .headers = (const char *const *)built->headers,
                           .body = config->http->body || config->http->form_count
                                       ? (built->body.len ? built->body.data : "")
                                       : NULL,
                           .body_len = built->body.len,
                           .max_bytes = config->output_bytes,
                           .total_ms = config->deadline_ms,
                           .idle_ms = config->idle_ms,
                           .redirects = IDEM__REDIRECTS_SAME_ORIGIN,
                           .log = self->tool->log};
  return idem__fetch_start(idem_request_loop(self->request), &opts, on_answer, self, &self->fetch);
}

static void begin(const http_tool *tool, idem_request *request, const http_request *built) {
  http_call *self = calloc(1, sizeof *self);
  if (!self) {
    reply_no_memory(request, tool->config);
    return;
  }
  *self = (http_call){.tool = tool, .request = request};
  tool->edition->http_calls++;
  edition_hold(tool->edition);
  idem_status status = start(self, built);
  if (status == IDEM_OK) {
    idem_request_keep(request);
    idem_request_on_cancel(request, on_cancel, self);
    return;
  }
  const char *what = status == IDEM_E_INVAL ? "that makes no request that can be sent"
                                            : "the request cannot be made here; the log says why";
  failure_tell_ours(request, tool->config, "no request can be made: %s", idem_status_text(status));
  fail(self, what, "", 0);
  http_call_free(self);
}

void http_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  const http_tool *tool = user;
  http_request built;
  template_fault fault;
  if (tool->edition->http_calls == CALLS_MAX) {
    failure_tell(request, tool->config, "refused, %u calls are under way", CALLS_MAX);
    reply_failed(request, "the server is busy: too many calls are under way; try again later");
    return;
  }
  if (http_build(&built, tool->config, arguments, &fault)) {
    begin(tool, request, &built);
  } else {
    failure_tell(request, tool->config, "refused, %s", fault.sentence);
    reply_failed(request, fault.sentence);
  }
  http_request_free(&built);
}
