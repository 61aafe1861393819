/* bench.h - the same call many times: how many a second, how long each.
 * Closed loop: each connection asks again when it was answered. Open loop (--rate): calls begin on time whatever the
 * answers do, and their time counts from when they should have begun, so that a stalled server cannot hide it. */
#ifndef IDEM_CLI_CALL_BENCH_H
#define IDEM_CLI_CALL_BENCH_H

#include "call.h"
#include "histogram.h"
#include "session.h"

typedef struct bench_plan {
  uint64_t requests;
  size_t connections;
  double rate;      /* 0: closed loop */
  uint64_t most_ns; /* then no more begin; 0: no limit */
  uint64_t end_ns;  /* of uv_hrtime: --deadline, which ends what is on its way, too; 0: none */
  uint64_t idle_ns; /* nothing at all for so long: the server is lost */
} bench_plan;

typedef struct bench_tally {
  histogram times;
  uint64_t begun;
  uint64_t answered; /* of these: */
  uint64_t refused;  /* with an error */
  uint64_t failed;   /* the tool said isError */
  uint64_t lost;     /* no answer: connections that broke, HTTP errors */
  uint64_t bytes_in;
  uint64_t took_ns;
  uint64_t cpu_ns; /* of ours */
  bool late;       /* the deadline has passed */
  char first_fault[300];
} bench_tally;

/* What is sent: found out once, by a session that did not make the call. */
typedef struct bench_subject {
  call_session *session;
  const char *method; /* of JSON-RPC */
  text params;        /* JSON, without _meta; empty: none */
  idem_revision revision;
  bool plain;
} bench_subject;

int bench_run(const call_options *options);
void bench_fault(bench_tally *tally, const char *format, ...) IDEM_PRINTF(2, 3);
volatile bool *bench_stopped(void); /* Ctrl-C */

/* Raw HTTP/1.1 on sockets of its own. False: it cannot be measured so (stderr has said why). */
bool bench_http(const bench_subject *subject, const bench_plan *plan, bench_tally *tally);
bool bench_is_http(const bench_subject *subject);
/* Over the library's own connections, whatever the transport. */
bool bench_client(const bench_subject *subject, const bench_plan *plan, bench_tally *tally);

#endif
