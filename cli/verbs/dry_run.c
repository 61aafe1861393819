/* dry_run.c - shows what a call would run: the exact words, the names in its environment, the
 * limits. Arguments come as NAME=VALUE; values are turned into what the tool's schema asks for. */
#include "http/http_tool.h"
#include "program/program.h"
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *near_name(const serve_config *config, const char *name) {
  const char **names = calloc(config->shown_count + 1, sizeof *names);
  const char *near = NULL;
  if (!names) return NULL;
  for (size_t i = 0; i < config->shown_count; i++) names[i] = config->tools[i].name;
  near = idem_schema_suggest(name, strlen(name), names, config->shown_count);
  free(names);
  return near;
}

static const tool_config *find_tool(const serve_config *config, const char *name) {
  for (size_t i = 0; i < config->shown_count; i++)
    if (strcmp(config->tools[i].name, name) == 0) return &config->tools[i];
  const char *near = near_name(config, name);
  fprintf(stderr, "idem serve: there is no tool %s in %s", name, config->source.path);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\nthere are:", stderr);
  for (size_t i = 0; i < config->shown_count; i++) fprintf(stderr, " %s", config->tools[i].name);
  fputc('\n', stderr);
  return NULL;
}

static bool complain(const char *sentence) {
  fprintf(stderr, "idem serve: %s\n", sentence);
  return false;
}

/* Strings at first; then shaped by the schema. */
static yyjson_doc *read_arguments(const tool_config *tool, char **given, int count) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *object = yyjson_mut_obj(doc);
  yyjson_mut_doc_set_root(doc, object);
  for (int i = 0; i < count; i++) {
    const char *equals = strchr(given[i], '=');
    if (!equals) {
      fprintf(stderr, "idem serve: %s is no NAME=VALUE; files and flags go before --dry-run\n",
              given[i]);
      yyjson_mut_doc_free(doc);
      return NULL;
    }
    yyjson_mut_val *name = yyjson_mut_strn(doc, given[i], (size_t)(equals - given[i]));
    yyjson_mut_obj_put(object, name, yyjson_mut_str(doc, equals + 1));
  }
  yyjson_doc *plain = yyjson_mut_doc_imut_copy(doc, NULL);
  yyjson_doc *typed = plain ? config_fill(tool, yyjson_doc_get_root(plain), true) : NULL;
  yyjson_doc_free(plain);
  yyjson_mut_doc_free(doc);
  return typed;
}

static bool check(const tool_config *tool, yyjson_val *arguments) {
  idem_schema_ctx *ctx = NULL;
  idem_schema_result result = {.valid = false};
  if (idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate(tool->input, ctx, arguments,
                         &(idem_schema_check){.root_name = "arguments"}, &result);
  if (!result.valid)
    complain(result.error_count ? result.errors[0].sentence : "arguments cannot be checked");
  idem_schema_ctx_free(ctx);
  return result.valid;
}

static void print_quoted(const char *text) {
  idem_buf out;
  idem_buf_init(&out, NULL, (size_t)8 << 20);
  if (idem_text_json_string(&out, text, strlen(text)) == IDEM_OK)
    printf("%.*s", (int)out.len, out.data);
  idem_buf_deinit(&out);
}

static void print_list(const char *const *paths) {
  for (; *paths; paths++) printf(", %s", *paths);
}

static void print_bounds(const serve_config *config, const tool_config *tool) {
  if (tool->unconfined) {
    puts("confined     no (\"confine\": false)");
    return;
  }
  printf("may read     the system's folders, %s", config->source.folder);
  if (strcmp(tool->cwd, config->source.folder) != 0) printf(", %s", tool->cwd);
  for (size_t i = 0; i < tool->inside_count; i++) printf(", %s", tool->inside[i].folder);
  print_list(tool->allow_read);
  printf("\nmay write    TMPDIR");
  print_list(tool->allow_write);
  printf("\nsockets      %s\n", tool->allow_net ? "all" : "none");
}

static bool is_set(const tool_env *one, const word_list *variables) {
  for (size_t i = 0; i < variables->count; i++)
    if (strncmp(variables->items[i], one->assignment, one->name_len + 1) == 0) return true;
  return !one->value;
}

/* Every program has a TMPDIR of its own, or of its tool. */
static void print_environment(const tool_config *tool, const word_list *variables) {
  bool given = false;
  printf("environment ");
  for (size_t i = 0; i < tool->env_count; i++) {
    const tool_env *one = &tool->env[i];
    given = given || strncmp(one->assignment, "TMPDIR=", 7) == 0;
    if (!is_set(one, variables)) continue;
    printf(" %.*s%s", (int)one->name_len, one->assignment, one->secret ? " (secret)" : "");
  }
  puts(given ? "" : " TMPDIR");
}

/* What a program that stays is asked, as the line it will read. */
static void print_question(const tool_config *tool, const idem_buf *input) {
  idem_message question = {.kind = IDEM_MESSAGE_REQUEST,
                           .id = "1",
                           .id_len = 1,
                           .method = tool->name,
                           .method_len = strlen(tool->name),
                           .value_json = input->data,
                           .value_json_len = input->len};
  char *text;
  size_t len;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.message_bytes = input->len + 4096;
  bool composed = idem_message_compose(&question, &policy, NULL, &text, &len) == IDEM_OK;
  printf("stays        started once, then a line for each call:\n");
  printf("stdin        %s\n", composed ? text : "(too large to show)");
  idem_message_text_free(NULL, text);
}

static void print_input(const tool_config *tool, const idem_buf *input) {
  if (tool->keep)
    print_question(tool, input);
  else if (tool->has_stdin)
    printf("stdin        %zu bytes\n", input->len);
  else
    puts("stdin        empty");
}

static void print_program(const tool_config *tool, const word_list *words,
                          const word_list *variables, const idem_buf *input) {
  printf("program      %s\n", tool->program);
  for (size_t i = 0; i < words->count; i++) {
    printf("argv[%zu]%s     ", i, i < 10 ? " " : "");
    print_quoted(words->items[i]);
    fputc('\n', stdout);
  }
  printf("folder       %s\n", tool->cwd);
  print_environment(tool, variables);
  print_input(tool, input);
  printf("limits       idle %llu ms, deadline %llu ms, output %zu bytes\n",
         (unsigned long long)tool->idle_ms, (unsigned long long)tool->deadline_ms,
         tool->output_bytes);
}

static bool show_program(const serve_config *config, const tool_config *tool,
                         yyjson_val *arguments) {
  word_list words, variables;
  idem_buf input;
  template_fault fault;
  bool fine = program_prepare(tool, NULL, arguments, &words, &variables, &input, &fault);
  if (fine) {
    print_program(tool, &words, &variables, &input);
    print_bounds(config, tool);
  } else {
    complain(fault.sentence);
  }
  word_list_free(&words);
  word_list_free(&variables);
  idem_buf_deinit(&input);
  return fine;
}

static bool show_query(const tool_config *tool, yyjson_val *arguments) {
  char *bound = yyjson_val_write(arguments, 0, NULL);
  printf("database     %s (%s)\nquery        %s\nbound        %s\n"
         "limits       %zu rows, deadline %llu ms, output %zu bytes\n",
         tool->script ? "made by its script" : tool->database,
         tool->may_write ? "may be changed" : "read only", tool->query, bound ? bound : "",
         tool->max_rows, (unsigned long long)tool->deadline_ms, tool->output_bytes);
  free(bound);
  return true;
}

static const http_field *field_of(const http_config *http, const char *line) {
  for (size_t i = 0; i < http->header_count; i++) {
    size_t len = strlen(http->headers[i].name);
    if (strncmp(http->headers[i].name, line, len) == 0 && line[len] == ':')
      return &http->headers[i];
  }
  return NULL;
}

static void print_http(const tool_config *tool, const http_request *built) {
  printf("request      %s %s\n", tool->http->method, built->url.data);
  for (size_t i = 0; i < built->header_count; i++) {
    const http_field *field = field_of(tool->http, built->headers[i]);
    if (field && field->secret)
      printf("header       %s: (secret)\n", field->name);
    else
      printf("header       %s\n", built->headers[i]);
  }
  bool secret = false;
  for (size_t i = 0; i < tool->http->form_count; i++) secret = secret || tool->http->form[i].secret;
  if (built->body.len)
    printf("body         %.*s\n", secret ? 64 : (int)built->body.len,
           secret ? "(a form that holds secrets)" : built->body.data);
  printf("limits       deadline %llu ms, answer %zu bytes\n", (unsigned long long)tool->deadline_ms,
         tool->output_bytes);
}

static bool show_http(const tool_config *tool, yyjson_val *arguments) {
  http_request built;
  template_fault fault;
  bool fine = http_build(&built, tool, arguments, &fault);
  if (fine)
    print_http(tool, &built);
  else
    complain(fault.sentence);
  http_request_free(&built);
  return fine;
}

int serve_dry_run(const serve_config *config, const char *name, char **given, int count) {
  const tool_config *tool = find_tool(config, name);
  yyjson_doc *doc = tool ? read_arguments(tool, given, count) : NULL;
  yyjson_val *arguments = yyjson_doc_get_root(doc);
  bool fine = arguments && check(tool, arguments) &&
              (tool->is_program ? show_program(config, tool, arguments)
               : tool->http     ? show_http(tool, arguments)
                                : show_query(tool, arguments));
  yyjson_doc_free(doc);
  return fine ? 0 : 1;
}
