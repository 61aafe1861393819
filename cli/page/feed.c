/* feed.c - see feed.h. Messages are recorded inside the engine and log lines on any thread, so both only leave bytes here;
 * once a turn of the loop they go to the readers. Who reads too slowly misses records, and is told how many. */
#include "feed.h"

#include "record.h"

#include <stdlib.h>
#include <string.h>

#define TOLD_BYTES ((size_t)256 * 1024)
#define HISTORY_BYTES ((size_t)64 * 1024)
#define PENDING_BYTES ((size_t)1024 * 1024)
#define SCRATCH_BYTES (RECORD_MESSAGE_MOST * 2)

struct feed_reader {
  feed_reader *next;
  feed *feed;
  idem_http_exchange *exchange;
  uint64_t lost;
};

/* ------------------------------------------------------------------------ recording */

static void wake(feed *self) { uv_async_send(&self->news); }

static void count_put(feed *self, idem_status status) {
  if (status == IDEM_OK)
    self->pending_count++;
  else
    self->lost++;
  wake(self);
}

static void on_message(const idem_traced *message, void *user) {
  feed *self = user;
  count_put(self, record_put_message(&self->pending, wall_clock_us(), message, self->log,
                                     &self->scratch));
}

static void on_sample(void *user, const sample *taken) {
  feed *self = user;
  if (self->readers) count_put(self, record_put_sample(&self->pending, taken));
}

/* On the thread that logs, with the log's lock held. */
static void on_line(idem_log_level level, const char *line, size_t len, void *user) {
  feed *self = user;
  (void)level;
  uv_mutex_lock(&self->lock);
  if (record_put_log(&self->told, wall_clock_us(), line, len) != IDEM_OK) self->untold++;
  uv_mutex_unlock(&self->lock);
  wake(self);
}

/* The older half goes when there is no room, at the end of a line. */
static void keep_history(feed *self, const char *lines, size_t len) {
  if (len > HISTORY_BYTES / 2) return;
  if (self->history.len + len > HISTORY_BYTES) {
    const char *middle = self->history.data + self->history.len / 2;
    const char *end = memchr(middle, '\n', self->history.len - self->history.len / 2);
    size_t gone = end ? (size_t)(end - self->history.data) + 1 : self->history.len;
    idem_buf_consume(&self->history, gone);
    self->forgotten += gone;
  }
  idem_buf_put(&self->history, lines, len);
}

static size_t count_lines(const char *text, size_t len) {
  size_t count = 0;
  for (size_t i = 0; i < len; i++) count += text[i] == '\n';
  return count;
}

static void take_told(feed *self) {
  uv_mutex_lock(&self->lock);
  if (self->told.len) {
    keep_history(self, self->told.data, self->told.len);
    size_t lines = count_lines(self->told.data, self->told.len);
    if (self->readers && idem_buf_put(&self->pending, self->told.data, self->told.len) == IDEM_OK)
      self->pending_count += lines;
    else if (self->readers)
      self->lost += lines;
  }
  self->lost += self->untold;
  self->untold = 0;
  self->told.len = 0;
  uv_mutex_unlock(&self->lock);
}

/* ------------------------------------------------------------------------- readers */

/* Only what was not written is to be told of. */
static void tell_lost(feed_reader *reader) {
  char storage[96];
  idem_buf line;
  if (!reader->lost) return;
  idem_buf_fixed(&line, storage, sizeof storage);
  record_put_lost(&line, wall_clock_us(), reader->lost);
  if (idem_http_stream_write(reader->exchange, line.data, line.len) == IDEM_OK) reader->lost = 0;
}

static void on_room(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  tell_lost(user);
}

static void send_to(feed *self, feed_reader *reader) {
  tell_lost(reader);
  if (reader->lost ||
      (self->pending.len &&
       idem_http_stream_write(reader->exchange, self->pending.data, self->pending.len) != IDEM_OK))
    reader->lost += self->pending_count;
  reader->lost += self->lost;
}

static void on_news(uv_async_t *async) {
  feed *self = async->data;
  take_told(self);
  for (feed_reader *reader = self->readers, *next; reader; reader = next) {
    next = reader->next;
    send_to(self, reader);
  }
  self->pending.len = self->pending_count = 0;
  self->lost = 0;
  idem_buf_trim(&self->pending, (size_t)64 * 1024);
}

/* Nobody looks: warnings alone are kept. */
static void look(feed *self) {
  bool seen = self->readers != NULL;
  idem_loop_trace(self->loop, seen ? on_message : NULL, self);
  idem_log_watch(self->log, seen ? IDEM_LOG_DEBUG : IDEM_LOG_WARN, on_line, self);
  if (seen) return;
  idem_buf_deinit(&self->pending);
  idem_buf_deinit(&self->scratch);
  idem_buf_init(&self->pending, NULL, PENDING_BYTES);
  idem_buf_init(&self->scratch, NULL, SCRATCH_BYTES);
  self->pending_count = 0;
}

static void leave(feed_reader *reader) {
  feed *self = reader->feed;
  feed_reader **at = &self->readers;
  while (*at != reader) at = &(*at)->next;
  *at = reader->next;
  free(reader);
  if (!self->readers) look(self);
}

static void on_gone(void *user) { leave(user); }

/* ------------------------------------------------------------------------- serving */

/* What there is already: the header, the last hour, the last warnings. */
static idem_status put_past(const feed *self, idem_buf *out) {
  idem_status status = record_put_header(out, wall_clock_us());
  for (size_t i = 0; status == IDEM_OK && i < samples_count(&self->samples); i++)
    status = record_put_sample(out, samples_at(&self->samples, i));
  return status == IDEM_OK && self->history.len
             ? idem_buf_put(out, self->history.data, self->history.len)
             : status;
}

static void refuse(idem_http_exchange *exchange) {
  idem_http_respond(exchange, &(idem_http_answer){.status = 503});
}

static void begin(feed *self, feed_reader *reader, const idem_buf *past) {
  static const char *const headers[] = {"X-Accel-Buffering: no", NULL};
  *reader = (feed_reader){.next = self->readers, .feed = self, .exchange = reader->exchange};
  self->readers = reader;
  idem_http_exchange *exchange = reader->exchange;
  idem_http_answer head = {.status = 200, .type = "application/jsonl", .headers = headers};
  if (idem_http_stream_begin(exchange, &head) != IDEM_OK) {
    leave(reader);
    return;
  }
  if (idem_http_stream_write(exchange, past->data, past->len) != IDEM_OK) reader->lost++;
  if (!reader->next) look(self);
}

void feed_serve(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  feed *self = user;
  idem_buf past;
  (void)request;
  idem_buf_init(&past, NULL, (size_t)256 * 1024);
  feed_reader *reader = calloc(1, sizeof *reader);
  if (reader) reader->exchange = exchange;
  idem_http_keep_opts keep = {.on_gone = on_gone, .on_room = on_room, .user = reader};
  take_told(self);
  if (!reader || put_past(self, &past) != IDEM_OK || idem_http_keep(exchange, &keep) != IDEM_OK) {
    free(reader);
    refuse(exchange);
  } else {
    begin(self, reader, &past);
  }
  idem_buf_deinit(&past);
}

/* -------------------------------------------------------------------------- faults */

size_t feed_mark(feed *self) {
  take_told(self);
  return self->forgotten + self->history.len;
}

static bool is_fault(yyjson_val *log) {
  yyjson_val *level = yyjson_obj_get(log, "severity");
  return yyjson_equals_str(level, "error") || yyjson_equals_str(level, "warn");
}

static void put_fault(idem_buf *out, const char *line, size_t len) {
  yyjson_doc *doc = yyjson_read(line, len, 0);
  yyjson_val *log = yyjson_obj_get(yyjson_doc_get_root(doc), "log");
  yyjson_val *detail = yyjson_obj_get(log, "detail");
  yyjson_val *text = detail ? detail : yyjson_obj_get(log, "message");
  if (text && is_fault(log)) {
    if (out->len) idem_buf_puts(out, ",");
    idem_text_json_string(out, yyjson_get_str(text), yyjson_get_len(text));
  }
  yyjson_doc_free(doc);
}

void feed_put_since(feed *self, size_t mark, idem_buf *out) {
  take_told(self);
  size_t from = mark > self->forgotten ? mark - self->forgotten : 0;
  while (from < self->history.len) {
    const char *line = self->history.data + from;
    const char *end = memchr(line, '\n', self->history.len - from);
    size_t len = end ? (size_t)(end - line) : self->history.len - from;
    put_fault(out, line, len);
    from += len + 1;
  }
}

/* -------------------------------------------------------------------- beginning, end */

void feed_init(feed *self, idem_log *log, const program_host *programs) {
  *self = (feed){.log = log};
  if (uv_mutex_init(&self->lock) != 0) memory_exhausted();
  idem_buf_init(&self->told, NULL, TOLD_BYTES);
  idem_buf_init(&self->history, NULL, HISTORY_BYTES);
  idem_buf_init(&self->pending, NULL, PENDING_BYTES);
  idem_buf_init(&self->scratch, NULL, SCRATCH_BYTES);
  samples_init(&self->samples, programs, on_sample, self);
}

void feed_on_loop(feed *self, uv_loop_t *loop) {
  self->loop = loop;
  uv_async_init(loop, &self->news, on_news);
  uv_unref((uv_handle_t *)&self->news);
  self->news.data = self;
  samples_start(&self->samples, loop);
  idem_log_watch(self->log, IDEM_LOG_WARN, on_line, self);
}

void feed_deinit(feed *self) {
  idem_log_watch(self->log, IDEM_LOG_OFF, NULL, NULL);
  while (self->readers) {
    feed_reader *first = self->readers;
    self->readers = first->next;
    free(first);
  }
  samples_deinit(&self->samples);
  uv_mutex_destroy(&self->lock);
  idem_buf_deinit(&self->told);
  idem_buf_deinit(&self->history);
  idem_buf_deinit(&self->pending);
  idem_buf_deinit(&self->scratch);
}
