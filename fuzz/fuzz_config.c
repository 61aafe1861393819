/* fuzz_config.c - whatever a configuration file says, it is read or refused; and whatever its values
 * are, none of them becomes an option, two words or nothing at all in a program's arguments.
 * A tool's own members serve as the arguments of its "run": "{description}" is a value like any. */
#include "../cli/cli.h"
#include "../cli/config/source.h"
#include "../cli/config/template.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(bool promise) {
  if (!promise) abort();
}

static void drop_line(void *ctx, const char *line, size_t len) { (void)ctx, (void)line, (void)len; }

/* --------------------------------------------------------------------- arguments */

/* Whether one of the slot's words may begin so because the file says it, not a value. */
static bool written_so(const word_template *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (words[i].count && !words[i].pieces[0].is_name && words[i].pieces[0].text[0] == '-')
      return true;
  return false;
}

/* A number behind its option may be negative; a word that begins with a name and stands alone may not
 * begin with a dash. */
static bool may_have_dashes(const slot *self) {
  return self->after_dashes || self->count > 1 || self->otherwise_count > 1 ||
         written_so(self->words, self->count) || written_so(self->otherwise, self->otherwise_count);
}

static void check_words(const arguments_template *of, const word_list *made) {
  bool dashes = false;
  size_t bytes = 0;
  for (size_t i = 0; i < of->count; i++) dashes = dashes || may_have_dashes(&of->slots[i]);
  check(made->count <= WORDS_MAX);
  for (size_t i = 0; i < made->count; i++) {
    bytes += strlen(made->items[i]);
    check(dashes || made->items[i][0] != '-');
  }
  check(bytes == made->bytes && bytes <= WORDS_BYTES_MAX); /* so there is no NUL in them */
  check(!made->items || !made->items[made->count]);
}

static void expand(yyjson_val *tool, yyjson_val *run) {
  config_memory memory = {.last = NULL};
  arguments_template compiled = {.slots = NULL};
  template_fault fault = {.sentence = ""};
  yyjson_val *at = NULL;
  word_list made;
  if (!template_compile(&compiled, run, &memory, &at)) {
    bool fine = template_expand(&compiled, &(values){.arguments = tool}, &made, &fault);
    check(fine || fault.sentence[0]);
    if (fine) check_words(&compiled, &made);
    word_list_free(&made);
  }
  memory_free(&memory);
}

/* -------------------------------------------------------------------------- files */

/* The file's name is told in every line about it, and the fuzzer learns from what is compared with it:
 * so the name is always the same, in a folder of this process. */
static char folder[64], path[80];

static void read_config(idem_log *log) {
  config_source source;
  /* With some faults reading goes on, to tell of all at once; nothing is served then. */
  if (source_read(&source, path, log, NULL) && source_check(&source, embedded_idem_schema_json) &&
      source.faults == 0) {
    yyjson_val *name, *tool, *tools = yyjson_obj_get(yyjson_doc_get_root(source.doc), "tools");
    size_t i, count;
    idem_each_member(tools, i, count, name, tool) {
      yyjson_val *run = yyjson_obj_get(tool, "run");
      if (run) expand(tool, run);
    }
  }
  source_free(&source);
}

static void remove_folder(void) {
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  snprintf(folder, sizeof folder, "%s/idem-fuzz-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  check(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/idem.json", folder);
  return atexit(remove_folder);
}

static void write_file(const uint8_t *data, size_t size) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  idem_log *log = NULL;
  write_file(data, size);
  check(idem_log_new(&(idem_log_opts){.write = drop_line}, &log) == IDEM_OK);
  read_config(log);
  idem_log_free(log);
  return 0;
}
