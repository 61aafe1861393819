/* source.c - see source.h. yyjson unescapes strings in place, so the address of a string or of a
 * number is its place in the file; objects and arrays are placed by the first thing in them. */
#include "source.h"

#include "regular_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)4 << 20)
#define FAULTS_TOLD 100u
#define PLACE_BYTES 512u
#define SENTENCE_BYTES 1024u
#define READ_FLAGS                                                                                 \
  (YYJSON_READ_INSITU | YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS |           \
   YYJSON_READ_NUMBER_AS_RAW)

/* ------------------------------------------------------------------------- places */

static void say(const config_source *self, const char *place, bool is_fault, const char *format,
                va_list arguments) IDEM_PRINTF(4, 0);
static void say_at(const config_source *self, size_t offset, bool is_fault, const char *format,
                   va_list arguments) IDEM_PRINTF(4, 0);

/* The file is the operator's own, and so is the log: paths stand whole. */
static void tell(const config_source *self, const char *place, bool is_fault,
                 const char *sentence) {
  char detail[PLACE_BYTES + SENTENCE_BYTES];
  int len = snprintf(detail, sizeof detail, "%s%s", place, sentence);
  idem_log_write(self->log, &(idem_log_record){.level = is_fault ? IDEM_LOG_ERROR : IDEM_LOG_WARN,
                                               .message = is_fault ? "fault in the configuration"
                                                                   : "note on the configuration",
                                               .detail = detail,
                                               .detail_len = (size_t)len,
                                               .plain = true});
}

/* One fault, one line. */
static void say(const config_source *self, const char *place, bool is_fault, const char *format,
                va_list arguments) {
  char sentence[SENTENCE_BYTES];
  vsnprintf(sentence, sizeof sentence, format, arguments);
  if (self->log)
    tell(self, place, is_fault, sentence);
  else
    fprintf(stderr, "%s%s\n", place, sentence);
}

static void say_at(const config_source *self, size_t offset, bool is_fault, const char *format,
                   va_list arguments) {
  char place[PLACE_BYTES];
  size_t line = 0;
  while (line + 1 < self->line_count && self->lines[line + 1] <= offset) line++;
  snprintf(place, sizeof place, "%s:%zu:%zu: %s", self->path, line + 1,
           offset - self->lines[line] + 1, is_fault || self->log ? "" : "note: ");
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
  say_at(self, address ? (size_t)(address - self->text) : 0, true, format, arguments);
  va_end(arguments);
}

void source_note(const config_source *self, yyjson_val *at, const char *format, ...) {
  const char *address = address_of(at);
  va_list arguments;
  va_start(arguments, format);
  say_at(self, address ? (size_t)(address - self->text) : 0, false, format, arguments);
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

yyjson_val *source_key(yyjson_val *object, const char *name, size_t len) {
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
    yyjson_val *key = yyjson_is_obj(value) ? source_key(value, token, strlen(token)) : NULL;
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
  if (errno == ENOENT && !self->log) fprintf(stderr, "make one with: idem init %s\n", self->path);
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
  const char *why;
  FILE *file = regular_file_open(self->path, &why);
  if (!file) return cannot_read(self, why);
  errno = 0;
  self->text = calloc(1, FILE_MAX + 1 + YYJSON_PADDING_SIZE);
  if (self->text) self->len = fread(self->text, 1, FILE_MAX + 1, file);
  bool failed = !self->text || ferror(file);
  fclose(file);
  if (failed) return cannot_read(self, strerror(errno));
  if (self->len > FILE_MAX) return cannot_read(self, "it is larger than 4 MiB");
  return true;
}

/* Once strings are unescaped in place, there are line ends in them. */
static bool find_lines(config_source *self) {
  const char *at, *end = self->text + self->len;
  self->line_count = 1;
  for (at = self->text; (at = memchr(at, '\n', (size_t)(end - at))); at++) self->line_count++;
  self->lines = calloc(self->line_count, sizeof *self->lines);
  if (!self->lines) return cannot_read(self, "out of memory");
  uint32_t *line = self->lines;
  for (at = self->text; (at = memchr(at, '\n', (size_t)(end - at))); at++)
    *++line = (uint32_t)(at + 1 - self->text);
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

/* What people write at first, and what it should be. */
static const char *mend(const config_source *self, const yyjson_read_err *fault) {
  char there = fault->pos < self->len ? self->text[fault->pos] : 0;
  if (there == '\'') return "; JSON has double quotes: \"";
  if (there == '\n' || there == '\r' || there == '\t')
    return "; a \" is missing before the line ends, or write \\n or \\t";
  if (there == '"' && strstr(fault->msg, "comma")) return "; a comma is missing before it";
  return "";
}

static bool parse(config_source *self) {
  yyjson_read_err fault;
  bool empty = !self->text[strspn(self->text, " \t\r\n")];
  self->doc = yyjson_read_opts(self->text, self->len, READ_FLAGS, NULL, &fault);
  if (self->doc) return true;
  if (empty)
    no_json(self, 0, "the file is empty; idem init FILE writes one to start from");
  else if (fault.pos >= self->len)
    no_json(self, fault.pos,
            "this is not JSON: the file ends too early; a } or ] or \" is missing");
  else
    no_json(self, fault.pos, "this is not JSON: %s%s", fault.msg, mend(self, &fault));
  return false;
}

bool source_read(config_source *self, const char *path, idem_log *log, source_files *files) {
  *self = (config_source){.path = strdup(path), .log = log, .files = files};
  if (files) source_files_clear(files);
  if (self->path) source_note_file(self, path);
  return self->path && read_text(self) && find_lines(self) && find_folder(self) && parse(self);
}

void source_free(config_source *self) {
  yyjson_doc_free(self->doc);
  free(self->broken);
  free(self->lines);
  free(self->text);
  free(self->folder);
  free(self->path);
}
