/* http.c - HTTP as a client that believes nothing: heads, lengths and chunks must be right to the byte. */
#include "attack.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_request(text *into, const char *method, const char *path, const char *headers,
                  const char *body) {
  text_printf(into, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
  if (body)
    text_printf(into, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
  text_add(into, "\r\n", 2);
  if (body) text_add(into, body, strlen(body));
}

/* --------------------------------------------------------------------------- heads */

static bool header(const char *head, const char *name, char *value, size_t size) {
  size_t len = strlen(name);
  for (const char *at = strstr(head, "\r\n"); at; at = strstr(at, "\r\n")) {
    at += 2;
    if (strncasecmp(at, name, len) != 0 || at[len] != ':') continue;
    at += len + 1;
    while (*at == ' ') at++;
    snprintf(value, size, "%.*s", (int)strcspn(at, "\r"), at);
    return true;
  }
  return false;
}

static void read_head(exchange *self, const char *head) {
  char value[256];
  attacker *owner = self->wire->owner;
  if (strncmp(head, "HTTP/1.1 ", 9) != 0 || !isdigit((unsigned char)head[9]))
    attack_found(owner, "not an HTTP answer: %.200s", head);
  self->status = atoi(head + 9);
  self->closing = header(head, "Connection", value, sizeof value) && !strcasecmp(value, "close");
  self->events =
      header(head, "Content-Type", value, sizeof value) && !strcmp(value, "text/event-stream");
  self->chunked = header(head, "Transfer-Encoding", value, sizeof value);
  self->left = header(head, "Content-Length", value, sizeof value) ? atol(value) : 0;
  header(head, "Mcp-Session-Id", self->session, sizeof self->session);
  if (self->chunked && self->left) attack_found(owner, "a length and chunks: %.400s", head);
  self->ended = !self->chunked && !self->left;
}

bool http_begin(exchange *self, wire *from) {
  for (;;) {
    *self = (exchange){.wire = from};
    const char *end;
    while (!from->got.data || !(end = strstr(from->got.data, "\r\n\r\n")))
      if (!wire_more(from)) {
        if (from->got.len) attack_found(from->owner, "half an answer: %.200s", from->got.data);
        return false;
      }
    size_t len = (size_t)(end - from->got.data) + 4;
    from->got.data[len - 3] = 0; /* the last header keeps its CR */
    read_head(self, from->got.data);
    text_cut(&from->got, len);
    if (self->status != 100) return true;
  }
}

/* -------------------------------------------------------------------------- bodies */

static void cut_short(exchange *self) {
  if (self->closing && self->events) {
    self->ended = true;
    return;
  }
  attack_found(self->wire->owner, "an answer was cut short (status %d)", self->status);
}

static bool more_plain(exchange *self) {
  text *got = &self->wire->got;
  if (!got->len && !wire_more(self->wire)) return cut_short(self), false;
  size_t len = got->len < (size_t)self->left ? got->len : (size_t)self->left;
  text_add(&self->body, got->data, len);
  text_cut(got, len);
  self->left -= (long)len;
  self->ended = !self->left;
  return true;
}

static bool more_chunk(exchange *self) {
  text *got = &self->wire->got;
  const char *line;
  while (!got->data || !(line = strstr(got->data, "\r\n")))
    if (!wire_more(self->wire)) return cut_short(self), false;
  char *end;
  size_t size = strtoul(got->data, &end, 16), skip = (size_t)(line - got->data) + 2;
  if (end != line) attack_found(self->wire->owner, "not a chunk: %.100s", got->data);
  while (got->len < skip + size + 2)
    if (!wire_more(self->wire)) return cut_short(self), false;
  text_add(&self->body, got->data + skip, size);
  if (memcmp(got->data + skip + size, "\r\n", 2) != 0)
    attack_found(self->wire->owner, "a chunk without its end");
  text_cut(got, skip + size + 2);
  self->ended = size == 0;
  return true;
}

static bool more_body(exchange *self) {
  if (self->ended) return false;
  return self->chunked ? more_chunk(self) : more_plain(self);
}

/* ------------------------------------------------------------------------- messages */

/* One event: its data, if it has any, is the message. */
static bool take_event(exchange *self, char *event) {
  self->message.len = 0;
  for (char *line = event, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (strncmp(line, "id: ", 4) == 0)
      snprintf(self->last_id, sizeof self->last_id, "%s", line + 4);
    if (strncmp(line, "data: ", 6) == 0) text_add(&self->message, line + 6, strlen(line + 6));
  }
  return self->message.len > 0;
}

static const char *next_event(exchange *self) {
  for (;;) {
    char *end = self->body.data ? strstr(self->body.data, "\n\n") : NULL;
    if (end) {
      size_t len = (size_t)(end - self->body.data) + 2;
      *end = 0;
      bool message = take_event(self, self->body.data);
      text_cut(&self->body, len);
      if (message) return self->message.data;
    } else if (!more_body(self)) {
      return NULL;
    }
  }
}

const char *http_message(exchange *self) {
  if (self->events) return next_event(self);
  while (more_body(self)) continue;
  if (!self->body.len) return NULL;
  self->message.len = 0;
  text_add(&self->message, self->body.data, self->body.len);
  self->body.len = 0;
  return self->message.data;
}

void http_finish(exchange *self) {
  while (more_body(self)) self->body.len = 0;
}

void http_free(exchange *self) {
  text_free(&self->body);
  text_free(&self->message);
}

int http_once(attacker *self, uint16_t port, const text *request, text *answer) {
  wire line = wire_tcp(self, port);
  exchange reply;
  if (!wire_send_whole(&line, request->data, request->len) || !http_begin(&reply, &line))
    attack_found(self, "no answer to %.60s", request->data);
  while (more_body(&reply)) continue;
  if (answer) text_add(answer, reply.body.data ? reply.body.data : "", reply.body.len);
  int status = reply.status;
  http_free(&reply);
  wire_end(&line, CLOSE_IT);
  return status;
}
