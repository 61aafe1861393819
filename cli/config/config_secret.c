/* config_secret.c - secrets by reference: from the environment, a file, or what a command prints.
 * One that is missing is a fault that names its tool. Its value goes into no log and no answer. */
#include "config.h"

#include "regular_file.h"
#include "secret_command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRETS_MAX 256

static const char *kind_of(const tool_config *tool) { return tool->kind ? tool->kind : "tool"; }

static const char *fault(serve_config *self, const tool_config *tool, yyjson_val *at,
                         const char *what, const char *why) {
  source_fault(&self->source, at, "%s %s: %s: %s", kind_of(tool), tool->name, what, why);
  return NULL;
}

/* Without the newline that ends a file or an output; NULL: it is no secret. */
static const char *trim(char *text, size_t len) {
  while (len && (text[len - 1] == '\n' || text[len - 1] == '\r')) text[--len] = 0;
  return len && !memchr(text, 0, len) ? text : NULL;
}

/* By its name, not by where that leads today. */
static void note_file(serve_config *self, const char *name) {
  found_program *made = memory_zeroed(&self->memory, 1, sizeof *made);
  *made =
      (found_program){.next = self->secret_files, .name = name, .path = config_join(self, name)};
  self->secret_files = made;
}

static const char *from_file(serve_config *self, const tool_config *tool, yyjson_val *at) {
  const char *path = yyjson_get_str(at);
  const char *real =
      config_file(self, (config_owner){kind_of(tool), tool->name}, at, "secret file");
  const char *why;
  FILE *file = real ? regular_file_open_secret(real, &why) : NULL;
  if (real && !file) return fault(self, tool, at, path, why);
  if (!file) return NULL;
  note_file(self, path);
  char *text = memory_zeroed(&self->memory, SECRET_BYTES + 1, 1);
  size_t len = fread(text, 1, SECRET_BYTES + 1, file);
  fclose(file);
  if (len > SECRET_BYTES) return fault(self, tool, at, path, "is longer than 64 KiB");
  const char *secret = trim(text, len);
  return secret ? secret : fault(self, tool, at, path, "is empty or no text");
}

static const char *from_environment(serve_config *self, const tool_config *tool, yyjson_val *at) {
  const char *value = getenv(yyjson_get_str(at));
  if (value && *value) return value;
  source_fault(&self->source, at, "%s %s: the environment has no %s: set it and start again",
               kind_of(tool), tool->name, yyjson_get_str(at));
  return NULL;
}

/* Found in PATH it is the system's. */
static void note_command(serve_config *self, const char *name) {
  if (!strchr(name, '/')) return;
  found_program *made = memory_zeroed(&self->memory, 1, sizeof *made);
  *made = (found_program){.next = self->commands, .name = name, .path = config_join(self, name)};
  self->commands = made;
}

static const char *from_command(serve_config *self, const tool_config *tool, yyjson_val *at) {
  const char **argv = memory_zeroed(&self->memory, yyjson_arr_size(at) + 1, sizeof *argv);
  char *text = memory_zeroed(&self->memory, SECRET_BYTES + 1, 1);
  char why[256];
  yyjson_val *item;
  size_t i, max, len = 0;
  yyjson_arr_foreach(at, i, max, item) argv[i] = yyjson_get_str(item);
  note_command(self, argv[0]);
  if (self->cautious && !secret_command_known(argv, self->source.folder))
    return fault(self, tool, at, argv[0],
                 "is a new command, which a reload does not run: start again, or with "
                 "--reload-may-loosen");
  if (!secret_command(argv, self->source.folder, text, &len, why, sizeof why))
    return fault(self, tool, at, argv[0], why);
  const char *secret = trim(text, len);
  return secret ? secret : fault(self, tool, at, argv[0], "printed nothing, or no text");
}

static void remember(serve_config *self, yyjson_val *at, const char *text) {
  if (!self->secrets)
    self->secrets = memory_zeroed(&self->memory, SECRETS_MAX, sizeof *self->secrets);
  size_t len = strlen(text);
  for (size_t i = 0; i < self->secret_count; i++)
    if (strcmp(self->secrets[i].text, text) == 0) return;
  if (self->secret_count == SECRETS_MAX)
    source_fault(&self->source, at, "there are more than %d secrets", SECRETS_MAX);
  else if (len >= 4)
    self->secrets[self->secret_count++] = (idem_secret){memory_text(&self->memory, text, len), len};
}

const char *config_secret(serve_config *self, const tool_config *tool, yyjson_val *reference) {
  yyjson_val *file = yyjson_obj_get(reference, "file"), *env = yyjson_obj_get(reference, "env");
  yyjson_val *command = yyjson_obj_get(reference, "command");
  if (!file + !env + !command != 2) {
    source_fault(&self->source, reference, "%s %s: a secret is one of env, file and command",
                 kind_of(tool), tool->name);
    return NULL;
  }
  const char *text = file  ? from_file(self, tool, file)
                     : env ? from_environment(self, tool, env)
                           : from_command(self, tool, command);
  if (text) remember(self, reference, text);
  return text;
}
