/* session.c - see session.h: the loop, signals, the deadline, the end.
 * Exit statuses are decided in one place each; whoever ends the session says which. */
#include "session.h"
#include "session_mcp.h"
#include "text.h"

#include "config/memory.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <unistd.h>

#define EXIT_MS 1000u
#define SPARE_MS 1000u /* of the connection, so that the call is given up first */

call_questions *questions_of(void *user) {
  call_session *self = user;
  return &self->questions;
}

call_login *login_of(void *user) {
  call_session *self = user;
  return &self->login;
}

/* -------------------------------------------------------------------------- --raw */

static void put_raw(text *line, double seconds, char mark, const char *data, size_t len) {
  text clean = {.data = NULL};
  text_put_hidden(&clean, data, len);
  text_printf(line, "%10.6f %c ", seconds, mark);
  if (isatty(2))
    text_escape(line, clean.data, clean.len, TEXT_LINE);
  else
    text_put(line, clean.data, clean.len);
  text_puts(line, "\n");
  text_free(&clean);
}

/* A head has several lines, a message one. */
void session_raw(const call_session *self, char mark, const char *data, size_t len) {
  if (!self->options->raw) return;
  double seconds = (double)(uv_hrtime() - self->begun_ns) / 1e9;
  text all = {.data = NULL};
  while (len) {
    const char *end = memchr(data, '\n', len);
    size_t line = end ? (size_t)(end - data) : len, used = line + (end != NULL);
    if (line && data[line - 1] == '\r') line--;
    if (line) put_raw(&all, seconds, mark, data, line);
    data += used;
    len -= used;
  }
  if (all.len) fwrite(all.data, 1, all.len, stderr);
  text_free(&all);
}

bool session_watches(const call_session *self) {
  return self->options->raw || self->options->record;
}

void session_message(call_session *self, idem_direction direction, const char *data, size_t len) {
  session_raw(self, direction == IDEM_OUT ? '>' : '<', data, len);
  recorder_message(self->recorder, direction, data, len);
}

const char *session_transport(const call_session *self) {
  static char scheme[16];
  if (!self->target.url) return "stdio";
  snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(self->target.url, ":"), self->target.url);
  return scheme;
}

idem_client_opts session_wire(const call_session *self) {
  const call_options *options = self->options;
  uint64_t timeout = options->timeout_ms;
  return (idem_client_opts){.headers = self->target.headers,
                            .token = self->target.token,
                            .ca_file = options->ca_file,
                            .no_verify = options->no_verify,
                            .connect_ms = timeout && timeout < 10000 ? timeout : 0,
                            .idle_ms = timeout ? timeout + SPARE_MS : 0,
                            .argv = self->target.argv,
                            .environment = self->target.environment,
                            .folder = self->target.folder,
                            .exit_ms = EXIT_MS};
}

/* ---------------------------------------------------------------------- the signals */

/* The programs that we have started lead groups of their own, which would outlive us. */
static void kill_children(void) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  FILE *file = fopen(path, "re");
  if (!file) return;
  if (fgets(line, sizeof line, file)) {
    char *rest, *word = strtok_r(line, " \n", &rest);
    for (; word; word = strtok_r(NULL, " \n", &rest)) {
      pid_t child = (pid_t)strtol(word, NULL, 10);
      if (child > 1) kill(-child, SIGKILL);
    }
  }
  fclose(file);
}

noreturn static void leave_at_once(void) {
  kill_children();
  _exit(CALL_GIVEN_UP);
}

/* Without MCP nothing ends a connection that is not there yet; nothing was sent either. */
static void cancel(call_session *self) {
  bool plain = self->options->profile != IDEM_PROFILE_MCP, connecting = plain && !self->conn;
  if (plain)
    session_cancel_plain(self);
  else
    session_cancel_mcp(self);
  if (connecting) leave_at_once();
}

static void on_interrupt(uv_signal_t *signal, int number) {
  call_session *self = signal->data;
  (void)number;
  if (self->interrupts++) {
    progress_clear(&self->progress);
    leave_at_once();
  }
  progress_clear(&self->progress);
  if (!self->over) call_say("cancelled; the server is told (Ctrl-C again leaves at once)");
  cancel(self);
}

static void on_deadline(uv_timer_t *timer) {
  call_session *self = timer->data;
  self->late = true;
  progress_clear(&self->progress);
  if (!self->over)
    call_say("the deadline of %.3g s has passed: cancelled",
             (double)self->options->deadline_ms / 1000);
  cancel(self);
}

/* ------------------------------------------------------------------------- the whole */

static void open_signals(call_session *self) {
  uv_signal_init(&self->loop, &self->interrupt);
  uv_signal_init(&self->loop, &self->terminate);
  uv_timer_init(&self->loop, &self->deadline);
  self->interrupt.data = self->terminate.data = self->deadline.data = self;
  uv_signal_start(&self->interrupt, on_interrupt, SIGINT);
  uv_signal_start(&self->terminate, on_interrupt, SIGTERM);
  uv_unref((uv_handle_t *)&self->interrupt);
  uv_unref((uv_handle_t *)&self->terminate);
  if (self->options->deadline_ms)
    uv_timer_start(&self->deadline, on_deadline, self->options->deadline_ms, 0);
  uv_unref((uv_handle_t *)&self->deadline);
}

static void close_signals(call_session *self) {
  uv_close((uv_handle_t *)&self->interrupt, NULL);
  uv_close((uv_handle_t *)&self->terminate, NULL);
  uv_close((uv_handle_t *)&self->deadline, NULL);
  uv_run(&self->loop, UV_RUN_DEFAULT);
}

/* What was printed is out before the server's end is waited for. */
void session_end(call_session *self, int code) {
  progress_clear(&self->progress);
  call_flush();
  if (!self->over) self->code = code;
  self->over = true;
  self->calling = false;
  questions_end(&self->questions);
  if (code == CALL_WELL) login_note(&self->login);
  login_close(&self->login);
  if (self->client) idem_mcp_client_close(self->client);
  if (self->conn) idem_conn_close(self->conn);
}

/* Of a header that says who asks: its last word. */
static void keep_secret(const call_session *self, const char *header) {
  static const char *const names[] = {"authorization", "token", "key", "secret", "cookie"};
  size_t name = strcspn(header, ":"), len = strlen(header);
  const char *blank = strrchr(header, ' ');
  const char *value = blank ? blank + 1 : header[name] ? header + name + 1 : header + len;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *at = strcasestr(header, names[i]);
    if (at && (size_t)(at - header) < name) idem_log_add_secret(self->log, value, strlen(value));
  }
}

static void keep_secrets(const call_session *self) {
  const call_target *target = &self->target;
  if (target->token) idem_log_add_secret(self->log, target->token, strlen(target->token));
  for (size_t i = 0; target->headers[i]; i++) keep_secret(self, target->headers[i]);
}

static void on_form(void *user) {
  call_session *self = user;
  progress_clear(&self->progress);
}

static bool prepare(call_session *self) {
  bool plain = self->options->profile != IDEM_PROFILE_MCP;
  if (!target_find(&self->target, self->options)) return false;
  keep_secrets(self);
  if (!arguments_read(&self->arguments, self->options)) return false;
  if (!printer_may_write(self->options->output)) return false;
  if (self->options->record) {
    self->recorder = recorder_new(self->options->record, session_transport(self), self->log);
    if (!self->recorder) return false;
  }
  self->cached = !plain && !self->options->no_cache && cache_load(&self->cache, &self->target) &&
                 self->cache.age_ms < CACHE_FRESH_MS;
  if (!login_open(&self->login, self->options, &self->target, &self->loop, self->log)) return false;
  if (self->only_prepare && plain) return true;
  if (!questions_init(&self->questions, self->options, &self->loop)) return false;
  self->questions.before = on_form;
  self->questions.user = self;
  return true;
}

/* A cache that was wrong costs one more turn. */
static void run_loop(call_session *self) {
  bool plain = self->options->profile != IDEM_PROFILE_MCP;
  do {
    self->again = false;
    if (!(plain ? session_begin_plain(self) : session_begin_mcp(self))) break;
    uv_run(&self->loop, UV_RUN_DEFAULT);
  } while (self->again);
}

/* It has no answer; what the library could not deliver it has logged. */
static void check_notification(call_session *self) {
  if (self->code || self->options->kind != CALL_NOTIFY || !*trouble_logged()) return;
  call_say("the notification was not delivered: %s", trouble_logged());
  self->code = CALL_NO_PEER;
}

static int run(call_session *self) {
  const call_options *options = self->options;
  signal(SIGPIPE, SIG_IGN);
  printer_open(&self->printer, options);
  progress_init(&self->progress);
  look_init(&self->look);
  if (uv_loop_init(&self->loop) != 0) memory_exhausted();
  self->log = trouble_log();
  text_hide_by(self->log);
  if (!prepare(self)) {
    self->code = CALL_ASKED_WRONGLY;
  } else if (self->only_prepare && options->profile != IDEM_PROFILE_MCP) {
    self->code = CALL_WELL;
  } else {
    open_signals(self);
    run_loop(self);
    close_signals(self);
  }
  check_notification(self);
  printer_close(&self->printer);
  bool recorded = recorder_free(self->recorder);
  if (!self->code && (self->questions.misfit || self->printer.at_terminal))
    self->code = CALL_ASKED_WRONGLY;
  if (!self->code && (self->printer.failed || !recorded)) self->code = CALL_NO_PEER;
  return self->code;
}

int session_run(call_session *self, const call_options *options) {
  *self = (call_session){.options = options, .code = CALL_NO_PEER, .begun_ns = uv_hrtime()};
  return run(self);
}

int session_prepare(call_session *self, const call_options *options) {
  *self = (call_session){
      .options = options, .code = CALL_NO_PEER, .begun_ns = uv_hrtime(), .only_prepare = true};
  return run(self);
}

void session_free(call_session *self) {
  login_close(&self->login);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  uv_loop_close(&self->loop);
  questions_free(&self->questions);
  look_free(&self->look);
  cache_free(&self->cache);
  arguments_free(&self->arguments);
  text_free(&self->made);
  yyjson_doc_free(self->listed);
  text_free(&self->sent);
  session_free_answer(self);
  text_hide_by(NULL);
  idem_log_free(self->log);
  target_free(&self->target);
}
