/* record.c - see record.h. A message stands as it came where it is JSON on one line once its secrets are out; else it is
 * written anew, or stands as a string. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#define CUT_TO ((size_t)4096)

typedef unsigned long long wide;

/* Takes back what a line that does not fit has left. */
static idem_status whole(idem_buf *out, size_t before, idem_status status) {
  if (status != IDEM_OK) out->len = before;
  return status;
}

idem_status record_put_header(idem_buf *out, uint64_t wall_us) {
  return idem_buf_printf(out,
                         "{\"idem\":\"recording\",\"version\":1,\"by\":\"idem %s\",\"t\":%llu}\n",
                         idem_version(), (wide)wall_us);
}

/* ------------------------------------------------------------------------ messages */

static bool has_line_end(const char *text, size_t len) {
  return memchr(text, '\n', len) || memchr(text, '\r', len);
}

/* Numbers stay as they were written, also those that no double holds. */
static idem_status put_json(idem_buf *out, const char *text, size_t len, bool *is_json) {
  yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW);
  idem_status status = IDEM_OK;
  *is_json = doc != NULL;
  if (doc && has_line_end(text, len)) {
    size_t written = 0;
    char *compact = yyjson_write(doc, 0, &written);
    status = compact ? idem_buf_put(out, compact, written) : IDEM_E_NOMEM;
    free(compact);
  } else if (doc) {
    status = idem_buf_put(out, text, len);
  }
  yyjson_doc_free(doc);
  return status;
}

static idem_status put_body(idem_buf *out, const idem_traced *message, const idem_log *log,
                            idem_buf *scratch) {
  bool cut = message->len > RECORD_MESSAGE_MOST, is_json = false;
  size_t len = cut ? idem_utf8_cut(message->text, message->len, CUT_TO) : message->len;
  scratch->len = 0;
  idem_status status = idem_log_redact(log, scratch, message->text, len);
  if (status == IDEM_OK && !cut) status = put_json(out, scratch->data, scratch->len, &is_json);
  if (status == IDEM_OK && !is_json)
    status = idem_text_json_string(out, scratch->data, scratch->len);
  if (status == IDEM_OK && cut) status = idem_buf_puts(out, ",\"cut\":true");
  return status == IDEM_OK ? idem_buf_puts(out, "}\n") : status;
}

/* `>` is to the server, whichever side of the conn that is. */
idem_status record_put_message(idem_buf *out, uint64_t wall_us, const idem_traced *message,
                               const idem_log *log, idem_buf *scratch) {
  size_t before = out->len;
  bool to_server = (message->direction == IDEM_IN) == message->serves;
  const char *peer = message->peer ? message->peer : "";
  idem_status status = idem_buf_printf(
      out, "{\"t\":%llu,\"conn\":%llu,\"dir\":\"%c\",\"bytes\":%zu,\"peer\":", (wide)wall_us,
      (wide)message->conn, to_server ? '>' : '<', message->len);
  if (status == IDEM_OK) status = idem_text_json_string(out, peer, strlen(peer));
  if (status == IDEM_OK) status = idem_buf_puts(out, ",\"message\":");
  if (status == IDEM_OK) status = put_body(out, message, log, scratch);
  return whole(out, before, status);
}

/* -------------------------------------------------------------------------- others */

idem_status record_put_log(idem_buf *out, uint64_t wall_us, const char *line, size_t len) {
  size_t before = out->len;
  if (len && line[len - 1] == '\n') len--;
  idem_status status = idem_buf_printf(out, "{\"t\":%llu,\"log\":", (wide)wall_us);
  if (status == IDEM_OK) status = idem_buf_put(out, line, len);
  if (status == IDEM_OK) status = idem_buf_puts(out, "}\n");
  return whole(out, before, status);
}

idem_status record_put_sample(idem_buf *out, const sample *taken) {
  return idem_buf_printf(
      out,
      "{\"t\":%llu,\"metrics\":{\"seconds\":%u,\"requests\":%u,\"errors\":%u,\"p50\":%u,\"p95\":%u,"
      "\"p99\":%u,\"sessions\":%u,\"connections\":%u,\"processes\":%u,\"memory\":%llu}}\n",
      (wide)taken->wall_us, SAMPLE_SECONDS, taken->requests, taken->errors, taken->p50_us,
      taken->p95_us, taken->p99_us, taken->sessions, taken->connections, taken->processes,
      (wide)taken->memory);
}

idem_status record_put_lost(idem_buf *out, uint64_t wall_us, uint64_t count) {
  return idem_buf_printf(out, "{\"t\":%llu,\"lost\":%llu}\n", (wide)wall_us, (wide)count);
}
