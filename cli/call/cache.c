/* cache.c - see cache.h. Bounded: a file has at most 1 MiB, and when there are more than 64, all go. Written beside and
 * renamed, so that a reader sees a whole file or none. */
#include "cache.h"

#include "config/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)1 << 20)
#define NAMES_BYTES ((size_t)128 << 10)
#define NAMES_MOST 1000u
#define MOST_FILES 64
#define FORMAT 2

/* ------------------------------------------------------------------------- names */

/* Two of FNV-1a with different beginnings: 128 bits, of names that the user chose, not of strangers. */
static void mix(uint64_t digest[2], const char *words) {
  size_t len = strlen(words) + 1;
  for (size_t i = 0; i < len; i++) {
    digest[0] = (digest[0] ^ (unsigned char)words[i]) * UINT64_C(0x100000001b3);
    digest[1] = (digest[1] ^ (unsigned char)words[i]) * UINT64_C(0x100000001b3) + digest[0];
  }
}

static void digest_of(const call_target *target, char *name, size_t size) {
  uint64_t digest[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};
  char *here = target->argv ? getcwd(NULL, 0) : NULL;
  if (target->url) mix(digest, target->url);
  for (size_t i = 0; target->argv && target->argv[i]; i++) mix(digest, target->argv[i]);
  mix(digest, target->folder ? target->folder : here ? here : "");
  for (size_t i = 0; target->headers[i]; i++) mix(digest, target->headers[i]);
  if (target->token) mix(digest, target->token);
  snprintf(name, size, "%016llx%016llx.json", (unsigned long long)digest[0],
           (unsigned long long)digest[1]);
  free(here);
}

/* False: there is no place for it. */
static bool folder_of(char *path, size_t size) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len = -1;
  if (cache && *cache == '/')
    len = snprintf(path, size, "%s/idem/call", cache);
  else if (home && *home == '/')
    len = snprintf(path, size, "%s/.cache/idem/call", home);
  return len > 0 && (size_t)len < size;
}

static bool path_of(const call_target *target, char *path, size_t size) {
  char folder[2048], name[64];
  if (!folder_of(folder, sizeof folder)) return false;
  digest_of(target, name, sizeof name);
  return snprintf(path, size, "%s/%s", folder, name) < (int)size;
}

/* ------------------------------------------------------------------------ reading */

uint64_t cache_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Ours and nobody else's, or it is not believed. */
static FILE *open_own(const char *path) {
  struct stat about;
  const char *why;
  FILE *file = regular_file_open(path, &why);
  if (!file) return NULL;
  if (fstat(fileno(file), &about) == 0 && about.st_uid == geteuid() && !(about.st_mode & 022) &&
      about.st_size <= (off_t)FILE_BYTES)
    return file;
  fclose(file);
  return NULL;
}

static yyjson_doc *read_own(const char *path) {
  FILE *file = open_own(path);
  char *data = file ? malloc(FILE_BYTES) : NULL;
  size_t len = data ? fread(data, 1, FILE_BYTES, file) : 0;
  yyjson_doc *doc = len ? yyjson_read(data, len, YYJSON_READ_NUMBER_AS_RAW) : NULL;
  free(data);
  if (file) fclose(file);
  return doc;
}

static uint64_t number(yyjson_val *value) {
  return yyjson_is_raw(value) ? strtoull(yyjson_get_raw(value), NULL, 10) : 0;
}

bool cache_load(call_cache *self, const call_target *target) {
  char path[4096];
  *self = (call_cache){.doc = NULL};
  if (!path_of(target, path, sizeof path)) return false;
  self->doc = read_own(path);
  yyjson_val *root = yyjson_doc_get_root(self->doc);
  uint64_t at = number(yyjson_obj_get(root, "at")), now = cache_now_ms();
  if (number(yyjson_obj_get(root, "v")) != FORMAT || at > now) return false;
  self->at = at;
  self->age_ms = now - at;
  return yyjson_is_arr(cache_tools(self));
}

void cache_free(call_cache *self) { yyjson_doc_free(self->doc); }

yyjson_val *cache_tools(const call_cache *self) {
  return yyjson_obj_get(yyjson_doc_get_root(self->doc), "tools");
}

yyjson_val *cache_names(const call_cache *self, const char *kind) {
  return yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(self->doc), "names"), kind);
}

const char *cache_revision(const call_cache *self) {
  yyjson_val *about = yyjson_obj_get(yyjson_doc_get_root(self->doc), "about");
  return yyjson_get_str(yyjson_obj_get(about, "revision"));
}

uint64_t cache_fresh_ms(const call_cache *self) {
  yyjson_val *about = yyjson_obj_get(yyjson_doc_get_root(self->doc), "about");
  yyjson_val *said = yyjson_obj_get(about, "fresh");
  uint64_t fresh = said ? number(said) : CACHE_FRESH_MS, now = cache_now_ms();
  uint64_t listed = number(yyjson_obj_get(about, "listed"));
  if (fresh > CACHE_FRESH_MS) fresh = CACHE_FRESH_MS;
  return listed <= now && now - listed < fresh ? listed + fresh - now : 0;
}

const char *cache_keys(const call_cache *self) {
  yyjson_val *about = yyjson_obj_get(yyjson_doc_get_root(self->doc), "about");
  return yyjson_get_str(yyjson_obj_get(about, "keys"));
}

/* ------------------------------------------------------------------------ writing */

static void make_folders(const char *path) {
  char part[4096];
  snprintf(part, sizeof part, "%s", path);
  for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(part, 0700);
    *slash = '/';
  }
}

static bool is_ours(const char *name) {
  size_t len = strlen(name);
  return len == 37 && strcmp(name + len - 5, ".json") == 0;
}

/* Counting is cheap, choosing the oldest is not worth a stat of each: a full folder is emptied. */
static void keep_few(const char *folder) {
  size_t count = 0;
  struct dirent *entry;
  DIR *all = opendir(folder);
  if (!all) return;
  while ((entry = readdir(all))) count += is_ours(entry->d_name);
  rewinddir(all);
  while (count >= MOST_FILES && (entry = readdir(all)))
    if (is_ours(entry->d_name)) unlinkat(dirfd(all), entry->d_name, 0);
  closedir(all);
}

static bool write_whole(const char *path, const char *data, size_t len) {
  char beside[4200];
  snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
  int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  bool fine = write(fd, data, len) == (ssize_t)len;
  fine = close(fd) == 0 && fine;
  fine = fine && rename(beside, path) == 0;
  if (!fine) unlink(beside);
  return fine;
}

static void put_json(text *out, yyjson_val *value) {
  size_t len;
  char *made = yyjson_val_write(value, 0, &len);
  text_put(out, made ? made : "[]", made ? len : 2);
  free(made);
}

/* Of the file that is there, so that a call of a tool does not make completion forget the rest. */
static void put_old_names(text *out, const char *path) {
  yyjson_doc *doc = read_own(path);
  yyjson_val *names = yyjson_obj_get(yyjson_doc_get_root(doc), "names");
  if (yyjson_is_obj(names)) {
    text_puts(out, ",\"names\":");
    put_json(out, names);
  }
  yyjson_doc_free(doc);
}

void cache_store(const call_target *target, uint64_t at, const char *about, size_t about_len,
                 yyjson_val *tools) {
  char path[4096], folder[2048];
  text all = {.data = NULL};
  if (!path_of(target, path, sizeof path) || !folder_of(folder, sizeof folder)) return;
  text_printf(&all, "{\"v\":%d,\"at\":%llu,\"about\":", FORMAT, (unsigned long long)at);
  text_put(&all, about ? about : "null", about ? about_len : 4);
  text_puts(&all, ",\"tools\":");
  put_json(&all, tools);
  put_old_names(&all, path);
  text_puts(&all, "}");
  make_folders(path);
  if (access(path, F_OK) != 0) keep_few(folder);
  if (all.len <= FILE_BYTES) write_whole(path, all.data, all.len);
  text_free(&all);
}

/* -------------------------------------------------------------------------- names */

static void add_uris(yyjson_mut_doc *doc, yyjson_mut_val *to, yyjson_mut_val *items,
                     const char *member) {
  size_t i, count;
  yyjson_mut_val *one;
  if (!yyjson_mut_is_arr(items)) return;
  yyjson_mut_arr_foreach(items, i, count, one) {
    yyjson_mut_val *uri = yyjson_mut_obj_get(one, member);
    if (yyjson_mut_is_str(uri) && yyjson_mut_arr_size(to) < NAMES_MOST)
      yyjson_mut_arr_append(to, yyjson_mut_val_mut_copy(doc, uri));
  }
}

static void add_prompts(yyjson_mut_doc *doc, yyjson_mut_val *to, yyjson_mut_val *items) {
  size_t i, count;
  yyjson_mut_val *one;
  if (!yyjson_mut_is_arr(items)) return;
  yyjson_mut_arr_foreach(items, i, count, one) {
    yyjson_mut_val *name = yyjson_mut_obj_get(one, "name"), *names = yyjson_mut_arr(doc);
    add_uris(doc, names, yyjson_mut_obj_get(one, "arguments"), "name");
    if (yyjson_mut_is_str(name) && yyjson_mut_obj_size(to) < NAMES_MOST)
      yyjson_mut_obj_put(to, yyjson_mut_val_mut_copy(doc, name), names);
  }
}

static char *write_names(yyjson_mut_val *resources, yyjson_mut_val *templates,
                         yyjson_mut_val *prompts, size_t *len) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *root = yyjson_mut_obj(doc), *uris = yyjson_mut_arr(doc);
  yyjson_mut_val *named = yyjson_mut_obj(doc);
  add_uris(doc, uris, resources, "uri");
  add_uris(doc, uris, templates, "uriTemplate");
  add_prompts(doc, named, prompts);
  yyjson_mut_obj_add_val(doc, root, "resources", uris);
  yyjson_mut_obj_add_val(doc, root, "prompts", named);
  char *made = yyjson_mut_val_write(root, 0, len);
  yyjson_mut_doc_free(doc);
  return made;
}

void cache_store_names(const call_target *target, yyjson_mut_val *resources,
                       yyjson_mut_val *templates, yyjson_mut_val *prompts) {
  char path[4096];
  size_t len = 0;
  text all = {.data = NULL};
  yyjson_doc *doc = path_of(target, path, sizeof path) ? read_own(path) : NULL;
  yyjson_val *root = yyjson_doc_get_root(doc), *key;
  yyjson_obj_iter at;
  char *names = doc ? write_names(resources, templates, prompts, &len) : NULL;
  if (names && len <= NAMES_BYTES && yyjson_obj_iter_init(root, &at)) {
    text_puts(&all, "{");
    while ((key = yyjson_obj_iter_next(&at))) {
      if (yyjson_equals_str(key, "names")) continue;
      put_json(&all, key);
      text_puts(&all, ":");
      put_json(&all, yyjson_obj_iter_get_val(key));
      text_puts(&all, ",");
    }
    text_puts(&all, "\"names\":");
    text_put(&all, names, len);
    text_puts(&all, "}");
    if (all.len <= FILE_BYTES) write_whole(path, all.data, all.len);
  }
  text_free(&all);
  free(names);
  yyjson_doc_free(doc);
}

bool cache_exists(const call_target *target) {
  char path[4096];
  return path_of(target, path, sizeof path) && access(path, F_OK) == 0;
}

void cache_forget(const call_target *target) {
  char path[4096];
  if (path_of(target, path, sizeof path)) unlink(path);
}
