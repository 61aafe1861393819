/* reference.h - the parts of idem-reference, a server to test clients against. */
#ifndef IDEM_REFERENCE_H
#define IDEM_REFERENCE_H

#include <idem/idem.h>
#include <idem/uv.h>

#define REFERENCE_URLS 16
#define REFERENCE_LIST 16

/* A list for idem_http_opts: ends with NULL, is NULL itself while empty. */
typedef struct text_list {
  const char *items[REFERENCE_LIST + 1];
  size_t count;
} text_list;

typedef struct options {
  idem_profile profile;
  bool framing_given;
  idem_framing framing;
  char *urls[REFERENCE_URLS];
  size_t url_count;
  idem_log_setup log;
  size_t max_connections;
  uint64_t grace_ms;
  bool shutdown_ends_server;
  idem_http_opts http;
  text_list allow_hosts, allow_origins, trusted_proxies, tokens;
  char *token_text; /* the token file's lines, which `tokens` points into */
} options;

/* Fills in the options. True: go on; false: exit with *code (help was printed, or a complaint). */
bool options_parse(options *parsed, int argc, char **argv, int *code);
void options_free(options *parsed);

/* web_options.c: the flags of HTTP and WebSocket. */
bool add_http(options *parsed, const char *value);
bool add_ws(options *parsed, const char *value);
bool add_admin(options *parsed, const char *value);
bool add_url(options *parsed, const char *scheme, const char *rest);
bool set_token_file(options *parsed, const char *value);
bool set_rate_limit(options *parsed, const char *value);
bool set_workers(options *parsed, const char *value);
bool add_trusted_proxy(options *parsed, const char *value);
bool add_allow_host(options *parsed, const char *value);
bool add_allow_origin(options *parsed, const char *value);
bool set_access_log(options *parsed, const char *value);
/* Points parsed->http at the lists; takes IDEM_TOKEN where no file was given. */
void settle_http(options *parsed);

/* subtract, sum, update, notify_hello, notify_sum, get_data, echo, fail, raise and sleep. */
idem_status methods_register(idem_router *router);
/* Answers after params.ms milliseconds; ends early when nobody waits any more. */
void method_sleep(idem_request *request, yyjson_val *params, void *user);

#endif
