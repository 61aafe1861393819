/* words.c - see words.h. Runs whenever someone presses a key beside some file, so the file is only parsed:
 * no secret is fetched, no program looked for, and only names that no shell could take for more
 * than a word are printed. */
#include "words.h"

#include "serve.h"
#include <idem/json.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SAFE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static bool is_safe(const char *name, size_t len) {
  return len && len <= 128 && name[0] != '-' && strspn(name, SAFE_LETTERS) >= len;
}

/* NAME=... was written already. */
static bool is_given(char **argv, int argc, const char *name, size_t len) {
  for (int i = 0; i < argc; i++)
    if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=') return true;
  return false;
}

static void print_keys(yyjson_val *named) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(named, i, max, key, value) {
    (void)value;
    if (is_safe(yyjson_get_str(key), yyjson_get_len(key))) puts(yyjson_get_str(key));
  }
}

/* The short form writes an optional argument with a question mark. */
static void print_arguments(yyjson_val *tool, char **argv, int argc) {
  yyjson_val *args = yyjson_obj_get(tool, "args"), *key, *value;
  size_t i, max;
  if (!args) args = yyjson_obj_get(yyjson_obj_get(tool, "input"), "properties");
  idem_each_member(args, i, max, key, value) {
    (void)value;
    const char *name = yyjson_get_str(key);
    size_t len = yyjson_get_len(key);
    if (len && name[len - 1] == '?') len--;
    if (is_safe(name, len) && !is_given(argv, argc, name, len)) printf("%.*s=\n", (int)len, name);
  }
}

static void print_words(yyjson_val *root, const char *tool, char **argv, int argc) {
  yyjson_val *tools = yyjson_obj_get(root, "tools");
  if (!tool)
    print_keys(tools);
  else if (!strchr(argv[argc - 1], '='))
    print_arguments(yyjson_obj_get(tools, tool), argv, argc);
}

/* A pipe would hold us up. source_free if it is read. */
static bool read_file(config_source *source, const char *path) {
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
  if (source_read(source, path, NULL, NULL)) return true;
  source_free(source);
  return false;
}

int words_print(int argc, char **argv) {
  config_source source;
  const char *path, *tool;
  if (argc == 0 || !serve_options_glance(argc, argv, &path, &tool)) return 0;
  if (!read_file(&source, path)) return 1;
  print_words(yyjson_doc_get_root(source.doc), tool, argv, argc);
  source_free(&source);
  return 0;
}

bool words_of_tools(const char *path, const char *tool, int argc, char **argv) {
  config_source source;
  if (!read_file(&source, path)) return false;
  yyjson_val *root = yyjson_doc_get_root(source.doc);
  bool there = yyjson_is_obj(yyjson_obj_get(root, "tools"));
  if (there) print_words(root, tool, argv, argc);
  source_free(&source);
  return there;
}

bool words_of_prompts(const char *path) {
  config_source source;
  if (!read_file(&source, path)) return false;
  yyjson_val *prompts = yyjson_obj_get(yyjson_doc_get_root(source.doc), "prompts");
  bool there = yyjson_is_obj(prompts);
  if (there) print_keys(prompts);
  source_free(&source);
  return there;
}
