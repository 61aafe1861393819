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
            {"scope", TEXT_SCOPE},
            {"access_token", TEXT_ACCESS_TOKEN},
            {"refresh_token", TEXT_REFRESH_TOKEN}};
#define KEPT (sizeof kept / sizeof *kept)

static idem_status put(idem__buf *out, const char *name, const char *value) {
  if (!value) return IDEM_OK;
  idem_status status =
      idem__buf_printf(out, "%s\"%s\":", out->data[out->len - 1] == '{' ? "" : ",", name);
  return status == IDEM_OK ? idem__text_json_string(out, value, strlen(value)) : status;
}

idem_status idem__auth_flow_save(const idem__auth_flow *flow, idem__buf *out) {
  idem_status status = idem__buf_puts(out, "{");
  for (size_t i = 0; status == IDEM_OK && i < KEPT; i++)
    status = put(out, kept[i].name, flow->texts[kept[i].text]);
  if (status == IDEM_OK) status = put(out, "token_endpoint", flow->server.token_endpoint);
  if (status == IDEM_OK && flow->expires_s != UINT64_MAX)
    status = idem__buf_printf(out, ",\"expires\":%llu", (unsigned long long)flow->expires_s);
  if (status != IDEM_OK) return status;
  return idem__buf_printf(out, ",\"method\":%d}", (int)flow->method);
}

/* What a token endpoint must be has been checked when it was found; a file may have been changed since. */
static idem_status take_endpoint(idem__auth_flow *flow, yyjson_val *root) {
  const char *endpoint = yyjson_get_str(yyjson_obj_get(root, "token_endpoint"));
  if (!endpoint) return IDEM_OK;
  if (!idem__auth_url_is_safe(endpoint)) return IDEM_E_INVAL;
  idem__free(&flow->alloc, flow->server.token_endpoint);
  flow->server.token_endpoint = idem__strndup(&flow->alloc, endpoint, strlen(endpoint));
  return flow->server.token_endpoint ? IDEM_OK : IDEM_E_NOMEM;
}

static bool take_texts(idem__auth_flow *flow, yyjson_val *root) {
  for (size_t i = 0; i < KEPT; i++) {
    yyjson_val *value = yyjson_obj_get(root, kept[i].name);
    const char *text = yyjson_get_str(value);
    if (text && strlen(text) == yyjson_get_len(value) && !flow_copy(flow, kept[i].text, text))
      return false;
  }
  return true;
}

static idem_status take_token(idem__auth_flow *flow) {
  const char *token = flow->texts[TEXT_ACCESS_TOKEN];
  flow->bearer.len = 0;
  if (!token) return IDEM_OK;
  for (const char *at = token; *at; at++)
    if ((uint8_t)*at <= ' ' || (uint8_t)*at >= 127) return IDEM_E_INVAL;
  idem_status status = idem__buf_printf(&flow->bearer, "Bearer %s", token);
  if (status == IDEM_OK) status = idem__buf_put(&flow->bearer, "", 1);
  if (status == IDEM_OK) flow->bearer.len--;
  return status;
}

static idem_status take(idem__auth_flow *flow, yyjson_val *root) {
  int64_t number;
  if (!yyjson_is_obj(root)) return IDEM_E_INVAL;
  if (!take_texts(flow, root)) return IDEM_E_NOMEM;
  yyjson_val *expires = yyjson_obj_get(root, "expires"), *method = yyjson_obj_get(root, "method");
  if (expires && idem__json_get_int(expires, &number) && number >= 0)
    flow->expires_s = (uint64_t)number;
  if (method && idem__json_get_int(method, &number) && number >= IDEM__AUTH_NONE &&
      number <= IDEM__AUTH_PRIVATE_KEY_JWT)
    flow->method = (idem__auth_method)number;
  idem_status status = take_endpoint(flow, root);
  return status == IDEM_OK ? take_token(flow) : status;
}

idem_status idem__auth_flow_take(idem__auth_flow *flow, const char *json, size_t len) {
  yyjson_alc alc = idem__json_alc(&flow->alloc);
  idem_status status = IDEM_OK;
  yyjson_doc *doc = idem__json_read_text(json, len, 8, &alc, &status);
  if (doc) status = take(flow, yyjson_doc_get_root(doc));
  yyjson_doc_free(doc);
  return status;
}
