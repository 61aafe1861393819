/* tool_define.c - taking a tool in: its name and schemas are checked before anyone is told of it.
 * One bad tool is refused with a sentence; the rest is served. */
#include "../schema/parsed.h"
#include "define.h"
#include "header_check.h"
#include "scope.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

#define NEIGHBOURS 16 /* tools before a new one whose schemas it may have */

static const char no_json[] = "a schema, annotations, icons or meta is not the JSON it must be";

static void free_entry(void *self, const idem_alloc *alloc) {
  idem__tool_entry *tool = self;
  char *const owned[] = {tool->name,         tool->title,         tool->description,
                         tool->input_schema, tool->output_schema, tool->annotations,
                         tool->icons,        tool->meta};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) idem__free(alloc, owned[i]);
  idem__header_rules_free(&tool->headers, alloc);
  idem_schema_free(atomic_load_explicit(&tool->input, memory_order_acquire));
  idem_schema_free(atomic_load_explicit(&tool->output, memory_order_acquire));
  idem__free(alloc, tool);
}

static void say(char *why, size_t why_len, const char *tool, const char *sentence) {
  if (why && why_len) snprintf(why, why_len, "tool %s: %s", tool ? tool : "?", sentence);
}

static bool name_fine(const char *name) {
  size_t len = 0;
  for (; name && name[len]; len++) {
    char c = name[len], small = (char)(c | 0x20);
    bool fine = (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                c == '-';
    if (!fine || len == 128) return false;
  }
  return len > 0;
}

static bool is_object_schema(yyjson_val *schema) {
  return yyjson_equals_str(yyjson_obj_get(schema, "type"), "object");
}

/* What cannot be compiled is refused; the program itself is made again when it is first needed. Of
 * hundreds of tools a client calls a few. */
static idem_status check_schema(idem_server *server, const yyjson_doc *doc, const char *text,
                                const char *name, char *why, size_t why_len) {
  idem_schema_fault fault;
  idem_schema *schema;
  idem_status status = idem__schema_compile_parsed(&(idem_schema_opts){.alloc = &server->alloc},
                                                   doc->root, strlen(text), &schema, &fault);
  if (status != IDEM_OK) say(why, why_len, name, fault.sentence);
  idem_schema_free(schema);
  return status;
}

static bool same_text(const char *one, const char *other) {
  return one && other && strcmp(one, other) == 0;
}

/* Files list tools of one kind together, and those often take the same arguments: what was checked
 * for one of them need not be for the next. Rules for headers are each tool's own. */
static bool is_known_input(idem_server *server, const idem__tool_entry *tool) {
  bool known = false;
  idem__server_lock(server);
  const idem__registry_list *list = &server->registry->lists[IDEM__TOOLS];
  for (size_t back = 1; back <= NEIGHBOURS && back <= list->count && !known; back++) {
    const idem__tool_entry *other = (const void *)list->entries[list->count - back];
    known = other->input_hash == tool->input_hash && !other->headers.count &&
            same_text(other->input_schema, tool->input_schema);
  }
  idem__server_unlock(server);
  return known;
}

static idem_status find_headers(idem_server *server, yyjson_val *schema, idem__tool_entry *tool,
                                char *why, size_t why_len) {
  const char *sentence = NULL;
  idem_status status = idem__header_rules_find(&server->alloc, schema, &tool->headers, &sentence);
  if (status == IDEM_E_INVAL && why && why_len)
    snprintf(why, why_len, "tool %s: x-mcp-header %s", tool->name, sentence);
  return status;
}

static idem_status check_input(idem_server *server, const yyjson_doc *doc, idem__tool_entry *tool,
                               char *why, size_t why_len) {
  idem_status status = check_schema(server, doc, tool->input_schema, tool->name, why, why_len);
  if (status == IDEM_OK && !is_object_schema(doc->root)) {
    say(why, why_len, tool->name, "the input schema must have \"type\": \"object\"");
    status = IDEM_E_INVAL;
  }
  /* The text was written anew, so that nothing is escaped that need not be. */
  if (status == IDEM_OK && strstr(tool->input_schema, "x-mcp-header"))
    status = find_headers(server, doc->root, tool, why, why_len);
  return status;
}

static idem_status define_input(idem_server *server, const char *text, idem__tool_entry *tool,
                                char *why, size_t why_len) {
  yyjson_doc *doc;
  idem_status status = idem__definition_read(server, text, '{', &tool->input_schema, &doc);
  if (status == IDEM_E_INVAL) say(why, why_len, tool->name, no_json);
  if (status == IDEM_OK) {
    tool->input_hash = idem__hash(tool->input_schema, strlen(tool->input_schema), 0);
    if (!is_known_input(server, tool)) status = check_input(server, doc, tool, why, why_len);
  }
  yyjson_doc_free(doc);
  return status;
}

static idem_status define_output(idem_server *server, const char *text, idem__tool_entry *tool,
                                 char *why, size_t why_len) {
  yyjson_doc *doc;
  idem_status status = idem__definition_read(server, text, '{', &tool->output_schema, &doc);
  if (status == IDEM_E_INVAL) say(why, why_len, tool->name, no_json);
  if (status == IDEM_OK) {
    status = check_schema(server, doc, tool->output_schema, tool->name, why, why_len);
    tool->output_is_object = is_object_schema(doc->root);
  }
  yyjson_doc_free(doc);
  return status;
}

/* Most do not say so: then nothing is parsed. The text is of our own writing, without spaces. */
static bool may_repeat(const idem_alloc *alloc, const char *annotations) {
  yyjson_alc alc = idem__json_alc(alloc);
  if (!strstr(annotations, "\"idempotentHint\":true")) return false;
  yyjson_doc *doc =
      yyjson_read_opts((char *)(uintptr_t)annotations, strlen(annotations), 0, &alc, NULL);
  bool may = yyjson_is_true(yyjson_obj_get(yyjson_doc_get_root(doc), "idempotentHint"));
  yyjson_doc_free(doc);
  return may;
}

static idem_status copy_texts(idem_server *server, const idem_tool *from, idem__tool_entry *tool) {
  idem_status status = IDEM_OK;
  tool->head.name = tool->name = idem__server_copy(server, from->name, &status);
  tool->title = idem__server_copy(server, from->title, &status);
  tool->description = idem__server_copy(server, from->description, &status);
  if (status == IDEM_OK) {
    status = idem__definition_json(server, from->annotations, '{', &tool->annotations);
  }
  if (status == IDEM_OK && tool->annotations)
    tool->may_repeat = may_repeat(&server->alloc, tool->annotations);
  if (status == IDEM_OK) status = idem__definition_json(server, from->icons, '[', &tool->icons);
  if (status == IDEM_OK) status = idem__definition_json(server, from->meta, '{', &tool->meta);
  return status;
}

static idem_status define(idem_server *server, const idem_tool *from, idem__tool_entry *tool,
                          char *why, size_t why_len) {
  static const char no_arguments[] = "{\"type\":\"object\",\"additionalProperties\":false}";
  const char *input = from->input_schema ? from->input_schema : no_arguments;
  idem_status status = copy_texts(server, from, tool);
  if (status == IDEM_E_INVAL) say(why, why_len, from->name, no_json);
  if (status == IDEM_OK) status = define_input(server, input, tool, why, why_len);
  if (status == IDEM_OK && from->output_schema)
    status = define_output(server, from->output_schema, tool, why, why_len);
  return status;
}

#define ERLMCP_DESCRIPTION_BYTES 10000u

static bool description_fits(const idem_server *server, const idem_tool *from, char *why,
                             size_t why_len) {
  size_t most = server->opts.max_description_bytes;
  if (!most && server->opts.codes == IDEM_CODES_ERLMCP) most = ERLMCP_DESCRIPTION_BYTES;
  size_t len = most && from->description ? strlen(from->description) : 0;
  if (len > most && why && why_len)
    snprintf(why, why_len, "tool %s: its description exceeds the maximum length: %zu bytes of %zu",
             from->name, len, most);
  return len <= most;
}

idem_status idem_server_add_tool(idem_server *server, const idem_tool *from, char *why,
                                 size_t why_len) {
  if (!name_fine(from->name) || !from->fn) {
    say(why, why_len, from->name, "a name is 1 to 128 of A-Z a-z 0-9 _ . - and has a function");
    return IDEM_E_INVAL;
  }
  if (!description_fits(server, from, why, why_len)) return IDEM_E_LIMIT;
  idem__tool_entry *tool = idem__entry_new(server, sizeof *tool, free_entry);
  if (!tool) return IDEM_E_NOMEM;
  tool->task = from->task;
  tool->once = from->once;
  tool->fn = from->fn;
  tool->head.user = from->user;
  idem_status status = define(server, from, tool, why, why_len);
  if (status == IDEM_OK)
    status = idem__entry_set_scopes(server, &tool->head, from->scopes, why, why_len);
  if (status != IDEM_OK) {
    idem__entry_unref(&tool->head, &server->alloc);
    return status;
  }
  tool->head.release = from->release;
  if (from->task != IDEM_TASK_NEVER) server->ever_tasks = true; /* before any peer can see it */
  status = idem__registry_change(server, IDEM__TOOLS, tool->name, &tool->head);
  if (status == IDEM_E_EXISTS) say(why, why_len, from->name, "there is one of that name already");
  return status;
}

idem_status idem_server_remove_tool(idem_server *server, const char *name) {
  return idem__registry_change(server, IDEM__TOOLS, name, NULL);
}

/* ------------------------------------------------------------------ programs */

/* Several threads may come first; the program of one of them stays. */
static const idem_schema *program_of(_Atomic(idem_schema *) *slot, const char *text,
                                     const idem_alloc *alloc) {
  idem_schema *known = atomic_load_explicit(slot, memory_order_acquire), *made;
  if (known) return known;
  if (idem_schema_compile(&(idem_schema_opts){.alloc = alloc}, text, strlen(text), &made, NULL) !=
      IDEM_OK)
    return NULL;
  if (atomic_compare_exchange_strong_explicit(slot, &known, made, memory_order_acq_rel,
                                              memory_order_acquire))
    return made;
  idem_schema_free(made);
  return known;
}

/* Entries do not change but for this, and nobody can tell. */
static idem__tool_entry *to_fill(const idem__tool_entry *tool) {
  return (idem__tool_entry *)(uintptr_t)tool;
}

const idem_schema *idem__tool_input(const idem__tool_entry *tool, const idem_alloc *alloc) {
  return program_of(&to_fill(tool)->input, tool->input_schema, alloc);
}

const idem_schema *idem__tool_output(const idem__tool_entry *tool, const idem_alloc *alloc) {
  return program_of(&to_fill(tool)->output, tool->output_schema, alloc);
}
