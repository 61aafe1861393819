/* options.c - the command line of `idem call`: one row a flag, then words.
 * What stands behind `--` is the command of a server and nobody else's. */
#include "call.h"
#include "callback.h"
#include "cli.h"

#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool (*flag_fn)(call_options *self, const char *value);

/* ------------------------------------------------------------- one function a flag */

static bool choose(call_options *self, call_kind kind, const char *subject) {
  self->why = "one call asks for one thing";
  if (self->kind != CALL_LOOK) return false;
  self->kind = kind;
  self->subject = subject;
  self->why = NULL;
  return *subject;
}
static bool set_read(call_options *self, const char *value) {
  return choose(self, CALL_READ, value);
}
static bool set_prompt(call_options *self, const char *value) {
  return choose(self, CALL_PROMPT, value);
}
static bool set_complete(call_options *self, const char *value) {
  return choose(self, CALL_COMPLETE, value);
}
static bool set_method(call_options *self, const char *value) {
  return choose(self, CALL_METHOD, value);
}
static bool set_notify(call_options *self, const char *value) {
  return choose(self, CALL_NOTIFY, value);
}

static bool set_data(call_options *self, const char *value) {
  self->data = value;
  return *value;
}
static bool set_config(call_options *self, const char *value) {
  self->config = value;
  return *value;
}
static bool set_output(call_options *self, const char *value) {
  self->output = value;
  return *value;
}
static bool set_answers(call_options *self, const char *value) {
  self->answers = value;
  return *value;
}
static bool set_sampling(call_options *self, const char *value) {
  self->sampling = value;
  return *value;
}
static bool set_record(call_options *self, const char *value) {
  self->record = value;
  return *value;
}
static bool set_token_file(call_options *self, const char *value) {
  self->token_file = value;
  return *value;
}
static bool set_token_command(call_options *self, const char *value) {
  self->token_command = value;
  return *value;
}
static bool set_client(call_options *self, const char *value) {
  self->client = value;
  return *value;
}
/* RFC 6749, 3.3: %x21 / %x23-5B / %x5D-7E, in words. */
static bool set_scope(call_options *self, const char *value) {
  self->why = "scopes are words of visible characters, without \" and \\";
  self->scope = value;
  for (const char *at = value; *at; at++)
    if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') return false;
  return value[strspn(value, " ")];
}
static bool set_redirect(call_options *self, const char *value) {
  self->why = "it is a URI such as http://127.0.0.1:8123/callback";
  self->redirect = value;
  return callback_fits(value);
}
static bool set_ca_file(call_options *self, const char *value) {
  self->ca_file = value;
  return *value;
}

static bool set_profile(call_options *self, const char *value) {
  static const char *const names[] = {
      [IDEM_PROFILE_JSONRPC] = "jsonrpc", [IDEM_PROFILE_LSP] = "lsp", [IDEM_PROFILE_MCP] = "mcp"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i], value) != 0) continue;
    self->profile = (idem_profile)i;
    return true;
  }
  return false;
}

/* Nothing in it needs an escape in JSON. */
static bool is_plain(const char *value, size_t most) {
  size_t len = strlen(value);
  for (size_t i = 0; i < len; i++)
    if (value[i] < '!' || value[i] > '~' || value[i] == '"' || value[i] == '\\') return false;
  return len > 0 && len <= most;
}

static bool set_key(call_options *self, const char *value) {
  self->why = "a key has 1 to 255 visible ASCII characters, without \" and \\";
  self->key = value;
  return is_plain(value, 255);
}

static bool set_repeat(call_options *self, const char *value) {
  self->why = "a store's name has 1 to 32 visible ASCII characters, without \" and \\";
  self->repeat = value;
  return is_plain(value, 32);
}

static bool set_revision(call_options *self, const char *value) {
  static const struct {
    const char *date;
    idem_revision bit;
  } rows[] = {{"2024-11-05", IDEM_MCP_2024_11_05},
              {"2025-03-26", IDEM_MCP_2025_03_26},
              {"2025-06-18", IDEM_MCP_2025_06_18},
              {"2025-11-25", IDEM_MCP_2025_11_25},
              {"2026-07-28", IDEM_MCP_2026_07_28}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].date, value) == 0) return self->revisions |= (uint32_t)rows[i].bit;
  self->why = "revisions are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28";
  return false;
}

static bool add_header(call_options *self, const char *value) {
  const char *colon = strchr(value, ':');
  self->why = "these are too many";
  if (self->header_count == CALL_HEADERS) return false;
  self->why = NULL;
  self->headers[self->header_count++] = value;
  return colon && colon > value && !strpbrk(value, "\r\n");
}

/* "1500ms", "30s", "5m", "1h"; a number alone is seconds. */
static bool read_time(const char *text, uint64_t *ms) {
  static const struct {
    const char *unit;
    double ms;
  } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"min", 60000}, {"h", 3600000}};
  char *end;
  if (!*text || !strchr("0123456789.", *text)) return false;
  double number = strtod(text, &end);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(units[i].unit, end) != 0) continue;
    double wanted = number * units[i].ms;
    if (!(wanted >= 1) || wanted > 1e11) return false;
    *ms = (uint64_t)wanted;
    return true;
  }
  return false;
}
static const char time_form[] = "a time is such as 500ms, 30s or 2m";

static bool set_timeout(call_options *self, const char *value) {
  self->why = time_form;
  return read_time(value, &self->timeout_ms);
}
static bool set_deadline(call_options *self, const char *value) {
  self->why = time_form;
  return read_time(value, &self->deadline_ms);
}

static bool read_number(const char *text, uint64_t most, uint64_t *number) {
  size_t digits = strspn(text, "0123456789");
  if (!digits || digits > 12 || text[digits]) return false;
  *number = strtoull(text, NULL, 10);
  return *number > 0 && *number <= most;
}
static bool set_bench(call_options *self, const char *value) {
  return read_number(value, 100000000000u, &self->bench);
}
static bool set_connections(call_options *self, const char *value) {
  return read_number(value, 10000, &self->connections);
}
static bool set_rate(call_options *self, const char *value) {
  uint64_t rate;
  if (!read_number(value, 10000000, &rate)) return false;
  self->rate = (double)rate;
  return true;
}

#define SWITCH(name)                                                                               \
  static bool set_##name(call_options *self, const char *value) {                                  \
    (void)value;                                                                                   \
    return self->name = true;                                                                      \
  }
SWITCH(json)
SWITCH(raw)
SWITCH(verbose)
SWITCH(no_key)
SWITCH(no_input)
SWITCH(no_cache)
SWITCH(no_verify)
SWITCH(ramp)
SWITCH(login)
SWITCH(device)
SWITCH(open)
SWITCH(stored_only)
SWITCH(logout)
SWITCH(whoami)
SWITCH(private_issuer)

/* Under a heading, if it begins a group; what its value is called; what it does. */
static const struct flag {
  const char *heading;
  const char *name;
  char letter;
  const char *value; /* NULL: takes none */
  const char *about;
  flag_fn set;
} flags[] = {
    {"what to ask for, instead of a tool", "--read", 0, "URI", "read a resource", set_read},
    {NULL, "--prompt", 0, "NAME", "get a prompt, with its NAME=VALUE", set_prompt},
    {NULL, "--complete", 0, "PROMPT|TEMPLATE", "values for the first NAME=VALUE, one a line",
     set_complete},
    {NULL, "--method", 0, "METHOD", "call a method by its name, with -d as its params", set_method},
    {NULL, "--notify", 0, "METHOD", "send a notification", set_notify},
    {"how to say it", "--data", 'd', "JSON|@FILE|-", "arguments or params; - is stdin", set_data},
    {NULL, "--profile", 0, "mcp|jsonrpc|lsp",
     "what is spoken: MCP, plain JSON-RPC, or with Content-Length (mcp)", set_profile},
    {NULL, "--revision", 0, "DATE", "of MCP; may be repeated (what the server has)", set_revision},
    {NULL, "--key", 0, "KEY", "with which the tool runs once, however often it is asked", set_key},
    {NULL, "--no-key", 0, NULL, "send none, and do not ask again when the connection breaks",
     set_no_key},
    {NULL, "--repeat", 0, "STORE", "with --key: it was called before, where this store was",
     set_repeat},
    {"whom to ask", "--config", 0, "FILE", "an mcpServers file to find the name in", set_config},
    {NULL, "--header", 'H', "'NAME: VALUE'", "sent with every HTTP request; may be repeated",
     add_header},
    {NULL, "--ca-file", 0, "FILE", "PEM: whom to trust instead of the system's authorities",
     set_ca_file},
    {NULL, "--no-verify", 0, NULL, "trust any certificate: for experiments", set_no_verify},
    {"who asks, where a server wants to know", "--login", 0, NULL,
     "log in by a browser; the page's address is printed", set_login},
    {NULL, "--device", 0, NULL, "log in by a browser on any machine, with a code", set_device},
    {NULL, "--open", 0, NULL, "open that page here", set_open},
    {NULL, "--client", 0, "ID[:REFERENCE]",
     "known to the authorization server, with a reference to its secret", set_client},
    {NULL, "--scope", 0, "WORDS", "asked for beside what the server wants", set_scope},
    {NULL, "--redirect", 0, "URI", "where the browser comes back to (a free port of 127.0.0.1)",
     set_redirect},
    {NULL, "--private-issuer", 0, NULL, "the authorization server may be in a private network",
     set_private_issuer},
    {NULL, "--stored-only", 0, NULL, "for scripts: with the login that is kept, or not at all",
     set_stored_only},
    {NULL, "--whoami", 0, NULL, "which login a call uses; then nothing is asked", set_whoami},
    {NULL, "--logout", 0, NULL, "forget it, here and at the server: of --client, or all",
     set_logout},
    {NULL, "--token-file", 0, "FILE", "a bearer token, in its first line", set_token_file},
    {NULL, "--token-command", 0, "WORDS", "a command that prints one", set_token_command},
    {"what is printed", "--json", 0, NULL, "structured content, or the whole result, as JSON",
     set_json},
    {NULL, "--verbose", 'v', NULL, "on stderr: keys, and what is asked again", set_verbose},
    {NULL, "--raw", 0, NULL, "every message both ways, with times, on stderr", set_raw},
    {NULL, "--record", 0, "FILE", "the same as a recording, for the page: added at its end",
     set_record},
    {NULL, "--output", 'o', "FILE|FOLDER|-",
     "where the result goes: a file, or a folder for images, audio and other bytes", set_output},
    {"when the server asks", "--answers", 0, "FILE",
     "what to answer: {\"field\": value}, or [a list, one answer for each question]", set_answers},
    {NULL, "--no-input", 0, NULL, "ask nobody: questions are declined", set_no_input},
    {NULL, "--sampling", 0, "COMMAND", "a program that answers for a model, params on its stdin",
     set_sampling},
    {"how long", "--timeout", 0, "TIME", "without a sign of life, such as 500ms, 30s, 2m (60s)",
     set_timeout},
    {NULL, "--deadline", 0, "TIME", "for everything, whatever it says meanwhile (none)",
     set_deadline},
    {NULL, "--no-cache", 0, NULL, "ask for the list of tools, and keep none that was not kept",
     set_no_cache},
    {"measuring", "--bench", 0, "N", "make the call N times and say how long it took", set_bench},
    {NULL, "--connections", 'c', "N", "at once, one call on each (1)", set_connections},
    {NULL, "--rate", 0, "N", "begin so many a second, whatever the answers do", set_rate},
    {NULL, "--ramp", 0, NULL, "find the rate from which answers come late", set_ramp},
};
#define FLAG_COUNT (sizeof flags / sizeof *flags)

void call_options_help(void) {
  for (size_t i = 0; i < FLAG_COUNT; i++) {
    char left[64];
    const struct flag *one = &flags[i];
    const char letter[] = {'-', one->letter, ',', ' ', 0};
    if (one->heading) printf("\n%s:\n", one->heading);
    snprintf(left, sizeof left, "%s%s %s", one->letter ? letter : "", one->name,
             one->value ? one->value : "");
    printf("  %-34s %s\n", left, one->about);
  }
  printf("  %-34s %s\n", "-h, --help", "this text");
}

/* ------------------------------------------------------------------------ the walk */

static bool unknown_flag(const char *text, size_t len) {
  const char *names[FLAG_COUNT];
  for (size_t i = 0; i < FLAG_COUNT; i++) names[i] = flags[i].name;
  const char *near = idem_schema_suggest(text, len, names, FLAG_COUNT);
  fprintf(stderr, "idem call: there is no flag %.*s", (int)len, text);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\ntry: idem help call\n", stderr);
  return false;
}

/* Of "--name", "--name=value", "-n" and "-nvalue"; *value is NULL where it is the next word. */
static const struct flag *find_flag(const char *text, const char **value) {
  size_t len = strcspn(text, "=");
  *value = text[len] ? text + len + 1 : NULL;
  for (size_t i = 0; i < FLAG_COUNT; i++) {
    const struct flag *one = &flags[i];
    if (strlen(one->name) == len && strncmp(one->name, text, len) == 0) return one;
    if (!one->letter || text[1] != one->letter) continue;
    *value = text[2] ? text + 2 : NULL;
    return one;
  }
  return NULL;
}

static bool refuse(const char *what, const char *about) {
  usage_fault(&call_verb, what, about);
  return false;
}

static bool refuse_value(const call_options *self, const struct flag *one, const char *value) {
  char what[512], form[128];
  snprintf(what, sizeof what, "%s %.300s", one->name, value);
  snprintf(form, sizeof form, "this flag wants %s", one->value);
  return refuse(what, self->why ? self->why : form);
}

static bool take_flag(call_options *self, int argc, char **argv, int *index) {
  const char *text = argv[*index], *value;
  const struct flag *one = find_flag(text, &value);
  if (!one) return unknown_flag(text, strcspn(text, "="));
  if (!one->value && value) return refuse("this flag takes no value", text);
  if (one->value && !value) value = *index + 1 < argc ? argv[++*index] : NULL;
  if (one->value && !value) return refuse("a value is missing after", text);
  self->why = NULL;
  return one->set(self, value) || refuse_value(self, one, value);
}

static bool is_flag(const char *word) { return word[0] == '-' && word[1]; }

/* Words are put to the front of argv, in order. */
static bool walk(call_options *self, int argc, char **argv, int *words) {
  *words = 0;
  for (int i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0) {
      self->command = argv + i + 1;
      return *self->command || refuse("--", "the command to start is missing behind it");
    }
    if (!is_flag(argv[i]))
      argv[(*words)++] = argv[i];
    else if (!take_flag(self, argc, argv, &i))
      return false;
  }
  return true;
}

static bool place_words(call_options *self, int count, char **words) {
  int used = 0;
  if (!self->command) {
    if (!count) return refuse("whom to call", "a URL, an idem.json, a name, or -- COMMAND");
    self->target = words[used++];
  }
  if (self->kind == CALL_LOOK && used < count) {
    self->kind = CALL_TOOL;
    self->subject = words[used++];
  }
  self->values = words + used;
  self->value_count = count - used;
  return true;
}

static bool takes_values(call_kind kind) {
  return kind == CALL_TOOL || kind == CALL_PROMPT || kind == CALL_COMPLETE;
}

static bool check_values(const call_options *self) {
  if (self->value_count && !takes_values(self->kind))
    return refuse(self->values[0], "params of a method are given with -d");
  for (int i = 0; i < self->value_count; i++)
    if (!strchr(self->values[i], '=') || *self->values[i] == '=')
      return refuse(self->values[i], "arguments are NAME=VALUE, NAME=@FILE or NAME:=JSON");
  if (self->kind == CALL_COMPLETE && !self->value_count)
    return refuse("--complete", "say what is to be completed as NAME=BEGINNING");
  if (self->data && (self->kind == CALL_READ || self->kind == CALL_COMPLETE))
    return refuse("-d", "this takes none");
  return true;
}

static bool check_together(const call_options *self) {
  bool plain = self->profile != IDEM_PROFILE_MCP;
  if (plain && self->kind != CALL_METHOD && self->kind != CALL_NOTIFY)
    return refuse("--profile", "without MCP there are methods alone: --method or --notify");
  if (self->key && (self->kind != CALL_TOOL || self->bench || self->ramp))
    return refuse("--key", "it belongs to one call of a tool");
  if (self->key && self->no_key) return refuse("--key and --no-key", "one of them");
  if (self->repeat && !self->key) return refuse("--repeat", "it belongs to the --key of that call");
  if ((self->rate > 0 || self->ramp || self->connections) && !self->bench && !self->ramp)
    return refuse("--rate and --connections", "they belong to --bench N");
  if ((self->bench || self->ramp) && self->kind != CALL_TOOL && self->kind != CALL_METHOD &&
      self->kind != CALL_READ && self->kind != CALL_PROMPT)
    return refuse("--bench", "say which call is to be made");
  return true;
}

static bool check_login(const call_options *self) {
  bool person = self->login || self->device, token = self->token_file || self->token_command;
  if (self->login && self->device) return refuse("--login and --device", "one of them");
  if (self->token_file && self->token_command)
    return refuse("--token-file and --token-command", "one of them");
  if (self->stored_only && person) return refuse("--stored-only", "it asks nobody to log in");
  if (token && (person || self->stored_only || self->client))
    return refuse("--token-file and --token-command", "who has a token does not log in");
  if (self->open && !person) return refuse("--open", "it belongs to --login and --device");
  if (self->redirect && !self->login) return refuse("--redirect", "it belongs to --login");
  if (self->scope && !person && !self->client)
    return refuse("--scope", "it belongs to --login, --device and --client");
  if (self->whoami && self->logout) return refuse("--whoami and --logout", "one of them");
  if ((self->whoami || self->logout) && (self->kind != CALL_LOOK || person))
    return refuse("--whoami and --logout", "they stand alone with their target");
  return true;
}

bool call_options_parse(call_options *self, int argc, char **argv, int *code) {
  int words;
  *self = (call_options){.profile = IDEM_PROFILE_MCP};
  *code = CALL_ASKED_WRONGLY;
  return walk(self, argc, argv, &words) && place_words(self, words, argv) && check_values(self) &&
         check_together(self) && check_login(self);
}

void call_options_glance(call_glance *self, int argc, char **argv) {
  int words = 0;
  bool asks_otherwise = false;
  *self = (call_glance){.target = NULL};
  for (int i = 0; i < argc; i++) {
    bool last = i == argc - 1;
    const char *value;
    if (strcmp(argv[i], "--") == 0) {
      self->elsewhere = true;
      return;
    }
    if (!is_flag(argv[i])) {
      if (last) self->at_target = words == 0, self->at_tool = words == 1 && !asks_otherwise;
      if (words == 0) self->target = argv[i];
      if (words == 1) self->tool = argv[i];
      words++;
      continue;
    }
    const struct flag *one = find_flag(argv[i], &value);
    bool apart = one && one->value && !value;
    if (apart && i + 1 < argc) value = argv[++i];
    bool prompt = one && (one->set == set_prompt || one->set == set_complete);
    bool resource = one && (one->set == set_read || one->set == set_complete);
    bool writing = apart && i == argc - 1;
    self->at_prompt = writing && prompt;
    self->at_resource = writing && resource;
    self->elsewhere = last || (writing && !prompt && !resource);
    if (one && one->set == set_config) self->config = value;
    if (prompt) self->prompt = value;
    asks_otherwise = asks_otherwise || prompt || resource || (one && one->set == set_method);
  }
}
