/* access_log.c - one line a request, if wanted: who, what, the status, how much, how long; and a line for
 * who is refused, whether wanted or not, but not too many.
 * Method and path are the peer's words: they go through the log's escaping and redaction, what is no
 * plain word of a path is left out, and a query is never written. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define GONE 499 /* as nginx says it */
#define LINE_MAX 160
#define SEGMENT_MAX 32
#define REFUSALS_A_SECOND 10

/* --------------------------------------------------------------------- paths */

static bool lower(char c) { return c >= 'a' && c <= 'z'; }
static bool upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

static size_t span(idem__view text, size_t from, bool (*kind)(char c)) {
  size_t at = from;
  while (at < text.len && kind(text.at[at])) at++;
  return at - from;
}

/* "tools", "Tools", "TOOLS", "v2", "2026". */
static bool is_word(idem__view piece) {
  size_t big = span(piece, 0, upper), small = span(piece, big, lower);
  size_t digits = span(piece, big + small, digit);
  if (big + small + digits < piece.len || (big > 1 && small)) return false;
  if (!big && !small) return digits <= 4;
  return digits <= 2 && !(digits && big);
}

/* Words joined by dots and dashes. Whatever else people put into a path may be a key of theirs. */
static bool is_plain(idem__view segment) {
  if (segment.len > SEGMENT_MAX) return false;
  for (size_t from = 0, at = 0; at <= segment.len; at++) {
    bool ends = at == segment.len || strchr("-_.", segment.at[at]);
    if (!ends) continue;
    if (!is_word((idem__view){segment.at + from, at - from})) return false;
    from = at + 1;
  }
  return true;
}

static void put_path(idem_buf *line, idem__view path) {
  for (size_t from = 0, at = 0; at <= path.len; at++) {
    if (at < path.len && path.at[at] != '/') continue;
    idem__view segment = {path.at + from, at - from};
    if (!is_plain(segment)) segment = IDEM__VIEW("[redacted]");
    if (line->len + segment.len > LINE_MAX - 8) segment = IDEM__VIEW("..."), at = path.len;
    idem_buf_put(line, segment.at, segment.len);
    if (at < path.len) idem_buf_put(line, "/", 1);
    from = at + 1;
  }
}

void idem__http_log_begin(idem_http_exchange *exchange, idem_http_request *request) {
  idem_http_conn *conn = exchange->conn;
  char text[LINE_MAX];
  idem_buf line;
  idem_buf_fixed(&line, text, sizeof text);
  const char *method = llhttp_method_name((llhttp_method_t)llhttp_get_method(&conn->parser));
  idem_buf_printf(&line, "%s ", method);
  if (idem__http_split_target(request))
    put_path(&line, request->path);
  else
    idem_buf_puts(&line, "-");
  exchange->log_line = idem__strndup(&conn->server->alloc, text, line.len);
}

/* ------------------------------------------------------------------ messages */

/* What a log line shows of these is cut at 128 bytes in any case. */
#define WORD_MAX 128
struct idem__http_logged {
  size_t method_len, id_len;
  char method[WORD_MAX], id[WORD_MAX];
  char subject[WORD_MAX + 20]; /* " tool=NAME"; "": none */
};

static size_t copy_word(char *out, const char *text, size_t len) {
  size_t cut = text ? idem_utf8_cut(text, len, WORD_MAX) : 0;
  if (cut) memcpy(out, text, cut);
  return cut;
}

static const idem__http_subject *find_subject(const idem__http_subject *rows,
                                              const idem__message *message) {
  for (; rows && rows->method; rows++) {
    if (strlen(rows->method) == message->method_len &&
        memcmp(rows->method, message->method, message->method_len) == 0)
      return rows;
  }
  return NULL;
}

/* As one word, so that it cannot pass for more of the line. What is secret in it is known for that only as it came. */
#define SUBJECT_READ 512
static void put_subject(struct idem__http_logged *logged, const idem_log *log,
                        const idem__http_subject *subject, const idem__message *message) {
  yyjson_val *name = yyjson_obj_get(message->params, subject->member);
  char storage[4 * SUBJECT_READ];
  idem_buf out, shown;
  idem_buf_fixed(&out, logged->subject, sizeof logged->subject - 1);
  if (!yyjson_is_str(name)) return;
  size_t len = idem_utf8_cut(yyjson_get_str(name), yyjson_get_len(name), SUBJECT_READ);
  idem_buf_fixed(&shown, storage, sizeof storage);
  if (idem_log_redact(log, &shown, yyjson_get_str(name), len) != IDEM_OK) return;
  idem_buf_printf(&out, " %s=", subject->label);
  idem_text_word(&out, shown.data, shown.len, WORD_MAX);
}

void idem__http_log_message(idem_http_exchange *exchange, const idem__message *message,
                            const idem__http_subject *subjects) {
  if (!exchange->log_line || exchange->logged) return;
  struct idem__http_logged *logged = idem__calloc(&exchange->conn->server->alloc, sizeof *logged);
  exchange->logged = logged;
  if (!logged) return;
  logged->method_len = copy_word(logged->method, message->method, message->method_len);
  logged->id_len = copy_word(logged->id, message->id.raw, message->id.raw_len);
  const idem__http_subject *subject = message->method ? find_subject(subjects, message) : NULL;
  if (subject) put_subject(logged, exchange->conn->server->log, subject, message);
}

void idem__http_log_words(idem_http_exchange *exchange, const idem_message *message) {
  if (exchange->logged) return;
  struct idem__http_logged *logged = idem__calloc(&exchange->conn->server->alloc, sizeof *logged);
  exchange->logged = logged;
  if (!logged) return;
  logged->method_len = copy_word(logged->method, message->method, message->method_len);
  logged->id_len = copy_word(logged->id, message->id, message->id_len);
}

/* ------------------------------------------------------------------- a line */

/* Behind a trusted proxy both are named: who asked, and who passed it on. */
static void put_peer(const idem_http_exchange *exchange, idem_buf *out) {
  static const idem__ip unknown; /* its head could not be read */
  const idem_http_conn *conn = exchange->conn;
  char client[IDEM__IP_TEXT];
  if (memcmp(&exchange->client, &conn->from, sizeof conn->from) == 0 ||
      memcmp(&exchange->client, &unknown, sizeof unknown) == 0) {
    idem_buf_printf(out, "%s", conn->peer);
    return;
  }
  idem__ip_text(&exchange->client, client);
  idem_buf_printf(out, "%s for %s", conn->peer, client);
}

/* A late answer is given outside the driver's calls, who alone says what time it is. */
static uint64_t now_ms(const idem_http_conn *conn) {
  const idem_http_server *server = conn->server;
  uint64_t now = server->now_ns ? server->now_ns(server->clock_ctx) / 1000000 : conn->now_ms;
  return now < conn->now_ms ? conn->now_ms : now;
}

/* With whose request it was. */
static void write_line(const idem_http_exchange *exchange, idem_log_level level,
                       const char *message, const idem_buf *line) {
  char peer[PEER_MAX + IDEM__IP_TEXT + 8];
  idem_buf who;
  idem_buf_fixed(&who, peer, sizeof peer - 1);
  put_peer(exchange, &who);
  peer[who.len] = 0;
  idem_log_record record = {.level = level,
                            .message = message,
                            .peer = peer,
                            .detail = line->data,
                            .detail_len = line->len};
  if (exchange->logged && exchange->logged->method_len) {
    record.method = exchange->logged->method;
    record.method_len = exchange->logged->method_len;
  }
  if (exchange->logged && exchange->logged->id_len) {
    record.id = exchange->logged->id;
    record.id_len = exchange->logged->id_len;
  }
  idem_log_write(exchange->conn->server->log, &record);
}

/* Who asked, and what else the operator wants to see of their token: words that nothing in them can end. */
#define CALLER_MAX (16 + 3 * IDEM_PRINCIPAL_MAX + 1024)
static void put_caller(const idem_http_exchange *exchange, idem_buf *line) {
  const char *who = exchange->principal;
  const char *logged = exchange->grant ? exchange->grant->logged : NULL;
  if (who && *who) {
    idem_buf_puts(line, " principal=");
    idem_text_word(line, who, strlen(who), SIZE_MAX);
  }
  if (logged) idem_buf_put(line, logged, strlen(logged));
}

void idem__http_log_access(const idem_http_exchange *exchange, size_t bytes) {
  const idem_http_conn *conn = exchange->conn;
  if (!exchange->log_line) return;
  char text[LINE_MAX + 96 + WORD_MAX + 20 + CALLER_MAX];
  idem_buf line;
  idem_buf_fixed(&line, text, sizeof text);
  idem_buf_printf(&line, "%s %u %zu bytes %llu ms%s", exchange->log_line,
                  (unsigned)exchange->status, bytes,
                  (unsigned long long)(now_ms(conn) - exchange->began_ms),
                  exchange->logged ? exchange->logged->subject : "");
  put_caller(exchange, &line);
  if (exchange->note) idem_buf_printf(&line, " %s", exchange->note);
  write_line(exchange, IDEM_LOG_INFO, "request", &line);
}

void idem__http_log_gone(idem_http_exchange *exchange) {
  if (!exchange->status) exchange->status = GONE;
  exchange->note = "client-gone";
  idem__http_log_access(exchange, 0);
}

/* ---------------------------------------------------------------- refusals */

/* Who floods us is not to flood the log as well. `missed`: so many had no line since the last one. */
static bool may_tell(idem_http_server *server, uint64_t now_ms, size_t *missed) {
  if (now_ms - server->told_ms >= 1000) {
    server->told_ms = now_ms;
    server->told = 0;
  }
  if (server->told == REFUSALS_A_SECOND) {
    server->untold++;
    return false;
  }
  *missed = server->untold;
  server->untold = 0;
  server->told++;
  return true;
}

/* What is not there is asked for by many clients to find out what is; who has a cause to be told did more. A method or version of
 * HTTP that we have not is the client's fault. */
static idem_log_level level_of(const idem__http_refusal *refusal) {
  bool foreign = refusal->status == 501 || refusal->status == 505;
  if (refusal->status >= 500 && !foreign) return IDEM_LOG_ERROR;
  bool looks = refusal->status >= 404 && refusal->status <= 406 && !refusal->cause;
  return looks || refusal->looked ? IDEM_LOG_DEBUG : IDEM_LOG_WARN;
}

/* What the peer is told without a reason is not always its fault. */
static const char *words_for(const idem__http_refusal *refusal) {
  if (refusal->why) return refusal->why;
  if (refusal->reason) return refusal->reason;
  return refusal->code == IDEM_RPC_PARSE_ERROR ? "not HTTP" : "refused";
}

void idem__http_log_refusal(const idem_http_exchange *exchange, const idem__http_refusal *refusal) {
  idem_http_conn *conn = exchange->conn;
  idem_log *log = conn->server->log;
  idem_log_level level = level_of(refusal);
  size_t missed;
  if (refusal->told || !idem_log_enabled(log, level) ||
      !may_tell(conn->server, conn->now_ms, &missed))
    return;
  char text[LINE_MAX + 96 + CALLER_MAX];
  idem_buf line;
  idem_buf_fixed(&line, text, sizeof text);
  idem_buf_printf(&line, "%u %s", (unsigned)refusal->status, words_for(refusal));
  if (refusal->hint)
    idem_buf_printf(&line, "; %s%s%s", refusal->hint, *refusal->hint_value ? " " : "",
                    refusal->hint_value);
  idem_buf_printf(&line, ", %llu bytes", (unsigned long long)exchange->bytes);
  if (exchange->principal && *exchange->principal) idem_buf_puts(&line, ",");
  put_caller(exchange, &line);
  if (missed) idem_buf_printf(&line, "; %zu more before", missed);
  write_line(exchange, level, refusal->what ? refusal->what : "a request was refused", &line);
}
