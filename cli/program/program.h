/* program.h - tools that run a program: turns, running, stopping, answering.
 * All on the loop of the server's one thread. See docs/internals/cli.md. */
#ifndef IDEM_CLI_PROGRAM_H
#define IDEM_CLI_PROGRAM_H

#include "confine.h"
#include "pipes.h"
#include "runners.h"
#include "service/call.h"
#include "service/slots.h"

#include <idem/uv.h>
#include <uv.h>

typedef struct program_host program_host;
typedef struct call call;
typedef struct kept_program kept_program;

/* Why a call was stopped. */
typedef enum stop_reason {
  STOP_NOT = 0,
  STOP_CANCELLED,
  STOP_IDLE,
  STOP_DEADLINE,
  STOP_FLOOD,
  STOP_NO_MEMORY,
  STOP_CROWDED /* by its runner */
} stop_reason;

typedef struct program_tool {
  turns_tool turns; /* the calls that wait */
  program_host *host;
  edition *edition;
  const serve_config *file; /* the edition's */
  const tool_config *config;
  confinement *bounds;
  kept_program *kept; /* NULL: each call starts a program */
} program_tool;

/* One for the life of the process: calls of every edition wait for the same turns. */
struct program_host {
  runners runners;
  pipes spare; /* for the next program */
  slots slots;
  idem_list running;
  uv_loop_t *loop; /* NULL: it does not run yet */
  uv_timer_t soon;
  uv_timer_t kept_timer;
  idem_list kept; /* programs that stay, of all editions */
  idem_router *kept_router;
  bool runs_programs;
  const char *const *own_files;
};

/* One call of a tool, from its arguments to its answer. */
struct call {
  turns_call turn;
  runner_user user;
  idem_list link; /* in the host's running */
  program_tool *tool;
  idem_request *request; /* NULL once nobody waits for the answer */
  word_list words;
  word_list variables; /* those of its environment that hold arguments */
  idem_buf input;
  idem_buf output;
  idem_buf errors; /* the end of what it wrote to stderr */
  size_t told;     /* bytes of it that the owner's log has */
  unsigned told_lines;
  char line[256]; /* the line of stderr being read, for progress */
  size_t line_len;
  stop_reason stopped;
  int status;
  unsigned dead_runners;
  bool started;   /* a runner runs it */
  bool listening; /* to what it writes */
  bool tidying;   /* it has ended, and its runner removes its folder */
  bool exited;
  bool lost; /* and the runner with it */
  bool output_ended;
  bool errors_ended;
  bool finished;
  uint64_t began_ms;
  uint64_t heard_ms; /* when it last wrote something */
  uint64_t kill_ms;
  uint64_t drop_ms; /* when a runner that does not report is given up */
  uint64_t drain_ms;
  uint64_t tidy_ms;
  unsigned handles;
  uv_timer_t timer;
  idem_list kept_link; /* among the calls of a program that stays */
  uint64_t kept_id;    /* 0: it was not asked yet */
  uint64_t kept_heard; /* how often it had been heard by then */
  pipes unread;        /* our ends, until we listen to them */
  uv_pipe_t in, out, err;
  uv_write_t write;
};

/* `own_files`: of the server's, none of which a program may read (tokens, the store); ends with NULL, NULL: none. */
void program_host_init(program_host *self, idem_log *log, const char *const *own_files);
/* Takes the limits of a configuration. */
void program_host_limits(program_host *self, const serve_config *config);
/* The loop begins to run. */
void program_host_on_loop(program_host *self, uv_loop_t *loop);
void program_tool_init(program_tool *self, program_host *host, edition *owner, size_t index);
/* The handler of a program tool; `user` is its program_tool. */
void program_tool_call(idem_request *request, yyjson_val *arguments, void *user);
/* After the loop: ends what still runs, and waits until it has. */
void program_host_end(program_host *self);

/* prepare.c: what would be run. False: fault says which argument cannot be used. */
/* `request` says whose call it is; NULL: nobody's. */
bool program_prepare(const tool_config *tool, const idem_request *request, yyjson_val *arguments,
                     word_list *words, word_list *variables, idem_buf *input,
                     template_fault *fault);
/* run.c: has a runner start the program of a tool; 0 or errno. */
typedef struct program_files {
  int input, output, errors; /* input -1: it is empty */
} program_files;
int program_order(const program_tool *tool, runner *by, const word_list *words,
                  const word_list *variables, program_files files);
void call_start(call *self);
/* Nobody waits for the answer any more. It has its slot; it may be gone afterwards. */
void call_cancel(call *self);
void call_free(call *self);
/* program.c: the call's program and pipes are gone. */
void program_call_ended(call *self);
/* complete.c: the same for a program that completes an argument. */
void completion_answer(call *self);
/* answer.c: ends the request with what came of it. */
void call_answer(call *self);
/* Whether its program failed, by what stands behind its name in a sentence; told in the log. */
bool call_failed(const call *self, char *how, size_t size);
void call_heard_errors(call *self, const char *bytes, size_t len);
/* What a caller may see of a program's words: secrets, tokens and foreign paths are taken out. */
void program_put_redacted(const program_tool *tool, const char *text, size_t len, idem_buf *out);
/* The end of stderr, unless the tool hides it. */
void program_put_tail(const program_tool *tool, const char *errors, size_t len, idem_buf *out);
/* Who reads there that something was refused should know of "allow". */
void program_put_hint(const program_tool *tool, const char *errors, size_t len, idem_buf *out);
/* To the owner's log, a line each: what was written to stderr, where that is wanted; or any text. */
void program_log_errors(const program_tool *tool, const char *errors, size_t len);
void program_log_lines(const program_tool *tool, idem_log_level level, const char *message,
                       const char *text, size_t len);

#endif
