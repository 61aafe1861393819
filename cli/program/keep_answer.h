/* keep_answer.h - a program that stays, as keep.c and keep_answer.c know it, and what is told of its calls. */
#ifndef IDEM_CLI_KEEP_ANSWER_H
#define IDEM_CLI_KEEP_ANSWER_H

#include "keep.h"

typedef enum kept_state {
  KEPT_DOWN = 0, /* there is no process */
  KEPT_COMING,   /* it waits for a runner */
  KEPT_UP,
  KEPT_LEAVING /* its input has ended, or soon will */
} kept_state;

struct kept_program {
  idem_list link; /* in the host's kept */
  runner_user user;
  program_tool *tool; /* the first that names it */
  kept_state state;
  idem_conn *conn;   /* NULL: there is none */
  idem_list waiting; /* calls that it was not asked yet */
  idem_list asked;
  idem_list lost; /* whose conn has closed; why is not known yet */
  uint64_t idle_ms;
  size_t message_bytes;
  uint64_t idle_since_ms;
  uint64_t files; /* what it was started from, see kept_files */
  uint64_t heard; /* how often it has said something of use */
  uint64_t not_before_ms;
  unsigned failures; /* in a row */
  unsigned dead_runners;
  int start_failure; /* errno */
  bool expected;     /* its end is our wish */
  bool retired;
  char stopped[160]; /* why we ended it, where that is no wish; empty: we did not */
  char reason[256];  /* of its last end */
  size_t errors_len; /* the end of what it wrote to stderr before that */
  char errors[4096];
};

/* With what came of a call; the request is ended. */
void kept_answer(call *self, const idem_response *response);
/* With why the program has ended. */
void kept_answer_lost(call *self, const kept_program *kept);
/* A notification {"level": "info", "message": "..."} to the owner's log. */
void kept_log(const kept_program *self, yyjson_val *params);

#endif
