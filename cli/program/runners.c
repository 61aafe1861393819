/* runners.c - see runners.h. Each runner has a socket of its own to the server, so nothing is multiplexed:
 * one order down, one report up. A runner that is lost takes its call along and no other. */
#include "runners.h"

#include "spawner.h"
#include <idem/program.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_HANDS 32u   /* more are let go */
#define HANDS_COMING 64u /* that many questions fit into a socket */
#define SPAWNER_TRIES 3u
#define END_MS 5000   /* for the spawner to end what it can */
#define HAND_MS 5000u /* for it to make a runner */

struct runner {
  idem_list link; /* in idle or busy */
  runners *owner;
  uv_poll_t poll;
  int socket;
  pid_t pid;
  pid_t spawner;   /* that made it */
  seal_level seal; /* what its programs have on them, for good */
  runner_user *user;
};

static order_packet packet; /* one thread, and each is used before the next */

/* ----------------------------------------------------------------- starting a spawner */

/* What the loader and the sanitizers read. The rest may hold secrets and is not for it; what programs
 * get comes with each order. */
static bool spawner_needs(const char *variable) {
  const char *end = strchr(variable, '=');
  static const char options[] = "SAN_OPTIONS";
  size_t len = end ? (size_t)(end - variable) : 0;
  return strncmp(variable, "LD_", 3) == 0 ||
         (len >= sizeof options - 1 &&
          memcmp(end - (sizeof options - 1), options, sizeof options - 1) == 0);
}

/* NULL: no memory. The texts stay where they are. */
static char **spawner_environment(void) {
  size_t count = 0;
  for (char **one = environ; *one; one++) count += spawner_needs(*one);
  char **made = calloc(count + 1, sizeof *made), **to = made;
  if (!made) return NULL;
  for (char **one = environ; *one; one++)
    if (spawner_needs(*one)) *to++ = *one;
  return made;
}

/* A session of its own: what the terminal sends to the server is not for it. */
static int spawn_spawner(pid_t *pid, int socket) {
  static const char *const argv[] = {"idem", SPAWNER_ARGUMENT, NULL};
  char **environment = spawner_environment();
  if (!environment) return ENOMEM;
  int why = idem_program_start(
      &(idem_program){.path = "/proc/self/exe",
                      .argv = argv,
                      .environment = (const char *const *)environment,
                      .session = true,
                      .files = {IDEM_FILE_NULL, IDEM_FILE_NULL, IDEM_FILE_NULL, socket}},
      pid);
  free(environment);
  return why;
}

static void ask_for_hand(runners *self) {
  if (order_note_send(self->socket, ORDER_HAND, 0, -1) == 0) self->coming++;
}

/* The spawner removes it if we cannot. */
static void tell_folder(runners *self) {
  if (self->told == self->folder.moves || self->socket < 0) return;
  if (!self->folder.path[0] || order_folder_send(self->socket, self->folder.path) == 0)
    self->told = self->folder.moves;
}

bool runners_start(runners *self) {
  int pair[2];
  if (self->socket >= 0) return true;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  errno = spawn_spawner(&self->pid, pair[1]);
  close(pair[1]);
  if (errno) {
    close(pair[0]);
    return false;
  }
  self->socket = pair[0];
  self->coming = 0;
  self->told = 0;
  tell_folder(self);
  ask_for_hand(self);
  return true;
}

/* ----------------------------------------------------------------------------- runners */

static void on_hand_closed(uv_handle_t *handle) { free(handle->data); }

static void let_go(runner *self) {
  idem_list_remove(&self->link);
  uv_close((uv_handle_t *)&self->poll, on_hand_closed); /* before its descriptor is anyone else's */
  close(self->socket);
}

/* The one that was busy last is the first again: what it needs is still near. Where there are too
 * many, the one that has been idle longest goes. */
static void give_back(runner *self) {
  runners *owner = self->owner;
  self->user = NULL;
  if (self->spawner != owner->pid) {
    let_go(self);
    return;
  }
  idem_list_remove(&self->link);
  idem_list_append(owner->idle.next, &self->link);
  if (owner->idle_count >= IDLE_HANDS)
    let_go(IDEM_CONTAINER(owner->idle.prev, runner, link));
  else
    owner->idle_count++;
}

static void lose(runner *self) {
  runner_user *user = self->user;
  if (!user) self->owner->idle_count--;
  let_go(self);
  if (!user) return;
  user->runner = NULL;
  user->reported(user, (order_note){.kind = 0});
}

static void hear_hand(runner *self) {
  order_receive(self->socket, &packet, false);
  if (packet.len < 0 && errno == EAGAIN) return;
  order_close_fds(&packet);
  order_note note = order_note_of(&packet);
  runner_user *user = self->user;
  if (user && note.kind == REPORT_TIDYING) {
    if (user->tidying) user->tidying(user);
    return;
  }
  bool known =
      note.kind == REPORT_EXITED || note.kind == REPORT_CROWDED || note.kind == REPORT_FAILED;
  if (packet.len <= 0 || !user || !known) {
    lose(self);
    return;
  }
  user->runner = NULL;
  give_back(self);
  user->reported(user, note);
}

static void on_hand(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  hear_hand(poll->data);
}

static void runner_to(runner *self, runner_user *user) {
  self->owner->idle_count--;
  idem_list_remove(&self->link);
  idem_list_append(&self->owner->busy, &self->link);
  self->user = user;
  user->runner = self;
  user->ready(user, 0);
}

/* -------------------------------------------------------------------------- waiting */

static runner_user *take_waiting(runners *self) {
  if (idem_list_empty(&self->waiting)) return NULL;
  runner_user *user = IDEM_CONTAINER(self->waiting.next, runner_user, link);
  runners_want_not(self, user);
  return user;
}

void runners_want_not(runners *self, runner_user *user) {
  idem_list_remove(&user->link);
  if (--self->waiting_count > 0 || !self->poll) return;
  uv_unref((uv_handle_t *)self->poll);
  uv_timer_stop(self->patience);
}

static void fail_waiting(runners *self, int why) {
  runner_user *user = take_waiting(self);
  if (user) user->ready(user, why);
}

static void ask_for_more(runners *self) {
  while (self->coming < self->waiting_count && self->coming < HANDS_COMING) {
    size_t before = self->coming;
    ask_for_hand(self);
    if (self->coming == before) return;
  }
}

/* -------------------------------------------------------------- the spawner's reports */

/* Idle. NULL: no memory. */
static runner *runner_new(runners *self, int socket, pid_t pid) {
  runner *made = calloc(1, sizeof *made);
  if (!made || uv_poll_init(self->loop, &made->poll, socket) != 0) {
    free(made);
    return NULL;
  }
  made->owner = self;
  made->socket = socket;
  made->pid = pid;
  made->spawner = self->pid;
  made->poll.data = made;
  uv_unref((uv_handle_t *)&made->poll);
  uv_poll_start(&made->poll, UV_READABLE, on_hand);
  idem_list_append(&self->idle, &made->link);
  self->idle_count++;
  return made;
}

/* One that has more on it is of no use, one that has less can still put it on: the nearest is taken. */
static runner *find_idle(const runners *self, seal_level seal) {
  runner *nearest = NULL;
  for (idem_list *at = self->idle.next; at != &self->idle; at = at->next) {
    runner *each = IDEM_CONTAINER(at, runner, link);
    if (each->seal == seal) return each;
    if (each->seal < seal && (!nearest || each->seal > nearest->seal)) nearest = each;
  }
  return nearest;
}

static void take_hand(runners *self, pid_t pid) {
  int socket = packet.fds[0];
  packet.fd_count = 0;
  self->failures = 0;
  runner *made = runner_new(self, socket, pid);
  if (!made) {
    close(socket);
    fail_waiting(self, ENOMEM);
    return;
  }
  runner_user *user = take_waiting(self);
  if (user) runner_to(made, user);
}

static void on_closed(uv_handle_t *handle) { free(handle); }

static void forget_spawner(runners *self) {
  if (self->poll) {
    uv_close((uv_handle_t *)self->poll, on_closed);
    uv_close((uv_handle_t *)self->patience, on_closed);
  }
  self->poll = NULL;
  self->patience = NULL;
  close(self->socket);
  self->socket = -1;
  kill(self->pid, SIGKILL); /* it is not reaped yet, and has ended or is of no use */
  waitpid(self->pid, NULL, 0);
  self->pid = 0;
}

static bool watch_spawner(runners *self);
static void on_impatient(uv_timer_t *timer);

/* Its runners work on what they have: they answer to the server alone. */
static void replace_spawner(runners *self, const char *what) {
  forget_spawner(self);
  while (!idem_list_empty(&self->idle)) let_go(IDEM_CONTAINER(self->idle.next, runner, link));
  self->idle_count = 0;
  self->failures++;
  idem_logf(self->log, IDEM_LOG_ERROR, what, "%s",
            self->failures < SPAWNER_TRIES ? "a new one is started" : "it does so again and again");
  if (self->failures < SPAWNER_TRIES && runners_start(self) && watch_spawner(self)) {
    ask_for_more(self);
    return;
  }
  while (!idem_list_empty(&self->waiting)) fail_waiting(self, ECHILD);
}

static void on_spawner(uv_poll_t *poll, int status, int events) {
  runners *self = poll->data;
  (void)status, (void)events;
  order_receive(self->socket, &packet, false);
  if (packet.len < 0 && errno == EAGAIN) return;
  order_note note = order_note_of(&packet);
  if (packet.len <= 0) {
    replace_spawner(self, "the spawner has ended");
    return;
  }
  if (self->coming) self->coming--;
  if (note.kind == REPORT_HAND && packet.fd_count == 1)
    take_hand(self, note.value);
  else
    fail_waiting(self, note.kind == REPORT_FAILED ? note.value : EMFILE);
  order_close_fds(&packet);
  ask_for_more(self);
}

/* Who waits longest is first; its time ends before the others'. */
static void schedule(runners *self) {
  if (idem_list_empty(&self->waiting) || !self->poll) return;
  const runner_user *first = IDEM_CONTAINER(self->waiting.next, runner_user, link);
  uint64_t now = uv_now(self->loop), at = first->since + HAND_MS;
  uv_timer_start(self->patience, on_impatient, idem_timer_ms(at, now), 0);
}

static bool waits_too_long(const runners *self) {
  if (idem_list_empty(&self->waiting)) return false;
  const runner_user *first = IDEM_CONTAINER(self->waiting.next, runner_user, link);
  return uv_now(self->loop) >= first->since + HAND_MS;
}

/* Who has waited too long is told; the others may have more luck with another spawner. If it was us
 * who stood still, there is something to hear. */
static void on_impatient(uv_timer_t *timer) {
  runners *self = timer->data;
  struct pollfd heard = {.fd = self->socket, .events = POLLIN};
  if (waits_too_long(self) && poll(&heard, 1, 0) == 0) {
    replace_spawner(self, "the spawner does not answer");
    while (waits_too_long(self)) fail_waiting(self, ETIME);
  }
  schedule(self);
}

static bool watch_spawner(runners *self) {
  if (self->poll) return true;
  uv_poll_t *poll = calloc(1, sizeof *poll);
  uv_timer_t *patience = calloc(1, sizeof *patience);
  if (!poll || !patience || uv_poll_init(self->loop, poll, self->socket) != 0) {
    free(poll);
    free(patience);
    return false;
  }
  uv_timer_init(self->loop, patience);
  poll->data = patience->data = self;
  self->poll = poll;
  self->patience = patience;
  if (!self->waiting_count) uv_unref((uv_handle_t *)self->poll);
  schedule(self);
  return uv_poll_start(self->poll, UV_READABLE, on_spawner) == 0;
}

/* --------------------------------------------------------------------------- callers */

void runners_want(runners *self, uv_loop_t *loop, runner_user *user) {
  self->loop = loop;
  runner *idle = find_idle(self, user->seal);
  if (idle) {
    runner_to(idle, user);
    return;
  }
  if (self->failures >= SPAWNER_TRIES) self->failures = 0; /* a call is a reason to try again */
  if (!runners_start(self) || !watch_spawner(self)) {
    user->ready(user, errno ? errno : ENOMEM);
    return;
  }
  user->since = uv_now(loop);
  idem_list_append(&self->waiting, &user->link);
  self->waiting_count++;
  if (self->waiting_count == 1) schedule(self);
  uv_ref((uv_handle_t *)self->poll); /* a runner is worth waiting for */
  ask_for_more(self);
}

int runner_run(runner *self, const spawn_order *order) {
  tell_folder(self->owner);
  int why = order_run_send(self->socket, order);
  if (!why) self->seal = order->seal;
  return why;
}

void runner_return(runner *self) {
  self->user->runner = NULL;
  give_back(self);
}

void runner_forget(runner *self) {
  self->user->runner = NULL;
  let_go(self);
}

void runner_tell(runner *self, order_kind kind) { order_note_send(self->socket, kind, 0, -1); }

void runner_drop(runner *self) {
  runners *owner = self->owner;
  if (owner->socket >= 0 && self->spawner == owner->pid)
    order_note_send(owner->socket, ORDER_DROP, self->pid, -1);
  lose(self);
}

/* ------------------------------------------------------------------ beginning and end */

void runners_init(runners *self, idem_log *log) {
  *self = (runners){.log = log, .socket = -1};
  idem_list_init(&self->idle);
  idem_list_init(&self->busy);
  idem_list_init(&self->waiting);
  scratch_make(&self->folder);
}

/* Their sockets end, and so do they; the loop that knew them is gone. */
static void close_runners(idem_list *list) {
  for (idem_list *at = list->next, *next; at != list; at = next) {
    runner *one = IDEM_CONTAINER(at, runner, link);
    next = at->next;
    close(one->socket);
    free(one);
  }
  idem_list_init(list);
}

/* False: it takes too long. */
static bool wait_for_spawner(pid_t pid) {
  struct pollfd over = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
  bool ended = over.fd < 0 || poll(&over, 1, END_MS) > 0;
  if (over.fd >= 0) close(over.fd);
  return ended && waitpid(pid, NULL, 0) == pid;
}

void runners_end(runners *self) {
  close_runners(&self->idle);
  close_runners(&self->busy);
  free(self->poll);
  free(self->patience);
  self->poll = NULL;
  self->patience = NULL;
  if (self->socket >= 0) {
    close(self->socket);
    self->socket = -1;
    if (!wait_for_spawner(self->pid))
      idem_logf(self->log, IDEM_LOG_ERROR, "a program cannot be ended", "the spawner waits for it");
  }
  if (self->folder.path[0]) scratch_remove(self->folder.path);
  self->folder.path[0] = 0;
}
