/* mcp_wire_lines.c - the links whose one connection carries all: lines on stdio, TCP and Unix sockets,
 * text frames on WebSocket. Also the descriptors that mcp_wire_http.c uses. */
#include "mcp_wire.h"
#include "web.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ------------------------------------------------------------------- descriptors */

static void on_poll(uv_poll_t *poll, int status, int events) {
  mcp_pipe *pipe = poll->data;
  char piece[65536];
  (void)status, (void)events;
  ssize_t got = read(pipe->out, piece, sizeof piece);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    pipe->eof = true;
    uv_poll_stop(poll);
  } else {
    pipe->data = realloc(pipe->data, pipe->len + (size_t)got + 1);
    if (!pipe->data) abort();
    memcpy(pipe->data + pipe->len, piece, (size_t)got);
    pipe->len += (size_t)got;
    pipe->data[pipe->len] = 0;
  }
  pipe->on_data(pipe);
}

void mcp_pipe_open(mcp_pipe *pipe, mcp_wire *wire, int in, int out) {
  pipe->wire = wire;
  pipe->in = in;
  pipe->out = out;
  fcntl(in, F_SETFL, O_NONBLOCK);
  if (uv_poll_init(&wire->loop, &pipe->poll, out) != 0) mcp_wire_die("poll");
  pipe->poll.data = pipe;
  uv_poll_start(&pipe->poll, UV_READABLE, on_poll);
}

void mcp_pipe_write(mcp_pipe *pipe, const char *data, size_t len) {
  while (len) {
    ssize_t put = write(pipe->in, data, len);
    if (put < 0 && errno == EAGAIN && mcp_wire_turn(pipe->wire)) continue;
    if (put < 0) return; /* the server has closed: what it said first is still read */
    pipe->wire->sent += (uint64_t)put;
    data += put;
    len -= (size_t)put;
  }
}

void mcp_pipe_drop(mcp_pipe *pipe, size_t len) {
  pipe->len -= len;
  memmove(pipe->data, pipe->data + len, pipe->len + 1);
}

void mcp_pipe_close(mcp_pipe *pipe, uv_close_cb closed) {
  uv_close((uv_handle_t *)&pipe->poll, closed);
  if (pipe->in >= 0) close(pipe->in);
  if (pipe->out != pipe->in) close(pipe->out);
  free(pipe->data);
}

int mcp_wire_connect(const mcp_wire *wire) {
  const char *url = idem_listener_url(wire->listener);
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  struct sockaddr_in inet = {.sin_family = AF_INET};
  bool is_unix = strncmp(url, "unix:", 5) == 0;
  const char *port = strrchr(url, ':');
  inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  inet.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
  snprintf(local.sun_path, sizeof local.sun_path, "%s", url + 5);
  int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr *to = is_unix ? (const void *)&local : (const void *)&inet;
  if (connect(fd, to, is_unix ? sizeof local : sizeof inet)) mcp_wire_die("connect");
  return fd;
}

/* -------------------------------------------------------------------------- lines */

typedef struct lines {
  mcp_pipe pipe;
  bool open; /* the WebSocket is */
} lines;

static lines *lines_of(const mcp_wire *wire) { return wire->state; }

static void on_lines(mcp_pipe *pipe) {
  const char *end;
  while (pipe->len && (end = memchr(pipe->data, '\n', pipe->len))) {
    size_t len = (size_t)(end - pipe->data);
    mcp_wire_heard(pipe->wire, pipe->data, len);
    mcp_pipe_drop(pipe, len + 1);
  }
  if (pipe->eof) pipe->wire->ended = true;
}

static lines *new_lines(mcp_wire *wire, void (*on_data)(mcp_pipe *pipe)) {
  lines *self = calloc(1, sizeof *self);
  if (!self) abort();
  self->pipe.on_data = on_data;
  wire->state = self;
  return self;
}

static void prepare_tcp(mcp_wire *wire, char *url, size_t size) {
  (void)wire;
  snprintf(url, size, "tcp://127.0.0.1:0");
}

static void prepare_unix(mcp_wire *wire, char *url, size_t size) {
  const char *folder = getenv("TMPDIR");
  (void)wire;
  snprintf(url, size, "unix:%s/idem-mcp-%d.sock", folder ? folder : "/tmp", getpid());
}

static void open_socket(mcp_wire *wire) {
  int fd = mcp_wire_connect(wire);
  mcp_pipe_open(&new_lines(wire, on_lines)->pipe, wire, fd, fd);
}

static void send_line(mcp_wire *wire, const char *message, size_t len) {
  char *line = malloc(len + 1);
  if (!line) abort();
  memcpy(line, message, len);
  line[len] = '\n';
  mcp_pipe_write(&lines_of(wire)->pipe, line, len + 1);
  free(line);
}

static void end_socket(mcp_wire *wire) { shutdown(lines_of(wire)->pipe.in, SHUT_WR); }

static void on_closed(uv_handle_t *handle) {
  free(IDEM_CONTAINER((mcp_pipe *)handle->data, lines, pipe));
}

static void close_lines(mcp_wire *wire) { mcp_pipe_close(&lines_of(wire)->pipe, on_closed); }

const mcp_link mcp_link_tcp = {.name = "tcp",
                               .tells = true,
                               .ordered = true,
                               .prepare = prepare_tcp,
                               .open = open_socket,
                               .send = send_line,
                               .end_input = end_socket,
                               .close = close_lines};

const mcp_link mcp_link_unix = {.name = "unix",
                                .tells = true,
                                .ordered = true,
                                .prepare = prepare_unix,
                                .open = open_socket,
                                .send = send_line,
                                .end_input = end_socket,
                                .close = close_lines};

/* -------------------------------------------------------------------------- stdio */

static int kept[2]; /* what descriptors 0 and 1 were */

/* Descriptors 0 and 1 are the server's, from here to the end of the scenario. */
static void prepare_stdio(mcp_wire *wire, char *url, size_t size) {
  int to[2], from[2];
  lines *self = new_lines(wire, on_lines);
  if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) mcp_wire_die("pipe");
  kept[0] = fcntl(0, F_DUPFD_CLOEXEC, 3);
  kept[1] = fcntl(1, F_DUPFD_CLOEXEC, 3);
  if (dup2(to[0], 0) < 0 || dup2(from[1], 1) < 0) mcp_wire_die("dup2");
  close(to[0]);
  close(from[1]);
  self->pipe.in = to[1];
  self->pipe.out = from[0];
  snprintf(url, size, "stdio:");
}

static void open_stdio(mcp_wire *wire) {
  mcp_pipe *pipe = &lines_of(wire)->pipe;
  mcp_pipe_open(pipe, wire, pipe->in, pipe->out);
}

static void end_stdio(mcp_wire *wire) {
  mcp_pipe *pipe = &lines_of(wire)->pipe;
  close(pipe->in);
  pipe->in = -1;
}

/* The server has given them back: they are ours again. */
static void restore_stdio(void) {
  for (int i = 0; i < 2; i++) {
    if (dup2(kept[i], i) < 0) mcp_wire_die("dup2");
    close(kept[i]);
  }
}

const mcp_link mcp_link_stdio = {.name = "stdio",
                                 .tells = true,
                                 .ordered = true,
                                 .prepare = prepare_stdio,
                                 .open = open_stdio,
                                 .send = send_line,
                                 .end_input = end_stdio,
                                 .close = close_lines,
                                 .restore = restore_stdio};

/* ---------------------------------------------------------------------- WebSocket */

static void on_frames(mcp_pipe *pipe) {
  lines *self = IDEM_CONTAINER(pipe, lines, pipe);
  web_frame_seen frame;
  web_answer answer;
  if (!self->open && web_find_answer(pipe->data, pipe->len, &answer)) {
    self->open = answer.status == 101;
    mcp_pipe_drop(pipe, answer.used);
  }
  while (self->open && pipe->len && web_find_frame(pipe->data, pipe->len, &frame)) {
    if (frame.kind == 1) mcp_wire_heard(pipe->wire, pipe->data + frame.start, frame.len);
    if (frame.kind == 8) pipe->wire->ended = true;
    mcp_pipe_drop(pipe, frame.used);
  }
  if (pipe->eof) pipe->wire->ended = true;
}

static void prepare_ws(mcp_wire *wire, char *url, size_t size) {
  (void)wire;
  snprintf(url, size, "ws://127.0.0.1:0/");
}

static void open_ws(mcp_wire *wire) {
  int fd = mcp_wire_connect(wire);
  lines *self = new_lines(wire, on_frames);
  mcp_pipe_open(&self->pipe, wire, fd, fd);
  mcp_pipe_write(&self->pipe, web_socket_hello, strlen(web_socket_hello));
  while (!self->open && !wire->ended && mcp_wire_turn(wire)) {
  }
  if (!self->open) mcp_wire_die("no WebSocket");
}

static void send_frame(mcp_wire *wire, int kind, const char *message, size_t message_len) {
  size_t len;
  char *bytes = web_frame(kind, message, message_len, &len);
  mcp_pipe_write(&lines_of(wire)->pipe, bytes, len);
  free(bytes);
}

static void send_text(mcp_wire *wire, const char *message, size_t len) {
  send_frame(wire, 1, message, len);
}

static void end_ws(mcp_wire *wire) { send_frame(wire, 8, "\x03\xe8", 2); }

const mcp_link mcp_link_ws = {.name = "ws",
                              .ordered = true,
                              .prepare = prepare_ws,
                              .open = open_ws,
                              .send = send_text,
                              .end_input = end_ws,
                              .close = close_lines};
