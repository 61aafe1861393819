/* transcript.h - promises about the wire, written as what is sent and what comes back.
 * A file holds scenarios, each a fresh conn. The players (tests/transcripts) act them out in memory
 * and over real transports; docs/internals/tests.md says how to write one. */
#ifndef IDEM_TEST_TRANSCRIPT_H
#define IDEM_TEST_TRANSCRIPT_H

#include "peer_client.h"

#include <idem/mcp.h>

typedef enum step_kind {
  STEP_SEND,       /* >  a message, framed by the player; >q the same, quoted */
  STEP_SEND_RAW,   /* >> bytes as they are */
  STEP_EXPECT,     /* <  this message comes next */
  STEP_EXPECT_ANY, /* <? this one too; neighbours in any order */
  STEP_NOTHING,    /* -  nothing has come that was not expected above */
  STEP_ADVANCE,    /* ~  so many milliseconds pass */
  STEP_EOF,        /* $  end of input */
  STEP_CLOSED,     /* !  the conn has ended: nothing more comes out, nothing more is taken */
  STEP_ACT,        /* :  something our own side does */
  STEP_SEE         /* =  something our own side is told */
} step_kind;

typedef struct step {
  step_kind kind;
  int line;
  char *text; /* NUL-terminated, but may hold NULs */
  size_t len;
  uint64_t number; /* STEP_ADVANCE */
} step;

typedef struct scenario {
  char *name;
  int line;
  idem_profile profile;
  idem_policy policy;
  bool memory_only;  /* what it needs cannot be had from a real server */
  bool acts;         /* our own side does something: whoever plays it is the server's process */
  bool lines_only;   /* MCP's, of a shape that HTTP does not allow */
  bool sockets_only; /* the rule is one of socket listeners, not of stdio */
  bool test_methods; /* the methods that misbehave are registered, too */
  bool mcp_server;   /* the MCP fixture is served */
  idem_server_opts server;
  bool mcp_client; /* it is a client that is played */
  client_setting client;
  char principal[64];
  step *steps;
  size_t step_count;
} scenario;

typedef struct transcript {
  const char *path;
  scenario *scenarios;
  size_t count;
} transcript;

/* Reads a file; a malformed one ends the program with a sentence that names the line. */
transcript *transcript_load(const char *path);
void transcript_free(transcript *script);

/* True for steps that send bytes. */
bool step_sends(const step *one);
/* The bytes of a send step as they go over the wire; freed by the caller. */
char *step_wire_bytes(const scenario *scene, const step *one, size_t *len);

#endif
