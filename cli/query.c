/* query.c - SQLite queries as tools. Each call opens the database on a thread of the pool, so that
 * a slow query holds up nobody; values reach it as bound parameters only. */
#include "query.h"

#include <idem/uv.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEPS_BETWEEN_LOOKS 1000
#define BUSY_MS 1000

/* ----------------------------------------------------------------- open and prepare */

typedef struct query_session {
  sqlite3 *database;
  sqlite3_stmt *statement;
} query_session;

/* Whoever may only read must not reach other files either. */
static int authorize(void *user, int action, const char *a, const char *b, const char *c,
                     const char *d) {
  (void)user, (void)a, (void)b, (void)c, (void)d;
  return action == SQLITE_ATTACH || action == SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK;
}

static bool is_blank(const char *text) { return text[strspn(text, " \t\r\n;")] == 0; }

/* False: `why` says what SQLite said. session_close either way. */
static bool session_open(query_session *self, const tool_config *tool, char *why, size_t size) {
  int mode = tool->may_write || tool->script ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  const char *rest = "";
  *self = (query_session){.database = NULL};
  int code = sqlite3_open_v2(tool->script ? ":memory:" : tool->database, &self->database,
                             mode | SQLITE_OPEN_NOMUTEX, NULL);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(self->database, BUSY_MS);
    sqlite3_db_config(self->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(self->database, SQLITE_LIMIT_LENGTH, (int)tool->output_bytes + 65536);
    sqlite3_set_authorizer(self->database, authorize, NULL);
    if (tool->script) code = sqlite3_exec(self->database, tool->script, NULL, NULL, NULL);
  }
  if (code == SQLITE_OK) {
    code = sqlite3_prepare_v2(self->database, tool->query, -1, &self->statement, &rest);
  }
  if (code == SQLITE_OK && self->statement && is_blank(rest) &&
      (tool->may_write || sqlite3_stmt_readonly(self->statement)))
    return true;
  if (code != SQLITE_OK)
    snprintf(why, size, "%s", self->database ? sqlite3_errmsg(self->database) : "no memory");
  else
    snprintf(why, size, "%s",
             !self->statement  ? "is empty"
             : !is_blank(rest) ? "is more than one statement"
                               : "changes the database: say \"write\": true if it should");
  return false;
}

static void session_close(query_session *self) {
  sqlite3_finalize(self->statement);
  sqlite3_close(self->database);
}

/* -------------------------------------------------------------------------- checking */

static void check_parameters(serve_config *config, const tool_config *tool,
                             sqlite3_stmt *statement) {
  yyjson_doc *schema = yyjson_read(tool->input_schema, strlen(tool->input_schema), 0);
  yyjson_val *properties = yyjson_obj_get(yyjson_doc_get_root(schema), "properties");
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i);
    if (!name || *name == '?')
      source_fault(&config->source, tool->key, "tool %s: name the parameters of the query, as :id",
                   tool->name);
    else if (!yyjson_obj_get(properties, name + 1))
      source_fault(&config->source, tool->key, "tool %s: there is no argument for %s in the query",
                   tool->name, name);
  }
  yyjson_doc_free(schema);
}

static void check_columns(serve_config *config, const tool_config *tool, sqlite3_stmt *statement) {
  for (int i = 0; i < sqlite3_column_count(statement); i++)
    for (int j = 0; j < i; j++)
      if (strcmp(sqlite3_column_name(statement, i), sqlite3_column_name(statement, j)) == 0)
        source_fault(&config->source, tool->key,
                     "tool %s: two columns are called %s: rename one with AS", tool->name,
                     sqlite3_column_name(statement, i));
}

bool query_check(serve_config *config) {
  for (size_t i = 0; i < config->tool_count; i++) {
    const tool_config *tool = &config->tools[i];
    query_session session;
    char why[256];
    if (tool->is_program || (!tool->database && !tool->script)) continue; /* told already */
    if (session_open(&session, tool, why, sizeof why)) {
      check_parameters(config, tool, session.statement);
      check_columns(config, tool, session.statement);
    } else {
      source_fault(&config->source, tool->key, "tool %s: the query %s", tool->name, why);
    }
    session_close(&session);
  }
  return config->source.faults == 0;
}

/* ------------------------------------------------------------------------- one call */

typedef struct job {
  const tool_config *tool;
  edition *edition; /* held */
  yyjson_doc *arguments;
  yyjson_mut_doc *result; /* {"rows": [...], "row_count": n, "truncated": false} */
  yyjson_mut_val *rows;
  idem__buf table;
  uint64_t deadline_ms;
  atomic_bool unwanted;
  bool out_of_time;
  bool truncated;
  size_t row_count;
  size_t bytes;
  char fault[256]; /* empty: it went well */
} job;

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static int look_around(void *user) {
  job *self = user;
  self->out_of_time = now_ms() >= self->deadline_ms;
  return self->out_of_time || atomic_load(&self->unwanted);
}

static int bind_value(sqlite3_stmt *statement, int at, yyjson_val *value) {
  switch (yyjson_get_type(value)) {
  case YYJSON_TYPE_STR:
    return sqlite3_bind_text64(statement, at, yyjson_get_str(value), yyjson_get_len(value),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  case YYJSON_TYPE_BOOL: return sqlite3_bind_int(statement, at, yyjson_get_bool(value));
  case YYJSON_TYPE_NUM:
    if (yyjson_is_real(value)) return sqlite3_bind_double(statement, at, yyjson_get_real(value));
    if (yyjson_is_uint(value) && yyjson_get_uint(value) > INT64_MAX)
      return sqlite3_bind_double(statement, at, (double)yyjson_get_uint(value));
    return sqlite3_bind_int64(statement, at, yyjson_get_sint(value));
  case YYJSON_TYPE_RAW:
    return sqlite3_bind_double(statement, at, strtod(yyjson_get_raw(value), NULL));
  case YYJSON_TYPE_ARR:
  case YYJSON_TYPE_OBJ: {
    char *text = yyjson_val_write(value, 0, NULL);
    return text ? sqlite3_bind_text(statement, at, text, -1, free) : SQLITE_NOMEM;
  }
  default: return sqlite3_bind_null(statement, at);
  }
}

static bool bind_all(const job *self, sqlite3_stmt *statement) {
  yyjson_val *arguments = yyjson_doc_get_root(self->arguments);
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
    yyjson_val *value = yyjson_obj_get(arguments, sqlite3_bind_parameter_name(statement, i) + 1);
    if (bind_value(statement, i, value) != SQLITE_OK) return false;
  }
  return true;
}

/* ----------------------------------------------------------------------------- rows */

static yyjson_mut_val *encode(job *self, const void *bytes, size_t len) {
  idem__buf text;
  idem__buf_init(&text, NULL, len * 2 + 16);
  yyjson_mut_val *value = NULL;
  if (idem__base64_encode(&text, bytes, len, IDEM__BASE64_STANDARD) == IDEM_OK)
    value = yyjson_mut_strncpy(self->result, text.len ? text.data : "", text.len);
  idem__buf_deinit(&text);
  return value;
}

static yyjson_mut_val *column_value(job *self, sqlite3_stmt *statement, int at) {
  const void *bytes;
  size_t len;
  switch (sqlite3_column_type(statement, at)) {
  case SQLITE_INTEGER: return yyjson_mut_sint(self->result, sqlite3_column_int64(statement, at));
  case SQLITE_FLOAT: return yyjson_mut_real(self->result, sqlite3_column_double(statement, at));
  case SQLITE_NULL: return yyjson_mut_null(self->result);
  default: break;
  }
  bytes = sqlite3_column_blob(statement, at);
  len = (size_t)sqlite3_column_bytes(statement, at);
  self->bytes += len;
  if (sqlite3_column_type(statement, at) == SQLITE_TEXT && idem__utf8_valid(bytes, len))
    return yyjson_mut_strncpy(self->result, bytes ? bytes : "", len);
  return encode(self, bytes, len); /* base64: no text */
}

/* A cell never breaks its line. */
static void put_cell(job *self, yyjson_mut_val *value, bool first) {
  size_t len = 0;
  if (!first) idem__buf_puts(&self->table, " | ");
  if (yyjson_mut_is_str(value)) {
    idem__text_escape(&self->table, yyjson_mut_get_str(value), yyjson_mut_get_len(value), SIZE_MAX);
    return;
  }
  char *text = yyjson_mut_val_write(value, 0, &len);
  if (text) idem__buf_put(&self->table, text, len);
  free(text);
}

static bool take_row(job *self, sqlite3_stmt *statement) {
  yyjson_mut_val *row = yyjson_mut_obj(self->result);
  int columns = sqlite3_column_count(statement);
  for (int i = 0; i < columns; i++) {
    yyjson_mut_val *name = yyjson_mut_strcpy(self->result, sqlite3_column_name(statement, i));
    yyjson_mut_val *value = column_value(self, statement, i);
    if (!yyjson_mut_obj_add(row, name, value)) return false;
    self->bytes += 8 + strlen(sqlite3_column_name(statement, i));
    put_cell(self, value, i == 0);
  }
  idem__buf_puts(&self->table, "\n");
  self->row_count++;
  return yyjson_mut_arr_append(self->rows, row);
}

static void put_heading(job *self, sqlite3_stmt *statement) {
  for (int i = 0; i < sqlite3_column_count(statement); i++)
    idem__buf_printf(&self->table, "%s%s", i ? " | " : "", sqlite3_column_name(statement, i));
  idem__buf_puts(&self->table, "\n");
}

static void take_rows(job *self, const query_session *session) {
  int code;
  put_heading(self, session->statement);
  while ((code = sqlite3_step(session->statement)) == SQLITE_ROW) {
    self->truncated =
        self->row_count == self->tool->max_rows || self->bytes >= self->tool->output_bytes;
    if (self->truncated) return;
    if (!take_row(self, session->statement)) {
      snprintf(self->fault, sizeof self->fault, "out of memory");
      return;
    }
  }
  if (self->out_of_time)
    snprintf(self->fault, sizeof self->fault, "took longer than %llu ms (deadline_ms)",
             (unsigned long long)self->tool->deadline_ms);
  else if (code != SQLITE_DONE)
    snprintf(self->fault, sizeof self->fault, "failed: %s", sqlite3_errmsg(session->database));
}

static void work(void *user) {
  job *self = user;
  query_session session;
  if (session_open(&session, self->tool, self->fault, sizeof self->fault)) {
    sqlite3_progress_handler(session.database, STEPS_BETWEEN_LOOKS, look_around, self);
    if (bind_all(self, session.statement))
      take_rows(self, &session);
    else
      snprintf(self->fault, sizeof self->fault, "failed: a value is too long to be bound");
  }
  session_close(&session);
}

/* -------------------------------------------------------------------------- answering */

static void job_free(job *self) {
  yyjson_doc_free(self->arguments);
  yyjson_mut_doc_free(self->result);
  idem__buf_deinit(&self->table);
  edition *held = self->edition;
  free(self);
  edition_release(held);
}

static void answer_rows(idem_request *request, job *self) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc), *structured = NULL;
  if (self->truncated)
    idem__buf_printf(&self->table, "There are more rows: cut after %zu (max_rows, output_bytes).\n",
                     self->row_count);
  if (doc) structured = yyjson_mut_val_mut_copy(doc, self->result->root);
  bool built = structured &&
               yyjson_mut_obj_add_uint(doc, structured, "row_count", self->row_count) &&
               yyjson_mut_obj_add_bool(doc, structured, "truncated", self->truncated) &&
               idem_content_text(doc, content, self->table.data, self->table.len);
  if (built)
    reply_tool(request, &(idem_tool_result){.content = content, .structured = structured});
  else
    idem_request_drop(request);
}

static void after(idem_request *request, void *user) {
  job *self = user;
  char sentence[512];
  if (atomic_load(&self->unwanted)) {
    idem_request_drop(request);
  } else if (self->fault[0]) {
    snprintf(sentence, sizeof sentence, "the query %s", self->fault);
    reply_failed(request, sentence);
  } else {
    answer_rows(request, self);
  }
  job_free(self);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  job *self = user;
  (void)request, (void)reason;
  atomic_store(&self->unwanted, true);
}

static job *job_new(const query_tool *asked, yyjson_val *arguments) {
  const tool_config *tool = asked->config;
  job *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->edition = asked->edition;
  edition_hold(asked->edition);
  yyjson_mut_doc *copy = yyjson_mut_doc_new(NULL);
  if (copy) yyjson_mut_doc_set_root(copy, yyjson_val_mut_copy(copy, arguments));
  self->tool = tool;
  self->arguments = copy ? yyjson_mut_doc_imut_copy(copy, NULL) : NULL;
  yyjson_mut_doc_free(copy);
  self->result = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *root = yyjson_mut_obj(self->result);
  self->rows = yyjson_mut_obj_add_arr(self->result, root, "rows");
  if (self->result) yyjson_mut_doc_set_root(self->result, root);
  idem__buf_init(&self->table, NULL, tool->output_bytes * 4 + 65536);
  self->deadline_ms = now_ms() + tool->deadline_ms;
  if (self->arguments && self->rows) return self;
  job_free(self);
  return NULL;
}

void query_tool_call(idem_request *request, yyjson_val *arguments, void *user) {
  const query_tool *tool = user;
  job *self = job_new(tool, arguments);
  if (!self) return; /* answered with "Internal error" */
  idem_request_on_cancel(request, on_cancel, self);
  if (idem_offload(idem_request_loop(request), request, work, after, self) == IDEM_OK) return;
  idem_request_on_cancel(request, NULL, NULL);
  job_free(self);
}
