/* query_session.c - see query_session.h. Also checks at the start that every query can be prepared. */
#include "query_files.h"
#include "query_functions.h"

#include "config/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEPT_EACH 4u /* sessions of a tool: as many as there are threads */
#define KEPT_ALL 64u

#define HOLD_MS 1u
#define STEPS_BETWEEN_LOOKS 1000
#define BUSY_LOOK_US 10000 /* between two tries to get a lock, at most */
#define VERSIONS_AT 18     /* in the header of a database */
#define WITH_WAL 2
#define NO_DATABASE "has no database: "
#define WAL_IS_MAPPED                                                                              \
  "one in WAL mode is mapped: cut short, it would end the server. Keep it elsewhere, or use "      \
  "another "                                                                                       \
  "journal_mode"

static size_t kept; /* by all tools; only the loop's thread keeps and holds */
static idem_list holders = {&holders, &holders};
static uv_timer_t hold_timer;

/* ----------------------------------------------------------------------------- limits */

uint64_t session_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

bool session_ended(query_session *self) {
  query_limit *limit = self->limit;
  if (!limit) return false;
  limit->out_of_time = limit->out_of_time || session_now_us() >= limit->until_us;
  return limit->out_of_time || atomic_load(&limit->unwanted);
}

/* Between steps; and before a change is made for good, so that what is told to have taken too long
 * was not done. */
static int look(void *user) { return session_ended(user); }

static int wait_for_lock(void *user, int times) {
  query_session *self = user;
  uint64_t now = session_now_us();
  if (times == 0) self->busy_us = now;
  if (session_ended(self) || !self->limit || self->limit->impatient ||
      now - self->busy_us >= SESSION_BUSY_US)
    return 0;
  usleep(times < 10 ? 1000u * (unsigned)(times + 1) : BUSY_LOOK_US);
  return 1;
}

static void set_limits(query_session *self, const tool_config *tool) {
  sqlite3_progress_handler(self->database, STEPS_BETWEEN_LOOKS, look, self);
  sqlite3_commit_hook(self->database, look, self);
  sqlite3_busy_handler(self->database, wait_for_lock, self);
  sqlite3_limit(self->database, SQLITE_LIMIT_LENGTH, (int)tool->output_bytes + 65536);
}

/* ----------------------------------------------------------------- open and prepare */

/* Whoever may only read must not reach other files either. The pragma would bring SQLite's own LIKE
 * back, which knows no limit. */
static int authorize(void *user, int action, const char *a, const char *b, const char *c,
                     const char *d) {
  (void)user, (void)b, (void)c, (void)d;
  bool denied = action == SQLITE_ATTACH || action == SQLITE_DETACH ||
                (action == SQLITE_PRAGMA && sqlite3_stricmp(a, "case_sensitive_like") == 0);
  return denied ? SQLITE_DENY : SQLITE_OK;
}

static bool is_blank(const char *text) { return text[strspn(text, " \t\r\n;")] == 0; }

static int open_database(query_session *self, const tool_config *tool) {
  int mode = tool->may_write || tool->script ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  struct stat about;
  int code =
      sqlite3_open_v2(tool->script ? ":memory:" : tool->database, &self->database,
                      mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, query_files_vfs(tool));
  if (code != SQLITE_OK) return code;
  if (!tool->script && stat(tool->database, &about) == 0) {
    self->device = about.st_dev;
    self->inode = about.st_ino;
  }
  set_limits(self, tool);
  sqlite3_db_config(self->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_set_authorizer(self->database, authorize, NULL);
  code = query_functions_add(self);
  if (code != SQLITE_OK) return code;
  return tool->script ? sqlite3_exec(self->database, tool->script, NULL, NULL, NULL) : SQLITE_OK;
}

/* NULL: it can be used. */
static const char *judge_query(const query_session *self, const tool_config *tool,
                               const char *rest) {
  if (!self->statement) return "is empty";
  if (!is_blank(rest)) return "is more than one statement: make a tool of each";
  if (!tool->may_write && !sqlite3_stmt_readonly(self->statement))
    return "changes the database: say \"write\": true if it should";
  return NULL;
}

static bool is_wal(sqlite3 *database) {
  sqlite3_stmt *ask = NULL;
  bool wal = true;
  if (sqlite3_prepare_v2(database, "PRAGMA journal_mode", -1, &ask, NULL) == SQLITE_OK &&
      sqlite3_step(ask) == SQLITE_ROW)
    wal = sqlite3_stricmp((const char *)sqlite3_column_text(ask, 0), "wal") == 0;
  sqlite3_finalize(ask);
  return wal;
}

/* Of the file's header: how it is written and read, 2 with a WAL. */
static bool says_wal(int fd) {
  uint8_t versions[2] = {0, 0};
  return pread(fd, versions, sizeof versions, VERSIONS_AT) == (ssize_t)sizeof versions &&
         (versions[0] == WITH_WAL || versions[1] == WITH_WAL);
}

/* Why a database that a program may put anything in the place of cannot be opened. NULL: SQLite knows better. */
static const char *judge_file(const char *path, bool *wal) {
  struct stat about;
  int fd = regular_file_open_unlinked(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return errno == ELOOP    ? "a link is in its place, or on the way to it"
           : errno == ENOENT ? "it is not there"
                             : NULL;
  bool regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  *wal = regular && says_wal(fd);
  close(fd);
  return regular ? NULL : "it " REGULAR_FILE_NOT;
}

static void say_unopened(const tool_config *tool, const char *fault, char *why, size_t size) {
  bool wal = false;
  const char *cause = judge_file(tool->database, &wal);
  if (wal)
    snprintf(why, size, NO_DATABASE "%.200s may write its folder, and " WAL_IS_MAPPED,
             tool->database_writer);
  else
    snprintf(why, size, NO_DATABASE "%s", cause ? cause : fault);
}

static bool prepare(query_session *self, const tool_config *tool, char *why, size_t size) {
  const char *rest = "", *fault, *phase = NO_DATABASE;
  int code = open_database(self, tool);
  if (code == SQLITE_OK) {
    phase = "cannot be prepared: ";
    code = sqlite3_prepare_v3(self->database, tool->query, -1, SQLITE_PREPARE_PERSISTENT,
                              &self->statement, &rest);
  }
  if (code != SQLITE_OK)
    fault = self->database ? sqlite3_errmsg(self->database) : "no memory";
  else
    fault = judge_query(self, tool, rest);
  if (self->limit->out_of_time)
    snprintf(why, size, NO_DATABASE "that takes longer than %llu ms (deadline_ms)",
             (unsigned long long)tool->deadline_ms);
  else if (code == SQLITE_CANTOPEN && tool->database_writer)
    say_unopened(tool, fault, why, size);
  else if (fault)
    snprintf(why, size, "%s%s", code != SQLITE_OK ? phase : "", fault);
  self->may_hold = !fault && !tool->script && !tool->may_write && !is_wal(self->database);
  return !fault;
}

query_session *session_open(const tool_config *tool, query_limit *limit, char *why, size_t size) {
  query_session *self = calloc(1, sizeof *self);
  snprintf(why, size, "no memory");
  if (!self) return NULL;
  self->limit = limit;
  idem_list_init(&self->link);
  idem_list_init(&self->held);
  if (prepare(self, tool, why, size)) return self;
  session_close(self);
  return NULL;
}

void session_close(query_session *self) {
  if (self->holds) session_let_go(self);
  sqlite3_finalize(self->statement);
  sqlite3_close(self->database);
  sqlite3_close(self->helper);
  free(self);
}

/* -------------------------------------------------------------------------- keeping */

/* A database that was put in the file's place must be read, not the one before. */
static bool is_current(const query_session *self, const tool_config *tool) {
  struct stat about;
  if (tool->script || self->holds) return true;
  return stat(tool->database, &about) == 0 && about.st_dev == self->device &&
         about.st_ino == self->inode;
}

/* An edition that was never served has none, and may be freed on another thread. */
static void close_idle(query_tool *tool) {
  if (!tool->idle_count) return;
  for (idem_list *at = tool->idle.next, *next; at != &tool->idle; at = next) {
    next = at->next;
    session_close(IDEM_CONTAINER(at, query_session, link));
  }
  kept -= tool->idle_count;
  tool->idle_count = 0;
  idem_list_init(&tool->idle);
}

query_session *session_take(query_tool *tool) {
  if (idem_list_empty(&tool->idle)) return NULL;
  query_session *first = IDEM_CONTAINER(tool->idle.next, query_session, link);
  if (!is_current(first, tool->config)) {
    close_idle(tool);
    return NULL;
  }
  idem_list_remove(&first->link);
  tool->idle_count--;
  kept--;
  return first;
}

/* What a script makes is made anew for each call that changes it. */
void session_keep(query_tool *tool, query_session *session) {
  const tool_config *config = tool->config;
  if (tool->idle_count >= KEPT_EACH || kept >= KEPT_ALL || (config->script && config->may_write)) {
    session_close(session);
    return;
  }
  sqlite3_reset(session->statement);
  sqlite3_clear_bindings(session->statement);
  session->limit = NULL;
  idem_list_append(&tool->idle, &session->link);
  tool->idle_count++;
  kept++;
}

/* --------------------------------------------------------------------------- holding */

static void on_held_long(uv_timer_t *timer) {
  (void)timer;
  session_let_all_go();
}

void session_hold(query_session *self, uv_loop_t *loop) {
  if (!self->may_hold || self->holds) return;
  if (!hold_timer.loop && uv_timer_init(loop, &hold_timer) != 0) return;
  if (!uv_is_active((uv_handle_t *)&hold_timer) &&
      uv_timer_start(&hold_timer, on_held_long, HOLD_MS, 0) != 0)
    return;
  if (sqlite3_exec(self->database, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) return;
  self->holds = true;
  idem_list_append(&holders, &self->held);
}

void session_let_go(query_session *self) {
  if (!self->holds) return;
  self->holds = false;
  idem_list_remove(&self->held);
  sqlite3_exec(self->database, "COMMIT", NULL, NULL, NULL);
}

void session_let_all_go(void) {
  for (idem_list *at = holders.next, *next; at != &holders; at = next) {
    next = at->next;
    session_let_go(IDEM_CONTAINER(at, query_session, held));
  }
}

/* ------------------------------------------------------------------------------ tools */

void query_tool_init(query_tool *self, edition *owner, const tool_config *config) {
  *self = (query_tool){.config = config, .edition = owner};
  idem_list_init(&self->idle);
  turns_tool_init(&self->brief_turns);
  turns_tool_init(&self->lasting_turns);
}

void query_tool_deinit(query_tool *self) { close_idle(self); }

/* -------------------------------------------------------------------------- checking */

static void no_argument(serve_config *config, tool_config *tool, yyjson_val *at, const char *name) {
  const char *near = config_input(config, tool)
                         ? idem_schema_suggest_property(tool->input, name + 1, strlen(name + 1))
                         : NULL;
  source_fault(&config->source, at, "tool %s: there is no argument for %s%s%s%s", tool->name, name,
               near ? "; did you mean :" : ": add it to args", near ? near : "", near ? "?" : "");
}

/* :principal is who asks; an argument of that name would be the caller's own word for it. */
static void take_caller(serve_config *config, tool_config *tool, yyjson_val *at,
                        yyjson_val *properties) {
  tool->knows_caller = true;
  if (yyjson_obj_get(properties, "principal"))
    source_fault(&config->source, at,
                 "tool %s: :principal is who asks: call the argument something else", tool->name);
}

static void check_parameters(serve_config *config, tool_config *tool, yyjson_val *at,
                             sqlite3_stmt *statement) {
  const char *text = config_input_schema(config, tool);
  yyjson_doc *schema = yyjson_read(text, strlen(text), 0);
  yyjson_val *properties = yyjson_obj_get(yyjson_doc_get_root(schema), "properties");
  for (int i = 1; i <= sqlite3_bind_parameter_count(statement); i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i);
    if (!name || *name == '?')
      source_fault(&config->source, at, "tool %s: name the parameters of the query, as :id",
                   tool->name);
    else if (config->auth && strcmp(name + 1, "principal") == 0)
      take_caller(config, tool, at, properties);
    else if (!yyjson_obj_get(properties, name + 1))
      no_argument(config, tool, at, name);
  }
  yyjson_doc_free(schema);
}

static void check_columns(serve_config *config, const tool_config *tool, yyjson_val *at,
                          sqlite3_stmt *statement) {
  for (int i = 0; i < sqlite3_column_count(statement); i++)
    for (int j = 0; j < i; j++)
      if (strcmp(sqlite3_column_name(statement, i), sqlite3_column_name(statement, j)) == 0)
        source_fault(&config->source, at, "tool %s: two columns are called %s: rename one with AS",
                     tool->name, sqlite3_column_name(statement, i));
}

/* Where it is about the database, it is told there, and of a script by its name. */
static void query_fault(serve_config *config, const tool_config *tool, yyjson_val *value,
                        const char *why) {
  bool database = strncmp(why, NO_DATABASE, strlen(NO_DATABASE)) == 0;
  const char *key = !database ? "query" : tool->script ? "script" : "database";
  yyjson_val *at = yyjson_obj_get(value, key);
  if (database && tool->script)
    source_fault(&config->source, at, "tool %s: the query %s, in %s", tool->name, why,
                 yyjson_get_str(at));
  else
    source_fault(&config->source, at, "tool %s: the query %s", tool->name, why);
}

/* Without its database, which was told of, tables are unknown, but not how a statement is written. */
static void check_writing(serve_config *config, const tool_config *tool) {
  static const char *const faults[] = {"syntax error", "unrecognized token", "incomplete input"};
  yyjson_val *at = yyjson_obj_get(yyjson_obj_iter_get_val(tool->key), "query");
  sqlite3 *nothing = NULL;
  sqlite3_stmt *statement = NULL;
  if (!tool->query || sqlite3_open(":memory:", &nothing) != SQLITE_OK ||
      sqlite3_prepare_v2(nothing, tool->query, -1, &statement, NULL) == SQLITE_OK)
    at = NULL;
  for (size_t i = 0; at && i < sizeof faults / sizeof *faults; i++)
    if (strstr(sqlite3_errmsg(nothing), faults[i]))
      source_fault(&config->source, at, "tool %s: the query cannot be prepared: %s", tool->name,
                   sqlite3_errmsg(nothing));
  sqlite3_finalize(statement);
  sqlite3_close(nothing);
}

bool query_check(serve_config *config) {
  for (size_t i = 0; i < config->tool_count; i++) {
    tool_config *tool = &config->tools[i];
    char why[256];
    if (tool->is_program) continue;
    if (!tool->database && !tool->script) { /* told already */
      check_writing(config, tool);
      continue;
    }
    yyjson_val *value = yyjson_obj_iter_get_val(tool->key), *at = yyjson_obj_get(value, "query");
    query_limit limit = {.until_us = session_now_us() + tool->deadline_ms * 1000u};
    query_session *session = session_open(tool, &limit, why, sizeof why);
    if (session) {
      check_parameters(config, tool, at, session->statement);
      check_columns(config, tool, at, session->statement);
      session_close(session);
      continue;
    }
    query_fault(config, tool, value, why);
  }
  return config->source.faults == 0;
}
