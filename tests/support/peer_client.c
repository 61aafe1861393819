/* peer_client.c - see peer_client.h. Calls are counted from 1 in the order in which they were asked, questions and
 * refusals in the order in which they came. */
#include "peer_client.h"

#include "peer.h"

#include "mcp_client/mcp_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 256
#define QUESTIONS 64

typedef struct asked {
  peer *p;
  unsigned number;
  uint64_t handle;
} asked;

struct client_side {
  idem_mcp_client *client;
  asked calls[CALLS];
  unsigned call_count;
  idem_mcp_question *questions[QUESTIONS]; /* NULL: answered */
  unsigned question_count;
  idem_mcp_refusal *refusal;
  bool quiet; /* a handshake that nobody looks at */
};

/* ------------------------------------------------------------------ what is told */

static char *json_of(yyjson_val *value) {
  char *text = value ? yyjson_val_write(value, 0, NULL) : strdup("-");
  if (!text) abort();
  return text;
}

static const char *fate_word(idem_mcp_fate fate) {
  static const char *const words[] = {"answered", "not sent", "unknown", "outcome unknown"};
  return words[fate];
}

static void see_good(peer *p, unsigned number, const idem_mcp_result *result) {
  yyjson_val *shown = result->task ? result->task : result->items ? result->items : result->result;
  char *text = json_of(shown);
  peer_see(p, "call %u %s %s%s%s%s", number, result->task ? "task" : "ok", text,
           result->is_error ? " isError" : "", result->from_cache ? " from cache" : "",
           result->replayed ? " replayed" : "");
  if (result->skill_text) peer_see(p, "skill %.*s", (int)result->skill_len, result->skill_text);
  free(text);
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  const asked *one = user;
  peer *p = one->p;
  (void)client;
  p->calls_ended++;
  if (result->status == IDEM_OK) {
    see_good(p, one->number, result);
  } else if (result->status == IDEM_E_REMOTE) {
    char *data = result->data ? json_of(result->data) : NULL;
    bool known = result->fate == IDEM_MCP_ANSWERED;
    peer_see(p, "call %u remote %lld %.*s%s%s%s%s", one->number, (long long)result->code,
             (int)result->message_len, result->message, data ? " " : "", data ? data : "",
             known ? "" : ", ", known ? "" : fate_word(result->fate));
    free(data);
  } else {
    peer_see(p, "call %u %s, %s%s%.*s", one->number, peer_status_word(result->status),
             fate_word(result->fate), result->message_len ? ": " : "", (int)result->message_len,
             result->message ? result->message : "");
  }
}

static void on_progress(idem_mcp_client *client, const idem_mcp_progress *news, void *user) {
  const asked *one = user;
  char total[32] = "";
  (void)client;
  if (news->total > 0) snprintf(total, sizeof total, "/%g", news->total);
  peer_see(one->p, "progress %u %s%s%g%s%s%.*s", one->number,
           news->task_status ? news->task_status : "", news->task_status ? " " : "", news->progress,
           total, news->message ? " " : "", (int)news->message_len,
           news->message ? news->message : "");
}

static void on_begin(idem_mcp_client *client, uint64_t call, yyjson_val *honoured, void *user) {
  const asked *one = user;
  char *text = json_of(honoured);
  (void)client, (void)call;
  peer_see(one->p, "begun %u %s", one->number, text);
  free(text);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  peer *p = user;
  if (p->asking->quiet) return;
  if (status == IDEM_OK)
    peer_see(p, "ready %s", idem_mcp_revision_date(idem_mcp_client_revision(client)));
  else
    peer_see(p, "ready %s: %s", peer_status_word(status), idem_mcp_client_trouble(client).text);
}

static void on_question(idem_mcp_client *client, idem_mcp_question *question, void *user) {
  static const char *const kinds[] = {
      [IDEM_ASK_FORM] = "form", [IDEM_ASK_URL] = "url", [IDEM_ASK_SAMPLING] = "sampling"};
  peer *p = user;
  client_side *self = p->asking;
  char *params = json_of(idem_mcp_question_params(question));
  (void)client;
  if (self->question_count == QUESTIONS) abort();
  idem_mcp_question_keep(question);
  self->questions[self->question_count++] = question;
  peer_see(p, "asked %u %s %s", self->question_count, kinds[idem_mcp_question_kind(question)],
           params);
  free(params);
}

static void on_log(idem_mcp_client *client, const idem_mcp_log_line *line, void *user) {
  char *data = json_of(line->data);
  (void)client;
  peer_see(user, "log %d %s", (int)line->level, data);
  free(data);
}

static void on_list_changed(idem_mcp_client *client, idem_mcp_list_kind kind, void *user) {
  static const char *const names[] = {"tools", "resources", "templates", "prompts"};
  (void)client;
  peer_see(user, "changed %s", names[kind]);
}

static void on_updated(idem_mcp_client *client, const char *uri, size_t len, void *user) {
  (void)client;
  peer_see(user, "updated %.*s", (int)len, uri);
}

static void on_task(idem_mcp_client *client, yyjson_val *task, void *user) {
  char *text = json_of(task);
  (void)client;
  peer_see(user, "task %s", text);
  free(text);
}

static void on_url_done(idem_mcp_client *client, const char *id, size_t len, void *user) {
  (void)client;
  peer_see(user, "url done %.*s", (int)len, id);
}

static void on_notification(idem_mcp_client *client, const char *method, size_t len,
                            yyjson_val *params, void *user) {
  char *text = json_of(params);
  (void)client;
  peer_see(user, "heard %.*s %s", (int)len, method, text);
  free(text);
}

static void on_problem(idem_mcp_client *client, const idem_mcp_problem *problem, void *user) {
  (void)client;
  peer_see(user, "problem %s%s%s", problem->what, problem->detail ? ": " : "",
           problem->detail ? problem->detail : "");
}

static void on_lost(idem_mcp_client *client, const idem_mcp_trouble *trouble, void *user) {
  (void)client;
  peer_see(user, "lost %s: %s; %zu not sent, %zu unknown", peer_status_word(trouble->status),
           trouble->text, trouble->not_sent, trouble->unknown);
}

static void on_repeat(idem_mcp_client *client, const idem_mcp_repeat *repeat, void *user) {
  (void)client;
  peer_see(user, "repeat %u in %llu: %s%s%.*s", repeat->count, (unsigned long long)repeat->after_ms,
           peer_status_word(repeat->status), repeat->why_len ? " " : "", (int)repeat->why_len,
           repeat->why ? repeat->why : "");
}

static void on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
  peer *p = user;
  const char *why = idem_mcp_refusal_header(refusal, "WWW-Authenticate", 0);
  (void)client;
  if (p->asking->refusal) return; /* one at a time is kept */
  idem_mcp_refusal_keep(refusal);
  p->asking->refusal = refusal;
  peer_see(p, "refused %d %s", idem_mcp_refusal_status(refusal), why ? why : "-");
}

/* ---------------------------------------------------------------------- asking */

/* What stands before the rest: idle=MS deadline=MS ttl=MS progress task detach fresh meta={...} */
typedef struct wish {
  idem_mcp_call_opts opts;
  char meta[512], key[64];
  const char *rest;
} wish;

static bool take_flag(wish *self, const char *word, size_t len) {
  struct {
    const char *name;
    bool *flag;
  } rows[] = {{"task", &self->opts.task},
              {"detach", &self->opts.detach},
              {"fresh", &self->opts.fresh},
              {"no-key", &self->opts.no_key}};
  if (len == 8 && memcmp(word, "progress", 8) == 0) {
    self->opts.on_progress = on_progress;
    return true;
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strlen(rows[i].name) != len || memcmp(rows[i].name, word, len) != 0) continue;
    return *rows[i].flag = true;
  }
  return false;
}

static bool take_value(wish *self, const char *word, size_t len) {
  struct {
    const char *name;
    uint64_t *number;
  } rows[] = {{"idle=", &self->opts.idle_ms},
              {"deadline=", &self->opts.deadline_ms},
              {"ttl=", &self->opts.task_ttl_ms}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t name = strlen(rows[i].name);
    if (strncmp(word, rows[i].name, name) != 0) continue;
    *rows[i].number = strtoull(word + name, NULL, 10);
    return true;
  }
  if (strncmp(word, "key=", 4) == 0) {
    snprintf(self->key, sizeof self->key, "%.*s", (int)(len - 4), word + 4);
    self->opts.key = self->key;
    return true;
  }
  if (strncmp(word, "meta=", 5) != 0) return false;
  snprintf(self->meta, sizeof self->meta, "%.*s", (int)(len - 5), word + 5);
  self->opts.meta = self->meta;
  return true;
}

static void read_wish(wish *self, const char *rest) {
  *self = (wish){.rest = rest};
  while (*self->rest) {
    size_t len = strcspn(self->rest, " ");
    if (!take_flag(self, self->rest, len) && !take_value(self, self->rest, len)) return;
    self->rest += len;
    while (*self->rest == ' ') self->rest++;
  }
}

/* A word, and what is behind it. */
static const char *take_word(const char **rest, char word[256]) {
  int at = 0;
  word[0] = 0;
  sscanf(*rest, "%255s %n", word, &at);
  *rest += at;
  return word;
}

static asked *next_call(peer *p) {
  client_side *self = p->asking;
  if (self->call_count == CALLS) abort();
  asked *one = &self->calls[self->call_count];
  *one = (asked){.p = p, .number = self->call_count + 1};
  return one;
}

static void note_call(peer *p, idem_status status) {
  if (status == IDEM_OK) {
    p->asking->call_count++;
    p->calls_started++;
  } else {
    peer_see(p, "call failed %s", peer_status_word(status));
  }
}

static yyjson_mut_doc *read_json(const char *text) {
  yyjson_doc *doc = *text ? yyjson_read(text, strlen(text), 0) : NULL;
  yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
  yyjson_doc_free(doc);
  return copy;
}

#define ASK(name)                                                                                  \
  static idem_status ask_##name(idem_mcp_client *client, const char *rest,                         \
                                const idem_mcp_call_opts *opts, asked *one)

ASK(list) {
  static const char *const names[] = {"tools", "resources", "templates", "prompts"};
  unsigned kind = 0;
  while (kind < 4 && strcmp(names[kind], rest) != 0) kind++;
  return idem_mcp_list(client, (idem_mcp_list_kind)kind, opts, on_result, one, &one->handle);
}

ASK(tool) {
  char name[256];
  take_word(&rest, name);
  return idem_mcp_call_tool_json(client, name, *rest ? rest : NULL, strlen(rest), opts, on_result,
                                 one, &one->handle);
}

/* The same with values instead of text. */
ASK(tool_value) {
  char name[256];
  take_word(&rest, name);
  yyjson_mut_doc *doc = read_json(rest);
  idem_status status = idem_mcp_call_tool(client, name, yyjson_mut_doc_get_root(doc), opts,
                                          on_result, one, &one->handle);
  yyjson_mut_doc_free(doc);
  return status;
}

ASK(read) { return idem_mcp_read(client, rest, opts, on_result, one, &one->handle); }

ASK(prompt) {
  char name[256];
  take_word(&rest, name);
  yyjson_mut_doc *doc = read_json(rest);
  idem_status status = idem_mcp_get_prompt(client, name, yyjson_mut_doc_get_root(doc), opts,
                                           on_result, one, &one->handle);
  yyjson_mut_doc_free(doc);
  return status;
}

/* prompt|uri SUBJECT ARGUMENT VALUE [CONTEXT] */
ASK(complete) {
  char kind[256], subject[256], argument[256], value[256];
  take_word(&rest, kind);
  take_word(&rest, subject);
  take_word(&rest, argument);
  take_word(&rest, value);
  yyjson_mut_doc *doc = read_json(rest);
  bool prompt = strcmp(kind, "prompt") == 0;
  idem_mcp_completion what = {.prompt = prompt ? subject : NULL,
                              .uri_template = prompt ? NULL : subject,
                              .argument = argument,
                              .value = value,
                              .context = yyjson_mut_doc_get_root(doc)};
  idem_status status = idem_mcp_complete(client, &what, opts, on_result, one, &one->handle);
  yyjson_mut_doc_free(doc);
  return status;
}

ASK(subscribe) { return idem_mcp_subscribe(client, rest, opts, on_result, one, &one->handle); }
ASK(unsubscribe) { return idem_mcp_unsubscribe(client, rest, opts, on_result, one, &one->handle); }
ASK(ping) {
  (void)rest;
  return idem_mcp_client_ping(client, opts, on_result, one, &one->handle);
}
ASK(level) {
  return idem_mcp_set_level(client, (idem_mcp_level)strtol(rest, NULL, 10), opts, on_result, one,
                            &one->handle);
}

/* tools prompts resources uri=URI task=ID, in any order. */
ASK(listen) {
  char words[8][256];
  const char *uris[8] = {NULL}, *tasks[8] = {NULL};
  size_t uri_count = 0, task_count = 0;
  idem_mcp_listening what = {.on_begin = on_begin};
  for (size_t i = 0; i < 7 && *rest; i++) {
    const char *word = take_word(&rest, words[i]);
    if (strcmp(word, "tools") == 0) what.tools = true;
    if (strcmp(word, "prompts") == 0) what.prompts = true;
    if (strcmp(word, "resources") == 0) what.resources = true;
    if (strncmp(word, "uri=", 4) == 0) uris[uri_count++] = word + 4;
    if (strncmp(word, "task=", 5) == 0) tasks[task_count++] = word + 5;
  }
  what.uris = uris;
  what.tasks = tasks;
  return idem_mcp_listen(client, &what, opts, on_result, one, &one->handle);
}

ASK(task_get) { return idem_mcp_task_get(client, rest, opts, on_result, one, &one->handle); }
ASK(task_wait) { return idem_mcp_task_wait(client, rest, opts, on_result, one, &one->handle); }
ASK(task_cancel) { return idem_mcp_task_cancel(client, rest, opts, on_result, one, &one->handle); }
ASK(task_result) { return idem_mcp_task_result(client, rest, opts, on_result, one, &one->handle); }
ASK(task_update) {
  char task[256];
  take_word(&rest, task);
  return idem_mcp_task_update(client, task, rest, strlen(rest), opts, on_result, one, &one->handle);
}
ASK(task_list) {
  (void)rest;
  return idem_mcp_task_list(client, opts, on_result, one, &one->handle);
}
ASK(skills) {
  (void)rest;
  return idem_mcp_list_skills(client, opts, on_result, one, &one->handle);
}
/* URI ENTRY */
ASK(skill) {
  char uri[256];
  take_word(&rest, uri);
  yyjson_doc *doc = yyjson_read(rest, strlen(rest), 0);
  idem_status status = idem_mcp_load_skill(client, yyjson_doc_get_root(doc), uri, opts, on_result,
                                           one, &one->handle);
  yyjson_doc_free(doc);
  return status;
}
ASK(method) {
  char method[256];
  take_word(&rest, method);
  return idem_mcp_method(client, method, *rest ? rest : NULL, strlen(rest), opts, on_result, one,
                         &one->handle);
}

static const struct {
  const char *word;
  idem_status (*ask)(idem_mcp_client *client, const char *rest, const idem_mcp_call_opts *opts,
                     asked *one);
} asks[] = {{"list", ask_list},
            {"tool", ask_tool},
            {"tool-value", ask_tool_value},
            {"read", ask_read},
            {"prompt", ask_prompt},
            {"complete", ask_complete},
            {"subscribe", ask_subscribe},
            {"unsubscribe", ask_unsubscribe},
            {"ping", ask_ping},
            {"level", ask_level},
            {"listen", ask_listen},
            {"task-get", ask_task_get},
            {"task-wait", ask_task_wait},
            {"task-cancel", ask_task_cancel},
            {"task-result", ask_task_result},
            {"task-update", ask_task_update},
            {"task-list", ask_task_list},
            {"skills", ask_skills},
            {"skill", ask_skill},
            {"method", ask_method}};

/* ------------------------------------------------------------------ other actions */

static void see_failure(peer *p, const char *what, idem_status status) {
  if (status != IDEM_OK) peer_see(p, "%s %s", what, peer_status_word(status));
}

static void act_tell(peer *p, const char *rest) {
  char method[256];
  take_word(&rest, method);
  see_failure(p, "tell",
              idem_mcp_notify(p->asking->client, method, *rest ? rest : NULL, strlen(rest)));
}

static void act_cancel(peer *p, const char *rest) {
  unsigned long number = strtoul(rest, NULL, 10);
  const client_side *self = p->asking;
  if (!number || number > self->call_count) {
    peer_see(p, "cancel notfound");
    return;
  }
  see_failure(p, "cancel", idem_mcp_cancel(self->client, self->calls[number - 1].handle));
}

static void act_retry_call(peer *p, const char *rest) {
  unsigned long number = strtoul(rest, NULL, 10);
  const client_side *self = p->asking;
  if (number && number <= self->call_count)
    see_failure(p, "retry-call", idem_mcp_retry(self->client, self->calls[number - 1].handle));
}

static idem_mcp_question *take_question(peer *p, const char **rest, unsigned long *number) {
  char *end;
  *number = strtoul(*rest, &end, 10);
  *rest = end + (*end == ' ');
  client_side *self = p->asking;
  if (!*number || *number > self->question_count) return NULL;
  idem_mcp_question *question = self->questions[*number - 1];
  self->questions[*number - 1] = NULL;
  return question;
}

static void act_accept(peer *p, const char *rest) {
  unsigned long number;
  char why[256] = "";
  idem_mcp_question *question = take_question(p, &rest, &number);
  if (!question) return;
  yyjson_mut_doc *doc = read_json(rest);
  idem_status status = idem_mcp_accept(question, yyjson_mut_doc_get_root(doc), why, sizeof why);
  if (status == IDEM_E_INVAL) { /* it waits on */
    p->asking->questions[number - 1] = question;
    peer_see(p, "accept %s: %s", peer_status_word(status), why);
  } else {
    see_failure(p, "accept", status);
  }
  yyjson_mut_doc_free(doc);
}

static void act_sampled(peer *p, const char *rest) {
  unsigned long number;
  idem_mcp_question *question = take_question(p, &rest, &number);
  if (!question) return;
  yyjson_mut_doc *doc = read_json(rest);
  idem_status status = idem_mcp_sampled(question, yyjson_mut_doc_get_root(doc));
  if (status == IDEM_E_INVAL) p->asking->questions[number - 1] = question;
  see_failure(p, "sampled", status);
  yyjson_mut_doc_free(doc);
}

static void act_decline(peer *p, const char *rest) {
  unsigned long number;
  idem_mcp_question *question = take_question(p, &rest, &number);
  if (question) see_failure(p, "decline", idem_mcp_decline(question));
}

static void act_dismiss(peer *p, const char *rest) {
  unsigned long number;
  idem_mcp_question *question = take_question(p, &rest, &number);
  if (question) see_failure(p, "dismiss", idem_mcp_dismiss(question));
}

static void act_roots(peer *p, const char *rest) {
  see_failure(p, "roots", idem_mcp_client_set_roots(p->asking->client, rest, strlen(rest)));
}

/* MS JSON */
static void act_learn(peer *p, const char *rest) {
  char *json;
  unsigned long long ms = strtoull(rest, &json, 10);
  json += *json == ' ';
  see_failure(p, "learn", idem_mcp_client_learn_tools(p->asking->client, json, strlen(json), ms));
}

static void act_fault(peer *p, const char *rest) {
  const char *why = idem_mcp_tool_fault(p->asking->client, rest);
  peer_see(p, "fault %s", why ? why : "none");
}

/* The headers for it: "Name: value"; nothing: given up. */
static void act_retry(peer *p, const char *rest) {
  idem_mcp_refusal *refusal = p->asking->refusal;
  const char *const lines[] = {rest, NULL};
  if (!refusal) return;
  p->asking->refusal = NULL;
  if (!*rest) {
    idem_mcp_refusal_give_up(refusal);
    return;
  }
  idem_status status = idem_mcp_refusal_retry(refusal, lines);
  if (status == IDEM_E_INVAL) p->asking->refusal = refusal;
  see_failure(p, "retry", status);
}

static void act_close(peer *p, const char *rest) {
  (void)rest;
  idem_mcp_client_close(p->asking->client);
}

/* A handshake of which nothing is looked at: what is answered to server/discover, then to initialize. */
static void swallow(peer *p, const char *line) {
  p->asking->quiet = true;
  peer_feed(p, line, strlen(line));
  p->asking->quiet = false;
  p->messages.taken = p->messages.count;
}

/* [CAPABILITIES] */
static void act_modern(peer *p, const char *rest) {
  char *line = NULL;
  if (asprintf(&line,
               "%s{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"resultType\":\"complete\","
               "\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":%s,\"ttlMs\":0,"
               "\"cacheScope\":\"public\"}}\n",
               p->web ? "1 200 | " : "", *rest ? rest : "{}") < 0)
    abort();
  swallow(p, line);
  free(line);
}

/* DATE [CAPABILITIES]. Over HTTP the session is s1, and the server has no stream of its own. */
static void act_legacy(peer *p, const char *rest) {
  char *line = NULL, date[256];
  take_word(&rest, date);
  swallow(p, p->web ? "1 400 | no\n"
                    : "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":"
                      "\"no\"}}\n");
  if (asprintf(&line,
               "%s{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"%s\","
               "\"capabilities\":%s,\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}\n",
               p->web ? "2 200 | Mcp-Session-Id: s1 | " : "", date, *rest ? rest : "{}") < 0)
    abort();
  swallow(p, line);
  free(line);
  if (!p->web) return;
  swallow(p, "3 202\n");
  swallow(p, "4 405\n");
}

static const struct {
  const char *word;
  void (*act)(peer *p, const char *rest);
} actions[] = {{"tell", act_tell},       {"cancel", act_cancel},         {"accept", act_accept},
               {"sampled", act_sampled}, {"decline", act_decline},       {"dismiss", act_dismiss},
               {"roots", act_roots},     {"learn", act_learn},           {"fault", act_fault},
               {"retry", act_retry},     {"retry-call", act_retry_call}, {"close", act_close},
               {"modern", act_modern},   {"legacy", act_legacy}};

static bool begins(const char *action, const char *word, const char **rest) {
  size_t len = strlen(word);
  if (strncmp(action, word, len) != 0 || (action[len] && action[len] != ' ')) return false;
  *rest = action + len + (action[len] == ' ');
  return true;
}

bool peer_act_client(peer *p, const char *action) {
  const char *rest;
  if (!p->asking) return false;
  for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
    if (!begins(action, asks[i].word, &rest)) continue;
    wish what;
    read_wish(&what, rest);
    note_call(p, asks[i].ask(p->asking->client, what.rest, &what.opts, next_call(p)));
    return true;
  }
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
    if (!begins(action, actions[i].word, &rest)) continue;
    actions[i].act(p, rest);
    return true;
  }
  return false;
}

/* -------------------------------------------------------------------- the life */

static void set_functions(idem_mcp_client_opts *opts, const client_setting *setting) {
  opts->name = "c";
  opts->version = "1";
  if (setting->form) opts->on_form = on_question;
  if (setting->url) opts->on_url = on_question;
  if (setting->sampling) opts->on_sampling = on_question;
  opts->on_log = on_log;
  opts->on_list_changed = on_list_changed;
  opts->on_resource_updated = on_updated;
  opts->on_task = on_task;
  opts->on_url_done = on_url_done;
  opts->on_notification = on_notification;
  opts->on_problem = on_problem;
  opts->on_lost = on_lost;
  opts->on_repeat = on_repeat;
  opts->on_refused = on_refused;
}

idem_status peer_open_client(peer *p, const client_setting *setting, const idem_alloc *alloc,
                             const idem_conn_opts *conn) {
  idem_mcp_client_opts opts = setting->opts;
  idem_conn_opts own = *conn;
  client_side *self = p->asking = calloc(1, sizeof *self);
  if (!self) abort();
  set_functions(&opts, setting);
  opts.user = p;
  opts.alloc = alloc;
  opts.seed = 7;
  idem_status status = idem_mcp_client_new(&opts, &self->client);
  if (status != IDEM_OK) return status;
  self->client->on_ready = on_ready;
  self->client->ready_user = p;
  own.policy = NULL;
  own.on_protocol_error = NULL; /* on_problem tells */
  if (setting->http) return peer_open_web(p, self->client, alloc, &own);
  return idem_mcp_client_open(self->client, &own, on_ready, p, &p->conn);
}

void peer_close_client(peer *p) {
  client_side *self = p->asking;
  if (!self) return;
  idem_mcp_client_free(self->client);
  peer_web_free(p);
  for (unsigned i = 0; i < self->question_count; i++)
    if (self->questions[i]) (void)idem_mcp_dismiss(self->questions[i]);
  if (self->refusal) idem_mcp_refusal_give_up(self->refusal);
  free(self);
  p->asking = NULL;
}
