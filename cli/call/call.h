/* call.h - the verb `call`: what was asked on the command line, and how it ends.
 * See docs/internals/cli.md. */
#ifndef IDEM_CLI_CALL_H
#define IDEM_CLI_CALL_H

#include <idem/mcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program's exit status says. */
enum {
  CALL_WELL = 0,
  CALL_TOOL_FAILED = 1,   /* the tool said isError */
  CALL_ASKED_WRONGLY = 2, /* usage, or arguments or answers that do not fit */
  CALL_NO_PEER = 3,  /* no connection, the protocol was broken, or a result cannot be written */
  CALL_REFUSED = 4,  /* the server answered with an error */
  CALL_GIVEN_UP = 5, /* time-out or cancelled */
  CALL_OUTCOME_UNKNOWN = 6 /* the server began it, and does not know what became of it */
};

typedef enum call_kind {
  CALL_LOOK, /* what is there */
  CALL_TOOL,
  CALL_READ,
  CALL_PROMPT,
  CALL_COMPLETE,
  CALL_METHOD,
  CALL_NOTIFY
} call_kind;

#define CALL_HEADERS 64

typedef struct call_options {
  const char *target; /* as it was written; NULL: `command` */
  char **command;     /* behind `--`; ends with NULL */
  call_kind kind;
  const char *subject; /* a tool, URI, prompt or method */
  char **values;       /* NAME=VALUE, NAME=@FILE, NAME:=JSON */
  int value_count;
  const char *data;   /* -d: JSON, @FILE or - */
  const char *config; /* an mcpServers file */
  idem_profile profile;
  uint32_t revisions; /* bits of idem_revision; 0: any */
  const char *key; /* with which a tool runs once; NULL: one is made where the server knows keys */
  bool no_key;     /* none at all */
  const char *repeat; /* the store of the server where it was called before; NULL: it was not */
  const char *headers[CALL_HEADERS + 1];
  size_t header_count;
  const char *token_file;
  const char *token_command;
  bool login;  /* by a browser on this machine, or an address pasted back */
  bool device; /* by a browser on any machine */
  bool open;   /* the page is opened */
  bool stored_only;
  bool logout;
  bool whoami;
  const char *client;   /* ID[:REFERENCE] */
  const char *scope;    /* asked for beside what the server wants */
  const char *redirect; /* where the browser comes back to; NULL: any port of 127.0.0.1 */
  bool private_issuer;  /* the authorization server may be in a private network */
  const char *ca_file;
  bool no_verify;
  uint64_t timeout_ms;  /* without a sign of life; 0: the default */
  uint64_t deadline_ms; /* for everything; 0: none */
  bool json;
  bool raw;
  bool verbose;         /* what is done on the way */
  const char *record;   /* a file for a recording */
  const char *output;   /* -o: a folder, a file, or - */
  bool no_input;        /* nobody is asked anything */
  const char *answers;  /* a file that answers questions */
  const char *sampling; /* a program that does */
  bool no_cache;
  uint64_t bench; /* requests, 0: none */
  uint64_t connections;
  double rate; /* requests a second, 0: as fast as answers come */
  bool ramp;
  const char *why; /* a flag's value was refused, if it is not only its form */
} call_options;

/* True: go on; false: *code is the exit status. */
bool call_options_parse(call_options *self, int argc, char **argv, int *code);
/* The flags, each with its meaning, to stdout. */
void call_options_help(void);
/* For completion: the target and the tool of a line whose last word is still being written. */
typedef struct call_glance {
  const char *target;
  const char *config;
  const char *tool;
  bool at_target; /* the word being written is the target */
  bool at_tool;
  bool at_prompt, at_resource; /* the value of --prompt, of --read or --complete */
  const char *prompt;          /* what --prompt or --complete names */
  bool elsewhere;              /* a flag's value, or behind `--` */
} call_glance;
void call_options_glance(call_glance *self, int argc, char **argv);

/* What is printed is out now. Not 0: it is not, and this is the errno of the first time. */
int call_flush(void);
/* "idem call: " and a sentence, to stderr. */
void call_say(const char *format, ...) IDEM_PRINTF(1, 2);

#endif
