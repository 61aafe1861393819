/* list.c - lists, page after page, as one; kept while the server calls them fresh.
 * A list has a bound of items, of pages and of bytes, and a server that gives the same cursor twice in a row is
 * not asked a third time. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

struct idem__mcp_pages {
  idem_buf items; /* the elements so far, without brackets; empty while one page is all */
  size_t count, pages;
  char *cursor; /* of the page under way; NULL: the first */
  size_t cursor_len;
  uint64_t fresh_ms; /* the shortest of the pages' */
  bool is_private;
  yyjson_doc *doc; /* all of them */
};

static const struct {
  idem__method_row row;
  const char *member;
} lists[] = {[IDEM_MCP_TOOLS] = {IDEM__METHOD_TOOLS_LIST, "tools"},
             [IDEM_MCP_RESOURCES] = {IDEM__METHOD_RESOURCES_LIST, "resources"},
             [IDEM_MCP_TEMPLATES] = {IDEM__METHOD_TEMPLATES_LIST, "resourceTemplates"},
             [IDEM_MCP_PROMPTS] = {IDEM__METHOD_PROMPTS_LIST, "prompts"},
             [4] = {IDEM__METHOD_TASKS_LIST, "tasks"},
             [5] = {IDEM__METHODS, "skills"}};
#define TASK_LIST 4
#define SKILL_LIST 5

/* The methods of extensions are in no revision's table. */
static const idem__mcp_method skills_row = {"skills/list", UINT32_MAX, IDEM__CAP_NONE,
                                            IDEM__NAME_NONE, false};

void idem__mcp_pages_free(idem_mcp_client *client, idem__mcp_pages *pages) {
  idem_buf_deinit(&pages->items);
  yyjson_doc_free(pages->doc);
  idem__free(&client->alloc, pages->cursor);
  idem__free(&client->alloc, pages);
}

/* ---------------------------------------------------------------------- caches */

static void drop_cache(idem_mcp_client *client, idem__mcp_cache *cache) {
  idem__free(&client->alloc, cache->text);
  *cache = (idem__mcp_cache){0};
}

void idem__mcp_caches_drop(idem_mcp_client *client, bool only_private) {
  for (size_t i = 0; i < IDEM__MCP_LISTS; i++) {
    if (!only_private || client->caches[i].is_private) drop_cache(client, &client->caches[i]);
  }
  idem__mcp_reads_drop(client, only_private);
}

void idem__mcp_list_changed(idem_mcp_client *client, idem_mcp_list_kind kind) {
  drop_cache(client, &client->caches[kind]);
  if (kind == IDEM_MCP_RESOURCES) drop_cache(client, &client->caches[IDEM_MCP_TEMPLATES]);
  if (kind == IDEM_MCP_TOOLS) client->tools_known = false;
}

static void keep(idem_mcp_client *client, const idem__mcp_call *call) {
  const idem__mcp_pages *pages = call->pages;
  idem__mcp_cache *cache = &client->caches[call->list_kind];
  drop_cache(client, cache);
  if (!pages->fresh_ms || !idem__mcp_modern(client)) return;
  char *text = idem__malloc(&client->alloc, pages->items.len + 1);
  if (!text) return; /* it will be asked for again */
  memcpy(text, pages->items.data, pages->items.len);
  uint64_t now = idem__conn_now_ms(client->conn);
  *cache = (idem__mcp_cache){.text = text,
                             .len = pages->items.len,
                             .fresh_until =
                                 now + pages->fresh_ms < now ? UINT64_MAX : now + pages->fresh_ms,
                             .is_private = pages->is_private};
}

static bool is_fresh(const idem_mcp_client *client, idem_mcp_list_kind kind) {
  const idem__mcp_cache *cache = &client->caches[kind];
  return cache->text && cache->fresh_until > idem__conn_read_clock(client->conn);
}

/* ----------------------------------------------------------------------- pages */

static void fail(idem__mcp_call *call, idem_status status) {
  static const char *const limit = "the list is longer than allowed";
  idem__mcp_call_fail(call, status, status == IDEM_E_LIMIT ? limit : idem_status_text(status));
}

static idem_status add_items(idem__mcp_call *call, yyjson_val *items) {
  idem__mcp_pages *pages = call->pages;
  yyjson_val *each;
  size_t index, max;
  pages->count += yyjson_arr_size(items);
  if (pages->count > call->client->opts.max_items) return IDEM_E_LIMIT;
  idem_status status = IDEM_OK;
  yyjson_arr_foreach(items, index, max, each) {
    if (status == IDEM_OK) status = idem_buf_puts(&pages->items, ",");
    if (status == IDEM_OK) status = idem__json_put(&pages->items, each);
    if (status != IDEM_OK) break;
  }
  return status;
}

static bool same_cursor(const idem__mcp_pages *pages, yyjson_val *cursor) {
  return pages->cursor && pages->cursor_len == yyjson_get_len(cursor) &&
         memcmp(pages->cursor, yyjson_get_str(cursor), pages->cursor_len) == 0;
}

static idem_status ask_page(idem__mcp_call *call, yyjson_val *cursor) {
  idem_mcp_client *client = call->client;
  idem__mcp_pages *pages = call->pages;
  if (same_cursor(pages, cursor) || ++pages->pages >= client->opts.max_pages) return IDEM_E_LIMIT;
  char *copy = idem__strndup(&client->alloc, yyjson_get_str(cursor), yyjson_get_len(cursor));
  if (!copy) return IDEM_E_NOMEM;
  idem__free(&client->alloc, pages->cursor);
  pages->cursor = copy;
  pages->cursor_len = yyjson_get_len(cursor);
  idem_buf params;
  idem_buf_init(&params, &client->alloc, client->opts.message_bytes);
  idem_status status = idem_buf_puts(&params, "\"cursor\":");
  if (status == IDEM_OK) status = idem_text_json_string(&params, copy, pages->cursor_len);
  if (status == IDEM_OK)
    status = idem__mcp_call_send_other(call, call->row, params.data, params.len);
  idem_buf_deinit(&params);
  return status;
}

/* Without hints, and in the eras that have none, a list is stale at once. */
static void note_freshness(idem__mcp_pages *pages, yyjson_val *result) {
  int64_t ttl = 0;
  if (!idem__json_get_int(yyjson_obj_get(result, "ttlMs"), &ttl) || ttl < 0) ttl = 0;
  if ((uint64_t)ttl < pages->fresh_ms) pages->fresh_ms = (uint64_t)ttl;
  pages->is_private |= !yyjson_equals_str(yyjson_obj_get(result, "cacheScope"), "public");
}

/* -------------------------------------------------------------------- the whole */

static yyjson_doc *parse(const idem_mcp_client *client, char *text, size_t len,
                         idem_status *status) {
  yyjson_alc alc = idem__json_alc(&client->alloc);
  yyjson_read_err error;
  yyjson_doc *doc = yyjson_read_opts(text, len, YYJSON_READ_BIGNUM_AS_RAW, &alc, &error);
  if (!doc)
    *status = error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? IDEM_E_NOMEM : IDEM_E_PROTO;
  return doc;
}

/* Tools that must not be called are not listed, either. */
static idem_status without_refused(idem_mcp_client *client, yyjson_val *items, idem_buf *out) {
  idem_status status = idem_buf_puts(out, "[");
  yyjson_val *each;
  size_t index, max;
  yyjson_arr_foreach(items, index, max, each) {
    yyjson_val *name = yyjson_obj_get(each, "name");
    const idem__mcp_tool *tool =
        yyjson_is_str(name)
            ? idem__mcp_tool_find(client, yyjson_get_str(name), yyjson_get_len(name))
            : NULL;
    if (tool && tool->fault) continue;
    if (status == IDEM_OK && out->len > 1) status = idem_buf_puts(out, ",");
    if (status == IDEM_OK) status = idem__json_put(out, each);
  }
  return status == IDEM_OK ? idem_buf_puts(out, "]") : status;
}

static idem_status refine(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  idem__mcp_pages *pages = call->pages;
  if (call->row != &idem__mcp_methods[IDEM__METHOD_TOOLS_LIST]) return IDEM_OK;
  idem_status status = idem__mcp_tools_learn(client, yyjson_doc_get_root(pages->doc));
  if (status != IDEM_OK || !idem_mcp_tool_refused(client, 0, NULL)) return status;
  idem_buf text;
  idem_buf_init(&text, &client->alloc, pages->items.max);
  status = without_refused(client, yyjson_doc_get_root(pages->doc), &text);
  yyjson_doc *doc = status == IDEM_OK ? parse(client, text.data, text.len, &status) : NULL;
  idem_buf_deinit(&text);
  if (!doc) return status;
  yyjson_doc_free(pages->doc);
  pages->doc = doc;
  return IDEM_OK;
}

static void finish(idem__mcp_call *call, yyjson_val *last_page, bool from_cache) {
  idem_mcp_client *client = call->client;
  idem__mcp_pages *pages = call->pages;
  idem_status status = IDEM_OK;
  if (pages->items.len) pages->items.data[0] = '[';
  if (!pages->items.len) status = idem_buf_puts(&pages->items, "[");
  if (status == IDEM_OK && !from_cache) status = idem_buf_puts(&pages->items, "]");
  if (status == IDEM_OK) pages->doc = parse(client, pages->items.data, pages->items.len, &status);
  if (status == IDEM_OK && !from_cache && call->list_kind < TASK_LIST) keep(client, call);
  if (status == IDEM_OK) status = refine(call);
  if (status != IDEM_OK) {
    fail(call, status);
    return;
  }
  idem_mcp_result result = {
      .result = last_page, .items = yyjson_doc_get_root(pages->doc), .from_cache = from_cache};
  idem__mcp_call_end(call, &result);
}

static void finish_from_cache(idem__mcp_call *call) {
  const idem__mcp_cache *cache = &call->client->caches[call->list_kind];
  idem_status status =
      cache->text ? idem_buf_put(&call->pages->items, cache->text, cache->len) : IDEM_E_NOTFOUND;
  if (status == IDEM_OK)
    finish(call, NULL, true);
  else if (status == IDEM_E_NOTFOUND && (status = idem__mcp_call_send(call)) == IDEM_OK)
    return; /* it was dropped meanwhile */
  else
    fail(call, status);
}

bool idem__mcp_page_taken(idem__mcp_call *call, const idem_response *response) {
  if (!response) {
    finish_from_cache(call);
    return true;
  }
  yyjson_val *items = yyjson_obj_get(response->result, lists[call->list_kind].member);
  yyjson_val *cursor = yyjson_obj_get(response->result, "nextCursor");
  if (!yyjson_is_arr(items)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the server's list is none");
    return true;
  }
  note_freshness(call->pages, response->result);
  idem_status status = add_items(call, items);
  if (status == IDEM_OK && yyjson_is_str(cursor)) {
    status = ask_page(call, cursor);
    call->answered = status != IDEM_OK;
    if (status == IDEM_OK) return true;
  }
  if (status == IDEM_OK)
    finish(call, response->result, false);
  else
    fail(call, status);
  return true;
}

/* ----------------------------------------------------------------------- asking */

static idem_status list(idem_mcp_client *client, unsigned kind, const idem_mcp_call_opts *opts,
                        idem_mcp_result_fn fn, void *user, uint64_t *handle) {
  const idem__mcp_method *row =
      kind == SKILL_LIST ? &skills_row : &idem__mcp_methods[lists[kind].row];
  if (!idem__mcp_usable(client)) return client->told_ready ? IDEM_E_CLOSED : IDEM_E_STATE;
  if (!(row->revisions & client->revision->bit)) return IDEM_E_STATE;
  idem__mcp_ask ask = {.kind = IDEM__MCP_LIST, .row = row, .opts = opts, .fn = fn, .user = user};
  idem__mcp_call *call;
  idem_status status = idem__mcp_call_make(client, &ask, &call);
  if (status != IDEM_OK) return status;
  call->list_kind = (idem_mcp_list_kind)kind;
  call->pages = idem__calloc(&client->alloc, sizeof *call->pages);
  if (call->pages) {
    idem_buf_init(&call->pages->items, &client->alloc, client->opts.max_list_bytes);
    call->pages->fresh_ms = UINT64_MAX;
    if (kind < TASK_LIST && !call->fresh && is_fresh(client, (idem_mcp_list_kind)kind))
      idem__mcp_call_end_soon(call, IDEM_OK, NULL);
    else
      status = idem__mcp_call_send(call);
  } else {
    status = IDEM_E_NOMEM;
  }
  if (status != IDEM_OK)
    idem__mcp_call_drop(call);
  else if (handle)
    *handle = call->handle;
  return status;
}

idem_status idem_mcp_list(idem_mcp_client *client, idem_mcp_list_kind kind,
                          const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                          uint64_t *call) {
  if ((unsigned)kind >= TASK_LIST) return IDEM_E_INVAL;
  return list(client, kind, opts, fn, user, call);
}

idem_status idem_mcp_task_list(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                               idem_mcp_result_fn fn, void *user, uint64_t *call) {
  return list(client, TASK_LIST, opts, fn, user, call);
}

idem_status idem_mcp_list_skills(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                                 idem_mcp_result_fn fn, void *user, uint64_t *call) {
  return list(client, SKILL_LIST, opts, fn, user, call);
}

/* ---------------------------------------------------------------- from elsewhere */

/* What was learnt is read when it is known whether arguments are mirrored. */
void idem__mcp_learnt(idem_mcp_client *client) {
  idem_status status = IDEM_OK;
  if (!client->learnt.len) return;
  yyjson_doc *doc = parse(client, client->learnt.data, client->learnt.len, &status);
  if (doc) status = idem__mcp_tools_learn(client, yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  if (status == IDEM_OK && client->learnt_ms) {
    idem__mcp_cache *cache = &client->caches[IDEM_MCP_TOOLS];
    uint64_t now = idem__conn_read_clock(client->conn);
    drop_cache(client, cache);
    *cache = (idem__mcp_cache){
        .text = client->learnt.data,
        .len = client->learnt.len,
        .fresh_until = now + client->learnt_ms < now ? UINT64_MAX : now + client->learnt_ms,
        .is_private = true};
    idem_buf_init(&client->learnt, &client->alloc, client->opts.max_list_bytes);
  }
  idem_buf_deinit(&client->learnt);
}

idem_status idem_mcp_client_learn_tools(idem_mcp_client *client, const char *json, size_t len,
                                        uint64_t fresh_ms) {
  idem_status status = IDEM_E_INVAL;
  yyjson_alc alc = idem__json_alc(&client->alloc);
  if (len > client->opts.max_list_bytes) return IDEM_E_LIMIT;
  yyjson_doc *doc = idem__json_read_text(json, len, 512, &alc, &status);
  yyjson_val *tools = yyjson_obj_get(yyjson_doc_get_root(doc), "tools");
  client->learnt.len = 0;
  if (doc) status = yyjson_is_arr(tools) ? idem__json_put(&client->learnt, tools) : IDEM_E_INVAL;
  if (status == IDEM_OK && yyjson_arr_size(tools) > client->opts.max_items) status = IDEM_E_LIMIT;
  yyjson_doc_free(doc);
  if (status != IDEM_OK) client->learnt.len = 0;
  client->learnt_ms = fresh_ms;
  if (client->revision && client->conn) idem__mcp_learnt(client);
  return status;
}
