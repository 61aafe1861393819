/* print.c - see print.h. */
#include "print.h"
#include "text.h"

#include "config/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_NAMES 10000u

void printer_open(call_printer *self, const call_options *options) {
  *self = (call_printer){.options = options, .out = stdout, .terminal = isatty(1)};
}

/* -------------------------------------------------------------------------- texts */

static const char *member_text(yyjson_val *object, const char *name, size_t *len) {
  yyjson_val *value = yyjson_obj_get(object, name);
  *len = yyjson_get_len(value);
  return yyjson_get_str(value);
}

static bool is_type(yyjson_val *object, const char *type) {
  return yyjson_equals_str(yyjson_obj_get(object, "type"), type);
}

/* A text ends its line; an empty one has none. */
static void put_text(FILE *out, const char *data, size_t len) {
  text_show(out, data, len);
  if (len && data[len - 1] != '\n') fputc('\n', out);
}

static void put_json(call_printer *self, yyjson_val *value) {
  size_t len;
  yyjson_write_flag flags = self->terminal ? YYJSON_WRITE_PRETTY_TWO_SPACES : 0;
  char *made = yyjson_val_write(value, flags, &len);
  if (!made) memory_exhausted();
  put_text(self->out, made, len);
  free(made);
}

/* ------------------------------------------------------------------------- bytes */

static const char *ending_of(const char *mime_type, size_t len) {
  static const char *const rows[][2] = {
      {"image/png", "png"},       {"image/jpeg", "jpg"},      {"image/gif", "gif"},
      {"image/webp", "webp"},     {"image/svg+xml", "svg"},   {"image/bmp", "bmp"},
      {"image/tiff", "tiff"},     {"image/avif", "avif"},     {"audio/wav", "wav"},
      {"audio/x-wav", "wav"},     {"audio/mpeg", "mp3"},      {"audio/mp3", "mp3"},
      {"audio/ogg", "ogg"},       {"audio/flac", "flac"},     {"audio/mp4", "m4a"},
      {"audio/webm", "weba"},     {"application/pdf", "pdf"}, {"application/zip", "zip"},
      {"application/gzip", "gz"}, {"video/mp4", "mp4"},       {"text/plain", "txt"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i][0]) == len && strncasecmp(rows[i][0], mime_type, len) == 0)
      return rows[i][1];
  return "bin";
}

/* A file's name made of what was asked for: letters that no shell or file system takes for more. */
static void stem_of(const call_options *options, char *stem, size_t size) {
  const char *subject = options->subject ? options->subject : "result";
  const char *slash = options->kind == CALL_READ ? strrchr(subject, '/') : NULL;
  size_t len = 0;
  if (slash && slash[1]) subject = slash + 1;
  for (; *subject && len + 1 < size; subject++) {
    bool plain = (*subject >= 'a' && *subject <= 'z') || (*subject >= 'A' && *subject <= 'Z') ||
                 (*subject >= '0' && *subject <= '9') || *subject == '_' ||
                 (*subject == '-' && len) || (*subject == '.' && len);
    stem[len++] = plain ? *subject : '_';
  }
  stem[len] = 0;
}

static bool is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool printer_may_write(const char *output) {
  if (!output || strcmp(output, "-") == 0) return true;
  const char *slash = strrchr(output, '/');
  char *folder =
      slash ? strndup(output, slash == output ? 1 : (size_t)(slash - output)) : strdup(".");
  if (!folder) memory_exhausted();
  bool there = access(output, F_OK) == 0;
  bool fine = access(there ? output : folder, W_OK) == 0;
  if (fine && !there && slash && !slash[1]) fine = false, errno = ENOENT;
  if (fine && !there && !is_folder(folder)) fine = false, errno = ENOTDIR;
  if (!fine) call_say("-o %s: %s", output, strerror(errno));
  free(folder);
  return fine;
}

/* A new file; one that is there is never written over unless it was named. */
static int create(call_printer *self, const char *ending, char *path, size_t size) {
  const char *output = self->options->output;
  char stem[100];
  if (output && !is_folder(output) && !self->files) {
    snprintf(path, size, "%s", output);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  const char *folder = output && is_folder(output) ? output : ".";
  stem_of(self->options, stem, sizeof stem);
  for (unsigned i = 1; i < MOST_NAMES; i++) {
    const char *dot = strrchr(stem, '.');
    bool named = i == 1 && dot && strcmp(dot + 1, ending) == 0;
    if (named)
      snprintf(path, size, "%s/%s", folder, stem);
    else
      snprintf(path, size, "%s/%s-%u.%s", folder, stem, i, ending);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static bool write_all(int fd, const char *data, size_t len) {
  while (len) {
    ssize_t done = write(fd, data, len);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    len -= (size_t)done;
  }
  return true;
}

/* False, and said once: the result has too many. */
static bool may_save(call_printer *self) {
  if (self->files < PRINT_FILES) return true;
  if (self->files++ == PRINT_FILES)
    call_say("the result has more than %u files: the others are left out (--json has them)",
             PRINT_FILES);
  self->failed = true;
  return false;
}

static void save(call_printer *self, const char *mime_type, size_t mime_len, const text *bytes) {
  char path[4096] = "";
  if (!may_save(self)) return;
  int fd = create(self, ending_of(mime_type, mime_len), path, sizeof path);
  bool fine = fd >= 0 && write_all(fd, bytes->data, bytes->len);
  if (fd >= 0) fine = close(fd) == 0 && fine;
  self->files++;
  if (!fine) {
    call_say("%s: %s", *path ? path : "a file for the result", strerror(errno));
    self->failed = true;
    return;
  }
  fprintf(self->out, "%s (", path);
  text_show_line(self->out, mime_type, mime_len, 80);
  fprintf(self->out, ", %zu bytes)\n", bytes->len);
}

/* To stdout where that was asked for, or is a pipe that alone wants them. */
static void put_bytes(call_printer *self, yyjson_val *block, const char *member, bool alone) {
  size_t len, mime_len;
  const char *data = member_text(block, member, &len);
  const char *mime_type = member_text(block, "mimeType", &mime_len);
  text bytes = {.data = NULL};
  if (!mime_type) mime_type = "application/octet-stream", mime_len = strlen(mime_type);
  bool to_stdout =
      self->options->output ? strcmp(self->options->output, "-") == 0 : alone && !self->terminal;
  if (!data || !text_base64(&bytes, data, len)) {
    call_say("the server sent bytes that are no base64");
    self->failed = true;
  } else if (to_stdout && isatty(fileno(self->out))) {
    call_say("these are bytes, which are not for a terminal: -o FILE, or a pipe");
    self->at_terminal = true;
  } else if (to_stdout) {
    fwrite(bytes.data, 1, bytes.len, self->out);
  } else if (self->options->output || !self->terminal ||
             !inline_image(self->out, mime_type, data, len)) {
    save(self, mime_type, mime_len, &bytes);
  }
  text_free(&bytes);
}

/* ------------------------------------------------------------------------- content */

static void put_link(call_printer *self, yyjson_val *block) {
  static const char *const members[] = {"title", "name", "uri", "mimeType", "description"};
  bool first = true;
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    size_t len;
    const char *value = member_text(block, members[i], &len);
    if (!value || (i == 1 && yyjson_obj_get(block, "title"))) continue;
    if (!first) fputs(strcmp(members[i], "description") == 0 ? ": " : " ", self->out);
    if (i == 2) fputc('<', self->out);
    text_show_line(self->out, value, len, 2000);
    if (i == 2) fputc('>', self->out);
    first = false;
  }
  fputc('\n', self->out);
}

static void put_contents(call_printer *self, yyjson_val *contents, bool alone) {
  size_t len;
  const char *words = member_text(contents, "text", &len);
  if (words && !self->terminal && alone)
    fwrite(words, 1, len, self->out); /* a file, as it is */
  else if (words)
    put_text(self->out, words, len);
  else if (yyjson_obj_get(contents, "blob"))
    put_bytes(self, contents, "blob", alone);
  else
    put_json(self, contents);
}

static void put_block(call_printer *self, yyjson_val *block) {
  size_t len;
  const char *words = member_text(block, "text", &len);
  if (is_type(block, "text") && words)
    put_text(self->out, words, len);
  else if (is_type(block, "image") || is_type(block, "audio"))
    put_bytes(self, block, "data", false);
  else if (is_type(block, "resource") && yyjson_obj_get(block, "resource"))
    put_contents(self, yyjson_obj_get(block, "resource"), false);
  else if (is_type(block, "resource_link"))
    put_link(self, block);
  else
    put_json(self, block);
}

static void put_blocks(call_printer *self, yyjson_val *content) {
  yyjson_arr_iter at;
  yyjson_val *block;
  if (!yyjson_arr_iter_init(content, &at)) return;
  while ((block = yyjson_arr_iter_next(&at))) put_block(self, block);
}

/* ------------------------------------------------------------------------ -o FILE */

static bool has_bytes(yyjson_val *block) {
  yyjson_val *resource = yyjson_obj_get(block, "resource");
  return is_type(block, "image") || is_type(block, "audio") || yyjson_obj_get(block, "blob") ||
         yyjson_obj_get(resource, "blob");
}

static bool any_bytes(yyjson_val *blocks) {
  yyjson_arr_iter at;
  yyjson_val *block;
  if (!yyjson_arr_iter_init(blocks, &at)) return false;
  while ((block = yyjson_arr_iter_next(&at)))
    if (has_bytes(block)) return true;
  return false;
}

/* A result without bytes goes to the file that was named, as it would into a pipe. */
static void begin(call_printer *self, bool bytes) {
  const char *path = self->options->output;
  if (!path || bytes || self->file || strcmp(path, "-") == 0 || is_folder(path)) return;
  self->file = fopen(path, "we");
  if (self->file) {
    self->out = self->file;
    self->terminal = false;
    return;
  }
  call_say("%s: %s", path, strerror(errno));
  self->failed = true;
}

void printer_close(call_printer *self) {
  if (!self->file) return;
  bool fine = !ferror(self->file);
  if (fclose(self->file) == 0 && fine) return;
  call_say("%s: %s", self->options->output, strerror(errno));
  self->failed = true;
}

void print_json(call_printer *self, yyjson_val *value) {
  begin(self, false);
  put_json(self, value);
}

/* What failed goes where failures go, so that a script's variable does not hold it. */
void print_tool(call_printer *self, yyjson_val *result, yyjson_val *content, yyjson_val *structured,
                bool is_error) {
  bool json = self->options->json;
  if (!is_error || json) begin(self, !json && any_bytes(content));
  bool wants_json = json || !self->terminal;
  if (self->options->json && (is_error || !structured)) {
    put_json(self, result);
    return;
  }
  if (is_error) {
    self->out = stderr;
    self->terminal = isatty(2);
    call_say("the tool says that it failed:");
  }
  bool blocks = yyjson_arr_size(content) && !(structured && wants_json && !is_error);
  if (blocks)
    put_blocks(self, content);
  else if (structured)
    put_json(self, structured);
  else if (!yyjson_is_arr(content))
    call_say("the result has no content");
}

void print_resource(call_printer *self, yyjson_val *result) {
  yyjson_val *contents = yyjson_obj_get(result, "contents"), *one;
  yyjson_arr_iter at;
  begin(self, !self->options->json && any_bytes(contents));
  if (self->options->json || !yyjson_arr_iter_init(contents, &at)) {
    put_json(self, result);
    return;
  }
  while ((one = yyjson_arr_iter_next(&at))) put_contents(self, one, yyjson_arr_size(contents) == 1);
}

static bool messages_have_bytes(yyjson_val *messages) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(messages, &at)) return false;
  while ((one = yyjson_arr_iter_next(&at))) {
    yyjson_val *content = yyjson_obj_get(one, "content");
    if (has_bytes(content) || any_bytes(content)) return true;
  }
  return false;
}

static bool is_empty_text(yyjson_val *block) {
  return is_type(block, "text") && yyjson_equals_str(yyjson_obj_get(block, "text"), "");
}

/* Nothing of it is shown: who says it needs a line end of its own. */
static bool is_empty(yyjson_val *content) {
  yyjson_arr_iter at;
  yyjson_val *block;
  if (!yyjson_is_arr(content)) return is_empty_text(content);
  yyjson_arr_iter_init(content, &at);
  while ((block = yyjson_arr_iter_next(&at)))
    if (!is_empty_text(block)) return false;
  return true;
}

void print_prompt(call_printer *self, yyjson_val *result) {
  yyjson_val *messages = yyjson_obj_get(result, "messages"), *one;
  yyjson_arr_iter at;
  begin(self, !self->options->json && messages_have_bytes(messages));
  if (self->options->json || !yyjson_arr_iter_init(messages, &at)) {
    put_json(self, result);
    return;
  }
  while ((one = yyjson_arr_iter_next(&at))) {
    size_t len;
    const char *role = member_text(one, "role", &len);
    yyjson_val *content = yyjson_obj_get(one, "content");
    if (role) text_show_line(self->out, role, len, 40);
    fputs(is_empty(content) ? ":\n" : ": ", self->out);
    if (yyjson_is_arr(content))
      put_blocks(self, content);
    else
      put_block(self, content);
  }
}

/* One a line, whatever it is. */
static void put_value(FILE *out, const char *data, size_t len) {
  put_text(out, data, len);
  if (!len) fputc('\n', out);
}

void print_completion(call_printer *self, yyjson_val *result) {
  yyjson_val *values = yyjson_obj_get(yyjson_obj_get(result, "completion"), "values"), *one;
  yyjson_arr_iter at;
  begin(self, false);
  if (self->options->json || !yyjson_arr_iter_init(values, &at)) {
    put_json(self, result);
    return;
  }
  while ((one = yyjson_arr_iter_next(&at)))
    if (yyjson_is_str(one)) put_value(self->out, yyjson_get_str(one), yyjson_get_len(one));
}
