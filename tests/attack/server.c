/* server.c - the programs under attack: started on ports of their own, measured, and ended. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 30000u
#define END_MS 20000u
#define SETTLE_MS 20000u
#define ARGUMENTS_MAX 32
#define SERVE_FILES 40

const char *bin_folder;
char work_folder[64];
bool thread_sanitizer;

const char *target_name(target which) {
  switch (which) {
  case CONFORMANCE: return "conformance-server";
  case REFERENCE: return "reference";
  case EDITOR: return "reference (lsp)";
  case SERVE: return "serve";
  default: return "reference (narrow)";
  }
}

/* ------------------------------------------------------------------------ preparing */

static void write_file(const char *name, const char *content) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", work_folder, name);
  FILE *file = fopen(path, "w");
  if (!file || fputs(content, file) == EOF || fclose(file) != 0) abort();
}

static const char serve_config[] =
    "{\"name\":\"attacked\",\"concurrency\":4,\"queue\":64,\"tools\":{\n"
    "\"say\":{\"args\":{\"text\":\"string\"},\"run\":[\"echo\",\"--\",\"{text}\"]},\n"
    "\"wait\":{\"args\":{\"ms\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":5000}},"
    "\"run\":[\"sh\",\"-c\",\"echo progress: 1 >&2; sleep "
    "0.$1\",\"sh\",\"{ms}\"],\"progress\":true},\n"
    "\"leaves\":{\"run\":[\"sh\",\"-c\",\"(setsid sleep 1000 &); sleep 1000 & echo done\"]},\n"
    "\"floods\":{\"run\":[\"yes\"],\"output_bytes\":100000},\n"
    "\"reads\":{\"args\":{\"text\":\"string\"},\"stdin\":\"{text}\",\"run\":[\"wc\",\"-c\"]},\n"
    "\"fails\":{\"run\":[\"sh\",\"-c\",\"echo no >&2; exit 3\"]},\n"
    "\"stubborn\":{\"run\":[\"sh\",\"-c\",\"trap '' TERM; sleep 1 & wait; sleep 1\"],"
    "\"deadline_ms\":200},\n"
    "\"matches\":{\"args\":{\"text\":{\"type\":\"string\",\"pattern\":\"([a-z]+)*[0-9]$\"}},"
    "\"run\":[\"true\",\"--\",\"{text}\"]},\n"
    "\"like\":{\"args\":{\"text\":\"string\",\"pattern\":\"string\"},\"script\":\"data.sql\","
    "\"query\":\"SELECT :text LIKE :pattern AS found\",\"deadline_ms\":1000},\n"
    "\"rows\":{\"args\":{\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":100000}},"
    "\"script\":\"data.sql\",\"query\":\"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM"
    " n LIMIT :count) SELECT i, i*i AS square FROM n\",\"max_rows\":1000,\"deadline_ms\":2000}\n"
    "},\"resources\":{\"files\":{\"directory\":\"files\"}},"
    "\"prompts\":{\"hello\":{\"arguments\":{\"name\":\"Whom\"},\"text\":\"Say hello to "
    "{name}.\"}}}";

static bool make_certificate(void) {
  char command[512];
  snprintf(
      command, sizeof command,
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=localhost -keyout %s/key.pem -out %s/cert.pem 2>/dev/null",
      work_folder, work_folder);
  return system(command) == 0; /* NOLINT: the words are ours */
}

bool servers_prepare(void) {
  char path[128];
  snprintf(work_folder, sizeof work_folder, "/tmp/idem-attack-XXXXXX");
  if (!mkdtemp(work_folder)) return false;
  snprintf(path, sizeof path, "%s/files", work_folder);
  mkdir(path, 0755);
  write_file("files/one.txt", "one\n");
  write_file("idem.json", serve_config);
  write_file("data.sql", "CREATE TABLE t(a); INSERT INTO t VALUES (1),(2),(3);");
#ifdef TSAN_CLOSE /* which shows the thread sanitizer what libuv closes */
  setenv("LD_PRELOAD", TSAN_CLOSE, 1);
#endif
  setenv("TSAN_OPTIONS", "history_size=4", 1);
  setenv("UBSAN_OPTIONS", "print_stacktrace=1", 1);
  return make_certificate();
}

void servers_clean(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", work_folder);
  if (system(command) != 0) perror("attack: rm"); /* NOLINT: the words are ours */
}

/* ------------------------------------------------------------------------- starting */

pid_t program_start(const char *const *argv, int in, int out, FILE *log) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid != 0) return pid;
  int null = open("/dev/null", O_RDWR);
  dup2(in < 0 ? null : in, 0);
  dup2(out < 0 ? null : out, 1);
  dup2(fileno(log), 2);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  execv(argv[0], (char *const *)(uintptr_t)argv);
  _exit(127);
}

static uint16_t port_of(const char *line, const char *scheme) {
  char mark[32];
  snprintf(mark, sizeof mark, "listening on %s://", scheme);
  const char *at = strstr(line, mark);
  at = at ? strrchr(at, ':') : NULL;
  return at ? (uint16_t)strtoul(at + 1, NULL, 10) : 0;
}

static unsigned read_ports(server *self) {
  char line[1024];
  unsigned count = 0;
  rewind(self->log);
  while (fgets(line, sizeof line, self->log)) {
    uint16_t port;
    count += strstr(line, "listening on ") != NULL;
    if ((port = port_of(line, "http"))) self->http = port;
    if ((port = port_of(line, "https"))) self->https = port;
    if ((port = port_of(line, "ws"))) self->ws = port;
    if ((port = port_of(line, "tcp")) || (port = port_of(line, "tcp+lsp"))) self->tcp = port;
    if ((port = port_of(line, "tls")) || (port = port_of(line, "tls+lsp"))) self->tls = port;
  }
  return count;
}

static bool listens(server *self, unsigned listeners) {
  for (uint64_t until = now_ms() + START_MS; now_ms() < until; poll(NULL, 0, 10)) {
    if (read_ports(self) >= listeners) return true;
    if (waitpid(self->pid, NULL, WNOHANG) == self->pid) break;
  }
  fprintf(stderr, "attack: %s does not listen\n", target_name(self->target));
  log_is_clean(self->log);
  return false;
}

typedef struct command {
  const char *words[ARGUMENTS_MAX];
  size_t count;
  char program[256], cert[128], key[128], config[128];
} command;

static void say(command *line, const char *word, const char *value) {
  line->words[line->count++] = word;
  if (value) line->words[line->count++] = value;
}

static void say_program(command *line, const char *name) {
  snprintf(line->program, sizeof line->program, "%s/%s", bin_folder, name);
  say(line, line->program, NULL);
}

static unsigned say_tls(command *line, const char *kind) {
  snprintf(line->cert, sizeof line->cert, "%s/cert.pem", work_folder);
  snprintf(line->key, sizeof line->key, "%s/key.pem", work_folder);
  say(line, kind, "127.0.0.1:0");
  say(line, "--tls-cert", line->cert);
  say(line, "--tls-key", line->key);
  return 1;
}

/* How many addresses it will listen on. */
static unsigned say_all(command *line, server *self, const char *workers) {
  if (self->target == CONFORMANCE) {
    say_program(line, "idem-conformance-server");
    say(line, "--http", "127.0.0.1:0");
    say(line, "--workers", workers);
    return 1;
  }
  if (self->target == SERVE) {
    say_program(line, "idem");
    snprintf(line->config, sizeof line->config, "%s/idem.json", work_folder);
    say(line, "serve", line->config);
    say(line, "--http", "127.0.0.1:0");
    say(line, "--tcp", "127.0.0.1:0");
    say(line, "--unix", self->unix_path);
    return 3;
  }
  say_program(line, "idem-reference");
  say(line, "--http", "127.0.0.1:0");
  say(line, "--workers", workers);
  if (self->target == NARROW) {
    say(line, "--profile", "mcp");
    say(line, "--max-connections", "64");
    say(line, "--rate-limit", "40/10");
    return 1;
  }
  say(line, "--tcp", "127.0.0.1:0");
  say(line, "--unix", self->unix_path);
  if (self->target == EDITOR) say(line, "--profile", "lsp");
  if (self->target == REFERENCE) say_tls(line, "--https");
  return (self->target == REFERENCE ? 4 : 3) + say_tls(line, "--tls");
}

/* What is freed is kept in half of the rounds, to find who uses it all the same; in the others not, so
 * that memory that grows is seen. */
static void set_quarantine(bool keep) {
  char options[160];
  snprintf(options, sizeof options,
           "%s:allocator_may_return_null=1:detect_leaks=1:allocator_release_to_os_interval_ms=200",
           keep ? "quarantine_size_mb=32"
                : "quarantine_size_mb=0:thread_local_quarantine_size_kb=0");
  setenv("ASAN_OPTIONS", options, 1);
}

bool server_start(server *self, target which, chance *luck) {
  static unsigned number;
  command line = {.count = 0};
  *self = (server){.target = which, .log = tmpfile()};
  if (!self->log) return false;
  snprintf(self->unix_path, sizeof self->unix_path, "%s/%u.sock", work_folder, number++);
  self->quarantine = chance_one_in(luck, 2);
  set_quarantine(self->quarantine);
  unsigned listeners = say_all(&line, self, chance_one_in(luck, 3) ? "1" : "3");
  self->pid = program_start(line.words, -1, -1, self->log);
  return self->pid > 0 && listens(self, listeners);
}

/* --------------------------------------------------------------------------- ending */

bool log_is_clean(FILE *log) {
  char line[1024];
  bool clean = true, telling = false;
  rewind(log);
  while (fgets(line, sizeof line, log)) {
    if (strstr(line, "Sanitizer") || strstr(line, "runtime error:")) clean = false, telling = true;
    if (telling) fputs(line, stderr);
  }
  return clean;
}

static bool ends(pid_t pid, int *status) {
  for (uint64_t until = now_ms() + END_MS; now_ms() < until; poll(NULL, 0, 5)) {
    if (waitpid(pid, status, WNOHANG) == pid) return true;
  }
  kill(pid, SIGABRT); /* a sanitizer's build shows where it was */
  waitpid(pid, status, 0);
  return false;
}

bool server_end(server *self, int wanted) {
  int status = 0;
  bool ended = ends(self->pid, &status), clean = log_is_clean(self->log);
  int got = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  if (!ended) fprintf(stderr, "attack: %s did not end\n", target_name(self->target));
  if (ended && got != wanted)
    fprintf(stderr, "attack: %s ended with %d, not %d\n", target_name(self->target), got, wanted);
  fclose(self->log);
  self->pid = 0;
  return ended && clean && got == wanted;
}

/* ------------------------------------------------------------------------ measuring */

long process_memory_kb(pid_t pid) {
  char path[64], line[256];
  long kb = -1;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, "RssAnon:", 8) == 0) kb = strtol(line + 8, NULL, 10);
  fclose(file);
  return kb;
}

static long open_files(pid_t pid) {
  char path[64];
  long count = 0;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  if (!folder) return -1;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

/* Programs, that is: neither idem's own nor threads of its. */
static long programs_below(long pid) {
  char path[64], list[4096], name[64] = "", *end;
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  size_t len = fread(list, 1, sizeof list - 1, file);
  list[len] = 0;
  fclose(file);
  long count = 0;
  for (char *at = list; *at; at = end + (*end == ' ')) {
    long one = strtol(at, &end, 10);
    if (end == at) break;
    snprintf(path, sizeof path, "/proc/%ld/comm", one);
    if ((file = fopen(path, "r"))) {
      if (!fgets(name, sizeof name, file)) name[0] = 0;
      fclose(file);
    }
    count += strncmp(name, "idem", 4) != 0;
    count += programs_below(one);
  }
  return count;
}

static long metric(const char *page, const char *name) {
  char mark[64];
  snprintf(mark, sizeof mark, "\n%s ", name);
  const char *at = strstr(page, mark);
  return at ? strtol(at + strlen(mark), NULL, 10) : -1;
}

static void read_metrics(attacker *self) {
  text request = {.data = NULL}, page = {.data = NULL};
  http_request(&request, "GET", "/metrics", "Connection: close\r\n", NULL);
  if (http_once(self, self->server->http, &request, &page) != 200)
    attack_found(self, "no metrics: %s", page.data);
  self->shared->in_flight = metric(page.data, "idem_requests_in_flight");
  self->shared->sessions_alive = metric(page.data, "idem_sessions");
  text_free(&request);
  text_free(&page);
}

bool server_measure(const server *self, shared *common, measure *now) {
  bool told = attack_aside(self, common, "measure", read_metrics);
  now->in_flight = told ? common->in_flight : -1;
  now->sessions = told ? common->sessions_alive : -1;
  now->memory_kb = process_memory_kb(self->pid);
  now->files = open_files(self->pid);
  now->processes = programs_below(self->pid);
  return told && now->memory_kb > 0;
}

/* `idem serve` keeps hands, pipes and databases for the next call. */
static bool same(target which, const measure *now, const measure *before) {
  long kept = which == SERVE ? SERVE_FILES : 0;
  return now->files <= before->files + kept && now->in_flight == 0 && now->sessions == 0 &&
         now->processes <= before->processes;
}

/* Nobody tells us when the server has noticed; so we look, and wait between looks. */
bool server_settles(const server *self, shared *common, const measure *before) {
  measure now = {.files = 0};
  for (uint64_t until = now_ms() + SETTLE_MS; now_ms() < until; poll(NULL, 0, 50)) {
    if (!server_measure(self, common, &now)) return false;
    if (same(self->target, &now, before)) return true;
  }
  fprintf(stderr,
          "attack: %s does not come to rest: %ld files (%ld before), %ld requests in flight, "
          "%ld sessions, %ld programs (%ld)\n",
          target_name(self->target), now.files, before->files, now.in_flight, now.sessions,
          now.processes, before->processes);
  return false;
}
