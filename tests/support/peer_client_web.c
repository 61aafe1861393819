/* peer_client_web.c - the client of transcripts over HTTP, without I/O: a request is a message such as
 * "POST | Mcp-Method: tools/call | {...}", counted from 1; what the server does begins with that number: a status, headers and a
 * body ("3 200 | Mcp-Session-Id: s | {...}"), "3 stream", "3 event id: 7 | data: {...}", "3 end", "3 cut", "3 nobody". */
#include "peer.h"

#include "mcp_http/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASKS 512
#define HEADERS 8

typedef struct web_ask {
  idem__http_post *post;
  unsigned number;
  bool live, streaming;
} web_ask;

struct client_web {
  peer *p;
  idem_mcp_client *client;
  idem__mcp_web *web;
  idem__http_client *http;
  idem_policy policy;
  web_ask asks[ASKS];
  unsigned count;
  char *line; /* of the server's, not yet whole */
  size_t len;
};

/* An answer's parts, lent by the line. */
typedef struct answer {
  const char *names[HEADERS], *values[HEADERS];
  size_t count;
  char *body;
} answer;

/* ------------------------------------------------------------------ what goes out */

static void put(char **text, size_t *len, const char *more) {
  size_t add = strlen(more);
  *text = realloc(*text, *len + add + 1);
  if (!*text) abort();
  memcpy(*text + *len, more, add + 1);
  *len += add;
}

static idem_status send_ask(void *user, idem__http_post *post, const idem__http_ask *ask,
                            void **handle) {
  client_web *self = user;
  char *text = NULL;
  size_t len = 0;
  if (self->count == ASKS) abort();
  put(&text, &len, ask->method);
  if (ask->url) put(&text, &len, " "), put(&text, &len, ask->url);
  if (ask->last_event_id)
    put(&text, &len, " | Last-Event-ID: "), put(&text, &len, ask->last_event_id);
  const char *each = ask->lines ? ask->lines : "", *end = each + ask->lines_len;
  for (; each < end; each += strlen(each) + 1) put(&text, &len, " | "), put(&text, &len, each);
  if (ask->body) {
    char *body = strndup(ask->body, ask->len);
    put(&text, &len, " | "), put(&text, &len, body);
    free(body);
  }
  web_ask *one = &self->asks[self->count++];
  *one = (web_ask){.post = post, .number = self->count, .live = true};
  *handle = one;
  peer_send(self->p, text, len);
  free(text);
  return IDEM_OK;
}

/* Our side has gone away. */
static void cancel_ask(void *user, void *handle) {
  client_web *self = user;
  web_ask *one = handle;
  char text[32];
  if (!one->live) abort();
  one->live = false;
  int len = snprintf(text, sizeof text, "cut %u", one->number);
  peer_send(self->p, text, (size_t)len);
}

static void hold_ask(void *user, void *handle, bool held) { (void)user, (void)handle, (void)held; }

/* ------------------------------------------------------------------- what comes in */

static const char *header_of(const void *of, const char *name, size_t index) {
  const answer *self = of;
  for (size_t i = 0; i < self->count; i++) {
    if (strcasecmp(self->names[i], name) == 0 && index-- == 0) return self->values[i];
  }
  return NULL;
}

/* "Name: value | Name: value | body"; a body begins with a brace, or has no colon. */
static void read_answer(answer *self, char *text) {
  *self = (answer){.body = NULL};
  while (text && *text) {
    char *next = *text == '{' || *text == '[' ? NULL : strstr(text, " | ");
    if (next) *next = 0, next += 3;
    char *colon = strstr(text, ": ");
    if (*text == '{' || *text == '[' || !colon || self->count == HEADERS) {
      self->body = text;
      return;
    }
    *colon = 0;
    self->names[self->count] = text;
    self->values[self->count++] = colon + 2;
    text = next;
  }
}

static uint64_t now_of(const client_web *self) { return self->p->now_ms; }

static void end_ask(client_web *self, web_ask *one, idem__http_outcome *outcome) {
  one->live = false;
  idem__http_post_end(one->post, outcome, now_of(self));
}

static void answer_ask(client_web *self, web_ask *one, int status, char *rest) {
  answer said;
  read_answer(&said, rest);
  const char *body = said.body ? said.body : "";
  const char *type = header_of(&said, "Content-Type", 0);
  if (!type && *body) type = *body == '{' || *body == '[' ? "application/json" : "text/plain";
  idem__http_outcome outcome = {.http_status = status,
                                .type = type,
                                .retry_after = header_of(&said, "Retry-After", 0),
                                .body = body,
                                .len = strlen(body),
                                .header = header_of,
                                .answer = &said};
  idem__http_outcome head = outcome;
  head.body = "";
  head.len = 0;
  if (idem__http_post_head(one->post, &head) && *body) {
    (void)idem__http_post_data(one->post, body, strlen(body));
    outcome.body = "";
    outcome.len = 0;
  }
  if (one->live) end_ask(self, one, &outcome);
}

static void begin_stream(web_ask *one, char *rest) {
  answer said;
  read_answer(&said, rest);
  one->streaming = idem__http_post_head(
      one->post,
      &(idem__http_outcome){
          .http_status = 200, .type = "text/event-stream", .header = header_of, .answer = &said});
}

/* Seven bytes at a time, so that no piece is a whole line. */
static void send_event(client_web *self, web_ask *one, const char *fields) {
  char *text = NULL;
  size_t len = 0;
  for (const char *at = fields; *at; at++) {
    if (strncmp(at, " | ", 3) == 0) {
      put(&text, &len, "\n");
      at += 2;
    } else {
      put(&text, &len, (char[]){*at, 0});
    }
  }
  put(&text, &len, "\n\n");
  for (size_t at = 0; one->live && at < len; at += 7) {
    size_t piece = len - at < 7 ? len - at : 7;
    if (!idem__http_post_data(one->post, text + at, piece) && one->live)
      end_ask(self, one,
              &(idem__http_outcome){
                  .status = IDEM_E_CANCELLED, .why = "of no use", .http_status = 200});
  }
  free(text);
}

static void hear(client_web *self, char *line) {
  char *rest, word[16] = "";
  int at = 0;
  unsigned long number = strtoul(line, &rest, 10);
  web_ask *one = number && number <= self->count ? &self->asks[number - 1] : NULL;
  if (!one || !one->live)
    return; /* without memory, what was to be answered may not have been asked */
  sscanf(rest, " %15s %n", word, &at);
  rest += at;
  if (strncmp(rest, "| ", 2) == 0) rest += 2;
  if (strcmp(word, "stream") == 0)
    begin_stream(one, rest);
  else if (strcmp(word, "event") == 0)
    send_event(self, one, rest);
  else if (strcmp(word, "end") == 0)
    end_ask(self, one, &(idem__http_outcome){.http_status = 200, .type = "text/event-stream"});
  else if (strcmp(word, "cut") == 0)
    end_ask(self, one,
            &(idem__http_outcome){.status = IDEM_E_CLOSED,
                                  .why = "cut off",
                                  .http_status = one->streaming ? 200 : 0});
  else if (strcmp(word, "silent") == 0)
    end_ask(self, one, &(idem__http_outcome){.status = IDEM_E_TIMEOUT, .why = "nothing came"});
  else if (strcmp(word, "nobody") == 0)
    end_ask(self, one, &(idem__http_outcome){.status = IDEM_E_SYS, .why = "nobody is there"});
  else
    answer_ask(self, one, (int)strtol(word, NULL, 10), rest);
}

void peer_web_feed(peer *p, const char *data, size_t len) {
  client_web *self = p->web;
  for (; len; data++, len--) {
    if (*data != '\n') {
      self->line = realloc(self->line, self->len + 2);
      if (!self->line) abort();
      self->line[self->len++] = *data;
      self->line[self->len] = 0;
      continue;
    }
    if (self->len) hear(self, self->line);
    self->len = 0;
    peer_web_pump(p);
  }
}

/* -------------------------------------------------------------------- the turns */

void peer_web_pump(peer *p) {
  client_web *self = p->web;
  if (self && self->http && !p->freed) idem__http_client_pump(self->http, p->now_ms);
}

uint64_t peer_web_deadline(const peer *p) {
  return p->web && p->web->http ? idem__http_client_deadline(p->web->http) : UINT64_MAX;
}

/* --------------------------------------------------------------------- the life */

static void settled(void *user, const idem__revision *revision) {
  idem__mcp_web_settled(((client_web *)user)->web, revision);
}
static bool fall_back(void *user) { return idem__mcp_web_fall_back(((client_web *)user)->web); }
static void session(void *user, bool there) {
  idem__mcp_web_session(((client_web *)user)->web, there);
}
static const idem__mcp_link web_link = {
    .http = true, .settled = settled, .fall_back = fall_back, .session = session};

idem_status peer_open_web(peer *p, idem_mcp_client *client, const idem_alloc *alloc,
                          idem_conn_opts *conn) {
  client_web *self = p->web = calloc(1, sizeof *self);
  if (!self) abort();
  self->p = p;
  self->client = client;
  self->policy = client->policy;
  self->policy.framing = IDEM_FRAMING_WHOLE;
  idem_status status = idem__mcp_web_new(client, "http://h.example/mcp", alloc, &self->web);
  if (status != IDEM_OK) return status;
  idem__mcp_client_set_link(client, &web_link, self);
  conn->router = client->router;
  conn->policy = &self->policy;
  status = idem_conn_new(conn, &p->conn);
  if (status != IDEM_OK) return status;
  idem__http_client_opts opts = {.conn = p->conn,
                                 .alloc = alloc,
                                 .send = send_ask,
                                 .cancel = cancel_ask,
                                 .hold = hold_ask,
                                 .user = self,
                                 .hooks = &idem__mcp_web_hooks,
                                 .hooks_user = self->web};
  status = idem__http_client_new(&opts, &self->http);
  if (status == IDEM_OK) idem__mcp_client_bind(client, p->conn);
  return status;
}

void peer_web_leave(peer *p) {
  client_web *self = p->web;
  if (!self) return;
  if (self->web) idem__mcp_web_leave(self->web);
  idem__http_client_free(self->http);
  self->http = NULL;
}

void peer_web_free(peer *p) {
  client_web *self = p->web;
  if (!self) return;
  idem__mcp_web_free(self->web);
  free(self->line);
  free(self);
  p->web = NULL;
}
