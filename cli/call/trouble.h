/* trouble.h - why there is no answer, in a form that helps: whom, which phase, how it ended, what it said, what to
 * try. Never "connection closed". */
#ifndef IDEM_CLI_CALL_TROUBLE_H
#define IDEM_CLI_CALL_TROUBLE_H

#include "call.h"
#include "target.h"
#include "text.h"

#include <idem/mcp_client.h>

/* A refusal by who asks. */
typedef struct call_refusal {
  int http_status;
  const char *why;       /* why no token was to be had; NULL or "": nobody tried */
  const char *flags;     /* what to type then, such as "--login" */
  const char *challenge; /* what the server said of it (WWW-Authenticate); NULL: nothing */
} call_refusal;

/* What is known; zero and NULL where nothing is. Texts are a stranger's. */
typedef struct call_trouble {
  idem_status status;
  const char *phase;
  const char *what; /* one line */
  int http_status;
  int exit_status; /* -1: none */
  int signal;
  const char *errors; /* of stderr */
  size_t errors_len;
  const char *stray; /* of stdout */
  size_t stray_len;
  const char *data; /* of the server's error, JSON */
  size_t data_len;
  idem_mcp_fate fate;
  bool sent;       /* `fate` is known */
  const char *key; /* which the call carried; NULL: none */
  const char *
      store; /* where the server keeps its keys: asked again with this one it runs nothing twice; NULL: it knows none */
  unsigned repeats;   /* how often it was asked again */
  call_refusal login; /* of 401 and 403 */
} call_trouble;

/* The first line, then what is known. Returns the exit status. */
int trouble_tell(const call_target *target, const call_trouble *why);
/* The words with which a call is asked for again, so that nothing runs twice: also where its server has lost its keys meanwhile. */
void trouble_put_again(text *line, const char *key, const char *store);
/* An error that the server answered with, which keeps keys in `store` or knows none. Returns CALL_REFUSED, or
 * CALL_OUTCOME_UNKNOWN. */
int trouble_remote(const idem_mcp_result *result, const char *store);

/* What it lacks, and what to type then: rows behind a refusal with 401 or 403. */
void trouble_login(const call_target *target, const call_refusal *refusal);

/* One more row; at most `max` bytes of it. What to try. */
void trouble_row(const char *name, const char *data, size_t len, size_t max);
void trouble_try(const char *words);

/* A log whose last line can be asked for: what the library says when something cannot even begin. */
idem_log *trouble_log(void);
const char *trouble_logged(void);

#endif
