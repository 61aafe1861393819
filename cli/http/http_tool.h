/* http_tool.h - tools that make one HTTP call. The host is fixed by the configuration; a value is
 * encoded for the place it stands in and can never become another part of the request. */
#ifndef IDEM_CLI_HTTP_TOOL_H
#define IDEM_CLI_HTTP_TOOL_H

#include "config/config.h"
#include "service/call.h"
#include "service/slots.h"

#include <idem/uv.h>

/* A request as it will be sent. */
typedef struct http_request {
  idem_buf url;
  char **headers; /* "Name: value"; ends with NULL */
  size_t header_count;
  idem_buf body;
} http_request;

/* False: fault says which argument cannot be used. http_request_free either way. */
bool http_build(http_request *self, const tool_config *tool, yyjson_val *arguments,
                template_fault *fault);
void http_request_free(http_request *self);

typedef struct http_tool {
  turns_tool turns; /* the calls that wait */
  const tool_config *config;
  const serve_config *file;
  edition *edition;
  idem_log *log;
} http_tool;

void http_tool_init(http_tool *self, edition *owner, const tool_config *config, idem_log *log);
/* The handler; `user` is an http_tool. */
void http_tool_call(idem_request *request, yyjson_val *arguments, void *user);

#endif
