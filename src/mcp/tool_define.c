/* tool_define.c - taking a tool in: its name and schemas are checked before anyone is told of it.
 * One bad tool is refused with a sentence; the rest is served. */
#include "../schema/share.h"
#include "define.h"
#include "header.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

#define NEIGHBOURS 16 /* tools before a new one whose schemas it may have */

static void free_entry(void *self, const idem_alloc *alloc) {
  idem__tool_entry *tool = self;
  char *const owned[] = {tool->name,         tool->title,         tool->description,
                         tool->input_schema, tool->output_schema, tool->annotations,
                         tool->icons,        tool->meta};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) idem__free(alloc, owned[i]);
  idem__header_rules_free(tool, alloc);
  idem_schema_free(tool->input);
  idem_schema_free(tool->output);
  idem__free(alloc, tool);
}

static void say(char *why, size_t why_len, const char *tool, const char *sentence) {
  if (why && why_len) snprintf(why, why_len, "tool %s: %s", tool ? tool : "?", sentence);
}

static bool name_fine(const char *name) {
  size_t len = name ? strlen(name) : 0;
  if (len < 1 || len > 128) return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == len;
}

static bool is_object_schema(yyjson_val *schema) {
  return yyjson_equals_str(yyjson_obj_get(schema, "type"), "object");
}

/* Parses a schema and compiles it; the parsed text is the caller's, for what MCP itself wants of it. */
static idem_status compile(idem_server *server, const char *text, yyjson_doc **doc,
                           idem_schema **out, const char *name, char *why, size_t why_len) {
  idem_schema_fault fault;
  size_t len = strlen(text);
  *doc = yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW);
  if (!*doc) return IDEM_E_NOMEM;
  idem_status status = idem__schema_compile_parsed(&(idem_schema_opts){.alloc = &server->alloc},
                                                   (*doc)->root, len, out, &fault);
  if (status != IDEM_OK) say(why, why_len, name, fault.sentence);
  return status;
}

static bool same_text(const char *one, const char *other) {
  return one && other && strcmp(one, other) == 0;
}

/* Files list tools of one kind together, and those often take the same arguments: what was compiled
 * and checked for one of them need not be for the next. Rules for headers are each tool's own. */
static bool share_input(idem_server *server, idem__tool_entry *tool) {
  idem__server_lock(server);
  const idem__registry_list *list = &server->registry->lists[IDEM__TOOLS];
  for (size_t back = 1; back <= NEIGHBOURS && back <= list->count && !tool->input; back++) {
    const idem__tool_entry *other = (const void *)list->entries[list->count - back];
    if (!other->header_count && same_text(other->input_schema, tool->input_schema))
      tool->input = idem__schema_share(other->input);
  }
  idem__server_unlock(server);
  return tool->input;
}

static bool share_output(idem_server *server, idem__tool_entry *tool) {
  idem__server_lock(server);
  const idem__registry_list *list = &server->registry->lists[IDEM__TOOLS];
  for (size_t back = 1; back <= NEIGHBOURS && back <= list->count && !tool->output; back++) {
    const idem__tool_entry *other = (const void *)list->entries[list->count - back];
    if (!same_text(other->output_schema, tool->output_schema)) continue;
    tool->output = idem__schema_share(other->output);
    tool->output_is_object = other->output_is_object;
  }
  idem__server_unlock(server);
  return tool->output;
}

static idem_status define_input(idem_server *server, idem__tool_entry *tool, char *why,
                                size_t why_len) {
  if (share_input(server, tool)) return IDEM_OK;
  yyjson_doc *doc;
  idem_status status =
      compile(server, tool->input_schema, &doc, &tool->input, tool->name, why, why_len);
  if (status == IDEM_OK && !is_object_schema(doc->root)) {
    say(why, why_len, tool->name, "the input schema must have \"type\": \"object\"");
    status = IDEM_E_INVAL;
  }
  /* The text was written anew, so that nothing is escaped that need not be. */
  if (status == IDEM_OK && strstr(tool->input_schema, "x-mcp-header"))
    status = idem__header_rules(server, doc->root, tool, why, why_len);
  yyjson_doc_free(doc);
  return status;
}

static idem_status define_output(idem_server *server, idem__tool_entry *tool, char *why,
                                 size_t why_len) {
  if (!tool->output_schema || share_output(server, tool)) return IDEM_OK;
  yyjson_doc *doc;
  idem_status status =
      compile(server, tool->output_schema, &doc, &tool->output, tool->name, why, why_len);
  if (status == IDEM_OK) tool->output_is_object = is_object_schema(doc->root);
  yyjson_doc_free(doc);
  return status;
}

static idem_status copy_texts(idem_server *server, const idem_tool *from, idem__tool_entry *tool) {
  static const char no_arguments[] = "{\"type\":\"object\",\"additionalProperties\":false}";
  idem_status status = IDEM_OK;
  tool->head.name = tool->name = idem__server_copy(server, from->name, &status);
  tool->title = idem__server_copy(server, from->title, &status);
  tool->description = idem__server_copy(server, from->description, &status);
  const char *input = from->input_schema ? from->input_schema : no_arguments;
  if (status == IDEM_OK) status = idem__definition_json(server, input, '{', &tool->input_schema);
  if (status == IDEM_OK) {
    status = idem__definition_json(server, from->output_schema, '{', &tool->output_schema);
  }
  if (status == IDEM_OK) {
    status = idem__definition_json(server, from->annotations, '{', &tool->annotations);
  }
  if (status == IDEM_OK) status = idem__definition_json(server, from->icons, '[', &tool->icons);
  if (status == IDEM_OK) status = idem__definition_json(server, from->meta, '{', &tool->meta);
  return status;
}

static idem_status define(idem_server *server, const idem_tool *from, idem__tool_entry *tool,
                          char *why, size_t why_len) {
  idem_status status = copy_texts(server, from, tool);
  if (status == IDEM_E_INVAL) {
    say(why, why_len, from->name,
        "a schema, annotations, icons or meta is not the JSON it must be");
  }
  if (status == IDEM_OK) status = define_input(server, tool, why, why_len);
  if (status == IDEM_OK) status = define_output(server, tool, why, why_len);
  return status;
}

idem_status idem_server_add_tool(idem_server *server, const idem_tool *from, char *why,
                                 size_t why_len) {
  if (!name_fine(from->name) || !from->fn) {
    say(why, why_len, from->name, "a name is 1 to 128 of A-Z a-z 0-9 _ . - and has a function");
    return IDEM_E_INVAL;
  }
  idem__tool_entry *tool = idem__entry_new(server, sizeof *tool, free_entry);
  if (!tool) return IDEM_E_NOMEM;
  tool->task = from->task;
  tool->fn = from->fn;
  tool->user = from->user;
  idem_status status = define(server, from, tool, why, why_len);
  if (status != IDEM_OK) {
    idem__entry_unref(&tool->head, &server->alloc);
    return status;
  }
  status = idem__registry_change(server, IDEM__TOOLS, tool->name, &tool->head);
  if (status == IDEM_E_EXISTS) say(why, why_len, from->name, "there is one of that name already");
  return status;
}

idem_status idem_server_remove_tool(idem_server *server, const char *name) {
  return idem__registry_change(server, IDEM__TOOLS, name, NULL);
}
