/* mcp_wire_http.c - the link of Streamable HTTP: each message is a POST on a connection of its own, and
 * what comes back on any of them, or on the stream that an older client holds open, is what was heard.
 * HTTP by hand and independently of src/http. */
#include "mcp_wire.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

typedef struct exchange {
  mcp_pipe pipe;
  struct exchange *next;
  char *body; /* without its chunks */
  size_t body_len, told;
  bool stream; /* asked for by GET */
} exchange;

enum { QUESTIONS = 64 };

typedef struct posts {
  exchange *all;
  /* Here a server's questions have ids of its own; in a transcript the first is 1, and so on. */
  unsigned long questions[QUESTIONS];
  size_t question_count;
  char session[128], date[16];
  bool listening;
} posts;

static posts *posts_of(const mcp_wire *wire) { return wire->state; }

/* --------------------------------------------------------------------- what came */

static const char *header(const char *head, size_t len, const char *name) {
  const char *at = memmem(head, len, name, strlen(name));
  return at ? at + strlen(name) : NULL;
}

/* Writes `number` in place of the digits at `at`. */
static char *renumber(const char *text, size_t len, const char *at, unsigned long number) {
  char *all = NULL;
  size_t digits = strspn(at, "0123456789");
  if (asprintf(&all, "%.*s%lu%.*s", (int)(at - text), text, number,
               (int)(len - (size_t)(at - text) - digits), at + digits) < 0)
    abort();
  return all;
}

#define ID "{\"jsonrpc\":\"2.0\",\"id\":"
#define CANCELLED "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"

static unsigned long number_of(posts *self, unsigned long id) {
  size_t at = 0;
  while (at < self->question_count && self->questions[at] != id) at++;
  if (at == QUESTIONS) abort();
  if (at == self->question_count) self->questions[self->question_count++] = id;
  return at + 1;
}

/* A question, or the end of one, gets the number that it has in the transcript. */
static void hear(mcp_wire *wire, const char *message, size_t len) {
  char *copy = strndup(message, len), *cancelled = strstr(copy ? copy : "", CANCELLED);
  if (!copy) abort();
  const char *at = cancelled ? cancelled + strlen(CANCELLED) : copy + strlen(ID);
  bool asks = !cancelled && strncmp(copy, ID, strlen(ID)) == 0 && strstr(copy, "\"method\":");
  if (asks || cancelled) {
    char *ours = renumber(copy, len, at, number_of(posts_of(wire), strtoul(at, NULL, 10)));
    free(copy);
    copy = ours;
  }
  mcp_wire_heard(wire, copy, strlen(copy));
  free(copy);
}

/* An answer to one goes back with the server's own; NULL: it is none. Freed by the caller. */
static char *answer_of(const posts *self, const char *message, size_t len) {
  if (strncmp(message, ID, strlen(ID)) != 0 || strstr(message, "\"method\":")) return NULL;
  unsigned long number = strtoul(message + strlen(ID), NULL, 10);
  if (!number || number > self->question_count) return NULL;
  return renumber(message, len, message + strlen(ID), self->questions[number - 1]);
}

/* Whole chunks, anew each time: they are few. */
static void join_chunks(exchange *self, const char *at, size_t len) {
  const char *end;
  self->body_len = 0;
  while ((end = memmem(at, len, "\r\n", 2))) {
    size_t size = strtoul(at, NULL, 16), head = (size_t)(end - at) + 2;
    if (!size || len < head + size + 2) return;
    self->body = realloc(self->body, self->body_len + size + 1);
    if (!self->body) abort();
    memcpy(self->body + self->body_len, at + head, size);
    self->body_len += size;
    self->body[self->body_len] = 0;
    at += head + size + 2;
    len -= head + size + 2;
  }
}

/* Each event once; one without data says nothing. */
static void tell_events(exchange *self) {
  const char *end;
  while (self->told < self->body_len &&
         (end = memmem(self->body + self->told, self->body_len - self->told, "\n\n", 2))) {
    const char *at = self->body + self->told;
    const char *data = memmem(at, (size_t)(end - at), "data: ", 6);
    if (data) hear(self->pipe.wire, data + 6, (size_t)(end - data) - 6);
    self->told = (size_t)(end - self->body) + 2;
  }
}

static void listen_for_news(mcp_wire *wire);

static void note_session(mcp_wire *wire, const char *head, size_t len, const char *body) {
  posts *self = posts_of(wire);
  const char *id = header(head, len, "\r\nMcp-Session-Id: ");
  if (!id || *self->session) return;
  snprintf(self->session, sizeof self->session, "%.*s", (int)strcspn(id, "\r"), id);
  mcp_wire_date(body, self->date, sizeof self->date);
}

static void on_http(mcp_pipe *pipe) {
  exchange *self = IDEM_CONTAINER(pipe, exchange, pipe);
  const char *end = pipe->len ? memmem(pipe->data, pipe->len, "\r\n\r\n", 4) : NULL;
  if (!end) return;
  size_t head = (size_t)(end - pipe->data) + 4, rest = pipe->len - head;
  const char *length = header(pipe->data, head, "\r\nContent-Length: ");
  if (header(pipe->data, head, "\r\nTransfer-Encoding: chunked")) {
    join_chunks(self, end + 4, rest);
    if (self->body) note_session(pipe->wire, pipe->data, head, self->body);
    tell_events(self);
  } else if (length && !self->told && rest >= strtoul(length, NULL, 10)) {
    size_t len = strtoul(length, NULL, 10);
    note_session(pipe->wire, pipe->data, head, end + 4);
    if (len) mcp_wire_heard(pipe->wire, end + 4, len);
    self->told = 1;
  }
}

/* ----------------------------------------------------------------------- sending */

static exchange *connect_anew(mcp_wire *wire) {
  exchange *self = calloc(1, sizeof *self);
  int fd = mcp_wire_connect(wire);
  if (!self) abort();
  self->pipe.on_data = on_http;
  self->next = posts_of(wire)->all;
  posts_of(wire)->all = self;
  mcp_pipe_open(&self->pipe, wire, fd, fd);
  return self;
}

static char *print_session(const posts *self, const char *date) {
  char *text = NULL;
  int len = *date            ? asprintf(&text, "MCP-Protocol-Version: %s\r\n", date)
            : *self->session ? asprintf(&text, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n",
                                        self->session, self->date)
                             : asprintf(&text, "%s", "");
  if (len < 0) abort();
  return text;
}

/* The name that goes into Mcp-Name, or NULL. */
static const char *name_of(yyjson_val *params) {
  static const char *const members[] = {"name", "uri", "taskId"};
  for (size_t i = 0; i < 3; i++) {
    const char *name = yyjson_get_str(yyjson_obj_get(params, members[i]));
    if (name) return name;
  }
  return NULL;
}

/* What a client of 2026-07-28 repeats in headers. */
static char *print_modern(const char *message, size_t len, const char *date) {
  char *text = NULL;
  yyjson_doc *doc = *date ? yyjson_read(message, len, 0) : NULL;
  yyjson_val *root = yyjson_doc_get_root(doc);
  const char *method = yyjson_get_str(yyjson_obj_get(root, "method"));
  const char *name = name_of(yyjson_obj_get(root, "params"));
  int printed = asprintf(&text, "%s%s%s%s%s%s", method ? "Mcp-Method: " : "", method ? method : "",
                         method ? "\r\n" : "", name ? "Mcp-Name: " : "", name ? name : "",
                         name ? "\r\n" : "");
  if (printed < 0) abort();
  yyjson_doc_free(doc);
  return text;
}

/* The revision that a message claims for itself; "": none. */
static void date_of(const char *message, size_t len, char *date, size_t size) {
  static const char claim[] = "io.modelcontextprotocol/protocolVersion\":\"";
  const char *at = memmem(message, len, claim, sizeof claim - 1);
  if (at) at += sizeof claim - 1;
  snprintf(date, size, "%.*s", at ? (int)strcspn(at, "\"") : 0, at ? at : "");
}

static void post(mcp_wire *wire, const char *message, size_t len) {
  char date[64], *all = NULL;
  date_of(message, len, date, sizeof date);
  char *session = print_session(posts_of(wire), date), *repeated = print_modern(message, len, date);
  int head = asprintf(&all,
                      "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                      "\r\nAccept: application/json, text/event-stream\r\n%s%s"
                      "Content-Length: %zu\r\n\r\n",
                      session, repeated, len);
  all = head < 0 ? NULL : realloc(all, (size_t)head + len + 1);
  if (!all) abort();
  memcpy(all + head, message, len);
  mcp_pipe_write(&connect_anew(wire)->pipe, all, (size_t)head + len);
  free(all);
  free(session);
  free(repeated);
}

/* The id of a session is drawn by lot, too: what follows is as it would be without. */
static void await_session(mcp_wire *wire, unsigned drawn) {
  while (!*posts_of(wire)->session && !wire->inbox.count && mcp_wire_turn(wire)) {
  }
  wire->peer->fixture.drawn = drawn;
  if (*posts_of(wire)->session) listen_for_news(wire);
}

static void send_post(mcp_wire *wire, const char *message, size_t len) {
  unsigned drawn = wire->peer->fixture.drawn;
  bool begins = !*posts_of(wire)->session && memmem(message, len, "\"initialize\"", 12);
  char *ours = answer_of(posts_of(wire), message, len);
  post(wire, ours ? ours : message, ours ? strlen(ours) : len);
  free(ours);
  if (begins) await_session(wire, drawn);
}

static void listen_for_news(mcp_wire *wire) {
  posts *self = posts_of(wire);
  if (self->listening) return;
  self->listening = true;
  char *session = print_session(self, ""), *head = NULL;
  int len = asprintf(&head,
                     "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                     "%s\r\n",
                     session);
  if (len < 0) abort();
  mcp_pipe_write(&connect_anew(wire)->pipe, head, (size_t)len);
  free(head);
  free(session);
}

/* ---------------------------------------------------------------------- the link */

static void prepare_http(mcp_wire *wire, char *url, size_t size) {
  (void)wire;
  snprintf(url, size, "http://127.0.0.1:0/mcp");
}

static void open_http(mcp_wire *wire) {
  wire->state = calloc(1, sizeof(posts));
  if (!wire->state) abort();
}

static void end_http(mcp_wire *wire) { (void)wire; }

static void on_closed(uv_handle_t *handle) {
  exchange *self = IDEM_CONTAINER((mcp_pipe *)handle->data, exchange, pipe);
  free(self->body);
  free(self);
}

static void close_http(mcp_wire *wire) {
  for (exchange *at = posts_of(wire)->all; at; at = at->next) mcp_pipe_close(&at->pipe, on_closed);
  free(wire->state);
}

const mcp_link mcp_link_http = {.name = "http",
                                .prepare = prepare_http,
                                .open = open_http,
                                .send = send_post,
                                .end_input = end_http,
                                .close = close_http};
