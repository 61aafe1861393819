/* log.c - turns records into lines that nothing a peer sends can forge.
 * A line is made on the stack (redacted, cut, escaped, at most 4 KiB), then handed to the sink in
 * one call under a lock. Files and descriptors belong to the sink. See docs/internals/base.md. */
#include "base.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  LINE_MAX_BYTES = 4096,
  DETAIL_MAX = 2048,
  FIELD_MAX = 128, /* method, id and peer */
  MESSAGE_MAX = 512,
  TAIL_ROOM = 8, /* what closes a line: quote, brace, newline */
  SECRETS_MAX = 64,
  SECRET_LEAST = 4,
  SECRET_MOST = 1024,
  FORMATTED_MAX = DETAIL_MAX + SECRET_MOST + 1,
  SPINS = 64
};

/* Secrets are only ever added: a slot is filled before the count that makes it visible. */
struct idem_log {
  idem__log_head head; /* first: see idem__log_is_debug */
  idem_log_opts opts;
  idem_alloc alloc;
  idem__lock busy;
  atomic_size_t secret_count;
  idem_secret secrets[SECRETS_MAX];
  atomic_int written; /* the least level that is written */
  atomic_int
      watched; /* the least level that is shown to `watch`; head.level is the lesser of the two */
  idem_log_watch_fn watch;
  void *watch_user;
};

/* -------------------------------------------------------------- levels */

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};
static const char *const level_words[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
static const char *const level_colors[] = {"\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};

bool idem_log_level_parse(const char *text, size_t len, idem_log_level *level) {
  for (int i = IDEM_LOG_DEBUG; i < IDEM_LOG_OFF; i++) {
    if (!idem__text_equal_nocase(text, len, level_names[i], strlen(level_names[i]))) continue;
    *level = (idem_log_level)i;
    return true;
  }
  return false;
}

const char *idem_log_level_text(idem_log_level level) {
  return (unsigned)level <= IDEM_LOG_OFF ? level_names[level] : "unknown";
}

static int load(const atomic_int *level) {
  return atomic_load_explicit(level, memory_order_relaxed);
}

static void set_lesser(idem_log *log) {
  int written = load(&log->written), watched = load(&log->watched);
  atomic_store_explicit(&log->head.level, written < watched ? written : watched,
                        memory_order_relaxed);
}

void idem_log_set_level(idem_log *log, idem_log_level level) {
  if (!log) return;
  atomic_store_explicit(&log->written, (int)level, memory_order_relaxed);
  set_lesser(log);
}

idem_log_level idem_log_get_level(const idem_log *log) {
  return log ? (idem_log_level)load(&log->written) : IDEM_LOG_OFF;
}

bool idem_log_enabled(const idem_log *log, idem_log_level level) {
  return log && (unsigned)level < IDEM_LOG_OFF && (int)level >= load(&log->head.level);
}

/* ---------------------------------------------------------------- lock */

/* Held for the sink's one call only. */
static void lock(idem_log *log) { idem__lock_take(&log->busy); }
static void unlock(idem_log *log) { idem__lock_give(&log->busy); }

/* ----------------------------------------------------------- timestamp */

enum { DAYS_TO_1970 = 719468, DAYS_IN_ERA = 146097, YEARS_IN_ERA = 400 };

/* The Gregorian calendar repeats every 400 years; counted from March, the leap day comes last. */
static IDEM__EARLY idem_status put_timestamp(idem_buf *line, uint64_t wall_us) {
  uint64_t seconds = wall_us / 1000000, days = seconds / 86400 + DAYS_TO_1970;
  unsigned rest = (unsigned)(seconds % 86400), micros = (unsigned)(wall_us % 1000000);
  unsigned day_of_era = (unsigned)(days % DAYS_IN_ERA);
  unsigned year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  unsigned day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
  unsigned from_march = (5 * day_of_year + 2) / 153;
  unsigned day = day_of_year - (153 * from_march + 2) / 5 + 1;
  unsigned month = from_march < 10 ? from_march + 3 : from_march - 9;
  unsigned long long full_year =
      (unsigned long long)(days / DAYS_IN_ERA * YEARS_IN_ERA + year + (month <= 2 ? 1 : 0));
  return idem_buf_printf(line, "%04llu-%02u-%02uT%02u:%02u:%02u.%06uZ", full_year, month, day,
                         rest / 3600, rest / 60 % 60, rest % 60, micros);
}

static void put_time(const idem_log *log, idem_buf *line) {
  uint64_t now = log->opts.wall_us(log->opts.wall_ctx);
  unsigned of_day = (unsigned)(now / 1000000 % 86400);
  if (log->opts.brief_time)
    idem_buf_printf(line, "%02u:%02u:%02u", of_day / 3600, of_day / 60 % 60, of_day % 60);
  else
    put_timestamp(line, now);
  idem_buf_puts(line, " ");
}

/* -------------------------------------------------------------- fields */

/* A field of a record, ready to be written: secrets are gone from it, escapes are still to come. */
typedef struct field {
  char storage[DETAIL_MAX];
  size_t len;
  bool cut;
} field;

static IDEM__EARLY void prepare(const idem_log *log, field *out, const char *text, size_t len,
                                size_t max, bool everything) {
  idem_buf buf;
  idem_buf_fixed(&buf, out->storage, sizeof out->storage);
  size_t secrets = atomic_load_explicit(&log->secret_count, memory_order_acquire);
  idem_redact_cut(&buf, text, len, log->secrets, secrets, !everything);
  out->len = idem_utf8_cut(buf.data, buf.len, max);
  out->cut = out->len < buf.len || (buf.len == buf.max && len > buf.max);
}

typedef idem_status (*writer)(idem_buf *line, const field *f, size_t max);

/* Halves a field until it fits: escapes make hostile bytes up to six times as long, and the line
 * must still have room for its end. */
static void put_field(idem_buf *line, const field *f, writer write) {
  size_t before = line->len;
  line->max -= TAIL_ROOM;
  line->cap -= TAIL_ROOM;
  for (size_t max = DETAIL_MAX; max > 0; max /= 2) {
    if (write(line, f, max) == IDEM_OK) break;
    line->len = before;
  }
  line->max += TAIL_ROOM;
  line->cap += TAIL_ROOM;
}

/* ---------------------------------------------------------------- text */

static idem_status write_text(idem_buf *line, const field *f, size_t max) {
  idem_status status = idem_text_escape(line, f->storage, f->len, max);
  if (status == IDEM_OK && f->cut && f->len <= max) status = idem_buf_puts(line, "...");
  return status;
}

/* A word may stand bare; the token of a JSON string with nothing to escape in it looks quoted
 * already. Anything else could be mistaken for more fields. */
static bool stands_bare(const field *f) {
  bool quoted = f->len >= 2 && !f->cut && f->storage[0] == '"' && f->storage[f->len - 1] == '"';
  for (size_t i = quoted ? 1 : 0; i < f->len - (quoted ? 1 : 0); i++) {
    char c = f->storage[i];
    if (c == '"' || c == '\\' || (!quoted && (c == ' ' || c == '='))) return false;
  }
  return f->len > 0;
}

static idem_status write_quoted(idem_buf *line, const field *f, size_t max) {
  if (stands_bare(f)) return write_text(line, f, max);
  idem_status status = idem_buf_puts(line, "\"");
  size_t len = idem_utf8_cut(f->storage, f->len, max);
  for (size_t i = 0; i < len && status == IDEM_OK;) {
    size_t n = 0;
    while (i + n < len && f->storage[i + n] != '"') n++;
    status = idem_text_escape(line, f->storage + i, n, SIZE_MAX);
    i += n;
    if (status == IDEM_OK && i < len) status = idem_buf_puts(line, "\\\""), i++;
  }
  if (status != IDEM_OK) return status;
  return f->cut || len < f->len ? idem_buf_puts(line, "...\"") : idem_buf_puts(line, "\"");
}

static void put_text_field(idem_buf *line, const char *label, const field *f, writer write) {
  size_t before = line->len;
  idem_buf_put(line, label, strlen(label));
  size_t start = line->len;
  put_field(line, f, write);
  if (line->len == start) line->len = before;
}

static void make_text(idem_log *log, const idem_log_record *record, idem_buf *line) {
  field f;
  const char *color = log->opts.color ? level_colors[record->level] : "";
  if (log->opts.wall_us) put_time(log, line);
  idem_buf_printf(line, "%s%s%s ", color, level_words[record->level], *color ? "\x1b[0m" : "");
  prepare(log, &f, record->message, strlen(record->message), MESSAGE_MAX, false);
  put_field(line, &f, write_text);
  if (record->id) {
    prepare(log, &f, record->id, record->id_len, FIELD_MAX, true);
    put_text_field(line, " id=", &f, write_quoted);
  }
  if (record->method) {
    prepare(log, &f, record->method, record->method_len, FIELD_MAX, true);
    put_text_field(line, " method=", &f, write_quoted);
  }
  if (record->peer) {
    prepare(log, &f, record->peer, strlen(record->peer), FIELD_MAX, false);
    put_text_field(line, " peer=", &f, write_quoted);
  }
  if (record->detail) {
    prepare(log, &f, record->detail, record->detail_len, DETAIL_MAX, !record->plain);
    put_text_field(line, " detail=", &f, write_text);
  }
  idem_buf_puts(line, "\n");
}

/* ---------------------------------------------------------------- JSON */

static idem_status write_json(idem_buf *line, const field *f, size_t max) {
  size_t len = idem_utf8_cut(f->storage, f->len, max);
  idem_status status = idem_text_json_string(line, f->storage, len);
  if (status != IDEM_OK || (!f->cut && len == f->len)) return status;
  line->len--;
  return idem_buf_puts(line, "...\"");
}

static void put_member(const idem_log *log, idem_buf *line, const char *label, const char *text,
                       size_t len, size_t max, bool everything) {
  if (!text) return;
  field f;
  prepare(log, &f, text, len, max, everything);
  put_text_field(line, label, &f, write_json);
}

static void make_json(idem_log *log, const idem_log_record *record, idem_buf *line) {
  idem_buf_puts(line, "{");
  if (log->opts.wall_us) {
    idem_buf_puts(line, "\"timestamp\":\"");
    put_timestamp(line, log->opts.wall_us(log->opts.wall_ctx));
    idem_buf_puts(line, "\",");
  }
  idem_buf_printf(line, "\"severity\":\"%s\"", level_names[record->level]);
  const char *message = record->message, *peer = record->peer;
  put_member(log, line, ",\"message\":", message, strlen(message), MESSAGE_MAX, false);
  put_member(log, line, ",\"method\":", record->method, record->method_len, FIELD_MAX, true);
  put_member(log, line, ",\"id\":", record->id, record->id_len, FIELD_MAX, true);
  put_member(log, line, ",\"peer\":", peer, peer ? strlen(peer) : 0, FIELD_MAX, false);
  put_member(log, line, ",\"detail\":", record->detail, record->detail_len, DETAIL_MAX,
             !record->plain);
  idem_buf_puts(line, "}\n");
}

/* -------------------------------------------------------- entry points */

idem_status idem_log_new(const idem_log_opts *opts, idem_log **out) {
  *out = NULL;
  if (!opts || !opts->write || (unsigned)opts->level > IDEM_LOG_OFF) return IDEM_E_INVAL;
  idem_log *log = idem__calloc(opts->alloc, sizeof *log);
  if (!log) return IDEM_E_NOMEM;
  log->opts = *opts;
  log->alloc = idem__alloc_or_default(opts->alloc);
  atomic_init(&log->head.level, (int)opts->level);
  atomic_init(&log->written, (int)opts->level);
  atomic_init(&log->secret_count, 0);
  atomic_init(&log->watched, IDEM_LOG_OFF);
  idem__lock_init(&log->busy);
  *out = log;
  return IDEM_OK;
}

void idem_log_free(idem_log *log) {
  if (!log) return;
  idem_alloc alloc = log->alloc;
  size_t count = atomic_load_explicit(&log->secret_count, memory_order_acquire);
  for (size_t i = 0; i < count; i++) {
    memset(log->secrets[i].text, 0, log->secrets[i].len);
    idem__free(&alloc, log->secrets[i].text);
  }
  idem__free(&alloc, log);
}

void idem_log_watch(idem_log *log, idem_log_level level, idem_log_watch_fn fn, void *user) {
  if (!log) return;
  lock(log);
  log->watch = fn;
  log->watch_user = user;
  unlock(log);
  atomic_store_explicit(&log->watched, fn ? (int)level : IDEM_LOG_OFF, memory_order_relaxed);
  set_lesser(log);
}

/* A line of the same record in JSON, for who looks on. */
IDEM__COLD static void show(idem_log *log, const idem_log_record *record) {
  char storage[LINE_MAX_BYTES];
  idem_buf line;
  idem_buf_fixed(&line, storage, sizeof storage);
  make_json(log, record, &line);
  lock(log);
  if (log->watch) log->watch(record->level, line.data, line.len, log->watch_user);
  unlock(log);
}

static idem_status redact(const idem_log *log, idem_buf *out, const char *text, size_t len,
                          bool only_secrets) {
  idem_redaction rules = {.keep_paths = true, .only_secrets = only_secrets};
  if (log) {
    rules.secrets = log->secrets;
    rules.secret_count = atomic_load_explicit(&log->secret_count, memory_order_acquire);
  }
  return idem_redact_by(out, text, len, &rules);
}

idem_status idem_log_redact(const idem_log *log, idem_buf *out, const char *text, size_t len) {
  return redact(log, out, text, len, false);
}

idem_status idem_log_hide(const idem_log *log, idem_buf *out, const char *text, size_t len) {
  return redact(log, out, text, len, true);
}

static IDEM__EARLY void write_line(idem_log *log, const idem_log_record *record) {
  char storage[LINE_MAX_BYTES];
  idem_buf line;
  idem_buf_fixed(&line, storage, sizeof storage);
  if (log->opts.format == IDEM_LOG_JSON)
    make_json(log, record, &line);
  else
    make_text(log, record, &line);
  lock(log);
  log->opts.write(log->opts.write_ctx, line.data, line.len);
  unlock(log);
}

IDEM__EARLY void idem_log_write(idem_log *log, const idem_log_record *record) {
  if (!idem_log_enabled(log, record->level)) return;
  idem_log_record copy = *record;
  if (!copy.message) copy.message = "";
  if ((int)copy.level >= load(&log->written)) write_line(log, &copy);
  if ((int)copy.level >= load(&log->watched)) show(log, &copy);
}

/* More is formatted than is written, so that a secret at the cut is still seen whole. */
void idem_logf(idem_log *log, idem_log_level level, const char *message, const char *detail_format,
               ...) {
  if (!idem_log_enabled(log, level)) return;
  char detail[FORMATTED_MAX];
  va_list args;
  va_start(args, detail_format);
  int wanted = vsnprintf(detail, sizeof detail, detail_format, args);
  va_end(args);
  size_t len = wanted < 0 ? 0 : (size_t)wanted;
  if (len >= sizeof detail) len = sizeof detail - 1;
  idem_log_write(log, &(idem_log_record){
                          .level = level, .message = message, .detail = detail, .detail_len = len});
}

static bool knows_secret(const idem_log *log, size_t count, const char *secret, size_t len) {
  for (size_t i = 0; i < count; i++) {
    const idem_secret *known = &log->secrets[i];
    if (known->len == len && memcmp(known->text, secret, len) == 0) return true;
  }
  return false;
}

idem_status idem_log_add_secret(idem_log *log, const char *secret, size_t len) {
  if (!log || !secret || len < SECRET_LEAST) return IDEM_E_INVAL;
  if (len > SECRET_MOST) return IDEM_E_LIMIT;
  char *copy = idem__strndup(&log->alloc, secret, len);
  if (!copy) return IDEM_E_NOMEM;
  lock(log);
  size_t count = atomic_load_explicit(&log->secret_count, memory_order_relaxed);
  bool known = knows_secret(log, count, secret, len);
  bool room = !known && count < SECRETS_MAX;
  if (room) {
    log->secrets[count] = (idem_secret){.text = copy, .len = len};
    atomic_store_explicit(&log->secret_count, count + 1, memory_order_release);
  }
  unlock(log);
  if (!room) idem__free(&log->alloc, copy);
  return room || known ? IDEM_OK : IDEM_E_LIMIT;
}

/* ------------------------------------------------------- rate limiting */

enum { RECORDS_A_WINDOW = 10, WINDOW_MS = 1000 };

void idem_log_bucket_end(idem_log *log, idem_log_bucket *bucket) {
  uint64_t suppressed = bucket->suppressed;
  bucket->suppressed = 0;
  bucket->count = 0;
  if (suppressed == 0) return;
  idem_logf(log, bucket->level, "similar records suppressed", "%llu more: %s",
            (unsigned long long)suppressed, bucket->message);
}

void idem__log_limited(idem_log *log, const idem_log_record *record, idem_log_bucket *bucket,
                       uint64_t now_ms) {
  if (!idem_log_enabled(log, record->level)) return;
  if (bucket->count == 0 || now_ms < bucket->start_ms || now_ms - bucket->start_ms >= WINDOW_MS) {
    idem_log_bucket_end(log, bucket);
    bucket->start_ms = now_ms;
  }
  if (bucket->count < RECORDS_A_WINDOW) {
    bucket->count++;
    idem_log_write(log, record);
    return;
  }
  bucket->suppressed++;
  bucket->level = record->level;
  bucket->message = record->message ? record->message : "";
}
