/* questions.h - what a server asks while a call runs, and who answers: a file, a person at the terminal, a program for
 * a model, or nobody. */
#ifndef IDEM_CLI_CALL_QUESTIONS_H
#define IDEM_CLI_CALL_QUESTIONS_H

#include "call.h"

#include <idem/mcp_client.h>
#include <uv.h>
#include <yyjson.h>

typedef struct asking asking;
typedef struct call_questions {
  const call_options *options;
  uv_loop_t *loop;
  const char *server; /* how it is called to the person asked */
  yyjson_doc *answers;
  size_t next;    /* of the answers, where they are a list */
  int stop[2];    /* a pipe that ends forms */
  uv_mutex_t one; /* form at a time */
  size_t open;    /* forms and programs under way */
  bool ending;
  bool left;   /* Ctrl-C was pressed in a form */
  bool misfit; /* an answer of the file was none to its question */
  bool made;
  asking *samplers;
  void (*before)(void *user); /* a form comes: clear the line */
  void *user;
} call_questions;

/* False: the answers' file cannot be used; stderr has said why. Free either way. */
bool questions_init(call_questions *self, const call_options *options, uv_loop_t *loop);
void questions_free(call_questions *self);
/* Sets the handlers; `opts->user` is not this: get_questions finds it. */
void questions_declare(call_questions *self, idem_mcp_client_opts *opts);
call_questions *questions_of(void *user); /* of the options' user; who declares provides it */
/* Nobody waits for answers any more. */
void questions_end(call_questions *self);

/* A program that answers for a model: `done` runs once, on the loop, with what it printed; NULL: it failed, and
 * stderr has said how. */
typedef void (*sampler_fn)(const char *output, size_t len, void *user);
bool sampler_start(uv_loop_t *loop, const char *command, const char *input, size_t len,
                   sampler_fn done, void *user, uv_process_t **process);

#endif
