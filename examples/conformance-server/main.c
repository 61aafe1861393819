/* main.c - idem-conformance-server: everything the official MCP conformance suite asks a server for,
 * over HTTP and stdio. `idem-conformance-server --http 127.0.0.1:0` says on stderr where it is. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URLS_MAX 4

static const char help_text[] =
    "usage: idem-conformance-server [flags]\n"
    "An MCP server with every fixture of the official conformance suite; on stdin and stdout "
    "unless\n"
    "an address is given.\n"
    "\n"
    "  --http HOST:PORT    serve http://HOST:PORT/mcp; port 0 takes a free one\n"
    "  --workers N         threads that serve HTTP (1)\n"
    "  --stdio             serve stdin and stdout, also beside addresses\n"
    "  --log-level LEVEL   debug, info, warn or error (info)\n"
    "  --version, --help\n";

typedef struct options {
  char *urls[URLS_MAX];
  size_t url_count;
  idem_http_opts http;
  idem_log_setup log;
} options;

static bool add_url(options *parsed, const char *before, const char *address, const char *after) {
  if (parsed->url_count == URLS_MAX) return false;
  char *url = NULL;
  if (asprintf(&url, "%s%s%s", before, address, after) < 0) return false;
  parsed->urls[parsed->url_count++] = url;
  return true;
}

/* One flag with the word after it; `used` says how many words it took. */
static bool take_flag(options *parsed, const char *flag, const char *value, int *used) {
  *used = 1;
  if (strcmp(flag, "--stdio") == 0) return add_url(parsed, "stdio:", "", "");
  *used = 2;
  if (!value) return false;
  if (strcmp(flag, "--http") == 0) return add_url(parsed, "http://", value, "/mcp");
  if (strcmp(flag, "--workers") == 0)
    return (parsed->http.workers = (unsigned)strtoul(value, NULL, 10)) > 0;
  if (strcmp(flag, "--log-level") == 0)
    return idem_log_level_parse(value, strlen(value), &parsed->log.level);
  return false;
}

/* False: there is nothing to serve, and *code is the exit code. */
static bool parse(options *parsed, int argc, char **argv, int *code) {
  *parsed = (options){.log = {.level = IDEM_LOG_INFO}};
  *code = 0;
  for (int i = 1, used; i < argc; i += used) {
    if (strcmp(argv[i], "--help") == 0) return fputs(help_text, stdout), false;
    if (strcmp(argv[i], "--version") == 0)
      return printf("idem-conformance-server %s\n", idem_version()), false;
    if (take_flag(parsed, argv[i], argv[i + 1], &used)) continue;
    fprintf(stderr, "idem-conformance-server: cannot use %s\ntry: idem-conformance-server --help\n",
            argv[i]);
    *code = 2;
    return false;
  }
  return parsed->url_count > 0 || add_url(parsed, "stdio:", "", "");
}

static bool fill(idem_server *server) {
  return content_register(server) && steps_register(server) && asking_register(server) &&
         rounds_register(server) && changes_register(server) && tasks_register(server) &&
         resources_register(server) && prompts_register(server);
}

static int serve(const options *parsed, idem_log *log) {
  idem_server_opts opts = {.name = "idem-conformance-server",
                           .version = idem_version(),
                           .title = "Conformance fixtures",
                           .task_poll_ms = 100,
                           .log = log};
  idem_server *server = NULL;
  int code = 1;
  idem_server_os(&opts);
  idem_status status = idem_server_new(&opts, &server);
  if (status != IDEM_OK)
    fprintf(stderr, "idem-conformance-server: cannot start: %s\n", idem_status_text(status));
  else if (fill(server))
    code = idem_run((const char *const *)parsed->urls, parsed->url_count,
                    &(idem_serve_opts){.server = server, .http = &parsed->http, .log = log});
  idem_server_free(server);
  return code;
}

int main(int argc, char **argv) {
  options parsed;
  int code;
  if (parse(&parsed, argc, argv, &code)) {
    idem_log *log = NULL;
    idem_log_open(&parsed.log, &log);
    code = serve(&parsed, log);
    idem_log_free(log);
  }
  for (size_t i = 0; i < parsed.url_count; i++) free(parsed.urls[i]);
  return code;
}
