/* bench_answer.c - see bench_answer.h. No more is looked at than a measurement needs. */
#include "bench_answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yyjson.h>

const char *http_answer_header(const char *head, size_t len, const char *name) {
  size_t name_len = strlen(name);
  for (const char *line = memchr(head, '\n', len); line;
       line = memchr(line, '\n', len - (size_t)(line - head))) {
    line++;
    if (len - (size_t)(line - head) <= name_len) return NULL;
    if (line[name_len] != ':' || strncasecmp(line, name, name_len) != 0) continue;
    line += name_len + 1;
    while (*line == ' ' || *line == '\t') line++;
    return line;
  }
  return NULL;
}

/* The end of a chunked body; NULL: it is not there yet. */
static const char *chunks_end(const char *at, const char *end, bool *broken) {
  for (;;) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    char *digits;
    if (!line) return NULL;
    unsigned long long size = strtoull(at, &digits, 16);
    *broken = digits == at || size > ANSWER_BYTES;
    if (*broken) return NULL;
    at = line + 1;
    if ((unsigned long long)(end - at) < size + 2) return NULL;
    at += size + 2;
    if (!size) return at;
  }
}

static void find_body(http_answer *self, const char *head, size_t head_len, const char *end) {
  const char *length = http_answer_header(head, head_len, "content-length");
  const char *type = http_answer_header(head, head_len, "content-type");
  const char *body = head + head_len;
  self->events = type && strncasecmp(type, "text/event-stream", 17) == 0;
  self->body = body;
  if (length) {
    self->body_len = strtoull(length, NULL, 10);
    self->broken = self->body_len > ANSWER_BYTES;
    self->whole = !self->broken && (size_t)(end - body) >= self->body_len;
  } else if (http_answer_header(head, head_len, "transfer-encoding")) {
    const char *last = chunks_end(body, end, &self->broken);
    self->whole = last != NULL;
    self->chunked = true;
    if (last) self->body_len = (size_t)(last - body);
  } else {
    self->whole = self->status == 202 || self->status == 204;
    self->broken = !self->whole;
  }
}

http_answer http_answer_read(const char *data, size_t len) {
  http_answer made = {.whole = false};
  const char *blank = memmem(data, len, "\r\n\r\n", 4);
  if (!blank) {
    made.broken = len > BENCH_READ_BYTES || (len >= 7 && memcmp(data, "HTTP/1.", 7) != 0);
    return made;
  }
  size_t head_len = (size_t)(blank - data) + 4;
  made.status = len > 12 ? (int)strtol(data + 9, NULL, 10) : 0;
  const char *connection = http_answer_header(data, head_len, "connection");
  made.closes = connection && strncasecmp(connection, "close", 5) == 0;
  find_body(&made, data, head_len, data + len);
  return made;
}

/* --------------------------------------------------------------------------- judging */

/* Takes the sizes of its chunks out of a whole body, in place. */
static void unchunk(http_answer *answer) {
  char *into = (char *)answer->body, *from = into;
  for (;;) {
    size_t size = strtoull(from, &from, 16);
    from = strchr(from, '\n') + 1;
    if (!size) break;
    memmove(into, from, size);
    into += size;
    from += size + 2;
  }
  answer->body_len = (size_t)(into - answer->body);
}

/* The last event's data. */
static bool last_event(const http_answer *answer, const char **json, size_t *len) {
  const char *at = answer->body, *end = at + answer->body_len;
  *json = NULL;
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    size_t size = line ? (size_t)(line - at) : (size_t)(end - at);
    if (size > 5 && memcmp(at, "data:", 5) == 0) *json = at + 5, *len = size - 5;
    at += size + 1;
  }
  return *json != NULL;
}

static void judge_json(bench_tally *tally, const char *json, size_t len) {
  yyjson_doc *doc = yyjson_read(json, len, 0);
  yyjson_val *root = yyjson_doc_get_root(doc);
  yyjson_val *result = yyjson_obj_get(root, "result"), *error = yyjson_obj_get(root, "error");
  if (error) {
    tally->refused++;
    const char *message = yyjson_get_str(yyjson_obj_get(error, "message"));
    bench_fault(tally, "%s", message ? message : "an error without a message");
  } else if (!result) {
    tally->lost++;
    bench_fault(tally, "an answer that is none of JSON-RPC");
  } else if (yyjson_is_true(yyjson_obj_get(result, "isError"))) {
    tally->failed++;
    yyjson_val *block = yyjson_arr_get_first(yyjson_obj_get(result, "content"));
    const char *words = yyjson_get_str(yyjson_obj_get(block, "text"));
    bench_fault(tally, "%s", words ? words : "isError");
  }
  yyjson_doc_free(doc);
}

void http_answer_judge(http_answer *answer, bench_tally *tally) {
  if (answer->chunked) unchunk(answer);
  const char *json = answer->body;
  size_t len = answer->body_len;
  tally->answered++;
  if (answer->status >= 300 && (!len || *json != '{')) {
    tally->lost++;
    bench_fault(tally, "HTTP %d", answer->status);
  } else if (answer->events && !last_event(answer, &json, &len)) {
    tally->lost++;
    bench_fault(tally, "an event stream without an answer");
  } else {
    judge_json(tally, json, len);
  }
}
