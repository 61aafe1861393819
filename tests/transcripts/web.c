/* web.c - HTTP and WebSocket, spoken by hand and independently of src/http, so that a fault there
 * cannot hide itself here. */
#include "web.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool step_fits(const step *one, bool websocket) {
  switch (one->kind) {
  case STEP_SEND_RAW:
  case STEP_EOF:
  case STEP_CLOSED: return false;
  /* A WebSocket ends when a text is not UTF-8; it is never seen as a message. */
  case STEP_SEND: return !websocket || idem_utf8_valid(one->text, one->len);
  default: return true;
  }
}

bool web_can_carry(const scenario *scene, bool websocket) {
  if (scene->profile != IDEM_PROFILE_JSONRPC || scene->sockets_only) return false;
  for (size_t i = 0; i < scene->step_count; i++) {
    if (!step_fits(&scene->steps[i], websocket)) return false;
  }
  return true;
}

/* ----------------------------------------------------------------------- HTTP */

static char *join(const char *head, size_t head_len, const char *text, size_t len) {
  char *all = malloc(head_len + len + 1);
  if (!all) abort();
  memcpy(all, head, head_len);
  memcpy(all + head_len, text, len);
  return all;
}

char *web_post(const step *one, size_t *len) {
  char head[160];
  int head_len = snprintf(head, sizeof head,
                          "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          one->len);
  *len = (size_t)head_len + one->len;
  return join(head, (size_t)head_len, one->text, one->len);
}

bool web_find_answer(const char *data, size_t len, web_answer *out) {
  const char *end = len ? memmem(data, len, "\r\n\r\n", 4) : NULL;
  if (!end || strncmp(data, "HTTP/1.1 ", 9) != 0) return false;
  size_t head = (size_t)(end - data) + 4;
  const char *length = memmem(data, head, "\r\nContent-Length: ", 18);
  out->status = atoi(data + 9);
  out->start = head;
  out->len = length ? strtoul(length + 18, NULL, 10) : 0;
  out->used = head + out->len;
  return out->used <= len;
}

int web_status_of(const char *body, size_t len) {
  static const char *const refused[] = {"\"error\":{\"code\":-32700,",
                                        "\"error\":{\"code\":-32600,"};
  if (!len) return 204;
  for (size_t i = 0; body[0] == '{' && i < 2; i++) {
    if (memmem(body, len, refused[i], strlen(refused[i]))) return 400;
  }
  return 200;
}

/* ------------------------------------------------------------------ WebSocket */

const char web_socket_hello[] =
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

static size_t put_length(unsigned char *head, size_t len) {
  if (len < 126) {
    head[1] = (unsigned char)len;
    return 2;
  }
  size_t bytes = len < 65536 ? 2 : 8;
  head[1] = bytes == 2 ? 126 : 127;
  for (size_t i = 0; i < bytes; i++) head[1 + bytes - i] = (unsigned char)(len >> (8 * i));
  return 2 + bytes;
}

char *web_frame(int kind, const char *text, size_t text_len, size_t *len) {
  static const unsigned char mask[4] = {0x37, 0xfa, 0x21, 0x3d};
  unsigned char head[14] = {(unsigned char)(0x80 | kind)};
  size_t head_len = put_length(head, text_len);
  head[1] |= 0x80;
  memcpy(head + head_len, mask, sizeof mask);
  head_len += sizeof mask;
  char *all = join((const char *)head, head_len, text, text_len);
  for (size_t i = 0; i < text_len; i++) all[head_len + i] = (char)(all[head_len + i] ^ mask[i % 4]);
  *len = head_len + text_len;
  return all;
}

bool web_find_frame(const char *data, size_t len, web_frame_seen *out) {
  const unsigned char *at = (const unsigned char *)data;
  if (len < 2) return false;
  size_t bytes = at[1] == 126 ? 2 : at[1] == 127 ? 8 : 0;
  if (len < 2 + bytes) return false;
  size_t body = bytes ? 0 : at[1];
  for (size_t i = 0; i < bytes; i++) body = body << 8 | at[2 + i];
  out->kind = at[0] & 0x0f;
  out->start = 2 + bytes;
  out->len = body;
  out->used = out->start + body;
  return out->used <= len;
}
