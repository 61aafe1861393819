/* calculator.c - an MCP server with one tool: its schema says what may come, its handler computes. */
#include <idem/uv.h>
#include <math.h>

static void calculate(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  const char *sign;
  double a, b;
  idem_param_fault fault;
  if (idem_param_double(arguments, "a", 0, &a, &fault) != IDEM_OK ||
      idem_param_string(arguments, "sign", 0, &sign, NULL, &fault) != IDEM_OK ||
      idem_param_double(arguments, "b", 0, &b, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  double value = *sign == '+' ? a + b : *sign == '-' ? a - b : *sign == '*' ? a * b : a / b;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *result = yyjson_mut_obj(doc);
  if (!isfinite(value))
    idem_tool_failed(request, "This has no finite result.");
  else if (yyjson_mut_obj_add_real(doc, result, "value", value))
    idem_tool_reply(request, &(idem_tool_result){.structured = result});
}

int main(void) {
  idem_tool tool = {.name = "calculate", .description = "a + b, a - b, a * b or a / b."};
  tool.input_schema = "{\"type\":\"object\",\"required\":[\"a\",\"sign\",\"b\"],\"properties\":{"
                      "\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"},"
                      "\"sign\":{\"enum\":[\"+\",\"-\",\"*\",\"/\"]}}}";
  tool.output_schema = "{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"number\"}}}";
  tool.fn = calculate;
  idem_server *server;
  idem_server_opts opts = {.name = "calculator", .version = "1.0.0"};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) || idem_server_add_tool(server, &tool, NULL, 0)) return 1;
  int code = idem_run((const char *const[]){"stdio:"}, 1, &(idem_serve_opts){.server = server});
  idem_server_free(server);
  return code;
}
