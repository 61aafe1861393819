/* prompt_define.c - prompts as they are registered: checked and copied once. */
#include "define.h"
#include "scope.h"
#include "server.h"

#include <string.h>

#define ARGUMENTS_MAX 1000u

/* --------------------------------------------------------------- checking */

static size_t count_arguments(const idem_prompt *prompt) {
  size_t count = 0;
  while (prompt->arguments && count <= ARGUMENTS_MAX && prompt->arguments[count].name) count++;
  return count;
}

static idem_status check_argument(const idem_prompt *prompt, size_t index, char *why,
                                  size_t why_len) {
  const char *name = prompt->arguments[index].name;
  if (!*name) return idem__definition_refuse(why, why_len, "an argument of a prompt needs a name");
  for (size_t i = 0; i < index; i++) {
    if (strcmp(prompt->arguments[i].name, name) == 0) {
      return idem__definition_refuse(why, why_len, "two arguments of a prompt have the same name");
    }
  }
  return IDEM_OK;
}

static idem_status check(const idem_prompt *prompt, char *why, size_t why_len) {
  if (!prompt->fn)
    return idem__definition_refuse(why, why_len, "a prompt needs a function that makes it");
  if (!prompt->name || !*prompt->name)
    return idem__definition_refuse(why, why_len, "a prompt needs a name");
  size_t count = count_arguments(prompt);
  if (count > ARGUMENTS_MAX)
    return idem__definition_refuse(why, why_len, "a prompt has too many arguments");
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    status = check_argument(prompt, i, why, why_len);
  }
  return status;
}

/* ---------------------------------------------------------------- entries */

static void free_arguments(idem__prompt_entry *entry, const idem_alloc *alloc) {
  for (size_t i = 0; i < entry->argument_count; i++) {
    idem__free(alloc, entry->arguments[i].name);
    idem__free(alloc, entry->arguments[i].title);
    idem__free(alloc, entry->arguments[i].description);
  }
  idem__free(alloc, entry->arguments);
}

static void free_entry(void *self, const idem_alloc *alloc) {
  idem__prompt_entry *entry = self;
  char *owned[] = {entry->name, entry->title, entry->description, entry->icons, entry->meta};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) idem__free(alloc, owned[i]);
  free_arguments(entry, alloc);
  idem__free(alloc, entry);
}

static idem_status copy_arguments(idem_server *server, const idem_prompt *prompt,
                                  idem__prompt_entry *entry) {
  size_t count = count_arguments(prompt);
  idem_status status = IDEM_OK;
  if (!count) return IDEM_OK;
  entry->arguments = idem__calloc(&server->alloc, count * sizeof *entry->arguments);
  if (!entry->arguments) return IDEM_E_NOMEM;
  entry->argument_count = count;
  for (size_t i = 0; i < count; i++) {
    const idem_prompt_argument *from = &prompt->arguments[i];
    struct idem__prompt_arg *to = &entry->arguments[i];
    to->name = idem__server_copy(server, from->name, &status);
    to->title = idem__server_copy(server, from->title, &status);
    to->description = idem__server_copy(server, from->description, &status);
    to->required = from->required;
  }
  return status;
}

static idem_status copy_texts(idem_server *server, const idem_prompt *prompt,
                              idem__prompt_entry *entry) {
  idem_status status = IDEM_OK;
  entry->head.name = entry->name = idem__server_copy(server, prompt->name, &status);
  entry->title = idem__server_copy(server, prompt->title, &status);
  entry->description = idem__server_copy(server, prompt->description, &status);
  return status;
}

static idem_status fill_entry(idem_server *server, const idem_prompt *prompt,
                              idem__prompt_entry *entry, char *why, size_t why_len) {
  const idem__definition_text texts[] = {
      {prompt->icons, '[', &entry->icons, "a prompt's icons are not a JSON array"},
      {prompt->meta, '{', &entry->meta, "a prompt's meta is not a JSON object"},
  };
  idem_status status = copy_texts(server, prompt, entry);
  if (status == IDEM_OK) status = copy_arguments(server, prompt, entry);
  if (status == IDEM_OK) {
    status = idem__definition_copy(server, texts, sizeof texts / sizeof texts[0], why, why_len);
  }
  entry->fn = prompt->fn;
  entry->head.user = prompt->user;
  return status;
}

/* ----------------------------------------------------------------- public */

idem_status idem_server_add_prompt(idem_server *server, const idem_prompt *prompt, char *why,
                                   size_t why_len) {
  idem_status status = check(prompt, why, why_len);
  if (status != IDEM_OK) return status;
  idem__prompt_entry *entry = idem__entry_new(server, sizeof *entry, free_entry);
  if (!entry) return IDEM_E_NOMEM;
  status = fill_entry(server, prompt, entry, why, why_len);
  if (status == IDEM_OK)
    status = idem__entry_set_scopes(server, &entry->head, prompt->scopes, why, why_len);
  if (status != IDEM_OK) {
    idem__entry_unref(&entry->head, &server->alloc);
    return status;
  }
  entry->head.release = prompt->release;
  return idem__registry_change(server, IDEM__PROMPTS, prompt->name, &entry->head);
}

idem_status idem_server_remove_prompt(idem_server *server, const char *name) {
  return idem__registry_change(server, IDEM__PROMPTS, name, NULL);
}
