/* caller.c - see caller.h. */
#include "caller.h"

#include <string.h>

static bool known;

void caller_begin(bool named) { known = named; }

void caller_put(const idem_request *request, idem_buf *line) {
  const char *who = known ? idem_principal(request) : "";
  const char *claims = known ? idem_logged_claims(request) : "";
  if (!*who) return;
  idem_buf_puts(line, ", for ");
  idem_text_word(line, who, strlen(who), SIZE_MAX);
  idem_buf_put(line, claims, strlen(claims));
}
