/* outcome.c - see outcome.h. Calls end on the server's one loop, so one bucket needs no lock. */
#include "outcome.h"

#include "caller.h"

#define NAME_MAX_SHOWN 128

static struct {
  idem_log *log;
  idem_log_level level;
  idem_log_bucket told;
} self;

void outcome_begin(idem_log *log, bool watched) {
  self.log = log;
  self.level = watched ? IDEM_LOG_INFO : IDEM_LOG_DEBUG;
}

/* A completion is no call: its tool is hidden. */
static void tell(idem_request *request, const tool_config *tool, const char *message,
                 const char *how) {
  char text[NAME_MAX_SHOWN + CALLER_MAX + 64];
  idem_buf line;
  if (!idem_log_enabled(self.log, self.level) || tool->hidden) return;
  idem_buf_fixed(&line, text, sizeof text - 1);
  idem_buf_printf(&line, "%.*s: %s %llu ms", NAME_MAX_SHOWN, tool->name, how,
                  (unsigned long long)idem_request_age_ms(request));
  caller_put(request, &line);
  text[line.len] = '\0';
  idem_request_log(request, self.level == IDEM_LOG_DEBUG ? NULL : &self.told, self.level, message,
                   text);
}

/* An output that was cut is answered and told of by then. */
void outcome_answered(idem_request *request, const tool_config *tool) {
  if (!idem_request_is_logged(request)) tell(request, tool, "a tool was called", "fine, in");
}

void outcome_cancelled(idem_request *request, const tool_config *tool) {
  tell(request, tool, "a tool call was cancelled", "after");
}

void outcome_end(void) {
  if (self.log) idem_log_bucket_end(self.log, &self.told);
  self.log = NULL;
}
