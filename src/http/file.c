/* file.c - a file in memory as a route: its ETag is asked for, its encoding is taken or is not.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

/* A weak tag names the same file: nobody asks for a part of it. */
static idem__view strong(idem__view tag) {
  if (tag.len > 2 && memcmp(tag.at, "W/", 2) == 0) tag.at += 2, tag.len -= 2;
  return tag;
}

static bool is_known(const idem_http_request *request, const char *etag) {
  idem__view list = idem__http_header_value(request, "if-none-match"), tag;
  size_t len = strlen(etag);
  while (idem__view_next(&list, &tag)) {
    tag = strong(tag);
    if (idem__view_eq(tag, "*") || (tag.len == len && memcmp(tag.at, etag, len) == 0)) return true;
  }
  return false;
}

static void refuse_encoding(idem_http_exchange *exchange, const idem_http_file *file) {
  idem__http_refusal refusal = {.status = 406, .reason = "unavailable", .hint = "Accept-Encoding:"};
  size_t len = strlen(file->encoding);
  if (len >= sizeof refusal.hint_value) len = sizeof refusal.hint_value - 1;
  memcpy(refusal.hint_value, file->encoding, len);
  idem__http_refuse(exchange, &refusal, NULL);
}

/* "Name: value" into memory that was made; one that is too long becomes a header that is none. */
static const char *header(char *line, size_t size, const char *name, const char *value) {
  idem_buf out;
  idem_buf_fixed(&out, line, size - 1);
  line[0] = 0;
  if (idem_buf_printf(&out, "%s: %s", name, value) == IDEM_OK) line[out.len] = 0;
  return line;
}

static void send_file(idem_http_exchange *exchange, const idem_http_file *file, bool encoded) {
  char tag[160], encoding[64];
  const char *headers[4] = {NULL};
  size_t count = 0;
  bool plain = file->encoding && !encoded;
  if (file->etag) headers[count++] = header(tag, sizeof tag, "ETag", file->etag);
  if (encoded)
    headers[count++] = header(encoding, sizeof encoding, "Content-Encoding", file->encoding);
  if (file->encoding) headers[count] = "Vary: Accept-Encoding";
  idem_http_respond(exchange, &(idem_http_answer){.status = 200,
                                                  .type = file->type,
                                                  .headers = headers,
                                                  .body = plain ? file->plain : file->body,
                                                  .len = plain ? file->plain_len : file->len,
                                                  .lasts = true});
}

static void send_not_modified(idem_http_exchange *exchange, const idem_http_file *file) {
  char tag[160];
  const char *headers[3] = {header(tag, sizeof tag, "ETag", file->etag)};
  if (file->encoding) headers[1] = "Vary: Accept-Encoding";
  idem_http_respond(exchange, &(idem_http_answer){.status = 304, .headers = headers});
}

void idem_http_serve_file(idem_http_exchange *exchange, const idem_http_request *request,
                          void *user) {
  const idem_http_file *file = user;
  bool encoded = file->encoding && idem__http_accepts_encoding(request, file->encoding);
  if (file->etag && is_known(request, file->etag))
    send_not_modified(exchange, file);
  else if (file->encoding && !encoded && !file->plain)
    refuse_encoding(exchange, file);
  else
    send_file(exchange, file, encoded);
}
