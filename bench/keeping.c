/* keeping.c - the server of bench/store/run: MCP over HTTP with a store, one tool that says what it was told, one that
 * tells of its progress before. No other part of the library is measured with it.
 * keeping STORE WORKERS: it says where it listens on stderr, as every server does. */
#include <idem/idem.h>
#include <idem/uv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void echo(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  yyjson_val *text = yyjson_obj_get(arguments, "text");
  idem_tool_text(request, yyjson_get_str(text), yyjson_get_len(text));
}

/* Each is an event that a client may come back for. */
static void tell(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  int count = (int)yyjson_get_int(yyjson_obj_get(arguments, "count"));
  for (int i = 1; i <= count; i++) idem_progress(request, i, count, "one of many");
  idem_tool_text(request, "told", 4);
}

static idem_status fill(idem_server *server) {
  static const char text[] =
      "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}";
  static const char count[] =
      "{\"type\":\"object\",\"properties\":{\"count\":{\"type\":\"integer\",\"maximum\":1000}}}";
  const idem_tool tools[] = {{.name = "echo", .input_schema = text, .fn = echo},
                             {.name = "tell", .input_schema = count, .fn = tell}};
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < sizeof tools / sizeof *tools; i++)
    status = idem_server_add_tool(server, &tools[i], NULL, 0);
  return status;
}

static void on_listening(const char *url, void *user) {
  (void)user;
  fprintf(stderr, "listening on %s\n", url);
}

static void write_line(void *ctx, const char *line, size_t len) { fwrite(line, 1, len, ctx); }

static int serve(idem_server *server, idem_log *log, const char *store, const char *workers) {
  static const char *const url = "http://127.0.0.1:0/mcp";
  idem_http_opts http = {.max_sessions = (size_t)1 << 24,
                         .workers = (unsigned)strtoul(workers, NULL, 10)};
  idem_serve_opts opts = {
      .server = server, .http = &http, .store = store, .log = log, .on_listening = on_listening};
  return idem_run(&url, 1, &opts);
}

int main(int argc, char **argv) {
  idem_server_opts opts = {.name = "keeping", .version = "1", .max_keys = (size_t)1 << 30};
  idem_log_opts log_opts = {.level = IDEM_LOG_WARN, .write = write_line, .write_ctx = stderr};
  idem_server *server;
  idem_log *log;
  if (argc != 3) return 2;
  idem_server_os(&opts);
  if (idem_log_new(&log_opts, &log) != IDEM_OK) return 1;
  opts.log = log;
  if (idem_server_new(&opts, &server) != IDEM_OK || fill(server) != IDEM_OK) return 1;
  int code = serve(server, log, argv[1], argv[2]);
  idem_server_free(server);
  idem_log_free(log);
  return code;
}
