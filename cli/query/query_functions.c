/* query_functions.c - see query_functions.h. SQLite asks its progress handler between the steps of a
 * statement, and a call of a function is one step. These ask the session's limit themselves, or take
 * no longer than their operands are long. */
#include "query_functions.h"

#include "pattern.h"

#include <string.h>

#define STEPS_BETWEEN_LOOKS 4096u
#define PATCH_WORK ((uint64_t)1 << 30) /* the two lengths multiplied: 32 KiB and 32 KiB */
#define JSON_SUBTYPE 'J'

typedef struct text {
  const char *bytes; /* NULL: it is no text */
  size_t len;
} text;

static text text_of(sqlite3_value *value) {
  const char *bytes = (const char *)sqlite3_value_text(value);
  return (text){bytes, bytes ? (size_t)sqlite3_value_bytes(value) : 0};
}

static bool ended(void *session) { return session_ended(session); }

static void say_ended(sqlite3_context *context) {
  sqlite3_result_error(context, "interrupted", -1);
  sqlite3_result_error_code(context, SQLITE_INTERRUPT);
}

/* ---------------------------------------------------------------------- LIKE and GLOB */

static const pattern_kind like_kind = {.any = '%', .one = '_', .folds_case = true};
static const pattern_kind glob_kind = {.any = '*', .one = '?', .has_sets = true};

/* Where SQLite was built so, no blob is like anything. */
static bool is_blob(sqlite3_value **operands) {
  bool blob = sqlite3_value_type(operands[0]) == SQLITE_BLOB ||
              sqlite3_value_type(operands[1]) == SQLITE_BLOB;
  return blob && sqlite3_compileoption_used("LIKE_DOESNT_MATCH_BLOBS");
}

static void match(sqlite3_context *context, const pattern_kind *kind, sqlite3_value **operands) {
  text pattern = text_of(operands[0]), whole = text_of(operands[1]);
  if (!pattern.bytes || !whole.bytes) return;
  pattern_answer answer =
      pattern_match(kind, pattern.bytes, whole.bytes, ended, sqlite3_user_data(context));
  if (answer == PATTERN_ENDED)
    say_ended(context);
  else
    sqlite3_result_int(context, answer == PATTERN_YES);
}

static bool is_too_long(sqlite3_context *context, sqlite3_value *pattern) {
  sqlite3 *database = sqlite3_context_db_handle(context);
  int most = sqlite3_limit(database, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, -1);
  if (sqlite3_value_bytes(pattern) <= most) return false;
  sqlite3_result_error(context, "LIKE or GLOB pattern too complex", -1);
  return true;
}

/* False: it is no character, which is told, or NULL. */
static bool take_escape(sqlite3_context *context, sqlite3_value *value, pattern_kind *kind) {
  const unsigned char *at = sqlite3_value_text(value);
  if (!at) return false;
  kind->escape = pattern_read(&at);
  if (kind->escape == kind->any) kind->any = 0;
  if (kind->escape == kind->one) kind->one = 0;
  if (kind->escape && !*at) return true;
  sqlite3_result_error(context, "ESCAPE expression must be a single character", -1);
  return false;
}

static void like(sqlite3_context *context, int count, sqlite3_value **operands) {
  pattern_kind kind = like_kind;
  if (is_blob(operands)) {
    sqlite3_result_int(context, 0);
    return;
  }
  if (is_too_long(context, operands[0])) return;
  if (count == 2 || take_escape(context, operands[2], &kind)) match(context, &kind, operands);
}

static void glob(sqlite3_context *context, int count, sqlite3_value **operands) {
  (void)count;
  if (is_blob(operands))
    sqlite3_result_int(context, 0);
  else if (!is_too_long(context, operands[0]))
    match(context, &glob_kind, operands);
}

/* -------------------------------------------------------------------------- searching */

static bool is_inner(char byte) { return ((unsigned char)byte & 0xC0u) == 0x80u; }

/* A text is found where a character begins; NULL: nowhere, or `session` has ended. */
static const char *find(const char *from, text within, text what, query_session *session) {
  const char *end = within.bytes + within.len, *at;
  while ((at = memmem(from, (size_t)(end - from), what.bytes, what.len))) {
    if (at == within.bytes || !is_inner(*at) || session_ended(session)) return at;
    from = at + 1;
  }
  return NULL;
}

static int64_t characters_before(const char *from, const char *to) {
  int64_t count = 0;
  for (const char *at = from + 1; at <= to; at++) count += !is_inner(*at);
  return count;
}

static text blob_of(sqlite3_value *value) {
  const char *bytes = sqlite3_value_blob(value);
  return (text){bytes ? bytes : "", (size_t)sqlite3_value_bytes(value)};
}

static void instr(sqlite3_context *context, int count, sqlite3_value **operands) {
  (void)count;
  query_session *session = sqlite3_user_data(context);
  int within_type = sqlite3_value_type(operands[0]), what_type = sqlite3_value_type(operands[1]);
  if (within_type == SQLITE_NULL || what_type == SQLITE_NULL) return;
  bool blobs = within_type == SQLITE_BLOB && what_type == SQLITE_BLOB;
  text within = blobs ? blob_of(operands[0]) : text_of(operands[0]);
  text what = blobs ? blob_of(operands[1]) : text_of(operands[1]);
  if (!within.bytes || !what.bytes) {
    sqlite3_result_error_nomem(context);
    return;
  }
  const char *at = blobs ? memmem(within.bytes, within.len, what.bytes, what.len)
                         : find(within.bytes, within, what, session);
  if (session_ended(session))
    say_ended(context);
  else if (!at)
    sqlite3_result_int(context, 0);
  else
    sqlite3_result_int64(context,
                         blobs ? at - within.bytes + 1 : characters_before(within.bytes, at) + 1);
}

/* ------------------------------------------------------------------------- replacing */

static size_t count_found(text within, text what) {
  const char *from = within.bytes, *end = from + within.len, *at;
  size_t count = 0;
  while ((at = memmem(from, (size_t)(end - from), what.bytes, what.len))) {
    from = at + what.len;
    count++;
  }
  return count;
}

static void copy_replaced(char *out, text within, text what, text instead) {
  const char *from = within.bytes, *end = from + within.len, *at;
  while ((at = memmem(from, (size_t)(end - from), what.bytes, what.len))) {
    memcpy(out, from, (size_t)(at - from));
    out += at - from;
    memcpy(out, instead.bytes, instead.len);
    out += instead.len;
    from = at + what.len;
  }
  memcpy(out, from, (size_t)(end - from));
}

static void put_replaced(sqlite3_context *context, text within, text what, text instead) {
  uint64_t found = count_found(within, what);
  uint64_t len = within.len - found * what.len + found * instead.len;
  int most = sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  char *out = len <= (uint64_t)most ? sqlite3_malloc64(len + 1) : NULL;
  if (len > (uint64_t)most) {
    sqlite3_result_error_toobig(context);
  } else if (!out) {
    sqlite3_result_error_nomem(context);
  } else {
    copy_replaced(out, within, what, instead);
    sqlite3_result_text64(context, out, len, sqlite3_free, SQLITE_UTF8);
  }
}

/* An empty text is found nowhere; SQLite asks for it before it looks at what would come instead. */
static void replace(sqlite3_context *context, int count, sqlite3_value **operands) {
  (void)count;
  text within = text_of(operands[0]), what = text_of(operands[1]), instead;
  if (!within.bytes || !what.bytes) return;
  if (!what.bytes[0]) {
    sqlite3_result_value(context, operands[0]);
    return;
  }
  instead = text_of(operands[2]);
  if (instead.bytes) put_replaced(context, within, what, instead);
}

/* -------------------------------------------------------------------------- trimming */

typedef struct trimming {
  query_session *session;
  const char *set; /* characters, up to its NUL */
  unsigned steps;
  bool ended;
} trimming;

static size_t character_len(const char *at) {
  size_t len = 1;
  if ((unsigned char)*at >= 0xC0u)
    while (is_inner(at[len])) len++;
  return len;
}

/* The bytes of the first character of the set that the text begins (or ends) with; 0: none. */
static size_t at_edge(trimming *self, text within, bool left) {
  size_t len;
  for (const char *one = self->set; *one && !self->ended; one += len) {
    len = character_len(one);
    if (len <= within.len && memcmp(within.bytes + (left ? 0 : within.len - len), one, len) == 0)
      return len;
    if (++self->steps % STEPS_BETWEEN_LOOKS == 0) self->ended = session_ended(self->session);
  }
  return 0;
}

static void trim_edges(sqlite3_context *context, int count, sqlite3_value **operands, bool left,
                       bool right) {
  text within = text_of(operands[0]);
  trimming self = {.session = sqlite3_user_data(context),
                   .set = count == 1 ? " " : (const char *)sqlite3_value_text(operands[1])};
  size_t len;
  if (!within.bytes || !self.set) return;
  while (left && within.len && (len = at_edge(&self, within, true))) {
    within.bytes += len;
    within.len -= len;
  }
  while (right && within.len && (len = at_edge(&self, within, false))) within.len -= len;
  if (self.ended)
    say_ended(context);
  else
    sqlite3_result_text64(context, within.bytes, within.len, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void trim(sqlite3_context *context, int count, sqlite3_value **operands) {
  trim_edges(context, count, operands, true, true);
}
static void ltrim(sqlite3_context *context, int count, sqlite3_value **operands) {
  trim_edges(context, count, operands, true, false);
}
static void rtrim(sqlite3_context *context, int count, sqlite3_value **operands) {
  trim_edges(context, count, operands, false, true);
}

/* --------------------------------------------------------------------------- json_patch */

/* SQLite's own, which looks for each member of the patch among all of the target, on a database
 * that has it still; but nothing that would take long. */
static void patch_with(sqlite3_context *context, sqlite3 *helper, sqlite3_value **operands) {
  sqlite3_stmt *ask = NULL;
  if (sqlite3_prepare_v2(helper, "SELECT json_patch(?1, ?2)", -1, &ask, NULL) == SQLITE_OK &&
      sqlite3_bind_value(ask, 1, operands[0]) == SQLITE_OK &&
      sqlite3_bind_value(ask, 2, operands[1]) == SQLITE_OK && sqlite3_step(ask) == SQLITE_ROW) {
    sqlite3_result_value(context, sqlite3_column_value(ask, 0));
    sqlite3_result_subtype(context, JSON_SUBTYPE);
  } else {
    sqlite3_result_error(context, sqlite3_errmsg(helper), -1);
  }
  sqlite3_finalize(ask);
}

/* Opened once for a session: a query may call it for each row. */
static sqlite3 *helper_of(query_session *session) {
  int mode = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
  if (session->helper || sqlite3_open_v2(":memory:", &session->helper, mode, NULL) == SQLITE_OK)
    return session->helper;
  sqlite3_close(session->helper);
  session->helper = NULL;
  return NULL;
}

static void json_patch(sqlite3_context *context, int count, sqlite3_value **operands) {
  (void)count;
  uint64_t target = (uint64_t)sqlite3_value_bytes(operands[0]);
  uint64_t patch = (uint64_t)sqlite3_value_bytes(operands[1]);
  if (target * patch > PATCH_WORK) {
    sqlite3_result_error(context, "the texts of json_patch are too long", -1);
    return;
  }
  sqlite3 *helper = helper_of(sqlite3_user_data(context));
  if (helper)
    patch_with(context, helper, operands);
  else
    sqlite3_result_error_nomem(context);
}

/* -------------------------------------------------------------------------- together */

int query_functions_add(query_session *session) {
  static const struct {
    const char *name;
    int count;
    void (*function)(sqlite3_context *context, int count, sqlite3_value **operands);
  } rows[] = {{"like", 2, like},       {"like", 3, like},   {"glob", 2, glob},
              {"instr", 2, instr},     {"trim", 1, trim},   {"trim", 2, trim},
              {"replace", 3, replace}, {"ltrim", 1, ltrim}, {"ltrim", 2, ltrim},
              {"rtrim", 1, rtrim},     {"rtrim", 2, rtrim}, {"json_patch", 2, json_patch}};
  int code = SQLITE_OK;
  for (size_t i = 0; code == SQLITE_OK && i < sizeof rows / sizeof *rows; i++)
    code = sqlite3_create_function_v2(session->database, rows[i].name, rows[i].count,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                      session, rows[i].function, NULL, NULL, NULL);
  sqlite3_limit(session->database, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, QUERY_PATTERN_BYTES);
  return code;
}
