/* serving.h - `idem serve` with a configuration of the test's own, spoken to over stdio. */
#ifndef IDEM_TESTS_SERVING_H
#define IDEM_TESTS_SERVING_H

#include "child.h"

typedef struct serving {
  child server;
  char folder[256];
  int next_id;
} serving;

/* A folder of its own, with idem.json in it; start when other files are there, too. */
void serving_make(serving *self, const char *config);
void serving_file(const serving *self, const char *name, const char *text);
/* A folder in it. */
void serving_folder(const serving *self, const char *name);
void serving_path(const serving *self, const char *name, char *path, size_t size);
/* Starts and shakes hands. */
void serving_start(serving *self);
/* Sends; the id of the request. */
int serving_send(serving *self, const char *method, const char *params);
/* The answer to it, also one that came while another was waited for; what is no answer is passed
 * over. */
const char *serving_answer(serving *self, int id);
const char *serving_ask(serving *self, const char *method, const char *params);
/* tools/call with arguments as JSON text. */
int serving_send_call(serving *self, const char *tool, const char *arguments);
const char *serving_call(serving *self, const char *tool, const char *arguments);
/* How many lines its programs have left in out/runs; and waits for so many. */
int serving_runs(const serving *self);
void serving_await_runs(const serving *self, int count);
/* Ends the input, expects exit status 0, removes the folder. */
void serving_end(serving *self);

void expect_in(const char *text, const char *wanted);
void expect_not_in(const char *text, const char *unwanted);
/* Waits until there is no such process. */
void expect_gone(long pid);

/* The processes that this one has started, and theirs. */
typedef struct processes {
  size_t runners;
  long spawner;
  char others[512]; /* the names of those that are none of idem's own */
} processes;
processes processes_below_us(void);

#endif
