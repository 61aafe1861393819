/* mcp_schema.c - every message a server or a client sends, checked against the schema of the revision in hand. */
#include "mcp_schema.h"

#include <idem/schema.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODERN = MCP_TEST_REVISIONS - 1, TYPES = 64 };
const char *const mcp_test_revisions[MCP_TEST_REVISIONS] = {
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};
/* The newest that allows errors without an id, for those that came before a handshake. */
enum { FALLBACK = 3 };

/* ------------------------------------------------------------------- schemas */

/* The tasks extension stands in no schema of a revision: its shapes, by what it says of them. */
#define TASK                                                                                       \
  "\"taskId\":{\"type\":\"string\"},\"status\":{\"enum\":[\"working\",\"input_required\","         \
  "\"completed\",\"cancelled\",\"failed\"]},\"statusMessage\":{\"type\":\"string\"},"              \
  "\"createdAt\":{"                                                                                \
  "\"type\":\"string\"},\"lastUpdatedAt\":{\"type\":\"string\"},\"ttlMs\":{\"type\":[\"integer\"," \
  "\"null\"]},\"pollIntervalMs\":{\"type\":\"integer\"}"
#define TASK_NEEDS "\"taskId\",\"status\",\"createdAt\",\"lastUpdatedAt\",\"ttlMs\""
#define WHEN(STATUS, NEEDS)                                                                        \
  "{\"if\":{\"properties\":{\"status\":{\"const\":\"" STATUS                                       \
  "\"}}},\"then\":{\"required\":[\"" NEEDS "\"],\"properties\":{\"" NEEDS                          \
  "\":{\"type\":\"object\"}}},\"else\":{\"not\":{\"required\":[\"" NEEDS "\"]}}}"
#define DETAILS                                                                                    \
  "\"allOf\":[" WHEN("input_required", "inputRequests") "," WHEN("completed", "result") "," WHEN(  \
      "failed", "error") "]"
static const struct {
  const char *name, *text;
} extension[] = {
    {"ext CreateTaskResult",
     "{\"type\":\"object\",\"properties\":{\"resultType\":{\"const\":\"task\"},\"_meta\":{\"type\":"
     "\"object\"}," TASK "},\"required\":[\"resultType\"," TASK_NEEDS
     "],\"additionalProperties\":false}"},
    {"ext GetTaskResult",
     "{\"type\":\"object\",\"properties\":{\"resultType\":{\"const\":\"complete\"}," TASK
     "},\"required\":[\"resultType\"," TASK_NEEDS "]," DETAILS "}"},
    {"ext Acknowledgement", "{\"type\":\"object\",\"properties\":{\"resultType\":{\"const\":"
                            "\"complete\"},\"_meta\":{\"type\":\"object\"}},"
                            "\"required\":[\"resultType\"],\"additionalProperties\":false}"},
    {"ext TaskNotification",
     "{\"type\":\"object\",\"properties\":{\"jsonrpc\":{\"const\":\"2.0\"},\"method\":{\"const\":"
     "\"notifications/"
     "tasks\"},\"params\":{\"type\":\"object\",\"properties\":{\"_meta\":{\"type\":\"object\"}"
     "," TASK "},\"required\":[\"_meta\"," TASK_NEEDS "]," DETAILS
     "}},\"required\":[\"jsonrpc\",\"method\",\"params\"],"
     "\"additionalProperties\":false}"},
};

typedef struct type {
  char name[64];
  idem_schema *schema; /* NULL: the revision has no such type */
} type;

static struct {
  char *text[MCP_TEST_REVISIONS];
  type types[MCP_TEST_REVISIONS][TYPES];
  size_t counts[MCP_TEST_REVISIONS];
  idem_schema_ctx *ctx;
  bool looked, absent;
} data;

static void free_data(void) {
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    free(data.text[i]);
    for (size_t k = 0; k < data.counts[i]; k++) idem_schema_free(data.types[i][k].schema);
  }
  idem_schema_ctx_free(data.ctx);
}

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t len = 0, got;
  if (!file) return NULL;
  do {
    text = realloc(text, len + 65537);
    if (!text) abort();
    got = fread(text + len, 1, 65536, file);
    len += got;
    text[len] = 0;
  } while (got);
  fclose(file);
  return text;
}

/* Tests run in the project's root. */
static void find_data(void) {
  const char *folder = getenv("IDEM_TEST_DATA"), *ci = getenv("CI");
  if (data.looked) return;
  data.looked = true;
  for (size_t i = 0; i < MCP_TEST_REVISIONS && !data.absent; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/mcp-schema/%s.json", folder ? folder : "../shared/data",
             mcp_test_revisions[i]);
    data.text[i] = read_file(path);
    if (data.text[i]) continue;
    data.absent = true;
    fprintf(stderr, "MCP's schemas are absent (%s): messages were NOT checked against them\n",
            path);
    if (ci && strcmp(ci, "true") == 0) exit(1);
  }
  if (idem_schema_ctx_new(NULL, &data.ctx) != IDEM_OK) abort();
  atexit(free_data);
}

static const char *extension_text(const char *name) {
  for (size_t i = 0; i < sizeof extension / sizeof extension[0]; i++) {
    if (strcmp(extension[i].name, name) == 0) return extension[i].text;
  }
  return NULL;
}

static idem_schema *compile_text(const char *text, size_t len, const char *name) {
  idem_schema_fault fault;
  idem_schema *schema = NULL;
  if (idem_schema_compile(NULL, text, len, &schema, &fault) == IDEM_OK) return schema;
  fprintf(stderr, "%s: %s\n", name, fault.sentence);
  exit(1);
}

/* The whole file, with one of its types as the root. */
static idem_schema *compile(size_t revision, const char *name) {
  const char *own = extension_text(name);
  if (own) return compile_text(own, strlen(own), name);
  yyjson_doc *parsed = yyjson_read(data.text[revision], strlen(data.text[revision]), 0);
  yyjson_mut_doc *doc = yyjson_doc_mut_copy(parsed, NULL);
  yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
  const char *holder = yyjson_mut_obj_get(root, "$defs") ? "$defs" : "definitions";
  idem_schema *schema = NULL;
  if (yyjson_mut_obj_get(yyjson_mut_obj_get(root, holder), name)) {
    char reference[128];
    snprintf(reference, sizeof reference, "#/%s/%s", holder, name);
    yyjson_mut_obj_add_strcpy(doc, root, "$ref", reference);
    size_t len = 0;
    char *text = yyjson_mut_write(doc, 0, &len);
    schema = compile_text(text, len, name);
    free(text);
  }
  yyjson_mut_doc_free(doc);
  yyjson_doc_free(parsed);
  return schema;
}

static idem_schema *schema_of(size_t revision, const char *name) {
  type *types = data.types[revision];
  size_t *count = &data.counts[revision];
  for (size_t i = 0; i < *count; i++) {
    if (strcmp(types[i].name, name) == 0) return types[i].schema;
  }
  if (*count == TYPES) abort();
  snprintf(types[*count].name, sizeof types[*count].name, "%s", name);
  types[*count].schema = compile(revision, name);
  return types[(*count)++].schema;
}

/* -------------------------------------------------------------- the conversation */

typedef struct asked {
  struct asked *next;
  char *id; /* as JSON text */
  char *method;
  int revision; /* -1: the session's */
} asked;

struct mcp_schema {
  asked *asked;
  int session; /* -1: none */
  bool modern; /* something was asked in the modern way */
  bool failed;
};

mcp_schema *mcp_schema_new(void) {
  mcp_schema *checker = calloc(1, sizeof *checker);
  if (!checker) abort();
  checker->session = -1;
  find_data();
  return checker;
}

static int find_revision(yyjson_val *date) {
  for (int i = 0; i < MCP_TEST_REVISIONS; i++) {
    if (yyjson_equals_str(date, mcp_test_revisions[i])) return i;
  }
  return -1;
}

static void hear_request(mcp_schema *checker, yyjson_val *message) {
  yyjson_val *id = yyjson_obj_get(message, "id");
  const char *method = yyjson_get_str(yyjson_obj_get(message, "method"));
  yyjson_val *meta = yyjson_obj_get(yyjson_obj_get(message, "params"), "_meta");
  if (!id || !method) return;
  asked *one = calloc(1, sizeof *one);
  if (!one) abort();
  bool claim = yyjson_obj_get(meta, "io.modelcontextprotocol/protocolVersion") != NULL;
  one->revision = claim ? MODERN : -1;
  checker->modern |= claim;
  one->id = yyjson_val_write(id, 0, NULL);
  one->method = strdup(method);
  if (!one->id || !one->method) abort();
  one->next = checker->asked;
  checker->asked = one;
}

static void free_asked(asked *one) {
  if (!one) return;
  free(one->id);
  free(one->method);
  free(one);
}

/* The latest with this id, taken out: who uses an id that is in flight is refused at once. */
static asked *take_asked(mcp_schema *checker, yyjson_val *id) {
  char *text = yyjson_val_write(id, 0, NULL);
  asked **at = &checker->asked;
  while (*at && strcmp((*at)->id, text) != 0) at = &(*at)->next;
  asked *one = *at;
  if (one) *at = one->next;
  free(text);
  return one;
}

/* ------------------------------------------------------------------- checking */

/* True when the value is of the type, which the revision must have. */
static bool fits(size_t revision, const char *name, yyjson_val *value, char *why, size_t size) {
  const idem_schema *schema = schema_of(revision, name);
  idem_schema_result result;
  snprintf(why, size, "%s has no %s", mcp_test_revisions[revision], name);
  if (!schema) return false;
  idem_status status = idem_schema_validate(schema, data.ctx, value, NULL, &result);
  if (status == IDEM_OK && result.valid) return true;
  snprintf(why, size, "%s %s: %s", mcp_test_revisions[revision], name,
           result.error_count ? result.errors[0].sentence : idem_status_text(status));
  return false;
}

static void must_fit(mcp_schema *checker, int revision, const char *name, yyjson_val *value) {
  char why[1024];
  if (fits((size_t)revision, name, value, why, sizeof why)) return;
  char *text = yyjson_val_write(value, 0, NULL);
  fprintf(stderr, "not what the schema wants: %s\n  %s\n", why, text);
  free(text);
  checker->failed = true;
}

static const struct {
  const char *method, *type;
} results[] = {
    {"initialize", "InitializeResult"},
    {"ping", "EmptyResult"},
    {"server/discover", "DiscoverResult"},
    {"tools/list", "ListToolsResult"},
    {"tools/call", "CallToolResult"},
    {"resources/list", "ListResourcesResult"},
    {"resources/templates/list", "ListResourceTemplatesResult"},
    {"resources/read", "ReadResourceResult"},
    {"resources/subscribe", "EmptyResult"},
    {"resources/unsubscribe", "EmptyResult"},
    {"subscriptions/listen", "SubscriptionsListenResult"},
    {"prompts/list", "ListPromptsResult"},
    {"prompts/get", "GetPromptResult"},
    {"completion/complete", "CompleteResult"},
    {"logging/setLevel", "EmptyResult"},
    {"tasks/get", "GetTaskResult"},
    {"tasks/result", "CallToolResult"},
    {"tasks/list", "ListTasksResult"},
    {"tasks/cancel", "CancelTaskResult"},
    {"tasks/update", "EmptyResult"},
};

/* What came in a result, by what was asked and what it says it is. */
static const char *result_type(const asked *one, yyjson_val *result) {
  yyjson_val *kind = yyjson_obj_get(result, "resultType");
  if (yyjson_equals_str(kind, "input_required")) return "InputRequiredResult";
  if (yyjson_equals_str(kind, "task")) return "ext CreateTaskResult";
  if (kind && strcmp(one->method, "tasks/get") == 0) return "ext GetTaskResult";
  if (kind && strncmp(one->method, "tasks/", 6) == 0) return "ext Acknowledgement";
  if (!kind && yyjson_obj_get(result, "task")) return "CreateTaskResult";
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    if (strcmp(results[i].method, one->method) == 0) return results[i].type;
  }
  return "Result";
}

static void check_result(mcp_schema *checker, const asked *one, yyjson_val *message) {
  yyjson_val *result = yyjson_obj_get(message, "result");
  if (strcmp(one->method, "initialize") == 0) {
    checker->session = find_revision(yyjson_obj_get(result, "protocolVersion"));
  }
  int revision = one->revision >= 0 ? one->revision : checker->session;
  if (revision < 0) revision = FALLBACK;
  must_fit(checker, revision, "JSONRPCResponse", message);
  must_fit(checker, revision, result_type(one, result), result);
}

/* Errors that exist in 2026-07-28 alone; NULL: any other. */
static const char *modern_error(yyjson_val *message) {
  switch (yyjson_get_sint(yyjson_obj_get(yyjson_obj_get(message, "error"), "code"))) {
  case -32020: return "HeaderMismatchError";
  case -32021: return "MissingRequiredClientCapabilityError";
  case -32022: return "UnsupportedProtocolVersionError";
  default: return NULL;
  }
}

/* Whose id could not be read is compared without it. */
static void check_error(mcp_schema *checker, const asked *one, yyjson_val *message) {
  int revision = one && one->revision >= 0 ? one->revision : checker->session;
  yyjson_mut_doc *mutable = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *copy = yyjson_val_mut_copy(mutable, message);
  bool unknown = yyjson_is_null(yyjson_obj_get(message, "id"));
  if (unknown) yyjson_mut_obj_remove_key(copy, "id");
  if (revision < 0 || (unknown && revision < FALLBACK)) revision = FALLBACK;
  yyjson_mut_doc_set_root(mutable, copy);
  yyjson_doc *doc = yyjson_mut_doc_imut_copy(mutable, NULL);
  must_fit(checker, revision, revision < FALLBACK ? "JSONRPCError" : "JSONRPCErrorResponse",
           yyjson_doc_get_root(doc));
  if (modern_error(message)) {
    must_fit(checker, MODERN, modern_error(message), yyjson_doc_get_root(doc));
  }
  yyjson_doc_free(doc);
  yyjson_mut_doc_free(mutable);
}

/* Where both eras are spoken, either may know it. */
static void check_notification(mcp_schema *checker, yyjson_val *message) {
  char why[1024];
  const char *name = "ServerNotification";
  if (yyjson_equals_str(yyjson_obj_get(message, "method"), "notifications/tasks")) {
    name = "ext TaskNotification";
  }
  if (checker->modern && fits(MODERN, name, message, why, sizeof why)) return;
  must_fit(checker, checker->session >= 0 ? checker->session : MODERN, name, message);
}

static void check_request(mcp_schema *checker, yyjson_val *message) {
  if (checker->session < 0) {
    fprintf(stderr, "a request to a peer that shook no hands\n");
    checker->failed = true;
    return;
  }
  must_fit(checker, checker->session, "JSONRPCRequest", message);
  must_fit(checker, checker->session, "ServerRequest", message);
}

static void check_message(mcp_schema *checker, yyjson_val *message) {
  yyjson_val *id = yyjson_obj_get(message, "id");
  if (yyjson_obj_get(message, "method")) {
    if (id)
      check_request(checker, message);
    else
      check_notification(checker, message);
    return;
  }
  asked *one = id ? take_asked(checker, id) : NULL;
  if (yyjson_obj_get(message, "error")) {
    check_error(checker, one, message);
  } else if (one) {
    check_result(checker, one, message);
  } else {
    fprintf(stderr, "a result that nobody asked for\n");
    checker->failed = true;
  }
  free_asked(one);
}

/* ------------------------------------------------------------------- of a client */

/* What it has agreed on with its server. */
static void hear_version(mcp_schema *checker, yyjson_val *message) {
  yyjson_val *version = yyjson_obj_get(yyjson_obj_get(message, "result"), "protocolVersion");
  if (find_revision(version) >= 0) checker->session = find_revision(version);
}

static bool is_known(yyjson_val *method) {
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
    if (yyjson_equals_str(method, results[i].method)) return true;
  }
  return false;
}

/* Extensions and methods of a program's own stand in no schema. */
static void check_asking(mcp_schema *checker, yyjson_val *message) {
  yyjson_val *params = yyjson_obj_get(message, "params"),
             *method = yyjson_obj_get(message, "method");
  bool claim = yyjson_obj_get(yyjson_obj_get(params, "_meta"),
                              "io.modelcontextprotocol/protocolVersion") != NULL;
  bool task = strncmp(yyjson_get_str(method), "tasks/", 6) == 0;
  int revision = claim ? MODERN : checker->session;
  if (revision < 0) revision = find_revision(yyjson_obj_get(params, "protocolVersion"));
  if (revision < 0) revision = FALLBACK;
  must_fit(checker, revision, "JSONRPCRequest", message);
  if (is_known(method) && !(task && revision == MODERN))
    must_fit(checker, revision, "ClientRequest", message);
}

static void check_telling(mcp_schema *checker, yyjson_val *message) {
  static const char *const known[] = {"notifications/initialized", "notifications/cancelled",
                                      "notifications/progress", "notifications/roots/list_changed"};
  int revision = checker->session >= 0 ? checker->session : MODERN;
  must_fit(checker, revision, "JSONRPCNotification", message);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (yyjson_equals_str(yyjson_obj_get(message, "method"), known[i]))
      must_fit(checker, revision, "ClientNotification", message);
  }
}

static void check_of_client(mcp_schema *checker, yyjson_val *message) {
  yyjson_val *result = yyjson_obj_get(message, "result");
  int revision = checker->session >= 0 ? checker->session : MODERN;
  if (yyjson_obj_get(message, "method")) {
    if (yyjson_obj_get(message, "id"))
      check_asking(checker, message);
    else
      check_telling(checker, message);
  } else if (result) {
    must_fit(checker, revision, "JSONRPCResponse", message);
    must_fit(checker, revision, "ClientResult", result);
  } else {
    check_error(checker, NULL, message);
  }
}

static void trace(mcp_schema *checker, const char *message, size_t len,
                  void (*each)(mcp_schema *, yyjson_val *)) {
  if (data.absent) return;
  yyjson_doc *doc = yyjson_read(message, len, YYJSON_READ_BIGNUM_AS_RAW);
  yyjson_val *root = yyjson_doc_get_root(doc), *item;
  size_t i, max;
  if (yyjson_is_arr(root)) {
    yyjson_arr_foreach(root, i, max, item) each(checker, item);
  } else if (root) {
    each(checker, root);
  }
  yyjson_doc_free(doc);
}

void mcp_schema_trace(mcp_schema *checker, idem_direction direction, const char *message,
                      size_t len) {
  trace(checker, message, len, direction == IDEM_IN ? hear_request : check_message);
}

void mcp_schema_trace_client(mcp_schema *checker, idem_direction direction, const char *message,
                             size_t len) {
  trace(checker, message, len, direction == IDEM_IN ? hear_version : check_of_client);
}

bool mcp_schema_end(mcp_schema *checker) {
  bool good = !checker->failed;
  for (asked *one = checker->asked; one;) {
    asked *next = one->next;
    free_asked(one);
    one = next;
  }
  free(checker);
  return good;
}
