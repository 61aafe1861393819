/* about.c - what the operator may know of a server: where it listens, the configuration in force, what confines each
 * tool, what was wrong with the file that was read last. One JSON object. */
#include "page.h"

#include "config/regular_file.h"
#include "service/service.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ABOUT_BYTES ((size_t)16 << 20)
#define REFUSED_BYTES ((size_t)256 * 1024) /* of a file that was refused */

static void put_string(idem_buf *out, const char *text) {
  idem_text_json_string(out, text, strlen(text));
}

static void put_member(idem_buf *out, const char *name, const char *text) {
  put_string(out, name);
  idem_buf_puts(out, ":");
  put_string(out, text);
  idem_buf_puts(out, ",");
}

/* ------------------------------------------------------------------------- confinement */

static void put_paths(idem_buf *out, const char *const *paths) {
  for (; *paths; paths++) idem_buf_printf(out, ", %s", *paths);
}

/* The same that a dry run says. */
static void describe(idem_buf *out, const serve_config *config, const tool_config *tool) {
  if (tool->unconfined) {
    idem_buf_puts(out, "not at all (\"confine\": false)");
    return;
  }
  idem_buf_printf(out, "reads the system's folders, %s", config->source.folder);
  if (strcmp(tool->cwd, config->source.folder) != 0) idem_buf_printf(out, ", %s", tool->cwd);
  for (size_t i = 0; i < tool->inside_count; i++)
    idem_buf_printf(out, ", %s", tool->inside[i].folder);
  put_paths(out, tool->allow_read);
  idem_buf_puts(out, "; writes a temporary folder");
  put_paths(out, tool->allow_write);
  idem_buf_printf(out, "; %s network", tool->allow_net ? "has the" : "no");
}

static void describe_other(idem_buf *out, const tool_config *tool) {
  if (tool->http)
    idem_buf_printf(out, "one HTTP call to a host of the file; at most %llu ms",
                    (unsigned long long)tool->deadline_ms);
  else
    idem_buf_printf(out, "a query, %s; at most %zu rows, %llu ms",
                    tool->may_write ? "may change the database" : "read only", tool->max_rows,
                    (unsigned long long)tool->deadline_ms);
}

static void put_confinement(idem_buf *out, const serve_config *config) {
  idem_buf text;
  idem_buf_init(&text, NULL, (size_t)64 * 1024);
  idem_buf_puts(out, "\"confinement\":{");
  for (size_t i = 0; i < config->shown_count; i++) {
    const tool_config *tool = &config->tools[i];
    text.len = 0;
    if (tool->is_program)
      describe(&text, config, tool);
    else
      describe_other(&text, tool);
    if (i) idem_buf_puts(out, ",");
    put_string(out, tool->name);
    idem_buf_puts(out, ":");
    idem_text_json_string(out, text.data, text.len);
  }
  idem_buf_puts(out, "},");
  idem_buf_deinit(&text);
}

/* ----------------------------------------------------------------------- configuration */

/* Secrets that stand in it are taken out. */
static void put_text(idem_buf *out, const page *self, const char *name, const char *text,
                     size_t len) {
  idem_buf clean;
  idem_buf_init(&clean, NULL, ABOUT_BYTES);
  if (idem_log_redact(self->service->log, &clean, text, len) == IDEM_OK) {
    put_string(out, name);
    idem_buf_puts(out, ":");
    idem_text_json_string(out, clean.data, clean.len);
    idem_buf_puts(out, ",");
  }
  idem_buf_deinit(&clean);
}

/* As it was understood: without comments. */
static void put_source(idem_buf *out, const page *self, const serve_config *config) {
  size_t len = 0;
  char *text = yyjson_write(config->source.doc, YYJSON_WRITE_PRETTY_TWO_SPACES, &len);
  if (text) put_text(out, self, "source", text, len);
  free(text);
}

static void put_command(idem_buf *out, const page *self) {
  char *program = realpath("/proc/self/exe", NULL);
  char *file = realpath(self->service->options->path, NULL);
  if (program && file) {
    idem_buf_puts(out, "\"command\":{\"command\":");
    put_string(out, program);
    idem_buf_puts(out, ",\"args\":[\"serve\",");
    put_string(out, file);
    idem_buf_puts(out, "]},");
  }
  free(program);
  free(file);
}

static void put_addresses(idem_buf *out, const page *self) {
  idem_buf_puts(out, "\"addresses\":[");
  for (size_t i = 0; i < self->address_count; i++) {
    if (i) idem_buf_puts(out, ",");
    put_string(out, self->addresses[i]);
  }
  idem_buf_puts(out, "],");
}

/* The file whose lines the faults name, as it is now: another change of it would have been read again. */
static void put_refused(idem_buf *out, const page *self) {
  const char *why;
  FILE *file = regular_file_open(self->service->options->path, &why);
  char *text = file ? malloc(REFUSED_BYTES) : NULL;
  if (text) put_text(out, self, "text", text, fread(text, 1, REFUSED_BYTES, file));
  free(text);
  if (file) fclose(file);
}

static void put_reload(idem_buf *out, const page *self) {
  idem_buf_printf(out, "\"reload\":{\"failed\":%s,\"t\":%llu,", self->failed_us ? "true" : "false",
                  (unsigned long long)self->failed_us);
  if (self->failed_us) put_refused(out, self);
  idem_buf_puts(out, "\"faults\":[");
  idem_buf_put(out, self->faults.data ? self->faults.data : "", self->faults.len);
  idem_buf_puts(out, "]},");
}

static idem_status put_about(idem_buf *out, const page *self) {
  const serve_config *config = &self->service->current->config;
  idem_buf_puts(out, "{");
  put_member(out, "path", config->source.path);
  put_command(out, self);
  put_addresses(out, self);
  put_confinement(out, config);
  put_reload(out, self);
  put_source(out, self, config);
  return idem_buf_printf(out, "\"read\":%llu,\"pid\":%ld,\"idem\":\"%s\"}\n",
                         (unsigned long long)self->read_us, (long)getpid(), idem_version());
}

void page_serve_about(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  idem_buf out;
  (void)request;
  idem_buf_init(&out, NULL, ABOUT_BYTES);
  idem_http_answer answer = {.status = 503};
  if (put_about(&out, user) == IDEM_OK)
    answer = (idem_http_answer){
        .status = 200, .type = "application/json", .body = out.data, .len = out.len};
  idem_http_respond(exchange, &answer);
  idem_buf_deinit(&out);
}
