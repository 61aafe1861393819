/* main.c - idem-reference: the methods of the JSON-RPC specification's examples and a few more, over
 * every transport and profile, to test clients against. `idem-reference --help` lists the flags. */
#include "reference.h"

#include <stdio.h>
#include <uv.h>

static idem_policy policy_for(const options *parsed) {
  idem_policy policy = idem_policy_preset(parsed->profile);
  if (parsed->framing_given) policy.framing = parsed->framing;
  policy.codes = parsed->codes;
  return policy;
}

static idem_status plain_router_new(const options *parsed, idem_log *log, idem_router **out) {
  static const answers as_they_are = {idem_reply, idem_reply_mut, idem_reply_json};
  idem_status status = idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, out);
  if (status == IDEM_OK) status = methods_register(*out, &as_they_are);
  if (status == IDEM_OK && parsed->profile == IDEM_PROFILE_LSP) {
    status = idem_router_lsp(*out, &(idem_lsp_opts){.server_name = "idem-reference",
                                                    .server_version = idem_version(),
                                                    .log = log});
  }
  return status;
}

static int serve(const options *parsed, idem_log *log) {
  idem_policy policy = policy_for(parsed);
  idem_router *router = NULL;
  idem_serve_opts opts = {.policy = &policy,
                          .log = log,
                          .http = &parsed->http,
                          .grace_ms = parsed->grace_ms,
                          .max_connections = parsed->max_connections,
                          .client_connections = parsed->client_connections,
                          .shutdown_ends_server = parsed->shutdown_ends_server};
  idem_status status = parsed->profile == IDEM_PROFILE_MCP
                           ? mcp_server_new(parsed, log, &opts.server)
                           : plain_router_new(parsed, log, &router);
  int code = 1;
  opts.router = router;
  if (status == IDEM_OK) {
    code = idem_run((const char *const *)parsed->urls, parsed->url_count, &opts);
  } else {
    fprintf(stderr, "idem-reference: cannot start: %s\n", idem_status_text(status));
  }
  idem_server_free(opts.server);
  idem_router_free(router);
  return code;
}

int main(int argc, char **argv) {
  options parsed;
  int code;
  if (options_parse(&parsed, argc, argv, &code)) {
    idem_log *log = NULL;
    idem_log_open(&parsed.log, &log);
    code = serve(&parsed, log);
    idem_log_free(log);
    uv_library_shutdown(); /* its threads end before what they used does */
  }
  options_free(&parsed);
  return code;
}
