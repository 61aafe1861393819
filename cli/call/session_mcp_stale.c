/* session_mcp_stale.c - what was remembered of a server, and no longer holds.
 * A call that was answered is sent again only where the answer proves that nothing ran: the server names what it speaks, and that
 * is something else. With --no-key not even then. */
#include "session_mcp.h"

#define UNSUPPORTED_VERSION (-32022)

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

void session_begin_anew(call_session *self) {
  cache_forget(&self->target);
  self->cached = false;
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
