/* wire.c - one connection as bytes: sent in pieces, read with patience, ended in several ways. */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static wire open_wire(attacker *owner, const struct sockaddr *to, socklen_t size) {
  int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0 || connect(fd, to, size) != 0)
    attack_found(owner, "cannot connect: %s", strerror(errno));
  if (to->sa_family == AF_INET) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  owner->shared->connections++;
  return (wire){.owner = owner, .in = fd, .out = fd};
}

wire wire_tcp(attacker *owner, uint16_t port) {
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return open_wire(owner, (struct sockaddr *)&to, sizeof to);
}

wire wire_unix(attacker *owner, const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
  return open_wire(owner, (struct sockaddr *)&to, sizeof to);
}

/* ------------------------------------------------------------------------ sending */

static ssize_t put(const wire *self, const char *data, size_t len) {
  ssize_t n = send(self->out, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno == ENOTSOCK) n = write(self->out, data, len);
  return n;
}

/* Who does not read while it sends could wait for a server that waits for it. */
bool wire_send_whole(wire *self, const char *data, size_t len) {
  uint64_t until = now_ms() + PATIENCE_MS;
  while (len) {
    ssize_t n = put(self, data, len);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) data += n, len -= (size_t)n;
    if (n > 0 || !len) continue;
    struct pollfd both[2] = {{self->in, self->over ? 0 : POLLIN, 0}, {self->out, POLLOUT, 0}};
    poll(both, 2, 1000);
    if (both[0].revents) wire_peek(self, 0);
    if (now_ms() > until) attack_found(self->owner, "the server takes in nothing");
  }
  return true;
}

bool wire_send(wire *self, const char *data, size_t len) {
  chance *luck = &self->owner->luck;
  unsigned way = chance_below(luck, 8);
  if (way > 2 || len < 2) return wire_send_whole(self, data, len);
  while (len) {
    size_t piece = way == 0 && len < 400 ? 1 : chance_below(luck, (unsigned)len) + 1;
    if (!wire_send_whole(self, data, piece)) return false;
    data += piece, len -= piece;
  }
  return true;
}

/* ------------------------------------------------------------------------ reading */

/* -1: nothing within that time, 0: the end, else bytes. */
static ssize_t take(wire *self, int ms) {
  char piece[65536];
  struct pollfd ready = {self->in, POLLIN, 0};
  if (self->over) return 0;
  int found = poll(&ready, 1, ms);
  if (found == 0 || (found < 0 && errno == EINTR)) return -1;
  ssize_t n = read(self->in, piece, sizeof piece);
  if (n > 0) text_add(&self->got, piece, (size_t)n);
  if (n <= 0) self->over = true;
  return n > 0 ? n : 0;
}

bool wire_more(wire *self) {
  uint64_t until = now_ms() + PATIENCE_MS;
  for (;;) {
    ssize_t n = take(self, 1000);
    if (now_ms() > self->owner->until_ms)
      attack_found(self->owner, "no end after %u s", EPISODE_MS / 1000);
    if (n >= 0) return n > 0;
    if (now_ms() > until) attack_found(self->owner, "nothing came for %u s", PATIENCE_MS / 1000);
  }
}

void wire_peek(wire *self, unsigned ms) {
  while (take(self, (int)ms) > 0) ms = 0;
}

bool wire_line(wire *self, text *line) {
  const char *end;
  line->len = 0;
  while (!self->got.len || !(end = memchr(self->got.data, '\n', self->got.len)))
    if (!wire_more(self)) return false;
  text_add(line, self->got.data, (size_t)(end - self->got.data));
  text_cut(&self->got, line->len + 1);
  return true;
}

/* ------------------------------------------------------------------------- ending */

farewell wire_any_farewell(attacker *self) {
  static const farewell ways[] = {CLOSE_IT, RESET_IT, RESET_IT, FINISH_IT};
  return CHANCE_OF(&self->luck, ways);
}

void wire_finish(wire *self) {
  if (shutdown(self->out, SHUT_WR) == 0 || self->out == self->in) return;
  close(self->out);
  self->out = -1;
}

void wire_end(wire *self, farewell how) {
  static const struct linger reset = {1, 0};
  if (self->in < 0) return;
  if (how == RESET_IT) setsockopt(self->out, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (how == FINISH_IT) {
    wire_finish(self);
    while (wire_more(self)) continue;
  }
  close(self->in);
  if (self->out >= 0 && self->out != self->in) close(self->out);
  self->in = self->out = -1;
  text_free(&self->got);
}

/* -------------------------------------------------------------------------- pipes */

piped piped_start(attacker *owner, const char *const *argv) {
  int in[2], out[2];
  piped self = {.log = tmpfile()};
  if (!self.log || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 ||
      pipe2(out, O_CLOEXEC) != 0)
    attack_found(owner, "no pipes");
  self.pid = program_start(argv, in[1], out[1], self.log);
  close(in[1]);
  close(out[1]);
  self.line = (wire){.owner = owner, .in = out[0], .out = in[0]};
  return self;
}

void piped_end(piped *self) {
  int status = 0;
  attacker *owner = self->line.owner;
  wire_end(&self->line, FINISH_IT);
  waitpid(self->pid, &status, 0);
  if (!log_is_clean(self->log)) attack_found(owner, "a sanitizer's report");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    attack_found(owner, "a server on pipes ended with %x", (unsigned)status);
  fclose(self->log);
}
