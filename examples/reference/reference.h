/* reference.h - the parts of idem-reference, a server to test clients against. */
#ifndef IDEM_REFERENCE_H
#define IDEM_REFERENCE_H

#include <idem/idem.h>
#include <idem/uv.h>

#define REFERENCE_URLS 16

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
} options;

/* Fills in the options. True: go on; false: exit with *code (help was printed, or a complaint). */
bool options_parse(options *parsed, int argc, char **argv, int *code);
void options_free(options *parsed);

/* subtract, sum, update, notify_hello, notify_sum, get_data, echo, fail, raise and sleep. */
idem_status methods_register(idem_router *router);
/* Answers after params.ms milliseconds; ends early when nobody waits any more. */
void method_sleep(idem_request *request, yyjson_val *params, void *user);

#endif
