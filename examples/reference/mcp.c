/* mcp.c - idem-reference as an MCP server: the same methods, gated by the handshake or by _meta and
 * answered with objects, and one each of what MCP is about: a tool, a resource, a prompt. */
#include "reference.h"

#include <string.h>

static void echo_text(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  yyjson_val *text = yyjson_obj_get(arguments, "text");
  idem_tool_text(request, yyjson_get_str(text), yyjson_get_len(text));
}

static void read_static_text(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  static const char text[] = "This is the content of the static text resource.";
  idem_resource_text(request, "text/plain", text, sizeof text - 1);
}

static void say_hello(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const char text[] = "Say hello.";
  idem_prompt_text(request, text, sizeof text - 1);
}

static idem_status fill(idem_server *server) {
  static const answers as_objects = {idem_mcp_reply, idem_mcp_reply_mut, idem_mcp_reply_json};
  static const char schema[] =
      "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},"
      "\"required\":[\"text\"]}";
  idem_status status = methods_register(idem_server_router(server), &as_objects);
  if (status == IDEM_OK) {
    status = idem_server_add_tool(server,
                                  &(idem_tool){.name = "echo",
                                               .description = "Says what it was told",
                                               .input_schema = schema,
                                               .fn = echo_text},
                                  NULL, 0);
  }
  if (status == IDEM_OK) {
    status = idem_server_add_resource(server,
                                      &(idem_resource){.uri = "test://static-text",
                                                       .name = "static-text",
                                                       .description = "A text that stays the same",
                                                       .mime_type = "text/plain",
                                                       .fn = read_static_text},
                                      NULL, 0);
  }
  if (status == IDEM_OK) {
    status = idem_server_add_prompt(
        server, &(idem_prompt){.name = "hello", .description = "A greeting", .fn = say_hello}, NULL,
        0);
  }
  return status;
}

idem_status mcp_server_new(const options *parsed, idem_log *log, idem_server **out) {
  idem_server_opts opts = {.name = "idem-reference",
                           .version = idem_version(),
                           .revisions = parsed->revisions,
                           .codes = parsed->codes,
                           .log = log};
  idem_server_os(&opts);
  idem_status status = idem_server_new(&opts, out);
  return status == IDEM_OK ? fill(*out) : status;
}
