/* token_clients.c - see token_clients.h. */
#include "token_clients.h"
#include "kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "STEM.json", or "STEM-DIGEST.json" of a client that --client named. */
static bool is_of(const char *name, const char *stem) {
  size_t len = strlen(stem), all = strlen(name);
  if (strncmp(name, stem, len) != 0 || all < len + 5 || strcmp(name + all - 5, ".json") != 0)
    return false;
  return all == len + 5 || name[len] == '-';
}

/* What its own file says of it. */
static void look_at(const token_store *store, token_client *one) {
  token_store file = *store; /* its folder is lent */
  text kept = {.data = NULL};
  memcpy(file.stem, one->stem, sizeof file.stem);
  one->own = strcmp(one->stem, store->stem) == 0;
  token_file found = token_store_read(&file, &kept);
  one->in = found == TOKEN_FILE_REFUSED || (found == TOKEN_FILE_READ && kept_has_token(&kept));
  if (found == TOKEN_FILE_READ) kept_client(&kept, one->id, sizeof one->id);
  kept_wipe(&kept);
  text_free(&kept);
}

static int by_id(const void *a, const void *b) {
  const token_client *one = a, *other = b;
  return one->own != other->own ? other->own - one->own : strcmp(one->id, other->id);
}

static void add(const token_store *store, const char *name, token_clients *out) {
  size_t len = strlen(name) - 5;
  token_client *one = &out->items[out->count];
  if (out->count == TOKEN_CLIENTS_MAX || len >= sizeof one->stem) {
    out->more = true;
    return;
  }
  *one = (token_client){.own = false};
  memcpy(one->stem, name, len);
  look_at(store, one);
  out->in += one->in;
  out->count++;
}

bool token_clients_find(token_store *store, token_clients *out) {
  struct dirent *entry;
  out->count = out->in = 0;
  out->more = false;
  if (store->folder < 0) return true; /* nothing is kept */
  int again = openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *folder = again >= 0 ? fdopendir(again) : NULL;
  if (!folder) {
    snprintf(store->why, sizeof store->why, "%.200s: %s", store->path, strerror(errno));
    if (again >= 0) close(again);
    return false;
  }
  while ((entry = readdir(folder)))
    if (is_of(entry->d_name, store->stem)) add(store, entry->d_name, out);
  closedir(folder);
  qsort(out->items, out->count, sizeof *out->items, by_id);
  return true;
}

void token_clients_list(const token_clients *all, const char *but, text *out) {
  for (size_t i = 0; i < all->count; i++) {
    const token_client *one = &all->items[i];
    if (!one->in || (but && strcmp(one->stem, but) == 0)) continue;
    if (out->len) text_puts(out, ", ");
    text_puts(out, *one->id ? one->id : one->stem);
  }
}

/* Who logged in with a client of their own need not name it again, where it is the only one. */
bool token_clients_choose(token_store *store, token_clients *all) {
  const token_client *only = NULL;
  if (!token_clients_find(store, all)) return false;
  for (size_t i = 0; i < all->count; i++) {
    if (!all->items[i].in) continue;
    if (all->items[i].own) return true;
    only = &all->items[i];
  }
  if (all->in == 1) memcpy(store->stem, only->stem, sizeof store->stem);
  if (all->in <= 1) return true;
  text list = {.data = NULL};
  token_clients_list(all, NULL, &list);
  snprintf(store->why, sizeof store->why,
           "several clients are logged in there: say which with --client ID (%.220s%s)", list.data,
           list.len > 220 ? "..." : "");
  text_free(&list);
  return false;
}
