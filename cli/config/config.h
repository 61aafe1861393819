/* config.h - idem.json, read and checked: plain data for the parts that serve it.
 * Everything in it lives as long as the config. */
#ifndef IDEM_CLI_CONFIG_H
#define IDEM_CLI_CONFIG_H

#include "source.h"
#include "template.h"

#include <idem/containers.h>
#include <idem/http.h>
#include <idem/json.h>
#include <idem/mcp.h>
#include <idem/rpc.h>
#include <idem/schema.h>

typedef struct tool_env {
  const char *assignment; /* NAME=value, or NAME={name} as it stands in the file */
  size_t name_len;
  bool secret;
  const word_template
      *value;        /* the assignment, where arguments are in it; NULL: it is always the same */
  const char *claim; /* of the caller's token, instead of a text; "": who it is; NULL: none */
} tool_env;

/* An argument that names a file inside a folder. */
typedef struct inside_rule {
  const char *argument;
  const char *folder; /* its real path */
} inside_rule;

/* A header of an HTTP call, or a field of its form. */
typedef struct http_field {
  const char *name;
  const char *secret; /* its whole value; NULL: it is the template's */
  word_template value;
} http_field;

typedef struct http_config {
  const char *method;
  const char *origin; /* https://host:port, without a slash at its end */
  word_template path;
  word_template *query; /* name=value pairs */
  size_t query_count;
  http_field *headers;
  size_t header_count;
  bool has_content_type;
  http_field *form;
  size_t form_count;
  yyjson_val *body;          /* in the source; NULL: none */
  word_template *body_texts; /* of its strings, in the order they stand there */
  size_t body_count;
} http_config;

/* Where what a program writes to stderr goes. */
typedef enum errors_mode {
  ERRORS_SHOW = 0, /* its end to the caller when the program fails */
  ERRORS_HIDE,     /* not to the caller */
  ERRORS_LOG,      /* as shown, and to the log */
  ERRORS_WITH,     /* beside the output, also when all went well */
  ERRORS_MERGE     /* into the output, in the order it was written */
} errors_mode;

/* What there is unless the file says otherwise. */
#define CONFIG_IDLE_MS 120000u
#define CONFIG_COMPLETE_MS 5000u
#define CONFIG_OUTPUT_BYTES ((size_t)1 << 20)
#define CONFIG_MAX_ROWS 1000u
#define CONFIG_PROCESSES 1024u
#define CONFIG_MAX_BYTES ((size_t)4 << 20)

typedef struct tool_config {
  yyjson_val *key; /* in the source, for faults */
  yyjson_val *definition;
  bool hidden;      /* runs for the server's own needs; nobody can call it */
  const char *kind; /* for faults; NULL: "tool" */
  const char *name;
  const char *title;
  const char *description;
  const char *annotations;
  const char *input_schema; /* of a hidden one; see config_input_schema */
  const char *output_schema;
  idem_once once;
  idem_schema *input;  /* see config_input */
  idem_schema *output; /* NULL: none */
  bool input_faulty;   /* and told */
  bool has_defaults;   /* in its input schema, which is compiled then */
  bool is_program;     /* and what a program has below is used */
  bool knows_caller;   /* its query has :principal, which is who asks */
  const char *scopes;  /* that a caller's token must have; NULL: none */
  uint64_t deadline_ms;
  uint64_t idle_ms;
  size_t output_bytes;
  size_t processes; /* and threads, that may come of a program at a time */
  /* a program */
  const char *program; /* the real file */
  arguments_template run;
  word_template stdin_text;
  const char *cwd;
  tool_env *env;
  size_t env_count;
  inside_rule *inside;
  size_t inside_count;
  const char *const *folders; /* of `inside`, then the file's; end with NULL */
  uint64_t exit_ok[4];        /* a bit a status; see tool_exit_ok */
  errors_mode errors;
  bool has_stdin;
  bool output_json;
  bool progress;
  bool keep; /* it stays, and is asked in JSON-RPC */
  bool unconfined;
  bool own_tmpdir; /* of each call; else of the tool */
  bool allow_net;
  const char *const *allow_read; /* end with NULL */
  const char *const *allow_write;
  /* a query */
  const char *database;        /* one of the two */
  const char *database_writer; /* a program that may write its folder; NULL: none */
  const char *script;          /* SQL that makes one in memory */
  const char *script_path;
  const char *query;
  bool may_write;
  size_t max_rows;
  /* an HTTP call */
  http_config *http;
} tool_config;

static inline bool tool_exit_ok(const tool_config *tool, int status) {
  return tool->exit_ok[(status & 255) >> 6] >> (status & 63) & 1u;
}

/* Where the values of an argument can be known from. */
typedef struct completion_config {
  const char *const *values; /* ends with NULL; NULL: not from a list */
  size_t tool;               /* of the hidden tool that prints them; NO_TOOL: none */
  bool uses_value; /* it is given what was typed; otherwise its lines are sifted by that */
} completion_config;
#define NO_TOOL SIZE_MAX

typedef struct resource_config {
  yyjson_val *key;
  const char *name;
  const char *title;
  const char *description;
  const char *mime_type;
  const char *path; /* its real path */
  bool is_directory;
  const char *const *include; /* ends with NULL; NULL: every file */
  size_t max_bytes;
  completion_config completion; /* of a directory's paths */
  const char *scopes;           /* as a tool's */
} resource_config;

/* A method that needs scopes. */
typedef struct method_scopes {
  const char *method, *scopes;
} method_scopes;

/* The key "auth". */
typedef struct auth_config {
  idem_http_issuer issuer;
  idem_http_auth http; /* for the listeners */
  method_scopes *methods;
  size_t method_count;
} auth_config;

typedef struct prompt_config {
  yyjson_val *key;
  const char *name;
  const char *title;
  const char *description;
  const char *const *argument_names;
  const char *const *argument_descriptions;
  const bool *argument_required;
  size_t argument_count;
  const char *scopes;             /* as a tool's */
  completion_config *completions; /* one an argument */
  word_template text;
} prompt_config;

/* Programs that were looked for in PATH. */
typedef struct found_program {
  struct found_program *next;
  const char *name;
  const char *path;
  bool plain; /* a program of the system's, no script: bounds_note_outside has looked */
} found_program;

/* Variables of the server's own that tools are given. */
typedef struct own_variable {
  struct own_variable *next;
  const char *name;
  const char *assignment; /* NULL: there is none */
} own_variable;

typedef struct serve_config {
  config_source source;
  config_memory memory;
  idem_buf scratch; /* for texts that are made and used at once */
  found_program *programs;
  found_program *commands;     /* of secrets, by their absolute names */
  found_program *secret_files; /* likewise */
  bool cautious;               /* it is a reload, in which nothing new is run */
  bool readable;               /* whatever its faults, further ones can be looked for */
  own_variable *variables;
  tool_env *usual_env; /* of tools that say nothing of theirs; NULL: not made yet */
  size_t usual_env_count;
  const char *name;
  const char *version;
  const char *title;
  const char *description;
  const char *instructions;
  idem_code_set codes;
  auth_config *auth; /* NULL: no tokens of an authorization server are asked for */
  size_t concurrency;
  size_t queue;
  tool_config *tools; /* the hidden ones come last */
  size_t tool_count;
  size_t shown_count; /* without the hidden ones */
  resource_config *resources;
  size_t resource_count;
  prompt_config *prompts;
  size_t prompt_count;
  idem_secret *secrets; /* values that must never be shown */
  size_t secret_count;
} serve_config;

/* False: it has faults, which were told to the log, or on stderr without one. config_free either way.
 * `cautious`: commands of secrets that were not run before are faults. */
bool config_load(serve_config *self, const char *path, idem_log *log, source_files *files,
                 bool cautious);
void config_free(serve_config *self);
/* "2 tools, 1 resource, 0 prompts", written to `text`. */
#define CONFIG_COUNTS 128
const char *config_counts(const serve_config *self, char text[CONFIG_COUNTS]);

/* Of a tool of its kind. */
uint64_t config_usual_deadline(const tool_config *tool);

/* The parts, one file each; false: faults were told. */
bool config_tool(serve_config *self, yyjson_val *key, tool_config *tool);
bool config_program(serve_config *self, yyjson_val *value, tool_config *tool);
/* The key "auth", and what it offers once all is read. */
void config_auth(serve_config *self, yyjson_val *value);
void config_auth_offer(serve_config *self);
/* Behind it: warns of scopes in "scope_implies" that nothing needs. */
void config_note_implied(serve_config *self);
/* The member "scopes" as words; NULL: absent. */
const char *config_scopes(serve_config *self, yyjson_val *object);
bool config_is_loopback_url(const char *url);
bool config_http(serve_config *self, yyjson_val *value, tool_config *tool);
/* Tells of values that would become a part of a program. */
void config_shell(serve_config *self, yyjson_val *value, const tool_config *tool);
/* Whether arguments of it have defaults, and whether they can be used. */
void config_defaults(serve_config *self, tool_config *tool);
/* A copy of the arguments with the defaults of those that are absent; `coerce`: texts become what the schema
 * asks for. Needs config_input. NULL: no memory, or too deep. */
yyjson_doc *config_fill(const tool_config *tool, yyjson_val *arguments, bool coerce);
/* Tells what is allowed but hardly meant. */
void config_notes(serve_config *self, const tool_config *tool);
/* Whether tools can be served as plain methods; false: told. */
bool config_suits_plain(serve_config *self);
/* Where a program of that name is; NULL: nowhere in PATH. */
const char *config_search_path(serve_config *self, const char *name);
/* "~" or "~/...", which only a shell would read. */
bool config_is_home(const char *text);
/* A tool that prints values, one a line: told what was typed as {value}, and the other arguments. */
void config_completion(serve_config *self, yyjson_val *value, const char *owner,
                       const char *const *names, size_t count, completion_config *completion);
/* The text of the input schema, until the next text is made. */
const char *config_input_schema(serve_config *self, const tool_config *tool);
/* Compiles the input schema where that has not been done; false: told. A server compiles what it
 * serves itself, so that a start needs not do it twice. */
bool config_input(serve_config *self, tool_config *tool);
bool config_inputs(serve_config *self);
bool config_environment(serve_config *self, yyjson_val *value, tool_config *tool);
bool config_resource(serve_config *self, yyjson_val *key, resource_config *resource);
bool config_prompt(serve_config *self, yyjson_val *key, prompt_config *prompt);

/* The text a reference stands for, remembered as what must never be shown; NULL: told. */
const char *config_secret(serve_config *self, const tool_config *tool, yyjson_val *reference);

/* Tells of names in templates that are no arguments of the tool. */
typedef struct name_check {
  serve_config *config;
  tool_config *tool;
  yyjson_val *at;
  idem_map names; /* of the arguments */
  yyjson_doc *schema;
} name_check;
void name_check_init(name_check *self, serve_config *config, tool_config *tool);
void name_check_deinit(name_check *self);
bool name_check_see(void *self, const char *name, size_t len);
void name_check_word(name_check *self, yyjson_val *at, const word_template *word);
/* `words` is what `run` was compiled to. */
void name_check_run(name_check *self, yyjson_val *run, const arguments_template *words);

/* Helpers for them. */
const char *config_text(yyjson_val *object, const char *name); /* NULL: absent */
uint64_t config_number(yyjson_val *object, const char *name, uint64_t otherwise);
bool config_true(yyjson_val *object, const char *name);
/* Whose fault it is: "tool", "search". */
typedef struct config_owner {
  const char *kind, *name;
} config_owner;
/* Beside the configuration, unless it is absolute. */
const char *config_join(serve_config *self, const char *path);
/* The real path of a file or folder that the text `at` names, relative to the configuration; NULL: told. */
const char *config_path(serve_config *self, config_owner owner, yyjson_val *at, const char *what);
/* The same, and a change of it is a reason to read the configuration again. */
const char *config_file(serve_config *self, config_owner owner, yyjson_val *at, const char *what);
/* Tells of a schema that a tool has as `member`, at the place where it is wrong. */
void config_schema_fault(serve_config *self, const tool_config *tool, const char *member,
                         const idem_schema_fault *fault);
/* A member as JSON text, or NULL. */
const char *config_json(serve_config *self, yyjson_val *value);

#endif
