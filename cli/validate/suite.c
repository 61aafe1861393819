/* suite.c - runs files of the JSON Schema organisation's test suite.
 * The suite's remote documents are registered under the address it gives them; nothing is fetched.
 * The draft follows from the folder's name, and the format folder asserts formats. */
#include "validate.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REMOTE_BASE "http://localhost:1234/"
#define PATH_BYTES 4096

typedef struct suite_run {
  settings *s;
  idem_schema_ctx *ctx;
  const char *file;
  size_t *passed, *failed;
} suite_run;

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The entries of a folder, sorted; NULL-terminated; to be freed with free_names. */
static char **list_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return NULL;
  char **names = NULL;
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char **grown = realloc(names, (count + 2) * sizeof *names);
    if (!grown) abort();
    names = grown;
    names[count] = strdup(entry->d_name);
    if (!names[count++]) abort();
    names[count] = NULL;
  }
  closedir(folder);
  if (names) qsort(names, count, sizeof *names, by_name);
  return names ? names : calloc(1, sizeof *names);
}

static void free_names(char **names) {
  for (size_t i = 0; names && names[i]; i++) free(names[i]);
  free(names);
}

static bool ends_with(const char *text, const char *end) {
  size_t len = strlen(text), end_len = strlen(end);
  return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* --------------------------------------------------------------- remotes */

static bool register_file(settings *s, const char *path, const char *relative) {
  char uri[PATH_BYTES + sizeof REMOTE_BASE];
  size_t len;
  char *text = read_file(path, &len);
  if (!text) return false;
  snprintf(uri, sizeof uri, "%s%s", REMOTE_BASE, relative);
  idem_status status = idem_schema_registry_add(s->registry, uri, text, len);
  free(text);
  if (status == IDEM_OK || status == IDEM_E_EXISTS) return true;
  fprintf(stderr, "idem-validate: %s: %s\n", path, idem_status_text(status));
  return false;
}

static bool register_folder(settings *s, const char *path, const char *relative) {
  char **names = list_folder(path);
  bool good = names != NULL;
  for (size_t i = 0; good && names[i]; i++) {
    char inner[PATH_BYTES], inner_relative[PATH_BYTES];
    snprintf(inner, sizeof inner, "%s/%s", path, names[i]);
    snprintf(inner_relative, sizeof inner_relative, "%s%s%s", relative, *relative ? "/" : "",
             names[i]);
    if (is_folder(inner))
      good = register_folder(s, inner, inner_relative);
    else if (ends_with(names[i], ".json"))
      good = register_file(s, inner, inner_relative);
  }
  free_names(names);
  return good;
}

/* The remotes folder beside the suite's tests, a few levels up. */
static bool find_remotes(settings *s, const char *path) {
  static const char up[] = "/../../../../..";
  char candidate[PATH_BYTES];
  if (s->remotes) return register_folder(s, s->remotes, "");
  for (int level = 0; level < 6; level++) {
    snprintf(candidate, sizeof candidate, "%s%.*s/remotes", path, level * 3, up);
    if (is_folder(candidate)) return register_folder(s, candidate, "");
  }
  return true;
}

/* ----------------------------------------------------------------- cases */

static void note_failure(suite_run *run, const char *group, const char *test, const char *why) {
  ++*run->failed;
  printf("FAILED %s: %s: %s: %s\n", run->file, group, test, why);
}

static const char *text_of(yyjson_val *object, const char *name) {
  const char *text = yyjson_get_str(yyjson_obj_get(object, name));
  return text ? text : "?";
}

static void run_test(suite_run *run, const idem_schema *schema, const char *group,
                     yyjson_val *test) {
  idem_schema_result result;
  bool expected = yyjson_get_bool(yyjson_obj_get(test, "valid"));
  idem_status status =
      idem_schema_validate(schema, run->ctx, yyjson_obj_get(test, "data"), &run->s->check, &result);
  const char *name = text_of(test, "description");
  if (status != IDEM_OK)
    note_failure(run, group, name, result.limit ? result.limit : idem_status_text(status));
  else if (result.valid != expected)
    note_failure(run, group, name, expected ? "should be valid" : "should be invalid");
  else
    ++*run->passed;
}

static void run_group(suite_run *run, yyjson_val *group) {
  const char *name = text_of(group, "description");
  yyjson_val *tests = yyjson_obj_get(group, "tests"), *test;
  idem_schema *schema;
  idem_schema_fault fault;
  size_t i, max;
  idem_status status =
      idem_schema_compile_value(&run->s->compile, yyjson_obj_get(group, "schema"), &schema, &fault);
  yyjson_arr_foreach(tests, i, max, test) {
    if (status == IDEM_OK)
      run_test(run, schema, name, test);
    else
      note_failure(run, name, text_of(test, "description"), fault.sentence);
  }
  idem_schema_free(schema);
}

static bool run_file(settings *s, const char *path, size_t *passed, size_t *failed) {
  size_t len, i, max;
  char *text = read_file(path, &len);
  if (!text) return false;
  yyjson_doc *doc = yyjson_read_opts(text, len, YYJSON_READ_NUMBER_AS_RAW, NULL, NULL);
  yyjson_val *groups = yyjson_doc_get_root(doc), *group;
  suite_run run = {.s = s, .file = path, .passed = passed, .failed = failed};
  settings before = *s;
  if (!s->draft_given)
    s->compile.draft = strstr(path, "draft7/") ? IDEM_SCHEMA_DRAFT_07 : IDEM_SCHEMA_DRAFT_2020_12;
  if (strstr(path, "/format/")) s->compile.assert_formats = true;
  bool good = yyjson_is_arr(groups) && idem_schema_ctx_new(NULL, &run.ctx) == IDEM_OK;
  if (!yyjson_is_arr(groups)) fprintf(stderr, "idem-validate: %s: not a suite file\n", path);
  if (good) {
    yyjson_arr_foreach(groups, i, max, group) { run_group(&run, group); }
    idem_schema_ctx_free(run.ctx);
  }
  *s = before;
  yyjson_doc_free(doc);
  free(text);
  return good;
}

static bool run_folder(settings *s, const char *path, size_t *passed, size_t *failed) {
  if (!is_folder(path)) return run_file(s, path, passed, failed);
  char **names = list_folder(path);
  bool good = names != NULL;
  for (size_t i = 0; good && names[i]; i++) {
    char inner[PATH_BYTES];
    snprintf(inner, sizeof inner, "%s/%s", path, names[i]);
    bool folder = is_folder(inner);
    if (folder && strcmp(names[i], "remotes") == 0) continue;
    if (folder && strcmp(names[i], "optional") == 0 && !s->optional) continue;
    if (folder || ends_with(names[i], ".json")) good = run_folder(s, inner, passed, failed);
  }
  free_names(names);
  return good;
}

bool run_suite(settings *s, const char *path, size_t *passed, size_t *failed) {
  struct stat info;
  if (stat(path, &info) != 0) {
    fprintf(stderr, "idem-validate: %s: no such suite\n", path);
    return false;
  }
  return find_remotes(s, path) && run_folder(s, path, passed, failed);
}
