/* bench_http.c - many POSTs over plain HTTP/1.1 with as little work of our own as can be: the request's bytes are made
 * once, one read and one write a call, answers judged where they lie. For http:// alone. Linux: epoll and timerfd, for
 * times finer than a millisecond. */
#include "bench_answer.h"
#include "text.h"

#include "config/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define ID_WIDTH 12u

typedef struct http_address {
  char host[256];
  char port[8];
  const char *path;
} http_address;

typedef struct http_conn {
  int fd; /* -1: to be opened */
  bool busy;
  bool wants_out;
  size_t sent;
  uint64_t from_ns; /* when it began, or should have */
  text answer;      /* what came so far, where one read was not enough */
} http_conn;

typedef struct http_load {
  const bench_plan *plan;
  bench_tally *tally;
  http_address address;
  struct sockaddr_storage to;
  socklen_t to_len;
  text request;
  size_t id_at; /* of the id's digits in it */
  http_conn *conns;
  size_t busy;
  int epoll, timer;
  uint64_t begun_ns;
  uint64_t due; /* arrivals so far, of an open loop */
  uint64_t last_ns;
  char buffer[BENCH_READ_BYTES];
} http_load;

/* ------------------------------------------------------------------------ addresses */

static bool read_address(const char *url, http_address *made) {
  const char *at = url + strlen("http://");
  size_t len = strcspn(at, "/?#"), host = len;
  snprintf(made->port, sizeof made->port, "80");
  made->path = at[len] ? at + len : "/";
  const char *bracket = *at == '[' ? memchr(at, ']', len) : NULL;
  const char *colon =
      memchr(bracket ? bracket : at, ':', len - (size_t)((bracket ? bracket : at) - at));
  if (colon) {
    host = (size_t)(colon - at);
    snprintf(made->port, sizeof made->port, "%.*s", (int)(len - host - 1), colon + 1);
  }
  if (bracket) at++, host -= 2;
  if (host >= sizeof made->host || memchr(at, '@', host)) return false;
  snprintf(made->host, sizeof made->host, "%.*s", (int)host, at);
  return true;
}

static int open_blocking(http_load *self) {
  int one = 1, fd = socket(self->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval limit = {.tv_sec = 10};
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, (struct sockaddr *)&self->to, self->to_len) == 0) return fd;
  close(fd);
  return -1;
}

/* The first of its addresses that answers. */
static bool resolve(http_load *self) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
  if (getaddrinfo(self->address.host, self->address.port, &hints, &all) != 0) return false;
  bool found = false;
  for (struct addrinfo *one = all; one && !found; one = one->ai_next) {
    memcpy(&self->to, one->ai_addr, one->ai_addrlen);
    self->to_len = one->ai_addrlen;
    int fd = open_blocking(self);
    found = fd >= 0;
    if (found) close(fd);
  }
  freeaddrinfo(all);
  return found;
}

/* ----------------------------------------------------------------------- connections */

static uint64_t now_ns(void) { return uv_hrtime(); }

static bool open_conn(http_load *self, http_conn *conn) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
  conn->fd = open_blocking(self);
  if (conn->fd < 0) return false;
  fcntl(conn->fd, F_SETFL, fcntl(conn->fd, F_GETFL) | O_NONBLOCK);
  conn->wants_out = false;
  conn->answer.len = 0;
  return epoll_ctl(self->epoll, EPOLL_CTL_ADD, conn->fd, &event) == 0;
}

static void close_conn(http_conn *conn) {
  if (conn->fd >= 0) close(conn->fd);
  conn->fd = -1;
}

static void want_out(http_load *self, http_conn *conn, bool wanted) {
  struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = conn};
  if (conn->wants_out == wanted) return;
  conn->wants_out = wanted;
  epoll_ctl(self->epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

static void lose(http_load *self, http_conn *conn, const char *why) {
  self->tally->lost++;
  bench_fault(self->tally, "%s", why);
  close_conn(conn);
  if (conn->busy) self->busy--;
  conn->busy = false;
}

/* The same bytes for all; only a large one that is cut in two pays for its id with a copy. */
static void write_on(http_load *self, http_conn *conn) {
  ssize_t done =
      send(conn->fd, self->request.data + conn->sent, self->request.len - conn->sent, MSG_NOSIGNAL);
  if (done < 0 && errno != EAGAIN && errno != EINTR) {
    lose(self, conn, strerror(errno));
    return;
  }
  if (done > 0) conn->sent += (size_t)done;
  want_out(self, conn, conn->sent < self->request.len);
}

static void number_request(http_load *self) {
  uint64_t number = self->tally->begun + 1;
  for (size_t i = 0; i < ID_WIDTH - 1; i++, number /= 10)
    self->request.data[self->id_at + ID_WIDTH - 1 - i] = (char)('0' + number % 10);
}

static void begin(http_load *self, http_conn *conn, uint64_t from_ns) {
  self->tally->begun++;
  conn->busy = true;
  conn->sent = 0;
  conn->from_ns = from_ns;
  self->busy++;
  if (conn->fd < 0 && !open_conn(self, conn)) {
    lose(self, conn, strerror(errno));
    return;
  }
  bool between = false; /* of another that is half sent */
  for (size_t i = 0; i < self->plan->connections && self->request.len > BENCH_READ_BYTES; i++)
    between = between || self->conns[i].wants_out;
  if (!between) number_request(self);
  write_on(self, conn);
}

static void end_of_answer(http_load *self, http_conn *conn, http_answer *answer) {
  uint64_t now = now_ns();
  histogram_add(&self->tally->times, now - conn->from_ns);
  http_answer_judge(answer, self->tally);
  self->last_ns = now;
  conn->busy = false;
  conn->answer.len = 0;
  self->busy--;
  if (answer->closes) close_conn(conn);
}

/* All of an answer nearly always comes with one read, and is judged in the buffer. */
static void take(http_load *self, http_conn *conn, size_t len) {
  const char *data = self->buffer;
  self->tally->bytes_in += len;
  self->buffer[len] = 0;
  if (conn->answer.len) {
    text_put(&conn->answer, self->buffer, len);
    data = conn->answer.data;
    len = conn->answer.len;
  }
  http_answer answer = http_answer_read(data, len);
  if (answer.broken || len > ANSWER_BYTES) {
    lose(self, conn, "an answer that is none of HTTP");
  } else if (!answer.whole) {
    if (data == self->buffer) text_put(&conn->answer, data, len);
  } else {
    end_of_answer(self, conn, &answer);
  }
}

static void on_event(http_load *self, http_conn *conn, uint32_t events) {
  if ((events & EPOLLOUT) && conn->busy) write_on(self, conn);
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || conn->fd < 0) return;
  ssize_t len = recv(conn->fd, self->buffer, BENCH_READ_BYTES - 1, 0);
  if (len > 0 && conn->busy)
    take(self, conn, (size_t)len);
  else if (len >= 0 || (errno != EAGAIN && errno != EINTR)) {
    if (conn->busy)
      lose(self, conn, len ? strerror(errno) : "the server closed the connection");
    else
      close_conn(conn);
  }
}

/* --------------------------------------------------------------------------- the loop */

static uint64_t due_at(const http_load *self, uint64_t index) {
  return self->begun_ns + (uint64_t)((double)index * 1e9 / self->plan->rate);
}

static bool is_late(const http_load *self, uint64_t now) {
  return (self->plan->most_ns && now - self->begun_ns > self->plan->most_ns) || *bench_stopped();
}

static bool may_begin(const http_load *self, uint64_t now) {
  return self->tally->begun < self->plan->requests && !is_late(self, now);
}

static void begin_on(http_load *self, http_conn *conn) {
  uint64_t now = now_ns();
  if (conn->busy || !may_begin(self, now)) return;
  if (self->plan->rate <= 0) {
    begin(self, conn, now);
  } else if (due_at(self, self->tally->begun) <= now) {
    begin(self, conn, due_at(self, self->tally->begun));
  }
}

static void begin_all(http_load *self) {
  for (size_t i = 0; i < self->plan->connections && self->busy < self->plan->connections; i++)
    begin_on(self, &self->conns[i]);
}

/* Until the next is due; 0: now. */
static void set_timer(http_load *self) {
  uint64_t now = now_ns(), due = due_at(self, self->tally->begun);
  uint64_t wait = due > now ? due - now : 1;
  struct itimerspec when = {
      .it_value = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)}};
  timerfd_settime(self->timer, 0, &when, NULL);
}

static void turn(http_load *self) {
  struct epoll_event events[256];
  bool open_loop = self->plan->rate > 0;
  if (open_loop && may_begin(self, now_ns()) && self->busy < self->plan->connections)
    set_timer(self);
  int count = epoll_wait(self->epoll, events, 256, 100);
  for (int i = 0; i < count; i++) {
    http_conn *conn = events[i].data.ptr;
    if (conn) {
      on_event(self, conn, events[i].events);
      begin_on(self, conn);
    } else {
      uint64_t times;
      if (read(self->timer, &times, sizeof times) < 0) continue;
    }
  }
  if (open_loop || count <= 0) begin_all(self);
}

static void run(http_load *self) {
  self->begun_ns = self->last_ns = now_ns();
  begin_all(self);
  for (;;) {
    uint64_t now = now_ns();
    if (!self->busy && !may_begin(self, now)) break;
    if (self->busy && now - self->last_ns > self->plan->idle_ns) break;
    self->tally->late = self->plan->end_ns && now > self->plan->end_ns;
    if (self->tally->late) break;
    if (*bench_stopped()) break;
    if (!self->busy && self->tally->lost > self->plan->connections * 4 + 100 &&
        !self->tally->answered)
      break;
    turn(self);
  }
  self->tally->lost += self->busy;
  if (self->busy) bench_fault(self->tally, "no answer in time, or stopped");
  self->tally->took_ns = self->last_ns - self->begun_ns;
}

/* ----------------------------------------------------------------------- the request */

static void put_head(text *out, const http_load *self, const bench_subject *subject,
                     const char *session, size_t body) {
  const call_target *target = &subject->session->target;
  bool v6 = strchr(self->address.host, ':') != NULL;
  text_printf(out, "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", self->address.path, v6 ? "[" : "",
              self->address.host, v6 ? "]" : "", self->address.port);
  text_puts(out, "Content-Type: application/json\r\n"
                 "Accept: application/json, text/event-stream\r\n");
  for (size_t i = 0; target->headers[i]; i++) text_printf(out, "%s\r\n", target->headers[i]);
  if (target->token) text_printf(out, "Authorization: Bearer %s\r\n", target->token);
  if (!subject->plain && (session || subject->revision >= IDEM_MCP_2025_06_18))
    text_printf(out, "MCP-Protocol-Version: %s\r\n", idem_mcp_revision_date(subject->revision));
  if (session) text_printf(out, "Mcp-Session-Id: %s\r\n", session);
  if (!subject->plain && subject->revision == IDEM_MCP_2026_07_28) {
    text_printf(out, "Mcp-Method: %s\r\n", subject->method);
    if (subject->session->options->kind != CALL_METHOD)
      text_printf(out, "Mcp-Name: %s\r\n", subject->session->options->subject);
  }
  text_printf(out, "Content-Length: %zu\r\n\r\n", body);
}

/* What 2026-07-28 wants in every request. */
static void put_params(text *out, const bench_subject *subject) {
  bool modern = !subject->plain && subject->revision == IDEM_MCP_2026_07_28;
  const text *params = &subject->params;
  if (!modern && !params->len) return;
  text_puts(out, ",\"params\":");
  if (!modern) {
    text_put(out, params->data, params->len);
    return;
  }
  text_printf(out,
              "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
              "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"idem call\",\"version\":\"%s\"},"
              "\"io.modelcontextprotocol/clientCapabilities\":{}}",
              idem_version());
  if (params->len > 2) {
    text_puts(out, ",");
    text_put(out, params->data + 1, params->len - 1);
  } else {
    text_puts(out, "}");
  }
}

static void make_request(http_load *self, const bench_subject *subject, const char *session) {
  text body = {.data = NULL};
  text_puts(&body, "{\"jsonrpc\":\"2.0\",\"id\":");
  size_t id_at = body.len;
  text_puts(&body, "100000000000");
  text_printf(&body, ",\"method\":\"%s\"", subject->method);
  put_params(&body, subject);
  text_puts(&body, "}");
  self->request.len = 0;
  put_head(&self->request, self, subject, session, body.len);
  self->id_at = self->request.len + id_at;
  text_put(&self->request, body.data, body.len);
  text_free(&body);
}

/* --------------------------------------------------------------------------- sessions */

/* One request, one answer, in peace. */
static bool exchange(http_load *self, const text *request, text *answer) {
  int fd = open_blocking(self);
  bool whole =
      fd >= 0 && send(fd, request->data, request->len, MSG_NOSIGNAL) == (ssize_t)request->len;
  answer->len = 0;
  while (whole) {
    ssize_t len = recv(fd, self->buffer, BENCH_READ_BYTES - 1, 0);
    if (len <= 0) whole = false;
    if (len <= 0) break;
    text_put(answer, self->buffer, (size_t)len);
    http_answer seen = http_answer_read(answer->data, answer->len);
    whole = !seen.broken && answer->len < ANSWER_BYTES;
    if (seen.whole) break;
  }
  if (fd >= 0) close(fd);
  return whole;
}

static void put_message(text *out, const http_load *self, const bench_subject *subject,
                        const char *session, const char *body) {
  out->len = 0;
  put_head(out, self, subject, session, strlen(body));
  text_puts(out, body);
}

/* Older revisions shake hands; a server that keeps sessions names one. */
static bool shake_hands(http_load *self, const bench_subject *subject, char *session, size_t size) {
  text request = {.data = NULL}, answer = {.data = NULL}, body = {.data = NULL};
  text_printf(&body,
              "{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"method\":\"initialize\",\"params\":"
              "{\"protocolVersion\":\"%s\",\"capabilities\":{},\"clientInfo\":{\"name\":\"idem "
              "call\",\"version\":\"%s\"}}}",
              idem_mcp_revision_date(subject->revision), idem_version());
  put_message(&request, self, subject, NULL, body.data);
  bool fine =
      exchange(self, &request, &answer) && http_answer_read(answer.data, answer.len).status == 200;
  const char *blank = fine ? memmem(answer.data, answer.len, "\r\n\r\n", 4) : NULL;
  const char *id =
      blank ? http_answer_header(answer.data, (size_t)(blank - answer.data) + 4, "mcp-session-id")
            : NULL;
  if (id) snprintf(session, size, "%.*s", (int)strcspn(id, "\r\n"), id);
  put_message(&request, self, subject, *session ? session : NULL,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  fine = fine && exchange(self, &request, &answer);
  text_free(&request);
  text_free(&answer);
  text_free(&body);
  if (!fine) call_say("--bench: the server does not shake hands over HTTP");
  return fine;
}

static void say_goodbye(http_load *self, const bench_subject *subject, const char *session) {
  text request = {.data = NULL}, answer = {.data = NULL};
  put_message(&request, self, subject, session, "");
  text goodbye = {.data = NULL};
  text_puts(&goodbye, "DELETE");
  text_put(&goodbye, request.data + 4, request.len - 4);
  exchange(self, &goodbye, &answer);
  text_free(&goodbye);
  text_free(&request);
  text_free(&answer);
}

/* -------------------------------------------------------------------------- the whole */

bool bench_is_http(const bench_subject *subject) {
  const call_target *target = &subject->session->target;
  return target->url && strncmp(target->url, "http://", 7) == 0 && !target->event_stream &&
         !subject->session->mirrors && (subject->plain || subject->revision != IDEM_MCP_2024_11_05);
}

static bool open_load(http_load *self) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  self->epoll = epoll_create1(EPOLL_CLOEXEC);
  self->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  self->conns = calloc(self->plan->connections, sizeof *self->conns);
  if (self->epoll < 0 || self->timer < 0 || !self->conns) memory_exhausted();
  for (size_t i = 0; i < self->plan->connections; i++) self->conns[i].fd = -1;
  return epoll_ctl(self->epoll, EPOLL_CTL_ADD, self->timer, &event) == 0;
}

static void close_load(http_load *self) {
  for (size_t i = 0; i < self->plan->connections; i++) {
    close_conn(&self->conns[i]);
    text_free(&self->conns[i].answer);
  }
  free(self->conns);
  close(self->epoll);
  close(self->timer);
  text_free(&self->request);
}

bool bench_http(const bench_subject *subject, const bench_plan *plan, bench_tally *tally) {
  http_load *self = calloc(1, sizeof *self);
  char session[512] = "";
  if (!self) memory_exhausted();
  self->plan = plan;
  self->tally = tally;
  bool modern = subject->plain || subject->revision == IDEM_MCP_2026_07_28;
  bool fine = read_address(subject->session->target.url, &self->address) && resolve(self);
  if (!fine) call_say("--bench: cannot connect to %s", subject->session->target.url);
  fine = fine && (modern || shake_hands(self, subject, session, sizeof session));
  if (fine && open_load(self)) {
    make_request(self, subject, *session ? session : NULL);
    run(self);
    close_load(self);
  }
  if (*session) say_goodbye(self, subject, session);
  free(self);
  return fine;
}
