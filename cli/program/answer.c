/* answer.c - what a call comes to: text or structured content, and on failure a sentence that says
 * what happened with the end of stderr, secrets removed. Nothing is cut without saying so. */
#include "program.h"
#include "service/clean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TAIL_BYTES 2048u  /* of what a failure complains of */
#define WITH_BYTES 16384u /* of what is asked for beside the output; as much as is kept */
#define LOGGED_LINES 64u
#define LOGGED_LINE 1024u

/* -------------------------------------------------------------------------- stderr */

/* "progress: 3/10 text" or "progress: 3 text". */
static bool take_progress(const call *self, const char *line) {
  static const char word[] = "progress: ";
  char *end;
  if (strncmp(line, word, sizeof word - 1) != 0) return false;
  double done = strtod(line + sizeof word - 1, &end), total = 0;
  if (end == line + sizeof word - 1) return false;
  if (*end == '/') total = strtod(end + 1, &end);
  if (!(done >= 0 && done < 1e15 && total >= 0 && total < 1e15)) return false;
  while (*end == ' ') end++;
  if (self->request) idem_progress(self->request, done, total, *end ? end : NULL);
  return true;
}

/* Keeps the end: the beginning makes room, half of it at once, so that lines of a byte cost no more than
 * one long line. */
static void keep_errors(call *self, const char *bytes, size_t len) {
  size_t kept = self->errors.max / 2;
  if (len > kept) {
    bytes += len - kept;
    len = kept;
  }
  if (self->errors.len + len > self->errors.max) {
    size_t gone = self->errors.len + len - kept;
    idem_buf_consume(&self->errors, gone);
    self->told -= gone < self->told ? gone : self->told;
  }
  idem_buf_put(&self->errors, bytes, len);
}

static void end_line(call *self, bool newline) {
  self->line[self->line_len] = 0;
  bool text = idem_utf8_valid(self->line, self->line_len);
  if (!text || !take_progress(self, self->line)) {
    keep_errors(self, self->line, self->line_len);
    if (newline) keep_errors(self, "\n", 1);
  }
  self->line_len = 0;
}

static void find_progress(call *self, const char *bytes, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (bytes[i] == '\n' || self->line_len + 1 == sizeof self->line)
      end_line(self, bytes[i] == '\n');
    if (bytes[i] != '\n') self->line[self->line_len++] = bytes[i];
  }
}

/* Whole lines are told as they come, so many of a call; the others, or the last of them, when it is over. */
static void tell_lines(call *self) {
  size_t len = self->errors.len - self->told;
  if (!len || self->told_lines >= LOGGED_LINES) return;
  const char *from = self->errors.data + self->told;
  while (len && from[len - 1] != '\n') len--;
  for (size_t i = 0; i < len; i++) self->told_lines += from[i] == '\n';
  self->told += len;
  program_log_errors(self->tool, from, len);
}

void call_heard_errors(call *self, const char *bytes, size_t len) {
  if (self->tool->config->progress)
    find_progress(self, bytes, len);
  else
    keep_errors(self, bytes, len);
  tell_lines(self);
}

/* ---------------------------------------------------------------------- the owner's log */

static void log_line(idem_log *log, idem_log_level level, const char *message, const char *name,
                     const char *line, size_t len) {
  char detail[LOGGED_LINE + 160];
  if (len > LOGGED_LINE) len = LOGGED_LINE;
  int size = snprintf(detail, sizeof detail, "%.128s: %.*s", name, (int)len, line);
  idem_log_write(log, &(idem_log_record){.level = level,
                                         .message = message,
                                         .detail = detail,
                                         .detail_len = size > 0 ? (size_t)size : 0,
                                         .plain = true});
}

static void log_lines(const program_tool *tool, idem_log_level level, const char *message,
                      const idem_buf *text) {
  idem_log *log = tool->host->runners.log;
  const char *name = tool->config->name, *at = text->data, *end = at + text->len;
  for (unsigned i = 0; at < end; i++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    if (i == LOGGED_LINES) {
      log_line(log, level, message, name, "(more)", 6);
      return;
    }
    log_line(log, level, message, name, at, (size_t)(stop - at));
    at = stop + (stop < end);
  }
}

/* Redaction protects peers, not operators from their own file names: paths stay, secrets and tokens go. */
void program_log_lines(const program_tool *tool, idem_log_level level, const char *message,
                       const char *text, size_t len) {
  idem_log *log = tool->host->runners.log;
  idem_redaction rules = {
      .secrets = tool->file->secrets, .secret_count = tool->file->secret_count, .keep_paths = true};
  idem_buf safe;
  if (!len || !idem_log_enabled(log, level)) return;
  idem_buf_init(&safe, NULL, (size_t)256 << 10);
  if (idem_redact_by(&safe, text, len, &rules) == IDEM_OK) log_lines(tool, level, message, &safe);
  idem_buf_deinit(&safe);
}

void program_log_errors(const program_tool *tool, const char *errors, size_t len) {
  program_log_lines(tool, tool->config->errors == ERRORS_LOG ? IDEM_LOG_INFO : IDEM_LOG_DEBUG,
                    "stderr of a tool", errors, len);
}

/* ------------------------------------------------------------------------- content */

void program_put_redacted(const program_tool *tool, const char *text, size_t len, idem_buf *out) {
  idem_redaction rules = {.secrets = tool->file->secrets,
                          .secret_count = tool->file->secret_count,
                          .folders = tool->config->folders};
  idem_buf safe;
  idem_buf_init(&safe, NULL, (size_t)256 << 10);
  bool replaced;
  if (idem_redact_by(&safe, text, len, &rules) == IDEM_OK)
    (void)clean_put(out, safe.data, safe.len, &replaced); /* as much of it as there is room for */
  idem_buf_deinit(&safe);
}

void program_put_tail(const program_tool *tool, const char *errors, size_t len, idem_buf *out) {
  size_t most = tool->config->errors == ERRORS_WITH ? WITH_BYTES : TAIL_BYTES;
  idem_buf clean;
  if (tool->config->errors == ERRORS_HIDE || !len) return;
  idem_buf_init(&clean, NULL, (size_t)768 << 10);
  program_put_redacted(tool, errors, len, &clean);
  size_t skip = clean.len > most ? clean.len - most : 0;
  while (skip < clean.len && ((unsigned char)clean.data[skip] & 0xC0u) == 0x80u) skip++;
  idem_buf_printf(out, "\nstderr%s: ", skip ? " (its end)" : "");
  idem_buf_put(out, clean.data + skip, clean.len - skip);
  idem_buf_deinit(&clean);
}

static void add_tail(const call *self, idem_buf *out) {
  program_put_tail(self->tool, self->errors.data, self->errors.len, out);
}

/* What programs say when they were refused a file or a socket; many tell it in words of their own. */
static const struct refusal {
  const char *text;
  bool network; /* no hint where it has the network */
} refusals[] = {
    {"Permission denied", false},
    {"Operation not permitted", false},
    {"EACCES", false},
    {"Read-only file system", false},
    {"readonly database", false},
    {"unable to open database", false},
    {"Couldn't connect to server", true},
    {"Could not resolve host", true},
    {"Failed to connect", true},
    {"Temporary failure in name resolution", true},
    {"EAI_AGAIN", true},
    {"Name or service not known", true},
    {"Connection refused", true},
    {"Network is unreachable", true},
};

static bool says_refused(const tool_config *tool, const char *errors, size_t len) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const struct refusal *one = &refusals[i];
    if (one->network && tool->allow_net) continue;
    if (memmem(errors, len, one->text, strlen(one->text))) return true;
  }
  return false;
}

void program_put_hint(const program_tool *tool, const char *errors, size_t len, idem_buf *out) {
  bool open = !tool->bounds->abi && !tool->bounds->seals;
  if (tool->config->unconfined || open || !len || !says_refused(tool->config, errors, len)) return;
  bool hidden = memmem(out->data, out->len, "[redacted]", 10) != NULL;
  idem_buf_printf(
      out, "%s%s is confined; \"allow\" in its definition names what it may reach.%s",
      out->data[out->len - 1] == '\n' ? "" : "\n", tool->config->name,
      hidden ? " The server's log has the names that are [redacted] (--log-level debug)." : "");
}

static void add_hint(const call *self, idem_buf *out) {
  program_put_hint(self->tool, self->errors.data, self->errors.len, out);
}

/* What stands behind its name in a sentence. False: it went well, or only its output was cut. */
static bool how_it_failed(const call *self, char *how, size_t size) {
  const tool_config *config = self->tool->config;
  if (self->stopped == STOP_FLOOD) return false;
  if (self->stopped == STOP_NO_MEMORY)
    snprintf(how, size, "was stopped: there is no memory for its output");
  else if (self->stopped == STOP_IDLE)
    snprintf(how, size, "was stopped: it wrote nothing for %llu ms (idle_ms)",
             (unsigned long long)config->idle_ms);
  else if (self->stopped == STOP_DEADLINE)
    snprintf(how, size, "was stopped: it took longer than %llu ms (deadline_ms)",
             (unsigned long long)config->deadline_ms);
  else if (self->stopped == STOP_CROWDED)
    snprintf(how, size, "was stopped: it had more than %zu processes and threads (processes)",
             config->processes);
  else if (self->lost)
    snprintf(how, size, "was ended: the process that watched over it was lost");
  else if (WIFSIGNALED(self->status))
    snprintf(how, size, "was ended by signal %d (%s)", WTERMSIG(self->status),
             strsignal(WTERMSIG(self->status)));
  else if (!tool_exit_ok(config, WEXITSTATUS(self->status)))
    snprintf(how, size, "ended with exit status %d", WEXITSTATUS(self->status));
  else
    return false;
  return true;
}

bool call_failed(const call *self, char *how, size_t size) {
  if (!how_it_failed(self, how, size)) return false;
  if (self->lost)
    failure_tell_ours(self->request, self->tool->config, "%s", how);
  else
    failure_tell(self->request, self->tool->config, "%s", how);
  return true;
}

/* True: it failed. The sentence says how it ended. */
static bool judge(const call *self, idem_buf *sentence) {
  const tool_config *config = self->tool->config;
  char how[160];
  if (call_failed(self, how, sizeof how)) {
    idem_buf_printf(sentence, "%s %s", config->name, how);
    add_tail(self, sentence);
    add_hint(self, sentence);
    return true;
  }
  if (config->errors == ERRORS_WITH) add_tail(self, sentence);
  if (self->stopped != STOP_FLOOD) return false;
  failure_tell(self->request, config, "was stopped: more than %zu bytes (output_bytes)",
               config->output_bytes);
  idem_buf_printf(sentence,
                  "\nThe output was cut after %zu bytes (output_bytes) and %s was stopped.",
                  config->output_bytes, config->name);
  return false;
}

/* ------------------------------------------------------------------------- answers */

static void answer_text(call *self, idem_buf *sentence, bool failed) {
  yyjson_mut_doc *doc = idem_request_doc(self->request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  idem_buf text;
  idem_buf_init(&text, NULL, self->output.len * 3 + 1);
  bool replaced, built = doc && content;
  if (clean_put(&text, self->output.data, self->output.len, &replaced) != IDEM_OK) built = false;
  if (replaced)
    idem_buf_puts(sentence,
                  "\nThe output held bytes that are no text; \xEF\xBF\xBD stands for them.");
  if (built && (text.len || !sentence->len))
    built = idem_content_text(doc, content, text.len ? text.data : "", text.len);
  if (built && sentence->len) {
    size_t skip = sentence->data[0] == '\n';
    built = idem_content_text(doc, content, sentence->data + skip, sentence->len - skip);
  }
  if (built)
    reply_tool(self->request, self->tool->config,
               &(idem_tool_result){.content = content, .is_error = failed});
  else
    reply_no_memory(self->request, self->tool->config);
  idem_buf_deinit(&text);
}

void call_answer(call *self) {
  idem_buf sentence;
  if (self->errors.len > self->told)
    program_log_errors(self->tool, self->errors.data + self->told, self->errors.len - self->told);
  if (!self->request) return;
  if (self->tool->config->hidden) {
    completion_answer(self);
    return;
  }
  idem_buf_init(&sentence, NULL, (size_t)32 << 10);
  bool failed = judge(self, &sentence);
  if (self->tool->config->output_json && self->stopped == STOP_FLOOD)
    reply_failed_because(self->request, "%s printed more than %zu bytes of JSON (output_bytes)",
                         self->tool->config->name, self->tool->config->output_bytes);
  else if (self->tool->config->output_json && !failed)
    reply_json(self->request, self->tool->config, self->output.data, self->output.len);
  else
    answer_text(self, &sentence, failed);
  self->request = NULL;
  idem_buf_deinit(&sentence);
}
