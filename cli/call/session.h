/* session.h - one call from its connection to its exit status, with MCP or without. */
#ifndef IDEM_CLI_CALL_SESSION_H
#define IDEM_CLI_CALL_SESSION_H

#include "arguments.h"
#include "cache.h"
#include "call.h"
#include "login.h"
#include "look.h"
#include "print.h"
#include "progress.h"
#include "questions.h"
#include "recorder.h"
#include "target.h"
#include "trouble.h"

#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <uv.h>

/* An answer of the server's that is not told yet, with all that it points to. */
typedef struct call_answer {
  idem_mcp_result result;
  char *key, *message;
  yyjson_doc *value, *data;
} call_answer;

typedef struct call_session {
  const call_options *options;
  call_target target;
  call_arguments arguments;
  text made; /* the arguments as JSON */
  text sent; /* what was made of them by a list of tools that is doubted */
  call_answer answer;
  call_cache cache;
  bool cached;  /* the cache is used for this call */
  bool at_once; /* not even server/discover is asked */
  bool again;   /* what the cache said was wrong: begin anew without it */
  call_questions questions;
  call_login login;
  call_progress progress;
  call_printer printer;
  call_recorder *recorder; /* NULL: nothing is recorded */
  call_look look;
  unsigned looked; /* lists asked for so far */
  idem_log *log;
  uv_loop_t loop;
  uv_signal_t interrupt, terminate;
  uv_timer_t deadline;
  uint64_t begun_ns;
  idem_mcp_client *client;
  idem_conn *conn; /* without MCP */
  uint64_t call;
  bool calling;
  unsigned interrupts;
  bool late; /* the deadline has passed */
  bool over; /* `code` is the exit status */
  int code;
  bool told_stray, told_unknown, told_unkept;
  char errors[4096]; /* the last of a program's stderr */
  size_t errors_len;
  bool lost; /* the call has ended with its connection; `fate` is what became of it */
  idem_mcp_fate fate;
  bool only_prepare; /* --bench: all but the call itself */
  idem_revision revision;
  bool mirrors;       /* the tool wants arguments in HTTP headers, too */
  unsigned knocks;    /* how often it was asked what it takes to be shown the tool */
  yyjson_doc *listed; /* what is shown meanwhile; NULL: nobody asked */
  bool needs_task;    /* and is called as a task alone */
  char server[128];
} call_session;

/* What both kinds share. `begin` connects; the loop runs until everything is closed. */
int session_run(call_session *self, const call_options *options);
/* The same, up to where the call would be made; 0: `made` holds its arguments, `revision` what is spoken. */
int session_prepare(call_session *self, const call_options *options);
bool session_begin_mcp(call_session *self);
bool session_begin_plain(call_session *self);
void session_free(call_session *self);
/* The one end: prints nothing, closes everything. */
void session_end(call_session *self, int code);
/* Ctrl-C or the deadline: the call is cancelled. */
void session_cancel_mcp(call_session *self);
void session_cancel_plain(call_session *self);

/* Who looks on wants the messages, by --raw or --record. */
bool session_watches(const call_session *self);
/* A message to --raw and --record; the head of a request, or what a program says, to --raw alone. */
void session_message(call_session *self, idem_direction direction, const char *data, size_t len);
/* One line of --raw, to stderr. */
void session_raw(const call_session *self, char mark, const char *data, size_t len);
/* "http", "stdio", "unix", ... */
const char *session_transport(const call_session *self);
/* What both connect with. */
idem_client_opts session_wire(const call_session *self);

#endif
