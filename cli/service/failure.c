/* failure.c - see failure.h. Calls end on the server's one loop, so one bucket needs no lock. */
#include "failure.h"

#include "caller.h"

#include <stdarg.h>
#include <stdio.h>

#define NAME_MAX_SHOWN 128
#define WHY_MAX 320u

static idem_log_bucket told;

static IDEM_PRINTF(4, 0) void tell(idem_request *request, const tool_config *tool,
                                   idem_log_level level, const char *format, va_list arguments) {
  char why[WHY_MAX], text[WHY_MAX + NAME_MAX_SHOWN + CALLER_MAX + 64];
  idem_buf line;
  vsnprintf(why, sizeof why, format, arguments);
  idem_buf_fixed(&line, text, sizeof text - 1);
  idem_buf_printf(&line, "%.*s: %s, after %llu ms", NAME_MAX_SHOWN, tool->name, why,
                  (unsigned long long)idem_request_age_ms(request));
  caller_put(request, &line);
  text[line.len] = '\0';
  idem_request_log(request, &told, level, "a tool call failed", text);
}

void failure_tell(idem_request *request, const tool_config *tool, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell(request, tool, IDEM_LOG_WARN, format, arguments);
  va_end(arguments);
}

void failure_tell_ours(idem_request *request, const tool_config *tool, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tell(request, tool, IDEM_LOG_ERROR, format, arguments);
  va_end(arguments);
}

void failure_end(idem_log *log) { idem_log_bucket_end(log, &told); }
