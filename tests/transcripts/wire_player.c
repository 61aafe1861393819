/* wire_player.c - plays transcripts against idem-reference over every transport.
 * Usage: wire_player stdio|tcp|unix|http|ws IDEM-REFERENCE FILE.txt. Scenarios that need a fake clock,
 * test methods or other limits are for the player in memory. Nothing waits for time to pass: a scenario
 * ends by closing our side and reading to the end, so that what should not come has had its chance. */
#include "support/transcript.h"
#include "web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

typedef enum transport { OVER_STDIO, OVER_TCP, OVER_UNIX, OVER_HTTP, OVER_WS } transport;
static const char *const transport_names[] = {"stdio", "tcp", "unix", "http", "ws"};

typedef struct server {
  pid_t pid;
  int in, out, err; /* our ends of its standard streams */
  int port;
  char path[108];
} server;

typedef struct wire {
  const transcript *script;
  const scenario *scene;
  transport transport;
  const char *program;
  bool by_byte;
  int in, out; /* where we write, where we read */
  char *buf;
  size_t len;
  bool eof;
  bool failed;
} wire;

static _Noreturn void die(const char *what) {
  fprintf(stderr, "wire_player: %s: %s\n", what, strerror(errno));
  exit(2);
}

static void complain(wire *w, const step *at, const char *what, const char *wanted, size_t len,
                     const char *got, size_t got_len) {
  fprintf(stderr, "%s:%d: %s (%s%s)\n", w->script->path, at ? at->line : w->scene->line, what,
          w->scene->name, w->by_byte ? ", a byte at a time" : "");
  if (wanted) fprintf(stderr, "  wanted: %.*s\n", (int)(len < 2000 ? len : 2000), wanted);
  if (got) fprintf(stderr, "  got:    %.*s\n", (int)(got_len < 2000 ? got_len : 2000), got);
  w->failed = true;
}

/* --------------------------------------------------------------- server */

static void exec_server(const wire *w, const char *const *extra) {
  static const char *const profiles[] = {"jsonrpc", "lsp", "mcp"};
  static const char *const framings[] = {"line", "content-length"};
  const char *argv[16] = {w->program, "--profile", profiles[w->scene->profile], "--framing",
                          framings[w->scene->policy.framing]};
  int n = 5;
  while (*extra) argv[n++] = *extra++;
  execv(w->program, (char *const *)argv);
  fprintf(stderr, "wire_player: %s cannot be run: %s\n", w->program, strerror(errno));
  _exit(127);
}

static void start(const wire *w, server *s, const char *const *extra) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) die("pipe");
  s->pid = fork();
  if (s->pid < 0) die("fork");
  if (s->pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    exec_server(w, extra);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  s->in = in[1];
  s->out = out[0];
  s->err = err[0];
}

static bool readable(int fd) {
  struct pollfd one = {.fd = fd, .events = POLLIN};
  return poll(&one, 1, PATIENCE_MS) > 0;
}

/* Reads the log until the server says where it listens; returns what stands behind the words. */
static void await_listening(const server *s, char *url, size_t size) {
  char text[8192];
  size_t len = 0;
  while (len < sizeof text - 1 && readable(s->err)) {
    ssize_t got = read(s->err, text + len, sizeof text - 1 - len);
    if (got <= 0) break;
    len += (size_t)got;
    text[len] = 0;
    const char *at = strstr(text, "listening on ");
    if (at && strchr(at, '\n')) {
      snprintf(url, size, "%.*s", (int)strcspn(at + 13, " \n"), at + 13);
      return;
    }
  }
  text[len] = 0;
  fprintf(stderr, "wire_player: the server did not say where it listens; it said:\n%s\n", text);
  exit(2);
}

static void listen_somewhere(const wire *w, server *s) {
  char url[256];
  if (w->transport != OVER_UNIX) {
    static const char *const flags[] = {
        [OVER_TCP] = "--tcp", [OVER_HTTP] = "--http", [OVER_WS] = "--ws"};
    start(w, s, (const char *const[]){flags[w->transport], "127.0.0.1:0", NULL});
    await_listening(s, url, sizeof url);
    const char *colon = strrchr(url, ':');
    s->port = colon ? atoi(colon + 1) : 0;
  } else {
    const char *folder = getenv("TMPDIR");
    snprintf(s->path, sizeof s->path, "%s/idem-wire-%d-%d.sock", folder ? folder : "/tmp", getpid(),
             (int)w->scene->profile * 2 + (int)w->scene->policy.framing);
    unlink(s->path);
    start(w, s, (const char *const[]){"--unix", s->path, NULL});
    await_listening(s, url, sizeof url);
  }
}

static int connect_to(const wire *w, const server *s) {
  struct sockaddr_un local = {.sun_family = AF_UNIX};
  struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
  inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  snprintf(local.sun_path, sizeof local.sun_path, "%s", s->path);
  bool tcp = w->transport != OVER_UNIX;
  int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr *to = tcp ? (const void *)&inet : (const void *)&local;
  if (connect(fd, to, tcp ? sizeof inet : sizeof local)) die("connect");
  if (tcp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  return fd;
}

static int await_exit(const server *s) {
  int status = 0;
  char scratch[4096];
  while (readable(s->err) && read(s->err, scratch, sizeof scratch) > 0) {
  }
  waitpid(s->pid, &status, 0);
  close(s->err);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ----------------------------------------------------------------- wire */

static void write_all(wire *w, const char *data, size_t len) {
  while (len) {
    ssize_t put = write(w->in, data, w->by_byte ? 1 : len);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return; /* the server has closed: what it said first is still read */
    data += put;
    len -= (size_t)put;
  }
}

static bool read_more(wire *w) {
  char piece[65536];
  if (w->eof) return false;
  if (!readable(w->out)) {
    fprintf(stderr, "wire_player: nothing came for %d ms\n", PATIENCE_MS);
    return false;
  }
  ssize_t got = read(w->out, piece, sizeof piece);
  if (got <= 0) {
    w->eof = true;
    return false;
  }
  w->buf = realloc(w->buf, w->len + (size_t)got + 1);
  if (!w->buf) abort();
  memcpy(w->buf + w->len, piece, (size_t)got);
  w->len += (size_t)got;
  w->buf[w->len] = 0;
  return true;
}

static bool find_text_frame(const wire *w, size_t *start_at, size_t *len, size_t *used) {
  web_frame_seen frame;
  if (!web_find_frame(w->buf, w->len, &frame) || frame.kind != 1) return false;
  *start_at = frame.start;
  *len = frame.len;
  *used = frame.used;
  return true;
}

/* Where the first whole message begins and how long it is; false: not there yet. */
static bool find_message(const wire *w, size_t *start_at, size_t *len, size_t *used) {
  if (!w->len) return false;
  if (w->transport == OVER_WS) return find_text_frame(w, start_at, len, used);
  if (w->scene->policy.framing == IDEM_FRAMING_LINE) {
    const char *end = memchr(w->buf, '\n', w->len);
    if (!end) return false;
    *start_at = 0;
    *len = (size_t)(end - w->buf);
    *used = *len + 1;
    return true;
  }
  const char *end = memmem(w->buf, w->len, "\r\n\r\n", 4);
  if (!end || strncmp(w->buf, "Content-Length: ", 16) != 0) return false;
  *start_at = (size_t)(end - w->buf) + 4;
  *len = strtoul(w->buf + 16, NULL, 10);
  *used = *start_at + *len;
  return *used <= w->len;
}

static void drop_front(wire *w, size_t count) {
  w->len -= count;
  memmove(w->buf, w->buf + count, w->len);
}

static char *read_message(wire *w, size_t *len) {
  size_t start_at, used;
  while (!find_message(w, &start_at, len, &used)) {
    if (!read_more(w)) return NULL;
  }
  char *message = malloc(*len + 1);
  if (!message) abort();
  memcpy(message, w->buf + start_at, *len);
  message[*len] = 0;
  drop_front(w, used);
  return message;
}

static size_t expect_group(wire *w, size_t at) {
  const scenario *scene = w->scene;
  size_t end = at + 1;
  bool used[64] = {0};
  while (scene->steps[at].kind == STEP_EXPECT_ANY && end < scene->step_count && end - at < 64 &&
         scene->steps[end].kind == STEP_EXPECT_ANY) {
    end++;
  }
  for (size_t n = at; n < end && !w->failed; n++) {
    size_t len = 0;
    char *got = read_message(w, &len);
    size_t k = at;
    while (k < end && (used[k - at] || !got || len != scene->steps[k].len ||
                       memcmp(got, scene->steps[k].text, len) != 0)) {
      k++;
    }
    if (k == end) {
      const step *one = &scene->steps[n];
      complain(w, one, "not the answer", one->text, one->len, got ? got : "nothing", got ? len : 7);
    } else {
      used[k - at] = true;
    }
    free(got);
  }
  return end;
}

/* Both sides say goodbye: a message that should not have come stands before the answer. */
static void close_websocket(wire *w) {
  size_t len;
  web_frame_seen frame;
  char *bytes = web_frame(8, "\x03\xe8", 2, &len);
  write_all(w, bytes, len);
  free(bytes);
  while (!web_find_frame(w->buf, w->len, &frame)) {
    if (!read_more(w)) return;
  }
  if (frame.kind == 8) drop_front(w, frame.used);
}

static void end_input(wire *w) {
  if (w->transport == OVER_WS && w->in >= 0) close_websocket(w);
  if (w->transport == OVER_STDIO) {
    if (w->in >= 0) close(w->in);
  } else if (w->in >= 0) {
    shutdown(w->in, SHUT_WR);
  }
  w->in = -1;
}

static void expect_end(wire *w, const step *at) {
  while (read_more(w)) {
  }
  if (w->len) complain(w, at, "more came", "nothing", 7, w->buf, w->len);
  if (!w->eof) complain(w, at, "the server did not end the conversation", NULL, 0, NULL, 0);
}

static void play_steps(wire *w) {
  const scenario *scene = w->scene;
  for (size_t at = 0; at < scene->step_count && !w->failed;) {
    const step *one = &scene->steps[at];
    if (step_sends(one)) {
      size_t len;
      char *bytes = w->transport == OVER_WS ? web_frame(1, one->text, one->len, &len)
                                            : step_wire_bytes(scene, one, &len);
      write_all(w, bytes, len);
      free(bytes);
    }
    if (one->kind == STEP_EOF) end_input(w);
    if (one->kind == STEP_CLOSED) expect_end(w, one);
    bool expects = one->kind == STEP_EXPECT || one->kind == STEP_EXPECT_ANY;
    at = expects ? expect_group(w, at) : at + 1;
  }
  if (w->failed) return;
  end_input(w);
  expect_end(w, NULL);
}

/* ----------------------------------------------------------------- HTTP */

/* Which expectation of the scenario this is; step_count: none that is left. */
static size_t find_expected(const wire *w, const bool *used, const char *body, size_t len) {
  const scenario *scene = w->scene;
  size_t k = 0;
  for (; k < scene->step_count; k++) {
    const step *one = &scene->steps[k];
    if (one->kind != STEP_EXPECT && one->kind != STEP_EXPECT_ANY) continue;
    if (!used[k] && one->len == len && memcmp(one->text, body, len) == 0) break;
  }
  return k;
}

/* Each POST has an answer of its own, so that the order of the expectations says nothing here. */
static void post_message(wire *w, const step *one, bool *used) {
  size_t len;
  web_answer answer;
  char *bytes = web_post(one, &len);
  write_all(w, bytes, len);
  free(bytes);
  while (!web_find_answer(w->buf, w->len, &answer)) {
    if (!read_more(w)) {
      complain(w, one, "no answer", NULL, 0, w->buf, w->len);
      return;
    }
  }
  const char *body = w->buf + answer.start;
  size_t k = answer.len ? find_expected(w, used, body, answer.len) : 0;
  if (k == w->scene->step_count)
    complain(w, one, "not an answer that was expected", NULL, 0, body, answer.len);
  else if (answer.status != web_status_of(body, answer.len))
    complain(w, one, "not the status", NULL, 0, w->buf, answer.used);
  else if (answer.len)
    used[k] = true;
  drop_front(w, answer.used);
}

static void play_http(wire *w) {
  const scenario *scene = w->scene;
  bool *used = calloc(scene->step_count + 1, sizeof *used);
  if (!used) abort();
  for (size_t at = 0; at < scene->step_count && !w->failed; at++) {
    if (step_sends(&scene->steps[at])) post_message(w, &scene->steps[at], used);
  }
  for (size_t at = 0; at < scene->step_count && !w->failed; at++) {
    const step *one = &scene->steps[at];
    bool expects = one->kind == STEP_EXPECT || one->kind == STEP_EXPECT_ANY;
    if (expects && !used[at]) complain(w, one, "this did not come", one->text, one->len, NULL, 0);
  }
  free(used);
  if (w->failed) return;
  end_input(w);
  expect_end(w, NULL);
}

/* ---------------------------------------------------------------- the play */

static bool upgrade(wire *w) {
  web_answer answer;
  write_all(w, web_socket_hello, strlen(web_socket_hello));
  while (!web_find_answer(w->buf, w->len, &answer)) {
    if (!read_more(w)) break;
  }
  if (!w->len || answer.status != 101) {
    complain(w, NULL, "no WebSocket", NULL, 0, w->buf, w->len);
    return false;
  }
  drop_front(w, answer.used);
  return true;
}

static void play_stdio(wire *w) {
  server s = {0};
  start(w, &s, (const char *const[]){NULL});
  w->in = s.in;
  w->out = s.out;
  play_steps(w);
  if (w->in >= 0) end_input(w);
  close(s.out);
  int code = await_exit(&s);
  if (code != 0) complain(w, NULL, "the server did not exit with 0", NULL, 0, NULL, 0);
}

/* One server for each profile and framing is enough: every scenario is a connection of its own. */
static server servers[3][2];

static void play_socket(wire *w) {
  server *s = &servers[w->scene->profile][w->scene->policy.framing];
  if (!s->pid) listen_somewhere(w, s);
  int fd = connect_to(w, s);
  w->in = w->out = fd;
  if (w->transport == OVER_HTTP)
    play_http(w);
  else if (w->transport != OVER_WS || upgrade(w))
    play_steps(w);
  close(fd);
}

/* Returns how many servers did not end well. */
static size_t stop_servers(void) {
  size_t bad = 0;
  for (size_t i = 0; i < 6; i++) {
    server *s = &servers[i / 2][i % 2];
    if (!s->pid) continue;
    kill(s->pid, SIGTERM);
    close(s->in);
    close(s->out);
    int code = await_exit(s);
    if (code != 0) fprintf(stderr, "wire_player: a server ended with %d\n", code);
    if (code != 0) bad++;
    if (*s->path) unlink(s->path);
  }
  return bad;
}

static bool play(const transcript *script, const scenario *scene, transport how,
                 const char *program, bool by_byte) {
  wire w = {
      .script = script, .scene = scene, .transport = how, .program = program, .by_byte = by_byte};
  if (how == OVER_STDIO) {
    play_stdio(&w);
  } else {
    play_socket(&w);
  }
  free(w.buf);
  return !w.failed;
}

static transport transport_named(const char *name) {
  for (size_t i = 0; i < sizeof transport_names / sizeof *transport_names; i++) {
    if (strcmp(name, transport_names[i]) == 0) return (transport)i;
  }
  fprintf(stderr, "wire_player: no such transport: %s\n", name);
  exit(2);
}

static bool can_play(const scenario *scene, transport how) {
  if (scene->memory_only || scene->acts || scene->mcp_server) return false;
  if (how == OVER_HTTP || how == OVER_WS) return web_can_carry(scene, how == OVER_WS);
  return !scene->sockets_only || how != OVER_STDIO;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: wire_player stdio|tcp|unix|http|ws IDEM-REFERENCE FILE.txt\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  transport how = transport_named(argv[1]);
  transcript *script = transcript_load(argv[3]);
  size_t played = 0, bad = 0;
  for (size_t i = 0; i < script->count; i++) {
    if (!can_play(&script->scenarios[i], how)) continue;
    played++;
    if (!play(script, &script->scenarios[i], how, argv[2], false) ||
        (how != OVER_STDIO && !play(script, &script->scenarios[i], how, argv[2], true))) {
      bad++;
    }
  }
  bad += stop_servers();
  printf("%s: %zu of %zu scenarios played over %s, %zu failed\n", argv[3], played, script->count,
         argv[1], bad);
  transcript_free(script);
  if (!played) fprintf(stderr, "%s: nothing in it can be played over %s\n", argv[3], argv[1]);
  return bad || !played ? 1 : 0;
}
