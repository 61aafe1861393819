/* http_answer.c - what comes back to a post, into its conn, and each call ended once.
 * Whatever a server does (drops the connection, ends a stream early, answers with another id, says
 * 503), the call of the post ends: by an answer, or by an error that says what happened.
 * See docs/internals/http.md. */
#include "http_post.h"

#include <stdio.h>
#include <string.h>

#define LASTED_MS                                                                                  \
  30000 /* a standing stream that was there so long was of use, though it said nothing */
#define SHOWN_BYTES 256 /* of the body of an HTTP error */
#define CUT_SHORT "the event stream ended without an answer"

/* ------------------------------------------------------------------- the answer */

static bool is_type(const char *type, const char *wanted) {
  size_t len = type ? strcspn(type, "; \t") : 0;
  return len && idem__text_equal_nocase(type, len, wanted, strlen(wanted));
}

bool idem__http_post_pending(const idem__http_post *post) {
  return post->call && idem__call_pending(post->client->opts.conn, post->call);
}

static void on_event(void *user, const idem__sse_event *event) {
  idem__http_post *post = user;
  const idem__http_client *client = post->client;
  bool message = idem__view_eq(event->event, "message");
  post->tries = 0;
  if (!message && post->kind == POST_STREAM && idem__http_hooks_of(client)->event)
    idem__http_hooks_of(client)->event(client->opts.hooks_user, event);
  if (!idem__view_eq(event->event, "message") || !event->data.len) return;
  idem_status status =
      idem__conn_message(post->client->opts.conn, event->data.at, event->data.len, NULL);
  if (status != IDEM_OK) post->broken = status;
}

static void begin_stream(idem__http_post *post) {
  idem__http_client *client = post->client;
  if (post->parsing) return;
  size_t max = idem_conn_policy(client->opts.conn)->limits.message_bytes;
  idem__sse_parser_init(&post->parser, &client->alloc, max, on_event, post);
  post->parsing = true;
}

static void forget_message(idem__http_post *post) {
  if (post->chunk.owner) idem_chunk_free(&post->chunk);
  post->chunk = (idem_chunk){0};
}

static bool succeeded(int http_status) { return http_status >= 200 && http_status <= 299; }

bool idem__http_post_head(idem__http_post *post, const idem__http_outcome *head) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
  idem__http_outcome told = *head;
  told.resumes = post->resumed;
  if (hooks->head) hooks->head(client->opts.hooks_user, idem__http_post_what(post), &told);
  post->streaming = head->http_status == 200 && is_type(head->type, "text/event-stream");
  if (succeeded(head->http_status)) forget_message(post);
  if (post->streaming) begin_stream(post);
  if (post->streaming) post->opened = true;
  return post->streaming;
}

bool idem__http_post_data(idem__http_post *post, const char *data, size_t len) {
  const idem__http_client_opts *opts = &post->client->opts;
  idem_status status = idem__sse_parser_feed(&post->parser, data, len);
  if (status != IDEM_OK) post->broken = status;
  if (post->broken != IDEM_OK) return false;
  if (!post->held && !idem_conn_want_read(opts->conn)) {
    post->held = true;
    opts->hold(opts->user, post->handle, true);
  }
  return true;
}

/* ------------------------------------------------------------------ HTTP errors */

#define LONGEST_S 999999 /* as many digits as are read of a number */

/* Days since 1970, of the calendar that has no end; a year begins in March there, so that a leap day is its last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
  int64_t since = month > 2 ? year : year - 1, from_march = month > 2 ? month - 3 : month + 9;
  return since * 365 + since / 4 - since / 100 + since / 400 + (153 * from_march + 2) / 5 + day -
         719469;
}

/* -1: something else stands there. */
static int64_t number_at(const char *text, size_t at, size_t digits) {
  int64_t number = 0;
  for (size_t i = at; i < at + digits; i++) {
    if (text[i] < '0' || text[i] > '9') return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", the one form that may be sent (RFC 9110, 5.6.7); -1: another. */
static int64_t date_seconds(const char *text) {
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  int64_t month = 0;
  if (!text || strlen(text) != 29 || strcmp(text + 25, " GMT") != 0) return -1;
  int64_t day = number_at(text, 5, 2), year = number_at(text, 12, 4);
  int64_t hour = number_at(text, 17, 2), minute = number_at(text, 20, 2);
  int64_t second = number_at(text, 23, 2);
  while (month < 12 && strncmp(months + month * 3, text + 8, 3) != 0) month++;
  if (month == 12 || year < 1970 || day < 1 || hour < 0 || minute < 0 || second < 0) return -1;
  return days_of(year, month + 1, day) * 86400 + hour * 3600 + minute * 60 + second;
}

/* By the server's own clock, whatever ours says. */
static long until_date(const idem__http_outcome *outcome) {
  const char *now = outcome->header ? outcome->header(outcome->answer, "Date", 0) : NULL;
  int64_t from = date_seconds(now), to = date_seconds(outcome->retry_after);
  if (from < 0 || to < 0) return -1;
  int64_t left = to > from ? to - from : 0;
  return left > LONGEST_S ? LONGEST_S : (long)left;
}

long idem__http_retry_seconds(const idem__http_outcome *outcome) {
  const char *text = outcome->retry_after;
  long seconds = 0;
  size_t len = text ? strlen(text) : 0;
  if (!len) return -1;
  if (len > 6 || strspn(text, "0123456789") != len) return until_date(outcome);
  for (size_t i = 0; i < len; i++) seconds = seconds * 10 + (text[i] - '0');
  return seconds;
}

static idem_status put_http_error(idem_buf *out, uint64_t call, const idem__http_outcome *outcome) {
  const char *words = idem__http_reason(outcome->http_status);
  char number[16];
  snprintf(number, sizeof number, "%d", outcome->http_status);
  long seconds = idem__http_retry_seconds(outcome);
  size_t shown = idem_utf8_cut(outcome->body ? outcome->body : "", outcome->len, SHOWN_BYTES);
  idem_status status = idem_buf_printf(
      out,
      "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"error\":{\"code\":%d,\"message\":\"HTTP %s\","
      "\"data\":{\"status\":%d",
      (unsigned long long)call, IDEM_RPC_SERVER_ERROR, words ? words : number,
      outcome->http_status);
  if (status == IDEM_OK && seconds >= 0)
    status = idem_buf_printf(out, ",\"retryAfter\":%ld", seconds);
  if (status == IDEM_OK && shown) {
    status = idem_buf_puts(out, ",\"body\":");
    if (status == IDEM_OK) status = idem_text_json_string(out, outcome->body, shown);
  }
  return status == IDEM_OK ? idem_buf_puts(out, "}}}") : status;
}

/* A JSON-RPC error in the body is the server's own word; it is this call's even where the server
 * could not read the id. */
static idem_status put_own_error(idem_buf *out, uint64_t call, const idem__http_outcome *outcome) {
  yyjson_alc alc = idem__json_alc(out->alloc);
  yyjson_doc *doc = is_type(outcome->type, "application/json")
                        ? yyjson_read_opts((char *)(uintptr_t)outcome->body, outcome->len,
                                           YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL)
                        : NULL;
  yyjson_val *error = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
  idem_status status = IDEM_E_NOTFOUND;
  if (yyjson_is_obj(error) && yyjson_is_num(yyjson_obj_get(error, "code"))) {
    status = idem_buf_printf(
        out, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"error\":", (unsigned long long)call);
    if (status == IDEM_OK) status = idem__json_put_any(out, error);
    if (status == IDEM_OK) status = idem_buf_puts(out, "}");
  }
  yyjson_doc_free(doc);
  return status;
}

void idem__http_post_fail_http(idem__http_post *post, const idem__http_outcome *outcome) {
  idem__http_client *client = post->client;
  const char *words = idem__http_reason(outcome->http_status);
  if (!post->call) {
    idem__http_post_fail(post, IDEM_E_REMOTE, words ? words : "an HTTP error");
    return;
  }
  idem_buf text;
  idem_buf_init(&text, &client->alloc, idem_conn_policy(client->opts.conn)->limits.message_bytes);
  idem_status status = put_own_error(&text, post->call, outcome);
  if (status != IDEM_OK) {
    text.len = 0;
    status = put_http_error(&text, post->call, outcome);
  }
  if (status == IDEM_OK) (void)idem__conn_message(client->opts.conn, text.data, text.len, NULL);
  idem_buf_deinit(&text);
  /* Whatever went wrong on the way, the call has not ended yet. */
  if (idem__http_post_pending(post))
    idem__http_post_fail(post, IDEM_E_PROTO, words ? words : "an HTTP error");
}

/* --------------------------------------------------------------------- the end */

static void take_json(idem__http_post *post, const idem__http_outcome *outcome) {
  if (!outcome->len) {
    if (post->call)
      idem__http_post_fail(post, IDEM_E_PROTO, "the server answered without an answer");
    return;
  }
  if (!is_type(outcome->type, "application/json")) {
    if (post->call)
      idem__http_post_fail(post, IDEM_E_PROTO, "the answer is neither JSON nor an event stream");
    return;
  }
  idem__conn_message(post->client->opts.conn, outcome->body, outcome->len, NULL);
  if (idem__http_post_pending(post))
    idem__http_post_fail(post, IDEM_E_PROTO, "the answer is not to this call");
}

static void fail_stream(idem__http_post *post, const idem__http_outcome *outcome) {
  if (post->broken == IDEM_E_LIMIT)
    idem__http_post_fail(post, IDEM_E_LIMIT, "an event is too large");
  else if (post->broken != IDEM_OK)
    idem__http_post_fail(post, post->broken, idem_status_text(post->broken));
  else if (outcome->status == IDEM_E_SYS) /* for the rest; its message was sent before */
    idem__http_post_fail(post, IDEM_E_CLOSED, outcome->why);
  else if (outcome->status != IDEM_OK)
    idem__http_post_fail(post, outcome->status, outcome->why);
  else /* in order or not: what was sent may have been carried out */
    idem__http_post_fail(post, IDEM_E_CLOSED, CUT_SHORT);
}

static bool has_json(const idem__http_outcome *outcome) {
  return succeeded(outcome->http_status) && outcome->len &&
         is_type(outcome->type, "application/json");
}

/* What a server says of a GET it does not say of the call, which it has taken: nobody knows what became of that. */
static void fail_resumed(idem__http_post *post, const idem__http_outcome *outcome) {
  const char *words = idem__http_reason(outcome->http_status);
  char why[128];
  if (words)
    snprintf(why, sizeof why, CUT_SHORT ", and is not taken up again: HTTP %s", words);
  else
    snprintf(why, sizeof why, CUT_SHORT ", and is not taken up again: HTTP %d",
             outcome->http_status);
  idem__http_post_fail(post, IDEM_E_CLOSED, why);
}

/* Whoever knows better may have it sent again, now or later. True: the post goes on. */
static bool refused(idem__http_post *post, const idem__http_outcome *outcome) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
  if (!hooks->refused || outcome->status != IDEM_OK || outcome->http_status < 400 ||
      post->kind != POST_MESSAGE || !post->chunk.owner)
    return false;
  post->parked = true;
  post->refusals++;
  idem__http_verdict verdict =
      hooks->refused(client->opts.hooks_user, post, idem__http_post_what(post), outcome);
  if (verdict == IDEM__HTTP_WAIT) return true;
  post->parked = false;
  return verdict == IDEM__HTTP_AGAIN && idem__http_post_send(post);
}

/* The standing stream is opened again while somebody wants it. */
static bool conclude_stream(idem__http_post *post, const idem__http_outcome *outcome,
                            uint64_t now_ms) {
  idem__http_client *client = post->client;
  const idem__http_hooks *hooks = idem__http_hooks_of(client);
  bool lost = outcome->status != IDEM_OK || outcome->http_status >= 500 || post->streaming;
  if (post->streaming && now_ms - post->at_ms >= LASTED_MS) post->tries = 0;
  if (lost && post->broken == IDEM_OK && idem__http_post_resumable(post) && !client->needs_stream) {
    begin_stream(post);
    idem__http_post_rest(post, now_ms);
    return true;
  }
  if (hooks->stream_lost) hooks->stream_lost(client->opts.hooks_user, outcome);
  return false;
}

/* True: the post goes on with another request. */
static bool conclude(idem__http_post *post, const idem__http_outcome *outcome, uint64_t now_ms) {
  if (post->call && !idem__http_post_pending(post)) return false;
  if (post->kind == POST_GOODBYE) return false;
  if (post->kind == POST_STREAM) return conclude_stream(post, outcome, now_ms);
  if (refused(post, outcome)) return true;
  bool lost = outcome->status != IDEM_OK || outcome->http_status >= 500;
  if (post->streaming || (post->resumed && lost)) {
    if (post->broken == IDEM_OK && post->call && idem__http_post_resumable(post)) {
      idem__http_post_rest(post, now_ms);
      return true;
    }
    if (post->streaming || outcome->status != IDEM_OK) {
      if (post->call) fail_stream(post, outcome);
      return false;
    }
  }
  if (outcome->status != IDEM_OK)
    idem__http_post_fail(post, outcome->status, outcome->why);
  else if (post->resumed && !has_json(outcome))
    fail_resumed(post, outcome);
  else if (!succeeded(outcome->http_status))
    idem__http_post_fail_http(post, outcome);
  else if (!post->client->elsewhere)
    take_json(post, outcome);
  return false;
}

void idem__http_post_end(idem__http_post *post, const idem__http_outcome *outcome,
                         uint64_t now_ms) {
  post->asking = post->held = false;
  post->handle = NULL;
  if (!conclude(post, outcome, now_ms)) idem__http_post_close(post);
}
