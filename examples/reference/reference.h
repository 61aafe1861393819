/* reference.h - the parts of idem-reference, a server to test clients against. */
#ifndef IDEM_REFERENCE_H
#define IDEM_REFERENCE_H

#include <idem/idem.h>
#include <idem/uv.h>

#define REFERENCE_URLS 16
#define REFERENCE_LIST 16
#define REFERENCE_ISSUERS 4

/* A list for idem_http_opts: ends with NULL, is NULL itself while empty. */
typedef struct text_list {
  const char *items[REFERENCE_LIST + 1];
  size_t count;
} text_list;

typedef struct options {
  idem_profile profile;
  uint32_t revisions; /* mcp: bits of idem_revision; 0: all */
  idem_code_set codes;
  bool framing_given;
  idem_framing framing;
  char *urls[REFERENCE_URLS];
  size_t url_count;
  idem_log_setup log;
  size_t max_connections, client_connections;
  uint64_t grace_ms;
  bool shutdown_ends_server;
  idem_http_opts http;
  text_list allow_hosts, allow_origins, trusted_proxies, tokens;
  char *token_text; /* the token file's lines, which `tokens` points into */
  idem_http_auth auth;
  idem_http_issuer issuers[REFERENCE_ISSUERS];
} options;

/* Fills in the options. True: go on; false: exit with *code (help was printed, or a complaint). */
bool options_parse(options *parsed, int argc, char **argv, int *code);
void options_free(options *parsed);

/* web_options.c: the flags of HTTP and WebSocket. */
bool add_http(options *parsed, const char *value);
bool add_ws(options *parsed, const char *value);
bool add_admin(options *parsed, const char *value);
bool add_address(options *parsed, const char *scheme, const char *address);
bool add_url(options *parsed, const char *scheme, const char *rest);
bool set_token_file(options *parsed, const char *value);
bool set_rate_limit(options *parsed, const char *value);
bool add_https(options *parsed, const char *value);
bool add_tls(options *parsed, const char *value);
bool add_wss(options *parsed, const char *value);
bool set_tls_cert(options *parsed, const char *value);
bool set_tls_key(options *parsed, const char *value);
bool set_tls_client_ca(options *parsed, const char *value);
bool set_workers(options *parsed, const char *value);
bool add_trusted_proxy(options *parsed, const char *value);
bool set_client_header(options *parsed, const char *value);
bool add_allow_host(options *parsed, const char *value);
bool add_allow_origin(options *parsed, const char *value);
bool set_access_log(options *parsed, const char *value);
/* Points parsed->http at the lists; takes IDEM_TOKEN where no file was given; under mcp completes
 * the URLs with their path. False: no memory. */
bool settle_http(options *parsed);

/* auth_options.c: tokens of an authorization server. */
bool add_issuer(options *parsed, const char *value);
bool set_jwks_url(options *parsed, const char *value);
bool set_jwks_file(options *parsed, const char *value);
bool set_resource(options *parsed, const char *value);
bool set_audience(options *parsed, const char *value);
bool set_scope(options *parsed, const char *value);
bool set_principal_claim(options *parsed, const char *value);
bool set_introspection(options *parsed, const char *value);
bool set_introspection_client(options *parsed, const char *value);
/* False: it was said what tokens must say, and not whose are taken. */
bool settle_auth(options *parsed);

/* How results are told: as they are, or as MCP wants them. The `user` of every method. */
typedef struct answers {
  idem_status (*value)(idem_request *request, const yyjson_val *result);
  idem_status (*mutable)(idem_request *request, const yyjson_mut_val *result);
  idem_status (*json)(idem_request *request, const char *json, size_t len);
} answers;

/* subtract, sum, update, notify_hello, notify_sum, get_data, echo, fail, raise and sleep. */
idem_status methods_register(idem_router *router, const answers *how);
/* Answers after params.ms milliseconds; ends early when nobody waits any more. */
void method_sleep(idem_request *request, yyjson_val *params, void *user);

/* mcp.c: an MCP server with these methods, one tool, one resource and one prompt. */
idem_status mcp_server_new(const options *parsed, idem_log *log, idem_server **out);

#endif
