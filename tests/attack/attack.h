/* attack.h - a hostile session against idem's programs: what its parts share.
 * A conductor (attack.c) starts a server, lets attackers loose on it in waves and looks at what is left
 * after each. An attacker is a process of its own whose code waits where it must; every choice it makes
 * comes from its seed. See docs/internals/tests.md. */
#ifndef IDEM_ATTACK_H
#define IDEM_ATTACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PATIENCE_MS 30000u /* for an answer, on a busy machine, from a sanitizer's build */
#define EPISODE_MS 90000u  /* for a stream that goes on, but not to its end */
#define SESSIONS_MAX 8192
#define SESSION_MAX 96

/* ---------------------------------------------------------------- chance.c: seeds */

typedef struct chance {
  uint64_t state;
} chance;

uint64_t chance_mix(uint64_t a, uint64_t b);
uint64_t chance_next(chance *luck);
unsigned chance_below(chance *luck, unsigned bound);
bool chance_one_in(chance *luck, unsigned count);
#define CHANCE_OF(luck, array) ((array)[chance_below((luck), COUNT(array))])

/* A text that is owned and grows. */
typedef struct text {
  char *data; /* NUL-terminated */
  size_t len, cap;
} text;

void text_add(text *to, const char *data, size_t len);
void text_printf(text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_cut(text *of, size_t from_begin);
void text_free(text *of);
/* Changes some bytes: flips, inserts, removes, repeats, cuts off. Never makes a line feed of another
 * byte, nor removes one, when `keep_lines`. */
void text_mutate(text *of, chance *luck, bool keep_lines);

/* --------------------------------------------------------- server.c: who is attacked */

typedef enum target {
  CONFORMANCE = 1, /* idem-conformance-server: MCP over HTTP, /sse and WebSocket */
  REFERENCE = 2,   /* idem-reference: JSON-RPC over HTTP, WebSocket, TCP, Unix sockets, TLS */
  EDITOR = 4,      /* idem-reference: Content-Length frames over TCP, Unix sockets, TLS */
  SERVE = 8,       /* idem serve: programs, queries and files */
  NARROW = 16,     /* idem-reference with few connections and a rate limit */
} target;

typedef struct server {
  target target;
  pid_t pid;
  FILE *log;       /* what it wrote to stderr */
  bool quarantine; /* the sanitizer keeps what is freed */
  uint16_t http, tcp, ws, https, tls;
  char unix_path[108];
} server;

/* What is the same before and after. */
typedef struct measure {
  long memory_kb, files, in_flight, sessions, processes;
} measure;

extern const char *bin_folder;
extern char work_folder[64];
extern bool thread_sanitizer;

const char *target_name(target which);
/* The folder for sockets, certificates and configurations, made once. */
bool servers_prepare(void);
void servers_clean(void);
bool server_start(server *self, target which, chance *luck);
/* Starts a program on descriptors for its input and output; its log as above. */
pid_t program_start(const char *const *argv, int in, int out, FILE *log);
/* Its log, copied to ours where it holds a sanitizer's report: false then. */
bool log_is_clean(FILE *log);
/* Waits for its end; false: it did not end, or not with `wanted` (a status, or minus a signal). */
bool server_end(server *self, int wanted);
long process_memory_kb(pid_t pid);
typedef struct shared shared;
bool server_measure(const server *self, shared *common, measure *now);
/* Asks until in flight, files and processes are as before; says which were not. */
bool server_settles(const server *self, shared *common, const measure *before);

/* -------------------------------------------------------------- attackers (attack.c) */

/* Seen by all processes. */
struct shared {
  atomic_bool ending; /* the server is about to end: what is lost now is excused */
  atomic_ulong steps, connections, asked, answered, excused;
  atomic_long in_flight, sessions_alive; /* as the server last said */
  atomic_uint session_count;
  char sessions[SESSIONS_MAX][SESSION_MAX]; /* left alive; the conductor ends them */
};

typedef struct attacker {
  const server *server;
  shared *shared;
  chance luck;
  const char *episode;
  uint64_t seed, until_ms;
} attacker;

/* The attack has found something: says what and how to repeat it, and ends this process. When the
 * server is ending, or a connection to it may be lost for that reason, it ends without a word. */
_Noreturn void attack_found(attacker *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Does this in a process of its own, as whatever is found ends one; false: something was. */
bool attack_aside(const server *victim, shared *common, const char *name,
                  void (*act)(attacker *self));
uint64_t now_ms(void);

typedef struct episode {
  const char *name;
  unsigned targets;
  unsigned weight;
  void (*run)(attacker *self);
} episode;

/* --------------------------------------------------------- wire.c: a connection's bytes */

typedef enum farewell { CLOSE_IT, RESET_IT, FINISH_IT } farewell;

typedef struct wire {
  attacker *owner;
  int in, out; /* the same, but for a program's pipes */
  text got;    /* and not yet taken */
  bool over;   /* nothing more will come */
} wire;

wire wire_tcp(attacker *owner, uint16_t port);
wire wire_unix(attacker *owner, const char *path);
/* Whole, or in pieces, or a byte at a time. False: the other side is gone. */
bool wire_send(wire *self, const char *data, size_t len);
bool wire_send_whole(wire *self, const char *data, size_t len);
/* Waits for more bytes; false at the end. Past the patience, an attack that found something. */
bool wire_more(wire *self);
/* Takes in what is there already or comes within some milliseconds. */
void wire_peek(wire *self, unsigned ms);
/* The next line without its end; false: there is none. */
bool wire_line(wire *self, text *line);
/* Ends our output; what comes can still be read. */
void wire_finish(wire *self);
/* FINISH_IT ends our output and reads to the end. */
void wire_end(wire *self, farewell how);
farewell wire_any_farewell(attacker *self);

/* A server of an attacker's own, on pipes. */
typedef struct piped {
  pid_t pid;
  FILE *log;
  wire line;
} piped;

piped piped_start(attacker *owner, const char *const *argv);
/* Ends the pipes; the server must end with 0 and have no sanitizer's report. */
void piped_end(piped *self);

/* ------------------------------------------------- ledger.c: each id has one answer */

typedef enum heard { ANSWER, NOTIFICATION, QUESTION } heard;

typedef struct owed {
  char *id;
  size_t len;
  unsigned got;
  bool excused; /* cancelled, or its session was ended: one answer or none */
} owed;

typedef struct ledger {
  attacker *owner;
  owed items[512];
  size_t count;
  bool foreign; /* mutated messages were sent: answers to ids of theirs are no fault */
} ledger;

/* An id of some odd spelling, unlike any other of this ledger. MCP knows strings and integers. */
const char *ledger_new_id(ledger *self, bool mcp);
void ledger_ask(ledger *self, const char *id);
void ledger_excuse(ledger *self, const char *id);
void ledger_excuse_all(ledger *self);
/* Takes in a message of the server's, or a batch of them (then ANSWER). */
heard ledger_hear(ledger *self, const char *message, size_t len);
bool ledger_answered(const ledger *self, const char *id);
/* It has no answer yet, and should have. */
bool ledger_owes(const ledger *self, const char *id);
size_t ledger_missing(const ledger *self);
/* Everything owed has come, or it is a finding. */
void ledger_close(ledger *self);
void ledger_free(ledger *self);
/* The raw id of a message, as it stands there; false: it has none. */
bool message_id(const char *message, size_t len, const char **id, size_t *id_len);
/* A string member by its name, anywhere in the message; owned by the caller, NULL: not there. */
char *message_string(const char *message, const char *name);

/* -------------------------------------------------------------- http.c: as a client */

typedef struct exchange {
  wire *wire;
  int status;
  bool events, chunked, closing, ended;
  long left; /* of the body, when its length is known */
  char session[SESSION_MAX];
  text body;    /* decoded, not yet taken */
  text message; /* the last one */
  char last_id[64];
} exchange;

/* A request's bytes; headers end with CRLF each. A NULL body has no length. */
void http_request(text *into, const char *method, const char *path, const char *headers,
                  const char *body);
/* Reads the head of the next answer. False: the connection ended before it. */
bool http_begin(exchange *self, wire *from);
/* The next message: the body, or an event's data; NULL: there is none left. */
const char *http_message(exchange *self);
/* Reads what is left; the connection can be used again unless it is closing. */
void http_finish(exchange *self);
void http_free(exchange *self);
/* One request on a connection of its own: its status; the body in `answer` unless that is NULL. */
int http_once(attacker *self, uint16_t port, const text *request, text *answer);

/* ---------------------------------------------------------------------- mcp.c: messages */

typedef struct mcp_call {
  const char *tool, *arguments;
  bool asks; /* may ask the client */
  bool task; /* may become one */
} mcp_call;

const mcp_call *mcp_any_call(attacker *self);
/* A request of the legacy kind, tools/call mostly; as a task if told. */
void mcp_legacy_call(text *into, attacker *self, const mcp_call *call, const char *id,
                     bool as_task);
void mcp_legacy_other(text *into, attacker *self, const char *id);
void mcp_hello(text *into, attacker *self, const char *id, const char *revision);
/* What a client answers to a question: mostly well, at times badly. */
void mcp_answer(text *into, attacker *self, const char *question);

/* ------------------------------------------------------------- the episodes, by subject */

void attack_http(attacker *self); /* http_mutations.c */
void attack_http_wild(attacker *self);
void attack_origins(attacker *self);
void attack_web_socket(attacker *self); /* web_socket.c */
void attack_web_socket_wild(attacker *self);
void attack_lines(attacker *self); /* frames.c */
void attack_frames(attacker *self);
void attack_stdio(attacker *self);
void attack_session(attacker *self);    /* sessions.c */
void attack_modern(attacker *self);     /* modern.c */
void attack_sse(attacker *self);        /* sse.c */
void attack_mcp_socket(attacker *self); /* mcp_talk.c */
void attack_mcp_stdio(attacker *self);
void attack_fragments(attacker *self); /* floods.c */
void attack_abandoned(attacker *self);
void attack_silence(attacker *self);
void attack_rate(attacker *self);
void attack_programs(attacker *self); /* programs.c */
void attack_patterns(attacker *self);
void attack_tls(attacker *self); /* tls.c */

#endif
