/* mcp_client.c - asks an MCP server: mcp_client URL [TOOL [ARGUMENTS]] [-- PROGRAM [ARGUMENT...]]; the program is for the
 * URL "exec:". Without a tool it prints what there is. */
#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

typedef struct wish {
  const char *tool;
  const char *arguments;
  int code;
} wish;

static void on_tools(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  wish *self = user;
  size_t index, count;
  yyjson_val *tool;
  self->code = result->status == IDEM_OK ? 0 : 1;
  yyjson_arr_foreach(result->items, index, count, tool) {
    printf("%s\n", yyjson_get_str(yyjson_obj_get(tool, "name")));
  }
  idem_mcp_client_close(client);
}

static void on_answer(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  wish *self = user;
  size_t index, count;
  yyjson_val *block;
  self->code = result->status == IDEM_OK && !result->is_error ? 0 : 1;
  yyjson_arr_foreach(result->content, index, count, block) {
    const char *text = yyjson_get_str(yyjson_obj_get(block, "text"));
    if (text) printf("%s\n", text);
  }
  if (result->status != IDEM_OK)
    fprintf(stderr, "%s: %.*s\n", idem_status_text(result->status), (int)result->message_len,
            result->message ? result->message : "");
  idem_mcp_client_close(client);
}

/* The server wants to know something: whatever has a default is agreed to. */
static void on_form(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  (void)client, (void)user;
  if (idem_mcp_accept(question, NULL, NULL, 0) == IDEM_E_INVAL) idem_mcp_decline(question);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  wish *self = user;
  if (status != IDEM_OK) {
    fprintf(stderr, "cannot connect: %s\n", idem_mcp_client_trouble(client).text);
    return;
  }
  const char *revision = idem_mcp_revision_date(idem_mcp_client_revision(client));
  yyjson_val *info = idem_mcp_client_server_info(client);
  fprintf(stderr, "%s speaks %s\n", yyjson_get_str(yyjson_obj_get(info, "name")), revision);
  idem_mcp_call_opts opts = {.idle_ms = 10000};
  status = self->tool
               ? idem_mcp_call_tool_json(client, self->tool, self->arguments,
                                         strlen(self->arguments), &opts, on_answer, self, NULL)
               : idem_mcp_list(client, IDEM_MCP_TOOLS, &opts, on_tools, self, NULL);
  if (status == IDEM_OK) return;
  fprintf(stderr, "cannot ask: %s\n", idem_status_text(status));
  idem_mcp_client_close(client);
}

int main(int argc, char **argv) {
  int words = 1;
  while (words < argc && strcmp(argv[words], "--") != 0) words++;
  if (words < 2) {
    fprintf(stderr, "usage: mcp_client URL [TOOL [ARGUMENTS]] [-- PROGRAM [ARGUMENT...]]\n");
    return 2;
  }
  wish self = {
      .tool = words > 2 ? argv[2] : NULL, .arguments = words > 3 ? argv[3] : "{}", .code = 1};
  idem_client_opts wire = {.argv = words < argc ? (const char *const *)argv + words + 1 : NULL};
  idem_mcp_client_opts opts = {.wire = &wire, .on_form = on_form};
  uv_loop_t *loop = uv_default_loop();
  idem_status status = idem_mcp_connect(loop, argv[1], &opts, on_ready, &self, NULL);
  if (status == IDEM_OK)
    uv_run(loop, UV_RUN_DEFAULT);
  else
    fprintf(stderr, "cannot connect to %s: %s\n", argv[1], idem_status_text(status));
  uv_loop_close(loop);
  return self.code;
}
