/* source.c - see source.h. yyjson unescapes strings in place, so the address of a string or of a
 * number is its place in the file; objects and arrays are placed by the first thing in them. */
#include "source.h"

#include <errno.h>
#include <idem/schema.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)4 << 20)
#define FAULTS_TOLD 100u
#define DEPTH_MAX 200u /* of values; whoever reads them later may recurse */
#define READ_FLAGS                                                                                 \
  (YYJSON_READ_INSITU | YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS |           \
   YYJSON_READ_NUMBER_AS_RAW)

/* ------------------------------------------------------------------------- places */

static void say(const config_source *self, const char *place, bool is_fault, const char *format,
                va_list arguments) IDEM_PRINTF(4, 0);
static void say_at(const config_source *self, size_t offset, bool is_fault, const char *format,
                   va_list arguments) IDEM_PRINTF(4, 0);

/* One fault, one line. */
static void say(const config_source *self, const char *place, bool is_fault, const char *format,
                va_list arguments) {
  char sentence[1024];
  vsnprintf(sentence, sizeof sentence, format, arguments);
  if (self->log)
    idem_logf(self->log, is_fault ? IDEM_LOG_ERROR : IDEM_LOG_WARN,
              is_fault ? "fault in the configuration" : "note on the configuration", "%s%s", place,
              sentence);
  else
    fprintf(stderr, "%s%s\n", place, sentence);
}

static void say_at(const config_source *self, size_t offset, bool is_fault, const char *format,
                   va_list arguments) {
  char place[512];
  size_t line = 1, column = 1;
  for (size_t i = 0; i < offset && i < self->len; i++) {
    column++;
    if (self->text[i] != '\n') continue;
    line++;
    column = 1;
  }
  const char *slash = self->log ? strrchr(self->path, '/') : NULL; /* logs hide whole paths */
  snprintf(place, sizeof place, "%s:%zu:%zu: ", slash ? slash + 1 : self->path, line, column);
  say(self, place, is_fault, format, arguments);
}

static const char *address_of(yyjson_val *value) {
  while (value && (yyjson_is_arr(value) || yyjson_is_obj(value))) {
    if (yyjson_get_len(value) == 0) return NULL;
    value = unsafe_yyjson_get_first(value);
  }
  if (yyjson_is_str(value)) return yyjson_get_str(value) - 1; /* the quote before it */
  if (yyjson_is_raw(value)) return yyjson_get_raw(value);
  return NULL;
}

void source_fault(config_source *self, yyjson_val *at, const char *format, ...) {
  const char *address = address_of(at);
  va_list arguments;
  if (++self->faults > FAULTS_TOLD) return;
  va_start(arguments, format);
  say_at(self, address ? (size_t)(address - self->parsed) : 0, true, format, arguments);
  va_end(arguments);
}

void source_note(const config_source *self, yyjson_val *at, const char *format, ...) {
  const char *address = address_of(at);
  va_list arguments;
  va_start(arguments, format);
  say_at(self, address ? (size_t)(address - self->parsed) : 0, false, format, arguments);
  va_end(arguments);
}

/* Reads one token of a JSON Pointer, ~0 and ~1 undone; returns what follows it. */
static const char *next_token(const char *pointer, char *token, size_t size) {
  size_t len = 0;
  for (; *pointer && *pointer != '/'; pointer++) {
    char c = *pointer;
    if (c == '~' && (pointer[1] == '0' || pointer[1] == '1')) c = *++pointer == '0' ? '~' : '/';
    if (len + 1 < size) token[len++] = c;
  }
  token[len] = 0;
  return pointer;
}

static yyjson_val *member_key(yyjson_val *object, const char *name, size_t len) {
  yyjson_obj_iter iter = yyjson_obj_iter_with(object);
  for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter));)
    if (yyjson_equals_strn(key, name, len)) return key;
  return NULL;
}

yyjson_val *source_find(const config_source *self, const char *pointer) {
  yyjson_val *value = yyjson_doc_get_root(self->doc), *nearest = value;
  char token[512];
  while (value && *pointer == '/') {
    pointer = next_token(pointer + 1, token, sizeof token);
    yyjson_val *key = yyjson_is_obj(value) ? member_key(value, token, strlen(token)) : NULL;
    if (key)
      value = yyjson_obj_iter_get_val(key);
    else
      value = yyjson_is_arr(value) ? yyjson_arr_get(value, strtoul(token, NULL, 10)) : NULL;
    if (key || address_of(value)) nearest = key ? key : value;
  }
  return nearest;
}

/* ------------------------------------------------------------------------ reading */

static void say_plainly(const config_source *self, const char *format, ...) IDEM_PRINTF(2, 3);

static void say_plainly(const config_source *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(self, "", true, format, arguments);
  va_end(arguments);
}

static bool cannot_read(const config_source *self, const char *why) {
  say_plainly(self, "idem: cannot read %s: %s", self->path, why);
  if (errno == ENOENT && !self->log) fputs("make one with: idem init\n", stderr);
  return false;
}

static void no_json(config_source *self, size_t offset, const char *format, ...) IDEM_PRINTF(3, 4);

static void no_json(config_source *self, size_t offset, const char *format, ...) {
  va_list arguments;
  self->faults++;
  va_start(arguments, format);
  say_at(self, offset, true, format, arguments);
  va_end(arguments);
}

static bool read_text(config_source *self) {
  errno = 0;
  FILE *file = fopen(self->path, "r");
  if (!file) return cannot_read(self, strerror(errno));
  self->text = calloc(1, FILE_MAX + 1);
  if (self->text) self->len = fread(self->text, 1, FILE_MAX + 1, file);
  bool failed = !self->text || ferror(file);
  fclose(file);
  if (failed) return cannot_read(self, strerror(errno));
  if (self->len > FILE_MAX) return cannot_read(self, "it is larger than 4 MiB");
  return true;
}

void source_files_clear(source_files *self) {
  for (size_t i = 0; i < self->count; i++) free(self->paths[i]);
  self->count = 0;
}

void source_note_file(config_source *self, const char *path) {
  source_files *files = self->files;
  if (!files || files->count == SOURCE_FILES) return;
  char *copy = strdup(path);
  if (!copy) return;
  files->paths[files->count] = copy;
  files->stamps[files->count++] = stamp_file(path);
}

static bool find_folder(config_source *self) {
  char *whole = realpath(self->path, NULL);
  if (!whole) return cannot_read(self, strerror(errno));
  source_note_file(self, whole); /* where a link leads */
  char *slash = strrchr(whole, '/');
  slash[slash == whole] = 0;
  self->folder = whole;
  return true;
}

static bool parse(config_source *self) {
  yyjson_read_err fault;
  self->parsed = calloc(1, self->len + YYJSON_PADDING_SIZE);
  if (!self->parsed) return cannot_read(self, "out of memory");
  memcpy(self->parsed, self->text, self->len);
  self->doc = yyjson_read_opts(self->parsed, self->len, READ_FLAGS, NULL, &fault);
  if (self->doc) return true;
  no_json(self, fault.pos, "this is not JSON: %s", fault.msg);
  return false;
}

bool source_read(config_source *self, const char *path, idem_log *log, source_files *files) {
  *self = (config_source){.path = strdup(path), .log = log, .files = files};
  if (files) source_files_clear(files);
  if (self->path) source_note_file(self, path);
  return self->path && read_text(self) && find_folder(self) && parse(self);
}

void source_free(config_source *self) {
  yyjson_doc_free(self->doc);
  free(self->parsed);
  free(self->text);
  free(self->folder);
  free(self->path);
}

/* ----------------------------------------------------------------------- checking */

/* True: it was there before. Out of memory, it is not noticed. */
static bool is_again(idem__map *seen, yyjson_val *key) {
  const char *name = yyjson_get_str(key);
  if (idem__map_get(seen, name, yyjson_get_len(key))) return true;
  idem__map_put(seen, name, yyjson_get_len(key), key);
  return false;
}

/* A name given twice is a mistake that JSON readers settle in silence, each in its own way. */
static void check_twice(config_source *self, yyjson_val *value, unsigned depth) {
  yyjson_val *key, *member, *item;
  size_t i, count;
  idem__map seen;
  if (yyjson_is_ctn(value) && depth == DEPTH_MAX) {
    source_fault(self, value, "more than %u values stand one inside the other here", DEPTH_MAX);
    return;
  }
  if (yyjson_is_arr(value))
    yyjson_arr_foreach(value, i, count, item) check_twice(self, item, depth + 1);
  if (!yyjson_is_obj(value)) return;
  idem__map_init(&seen, NULL, 0);
  yyjson_obj_foreach(value, i, count, key, member) {
    bool again = yyjson_obj_size(value) > 16
                     ? is_again(&seen, key)
                     : member_key(value, yyjson_get_str(key), yyjson_get_len(key)) != key;
    if (again) source_fault(self, key, "\"%s\" is given twice: remove one", yyjson_get_str(key));
    check_twice(self, member, depth + 1);
  }
  idem__map_deinit(&seen);
}

/* Names that other programs have for it, and what people write at first. */
static const char *advice(const idem_schema_error *error) {
  static const struct {
    const char *name, *words;
  } known[] = {
      {"run", "; write each word by itself: [\"grep\", \"-n\", \"{text}\"]"},
      {"command", "; a tool's program and its arguments are \"run\": [\"grep\", \"{text}\"]"},
      {"cmd", "; a tool's program and its arguments are \"run\": [\"grep\", \"{text}\"]"},
      {"timeout", "; here it is \"deadline_ms\", in milliseconds"},
      {"timeout_ms", "; here it is \"deadline_ms\""},
      {"parameters", "; here it is \"args\""},
      {"arguments", "; a tool's are \"args\""},
      {"inputSchema", "; here it is \"input\""},
      {"outputSchema", "; here it is \"output_schema\""},
      {"sql", "; here it is \"query\""},
      {"url", "; a web service is \"http\": {\"url\": ...}"},
      {"shell", "; no shell is used: name the program in \"run\""},
  };
  const char *slash = strrchr(error->instance_path, '/');
  bool of_tool = strncmp(error->instance_path, "/tools/", strlen("/tools/")) == 0;
  if (!slash || !of_tool || strstr(error->sentence, "did you mean")) return "";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, slash + 1) == 0)
      return i == 0 || strstr(error->sentence, "unknown property") ? known[i].words : "";
  return "";
}

static void tell_errors(config_source *self, const idem_schema_result *result) {
  for (size_t i = 0; i < result->error_count; i++)
    source_fault(self, source_find(self, result->errors[i].instance_path), "%s%s",
                 result->errors[i].sentence, advice(&result->errors[i]));
  if (result->limit) source_fault(self, NULL, "too much to check: %s", result->limit);
}

bool source_check(config_source *self, const char *schema_text) {
  static const idem_schema_check check = {
      .all_errors = true, .show_values = true, .root_name = "config", .max_errors = 20};
  idem_schema *schema = NULL;
  idem_schema_ctx *ctx = NULL;
  idem_schema_fault fault = {.sentence = "no memory"};
  idem_schema_result result = {.valid = false};
  if (idem_schema_compile(NULL, schema_text, strlen(schema_text), &schema, &fault) == IDEM_OK &&
      idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate(schema, ctx, yyjson_doc_get_root(self->doc), &check, &result);
  else
    source_fault(self, NULL, "%s", fault.sentence);
  if (!result.valid) tell_errors(self, &result);
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  check_twice(self, yyjson_doc_get_root(self->doc), 0);
  return result.valid && self->faults == 0;
}
