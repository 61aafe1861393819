/* query_rows.c - what goes into a query and what comes out: arguments bound, rows as JSON and as a table. */
#include "query_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the tool's definition says of an argument. */
static yyjson_val *argument_of(const tool_config *tool, const char *name) {
  yyjson_val *args = yyjson_obj_get(tool->definition, "args"), *key, *value;
  size_t i, max, len = strlen(name);
  if (!args)
    return yyjson_obj_get(yyjson_obj_get(yyjson_obj_get(tool->definition, "input"), "properties"),
                          name);
  idem_each_member(args, i, max, key, value) {
    const char *given = yyjson_get_str(key);
    bool whole = yyjson_get_len(key) == len;
    if ((whole || (yyjson_get_len(key) == len + 1 && given[len] == '?')) &&
        memcmp(given, name, len) == 0)
      return value;
  }
  return NULL;
}

/* 1.0 and 1e3 are integers to a schema; to SQLite 1.0 is a number of another kind, which a text of it shows. */
static bool is_integer(const tool_config *tool, const char *name, double number) {
  if (!(fabs(number) < 9007199254740992.0) || number != floor(number)) return false;
  yyjson_val *said = argument_of(tool, name);
  return yyjson_equals_str(yyjson_is_str(said) ? said : yyjson_obj_get(said, "type"), "integer");
}

static int bind_real(const tool_config *tool, sqlite3_stmt *statement, int at, double number) {
  if (is_integer(tool, sqlite3_bind_parameter_name(statement, at) + 1, number))
    return sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
  return sqlite3_bind_double(statement, at, number);
}

static int bind_value(const tool_config *tool, sqlite3_stmt *statement, int at, yyjson_val *value) {
  switch (yyjson_get_type(value)) {
  case YYJSON_TYPE_STR:
    return sqlite3_bind_text64(statement, at, yyjson_get_str(value), yyjson_get_len(value),
                               SQLITE_TRANSIENT, SQLITE_UTF8);
  case YYJSON_TYPE_BOOL: return sqlite3_bind_int(statement, at, yyjson_get_bool(value));
  case YYJSON_TYPE_NUM:
    if (yyjson_is_real(value)) return bind_real(tool, statement, at, yyjson_get_real(value));
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

bool query_bind(const query_job *self, sqlite3_stmt *statement) {
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i) + 1;
    bool caller = self->principal && strcmp(name, "principal") == 0;
    int code = caller ? sqlite3_bind_text(statement, i, self->principal, -1, SQLITE_TRANSIENT)
                      : bind_value(self->tool, statement, i, yyjson_obj_get(self->arguments, name));
    if (code != SQLITE_OK) return false;
  }
  return true;
}

/* ----------------------------------------------------------------------------- rows */

static yyjson_mut_val *encode(query_job *self, const void *bytes, size_t len) {
  idem_buf text;
  idem_buf_init(&text, NULL, len * 2 + 16);
  yyjson_mut_val *value = NULL;
  if (idem_base64_encode(&text, bytes, len, IDEM_BASE64_STANDARD) == IDEM_OK)
    value = yyjson_mut_strncpy(self->result, text.len ? text.data : "", text.len);
  idem_buf_deinit(&text);
  return value;
}

/* JSON has no infinity. */
static yyjson_mut_val *real_value(yyjson_mut_doc *doc, double number) {
  return isfinite(number) ? yyjson_mut_real(doc, number) : yyjson_mut_null(doc);
}

static yyjson_mut_val *column_value(query_job *self, sqlite3_stmt *statement, int at) {
  const void *bytes;
  size_t len;
  switch (sqlite3_column_type(statement, at)) {
  case SQLITE_INTEGER: return yyjson_mut_sint(self->result, sqlite3_column_int64(statement, at));
  case SQLITE_FLOAT: return real_value(self->result, sqlite3_column_double(statement, at));
  case SQLITE_NULL: return yyjson_mut_null(self->result);
  default: break;
  }
  bytes = sqlite3_column_blob(statement, at);
  len = (size_t)sqlite3_column_bytes(statement, at);
  self->bytes += len;
  if (sqlite3_column_type(statement, at) == SQLITE_TEXT && idem_utf8_valid(bytes, len))
    return yyjson_mut_strncpy(self->result, bytes ? bytes : "", len);
  return encode(self, bytes, len); /* base64: no text */
}

/* A cell never breaks its line. */
static bool put_cell(query_job *self, yyjson_mut_val *value, bool first) {
  size_t len = 0;
  if (!first && idem_buf_puts(&self->table, " | ") != IDEM_OK) return false;
  if (yyjson_mut_is_str(value))
    return idem_text_escape(&self->table, yyjson_mut_get_str(value), yyjson_mut_get_len(value),
                            SIZE_MAX) == IDEM_OK;
  char *text = yyjson_mut_val_write(value, 0, &len);
  bool fine = text && idem_buf_put(&self->table, text, len) == IDEM_OK;
  free(text);
  return fine;
}

static bool take_row(query_job *self, sqlite3_stmt *statement) {
  yyjson_mut_val *row = yyjson_mut_obj(self->result);
  int columns = sqlite3_column_count(statement);
  for (int i = 0; i < columns; i++) {
    yyjson_mut_val *name = yyjson_mut_strcpy(self->result, sqlite3_column_name(statement, i));
    yyjson_mut_val *value = column_value(self, statement, i);
    if (!yyjson_mut_obj_add(row, name, value)) return false;
    self->bytes += 8 + strlen(sqlite3_column_name(statement, i));
    if (!put_cell(self, value, i == 0)) return false;
  }
  if (idem_buf_puts(&self->table, "\n") != IDEM_OK) return false;
  self->row_count++;
  return yyjson_mut_arr_append(self->rows, row);
}

static bool put_heading(query_job *self, sqlite3_stmt *statement) {
  idem_status status = IDEM_OK;
  if (!sqlite3_column_count(statement)) return true;
  for (int i = 0; i < sqlite3_column_count(statement) && status == IDEM_OK; i++) {
    const char *name = sqlite3_column_name(statement, i);
    if (i) status = idem_buf_puts(&self->table, " | ");
    if (status == IDEM_OK) status = idem_buf_put(&self->table, name, strlen(name));
  }
  return status == IDEM_OK && idem_buf_puts(&self->table, "\n") == IDEM_OK;
}

static void run_out_of_memory(query_job *self) {
  snprintf(self->fault, sizeof self->fault, "out of memory");
}

/* What has no columns answers with what it did; without a change SQLite still knows the count of the change before. */
static bool put_changes(query_job *self, const query_session *session, int before) {
  int changes = sqlite3_changes(session->database);
  self->rows_changed = sqlite3_total_changes(session->database) == before ? 0 : (size_t)changes;
  if (sqlite3_column_count(session->statement)) return true;
  return idem_buf_printf(&self->table, "%zu row%s changed\n", self->rows_changed,
                         self->rows_changed == 1 ? "" : "s") == IDEM_OK;
}

void query_take_rows(query_job *self, const query_session *session) {
  int before = sqlite3_total_changes(session->database);
  if (!put_heading(self, session->statement)) {
    run_out_of_memory(self);
    return;
  }
  while ((self->code = sqlite3_step(session->statement)) == SQLITE_ROW) {
    self->truncated =
        self->row_count == self->tool->max_rows || self->bytes >= self->tool->output_bytes;
    if (self->truncated) return;
    if (!take_row(self, session->statement)) {
      run_out_of_memory(self);
      return;
    }
  }
  self->locked = self->code == SQLITE_BUSY;
  if (self->tool->may_write && self->code == SQLITE_DONE && !put_changes(self, session, before))
    run_out_of_memory(self);
  if (self->code != SQLITE_DONE)
    snprintf(self->fault, sizeof self->fault, "failed: %s", sqlite3_errmsg(session->database));
}
