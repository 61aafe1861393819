/* look.c - see look.h. */
#include "look.h"
#include "text.h"

#include "config/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MOST_ARGUMENTS 12u
#define LEAST_COLUMN                                                                               \
  31u /* where descriptions begin, at least and at most; longer names push theirs */
#define MOST_COLUMN 48u

void look_init(call_look *self) {
  *self = (call_look){.doc = yyjson_mut_doc_new(NULL)};
  if (!self->doc) memory_exhausted();
}

void look_free(call_look *self) { yyjson_mut_doc_free(self->doc); }

void look_take(call_look *self, idem_mcp_list_kind kind, yyjson_val *items) {
  self->lists[kind] = items ? yyjson_val_mut_copy(self->doc, items) : NULL;
}

/* ---------------------------------------------------------------------------- JSON */

static void add_list(const call_look *self, yyjson_mut_val *root, const char *name,
                     idem_mcp_list_kind kind) {
  if (self->lists[kind])
    yyjson_mut_obj_add_val(self->doc, root, name,
                           yyjson_mut_val_mut_copy(self->doc, self->lists[kind]));
}

static void print_as_json(const call_look *self, call_printer *printer,
                          const idem_mcp_client *client) {
  yyjson_mut_val *root = yyjson_mut_obj(self->doc);
  yyjson_val *info = idem_mcp_client_server_info(client);
  yyjson_val *capabilities = idem_mcp_client_capabilities(client);
  size_t len;
  const char *instructions = idem_mcp_client_instructions(client, &len);
  yyjson_mut_obj_add_str(self->doc, root, "revision",
                         idem_mcp_revision_date(idem_mcp_client_revision(client)));
  if (info)
    yyjson_mut_obj_add_val(self->doc, root, "serverInfo", yyjson_val_mut_copy(self->doc, info));
  if (capabilities)
    yyjson_mut_obj_add_val(self->doc, root, "capabilities",
                           yyjson_val_mut_copy(self->doc, capabilities));
  if (instructions) yyjson_mut_obj_add_strncpy(self->doc, root, "instructions", instructions, len);
  add_list(self, root, "tools", IDEM_MCP_TOOLS);
  add_list(self, root, "resources", IDEM_MCP_RESOURCES);
  add_list(self, root, "resourceTemplates", IDEM_MCP_TEMPLATES);
  add_list(self, root, "prompts", IDEM_MCP_PROMPTS);
  yyjson_doc *plain = yyjson_mut_val_imut_copy(root, NULL);
  if (!plain) memory_exhausted();
  print_json(printer, yyjson_doc_get_root(plain));
  yyjson_doc_free(plain);
}

/* --------------------------------------------------------------------------- table */

typedef struct table {
  FILE *out;
  size_t width;  /* of a line; descriptions are cut to it */
  size_t column; /* where they begin */
} table;

static void put_value(text *out, yyjson_mut_val *value, size_t max) {
  if (yyjson_mut_is_str(value)) {
    const char *words = yyjson_mut_get_str(value);
    size_t len = yyjson_mut_get_len(value), line = 0;
    while (line < len && words[line] != '\n' && words[line] != '\r') line++;
    text_escape_cut(out, words, line, max);
  }
}

static bool is_in(yyjson_mut_val *list, yyjson_mut_val *name) {
  size_t i, count;
  yyjson_mut_val *one;
  if (!yyjson_mut_is_arr(list)) return false;
  yyjson_mut_arr_foreach(list, i, count, one) {
    if (yyjson_mut_equals(one, name)) return true;
  }
  return false;
}

/* a b [c]: what is needed, what may be. */
static void put_arguments(text *out, yyjson_mut_val *tool) {
  yyjson_mut_val *schema = yyjson_mut_obj_get(tool, "inputSchema"), *key;
  yyjson_mut_val *required = yyjson_mut_obj_get(schema, "required");
  yyjson_mut_obj_iter at;
  if (!yyjson_mut_obj_iter_init(yyjson_mut_obj_get(schema, "properties"), &at)) return;
  for (size_t i = 0; (key = yyjson_mut_obj_iter_next(&at)); i++) {
    bool needed = is_in(required, key);
    if (i == MOST_ARGUMENTS) {
      text_puts(out, " ...");
      return;
    }
    text_puts(out, needed ? " " : " [");
    put_value(out, key, 40);
    text_puts(out, needed ? "=" : "=]");
  }
}

static void put_prompt_arguments(text *out, yyjson_mut_val *prompt) {
  yyjson_mut_val *list = yyjson_mut_obj_get(prompt, "arguments"), *one;
  size_t i, count;
  if (!yyjson_mut_is_arr(list)) return;
  yyjson_mut_arr_foreach(list, i, count, one) {
    bool needed = yyjson_mut_get_bool(yyjson_mut_obj_get(one, "required"));
    if (i == MOST_ARGUMENTS) break;
    text_puts(out, needed ? " " : " [");
    put_value(out, yyjson_mut_obj_get(one, "name"), 40);
    text_puts(out, needed ? "=" : "=]");
  }
}

static yyjson_mut_val *about_of(yyjson_mut_val *item) {
  yyjson_mut_val *about = yyjson_mut_obj_get(item, "description");
  if (!yyjson_mut_is_str(about)) about = yyjson_mut_obj_get(item, "title");
  return yyjson_mut_is_str(about) ? about : NULL;
}

/* Its first line, as far as it fits. */
static void put_about(const table *self, text *line, yyjson_mut_val *about) {
  const char *words = yyjson_mut_get_str(about);
  if (!words) return;
  text_puts(line, " ");
  text_pad(line, 0, self->column);
  size_t taken = text_width(line->data, line->len);
  size_t room = self->width > taken + 20 ? self->width - taken : 20;
  text_escape_fit(line, words, strcspn(words, "\r\n"), room);
}

/* What is typed for it. */
static void put_call(text *line, idem_mcp_list_kind kind, yyjson_mut_val *item) {
  static const char *const names[LOOK_LISTS] = {"name", "uri", "uriTemplate", "name"};
  text_puts(line, "  ");
  put_value(line, yyjson_mut_obj_get(item, names[kind]), 200);
  if (kind == IDEM_MCP_TOOLS) put_arguments(line, item);
  if (kind == IDEM_MCP_PROMPTS) put_prompt_arguments(line, item);
}

/* So wide that all descriptions stand one below the other, but for those of few long names. */
static void widen(table *self, idem_mcp_list_kind kind, yyjson_mut_val *items) {
  size_t i, count;
  yyjson_mut_val *one;
  if (!yyjson_mut_is_arr(items)) return;
  yyjson_mut_arr_foreach(items, i, count, one) {
    text line = {.data = NULL};
    put_call(&line, kind, one);
    size_t wanted = text_width(line.data, line.len) + 2;
    if (about_of(one) && wanted > self->column && wanted <= MOST_COLUMN) self->column = wanted;
    text_free(&line);
  }
}

static void put_item(const table *self, idem_mcp_list_kind kind, yyjson_mut_val *item) {
  text line = {.data = NULL};
  put_call(&line, kind, item);
  put_about(self, &line, about_of(item));
  fprintf(self->out, "%s\n", line.data);
  text_free(&line);
}

static void put_list(const table *self, idem_mcp_list_kind kind, yyjson_mut_val *items) {
  static const char *const headings[LOOK_LISTS] = {"tools", "resources", "resource templates",
                                                   "prompts"};
  size_t i, count;
  yyjson_mut_val *one;
  if (!yyjson_mut_arr_size(items)) return;
  fprintf(self->out, "\n%s\n", headings[kind]);
  yyjson_mut_arr_foreach(items, i, count, one) put_item(self, kind, one);
}

static void put_text(FILE *out, yyjson_val *value, size_t max) {
  if (yyjson_is_str(value)) text_show_line(out, yyjson_get_str(value), yyjson_get_len(value), max);
}

static void put_server(const table *self, const idem_mcp_client *client, const char *transport) {
  yyjson_val *info = idem_mcp_client_server_info(client);
  yyjson_val *title = yyjson_obj_get(info, "title");
  put_text(self->out, yyjson_obj_get(info, "name"), 100);
  if (!info) fputs("a server without a name", self->out);
  fputc(' ', self->out);
  put_text(self->out, yyjson_obj_get(info, "version"), 60);
  if (title) {
    fputs(" (", self->out);
    put_text(self->out, title, 100);
    fputc(')', self->out);
  }
  fprintf(self->out, ", MCP %s over %s\n", idem_mcp_revision_date(idem_mcp_client_revision(client)),
          transport);
}

static void put_instructions(const table *self, const idem_mcp_client *client) {
  size_t len;
  const char *words = idem_mcp_client_instructions(client, &len);
  text shown = {.data = NULL};
  if (!words || !len) return;
  text_escape(&shown, words, len < 2000 ? len : 2000, TEXT_LINES);
  fprintf(self->out, "\n%s%s\n", shown.data, len > 2000 ? "..." : "");
  text_free(&shown);
}

static size_t line_width(bool is_terminal) {
  struct winsize size;
  if (!is_terminal) return 2000;
  return ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col : 80;
}

void look_print(const call_look *self, call_printer *printer, const idem_mcp_client *client,
                const char *transport) {
  table made = {
      .out = printer->out, .width = line_width(printer->terminal), .column = LEAST_COLUMN};
  size_t all = 0;
  if (printer->options->json) {
    print_as_json(self, printer, client);
    return;
  }
  put_server(&made, client, transport);
  put_instructions(&made, client);
  for (size_t i = 0; i < LOOK_LISTS; i++) widen(&made, (idem_mcp_list_kind)i, self->lists[i]);
  for (size_t i = 0; i < LOOK_LISTS; i++) {
    put_list(&made, (idem_mcp_list_kind)i, self->lists[i]);
    all += yyjson_mut_arr_size(self->lists[i]);
  }
  if (!all) fputs("\nit has no tools, resources or prompts\n", made.out);
}
