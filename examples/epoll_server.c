/* epoll_server.c - MCP in a loop that was there before: epoll, sockets and libidem, no libuv.
 * `epoll_server` serves stdin and stdout, `epoll_server PATH` a Unix socket with many peers. Each
 * peer is asked four things after every event: is there output, does it read, when must it be called
 * again, is it over. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <errno.h>
#include <fcntl.h>
#include <idem/mcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PEERS_MAX 64

typedef struct peer {
  idem_conn *conn; /* NULL: a free place */
  int in, out;     /* the same for a socket */
  idem_chunk chunk;
  size_t written;
  bool eof, broken;
} peer;

typedef struct loop {
  int epoll;
  int listener; /* -1: none */
  idem_server *server;
  peer peers[PEERS_MAX];
} loop;

/* ------------------------------------------------- what the engine needs of the system */

static uint64_t clock_ns(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void *ctx) {
  (void)ctx;
  return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t wall_ms(void *ctx) {
  (void)ctx;
  return clock_ns(CLOCK_REALTIME) / 1000000u;
}

static void random_bytes(void *ctx, void *bytes, size_t len) {
  (void)ctx;
  for (char *at = bytes; len;) {
    ssize_t got = getrandom(at, len, 0);
    if (got < 0 && errno != EINTR) abort(); /* ids must be unguessable, or there are none */
    if (got < 0) continue;
    at += got;
    len -= (size_t)got;
  }
}

/* ---------------------------------------------------------------------------- bytes */

static bool has_output(peer *self) {
  if (self->chunk.owner) return true;
  self->written = 0;
  return idem_conn_next_chunk(self->conn, &self->chunk);
}

static void send_some(peer *self) {
  while (!self->broken && has_output(self)) {
    ssize_t n = write(self->out, self->chunk.data + self->written, self->chunk.len - self->written);
    if (n < 0) {
      self->broken = errno != EAGAIN && errno != EINTR;
      return;
    }
    self->written += (size_t)n;
    if (self->written == self->chunk.len) idem_chunk_free(&self->chunk);
  }
}

static void read_some(peer *self) {
  char buffer[65536];
  ssize_t n = read(self->in, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  self->eof = n <= 0;
  /* A failure is final, and shows in idem_conn_done. */
  if (self->eof)
    idem_conn_feed_eof(self->conn);
  else
    idem_conn_feed(self->conn, buffer, (size_t)n);
}

/* ---------------------------------------------------------------------------- peers */

/* False for a file, which cannot be polled and need not be: it is always ready. A descriptor that
 * nothing is wanted of is taken out, or its hang-up would be told for ever. */
static bool watch(const loop *self, int fd, uint32_t events, peer *who) {
  struct epoll_event event = {.events = events, .data.ptr = who};
  if (!events) return epoll_ctl(self->epoll, EPOLL_CTL_DEL, fd, NULL) == 0 || errno != EPERM;
  if (epoll_ctl(self->epoll, EPOLL_CTL_MOD, fd, &event) == 0) return true;
  return errno == ENOENT && epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* False: something of it is always ready, so do not wait. */
static bool watch_peer(const loop *self, peer *who, uint32_t in, uint32_t out) {
  if (who->in == who->out) return watch(self, who->in, in | out, who);
  bool out_polled = watch(self, who->out, out, who);
  if (watch(self, who->in, in, who)) return out_polled || !out;
  if (in) read_some(who);
  return false;
}

static void drop_peer(const loop *self, peer *who) {
  idem_chunk_free(&who->chunk);
  idem_conn_free(who->conn);
  epoll_ctl(self->epoll, EPOLL_CTL_DEL, who->in, NULL);
  if (who->out != who->in) epoll_ctl(self->epoll, EPOLL_CTL_DEL, who->out, NULL);
  if (who->in != STDIN_FILENO) close(who->in);
  *who = (peer){0};
}

static void add_peer(loop *self, int in, int out) {
  peer *who = NULL;
  for (size_t i = 0; i < PEERS_MAX && !who; i++) {
    if (!self->peers[i].conn) who = &self->peers[i];
  }
  idem_conn_opts opts = {.now_ns = now_ns};
  if (!who || idem_server_accept(self->server, &opts, &who->conn) != IDEM_OK) {
    if (in != STDIN_FILENO) close(in);
    return;
  }
  who->in = in;
  who->out = out;
}

static void accept_some(loop *self) {
  int fd = accept4(self->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) add_peer(self, fd, fd);
}

/* The four questions. Returns the milliseconds until it must be called; -1: none. */
static int settle(const loop *self, peer *who) {
  uint64_t now = now_ns(NULL) / 1000000u;
  if (idem_conn_deadline(who->conn) <= now) idem_conn_expire(who->conn);
  send_some(who);
  bool sending = has_output(who), reading = !who->eof && idem_conn_want_read(who->conn);
  if (who->broken || (!sending && idem_conn_done(who->conn))) {
    drop_peer(self, who);
    return -1;
  }
  bool polled = watch_peer(self, who, reading ? EPOLLIN : 0, sending ? EPOLLOUT : 0);
  uint64_t deadline = idem_conn_deadline(who->conn);
  if (!polled || deadline <= now) return 0;
  return deadline == UINT64_MAX ? -1 : deadline - now < 60000 ? (int)(deadline - now) : 60000;
}

/* ----------------------------------------------------------------------------- turns */

static int settle_all(loop *self, bool *any) {
  int wait = -1;
  *any = self->listener >= 0;
  for (size_t i = 0; i < PEERS_MAX; i++) {
    peer *who = &self->peers[i];
    if (!who->conn) continue;
    int left = settle(self, who);
    if (left >= 0 && (wait < 0 || left < wait)) wait = left;
    *any = *any || who->conn;
  }
  return wait;
}

static void serve(loop *self) {
  struct epoll_event events[PEERS_MAX];
  bool any;
  for (int wait; wait = settle_all(self, &any), any;) {
    int count = epoll_wait(self->epoll, events, PEERS_MAX, wait);
    for (int i = 0; i < count; i++) {
      peer *who = events[i].data.ptr;
      if (!who)
        accept_some(self);
      else if (who->conn && !who->eof && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        read_some(who);
    }
  }
}

static bool listen_at(loop *self, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) return false;
  memcpy(address.sun_path, path, strlen(path) + 1);
  self->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  umask(077);
  return bind(self->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
         listen(self->listener, 16) == 0 && watch(self, self->listener, EPOLLIN, NULL);
}

/* ---------------------------------------------------------------------------- a tool */

static void roll(idem_request *request, yyjson_val *arguments, void *user) {
  (void)user;
  char text[32];
  uint32_t bits;
  int64_t sides;
  idem_param_fault fault;
  if (idem_param_int(arguments, "sides", 0, &sides, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  random_bytes(NULL, &bits, sizeof bits);
  snprintf(text, sizeof text, "%lld", (long long)(bits % sides) + 1);
  idem_tool_text(request, text, strlen(text));
}

static const idem_tool die = {
    .name = "roll",
    .description = "Rolls a die.",
    .input_schema = "{\"type\":\"object\",\"required\":[\"sides\"],\"properties\":{"
                    "\"sides\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100}}}",
    .fn = roll};

int main(int argc, char **argv) {
  static loop self = {.listener = -1};
  idem_server_opts opts = {
      .name = "epoll", .version = "1.0.0", .random = random_bytes, .wall_ms = wall_ms};
  signal(SIGPIPE, SIG_IGN);
  self.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (self.epoll < 0 || idem_server_new(&opts, &self.server) != IDEM_OK) return 1;
  if (idem_server_add_tool(self.server, &die, NULL, 0) != IDEM_OK) return 1;
  if (argc > 1 && !listen_at(&self, argv[1])) return 1;
  fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
  if (argc < 2) add_peer(&self, STDIN_FILENO, STDOUT_FILENO);
  serve(&self);
  idem_server_free(self.server);
  return 0;
}
