/* server.c - the memory as an MCP server: four tools, memories as resources, one prompt.
 * SQLite waits for disks and for other processes, so it is asked on another thread; what comes back
 * is answered on the loop. The list of resources is changed there only. */
#include "memory.h"

#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------- one question */

/* `text` is the request's own, which stays as long as the request. */
typedef struct job {
  struct service *service;
  void (*ask)(struct job *self); /* on a thread */
  void (*answer)(struct job *self, idem_request *request);
  const char *text;
  size_t len;
  int64_t id;
  int64_t limit;
  idem_status status;
  memories found;
} job;

typedef struct service {
  idem_server *server;
  store *store;
  int64_t listed[LISTED_MAX]; /* a ring of those in resources/list, the oldest at `next` */
  size_t next;
} service;

static void on_thread(void *data) {
  job *self = data;
  self->ask(self);
}

static void on_loop(idem_request *request, void *data) {
  job *self = data;
  self->answer(self, request);
  memories_free(&self->found);
  free(self);
}

/* A copy of `first` goes its way. Without memory the request is left unanswered, which idem does. */
static void start(idem_request *request, const job *first) {
  job *self = malloc(sizeof *self);
  if (!self) return;
  *self = *first;
  if (idem_offload(idem_request_loop(request), request, on_thread, on_loop, self) != IDEM_OK) {
    free(self);
  }
}

static void fail(idem_request *request, idem_status status) {
  switch (status) {
  case IDEM_E_NOTFOUND: idem_tool_failed(request, "There is no such memory."); break;
  case IDEM_E_LIMIT: idem_tool_failed(request, "The memory is full: forget something."); break;
  case IDEM_E_TIMEOUT:
    idem_tool_failed(request, "That takes too long: ask with fewer words.");
    break;
  case IDEM_E_INVAL: idem_tool_failed(request, "There is no word in the query."); break;
  default: idem_tool_failed(request, "The memory cannot be reached; its log says why."); break;
  }
}

/* -------------------------------------------------------------------------- resources */

static void read_ask(job *self) {
  self->status = store_read(self->service->store, self->id, &self->found);
}

static void read_answer(job *self, idem_request *request) {
  if (self->status == IDEM_OK)
    idem_resource_text(request, NULL, self->found.items[0].text, self->found.items[0].len);
  else if (self->status == IDEM_E_NOTFOUND)
    idem_resource_missing(request);
  else
    idem_request_drop(request);
}

/* An id and nothing else: "7", not "07", "+7" or "7x". */
static bool read_id(const char *text, int64_t *id) {
  char canonical[24];
  if (!text) return false;
  *id = strtoll(text, NULL, 10);
  snprintf(canonical, sizeof canonical, "%lld", (long long)*id);
  return *id > 0 && strcmp(canonical, text) == 0;
}

static void read_memory(idem_request *request, const char *uri, void *user) {
  int64_t id;
  if (read_id(strrchr(uri, '/') + 1, &id))
    start(request, &(job){.service = user, .ask = read_ask, .answer = read_answer, .id = id});
  else
    idem_resource_missing(request);
}

static void uri_of(int64_t id, char uri[40]) { snprintf(uri, 40, "memory://%lld", (long long)id); }

/* The first words, not cut within a character. */
static void headline(const memory *from, char *line, size_t size) {
  size_t len = from->len < size - 1 ? from->len : size - 1;
  while (len && len < from->len && ((unsigned char)from->text[len] & 0xC0) == 0x80) len--;
  memcpy(line, from->text, len);
  line[len] = '\0';
}

/* The list is a convenience: what does not get in can be read all the same. */
static void enlist(service *self, const memory *entry) {
  char uri[40], line[80];
  if (self->listed[self->next]) {
    uri_of(self->listed[self->next], uri);
    idem_server_remove_resource(self->server, uri);
  }
  uri_of(entry->id, uri);
  headline(entry, line, sizeof line);
  idem_resource resource = {.uri = uri,
                            .name = uri + strlen("memory://"),
                            .description = line,
                            .mime_type = "text/plain",
                            .size = (int64_t)entry->len,
                            .fn = read_memory,
                            .user = self};
  idem_server_add_resource(self->server, &resource, NULL, 0);
  self->listed[self->next] = entry->id;
  self->next = (self->next + 1) % LISTED_MAX;
}

static void delist(service *self, int64_t id) {
  char uri[40];
  uri_of(id, uri);
  idem_server_remove_resource(self->server, uri);
  for (size_t i = 0; i < LISTED_MAX; i++) {
    if (self->listed[i] == id) self->listed[i] = 0;
  }
}

/* ------------------------------------------------------------------------------ answers */

static bool add_memory(yyjson_mut_doc *doc, yyjson_mut_val *list, const memory *entry) {
  char uri[40];
  uri_of(entry->id, uri);
  yyjson_mut_val *object = yyjson_mut_arr_add_obj(doc, list);
  return yyjson_mut_obj_add_sint(doc, object, "id", entry->id) &&
         yyjson_mut_obj_add_strcpy(doc, object, "uri", uri) &&
         yyjson_mut_obj_add_strcpy(doc, object, "created", entry->created) &&
         yyjson_mut_obj_add_strncpy(doc, object, "text", entry->text, entry->len);
}

static void answer_memories(job *self, idem_request *request) {
  if (self->status != IDEM_OK) {
    fail(request, self->status);
    return;
  }
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, root, "memories");
  bool built = list != NULL;
  for (size_t i = 0; i < self->found.count && built; i++) {
    built = add_memory(doc, list, &self->found.items[i]);
  }
  if (built)
    idem_tool_reply(request, &(idem_tool_result){.structured = root});
  else
    idem_request_drop(request);
}

/* ------------------------------------------------------------------------------- tools */

static void remember_ask(job *self) {
  self->status = store_remember(self->service->store, self->text, self->len, &self->id);
}

static void remember_answer(job *self, idem_request *request) {
  char text[64];
  if (self->status != IDEM_OK) {
    fail(request, self->status);
    return;
  }
  memory entry = {.id = self->id, .text = (char *)(uintptr_t)self->text, .len = self->len};
  enlist(self->service, &entry);
  snprintf(text, sizeof text, "Remembered as memory://%lld", (long long)self->id);
  idem_tool_text(request, text, strlen(text));
}

static void remember(idem_request *request, yyjson_val *arguments, void *user) {
  job next = {.service = user, .ask = remember_ask, .answer = remember_answer};
  idem_param_fault fault;
  if (idem_param_string(arguments, "text", 0, &next.text, &next.len, &fault) != IDEM_OK)
    idem_reply_invalid_params(request, &fault);
  else if (memchr(next.text, '\0', next.len))
    idem_tool_failed(request, "A memory is text: it cannot contain the character U+0000.");
  else
    start(request, &next);
}

static void recall_ask(job *self) {
  self->status =
      store_recall(self->service->store, self->text, self->len, self->limit, &self->found);
}

static void recall(idem_request *request, yyjson_val *arguments, void *user) {
  job next = {.service = user, .ask = recall_ask, .answer = answer_memories};
  idem_param_fault fault;
  if (idem_param_string(arguments, "query", 0, &next.text, &next.len, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  if (idem_param_int(arguments, "limit", 1, &next.limit, &fault) != IDEM_OK) next.limit = 10;
  start(request, &next);
}

static void list_ask(job *self) {
  self->status = store_latest(self->service->store, self->id, self->limit, &self->found);
}

static void list(idem_request *request, yyjson_val *arguments, void *user) {
  job next = {.service = user, .ask = list_ask, .answer = answer_memories};
  idem_param_fault fault;
  if (idem_param_int(arguments, "before", 0, &next.id, &fault) != IDEM_OK) next.id = INT64_MAX;
  if (idem_param_int(arguments, "limit", 1, &next.limit, &fault) != IDEM_OK) next.limit = 10;
  start(request, &next);
}

static void forget_ask(job *self) { self->status = store_forget(self->service->store, self->id); }

static void forget_answer(job *self, idem_request *request) {
  if (self->status != IDEM_OK) {
    fail(request, self->status);
    return;
  }
  delist(self->service, self->id);
  idem_tool_text(request, "Forgotten.", 10);
}

static void forget(idem_request *request, yyjson_val *arguments, void *user) {
  job next = {.service = user, .ask = forget_ask, .answer = forget_answer};
  idem_param_fault fault;
  if (idem_param_int(arguments, "id", 0, &next.id, &fault) != IDEM_OK)
    idem_reply_invalid_params(request, &fault);
  else
    start(request, &next);
}

/* ------------------------------------------------------------------------------ prompt */

static void about_answer(job *self, idem_request *request) {
  static const char question[] = "What do you remember about this, and what follows from it now? ";
  size_t size = sizeof question + self->len + 64, at;
  for (size_t i = 0; i < self->found.count; i++) size += self->found.items[i].len + 8;
  char *text = malloc(size);
  if (!text) {
    idem_request_drop(request);
    return;
  }
  at = (size_t)snprintf(text, size, "%s%.*s\n\n%s\n", question, (int)self->len, self->text,
                        self->found.count ? "Your memories:" : "You have no memory of it.");
  for (size_t i = 0; i < self->found.count; i++) {
    at += (size_t)snprintf(text + at, size - at, "- %s\n", self->found.items[i].text);
  }
  idem_prompt_text(request, text, at);
  free(text);
}

static void about(idem_request *request, yyjson_val *arguments, void *user) {
  job next = {.service = user, .ask = recall_ask, .answer = about_answer, .limit = 10};
  idem_param_fault fault;
  if (idem_param_string(arguments, "topic", 0, &next.text, &next.len, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  fault = (idem_param_fault){.param = "topic", .expected = "a topic of a few words"};
  if (next.len > QUERY_MAX)
    idem_reply_invalid_params(request, &fault);
  else
    start(request, &next);
}

/* ------------------------------------------------------------------------- definitions */

#define MEMORIES_SCHEMA                                                                            \
  "{\"type\":\"object\",\"required\":[\"memories\"],\"properties\":{\"memories\":{\"type\":"       \
  "\"array\",\"items\":{\"type\":\"object\",\"required\":[\"id\",\"uri\",\"created\",\"text\"],"   \
  "\"properties\":{\"id\":{\"type\":\"integer\"},\"uri\":{\"type\":\"string\"},"                   \
  "\"created\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}}}}}}"
#define LIMIT_SCHEMA "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50}"

static const idem_tool tools[] = {
    {.name = "remember",
     .description = "Keeps a text for later conversations. One fact at a time, in whole sentences.",
     .input_schema = "{\"type\":\"object\",\"required\":[\"text\"],\"properties\":{\"text\":"
                     "{\"type\":\"string\",\"minLength\":1,\"maxLength\":65536}}}",
     .annotations = "{\"destructiveHint\":false,\"openWorldHint\":false}",
     .fn = remember},
    {.name = "recall",
     .description = "Finds memories by the words in them, the best first.",
     .input_schema = "{\"type\":\"object\",\"required\":[\"query\"],\"properties\":{\"query\":"
                     "{\"type\":\"string\",\"minLength\":1,\"maxLength\":1000}," LIMIT_SCHEMA "}}",
     .output_schema = MEMORIES_SCHEMA,
     .annotations = "{\"readOnlyHint\":true,\"openWorldHint\":false}",
     .fn = recall},
    {.name = "forget",
     .description = "Removes one memory for good.",
     .input_schema = "{\"type\":\"object\",\"required\":[\"id\"],\"properties\":{\"id\":"
                     "{\"type\":\"integer\",\"minimum\":1}}}",
     .annotations = "{\"destructiveHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}",
     .fn = forget},
    {.name = "list",
     .description = "Shows the latest memories; `before` an id shows older ones.",
     .input_schema = "{\"type\":\"object\",\"properties\":{\"before\":{\"type\":\"integer\","
                     "\"minimum\":1}," LIMIT_SCHEMA "}}",
     .output_schema = MEMORIES_SCHEMA,
     .annotations = "{\"readOnlyHint\":true,\"openWorldHint\":false}",
     .fn = list},
};

static const idem_resource any_memory = {.uri = "memory://{id}",
                                         .name = "memory",
                                         .description = "One memory, by its id.",
                                         .mime_type = "text/plain",
                                         .is_template = true,
                                         .fn = read_memory};

/* --------------------------------------------------------------------------- serving */

static bool fill(service *self, char *why, size_t why_len) {
  for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
    idem_tool tool = tools[i];
    tool.user = self;
    if (idem_server_add_tool(self->server, &tool, why, why_len) != IDEM_OK) return false;
  }
  idem_resource any = any_memory;
  any.user = self;
  idem_prompt prompt = {
      .name = "about",
      .title = "What do I know about ...",
      .description = "Begins with what is remembered about a topic.",
      .arguments =
          (const idem_prompt_argument[]){
              {.name = "topic", .description = "some words", .required = true}, {0}},
      .fn = about,
      .user = self};
  return idem_server_add_prompt(self->server, &prompt, why, why_len) == IDEM_OK &&
         idem_server_add_resource(self->server, &any, why, why_len) == IDEM_OK;
}

/* The oldest of the latest comes first, so that the list goes on in order. */
static bool enlist_latest(service *self) {
  memories page;
  if (store_latest(self->store, INT64_MAX, ROWS_MAX, &page) != IDEM_OK) return false;
  for (size_t i = page.count; i; i--) enlist(self, &page.items[i - 1]);
  memories_free(&page);
  return true;
}

bool memory_serve(idem_server *server, store *from) {
  static service self;
  char why[256] = "no memory";
  self = (service){.server = server, .store = from};
  if (fill(&self, why, sizeof why) && enlist_latest(&self)) return true;
  fprintf(stderr, "idem-memory: %s\n", why);
  return false;
}
