/* flow_client.c - who we are to an authorization server: known to it beforehand, by a document of our own that it may
 * fetch, or by registering there. What one server knows us as is never shown to another. */
#include "flow.h"

#include <string.h>

static bool server_takes(const idem__auth_flow *flow, idem__auth_method method) {
  return flow->server.methods & 1u << method;
}

/* With a secret or a key, or without. False: the server takes nothing of that. Where it does not say what it takes, a client that
 * it knows is taken at its word: how it shows who it is was agreed on with it. Who has neither has nothing to show: many servers that know
 * such clients do not say so. */
static bool choose_method(idem__auth_flow *flow, bool has_secret) {
  static const idem__auth_method with_secret[] = {IDEM__AUTH_BASIC, IDEM__AUTH_POST};
  bool silent = flow->server.silent_on_methods, has_key = flow->opts.sign != NULL;
  if (has_key && (server_takes(flow, IDEM__AUTH_PRIVATE_KEY_JWT) || (silent && !has_secret))) {
    flow->method = IDEM__AUTH_PRIVATE_KEY_JWT;
    return true;
  }
  for (size_t i = 0; has_secret && i < 2; i++) {
    flow->method = with_secret[i];
    if (server_takes(flow, flow->method)) return true;
  }
  flow->method = IDEM__AUTH_NONE;
  return !has_secret && !has_key;
}

/* ------------------------------------------------------------- registering */

static const char *method_name(idem__auth_method method) {
  static const char *const names[] = {"none", "client_secret_basic", "client_secret_post",
                                      "private_key_jwt"};
  return names[method];
}

static idem__auth_method method_to_register(const idem__auth_flow *flow) {
  static const idem__auth_method wishes[] = {IDEM__AUTH_NONE, IDEM__AUTH_BASIC, IDEM__AUTH_POST};
  for (size_t i = 0; i < 3; i++)
    if (server_takes(flow, wishes[i])) return wishes[i];
  return IDEM__AUTH_NONE;
}

static idem_status put_string(idem_buf *out, const char *text) {
  return idem_text_json_string(out, text, strlen(text));
}

static idem_status put_registration(idem__auth_flow *flow) {
  idem_buf *out = &flow->form;
  bool device = flow->opts.grant == IDEM__AUTH_DEVICE;
  idem_status status = idem_buf_puts(out, "{\"client_name\":");
  if (status == IDEM_OK) status = put_string(out, flow->texts[TEXT_CLIENT_NAME]);
  if (status == IDEM_OK && device) {
    status = idem_buf_puts(out, ",\"redirect_uris\":[],\"response_types\":[]");
  } else if (status == IDEM_OK) {
    status = idem_buf_puts(out, ",\"redirect_uris\":[");
    if (status == IDEM_OK) status = put_string(out, flow->texts[TEXT_REDIRECT_URI]);
    if (status == IDEM_OK) status = idem_buf_puts(out, "],\"response_types\":[\"code\"]");
  }
  if (status != IDEM_OK) return status;
  return idem_buf_printf(
      out,
      ",\"application_type\":\"native\",\"grant_types\":[\"%s\"%s],\"token_endpoint_auth_method\":"
      "\"%s\"}",
      device ? "urn:ietf:params:oauth:grant-type:device_code" : "authorization_code",
      flow->opts.refresh ? ",\"refresh_token\"" : "", method_name(flow->method));
}

static void register_client(idem__auth_flow *flow) {
  bool person = flow->opts.grant == IDEM__AUTH_CODE || flow->opts.grant == IDEM__AUTH_DEVICE;
  if (!person || !flow->server.registration_endpoint) {
    flow_fail(
        flow,
        "the authorization server (%.200s) must know this client beforehand: give a client id",
        flow->server.issuer);
    return;
  }
  flow->method = method_to_register(flow);
  flow->form.len = flow->header.len = 0;
  if (flow_good(flow, put_registration(flow)))
    flow_post(flow, FLOW_REGISTER, flow->server.registration_endpoint);
}

/* A client is registered for one way back; another port or a device is another client. */
static const char *way_back(const idem__auth_flow *flow) {
  return flow->opts.grant == IDEM__AUTH_CODE ? flow->texts[TEXT_REDIRECT_URI] : "device";
}

static void take_registration(idem__auth_flow *flow, yyjson_val *root) {
  const char *id = yyjson_get_str(yyjson_obj_get(root, "client_id"));
  const char *secret = yyjson_get_str(yyjson_obj_get(root, "client_secret"));
  yyjson_val *method = yyjson_obj_get(root, "token_endpoint_auth_method");
  if (!id || !*id) {
    flow_fail(flow, "the authorization server registered the client without an id");
    return;
  }
  for (int i = IDEM__AUTH_NONE; i <= IDEM__AUTH_POST; i++)
    if (yyjson_equals_str(method, method_name((idem__auth_method)i)))
      flow->method = (idem__auth_method)i;
  if (!secret) flow->method = IDEM__AUTH_NONE;
  flow->registered = true;
  if (flow_copy(flow, TEXT_CLIENT_ID, id) && flow_copy(flow, TEXT_CLIENT_SECRET, secret) &&
      flow_copy(flow, TEXT_REGISTERED_FOR, way_back(flow)) &&
      flow_copy(flow, TEXT_CLIENT_ISSUER, flow->server.issuer))
    flow_begin_grant(flow);
}

/* RFC 7591, 3.2.2. */
static void registration_refused(idem__auth_flow *flow, yyjson_val *root, int status) {
  char said[FLOW_SAID];
  flow_said(flow, root, said);
  if (status)
    flow_fail(flow, "the authorization server did not register the client (%d%s)", status, said);
  else
    flow_fail(flow, "the authorization server does not answer");
}

void flow_registered(idem__auth_flow *flow, int status, const char *body, size_t len) {
  yyjson_alc alc = idem__json_alc(&flow->alloc);
  idem_status read;
  yyjson_doc *doc = idem__json_read_text(body, len, 32, &alc, &read);
  if (doc && (status == 200 || status == 201))
    take_registration(flow, yyjson_doc_get_root(doc));
  else
    registration_refused(flow, yyjson_doc_get_root(doc), status);
  yyjson_doc_free(doc);
}

/* ---------------------------------------------------------------- choosing */

static void use_known(idem__auth_flow *flow, const char *id, const char *secret) {
  if (!choose_method(flow, secret != NULL)) {
    flow_fail(
        flow,
        "the authorization server takes none of the ways in which this client can show who it is");
    return;
  }
  if (flow_copy(flow, TEXT_CLIENT_ID, id) && flow_copy(flow, TEXT_CLIENT_SECRET, secret) &&
      flow_copy(flow, TEXT_REGISTERED_FOR, NULL) &&
      flow_copy(flow, TEXT_CLIENT_ISSUER, flow->server.issuer))
    flow_begin_grant(flow);
}

static bool is_known(const idem__auth_flow *flow) {
  const char *where = flow->texts[TEXT_CLIENT_ISSUER], *way = flow->texts[TEXT_REGISTERED_FOR];
  return flow->texts[TEXT_CLIENT_ID] && where && strcmp(where, flow->server.issuer) == 0 &&
         (!way || strcmp(way, way_back(flow)) == 0);
}

/* The server names another authorization server than the one that knew this client. */
static bool has_moved(const idem__auth_flow *flow) {
  const char *where = flow->texts[TEXT_CLIENT_ISSUER], *id = flow->texts[TEXT_CLIENT_ID];
  return where && id && strcmp(id, flow->texts[TEXT_OWN_CLIENT_ID]) == 0 &&
         strcmp(where, flow->server.issuer) != 0;
}

void flow_choose_client(idem__auth_flow *flow) {
  if (flow->texts[TEXT_OWN_CLIENT_ID] && has_moved(flow)) {
    flow_fail(flow,
              "the server names another authorization server (%.200s) than the one that knows this "
              "client (%.200s); if that is meant, log out and log in again",
              flow->server.issuer, flow->texts[TEXT_CLIENT_ISSUER]);
  } else if (flow->texts[TEXT_OWN_CLIENT_ID]) {
    use_known(flow, flow->texts[TEXT_OWN_CLIENT_ID], flow->texts[TEXT_OWN_CLIENT_SECRET]);
  } else if (is_known(flow)) {
    flow_begin_grant(flow);
  } else if (flow->opts.grant == IDEM__AUTH_JWT_BEARER) {
    flow->method = IDEM__AUTH_NONE; /* the assertion says it all */
    flow_begin_grant(flow);
  } else if (flow->texts[TEXT_CLIENT_DOCUMENT] && flow->server.takes_documents) {
    use_known(flow, flow->texts[TEXT_CLIENT_DOCUMENT], NULL);
  } else {
    register_client(flow);
  }
}

/* ----------------------------------------------------------------- showing */

/* RFC 6749, 2.3.1: both are form-encoded before they are joined. */
static bool add_basic(idem__auth_flow *flow, const char *id, const char *secret) {
  idem_buf pair;
  idem_buf_init(&pair, &flow->alloc, 16384);
  idem_status status = idem__auth_form_add(&pair, "", id);
  size_t name = pair.len;
  if (status == IDEM_OK) status = idem__auth_form_add(&pair, "", secret);
  if (status == IDEM_OK) { /* "=id&=secret" becomes "id:secret" */
    memmove(pair.data + name + 1, pair.data + name + 2, pair.len - name - 2);
    pair.data[name] = ':';
    pair.len--;
  }
  if (status == IDEM_OK) status = idem_buf_puts(&flow->header, "Basic ");
  if (status == IDEM_OK)
    status = idem_base64_encode(&flow->header, pair.data + 1, pair.len - 1, IDEM_BASE64_STANDARD);
  if (pair.data) flow_wipe(pair.data, pair.cap);
  idem_buf_deinit(&pair);
  return flow_good(flow, status);
}

/* RFC 7523: a JWT of our own, good for a minute and once. */
static bool add_assertion(idem__auth_flow *flow) {
  idem_buf claims, token;
  uint64_t now = flow->opts.now_s(flow->opts.user);
  if (!flow_random_text(flow, TEXT_STATE)) return false;
  idem_buf_init(&claims, &flow->alloc, 16384);
  idem_buf_init(&token, &flow->alloc, 16384);
  idem_status status = idem_buf_puts(&claims, "{\"iss\":");
  if (status == IDEM_OK) status = put_string(&claims, flow->texts[TEXT_CLIENT_ID]);
  if (status == IDEM_OK) status = idem_buf_puts(&claims, ",\"sub\":");
  if (status == IDEM_OK) status = put_string(&claims, flow->texts[TEXT_CLIENT_ID]);
  if (status == IDEM_OK) status = idem_buf_puts(&claims, ",\"aud\":");
  if (status == IDEM_OK) status = put_string(&claims, flow->texts[TEXT_CLIENT_ISSUER]);
  if (status == IDEM_OK)
    status = idem_buf_printf(&claims, ",\"iat\":%llu,\"exp\":%llu,\"jti\":\"%s\"}",
                             (unsigned long long)now, (unsigned long long)now + 60,
                             flow->texts[TEXT_STATE]);
  if (status == IDEM_OK) status = flow->opts.sign(claims.data, claims.len, &token, flow->opts.user);
  if (status == IDEM_OK) status = idem_buf_put(&token, "", 1);
  if (status == IDEM_OK)
    status = idem__auth_form_add(&flow->form, "client_assertion_type",
                                 "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
  if (status == IDEM_OK) status = idem__auth_form_add(&flow->form, "client_assertion", token.data);
  idem_buf_deinit(&claims);
  idem_buf_deinit(&token);
  if (status == IDEM_E_INVAL) flow_fail(flow, "the client's key cannot sign");
  return status != IDEM_E_INVAL && flow_good(flow, status);
}

/* What is kept may be of a client whose secret or key is not at hand. */
static bool can_show(const idem__auth_flow *flow) {
  if (flow->method == IDEM__AUTH_PRIVATE_KEY_JWT)
    return flow->opts.sign && flow->texts[TEXT_CLIENT_ISSUER];
  return flow->method == IDEM__AUTH_NONE || flow->texts[TEXT_CLIENT_SECRET];
}

bool flow_add_client(idem__auth_flow *flow) {
  idem_status status = IDEM_OK;
  flow->header.len = 0;
  if (!flow->texts[TEXT_CLIENT_ID]) return true;
  if (!can_show(flow)) {
    flow_fail(flow, "the client's secret or key is needed, and was not given");
    return false;
  }
  if (flow->method == IDEM__AUTH_BASIC)
    return add_basic(flow, flow->texts[TEXT_CLIENT_ID], flow->texts[TEXT_CLIENT_SECRET]);
  if (flow->method == IDEM__AUTH_PRIVATE_KEY_JWT) return add_assertion(flow);
  status = idem__auth_form_add(&flow->form, "client_id", flow->texts[TEXT_CLIENT_ID]);
  if (status == IDEM_OK && flow->method == IDEM__AUTH_POST)
    status = idem__auth_form_add(&flow->form, "client_secret", flow->texts[TEXT_CLIENT_SECRET]);
  return flow_good(flow, status);
}

/* At the identity provider of a company nobody has asked which ways it takes: every server takes the header (RFC 6749, 2.3.1). */
bool flow_add_idp_client(idem__auth_flow *flow) {
  const char *id = flow->texts[TEXT_IDP_CLIENT_ID], *secret = flow->texts[TEXT_IDP_CLIENT_SECRET];
  flow->header.len = 0;
  if (id && secret && !flow->opts.idp_secret_post) return add_basic(flow, id, secret);
  idem_status status = idem__auth_form_add(&flow->form, "client_id", id);
  if (status == IDEM_OK) status = idem__auth_form_add(&flow->form, "client_secret", secret);
  return flow_good(flow, status);
}
