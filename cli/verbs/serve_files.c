/* serve_files.c - the files of the server's own that no program may read: its tokens, the store with what SQLite
 * puts beside it, and the password of a store elsewhere. */
#include "serve.h"

#include <stdio.h>
#include <string.h>

/* "redis://...?password_file=PATH" */
static bool name_password(serve_options *self, size_t count) {
  static const char option[] = "password_file=";
  const char *at = strchr(self->store, '?');
  while (at && strncmp(at + 1, option, strlen(option)) != 0) at = strchr(at + 1, '&');
  if (!at) return true;
  const char *path = at + 1 + strlen(option);
  self->store_files[0] = strndup(path, strcspn(path, "&"));
  self->own_files[count] = self->store_files[0];
  return self->store_files[0] != NULL;
}

bool serve_options_name_files(serve_options *self) {
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  size_t count = 0;
  if (self->token_file) self->own_files[count++] = self->token_file;
  if (self->store && strncmp(self->store, "redis", 5) == 0) return name_password(self, count);
  if (!self->store || strncmp(self->store, "sqlite:", 7) != 0) return true;
  const char *path = self->store + 7;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    if (asprintf(&self->store_files[i], "%.*s%s", (int)strcspn(path, "?"), path, endings[i]) < 0) {
      self->store_files[i] = NULL;
      return false;
    }
    self->own_files[count++] = self->store_files[i];
  }
  return true;
}
