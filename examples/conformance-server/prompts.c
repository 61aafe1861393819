/* prompts.c - prompts with every kind of content, one that asks first, and completion of arguments. */
#include "fixtures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void simple(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const char text[] = "This is a simple prompt for testing.";
  idem_prompt_text(request, text, sizeof text - 1);
}

static void say_prompt(idem_request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say_prompt(idem_request *request, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int len = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (len < 0) {
    idem_request_drop(request);
    return;
  }
  idem_prompt_text(request, text, (size_t)len);
  free(text);
}

static void with_arguments(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  say_prompt(request, "Prompt with arguments: arg1='%s', arg2='%s'",
             yyjson_get_str(yyjson_obj_get(arguments, "arg1")),
             yyjson_get_str(yyjson_obj_get(arguments, "arg2")));
}

/* ---------------------------------------------------------------- content of messages */

/* A message whose content is the first block of `blocks`. */
static bool add_message(yyjson_mut_doc *doc, yyjson_mut_val *messages, yyjson_mut_val *blocks) {
  yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, messages);
  return yyjson_mut_obj_add_str(doc, message, "role", "user") &&
         yyjson_mut_obj_add_val(doc, message, "content", yyjson_mut_arr_remove_first(blocks));
}

/* A block that was added to `blocks`, then a text, each a message. */
static void reply(idem_request *request, yyjson_mut_val *blocks, bool built, const char *text) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *messages = yyjson_mut_arr(doc);
  if (built && idem_content_text(doc, blocks, text, strlen(text)) &&
      add_message(doc, messages, blocks) && add_message(doc, messages, blocks))
    idem_prompt_reply(request, NULL, messages);
  else
    idem_request_drop(request);
}

static void with_resource(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  static const char text[] = "Embedded resource content for testing.";
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *blocks = yyjson_mut_arr(doc);
  const char *uri = yyjson_get_str(yyjson_obj_get(arguments, "resourceUri"));
  reply(request, blocks,
        idem_content_resource_text(doc, blocks, uri, "text/plain", text, sizeof text - 1),
        "Please process the embedded resource above.");
}

static void with_image(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *blocks = yyjson_mut_arr(doc);
  reply(request, blocks, idem_content_image(doc, blocks, sample_png, sample_png_len, "image/png"),
        "Please analyze the image above.");
}

static void asks_first(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask ask = {.key = "user_context",
                               .message = "What is the context?",
                               .schema = JSON({
                                 "type" : "object",
                                 "properties" : {"context" : {"type" : "string"}},
                                 "required" : ["context"]
                               })};
  const char *context = accepted_string(request, "user_context", "context");
  if (context)
    say_prompt(request, "Use this context: %s", context);
  else
    idem_needs_input(request, &ask, 1, NULL, 0);
}

/* ------------------------------------------------------------------------ completion */

static void complete(idem_request *request, const idem_completion_query *query, void *user) {
  (void)user;
  static const char *const words[] = {"test", "testValue1", "testValue2", "other"};
  const char *matching[COUNT(words)];
  size_t count = 0;
  for (size_t i = 0; i < COUNT(words); i++) {
    if (strncmp(words[i], query->value, strlen(query->value)) == 0) matching[count++] = words[i];
  }
  idem_completion_reply(request, matching, count, false);
}

static const idem_prompt_argument two_arguments[] = {
    {.name = "arg1", .description = "First test argument", .required = true},
    {.name = "arg2", .description = "Second test argument", .required = true},
    {.name = NULL}};
static const idem_prompt_argument resource_argument[] = {
    {.name = "resourceUri", .description = "URI of the resource to embed", .required = true},
    {.name = NULL}};

static const idem_prompt prompts[] = {
    {.name = "test_simple_prompt", .description = "A prompt without arguments", .fn = simple},
    {.name = "test_prompt_with_arguments",
     .description = "A prompt with two arguments",
     .arguments = two_arguments,
     .fn = with_arguments},
    {.name = "test_prompt_with_embedded_resource",
     .description = "A prompt that holds a resource",
     .arguments = resource_argument,
     .fn = with_resource},
    {.name = "test_prompt_with_image",
     .description = "A prompt that holds an image",
     .fn = with_image},
    {.name = "test_input_required_result_prompt",
     .description = "A prompt that asks for a context first",
     .fn = asks_first},
};

bool prompts_register(idem_server *server) {
  idem_server_on_complete(server, complete, NULL);
  return prompts_add(server, prompts, COUNT(prompts));
}
