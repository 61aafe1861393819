/* words.c - what a shell may offer behind `idem call`: servers that assistants know, tools and arguments that a server
 * told of the last time it was asked, or that a configuration has. Runs whenever someone presses a key: files are read, nothing is asked or started, and
 * only names that no shell could take for more than a word are printed. */
#include "words.h"
#include "cache.h"
#include "call.h"
#include "servers.h"
#include "target.h"

#include "verbs/words.h"

#include <stdio.h>
#include <string.h>

#define SAFE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define SAFE_IN_URIS SAFE_LETTERS "/:%+,@"

static bool is_made_of(yyjson_val *name, const char *letters) {
  const char *words = yyjson_get_str(name);
  size_t len = yyjson_get_len(name);
  return len && len <= 256 && words[0] != '-' && strspn(words, letters) >= len;
}

static bool is_safe(yyjson_val *name) { return is_made_of(name, SAFE_LETTERS); }

static void print_servers(const char *config) {
  known_servers servers;
  if (servers_find(&servers, config)) {
    for (size_t i = 0; i < servers.count; i++) {
      const char *name = servers.items[i].name;
      if (*name && *name != '-' && strspn(name, SAFE_LETTERS) == strlen(name)) puts(name);
    }
  }
  servers_free(&servers);
}

static yyjson_val *find_tool(yyjson_val *tools, const char *name) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(tools, &at)) return NULL;
  while ((one = yyjson_arr_iter_next(&at)))
    if (yyjson_equals_str(yyjson_obj_get(one, "name"), name)) return one;
  return NULL;
}

static void print_tools(yyjson_val *tools) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(tools, &at)) return;
  while ((one = yyjson_arr_iter_next(&at))) {
    yyjson_val *name = yyjson_obj_get(one, "name");
    if (is_safe(name)) puts(yyjson_get_str(name));
  }
}

/* NAME= was written already. */
static bool is_given(int argc, char **argv, yyjson_val *name) {
  size_t len = yyjson_get_len(name);
  for (int i = 0; i < argc - 1; i++)
    if (strncmp(argv[i], yyjson_get_str(name), len) == 0 && strchr("=:", argv[i][len]) &&
        argv[i][len])
      return true;
  return false;
}

static void print_arguments(yyjson_val *tool, int argc, char **argv) {
  yyjson_obj_iter at;
  yyjson_val *key;
  yyjson_val *known = yyjson_obj_get(yyjson_obj_get(tool, "inputSchema"), "properties");
  if (strchr(argv[argc - 1], '=') || !yyjson_obj_iter_init(known, &at)) return;
  while ((key = yyjson_obj_iter_next(&at)))
    if (is_safe(key) && !is_given(argc, argv, key)) printf("%s=\n", yyjson_get_str(key));
}

static void print_uris(yyjson_val *uris) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(uris, &at)) return;
  while ((one = yyjson_arr_iter_next(&at)))
    if (is_made_of(one, SAFE_IN_URIS)) puts(yyjson_get_str(one));
}

static void print_prompts(yyjson_val *prompts) {
  yyjson_obj_iter at;
  yyjson_val *key;
  if (!yyjson_obj_iter_init(prompts, &at)) return;
  while ((key = yyjson_obj_iter_next(&at)))
    if (is_safe(key)) puts(yyjson_get_str(key));
}

static void print_prompt_arguments(yyjson_val *names, int argc, char **argv) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (strchr(argv[argc - 1], '=') || !yyjson_arr_iter_init(names, &at)) return;
  while ((one = yyjson_arr_iter_next(&at)))
    if (is_safe(one) && !is_given(argc, argv, one)) printf("%s=\n", yyjson_get_str(one));
}

/* What is behind --prompt, --read and --complete, or the arguments of the prompt that they name. */
static bool print_names(const call_glance *line, const call_cache *cache, int argc, char **argv) {
  if (line->at_prompt) print_prompts(cache_names(cache, "prompts"));
  if (line->at_resource) print_uris(cache_names(cache, "resources"));
  if (line->at_prompt || line->at_resource) return true;
  if (!line->prompt) return false;
  print_prompt_arguments(yyjson_obj_get(cache_names(cache, "prompts"), line->prompt), argc, argv);
  return true;
}

/* A configuration says itself what it has; a server must have been asked before. */
static bool print_file(const call_glance *line, int argc, char **argv) {
  size_t len = strlen(line->target);
  if (len < 5 || strcmp(line->target + len - 5, ".json") != 0) return false;
  if (line->at_prompt) return words_of_prompts(line->target);
  if (line->at_resource || line->prompt || !(line->at_tool || line->tool)) return false;
  return words_of_tools(line->target, line->at_tool ? NULL : line->tool, argc, argv);
}

static void print_known(const call_glance *line, int argc, char **argv) {
  call_target target;
  call_cache cache = {.doc = NULL};
  if (target_glance(&target, line->target, line->config) && cache_load(&cache, &target)) {
    bool named = print_names(line, &cache, argc, argv);
    if (!named && line->at_tool)
      print_tools(cache_tools(&cache));
    else if (!named && line->tool)
      print_arguments(find_tool(cache_tools(&cache), line->tool), argc, argv);
  }
  cache_free(&cache);
  target_free(&target);
}

int call_words(int argc, char **argv) {
  call_glance line;
  if (argc == 0) return 0;
  call_options_glance(&line, argc, argv);
  if (line.elsewhere) return 0;
  if (line.at_target)
    print_servers(line.config);
  else if (line.target && !print_file(&line, argc, argv))
    print_known(&line, argc, argv);
  return 0;
}
