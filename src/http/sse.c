/* sse.c - event streams: writing events of any text, and reading them at any split.
 * A line end inside data (CR, LF or CRLF) becomes a new data line, so no text can end an event
 * early or start a field of its own. See docs/internals/http.md. */
#include "http.h"

#include <string.h>

/* ----------------------------------------------------------------- writing */

static idem_status put_field(idem_buf *out, const char *name, const char *value, size_t len) {
  idem_status status = idem_buf_put(out, name, strlen(name));
  if (status == IDEM_OK) status = idem_buf_put(out, value, len);
  return status == IDEM_OK ? idem_buf_puts(out, "\n") : status;
}

static size_t line_length(const char *data, size_t len) {
  size_t at = 0;
  while (at < len && data[at] != '\r' && data[at] != '\n') at++;
  return at;
}

static idem_status put_data(idem_buf *out, const char *data, size_t len) {
  for (;;) {
    size_t line = line_length(data, len);
    idem_status status = put_field(out, "data: ", data, line);
    if (status != IDEM_OK || line == len) return status;
    size_t skip = line + (data[line] == '\r' && line + 1 < len && data[line + 1] == '\n' ? 2 : 1);
    data += skip;
    len -= skip;
  }
}

/* Names and ids are ours; one that holds a line end is not sent at all. */
static bool one_line(const char *text) {
  return text && line_length(text, strlen(text)) == strlen(text);
}

idem_status idem__sse_put_event(idem_buf *out, const char *event, const char *id, const char *data,
                                size_t len) {
  size_t before = out->len;
  idem_status status = IDEM_OK;
  if (one_line(event)) status = put_field(out, "event: ", event, strlen(event));
  if (status == IDEM_OK && one_line(id)) status = put_field(out, "id: ", id, strlen(id));
  if (status == IDEM_OK) status = put_data(out, data, len);
  if (status == IDEM_OK) status = idem_buf_puts(out, "\n");
  if (status != IDEM_OK) out->len = before;
  return status;
}

/* ----------------------------------------------------------------- reading */

void idem__sse_parser_init(idem__sse_parser *parser, const idem_alloc *alloc, size_t max,
                           void (*on_event)(void *user, const idem__sse_event *event), void *user) {
  *parser = (idem__sse_parser){.max = max, .on_event = on_event, .user = user};
  idem_buf_init(&parser->line, alloc, max);
  idem_buf_init(&parser->data, alloc, max);
  idem_buf_init(&parser->event, alloc, max);
  idem_buf_init(&parser->id, alloc, max);
  idem_buf_init(&parser->last_id, alloc, max);
}

void idem__sse_parser_deinit(idem__sse_parser *parser) {
  idem_buf_deinit(&parser->line);
  idem_buf_deinit(&parser->data);
  idem_buf_deinit(&parser->event);
  idem_buf_deinit(&parser->id);
  idem_buf_deinit(&parser->last_id);
}

static idem_status replace(idem_buf *buf, idem__view value) {
  buf->len = 0;
  return idem_buf_put(buf, value.at, value.len);
}

static void set_retry(idem__sse_parser *parser, idem__view value) {
  uint64_t number = 0;
  if (!value.len || value.len > 15) return;
  for (size_t i = 0; i < value.len; i++) {
    if (value.at[i] < '0' || value.at[i] > '9') return;
    number = number * 10 + (uint64_t)(value.at[i] - '0');
  }
  parser->retry_ms = number;
}

static idem_status add_data(idem__sse_parser *parser, idem__view value) {
  idem_status status = IDEM_OK;
  if (parser->has_data) status = idem_buf_puts(&parser->data, "\n");
  parser->has_data = true;
  return status == IDEM_OK ? idem_buf_put(&parser->data, value.at, value.len) : status;
}

static idem_status field(idem__sse_parser *parser, idem__view name, idem__view value) {
  if (name.len == 4 && memcmp(name.at, "data", 4) == 0) return add_data(parser, value);
  if (name.len == 5 && memcmp(name.at, "event", 5) == 0) return replace(&parser->event, value);
  if (name.len == 5 && memcmp(name.at, "retry", 5) == 0) set_retry(parser, value);
  if (name.len == 2 && memcmp(name.at, "id", 2) == 0 &&
      !(value.len && memchr(value.at, 0, value.len)))
    return replace(&parser->id, value);
  return IDEM_OK;
}

/* An empty line: the event is complete. */
static idem_status end_event(idem__sse_parser *parser) {
  idem_status status = replace(&parser->last_id, (idem__view){parser->id.data, parser->id.len});
  if (status == IDEM_OK && parser->has_data) {
    idem__sse_event event = {
        .event = parser->event.len ? (idem__view){parser->event.data, parser->event.len}
                                   : IDEM__VIEW("message"),
        .data = {parser->data.len ? parser->data.data : "", parser->data.len},
        .id = {parser->last_id.len ? parser->last_id.data : "", parser->last_id.len}};
    parser->on_event(parser->user, &event);
  }
  parser->data.len = parser->event.len = 0;
  parser->has_data = false;
  return status;
}

static idem_status end_line(idem__sse_parser *parser, idem__view line) {
  if (!line.len) return end_event(parser);
  const char *colon = memchr(line.at, ':', line.len);
  size_t name = colon ? (size_t)(colon - line.at) : line.len;
  idem__view value = {line.at + name, 0};
  if (colon) {
    value = (idem__view){colon + 1, line.len - name - 1};
    if (value.len && value.at[0] == ' ') value.at++, value.len--;
  }
  return name ? field(parser, (idem__view){line.at, name}, value) : IDEM_OK; /* or a comment */
}

/* A line that lies whole in the input is read where it is. */
static idem_status take_line(idem__sse_parser *parser, const char *data, size_t len) {
  if (!parser->line.len) return end_line(parser, (idem__view){data, len});
  idem_status status = idem_buf_put(&parser->line, data, len);
  if (status == IDEM_OK)
    status = end_line(parser, (idem__view){parser->line.data, parser->line.len});
  parser->line.len = 0;
  return status;
}

/* Drops a byte order mark, which may come in pieces; what only began like one is kept. */
static idem_status skip_mark(idem__sse_parser *parser, const char **data, size_t *len) {
  static const char mark[3] = {'\xef', '\xbb', '\xbf'};
  while (parser->bom < 3 && *len) {
    if (**data != mark[parser->bom]) {
      idem_status status = idem_buf_put(&parser->line, mark, parser->bom);
      parser->bom = 3;
      return status;
    }
    parser->bom++;
    ++*data;
    --*len;
  }
  return IDEM_OK;
}

static idem_status feed(idem__sse_parser *parser, const char *data, size_t len) {
  idem_status status = skip_mark(parser, &data, &len);
  while (status == IDEM_OK && len) {
    if (parser->after_cr && *data == '\n') {
      parser->after_cr = false;
      data++, len--;
      continue;
    }
    parser->after_cr = false;
    size_t line = line_length(data, len);
    if (line == len) return idem_buf_put(&parser->line, data, len);
    status = take_line(parser, data, line);
    parser->after_cr = data[line] == '\r';
    data += line + 1;
    len -= line + 1;
  }
  return status;
}

idem_status idem__sse_parser_feed(idem__sse_parser *parser, const char *data, size_t len) {
  if (parser->failed) return IDEM_E_LIMIT;
  idem_status status = feed(parser, data, len);
  parser->failed = status != IDEM_OK;
  return status;
}

void idem__sse_parser_restart(idem__sse_parser *parser) {
  parser->line.len = parser->data.len = parser->event.len = 0;
  parser->id.len = 0;
  if (parser->last_id.len)
    replace(&parser->id, (idem__view){parser->last_id.data, parser->last_id.len});
  parser->has_data = parser->after_cr = parser->failed = false;
  parser->bom = 0;
}
