/* read.c - resources that were read, kept while the server calls them fresh (2026-07-28: ttlMs), bounded in number and
 * bytes, the longest unused first to go. One that is told to have changed is forgotten, and what was meant for one user
 * alone when other credentials are used. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define READS_MAX 256

typedef struct kept_read {
  idem_list link; /* in the client's, the latest used last */
  size_t uri_len; /* bytes: the URI as JSON, then the result */
  size_t len;
  uint64_t fresh_until; /* ms */
  bool is_private;
  char bytes[];
} kept_read;

static kept_read *read_at(idem_list *node) { return IDEM_CONTAINER(node, kept_read, link); }

static void drop(idem_mcp_client *client, kept_read *kept) {
  idem_list_remove(&kept->link);
  client->read_bytes -= kept->uri_len + kept->len;
  client->read_count--;
  idem__free(&client->alloc, kept);
}

void idem__mcp_reads_drop(idem_mcp_client *client, bool only_private) {
  for (idem_list *node = client->reads.next, *next; node != &client->reads; node = next) {
    next = node->next;
    if (!only_private || read_at(node)->is_private) drop(client, read_at(node));
  }
}

static kept_read *find(const idem_mcp_client *client, const char *uri, size_t len) {
  for (idem_list *node = client->reads.next; node != &client->reads; node = node->next) {
    kept_read *kept = read_at(node);
    if (kept->uri_len == len && memcmp(kept->bytes, uri, len) == 0) return kept;
  }
  return NULL;
}

void idem__mcp_read_updated(idem_mcp_client *client, const char *uri, size_t len) {
  idem_buf json;
  if (!client->read_count) return;
  idem_buf_init(&json, &client->alloc, len * 6 + 16);
  if (idem_text_json_string(&json, uri, len) == IDEM_OK) {
    kept_read *kept = find(client, json.data, json.len);
    if (kept) drop(client, kept);
  } else {
    idem__mcp_reads_drop(client, false); /* whichever it is, it is gone */
  }
  idem_buf_deinit(&json);
}

/* --------------------------------------------------------------------- keeping */

static bool is_read(const idem__mcp_call *call) {
  return call->row == &idem__mcp_methods[IDEM__METHOD_RESOURCES_READ] && call->subject_len;
}

static void make_room(idem_mcp_client *client, size_t bytes) {
  while (client->read_count && (client->read_count >= READS_MAX ||
                                client->read_bytes + bytes > client->opts.max_cache_bytes))
    drop(client, read_at(client->reads.next));
}

static kept_read *make_kept(const idem__mcp_call *call, yyjson_val *result, const idem_buf *text) {
  const idem_mcp_client *client = call->client;
  size_t uri_len = call->subject_len;
  kept_read *kept = idem__malloc(&client->alloc, sizeof *kept + uri_len + text->len);
  if (!kept) return NULL;
  *kept =
      (kept_read){.uri_len = uri_len,
                  .len = text->len,
                  .is_private = !yyjson_equals_str(yyjson_obj_get(result, "cacheScope"), "public")};
  memcpy(kept->bytes, call->text + call->subject_at, uri_len);
  memcpy(kept->bytes + uri_len, text->data, text->len);
  return kept;
}

static void take_in(idem_mcp_client *client, kept_read *kept, uint64_t fresh_ms) {
  kept->fresh_until = idem__conn_now_ms(client->conn) + fresh_ms;
  make_room(client, kept->uri_len + kept->len);
  idem_list_append(&client->reads, &kept->link);
  client->read_bytes += kept->uri_len + kept->len;
  client->read_count++;
}

/* Without memory for it, it will be asked for again. */
void idem__mcp_read_keep(const idem__mcp_call *call, yyjson_val *result) {
  idem_mcp_client *client = call->client;
  int64_t ttl = 0;
  if (!is_read(call) || call->rounds || !idem__mcp_modern(client)) return;
  kept_read *kept = find(client, call->text + call->subject_at, call->subject_len);
  if (kept) drop(client, kept);
  if (!idem__json_get_int(yyjson_obj_get(result, "ttlMs"), &ttl) || ttl <= 0) return;
  idem_buf text;
  idem_buf_init(&text, &client->alloc, client->opts.max_cache_bytes / 4);
  kept = idem__json_put(&text, result) == IDEM_OK ? make_kept(call, result, &text) : NULL;
  if (kept) take_in(client, kept, (uint64_t)ttl);
  idem_buf_deinit(&text);
}

/* ---------------------------------------------------------------------- finding */

static kept_read *find_fresh(const idem__mcp_call *call) {
  const idem_mcp_client *client = call->client;
  kept_read *kept = find(client, call->text + call->subject_at, call->subject_len);
  return kept && kept->fresh_until > idem__conn_read_clock(client->conn) ? kept : NULL;
}

bool idem__mcp_read_is_kept(idem__mcp_call *call) {
  if (!is_read(call) || call->fresh || !find_fresh(call)) return false;
  call->from_cache = true;
  idem__mcp_call_end_soon(call, IDEM_OK, NULL);
  return true;
}

void idem__mcp_read_end(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  yyjson_alc alc = idem__json_alc(&client->alloc);
  kept_read *kept = find_fresh(call);
  yyjson_doc *doc = kept ? yyjson_read_opts(kept->bytes + kept->uri_len, kept->len,
                                            YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL)
                         : NULL;
  if (!doc) { /* it was dropped meanwhile */
    call->from_cache = false;
    idem_status status = idem__mcp_call_send(call);
    if (status != IDEM_OK) idem__mcp_call_fail(call, status, idem_status_text(status));
    return;
  }
  idem_list_remove(&kept->link);
  idem_list_append(&client->reads, &kept->link);
  if (call->kind == IDEM__MCP_SKILL)
    idem__mcp_skill_end(call, yyjson_doc_get_root(doc));
  else
    idem__mcp_call_end(call,
                       &(idem_mcp_result){.result = yyjson_doc_get_root(doc), .from_cache = true});
  yyjson_doc_free(doc);
}
