/* flow_keep.c - what of a flow outlives a process: where the client is known and as whom, its tokens, what they were asked
 * for. As JSON, for a file that only its owner may read. */
#include "flow.h"

#include <string.h>

static const struct {
  const char *name;
  flow_text text;
} kept[] = {{"resource", TEXT_RESOURCE},
            {"client_issuer", TEXT_CLIENT_ISSUER},
            {"client_id", TEXT_CLIENT_ID},
            {"client_secret", TEXT_CLIENT_SECRET},
            {"registered_for", TEXT_REGISTERED_FOR},
            {"scope", TEXT_SCOPE},
            {"access_token", TEXT_ACCESS_TOKEN},
            {"refresh_token", TEXT_REFRESH_TOKEN}};
#define KEPT (sizeof kept / sizeof *kept)

static idem_status put(idem_buf *out, const char *name, const char *value) {
  if (!value) return IDEM_OK;
  idem_status status = idem_buf_printf(out, ",\"%s\":", name);
  return status == IDEM_OK ? idem_text_json_string(out, value, strlen(value)) : status;
}

/* A secret that the program was given is its to keep. */
static bool is_given(const idem__auth_flow *flow, flow_text which) {
  return which == TEXT_CLIENT_SECRET && flow->texts[TEXT_OWN_CLIENT_ID];
}

idem_status idem__auth_flow_save(const idem__auth_flow *flow, idem_buf *out) {
  idem_status status = idem_buf_printf(out, "{\"method\":%d", (int)flow->method);
  if (status == IDEM_OK) status = put(out, "url", flow->texts[TEXT_URL]);
  for (size_t i = 0; status == IDEM_OK && i < KEPT; i++)
    if (!is_given(flow, kept[i].text)) status = put(out, kept[i].name, flow->texts[kept[i].text]);
  if (status == IDEM_OK) status = put(out, "token_endpoint", flow->server.token_endpoint);
  if (status == IDEM_OK) status = put(out, "revocation_endpoint", flow->server.revocation_endpoint);
  if (status == IDEM_OK) status = flow_save_key(flow, out);
  if (status == IDEM_OK && flow->expires_s != UINT64_MAX)
    status = idem_buf_printf(out, ",\"expires\":%llu", (unsigned long long)flow->expires_s);
  return status == IDEM_OK ? idem_buf_puts(out, "}") : status;
}

const char *flow_text_of(yyjson_val *root, const char *name) {
  yyjson_val *value = yyjson_obj_get(root, name);
  const char *text = yyjson_get_str(value);
  return text && strlen(text) == yyjson_get_len(value) ? text : NULL;
}

/* A file may have been changed since, or be another server's or client's: what is for those is not shown to this. */
static bool may_be_taken(const idem__auth_flow *flow, yyjson_val *root) {
  const char *url = flow_text_of(root, "url"), *endpoint = flow_text_of(root, "token_endpoint");
  const char *revocation = flow_text_of(root, "revocation_endpoint");
  const char *client = flow_text_of(root, "client_id"), *own = flow->texts[TEXT_OWN_CLIENT_ID];
  if (!url || strcmp(url, flow->texts[TEXT_URL]) != 0) return false;
  if (own && client && strcmp(own, client) != 0) return false;
  return (!endpoint || idem__auth_url_is_safe(endpoint)) &&
         (!revocation || idem__auth_url_is_safe(revocation)) &&
         flow_is_token(flow_text_of(root, "access_token"));
}

static idem_status take_endpoint(idem__auth_flow *flow, const char *endpoint, char **place) {
  char *copy = endpoint ? idem__strndup(&flow->alloc, endpoint, strlen(endpoint)) : NULL;
  if (endpoint && !copy) return IDEM_E_NOMEM;
  idem__free(&flow->alloc, *place);
  *place = copy;
  return IDEM_OK;
}

/* What is not there is not there any more. */
static bool take_texts(idem__auth_flow *flow, yyjson_val *root) {
  for (size_t i = 0; i < KEPT; i++)
    if (!flow_copy(flow, kept[i].text, flow_text_of(root, kept[i].name))) return false;
  return !flow->texts[TEXT_OWN_CLIENT_ID] ||
         flow_copy(flow, TEXT_CLIENT_SECRET, flow->texts[TEXT_OWN_CLIENT_SECRET]);
}

static idem_status take(idem__auth_flow *flow, yyjson_val *root) {
  int64_t number;
  if (!yyjson_is_obj(root) || !may_be_taken(flow, root) ||
      !flow_take_key(flow, flow_text_of(root, "proof_key")))
    return IDEM_E_INVAL;
  if (!take_texts(flow, root)) return IDEM_E_NOMEM;
  yyjson_val *expires = yyjson_obj_get(root, "expires"), *method = yyjson_obj_get(root, "method");
  bool ends = expires && idem__json_get_int(expires, &number) && number >= 0;
  flow->expires_s = ends ? (uint64_t)number : UINT64_MAX;
  if (method && idem__json_get_int(method, &number) && number >= IDEM__AUTH_NONE &&
      number <= IDEM__AUTH_PRIVATE_KEY_JWT)
    flow->method = (idem__auth_method)number;
  idem__auth_server *server = &flow->server;
  idem_status status =
      take_endpoint(flow, flow_text_of(root, "token_endpoint"), &server->token_endpoint);
  if (status == IDEM_OK)
    status = take_endpoint(flow, flow_text_of(root, "revocation_endpoint"),
                           &server->revocation_endpoint);
  return status == IDEM_OK ? flow_make_bearer(flow) : status;
}

idem_status idem__auth_flow_take(idem__auth_flow *flow, const char *json, size_t len) {
  yyjson_alc alc = idem__json_alc(&flow->alloc);
  idem_status status = IDEM_OK;
  yyjson_doc *doc = idem__json_read_text(json, len, 8, &alc, &status);
  if (doc) status = take(flow, yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  return status;
}
