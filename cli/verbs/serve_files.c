/* serve_files.c - the files of the server's own that no program may read: its tokens, and the store with what SQLite
 * puts beside it. */
#include "serve.h"

#include <stdio.h>
#include <string.h>

bool serve_options_name_files(serve_options *self) {
  static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
  size_t count = 0;
  if (self->token_file) self->own_files[count++] = self->token_file;
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
