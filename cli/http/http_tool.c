/* http_tool.c - one HTTP call from its arguments to its answer. It is made when it is its turn. The request
 * is the runtime's (fetch); what may be shown of an answer that tells of a failure is decided here. */
#include "http_tool.h"

#include "service/clean.h"
#include "service/edition.h"
#include <idem/fetch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 64u /* at a time */
#define EXCERPT_BYTES 2048u
#define UNREAD_BYTES                                                                               \
  ((size_t)64 << 20) /* of answers whose clients have no room for them, of all together */

typedef struct http_call {
  turns_call turn;
  http_tool *tool;
  idem_request *request;
  http_request built;
  idem_fetch *fetch; /* while it is under way */
  room_wait room;    /* while its answer waits for its client to read: it has no slot then */
  char *body;        /* and this is it */
  size_t body_len;
  int http_status;
} http_call;

static slots calls;   /* of every edition */
static size_t unread; /* bytes of answers that wait */

static void http_call_free(http_call *self) {
  edition *held = self->tool->edition;
  http_request_free(&self->built);
  room_forget(&self->room);
  unread -= self->body_len;
  free(self->body);
  free(self);
  edition_release(held);
}

static void http_call_end(http_call *self) {
  http_call_free(self);
  slots_give_back(&calls);
}

/* ------------------------------------------------------------------------ answering */

/* Without secrets, and no more than a model needs to see what was wrong. */
static void put_excerpt(const http_call *self, idem_buf *out, const char *text, size_t len) {
  const serve_config *file = self->tool->file;
  idem_buf safe, clean;
  idem_buf_init(&safe, NULL, EXCERPT_BYTES);
  idem_buf_init(&clean, NULL, (size_t)3 * EXCERPT_BYTES);
  idem_redact_cut(&safe, text, len, file->secrets, file->secret_count, false);
  bool replaced;
  (void)clean_put(&clean, safe.data, safe.len, &replaced); /* as much of it as there is room for */
  idem_buf_put(out, clean.data, clean.len);
  if (len > EXCERPT_BYTES) idem_buf_puts(out, " [...]");
  idem_buf_deinit(&safe);
  idem_buf_deinit(&clean);
}

/* `text` is the other side's. */
static void fail(http_call *self, const char *what, const char *text, size_t len) {
  idem_buf sentence;
  idem_buf_init(&sentence, NULL, (size_t)5 * EXCERPT_BYTES);
  idem_buf_printf(&sentence, "%s: %s%s", self->tool->config->name, what, len ? ": " : "");
  if (len) put_excerpt(self, &sentence, text, len);
  if (idem_buf_put(&sentence, "", 1) == IDEM_OK)
    reply_failed(self->request, sentence.data);
  else
    reply_no_memory(self->request, self->tool->config);
  idem_buf_deinit(&sentence);
}

static void answer_text(const http_call *self, const char *body, size_t len) {
  idem_request *request = self->request;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  static const char notice[] =
      "The answer held bytes that are no text; \xEF\xBF\xBD stands for them.";
  idem_buf text;
  idem_buf_init(&text, NULL, len * 3 + 1);
  bool replaced;
  bool built = clean_put(&text, body, len, &replaced) == IDEM_OK && doc && content &&
               idem_content_text(doc, content, text.len ? text.data : "", text.len);
  if (built && replaced) built = idem_content_text(doc, content, notice, sizeof notice - 1);
  if (built)
    reply_tool(request, self->tool->config, &(idem_tool_result){.content = content});
  else
    reply_no_memory(request, self->tool->config);
  idem_buf_deinit(&text);
}

/* The addresses in it without their paths, where arguments stand. */
static void tell_failure(const http_call *self, const char *what, const char *why) {
  const char *address = strstr(why, "://");
  size_t len = address ? (size_t)(address - why) + 3 : strlen(why);
  if (address) len += strcspn(why + len, "/?# ");
  failure_tell(self->request, self->tool->config, "%s%s%.*s", what, len ? ": " : "", (int)len, why);
}

static bool changes_something(const char *method) {
  return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

static void answer_failure(http_call *self, const idem_fetch_answer *answer) {
  const tool_config *config = self->tool->config;
  char what[96] = "the call failed";
  if (answer->status == IDEM_E_TIMEOUT)
    snprintf(what, sizeof what, "no whole answer within %llu ms (deadline_ms, idle_ms)",
             (unsigned long long)config->deadline_ms);
  else if (answer->status == IDEM_E_LIMIT)
    snprintf(what, sizeof what, "the answer is larger than %zu bytes (output_bytes)",
             config->output_bytes);
  else if (answer->status == IDEM_E_CLOSED && changes_something(config->http->method))
    snprintf(what, sizeof what, "the call failed, and it may have been carried out");
  bool told = answer->status == IDEM_E_LIMIT; /* it would be told twice */
  tell_failure(self, what, told ? "" : answer->why);
  fail(self, what, told ? "" : answer->why, told ? 0 : strlen(answer->why));
}

static void pass_on(http_call *self, int status, const char *body, size_t len) {
  char what[64];
  if (status >= 400) {
    snprintf(what, sizeof what, "the server answered with status %d", status);
    tell_failure(self, what, "");
    fail(self, what, body, len);
  } else if (self->tool->config->output_json) {
    reply_json(self->request, self->tool->config, body, len);
  } else {
    answer_text(self, body, len);
  }
}

static void on_room(room_wait *room) {
  http_call *self = IDEM_CONTAINER(room, http_call, room);
  if (!room_for(self->request)) {
    room_look_soon(room);
    return;
  }
  pass_on(self, self->http_status, self->body, self->body_len);
  http_call_free(self);
}

/* Its client reads slowly, and what has come is not lost for that; others get the slot meanwhile. Past the bound it
 * has to take its chance. */
static bool wait_for_room(http_call *self, const idem_fetch_answer *answer) {
  if (room_for(self->request) || answer->body_len > UNREAD_BYTES - unread) return false;
  self->body = malloc(answer->body_len + 1);
  if (!self->body) return false;
  memcpy(self->body, answer->body, answer->body_len + 1);
  self->body_len = answer->body_len;
  self->http_status = answer->http_status;
  self->fetch = NULL;
  unread += self->body_len;
  room_look_soon(&self->room);
  slots_give_back(&calls);
  return true;
}

static void on_answer(const idem_fetch_answer *answer, void *user) {
  http_call *self = user;
  if (answer->status == IDEM_OK && wait_for_room(self, answer)) return;
  if (answer->status == IDEM_OK)
    pass_on(self, answer->http_status, answer->body, answer->body_len);
  else
    answer_failure(self, answer);
  http_call_end(self);
}

/* -------------------------------------------------------------------------- calling */

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  http_call *self = user;
  (void)reason;
  reply_cancelled(request, self->tool->config, !self->turn.lane);
  if (self->turn.lane) slots_leave(&calls, &self->turn);
  if (!self->fetch) { /* it has no slot: it waits for its turn, or for its client */
    http_call_free(self);
    return;
  }
  idem_fetch_cancel(self->fetch);
  http_call_end(self);
}

static idem_status start(http_call *self) {
  const tool_config *config = self->tool->config;
  const http_request *built = &self->built;
  idem_fetch_opts opts = {.method = config->http->method,
                          .url = built->url.data,
                          .headers = (const char *const *)built->headers,
                          .body = config->http->body || config->http->form_count
                                      ? (built->body.len ? built->body.data : "")
                                      : NULL,
                          .body_len = built->body.len,
                          .max_bytes = config->output_bytes,
                          .total_ms = config->deadline_ms,
                          .idle_ms = config->idle_ms,
                          .redirects = IDEM_REDIRECTS_SAME_ORIGIN,
                          .log = self->tool->log};
  return idem_fetch_start(idem_request_loop(self->request), &opts, on_answer, self, &self->fetch);
}

/* It has its slot. */
static void begin(http_call *self) {
  idem_status status = start(self);
  if (status == IDEM_OK) return;
  const char *what = status == IDEM_E_INVAL ? "that makes no request that can be sent"
                                            : "the request cannot be made here; the log says why";
  idem_request_on_cancel(self->request, NULL, NULL);
  failure_tell_ours(self->request, self->tool->config, "no request can be made: %s",
                    idem_status_text(status));
  fail(self, what, "", 0);
  http_call_end(self);
}

static void on_turn(turns_call *turn) { begin(IDEM_CONTAINER(turn, http_call, turn)); }

static void give_way(http_call *self) {
  idem_request_on_cancel(self->request, NULL, NULL);
  reply_busy(self->request, self->tool->config);
  http_call_free(self);
}

static void on_give_way(turns_call *turn) { give_way(IDEM_CONTAINER(turn, http_call, turn)); }

static http_call *http_call_new(http_tool *tool, idem_request *request, yyjson_val *arguments) {
  http_call *self = calloc(1, sizeof *self);
  template_fault fault;
  if (!self) {
    reply_no_memory(request, tool->config);
    return NULL;
  }
  *self = (http_call){.tool = tool, .request = request};
  idem_list_init(&self->turn.link);
  room_wait_init(&self->room, on_room);
  edition_hold(tool->edition);
  if (http_build(&self->built, tool->config, arguments, &fault)) return self;
  failure_tell(request, tool->config, "refused, %s", fault.sentence);
  reply_failed(request, fault.sentence);
  http_call_free(self);
  return NULL;
}

void http_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  http_tool *tool = user;
  http_call *self = http_call_new(tool, request, arguments);
  if (!self) return;
  if (!calls.begin) slots_init(&calls, on_turn, on_give_way);
  calls.limit = CALLS_MAX;
  calls.queue = tool->edition->config.queue;
  slot_answer answer = slots_ask(&calls, &self->turn, &tool->turns, request);
  if (answer == SLOT_BUSY) {
    give_way(self);
    return;
  }
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  if (answer == SLOT_TAKEN) begin(self);
}

void http_tool_init(http_tool *self, edition *owner, const tool_config *config, idem_log *log) {
  *self = (http_tool){.config = config, .file = &owner->config, .edition = owner, .log = log};
  turns_tool_init(&self->turns);
}
