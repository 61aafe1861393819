/* own_loop.c - the engine in a loop of your own: libidem alone, poll(2), stdin and stdout.
 * Four questions a turn: what is to be sent, may I read, when must I be back, is it over? */
#include <errno.h>
#include <fcntl.h>
#include <idem/idem.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

typedef struct loop {
  idem_conn *conn;
  idem_chunk chunk; /* on its way out; owner NULL: none */
  size_t written;
  bool eof;
  bool broken;
} loop;

static uint64_t now_ns(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ------------------------------------------------------------------------------ bytes */

static bool has_output(loop *self) {
  if (self->chunk.owner) return true;
  self->written = 0;
  return idem_conn_next_chunk(self->conn, &self->chunk);
}

static void send_some(loop *self) {
  size_t left = self->chunk.len - self->written;
  ssize_t n = write(STDOUT_FILENO, self->chunk.data + self->written, left);
  if (n < 0) {
    self->broken = errno != EAGAIN && errno != EINTR;
    return;
  }
  self->written += (size_t)n;
  if (self->written == self->chunk.len) idem_chunk_free(&self->chunk);
}

static void read_some(loop *self) {
  char buffer[65536];
  ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  self->eof = n <= 0;
  /* A failure is final, and shows in idem_conn_done. */
  if (self->eof)
    idem_conn_feed_eof(self->conn);
  else
    idem_conn_feed(self->conn, buffer, (size_t)n);
}

/* ------------------------------------------------------------------------------- time */

/* For poll: -1 waits for ever, 0 not at all. */
static int time_left(const idem_conn *conn) {
  uint64_t deadline = idem_conn_deadline(conn), now = now_ns(NULL) / 1000000u;
  if (deadline == UINT64_MAX) return -1;
  if (deadline <= now) return 0;
  return deadline - now < 60000 ? (int)(deadline - now) : 60000;
}

static void turn(loop *self) {
  bool sending = has_output(self), reading = !self->eof && idem_conn_want_read(self->conn);
  struct pollfd fds[2] = {{.fd = reading ? STDIN_FILENO : -1, .events = POLLIN},
                          {.fd = sending ? STDOUT_FILENO : -1, .events = POLLOUT}};
  int left = time_left(self->conn);
  if (poll(fds, 2, left) < 0) return;
  if (fds[1].revents) send_some(self);
  if (fds[0].revents) read_some(self);
  if (time_left(self->conn) == 0) idem_conn_expire(self->conn);
}

static void serve(loop *self) {
  while (!self->broken && (has_output(self) || !idem_conn_done(self->conn))) turn(self);
  idem_chunk_free(&self->chunk);
}

/* --------------------------------------------------------------------------- a method */

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

int main(void) {
  idem_router *router = NULL;
  loop self = {0};
  signal(SIGPIPE, SIG_IGN);
  fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
  idem_status status = idem_router_new(NULL, &router);
  if (status == IDEM_OK) status = idem_router_method(router, "echo", echo, NULL);
  idem_conn_opts opts = {.router = router, .now_ns = now_ns};
  if (status == IDEM_OK) status = idem_conn_new(&opts, &self.conn);
  if (status == IDEM_OK) serve(&self);
  idem_conn_free(self.conn);
  idem_router_free(router);
  return status == IDEM_OK && !self.broken ? 0 : 1;
}
