/* transcript.c - reads transcript files: one pass, a line at a time.
 * The files are ours, so a mistake in one ends the program with the line to look at. */
#include "transcript.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_NAME "feed" /* where the servers of clients' transcripts keep keys */

typedef struct reader {
  transcript *script;
  int line;
} reader;

static _Noreturn void complain(const reader *r, const char *what, const char *about) {
  fprintf(stderr, "%s:%d: %s: %s\n", r->script->path, r->line, what, about);
  exit(2);
}

static void *grow(void *items, size_t count, size_t size) {
  void *grown = realloc(items, (count + 1) * size);
  if (!grown) abort();
  memset((char *)grown + count * size, 0, size);
  return grown;
}

/* ------------------------------------------------------------- settings */

static bool read_bool(const reader *r, const char *value) {
  if (strcmp(value, "true") == 0) return true;
  if (strcmp(value, "false") == 0) return false;
  complain(r, "neither true nor false", value);
}

static uint64_t read_number(const reader *r, const char *value) {
  char *end;
  errno = 0;
  uint64_t number = strtoull(value, &end, 10);
  if (errno || end == value || *end) complain(r, "not a number", value);
  return number;
}

static int read_choice(const reader *r, const char *value, const char *const *choices) {
  for (int i = 0; choices[i]; i++) {
    if (strcmp(value, choices[i]) == 0) return i;
  }
  complain(r, "not one of the choices", value);
}

static void set_limit(const reader *r, idem_limits *limits, const char *name, const char *value) {
  uint64_t number = read_number(r, value);
  struct {
    const char *name;
    size_t *size;
    uint64_t *time;
  } rows[] = {
      {"message_bytes", &limits->message_bytes, NULL},
      {"depth", &limits->depth, NULL},
      {"parse_bytes", &limits->parse_bytes, NULL},
      {"in_flight", &limits->in_flight, NULL},
      {"in_flight_id_bytes", &limits->in_flight_id_bytes, NULL},
      {"queued_output_bytes", &limits->queued_output_bytes, NULL},
      {"queued_input_bytes", &limits->queued_input_bytes, NULL},
      {"batch", &limits->batch, NULL},
      {"header_bytes", &limits->header_bytes, NULL},
      {"frame_ms", NULL, &limits->frame_ms},
      {"idle_ms", NULL, &limits->idle_ms},
      {"request_ms", NULL, &limits->request_ms},
      {"call_ms", NULL, &limits->call_ms},
      {"exit_ms", NULL, &limits->exit_ms},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(name, rows[i].name) != 0) continue;
    if (rows[i].size) *rows[i].size = (size_t)number;
    if (rows[i].time) *rows[i].time = number;
    return;
  }
  complain(r, "no such limit", name);
}

static bool set_policy_choice(const reader *r, idem_policy *policy, const char *name,
                              const char *value) {
  static const char *const unknown_id[] = {"null", "omit", NULL};
  static const char *const null_id_error[] = {"report", "fail_only", "fail_all", NULL};
  static const char *const codes[] = {"standard", "modern", "erlmcp", NULL};
  static const char *const error_detail[] = {"full", "reason", "none", NULL};
  static const char *const shutdown_answer[] = {"by_client", "text", "null", NULL};
  static const char *const error_message[] = {"canonical", "cause", NULL};
  if (strcmp(name, "error_message") == 0) {
    policy->error_message = (idem_error_message)read_choice(r, value, error_message);
  } else if (strcmp(name, "unknown_id") == 0) {
    policy->unknown_id = (idem_unknown_id)read_choice(r, value, unknown_id);
  } else if (strcmp(name, "null_id_error") == 0) {
    policy->null_id_error = (idem_null_id_error)read_choice(r, value, null_id_error);
  } else if (strcmp(name, "codes") == 0) {
    policy->codes = (idem_code_set)read_choice(r, value, codes);
  } else if (strcmp(name, "error_detail") == 0) {
    policy->error_detail = (idem_error_detail)read_choice(r, value, error_detail);
  } else if (strcmp(name, "shutdown_answer") == 0) {
    policy->shutdown_answer = (idem_shutdown_answer)read_choice(r, value, shutdown_answer);
  } else if (strcmp(name, "concurrency") == 0) {
    policy->concurrency = (size_t)read_number(r, value);
  } else {
    return false;
  }
  return true;
}

static void set_policy(const reader *r, idem_policy *policy, const char *name, const char *value) {
  struct {
    const char *name;
    bool *field;
  } rows[] = {
      {"null_id", &policy->null_id},
      {"fractional_id", &policy->fractional_id},
      {"null_params", &policy->null_params},
      {"array_params", &policy->array_params},
      {"scalar_params", &policy->scalar_params},
      {"duplicate_members", &policy->duplicate_members},
      {"strict_methods", &policy->strict_methods},
      {"byte_order_mark", &policy->byte_order_mark},
      {"batches", &policy->batches},
      {"notifications_run_methods", &policy->notifications_run_methods},
      {"guard_http", &policy->guard_http},
      {"answer_junk", &policy->answer_junk},
  };
  if (set_policy_choice(r, policy, name, value)) return;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(name, rows[i].name) != 0) continue;
    *rows[i].field = read_bool(r, value);
    return;
  }
  complain(r, "no such policy", name);
}

static void set_profile(const reader *r, scenario *scene, const char *value) {
  static const char *const profiles[] = {"jsonrpc", "lsp", "mcp", NULL};
  scene->profile = (idem_profile)read_choice(r, value, profiles);
  scene->policy = idem_policy_preset(scene->profile);
  if (scene->profile == IDEM_PROFILE_MCP) scene->memory_only = true;
}

static void set_framing(const reader *r, scenario *scene, const char *value) {
  static const char *const framings[] = {"line", "content-length", "whole", NULL};
  scene->policy.framing = (idem_framing)read_choice(r, value, framings);
  if (scene->policy.framing == IDEM_FRAMING_WHOLE) scene->memory_only = true;
}

static void set_mcp_server(scenario *scene) {
  scene->mcp_server = true;
  scene->profile = IDEM_PROFILE_MCP;
  scene->policy = idem_policy_preset(IDEM_PROFILE_MCP);
}

static void set_server(const reader *r, idem_server_opts *server, const char *name,
                       const char *value) {
  struct {
    const char *name;
    uint64_t *time;
    size_t *size;
    bool *flag;
  } fields[] = {
      {"page_size", .size = &server->page_size},
      {"ttl_ms", .time = &server->ttl_ms},
      {"tools_ttl_ms", .time = &server->tools_ttl_ms},
      {"resources_ttl_ms", .time = &server->resources_ttl_ms},
      {"templates_ttl_ms", .time = &server->templates_ttl_ms},
      {"prompts_ttl_ms", .time = &server->prompts_ttl_ms},
      {"read_ttl_ms", .time = &server->read_ttl_ms},
      {"discover_ttl_ms", .time = &server->discover_ttl_ms},
      {"max_tasks", .size = &server->max_tasks},
      {"max_task_bytes", .size = &server->max_task_bytes},
      {"max_subscriptions", .size = &server->max_subscriptions},
      {"input_ms", .time = &server->input_ms},
      {"no_task_status", .flag = &server->no_task_status},
      {"no_logging", .flag = &server->no_logging},
      {"key_ms", .time = &server->key_ms},
      {"max_keys", .size = &server->max_keys},
      {"max_key_bytes", .size = &server->max_key_bytes},
  };
  if (strcmp(name, "more") == 0) { /* capabilities of the program's own */
    server->extensions = "{\"com.example/maps\":{\"zoom\":3}}";
    server->experimental = "{\"wings\":{}}";
    return;
  }
  uint64_t number = read_number(r, value);
  if (strcmp(name, "revisions") == 0) {
    server->revisions = (uint32_t)number;
    return;
  }
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    if (strcmp(name, fields[i].name) != 0) continue;
    if (fields[i].time) *fields[i].time = number;
    if (fields[i].size) *fields[i].size = (size_t)number;
    if (fields[i].flag) *fields[i].flag = number != 0;
    return;
  }
  complain(r, "no such option of the server", name);
}

static void set_mcp_client(scenario *scene) {
  scene->mcp_client = scene->memory_only = true;
  scene->profile = IDEM_PROFILE_MCP;
  scene->policy = idem_policy_preset(IDEM_PROFILE_MCP);
}

static uint32_t read_date(const reader *r, const char *value) {
  static const char *const dates[] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                      "2025-11-25", "2026-07-28", NULL};
  static const uint32_t bits[] = {IDEM_MCP_2024_11_05, IDEM_MCP_2025_03_26, IDEM_MCP_2025_06_18,
                                  IDEM_MCP_2025_11_25, IDEM_MCP_2026_07_28};
  return bits[read_choice(r, value, dates)];
}

/* Keys are 00..., and pauses as short as they may be. */
static void no_random(void *ctx, void *bytes, size_t len) {
  (void)ctx;
  memset(bytes, 0, len);
}

static bool set_client_flag(client_setting *client, const char *name) {
  struct {
    const char *name;
    bool *flag;
  } flags[] = {
      {"http", &client->http},
      {"form", &client->form},
      {"url", &client->url},
      {"sampling", &client->sampling},
      {"sampling_tools", &client->opts.sampling_tools},
      {"sampling_context", &client->opts.sampling_context},
      {"roots", &client->opts.roots},
      {"tasks", &client->opts.tasks},
      {"at_once", &client->opts.at_once},
      {"no_keys", &client->opts.no_keys},
  };
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    if (strcmp(name, flags[i].name) == 0) return *flags[i].flag = true;
  }
  if (strcmp(name, "keys") == 0) {
    client->opts.random = no_random;
    return true;
  }
  if (strcmp(name, "skills") != 0) return false;
  client->opts.extensions = "{\"io.modelcontextprotocol/skills\":{}}";
  return true;
}

static void set_client(const reader *r, client_setting *client, const char *name,
                       const char *value) {
  idem_mcp_client_opts *opts = &client->opts;
  struct {
    const char *name;
    uint64_t *time;
    size_t *size;
  } fields[] = {
      {"probe_ms", .time = &opts->probe_ms},
      {"handshake_ms", .time = &opts->handshake_ms},
      {"idle_ms", .time = &opts->idle_ms},
      {"deadline_ms", .time = &opts->deadline_ms},
      {"repeat_ms", .time = &opts->repeat_ms},
      {"max_calls", .size = &opts->max_calls},
      {"max_items", .size = &opts->max_items},
      {"max_pages", .size = &opts->max_pages},
      {"max_list_bytes", .size = &opts->max_list_bytes},
      {"max_questions", .size = &opts->max_questions},
      {"max_cache_bytes", .size = &opts->max_cache_bytes},
      {"message_bytes", .size = &opts->message_bytes},
  };
  if (!*value && set_client_flag(client, name)) return;
  if (strcmp(name, "revision") == 0) {
    opts->revisions |= read_date(r, value);
    return;
  }
  if (strcmp(name, "known_keys") == 0) {
    opts->known_keys = KEYS_NAME;
    return;
  }
  if (strcmp(name, "known") == 0) {
    opts->known = (idem_revision)read_date(r, value);
    return;
  }
  uint64_t number = read_number(r, value);
  if (strcmp(name, "max_rounds") == 0) {
    opts->max_rounds = (unsigned)number;
    return;
  }
  if (strcmp(name, "max_repeats") == 0) {
    opts->max_repeats = (unsigned)number;
    return;
  }
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    if (strcmp(name, fields[i].name) != 0) continue;
    if (fields[i].time) *fields[i].time = number;
    if (fields[i].size) *fields[i].size = (size_t)number;
    return;
  }
  complain(r, "no such option of the client", name);
}

/* "@ KEY [NAME] [VALUE]" */
static void read_setting(const reader *r, scenario *scene, const char *text) {
  char key[64] = "", first[64] = "", second[64] = "";
  int found = sscanf(text, "%63s %63s %63s", key, first, second);
  if (scene->step_count) complain(r, "settings come before the first step", text);
  if (found == 1 && strcmp(key, "memory") == 0) {
    scene->memory_only = true;
  } else if (found == 1 && strcmp(key, "lines") == 0) {
    scene->lines_only = true;
  } else if (found == 1 && strcmp(key, "sockets") == 0) {
    scene->sockets_only = scene->policy.guard_http = true;
  } else if (found == 2 && strcmp(key, "profile") == 0 && strcmp(first, "mcp-server") == 0) {
    set_mcp_server(scene);
  } else if (found == 2 && strcmp(key, "profile") == 0 && strcmp(first, "mcp-client") == 0) {
    set_mcp_client(scene);
  } else if (found >= 2 && strcmp(key, "client") == 0) {
    set_client(r, &scene->client, first, second);
  } else if (found == 2 && strcmp(key, "principal") == 0) {
    snprintf(scene->principal, sizeof scene->principal, "%s", first);
  } else if (found == 3 && strcmp(key, "server") == 0) {
    set_server(r, &scene->server, first, second);
  } else if (found == 2 && strcmp(key, "profile") == 0) {
    set_profile(r, scene, first);
  } else if (found == 2 && strcmp(key, "framing") == 0) {
    set_framing(r, scene, first);
  } else if (found == 2 && strcmp(key, "methods") == 0 && strcmp(first, "test") == 0) {
    scene->test_methods = scene->memory_only = true;
  } else if (found == 3 && strcmp(key, "limit") == 0) {
    set_limit(r, &scene->policy.limits, first, second);
    scene->memory_only = true;
  } else if (found == 3 && strcmp(key, "policy") == 0) {
    set_policy(r, &scene->policy, first, second);
    scene->memory_only = true;
  } else {
    complain(r, "no such setting", text);
  }
}

/* ---------------------------------------------------------------- texts */

typedef struct bytes {
  char *data;
  size_t len;
} bytes;

static void put(bytes *out, const char *data, size_t len) {
  char *grown = realloc(out->data, out->len + len + 1);
  if (!grown) abort();
  if (len) memcpy(grown + out->len, data, len);
  out->data = grown;
  out->len += len;
  out->data[out->len] = 0;
}

static int hex_digit(const reader *r, char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  complain(r, "\\x wants two small hexadecimal digits", "");
}

static char read_escape(const reader *r, const char **at) {
  char c = *(*at)++;
  switch (c) {
  case 'n': return '\n';
  case 'r': return '\r';
  case 't': return '\t';
  case '"': return '"';
  case '\\': return '\\';
  case 'x': {
    int high = hex_digit(r, *(*at)++);
    return (char)(high * 16 + hex_digit(r, *(*at)++));
  }
  default: complain(r, "unknown escape", *at - 1);
  }
}

/* One quoted piece, at *at behind its opening quote. */
static bytes read_piece(const reader *r, const char **at) {
  bytes piece = {0};
  put(&piece, "", 0);
  while (**at != '"') {
    if (!**at) complain(r, "a quote is not closed", "");
    char c = *(*at)++;
    if (c == '\\') c = read_escape(r, at);
    put(&piece, &c, 1);
  }
  (*at)++;
  return piece;
}

static size_t read_times(const reader *r, const char **at) {
  while (**at == ' ') (*at)++;
  if (**at != '*') return 1;
  char *end;
  size_t times = (size_t)strtoul(*at + 1, &end, 10);
  if (end == *at + 1) complain(r, "* wants a number", *at);
  *at = end;
  return times;
}

/* "text" * 1000 "more" -> the bytes. */
static bytes read_quoted(const reader *r, const char *text) {
  bytes all = {0};
  put(&all, "", 0);
  while (*text) {
    if (*text == ' ') {
      text++;
      continue;
    }
    if (*text++ != '"') complain(r, "expected a quoted text", text - 1);
    bytes piece = read_piece(r, &text);
    for (size_t times = read_times(r, &text); times; times--) put(&all, piece.data, piece.len);
    free(piece.data);
  }
  return all;
}

/* Words of every other MCP message: see docs/internals/tests.md. */
#define CAN                                                                                        \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":"
#define INFO                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"fixture\",\"version\":\"1\","     \
  "\"title\":\"Fixture\",\"description\":\"a fixture\",\"websiteUrl\":\"https://x.example/\","     \
  "\"icons\":[{\"src\":\"https://x.example/i.png\",\"mimeType\":\"image/png\"}]}"

static const struct {
  const char *word, *text;
} words[] = {
    {"$VERSION", IDEM_VERSION},
    {"$KEYS",
     "{\"experimental\":{\"idem/once\":{\"keyMs\":86400000,\"store\":\"" KEYS_NAME "\"}}}"},
    {"$KEY", "\"idem/key\":\"00000000000000000000000000000000\",\"idem/keyMs\":150000"},
    {"$STORE", "cd10636ebb62ac21c8cb756e979f83b3"}, /* where the fixture keeps keys */
    {"$META", CAN "{}}"},
    {"$TASKS", CAN "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}}"},
    {"$CAN", CAN},        /* + capabilities, anything more, } */
    {"$INFO+", INFO ","}, /* + anything more, } */
    {"$INFO", INFO "}"},
};

/* The progress token of the Nth message a client has made a call of, N.SLOT where others are under way: $TOKEN2, $TOKEN3.1.
 */
static const char *put_token(bytes *out, const char *text) {
  char digits[32], *end;
  unsigned long long number = strtoull(text, &end, 10), slot = 0;
  if (*end == '.' && end[1] >= '0' && end[1] <= '9') slot = strtoull(end + 1, &end, 10);
  int len = snprintf(digits, sizeof digits, "%llu", number << 20 | slot);
  put(out, digits, (size_t)len);
  return end;
}

/* An object's text, up to its last brace. */
static size_t object_length(const char *text) {
  size_t depth = 0, at = 0;
  do {
    if (text[at] == '{') depth++;
    if (text[at] == '}') depth--;
    at++;
  } while (depth && text[at]);
  return at;
}

/* $ASK2: the _meta of a client's 2026-07-28 request, with its token; $ASK2{...} with these capabilities; $ASK2+ left open
 * for more members. */
static const char *put_asking(bytes *out, const char *text) {
  static const char head[] = "\"_meta\":{\"progressToken\":";
  static const char version[] = ",\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                                "\"io.modelcontextprotocol/clientCapabilities\":";
  static const char info[] = ",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"c\","
                             "\"version\":\"1\"}";
  put(out, head, sizeof head - 1);
  text = put_token(out, text);
  put(out, version, sizeof version - 1);
  size_t len = *text == '{' ? object_length(text) : 0;
  put(out, len ? text : "{}", len ? len : 2);
  text += len;
  put(out, info, sizeof info - 1);
  if (*text != '+') put(out, "}", 1);
  return text + (*text == '+');
}

/* Words that begin with $ stand for longer texts. */
static bytes read_plain(const char *text) {
  bytes all = {0};
  put(&all, "", 0);
  while (*text) {
    if (strncmp(text, "$TOKEN", 6) == 0) {
      text = put_token(&all, text + 6);
      continue;
    }
    if (strncmp(text, "$ASK", 4) == 0) {
      text = put_asking(&all, text + 4);
      continue;
    }
    size_t i = 0, count = sizeof words / sizeof words[0];
    while (i < count && strncmp(text, words[i].word, strlen(words[i].word)) != 0) i++;
    if (i < count) {
      put(&all, words[i].text, strlen(words[i].text));
      text += strlen(words[i].word);
    } else {
      put(&all, text++, 1);
    }
  }
  return all;
}

/* ---------------------------------------------------------------- steps */

static void add_step(const reader *r, scenario *scene, step_kind kind, bytes text) {
  scene->steps = grow(scene->steps, scene->step_count, sizeof(step));
  scene->steps[scene->step_count++] =
      (step){.kind = kind, .line = r->line, .text = text.data, .len = text.len};
}

static const struct {
  const char *mark;
  step_kind kind;
  bool quoted;
} marks[] = {
    {">> ", STEP_SEND_RAW, true},    {">q ", STEP_SEND, true},   {"> ", STEP_SEND, false},
    {"<? ", STEP_EXPECT_ANY, false}, {"<< ", STEP_EXPECT, true}, {"< ", STEP_EXPECT, false},
    {": ", STEP_ACT, false},         {"= ", STEP_SEE, false},    {"~ ", STEP_ADVANCE, false},
    {"-", STEP_NOTHING, false},      {"$", STEP_EOF, false},     {"!", STEP_CLOSED, false},
};

static void read_step(const reader *r, scenario *scene, const char *line) {
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    size_t len = strlen(marks[i].mark);
    if (strncmp(line, marks[i].mark, len) != 0) continue;
    const char *rest = line + len;
    if (len == 1 && *rest) complain(r, "this mark stands alone", line);
    add_step(r, scene, marks[i].kind, marks[i].quoted ? read_quoted(r, rest) : read_plain(rest));
    step *last = &scene->steps[scene->step_count - 1];
    if (last->kind == STEP_ADVANCE) last->number = read_number(r, rest);
    if (marks[i].kind == STEP_ACT) scene->acts = true;
    if (marks[i].kind == STEP_ADVANCE) scene->memory_only = true;
    return;
  }
  complain(r, "no such step", line);
}

static scenario *start_scenario(const reader *r, const char *name) {
  transcript *script = r->script;
  script->scenarios = grow(script->scenarios, script->count, sizeof(scenario));
  scenario *scene = &script->scenarios[script->count++];
  scene->name = strdup(name);
  scene->line = r->line;
  scene->policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  return scene;
}

static void read_line(const reader *r, const char *line) {
  transcript *script = r->script;
  scenario *scene = script->count ? &script->scenarios[script->count - 1] : NULL;
  if (!*line || *line == '#') return;
  if (strncmp(line, "== ", 3) == 0) {
    start_scenario(r, line + 3);
  } else if (!scene) {
    complain(r, "a scenario begins with == and its promise", line);
  } else if (strncmp(line, "@ ", 2) == 0) {
    read_setting(r, scene, line + 2);
  } else {
    read_step(r, scene, line);
  }
}

transcript *transcript_load(const char *path) {
  transcript *script = calloc(1, sizeof *script);
  if (!script) abort();
  script->path = path;
  reader r = {.script = script};
  FILE *file = fopen(path, "r");
  if (!file) complain(&r, "cannot be read", strerror(errno));
  char *line = NULL;
  size_t size = 0;
  ssize_t len;
  while ((len = getline(&line, &size, file)) >= 0) {
    r.line++;
    if (len && line[len - 1] == '\n') line[len - 1] = 0;
    read_line(&r, line);
  }
  free(line);
  fclose(file);
  if (!script->count) complain(&r, "no scenario in", path);
  return script;
}

void transcript_free(transcript *script) {
  if (!script) return;
  for (size_t i = 0; i < script->count; i++) {
    scenario *scene = &script->scenarios[i];
    for (size_t k = 0; k < scene->step_count; k++) free(scene->steps[k].text);
    free(scene->steps);
    free(scene->name);
  }
  free(script->scenarios);
  free(script);
}

bool step_sends(const step *one) { return one->kind == STEP_SEND || one->kind == STEP_SEND_RAW; }

char *step_wire_bytes(const scenario *scene, const step *one, size_t *len) {
  bytes wire = {0};
  bool framed = one->kind == STEP_SEND;
  if (framed && scene->policy.framing == IDEM_FRAMING_CONTENT_LENGTH) {
    char head[64];
    int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", one->len);
    put(&wire, head, (size_t)n);
  }
  put(&wire, one->text, one->len);
  if (framed && scene->policy.framing == IDEM_FRAMING_LINE) put(&wire, "\n", 1);
  *len = wire.len;
  return wire.data;
}
