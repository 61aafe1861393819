/* epoll_http.c - MCP over HTTP in a loop that was there before: epoll, sockets and libidem, no libuv.
 * `epoll_http [PORT]` serves http://127.0.0.1:PORT/mcp (0, as without one: any free port) until it is ended, and says where.
 * Each connection is asked after every event: is there output, does it read, when must it be called again, is it over. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <idem/mcp_http.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PEERS_MAX 256

typedef struct peer {
  idem_http_conn *conn; /* NULL: a free place */
  int fd;
  idem_http_chunk chunk;
  size_t written;
  bool eof, ended, broken;
} peer;

typedef struct loop {
  int epoll, listener;
  uint64_t date_s;
  idem_http_server *http;
  peer peers[PEERS_MAX];
} loop;

static volatile sig_atomic_t stopping;
static void on_signal(int number) {
  (void)number;
  stopping = 1;
}

/* They come while the loop waits alone: one between the look at `stopping` and the wait would not end that. */
static void take_signals(void) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGINT);
  sigprocmask(SIG_BLOCK, &ours, NULL);
  signal(SIGTERM, on_signal);
  signal(SIGINT, on_signal);
}

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
  return idem_http_conn_next_chunk(self->conn, &self->chunk);
}

static void send_some(peer *self) {
  while (!self->broken && has_output(self)) {
    ssize_t n = send(self->fd, self->chunk.data + self->written, self->chunk.len - self->written,
                     MSG_NOSIGNAL);
    if (n < 0) {
      self->broken = errno != EAGAIN && errno != EINTR;
      return;
    }
    self->written += (size_t)n;
    if (self->written == self->chunk.len) idem_http_chunk_free(self->conn, &self->chunk);
  }
}

static void read_some(peer *self) {
  char buffer[65536];
  ssize_t n = recv(self->fd, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  self->eof = n <= 0;
  self->broken = n < 0;
  /* A failure is final, and shows in idem_http_conn_finished. */
  if (self->eof)
    idem_http_conn_feed_eof(self->conn);
  else
    idem_http_conn_feed(self->conn, buffer, (size_t)n);
}

/* ---------------------------------------------------------------------------- peers */

/* One that nothing is wanted of is taken out, or its hang-up would be told for ever. */
static void watch(const loop *self, int fd, uint32_t events, peer *who) {
  struct epoll_event event = {.events = events, .data.ptr = who};
  if (!events)
    epoll_ctl(self->epoll, EPOLL_CTL_DEL, fd, NULL);
  else if (epoll_ctl(self->epoll, EPOLL_CTL_MOD, fd, &event) != 0)
    epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void drop_peer(peer *who) {
  idem_http_chunk_free(who->conn, &who->chunk);
  idem_http_conn_free(who->conn);
  close(who->fd);
  *who = (peer){0};
}

static void accept_some(loop *self) {
  struct sockaddr_in from;
  socklen_t len = sizeof from;
  char address[INET_ADDRSTRLEN];
  int fd = accept4(self->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  peer *who = self->peers;
  while (who < self->peers + PEERS_MAX && who->conn) who++;
  idem_http_conn_opts opts = {.address =
                                  inet_ntop(AF_INET, &from.sin_addr, address, sizeof address)};
  if (who == self->peers + PEERS_MAX ||
      idem_http_conn_new(self->http, &opts, &who->conn) != IDEM_OK)
    close(fd);
  else
    who->fd = fd;
}

/* The four questions. Returns when it must be called again. */
static uint64_t settle(const loop *self, peer *who, uint64_t now) {
  if (idem_http_conn_deadline(who->conn) <= now) idem_http_conn_expire(who->conn);
  send_some(who);
  bool sending = has_output(who), reading = !who->eof && idem_http_conn_want_read(who->conn);
  if (who->broken || idem_http_conn_finished(who->conn)) {
    drop_peer(who);
    return UINT64_MAX;
  }
  if (!sending && idem_http_conn_closing(who->conn) && !who->ended) {
    shutdown(who->fd, SHUT_WR);
    who->ended = true;
  }
  watch(self, who->fd, (reading ? EPOLLIN : 0) | (sending ? EPOLLOUT : 0), who);
  return idem_http_conn_deadline(who->conn);
}

/* ----------------------------------------------------------------------------- turns */

static int settle_all(loop *self, bool *any) {
  uint64_t now = now_ns(NULL) / 1000000u, at = idem_http_server_deadline(self->http);
  if (at <= now) idem_http_server_expire(self->http);
  at = idem_http_server_deadline(self->http);
  *any = !stopping;
  for (size_t i = 0; i < PEERS_MAX; i++) {
    peer *who = &self->peers[i];
    if (!who->conn) continue;
    uint64_t its = settle(self, who, now);
    if (its < at) at = its;
    *any = *any || who->conn;
  }
  if (at == UINT64_MAX) return -1;
  return at <= now ? 0 : at - now < 60000 ? (int)(at - now) : 60000;
}

static void tell_date(loop *self) {
  uint64_t now = wall_ms(NULL) / 1000;
  if (now != self->date_s) idem_http_server_set_date(self->http, now);
  self->date_s = now;
}

static void stop(loop *self) {
  watch(self, self->listener, 0, NULL);
  for (size_t i = 0; i < PEERS_MAX; i++)
    if (self->peers[i].conn) idem_http_conn_abort(self->peers[i].conn);
}

static void serve(loop *self) {
  struct epoll_event events[PEERS_MAX];
  bool any, told = false;
  sigset_t none;
  sigemptyset(&none);
  for (int wait; wait = settle_all(self, &any), any;) {
    int count = epoll_pwait(self->epoll, events, PEERS_MAX, wait, &none);
    tell_date(self);
    for (int i = 0; i < count; i++) {
      peer *who = events[i].data.ptr;
      if (!who)
        accept_some(self);
      else if (who->conn && !who->eof && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        read_some(who);
    }
    if (stopping && !told) stop(self);
    told = stopping;
  }
}

static int listen_at(loop *self, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  socklen_t len = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  self->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bind(self->listener, (struct sockaddr *)&address, len) != 0 ||
      listen(self->listener, 64) != 0 ||
      getsockname(self->listener, (struct sockaddr *)&address, &len) != 0)
    return -1;
  watch(self, self->listener, EPOLLIN, NULL);
  return ntohs(address.sin_port);
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

static bool open_http(loop *self, idem_server *server, int port) {
  idem_http_server_opts opts = {.port = port, .loopback = true, .now_ns = now_ns};
  random_bytes(NULL, &opts.seed, sizeof opts.seed);
  return idem_http_server_new(&opts, &self->http) == IDEM_OK &&
         idem_http_server_add_mcp(self->http, "/mcp", server, NULL) == IDEM_OK;
}

int main(int argc, char **argv) {
  static loop self;
  idem_server *server;
  idem_server_opts opts = {
      .name = "epoll", .version = "1.0.0", .random = random_bytes, .wall_ms = wall_ms};
  take_signals();
  self.epoll = epoll_create1(EPOLL_CLOEXEC);
  int port = listen_at(&self, argc > 1 ? (int)strtol(argv[1], NULL, 10) & 0xffff : 0);
  if (self.epoll < 0 || port < 0) return 1;
  if (idem_server_new(&opts, &server) != IDEM_OK ||
      idem_server_add_tool(server, &die, NULL, 0) != IDEM_OK || !open_http(&self, server, port))
    return 1;
  fprintf(stderr, "listening on http://127.0.0.1:%d/mcp\n", port);
  serve(&self);
  idem_http_server_free(self.http);
  idem_server_free(server);
  return 0;
}
