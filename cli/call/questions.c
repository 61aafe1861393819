/* questions.c - see questions.h. A form waits on a thread of the pool, so that the loop goes on: a ping is answered,
 * a call that has ended ends its form. */
#include "questions.h"
#include "browser.h"
#include "form.h"
#include "text.h"

#include "config/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct asking {
  call_questions *all;
  idem_mcp_question *question;
  uv_work_t work;
  form_end end;
  bool no_terminal;
  bool open;
  text content;
  char why[300]; /* of the try before */
  uv_process_t *process;
  asking *next;
};

/* --------------------------------------------------------------------- from a file */

static bool read_answers(call_questions *self, const char *path) {
  yyjson_read_err fault;
  if (!path) return true;
  self->answers = yyjson_read_file(
      path, YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS, NULL, &fault);
  yyjson_val *root = yyjson_doc_get_root(self->answers);
  if (yyjson_is_obj(root) || yyjson_is_arr(root)) return true;
  call_say(
      "%s: %s", path,
      root ? "answers are an object of fields, {\"name\": \"Ada\"}, or a list with one for each "
             "question: an object, \"accept\", \"decline\" or \"cancel\""
           : fault.msg);
  return false;
}

/* Of an object those fields that the form has; an element of a list whole. */
static yyjson_mut_val *fields_for(yyjson_mut_doc *doc, yyjson_val *answer, yyjson_val *schema,
                                  bool all) {
  yyjson_val *known = yyjson_obj_get(schema, "properties"), *key;
  yyjson_mut_val *made = yyjson_mut_obj(doc);
  yyjson_obj_iter at;
  if (!yyjson_obj_iter_init(answer, &at)) return made;
  while ((key = yyjson_obj_iter_next(&at)))
    if (all || yyjson_obj_getn(known, yyjson_get_str(key), yyjson_get_len(key)))
      yyjson_mut_obj_add(made, yyjson_val_mut_copy(doc, key),
                         yyjson_val_mut_copy(doc, yyjson_obj_iter_get_val(key)));
  return made;
}

/* The page is somewhere else, and who waits would like to know for what. */
static void tell_waiting(const idem_mcp_question *question) {
  if (idem_mcp_question_kind(question) == IDEM_ASK_URL)
    call_say("the call goes on when the server says that it is done; Ctrl-C cancels it");
}

static void accept_fields(call_questions *self, idem_mcp_question *question, yyjson_val *answer,
                          bool all) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_val *schema = yyjson_obj_get(idem_mcp_question_params(question), "requestedSchema");
  char why[300] = "";
  if (!doc) memory_exhausted();
  yyjson_mut_val *content = fields_for(doc, answer, schema, all);
  tell_waiting(question);
  idem_status status = idem_mcp_question_kind(question) == IDEM_ASK_SAMPLING
                           ? idem_mcp_sampled(question, content)
                           : idem_mcp_accept(question, content, why, sizeof why);
  if (status == IDEM_E_INVAL) {
    call_say("the answer of --answers does not fit: %s",
             *why ? why : "it is no such answer; the question is taken for cancelled");
    self->misfit = true;
    idem_mcp_dismiss(question);
  }
  yyjson_mut_doc_free(doc);
}

static void answer_from_file(call_questions *self, idem_mcp_question *question) {
  yyjson_val *root = yyjson_doc_get_root(self->answers), *answer = root;
  bool list = yyjson_is_arr(root);
  if (list) answer = yyjson_arr_get(root, self->next++);
  if (!answer) call_say("--answers has no answer left: the question is declined");
  if (yyjson_is_obj(answer))
    accept_fields(self, question, answer, list);
  else if (yyjson_equals_str(answer, "accept"))
    accept_fields(self, question, NULL, true);
  else if (yyjson_equals_str(answer, "cancel"))
    idem_mcp_dismiss(question);
  else
    idem_mcp_decline(question);
}

/* -------------------------------------------------------------------- from a person */

static void ask_person(uv_work_t *work) {
  asking *self = work->data;
  terminal at;
  uv_mutex_lock(&self->all->one);
  self->no_terminal = !terminal_open(&at, self->all->stop[0]);
  if (!self->no_terminal) {
    yyjson_val *params = idem_mcp_question_params(self->question);
    if (*self->why) terminal_printf(&at, "\nthis does not fit: %s\n", self->why);
    if (idem_mcp_question_kind(self->question) == IDEM_ASK_URL)
      self->end = form_ask_url(&at, self->all->server, params, &self->open);
    else
      self->end = form_ask(&at, self->all->server, params, &self->content);
    terminal_close(&at);
  }
  uv_mutex_unlock(&self->all->one);
}

static void free_asking(asking *self) {
  self->all->open--;
  text_free(&self->content);
  free(self);
}

static void ask_again(asking *self);

/* True: it was answered. */
static bool accept_typed(asking *self) {
  yyjson_doc *doc = yyjson_read(self->content.data ? self->content.data : "{}",
                                self->content.data ? self->content.len : 2, 0);
  yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
  *self->why = 0;
  tell_waiting(self->question);
  idem_status status =
      idem_mcp_accept(self->question, yyjson_mut_doc_get_root(copy), self->why, sizeof self->why);
  yyjson_mut_doc_free(copy);
  yyjson_doc_free(doc);
  return status != IDEM_E_INVAL;
}

/* Ctrl-C is a key while a form is open, so a server that never stops asking would keep the person there: the second one
 * is the signal again. */
static void leave_form(call_questions *self) {
  if (self->left && !self->ending) kill(getpid(), SIGINT);
  self->left = true;
}

static void on_asked(uv_work_t *work, int status) {
  asking *self = work->data;
  if (status == 0 && !self->no_terminal && self->end == FORM_DISMISSED) leave_form(self->all);
  if (status == 0 && self->no_terminal && !self->all->ending)
    call_say("the server asks something and there is no terminal to ask at: declined (--answers "
             "FILE answers)");
  if (self->open)
    browser_open(self->all->loop,
                 yyjson_get_str(yyjson_obj_get(idem_mcp_question_params(self->question), "url")));
  if (status != 0 || self->no_terminal || self->end == FORM_DECLINED)
    idem_mcp_decline(self->question);
  else if (self->end == FORM_DISMISSED || self->all->ending)
    idem_mcp_dismiss(self->question);
  else if (!accept_typed(self)) {
    ask_again(self);
    return;
  }
  free_asking(self);
}

static void ask_again(asking *self) {
  self->content.len = 0;
  self->open = false;
  if (uv_queue_work(self->all->loop, &self->work, ask_person, on_asked) == 0) return;
  idem_mcp_decline(self->question);
  free_asking(self);
}

static asking *keep(call_questions *self, idem_mcp_question *question) {
  asking *made = calloc(1, sizeof *made);
  if (!made) memory_exhausted();
  made->all = self;
  made->question = question;
  made->work.data = made;
  self->open++;
  idem_mcp_question_keep(question);
  return made;
}

static void on_question(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  call_questions *self = questions_of(user);
  (void)client;
  if (self->answers) {
    answer_from_file(self, question);
  } else if (self->options->no_input) {
    call_say("the server asks something: declined (--no-input)");
    idem_mcp_decline(question);
  } else {
    if (self->before) self->before(self->user);
    ask_again(keep(self, question));
  }
}

/* -------------------------------------------------------------------- from a program */

/* {role, content, model} as it is; any other text is what the model said. */
static idem_status sampled(asking *self, const char *output, size_t len) {
  yyjson_doc *doc = yyjson_read(output, len, 0);
  yyjson_mut_doc *made = yyjson_mut_doc_new(NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  yyjson_mut_val *result;
  if (yyjson_obj_get(root, "content")) {
    result = yyjson_val_mut_copy(made, root);
  } else {
    yyjson_mut_val *block = yyjson_mut_obj(made);
    while (len && output[len - 1] == '\n') len--;
    yyjson_mut_obj_add_str(made, block, "type", "text");
    yyjson_mut_obj_add_strn(made, block, "text", output, len);
    result = yyjson_mut_obj(made);
    yyjson_mut_obj_add_str(made, result, "role", "assistant");
    yyjson_mut_obj_add_val(made, result, "content", block);
    yyjson_mut_obj_add_str(made, result, "model", self->all->options->sampling);
    yyjson_mut_obj_add_str(made, result, "stopReason", "endTurn");
  }
  idem_status status = idem_mcp_sampled(self->question, result);
  yyjson_mut_doc_free(made);
  yyjson_doc_free(doc);
  return status;
}

static void on_sampled(const char *output, size_t len, void *user) {
  asking *self = user;
  asking **at = &self->all->samplers;
  while (*at && *at != self) at = &(*at)->next;
  if (*at) *at = self->next;
  if (output && sampled(self, output, len) == IDEM_E_INVAL) {
    call_say("--sampling %s: what it printed is no answer of a model",
             self->all->options->sampling);
    output = NULL;
  }
  if (!output) idem_mcp_decline(self->question);
  free_asking(self);
}

static void on_sampling(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  call_questions *self = questions_of(user);
  (void)client;
  if (self->answers) {
    answer_from_file(self, question);
    return;
  }
  size_t len;
  char *params = yyjson_val_write(idem_mcp_question_params(question), 0, &len);
  if (!params) memory_exhausted();
  asking *made = keep(self, question);
  if (sampler_start(self->loop, self->options->sampling, params, len, on_sampled, made,
                    &made->process)) {
    made->next = self->samplers;
    self->samplers = made;
  } else {
    idem_mcp_decline(question);
    free_asking(made);
  }
  free(params);
}

/* ------------------------------------------------------------------------ the whole */

bool questions_init(call_questions *self, const call_options *options, uv_loop_t *loop) {
  *self =
      (call_questions){.options = options, .loop = loop, .server = "the server", .stop = {-1, -1}};
  if (uv_mutex_init(&self->one) != 0 || pipe2(self->stop, O_CLOEXEC) != 0) memory_exhausted();
  self->made = true;
  return read_answers(self, options->answers);
}

void questions_free(call_questions *self) {
  if (!self->made) return;
  yyjson_doc_free(self->answers);
  close(self->stop[0]);
  close(self->stop[1]);
  uv_mutex_destroy(&self->one);
}

/* A list of answers may answer for the model, too. */
void questions_declare(call_questions *self, idem_mcp_client_opts *opts) {
  opts->on_form = on_question;
  opts->on_url = on_question;
  if (self->options->sampling || yyjson_is_arr(yyjson_doc_get_root(self->answers)))
    opts->on_sampling = on_sampling;
}

void questions_end(call_questions *self) {
  if (self->ending) return;
  self->ending = true;
  if (write(self->stop[1], "", 1) < 0 && errno != EAGAIN) call_say("%s", strerror(errno));
  for (asking *at = self->samplers; at; at = at->next)
    if (at->process) uv_process_kill(at->process, SIGTERM);
}
