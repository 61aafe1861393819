/* answer.c - what a call comes to: text or structured content, and on failure a sentence that says
 * what happened with the end of stderr, secrets removed. Nothing is cut without saying so. */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TAIL_BYTES 2048u

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

/* Keeps the end: the beginning makes room. */
static void keep_errors(call *self, const char *bytes, size_t len) {
  size_t max = self->errors.max;
  if (len > max) {
    bytes += len - max;
    len = max;
  }
  if (self->errors.len + len > max) idem__buf_consume(&self->errors, self->errors.len + len - max);
  idem__buf_put(&self->errors, bytes, len);
}

static void end_line(call *self, bool newline) {
  self->line[self->line_len] = 0;
  bool text = idem__utf8_valid(self->line, self->line_len);
  if (!text || !take_progress(self, self->line)) {
    keep_errors(self, self->line, self->line_len);
    if (newline) keep_errors(self, "\n", 1);
  }
  self->line_len = 0;
}

void call_heard_errors(call *self, const char *bytes, size_t len) {
  if (!self->tool->config->progress) {
    keep_errors(self, bytes, len);
    return;
  }
  for (size_t i = 0; i < len; i++) {
    if (bytes[i] == '\n' || self->line_len + 1 == sizeof self->line)
      end_line(self, bytes[i] == '\n');
    if (bytes[i] != '\n') self->line[self->line_len++] = bytes[i];
  }
}

/* ------------------------------------------------------------------------- content */

static void add_tail(const call *self, idem__buf *out) {
  const serve_config *config = self->tool->file;
  idem__buf safe, clean;
  if (self->tool->config->hide_stderr || !self->errors.len) return;
  idem__buf_init(&safe, NULL, (size_t)256 << 10);
  idem__buf_init(&clean, NULL, (size_t)768 << 10);
  if (idem__redact(&safe, self->errors.data, self->errors.len, config->secrets,
                   config->secret_count) == IDEM_OK) {
    reply_put_clean(&clean, safe.data, safe.len);
    size_t skip = clean.len > TAIL_BYTES ? clean.len - TAIL_BYTES : 0;
    while (skip < clean.len && ((unsigned char)clean.data[skip] & 0xC0u) == 0x80u) skip++;
    idem__buf_printf(out, "\nstderr%s: ", skip ? " (its end)" : "");
    idem__buf_put(out, clean.data + skip, clean.len - skip);
  }
  idem__buf_deinit(&safe);
  idem__buf_deinit(&clean);
}

/* A program that was refused a file or a socket says only that; who reads it should know of "allow". */
static void add_hint(const call *self, idem__buf *out) {
  static const char *const refusals[] = {"Permission denied", "Operation not permitted", "EACCES"};
  const char *text = self->errors.data;
  const confinement *bounds = self->tool->bounds;
  bool refused = false, free = !bounds->abi && !bounds->seals;
  if (self->tool->config->unconfined || free || !text) return;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals && !refused; i++)
    refused = memmem(text, self->errors.len, refusals[i], strlen(refusals[i]));
  if (refused)
    idem__buf_printf(out, "%s%s is confined; \"allow\" in its definition names what it may reach.",
                     out->data[out->len - 1] == '\n' ? "" : "\n", self->tool->config->name);
}

/* What stands behind its name in a sentence. False: it went well, or only its output was cut. */
static bool how_it_failed(const call *self, char *how, size_t size) {
  const tool_config *config = self->tool->config;
  if (self->stopped == STOP_FLOOD) return false;
  if (self->stopped == STOP_IDLE)
    snprintf(how, size, "was stopped: it wrote nothing for %llu ms (idle_ms)",
             (unsigned long long)config->idle_ms);
  else if (self->stopped == STOP_DEADLINE)
    snprintf(how, size, "was stopped: it took longer than %llu ms (deadline_ms)",
             (unsigned long long)config->deadline_ms);
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
static bool judge(const call *self, idem__buf *sentence) {
  const tool_config *config = self->tool->config;
  char how[160];
  if (call_failed(self, how, sizeof how)) {
    idem__buf_printf(sentence, "%s %s", config->name, how);
    add_tail(self, sentence);
    add_hint(self, sentence);
    return true;
  }
  if (self->stopped != STOP_FLOOD) return false;
  failure_tell(self->request, config, "was stopped: more than %zu bytes (output_bytes)",
               config->output_bytes);
  idem__buf_printf(sentence,
                   "The output was cut after %zu bytes (output_bytes) and %s was stopped.",
                   config->output_bytes, config->name);
  return false;
}

/* ------------------------------------------------------------------------- answers */

static void answer_text(call *self, idem__buf *sentence, bool failed) {
  yyjson_mut_doc *doc = idem_request_doc(self->request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  idem__buf text;
  idem__buf_init(&text, NULL, self->output.len * 3 + 1);
  bool replaced = reply_put_clean(&text, self->output.data, self->output.len);
  if (replaced)
    idem__buf_puts(sentence,
                   "\nThe output held bytes that are no text; \xEF\xBF\xBD stands for them.");
  bool built = doc && content;
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
  idem__buf_deinit(&text);
}

void call_answer(call *self) {
  idem__buf sentence;
  if (!self->request) return;
  if (self->tool->config->hidden) {
    completion_answer(self);
    return;
  }
  idem__buf_init(&sentence, NULL, (size_t)8 << 10);
  bool failed = judge(self, &sentence);
  if (self->tool->config->output_json && self->stopped == STOP_FLOOD)
    reply_failed_because(self->request, "%s printed more than %zu bytes of JSON (output_bytes)",
                         self->tool->config->name, self->tool->config->output_bytes);
  else if (self->tool->config->output_json && !failed)
    reply_json(self->request, self->tool->config, self->output.data, self->output.len);
  else
    answer_text(self, &sentence, failed);
  self->request = NULL;
  idem__buf_deinit(&sentence);
}
