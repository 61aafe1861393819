/* attack.c - the conductor: rounds of a server, waves of attackers, and what is left after each.
 * `attack BIN [seed=N] [seconds=N | rounds=N] [steps=N] [round=N] [targets=BITS] [only=EPISODE]
 * [quiet]`; see docs/internals/tests.md. */
#include "attack.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTACKERS 3
#define WAVES 3
#define GROWTH_KB (16 * 1024)
#define QUARANTINE_KB (64 * 1024) /* where the sanitizer keeps 32 MiB of what is freed */
#define RETURN_MS 30000u
#define WAVE_MS 240000u

static const episode episodes[] = {
    {"http", REFERENCE | CONFORMANCE | SERVE | EDITOR, 10, attack_http},
    {"http-wild", REFERENCE | CONFORMANCE | SERVE, 10, attack_http_wild},
    {"origins", REFERENCE | CONFORMANCE | SERVE, 1, attack_origins},
    {"web-socket", REFERENCE | CONFORMANCE | SERVE, 8, attack_web_socket},
    {"web-socket-wild", REFERENCE | CONFORMANCE | SERVE, 8, attack_web_socket_wild},
    {"lines", REFERENCE | SERVE, 10, attack_lines},
    {"frames", EDITOR, 10, attack_frames},
    {"stdio", REFERENCE | EDITOR, 1, attack_stdio},
    {"session", CONFORMANCE, 30, attack_session},
    {"modern", CONFORMANCE, 12, attack_modern},
    {"sse", CONFORMANCE, 8, attack_sse},
    {"mcp-socket", CONFORMANCE, 10, attack_mcp_socket},
    {"mcp-stdio", CONFORMANCE, 2, attack_mcp_stdio},
    {"fragments", REFERENCE | CONFORMANCE, 1, attack_fragments},
    {"abandoned", CONFORMANCE, 1, attack_abandoned},
    {"silence", NARROW, 2, attack_silence},
    {"rate", NARROW, 4, attack_rate},
    {"programs", SERVE, 25, attack_programs},
    {"patterns", SERVE, 1, attack_patterns},
    {"tls", REFERENCE | EDITOR, 1, attack_tls},
};

static const target targets[] = {CONFORMANCE, REFERENCE, SERVE, EDITOR, NARROW};

typedef struct plan {
  uint64_t seed, until_ms;
  unsigned rounds, first, steps, targets;
  const char *only;
  bool quiet;
} plan;

static plan wanted;
static unsigned current_round;
static shared *common;

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void say_repeat(void) {
  fprintf(stderr, "attack: repeat it with: make attack SEED=%llu ROUND=%u\n",
          (unsigned long long)wanted.seed, current_round);
}

void attack_found(attacker *self, const char *format, ...) {
  char what[1024];
  va_list list;
  /* A signal, or a report that is being printed, is a moment ahead of what we see of it. */
  if (!self->shared->ending) poll(NULL, 0, 200);
  if (self->shared->ending) _exit(0);
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  fprintf(stderr, "attack: %s, %s (%llx): %s\n", target_name(self->server->target), self->episode,
          (unsigned long long)self->seed, what);
  _exit(1);
}

/* ------------------------------------------------------------------------ attackers */

static bool is_meant(const episode *one, target which) {
  return (one->targets & which) && (!wanted.only || strcmp(wanted.only, one->name) == 0);
}

static const episode *choose(chance *luck, target which) {
  unsigned sum = 0, at;
  for (size_t i = 0; i < COUNT(episodes); i++)
    if (is_meant(&episodes[i], which)) sum += episodes[i].weight;
  if (!sum) return NULL;
  at = chance_below(luck, sum);
  for (size_t i = 0;; i++) {
    if (!is_meant(&episodes[i], which)) continue;
    if (at < episodes[i].weight) return &episodes[i];
    at -= episodes[i].weight;
  }
}

static void attack_on(const server *victim, uint64_t seed, unsigned steps) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (unsigned i = 0; i < steps && !common->ending; i++) {
    attacker self = {.server = victim, .shared = common, .seed = chance_mix(seed, i)};
    self.luck.state = self.seed;
    self.until_ms = now_ms() + EPISODE_MS;
    const episode *one = choose(&self.luck, victim->target);
    if (!one) break;
    self.episode = one->name;
    one->run(&self);
    common->steps++;
  }
  _exit(0);
}

bool attack_aside(const server *victim, shared *with, const char *name,
                  void (*act)(attacker *self)) {
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    attacker self = {.server = victim, .shared = with, .episode = name};
    self.until_ms = now_ms() + EPISODE_MS;
    act(&self);
    _exit(0);
  }
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

typedef struct wave {
  pid_t pids[ATTACKERS];
} wave;

static void begin_wave(wave *these, const server *victim, unsigned number, unsigned steps) {
  for (unsigned i = 0; i < ATTACKERS; i++) {
    uint64_t seed = chance_mix(wanted.seed, (uint64_t)current_round << 32 | number << 8 | i);
    fflush(NULL);
    these->pids[i] = fork();
    if (these->pids[i] == 0) attack_on(victim, seed, steps);
  }
}

/* True: all of them ended, and found nothing. */
static bool end_wave(const wave *these) {
  bool good = true;
  uint64_t until = now_ms() + WAVE_MS;
  for (unsigned i = 0; i < ATTACKERS; i++) {
    int status = 0;
    while (waitpid(these->pids[i], &status, WNOHANG) == 0) {
      if (now_ms() > until) {
        fprintf(stderr, "attack: a wave takes too long\n");
        kill(these->pids[i], SIGKILL);
        until += WAVE_MS;
        good = false;
      }
      poll(NULL, 0, 2);
    }
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

/* ---------------------------------------------------------------------------- waves */

/* Sessions that attackers left alive may go on; who ends them must end all they were asked. */
static void end_sessions(attacker *self) {
  unsigned count = common->session_count < SESSIONS_MAX ? common->session_count : SESSIONS_MAX;
  for (unsigned i = 0; i < count; i++) {
    text request = {.data = NULL};
    char line[SESSION_MAX + 32];
    snprintf(line, sizeof line, "Mcp-Session-Id: %s\r\n", common->sessions[i]);
    http_request(&request, "DELETE", "/mcp", line, NULL);
    http_once(self, self->server->http, &request, NULL);
    text_free(&request);
  }
  common->session_count = 0;
}

static bool play_wave(const server *victim, unsigned number, unsigned steps,
                      const measure *before) {
  wave these;
  begin_wave(&these, victim, number, steps);
  if (!end_wave(&these)) return false;
  return attack_aside(victim, common, "end-sessions", end_sessions) &&
         server_settles(victim, common, before);
}

/* Allocators give back a while after they were given. */
static bool memory_returns(const server *victim, const measure *before, long *grown_kb) {
  measure after;
  long bound = victim->quarantine ? QUARANTINE_KB : GROWTH_KB;
  for (uint64_t until = now_ms() + RETURN_MS; now_ms() < until; poll(NULL, 0, 100)) {
    if (!server_measure(victim, common, &after)) return false;
    *grown_kb = after.memory_kb - before->memory_kb;
    if (thread_sanitizer || *grown_kb <= bound) return true;
  }
  fprintf(stderr, "attack: %s grew by %ld KiB (bound %ld)\n", target_name(victim->target),
          *grown_kb, bound);
  return false;
}

/* --------------------------------------------------------------------------- rounds */

/* Everything that was started has ended, and what it left to itself is ours now. */
static bool nobody_is_left(void) {
  uint64_t until = now_ms() + 15000;
  pid_t found;
  while ((found = waitpid(-1, NULL, WNOHANG)) >= 0) {
    if (now_ms() > until) return fprintf(stderr, "attack: a program is left running\n"), false;
    if (found == 0) poll(NULL, 0, 5);
  }
  return true;
}

static const char *const endings[] = {"at rest", "in the middle", "by SIGKILL in the middle"};

/* While attackers are at it; what they lose from now on is excused. */
static bool end_round(server *victim, unsigned way, chance *luck) {
  wave these;
  common->ending = way == 2; /* those who are killed say nothing; nor do the killed one's clients */
  if (way == 0) {
    kill(victim->pid, SIGTERM);
    return server_end(victim, 0);
  }
  common->ending = false;
  begin_wave(&these, victim, 200, 100000);
  poll(NULL, 0, (int)chance_below(luck, way == 1 ? 600 : 300));
  common->ending = true;
  kill(victim->pid, way == 1 ? SIGTERM : SIGKILL);
  bool good = server_end(victim, way == 1 ? 0 : -SIGKILL);
  return end_wave(&these) && good;
}

static bool attack_server(server *victim, chance *luck, long *grown_kb, unsigned way) {
  measure begin, warm;
  bool good = server_measure(victim, common, &begin) &&
              play_wave(victim, 0, wanted.steps, &begin) && server_measure(victim, common, &warm);
  warm.files = begin.files;
  for (unsigned i = 1; good && i < WAVES; i++) good = play_wave(victim, i, wanted.steps, &begin);
  good = good && memory_returns(victim, &warm, grown_kb);
  if (good) return end_round(victim, way, luck);
  common->ending = true;
  kill(victim->pid, SIGTERM);
  server_end(victim, 0);
  return false;
}

/* In turn, of those that are wanted. */
static target choose_target(void) {
  unsigned skip = current_round;
  for (size_t i = 0;; i = (i + 1) % COUNT(targets))
    if ((!wanted.targets || (wanted.targets & targets[i])) && skip-- == 0) return targets[i];
}

static bool play_round(void) {
  chance luck = {chance_mix(wanted.seed, 1000 + current_round)};
  target which = choose_target();
  server victim;
  long grown_kb = 0;
  unsigned long steps = common->steps, asked = common->asked;
  uint64_t begun = now_ms();
  common->ending = false;
  common->session_count = 0;
  if (!server_start(&victim, which, &luck)) return false;
  unsigned way = chance_below(&luck, COUNT(endings));
  bool good = attack_server(&victim, &luck, &grown_kb, way);
  good = nobody_is_left() && good;
  if (!wanted.quiet || !good)
    printf("round %u, %s: %lu steps, %lu questions, %+ld KiB, ended %s, %.1f s: %s\n",
           current_round, target_name(which), common->steps - steps, common->asked - asked,
           grown_kb, endings[way], (double)(now_ms() - begun) / 1000, good ? "good" : "FAILED");
  fflush(stdout);
  return good;
}

/* ---------------------------------------------------------------------------- story */

static bool read_argument(const char *word) {
  char *end = NULL;
  const char *value = strchr(word, '=');
  if (strcmp(word, "quiet") == 0) return wanted.quiet = true;
  if (!value) return false;
  if (strncmp(word, "only=", 5) == 0) return wanted.only = value + 1, true;
  unsigned long long number = strtoull(value + 1, &end, 10);
  if (*end || !value[1]) return !value[1]; /* make passes what is not given as nothing */
  if (strncmp(word, "seed=", 5) == 0) return wanted.seed = number, true;
  if (strncmp(word, "seconds=", 8) == 0) return wanted.until_ms = now_ms() + number * 1000, true;
  if (strncmp(word, "rounds=", 7) == 0) return wanted.rounds = (unsigned)number, true;
  if (strncmp(word, "round=", 6) == 0) return wanted.first = (unsigned)number, true;
  if (strncmp(word, "steps=", 6) == 0) return wanted.steps = (unsigned)number, true;
  if (strncmp(word, "targets=", 8) == 0) return wanted.targets = (unsigned)number, true;
  return false;
}

static bool go_on(void) {
  if (wanted.rounds) return current_round < wanted.first + wanted.rounds;
  return now_ms() < wanted.until_ms;
}

static void prepare(void) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max < 16384 ? files.rlim_max : 16384;
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#ifdef __SANITIZE_THREAD__
  thread_sanitizer = true;
#endif
  common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (common == MAP_FAILED || !servers_prepare()) {
    fputs("attack: cannot prepare (is openssl installed?)\n", stderr);
    exit(1);
  }
}

int main(int argc, char **argv) {
  wanted = (plan){.seed = now_ms() ^ (uint64_t)getpid() << 20, .steps = 60};
  bool good = argc > 1;
  for (int i = 2; good && i < argc; i++) good = read_argument(argv[i]);
  if (!good) return fputs("usage: attack BIN [NAME=VALUE...] [quiet]\n", stderr), 2;
  bin_folder = argv[1];
  prepare();
  if (!wanted.quiet) printf("seed %llu\n", (unsigned long long)wanted.seed);
  for (current_round = wanted.first; good && go_on(); current_round++)
    if (!(good = play_round())) say_repeat();
  if (good && !wanted.quiet)
    printf("%u rounds, %lu steps, %lu connections, %lu questions: %lu answered, %lu excused\n",
           current_round - wanted.first, common->steps, common->connections, common->asked,
           common->answered, common->excused);
  servers_clean();
  return !good;
}
