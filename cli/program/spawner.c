/* spawner.c - makes the runners, and takes what a runner that was ended has left behind. It holds none of
 * the server's memory and starts no threads. When the socket ends, so does everything. */
#include "spawner.h"

#include "scratch.h"
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 20
#define HANDS_HAVE_MS 1000 /* to end what they run when the server is gone */

static pid_t runners[SPAWNER_HANDS];
static size_t runner_count;
static char folder[256];

/* --------------------------------------------------------------------------- runners */

static size_t find_hand(pid_t pid) {
  size_t i = 0;
  while (i < runner_count && runners[i] != pid) i++;
  return i;
}

static bool is_hand(pid_t pid) { return find_hand(pid) < runner_count; }

static noreturn void become_hand(int pair[2]) {
  close(SPAWNER_SOCKET);
  close(pair[0]);
  runner_main(pair[1]);
}

/* Our end of the server's side is closed at once: a runner must notice that the server is gone. */
static void make_hand(void) {
  int pair[2], why = EAGAIN;
  pid_t pid = -1;
  if (runner_count < SPAWNER_HANDS &&
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
    pid = fork();
    if (pid == 0) become_hand(pair);
    why = errno;
    close(pair[1]);
    if (pid > 0) {
      runners[runner_count++] = pid;
      order_note_send(SPAWNER_SOCKET, REPORT_HAND, pid, pair[0]);
    }
    close(pair[0]);
  }
  if (pid < 0) order_note_send(SPAWNER_SOCKET, REPORT_FAILED, why, -1);
}

/* Only what is our child and not reaped yet has this number. */
static void drop_hand(pid_t pid) {
  if (is_hand(pid)) kill(pid, SIGKILL);
}

/* True: there are children yet. Where a runner has ended, some of them may be what it left behind. */
static bool reap(bool *runner_ended) {
  pid_t ended;
  while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
    size_t at = find_hand(ended);
    if (at == runner_count) continue;
    runners[at] = runners[--runner_count];
    *runner_ended = true;
  }
  return ended == 0;
}

static size_t stray_count;

static bool is_no_stray(pid_t pid) {
  if (is_hand(pid)) return true;
  stray_count++;
  return false;
}

/* True: there were some; killed, they may leave others to us. */
static bool end_strays(void) {
  stray_count = 0;
  return spawn_kill_children(is_no_stray) && stray_count > 0;
}

/* ------------------------------------------------------------------------- the end */

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The runners end what they run by themselves; who does not is ended, and its children become ours. */
static void end_everything(void) {
  long until = now_ms() + HANDS_HAVE_MS;
  bool ignored;
  while (reap(&ignored)) {
    if (!spawn_kill_children(now_ms() < until ? is_hand : NULL) && now_ms() > until) break;
    sleep_on(-1, LOOK_AGAIN_MS);
  }
  if (folder[0]) scratch_remove(folder);
}

/* ------------------------------------------------------------------------- the story */

static void take_folder(const order_packet *packet) {
  size_t len = (size_t)packet->len - sizeof(order_note);
  if (len == 0 || len > sizeof folder || packet->bytes[packet->len - 1] != 0) return;
  memcpy(folder, packet->bytes + sizeof(order_note), len);
}

/* False: the server is gone. */
static bool obey(void) {
  static order_packet packet;
  order_receive(SPAWNER_SOCKET, &packet, false);
  if (packet.len == 0) return false;
  order_note note = order_note_of(&packet);
  if (packet.len < 0) return errno == EAGAIN;
  order_close_fds(&packet);
  if (note.kind == ORDER_HAND) make_hand();
  if (note.kind == ORDER_DROP) drop_hand(note.value);
  if (note.kind == ORDER_FOLDER) take_folder(&packet);
  return true;
}

static bool begin(void) {
  struct stat about;
  if (fstat(SPAWNER_SOCKET, &about) != 0 || !S_ISSOCK(about.st_mode)) return false;
#if defined(SYS_close_range)
  syscall(SYS_close_range, SPAWNER_SOCKET + 1u, ~0u, 0u);
#endif
  prctl(PR_SET_NAME, "idem-spawner", 0, 0, 0);
  sleep_prepare();
  return fcntl(SPAWNER_SOCKET, F_SETFD, FD_CLOEXEC) == 0 && chdir("/") == 0 && spawn_prepare() &&
         spawn_adopt_orphans();
}

/* What a runner left behind is looked for once more after the last of it was seen. */
int spawner_main(void) {
  bool strays = false;
  if (!begin()) {
    fputs("idem " SPAWNER_ARGUMENT " is started by idem serve\n", stderr);
    return 2;
  }
  for (;;) {
    bool heard = sleep_on(SPAWNER_SOCKET, strays ? LOOK_AGAIN_MS : -1);
    reap(&strays);
    if (strays) strays = end_strays();
    if (heard && !obey()) break;
  }
  end_everything();
  return 0;
}
