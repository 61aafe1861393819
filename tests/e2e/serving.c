/* serving.c - see serving.h. */
#include "serving.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GONE_MS 60000u

void serving_path(const serving *self, const char *name, char *path, size_t size) {
  snprintf(path, size, "%s/%s", self->folder, name);
}

void serving_folder(const serving *self, const char *name) {
  char path[512];
  serving_path(self, name, path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
}

void serving_file(const serving *self, const char *name, const char *text) {
  char path[512];
  serving_path(self, name, path, sizeof path);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) != EOF);
  assert_int_equal(fclose(file), 0);
}

/* ------------------------------------------------------------------------- early answers */

#define ANSWER "{\"jsonrpc\":\"2.0\",\"id\":"

/* An answer that came before the one that was waited for. */
typedef struct early {
  struct early *next;
  const serving *of;
  char line[];
} early;

static early *earlier;

static void keep_early(const serving *self, const char *line) {
  size_t len = strlen(line);
  early *kept = malloc(sizeof *kept + len + 1);
  assert_non_null(kept);
  memcpy(kept->line, line, len + 1);
  kept->of = self;
  kept->next = earlier;
  earlier = kept;
}

static void forget_early(const serving *self) {
  for (early **at = &earlier, *kept; (kept = *at);) {
    if (kept->of != self) {
      at = &kept->next;
      continue;
    }
    *at = kept->next;
    free(kept);
  }
}

/* ------------------------------------------------------------------------- a server */

void serving_make(serving *self, const char *config) {
  forget_early(self);
  *self = (serving){.next_id = 1};
  child_make_folder(self->folder, sizeof self->folder);
  serving_file(self, "idem.json", config);
}

void serving_start(serving *self) {
  char path[512];
  serving_path(self, "idem.json", path, sizeof path);
  self->server = CHILD(IDEM_BIN_DIR "/idem", "serve", path);
  expect_in(serving_ask(self, "initialize",
                        "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                        "\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}"),
            "\"serverInfo\"");
  child_send(self->server.in, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
}

int serving_send(serving *self, const char *method, const char *params) {
  char *message = NULL;
  int id = self->next_id++;
  assert_true(asprintf(&message,
                       "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}\n", id,
                       method, params) > 0);
  child_send(self->server.in, message);
  free(message);
  return id;
}

/* Answers come as they are ready, so a quick one may come before that of a later ping. */
const char *serving_answer(serving *self, int id) {
  char wanted[64];
  int len = snprintf(wanted, sizeof wanted, ANSWER "%d,", id);
  for (const early *kept = earlier; kept; kept = kept->next)
    if (kept->of == self && strncmp(kept->line, wanted, (size_t)len) == 0) return kept->line;
  for (;;) {
    const char *line = child_line(self->server.out);
    if (strncmp(line, wanted, (size_t)len) == 0) return line;
    if (strncmp(line, ANSWER, strlen(ANSWER)) == 0) keep_early(self, line);
  }
}

const char *serving_ask(serving *self, const char *method, const char *params) {
  return serving_answer(self, serving_send(self, method, params));
}

int serving_send_call(serving *self, const char *tool, const char *arguments) {
  char *params = NULL;
  assert_true(asprintf(&params,
                       "{\"name\":\"%s\",\"arguments\":%s,\"_meta\":{\"progressToken\":\"%s\"}}",
                       tool, arguments, tool) > 0);
  int id = serving_send(self, "tools/call", params);
  free(params);
  return id;
}

const char *serving_call(serving *self, const char *tool, const char *arguments) {
  return serving_answer(self, serving_send_call(self, tool, arguments));
}

int serving_runs(const serving *self) {
  char path[300], line[64];
  int count = 0;
  serving_path(self, "out/runs", path, sizeof path);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) count++;
  if (file) fclose(file);
  return count;
}

void serving_await_runs(const serving *self, int count) {
  uint64_t until = child_now_ms() + 60000;
  while (serving_runs(self) < count) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 5);
  }
}

void serving_end(serving *self) {
  close(self->server.in);
  self->server.in = -1;
  child_rest(self->server.out);
  forget_early(self);
  assert_int_equal(child_end(&self->server), 0);
  child_remove_folder(self->folder);
}

void expect_in(const char *text, const char *wanted) {
  if (!strstr(text, wanted)) fail_msg("wanted %s in: %.2000s", wanted, text);
}

void expect_not_in(const char *text, const char *unwanted) {
  if (strstr(text, unwanted)) fail_msg("did not want %s in: %.2000s", unwanted, text);
}

/* Nobody tells us of the end of a process that is not ours; so we look, and wait between looks. */
void expect_gone(long pid) {
  uint64_t end = child_now_ms() + GONE_MS;
  while (kill((pid_t)pid, 0) == 0) {
    if (child_now_ms() > end) fail_msg("process %ld still runs", pid);
    poll(NULL, 0, 5);
  }
  assert_int_equal(errno, ESRCH);
}

/* ------------------------------------------------------------------ the process table */

static void read_small(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "r");
  text[0] = 0;
  if (!file) return; /* it has ended */
  size_t len = fread(text, 1, size - 1, file);
  text[len] = 0;
  fclose(file);
}

static void look_at(long pid, processes *all);

static void look_below(long pid, processes *all) {
  char path[64], list[8192], *end;
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
  read_small(path, list, sizeof list);
  for (char *at = list; *at; at = end + (*end == ' ')) {
    long one = strtol(at, &end, 10);
    if (end == at) break;
    look_at(one, all);
  }
}

static void look_at(long pid, processes *all) {
  char path[64], name[64];
  snprintf(path, sizeof path, "/proc/%ld/comm", pid);
  read_small(path, name, sizeof name);
  name[strcspn(name, "\n")] = 0;
  all->runners += strcmp(name, "idem-runner") == 0;
  if (strcmp(name, "idem-spawner") == 0) all->spawner = pid;
  if (strncmp(name, "idem", 4) != 0 && strlen(all->others) + sizeof name < sizeof all->others)
    strcat(strcat(all->others, name), " ");
  look_below(pid, all);
}

processes processes_below_us(void) {
  processes all = {.runners = 0};
  look_below(getpid(), &all);
  return all;
}
