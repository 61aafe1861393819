/* session_mcp_stale.c - what is remembered of a server, and what of it no longer holds.
 * A call that was answered is sent again only where the answer proves that nothing ran: the server names what it speaks, and that
 * is something else, or it refuses arguments that were made by a schema which it no longer has. With --no-key not even then. */
#include "session_mcp.h"

#include "config/memory.h"

#include <stdlib.h>
#include <string.h>

#define UNSUPPORTED_VERSION (-32022)

/* ---------------------------------------------------------------------- remembering */

/* With --no-cache nothing new is kept, and nothing old either. */
static bool may_remember(const call_session *self) {
  if (self->options->revisions) return false; /* it may have another, better one */
  return !self->options->no_cache || cache_exists(&self->target);
}

/* How long the server lets its list be kept (2026-07-28); older ones say nothing of it. */
static void put_freshness(text *about, yyjson_val *result, uint64_t now) {
  yyjson_val *said = yyjson_obj_get(result, "ttlMs");
  text_printf(about, ",\"listed\":%llu", (unsigned long long)now);
  if (yyjson_is_uint(said))
    text_printf(about, ",\"fresh\":%llu", (unsigned long long)yyjson_get_uint(said));
}

void session_remember(const call_session *self, const idem_mcp_result *list) {
  text about = {.data = NULL};
  uint64_t now = cache_now_ms();
  if (!may_remember(self)) return;
  const char *keys = idem_mcp_client_keys(self->client);
  text_printf(&about, "{\"revision\":\"%s\"",
              idem_mcp_revision_date(idem_mcp_client_revision(self->client)));
  if (keys) text_printf(&about, ",\"keys\":\"%s\"", keys);
  put_freshness(&about, list->result, now);
  text_puts(&about, "}");
  cache_store(&self->target, self->at_once ? self->cache.at : now, about.data, about.len,
              list->items);
  text_free(&about);
}

void session_remember_names(const call_session *self) {
  if (!may_remember(self)) return;
  cache_store_names(&self->target, self->look.lists[IDEM_MCP_RESOURCES],
                    self->look.lists[IDEM_MCP_TEMPLATES], self->look.lists[IDEM_MCP_PROMPTS]);
}

static bool learn(const call_session *self, uint64_t fresh_ms) {
  size_t len;
  text list = {.data = NULL};
  char *tools = yyjson_val_write(cache_tools(&self->cache), 0, &len);
  if (!tools) return false;
  text_puts(&list, "{\"tools\":");
  text_put(&list, tools, len);
  text_puts(&list, "}");
  idem_status status = idem_mcp_client_learn_tools(self->client, list.data, list.len, fresh_ms);
  text_free(&list);
  free(tools);
  return status == IDEM_OK;
}

bool session_learn(const call_session *self) {
  uint64_t fresh_ms = self->cached ? cache_fresh_ms(&self->cache) : 0;
  return fresh_ms && learn(self, fresh_ms);
}

/* An old list is better than none, and a call with a key is asked again until the server is back. */
bool session_learn_anyway(const call_session *self, const idem_mcp_result *result) {
  bool away = result->status == IDEM_E_SYS || result->status == IDEM_E_CLOSED ||
              (result->http_status >= 502 && result->http_status <= 504);
  return self->cached && self->at_once && away && learn(self, CACHE_FRESH_MS);
}

/* ------------------------------------------------------------- what no longer holds */

/* Who asks is at fault, or what they may; asking anew would come to the same, and show a person a second page. */
bool session_is_refused(int http_status) { return http_status == 401 || http_status == 403; }

/* As a server speaks that does not know what it is asked, or in which way; a tool may say the same. */
static bool sounds_stale(const idem_mcp_result *result) {
  if (result->status != IDEM_E_REMOTE) return false;
  return result->http_status == 400 || result->http_status == 404 || result->http_status == 405 ||
         result->code == IDEM_RPC_METHOD_NOT_FOUND || result->code == IDEM_RPC_INVALID_REQUEST ||
         result->code == UNSUPPORTED_VERSION;
}

/* It names what it speaks, and that is something else. */
static bool speaks_otherwise(const call_session *self, const idem_mcp_result *result) {
  bool coded = result->code == UNSUPPORTED_VERSION || result->code == IDEM_RPC_INVALID_REQUEST;
  yyjson_val *supported = yyjson_obj_get(result->data, "supported"), *each;
  const char *spoken = idem_mcp_revision_date(idem_mcp_client_revision(self->client));
  size_t index, count;
  if (result->status != IDEM_E_REMOTE || !coded || !yyjson_arr_size(supported)) return false;
  yyjson_arr_foreach(supported, index, count, each) {
    if (yyjson_equals_str(each, spoken)) return false;
  }
  return true;
}

static bool only_reads(const call_session *self) {
  call_kind kind = self->options->kind;
  return kind == CALL_READ || kind == CALL_PROMPT || kind == CALL_COMPLETE;
}

bool session_is_stale(const call_session *self, const idem_mcp_result *result) {
  if (!self->cached || result->status == IDEM_OK || result->fate == IDEM_MCP_UNKNOWN) return false;
  if (session_is_refused(result->http_status)) return false;
  if (result->status == IDEM_E_STATE || result->status == IDEM_E_INVAL)
    return result->fate == IDEM_MCP_NOT_SENT;
  if (only_reads(self)) return sounds_stale(result);
  return !self->options->no_key && speaks_otherwise(self, result);
}

bool session_list_is_stale(const call_session *self, const idem_mcp_result *result) {
  return self->cached && !session_is_refused(result->http_status) && sounds_stale(result);
}

void session_begin_anew(call_session *self) {
  cache_forget(&self->target);
  self->cached = self->at_once = false;
  self->again = true;
  self->calling = false;
  if (self->client) idem_mcp_client_close(self->client);
}

void session_doubt_memory(const call_session *self, const idem_mcp_result *result) {
  if (!self->cached || !self->at_once || !sounds_stale(result)) return;
  cache_forget(&self->target);
  trouble_try("the same again: what was remembered of this server is forgotten, and it is asked "
              "first what it speaks");
}

/* ------------------------------------------------------------ an old list of tools */

static bool has_text(const idem_mcp_result *result, const char *words) {
  yyjson_val *first = yyjson_arr_get_first(result->content);
  const char *said = yyjson_get_str(yyjson_obj_get(first, "text"));
  return said && strcasestr(said, words);
}

/* Refused by its arguments or its name, so that it did not run; unless a tool speaks like that, see session_may_call_again(). */
bool session_doubts_list(const call_session *self, const idem_mcp_result *result) {
  if (!self->cached || self->options->kind != CALL_TOOL) return false;
  if (result->status == IDEM_E_REMOTE) return result->code == IDEM_RPC_INVALID_PARAMS;
  if (result->status != IDEM_OK || !result->is_error) return false;
  return has_text(result, "invalid arguments") || has_text(result, "validation error") ||
         has_text(result, "unknown tool") || has_text(result, "not found");
}

static char *copy_of(const char *data, size_t len) {
  char *copy = data ? strndup(data, len) : NULL;
  if (data && !copy) memory_exhausted();
  return copy;
}

static yyjson_doc *copy_value(yyjson_val *value) {
  size_t len;
  char *written = value ? yyjson_val_write(value, 0, &len) : NULL;
  yyjson_doc *doc = written ? yyjson_read(written, len, YYJSON_READ_BIGNUM_AS_RAW) : NULL;
  if (value && !doc) memory_exhausted();
  free(written);
  return doc;
}

void session_keep_answer(call_session *self, const idem_mcp_result *result) {
  call_answer *kept = &self->answer;
  session_free_answer(self);
  kept->key = copy_of(result->key, result->key ? strlen(result->key) : 0);
  kept->message = copy_of(result->message, result->message_len);
  kept->value = copy_value(result->result);
  kept->data = copy_value(result->data);
  yyjson_val *value = yyjson_doc_get_root(kept->value);
  yyjson_val *content = yyjson_obj_get(value, "content");
  kept->result = *result;
  kept->result.key = kept->key;
  kept->result.message = kept->message;
  kept->result.result = value;
  kept->result.content = yyjson_is_arr(content) ? content : NULL;
  kept->result.structured = yyjson_obj_get(value, "structuredContent");
  kept->result.data = yyjson_doc_get_root(kept->data);
  kept->result.task = kept->result.items = NULL;
}

void session_free_answer(call_session *self) {
  call_answer *kept = &self->answer;
  free(kept->key);
  free(kept->message);
  yyjson_doc_free(kept->value);
  yyjson_doc_free(kept->data);
  *kept = (call_answer){.key = NULL};
}

bool session_may_call_again(const call_session *self, yyjson_val *schema) {
  const text *sent = &self->sent, *made = &self->made;
  bool same = sent->len == made->len && memcmp(sent->data, made->data, made->len) == 0;
  return !same && !self->options->no_key && !arguments_fit(schema, sent);
}
