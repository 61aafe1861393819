/* bench_answer.h - answers of HTTP/1.1 where they lie, and what they mean for a measurement. */
#ifndef IDEM_CLI_CALL_BENCH_ANSWER_H
#define IDEM_CLI_CALL_BENCH_ANSWER_H

#include "bench.h"

#include <stdbool.h>
#include <stddef.h>

#define ANSWER_BYTES ((size_t)64 << 20)
#define BENCH_READ_BYTES 65536u /* of one read; a head is no longer */

/* One whole answer at the beginning of `data`. */
typedef struct http_answer {
  bool whole;
  bool broken;
  bool closes;
  int status;
  const char *body; /* as it came, chunks included */
  size_t body_len;
  bool events;
  bool chunked;
} http_answer;

/* `data` ends with a NUL. */
http_answer http_answer_read(const char *data, size_t len);
/* What a header says, up to the end of its line; NULL: it is not there. */
const char *http_answer_header(const char *head, size_t len, const char *name);
/* A whole one; its chunks are joined where they lie. */
void http_answer_judge(http_answer *answer, bench_tally *tally);

#endif
