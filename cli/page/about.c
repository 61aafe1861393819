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

static void put_string(idem__buf *out, const char *text) {
  idem__text_json_string(out, text, strlen(text));
}

static void put_member(idem__buf *out, const char *name, const char *text) {
  put_string(out, name);
  idem__buf_puts(out, ":");
  put_string(out, text);
  idem__buf_puts(out, ",");
}

/* ------------------------------------------------------------------------- confinement */

static void put_paths(idem__buf *out, const char *const *paths) {
  for (; *paths; paths++) idem__buf_printf(out, ", %s", *paths);
}

/* The same that a dry run says. */
static void describe(idem__buf *out, const serve_config *config, const tool_config *tool) {
  if (tool->unconfined) {
    idem__buf_puts(out, "not at all (\"confine\": false)");
    return;
  }
  idem__buf_printf(out, "reads the system's folders, %s", config->source.folder);
  if (strcmp(tool->cwd, config->source.folder) != 0) idem__buf_printf(out, ", %s", tool->cwd);
  for (size_t i = 0; i < tool->inside_count; i++)
    idem__buf_printf(out, ", %s", tool->inside[i].folder);
  put_paths(out, tool->allow_read);
  idem__buf_puts(out, "; writes a temporary folder");
  put_paths(out, tool->allow_write);
  idem__buf_printf(out, "; %s network", tool->allow_net ? "has the" : "no");
}

static void describe_other(idem__buf *out, const tool_config *tool) {
  if (tool->http)
    idem__buf_printf(out, "one HTTP call to a host of the file; at most %llu ms",
                     (unsigned long long)tool->deadline_ms);
  else
    idem__buf_printf(out, "a query, %s; at most %zu rows, %llu ms",
                     tool->may_write ? "may change the database" : "read only", tool->max_rows,
                     (unsigned long long)tool->deadline_ms);
}

static void put_confinement(idem__buf *out, const serve_config *config) {
  idem__buf text;
  idem__buf_init(&text, NULL, (size_t)64 * 1024);
  idem__buf_puts(out, "\"confinement\":{");
  for (size_t i = 0; i < config->shown_count; i++) {
    const tool_config *tool = &config->tools[i];
    text.len = 0;
    if (tool->is_program)
      describe(&text, config, tool);
    else
      describe_other(&text, tool);
    if (i) idem__buf_puts(out, ",");
    put_string(out, tool->name);
    idem__buf_puts(out, ":");
    idem__text_json_string(out, text.data, text.len);
  }
  idem__buf_puts(out, "},");
  idem__buf_deinit(&text);
}

/* ----------------------------------------------------------------------- configuration */

/* Secrets that stand in it are taken out. */
static void put_text(idem__buf *out, const page *self, const char *name, const char *text,
                     size_t len) {
  idem__buf clean;
  idem__buf_init(&clean, NULL, ABOUT_BYTES);
  if (idem__log_redact(self->service->log, &clean, text, len) == IDEM_OK) {
    put_string(out, name);
    idem__buf_puts(out, ":");
    idem__text_json_string(out, clean.data, clean.len);
    idem__buf_puts(out, ",");
  }
  idem__buf_deinit(&clean);
}

/* As it was understood: without comments. */
static void put_source(idem__buf *out, const page *self, const serve_config *config) {
  size_t len = 0;
  char *text = yyjson_write(config->source.doc, YYJSON_WRITE_PRETTY_TWO_SPACES, &len);
  if (text) put_text(out, self, "source", text, len);
  free(text);
}

static void put_command(idem__buf *out, const page *self) {
  char *program = realpath("/proc/self/exe", NULL);
  char *file = realpath(self->service->options->path, NULL);
  if (program && file) {
    idem__buf_puts(out, "\"command\":{\"command\":");
    put_string(out, program);
    idem__buf_puts(out, ",\"args\":[\"serve\",");
    put_string(out, file);
    idem__buf_puts(out, "]},");
  }
  free(program);
  free(file);
}

static void put_addresses(idem__buf *out, const page *self) {
  idem__buf_puts(out, "\"addresses\":[");
  for (size_t i = 0; i < self->address_count; i++) {
    if (i) idem__buf_puts(out, ",");
    put_string(out, self->addresses[i]);
  }
  idem__buf_puts(out, "],");
}

/* The file whose lines the faults name, as it is now: another change of it would have been read again. */
static void put_refused(idem__buf *out, const page *self) {
  const char *why;
  FILE *file = regular_file_open(self->service->options->path, &why);
  char *text = file ? malloc(REFUSED_BYTES) : NULL;
  if (text) put_text(out, self, "text", text, fread(text, 1, REFUSED_BYTES, file));
  free(text);
  if (file) fclose(file);
}

static void put_reload(idem__buf *out, const page *self) {
  idem__buf_printf(out, "\"reload\":{\"failed\":%s,\"t\":%llu,", self->failed_us ? "true" : "false",
                   (unsigned long long)self->failed_us);
  if (self->failed_us) put_refused(out, self);
  idem__buf_puts(out, "\"faults\":[");
  idem__buf_put(out, self->faults.data ? self->faults.data : "", self->faults.len);
  idem__buf_puts(out, "]},");
}

static idem_status put_about(idem__buf *out, const page *self) {
  const serve_config *config = &self->service->current->config;
  idem__buf_puts(out, "{");
  put_member(out, "path", config->source.path);
  put_command(out, self);
  put_addresses(out, self);
  put_confinement(out, config);
  put_reload(out, self);
  put_source(out, self, config);
  return idem__buf_printf(out, "\"read\":%llu,\"pid\":%ld,\"idem\":\"%s\"}\n",
                          (unsigned long long)self->read_us, (long)getpid(), idem_version());
}

void page_serve_about(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  idem__buf out;
  (void)request;
  idem__buf_init(&out, NULL, ABOUT_BYTES);
  idem_http_answer answer = {.status = 503};
  if (put_about(&out, user) == IDEM_OK)
    answer = (idem_http_answer){
        .status = 200, .type = "application/json", .body = out.data, .len = out.len};
  idem_http_respond(exchange, &answer);
  idem__buf_deinit(&out);
}
