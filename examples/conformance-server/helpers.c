/* helpers.c - what the groups share: formatted answers, work in steps on the request's loop, and
 * looking into answers, which come from a client and may be anything. */
#include "fixtures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

bool tools_add(idem_server *server, const idem_tool *tools, size_t count) {
  char why[256] = "";
  for (size_t i = 0; i < count; i++) {
    if (idem_server_add_tool(server, &tools[i], why, sizeof why) == IDEM_OK) continue;
    fprintf(stderr, "idem-conformance-server: tool %s: %s\n", tools[i].name, why);
    return false;
  }
  return true;
}

bool prompts_add(idem_server *server, const idem_prompt *prompts, size_t count) {
  char why[256] = "";
  for (size_t i = 0; i < count; i++) {
    if (idem_server_add_prompt(server, &prompts[i], why, sizeof why) == IDEM_OK) continue;
    fprintf(stderr, "idem-conformance-server: prompt %s: %s\n", prompts[i].name, why);
    return false;
  }
  return true;
}

void say(idem_request *request, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int len = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (len < 0) {
    idem_tool_failed(request, "out of memory");
    return;
  }
  idem_tool_text(request, text, (size_t)len);
  free(text);
}

/* --------------------------------------------------------------------------- steps */

typedef struct walk {
  uv_timer_t timer;
  idem_request *request;
  step_fn step;
  void *user;
  unsigned number;
} walk;

static _Atomic unsigned cancelled; /* loops on several threads count */

unsigned cancelled_count(void) { return cancelled; }

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void on_time(uv_timer_t *timer) {
  walk *self = timer->data;
  if (self->step(self->request, self->number++, self->user))
    uv_close((uv_handle_t *)timer, on_closed);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  walk *self = user;
  if (reason == IDEM_CANCEL_PEER || reason == IDEM_CANCEL_CLOSED) cancelled++;
  idem_request_drop(request);
  uv_close((uv_handle_t *)&self->timer, on_closed);
}

void take_steps(idem_request *request, uint64_t every_ms, step_fn step, void *user) {
  uv_loop_t *loop = idem_request_loop(request);
  walk *self = calloc(1, sizeof *self);
  if (!self) return; /* answered with "Internal error" */
  self->request = request;
  self->step = step;
  self->user = user;
  self->timer.data = self;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, self);
  uv_timer_init(loop, &self->timer);
  uv_update_time(loop);
  uv_timer_start(&self->timer, on_time, every_ms, every_ms);
}

/* -------------------------------------------------------------------------- answers */

const char *accepted_string(const idem_request *request, const char *key, const char *member) {
  yyjson_val *answer = idem_answer_to(request, key);
  const char *action = yyjson_get_str(yyjson_obj_get(answer, "action"));
  if (!action || strcmp(action, "accept") != 0) return NULL;
  return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(answer, "content"), member));
}

const char *sampled_text(const idem_request *request, const char *key) {
  yyjson_val *content = yyjson_obj_get(idem_answer_to(request, key), "content");
  if (yyjson_is_arr(content)) content = yyjson_arr_get_first(content);
  return yyjson_get_str(yyjson_obj_get(content, "text"));
}

char *sampling_params(const char *question) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  yyjson_mut_val *messages = yyjson_mut_obj_add_arr(doc, root, "messages");
  yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, messages);
  yyjson_mut_obj_add_str(doc, message, "role", "user");
  yyjson_mut_val *content = yyjson_mut_obj_add_obj(doc, message, "content");
  yyjson_mut_obj_add_str(doc, content, "type", "text");
  bool built = yyjson_mut_obj_add_str(doc, content, "text", question) &&
               yyjson_mut_obj_add_int(doc, root, "maxTokens", 100);
  char *text = built ? yyjson_mut_val_write(root, 0, NULL) : NULL;
  yyjson_mut_doc_free(doc);
  return text;
}
