/* claims.c - what a token must say before it is believed (RFC 7519, RFC 9068), and what it grants then. The order is that of
 * cost and of what its bearer may learn: how it is signed, by whom, for whom, when. */
#include "proof.h"

#include <math.h>
#include <string.h>

#define PRINCIPAL_BYTES 255u
#define FAR_FUTURE_S 253402300800.0 /* the year 10000 */

/* ------------------------------------------------------------------ times */

bool idem__claim_time(yyjson_val *root, const char *name, uint64_t otherwise, uint64_t *out) {
  yyjson_val *value = yyjson_obj_get(root, name);
  double seconds;
  *out = otherwise;
  if (!value) return true;
  if (!idem__json_get_double(value, &seconds) || !(seconds >= 0)) return false;
  *out = (uint64_t)floor(seconds < FAR_FUTURE_S ? seconds : FAR_FUTURE_S);
  return true;
}

/* `endless`: when it ends where it does not say; 0: it must. */
static const char *time_fault(yyjson_val *root, uint64_t endless, uint64_t now_s, uint64_t skew_s) {
  uint64_t ends, begins;
  if (!idem__claim_time(root, "exp", endless, &ends) || !idem__claim_time(root, "nbf", 0, &begins))
    return "the token says no time that could be read";
  if (!ends) return "the token does not say when it ends";
  if (now_s >= ends + skew_s) return "the token has expired";
  return now_s + skew_s < begins ? "the token is not valid yet" : NULL;
}

/* ---------------------------------------------------------------- for whom */

static bool is_for(yyjson_val *root, const char *audience) {
  yyjson_val *value = yyjson_obj_get(root, "aud");
  if (yyjson_is_str(value)) return yyjson_equals_str(value, audience);
  yyjson_arr_iter all = yyjson_arr_iter_with(value);
  for (yyjson_val *one; (one = yyjson_arr_iter_next(&all));)
    if (yyjson_equals_str(one, audience)) return true;
  return false;
}

static bool find_issuer(const idem__token_rules *rules, yyjson_val *root, size_t *issuer) {
  yyjson_val *value = yyjson_obj_get(root, "iss");
  for (size_t i = 0; i < rules->issuer_count; i++) {
    if (!yyjson_equals_str(value, rules->issuers[i])) continue;
    *issuer = i;
    return true;
  }
  return false;
}

/* Access tokens are marked as such, or as nothing special; what is marked as something else is something else. */
static bool is_access_token(const idem__token_rules *rules, const idem__token *token) {
  yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(token->header), "typ");
  const char *type = yyjson_get_str(value);
  size_t len = yyjson_get_len(value);
  static const char prefix[] = "application/";
  if (!value) return !rules->access_tokens_alone;
  if (!type) return false;
  if (len > sizeof prefix &&
      idem__text_equal_nocase(type, sizeof prefix - 1, prefix, sizeof prefix - 1))
    type += sizeof prefix - 1, len -= sizeof prefix - 1;
  if (idem__text_equal_nocase(type, len, "at+jwt", 6)) return true;
  return !rules->access_tokens_alone && idem__text_equal_nocase(type, len, "JWT", 3);
}

/* Who shows a bound token must show a proof as well, which is looked at elsewhere; one that is bound in another way than by
 * RFC 9449 (a certificate's digest, RFC 8705) may be stolen, for all that can be seen here. */
static const char *binding_fault(yyjson_val *root) {
  uint8_t thumbprint[IDEM__THUMBPRINT_BYTES];
  bool bound;
  const char *why;
  return idem__confirmation_read(root, &bound, thumbprint, &why) ? NULL : why;
}

static const char *fault_of(const idem__token_rules *rules, const idem__token *token,
                            uint64_t now_s, size_t *issuer) {
  yyjson_val *root = yyjson_doc_get_root(token->claims);
  if (rules->algorithms && !(rules->algorithms >> token->algorithm & 1u))
    return "the token is signed in a way that is not taken";
  if (!is_access_token(rules, token)) return "the token is of another kind (typ)";
  if (!find_issuer(rules, root, issuer)) return "the token is of another issuer";
  if (!is_for(root, rules->audience)) return "the token is for another audience";
  const char *fault = binding_fault(root);
  return fault ? fault : time_fault(root, 0, now_s, rules->skew_s);
}

idem_status idem__token_check(const idem__token_rules *rules, const idem__token *token,
                              uint64_t now_s, size_t *issuer, const char **why) {
  *why = fault_of(rules, token, now_s, issuer);
  return *why ? IDEM_E_INVAL : IDEM_OK;
}

/* ------------------------------------------------------------------- grants */

static idem_status add_list(idem_buf *out, yyjson_val *value) {
  yyjson_arr_iter all = yyjson_arr_iter_with(value);
  idem_status status = IDEM_OK;
  for (yyjson_val *one; status == IDEM_OK && (one = yyjson_arr_iter_next(&all));)
    if (yyjson_is_str(one)) status = idem__scope_add(out, yyjson_get_str(one), yyjson_get_len(one));
  return status;
}

/* `scope` is a text (RFC 8693, RFC 9068); some servers say `scp`, as a text or a list. */
static idem_status gather_scopes(yyjson_val *root, idem_buf *out) {
  static const char *const names[] = {"scope", "scp"};
  idem_status status = idem__scope_add(out, "", 0);
  for (size_t i = 0; i < 2 && status == IDEM_OK; i++) {
    yyjson_val *value = yyjson_obj_get(root, names[i]);
    status = yyjson_is_str(value)
                 ? idem__scope_add(out, yyjson_get_str(value), yyjson_get_len(value))
                 : add_list(out, value);
  }
  return status;
}

/* A name that can be told from every other: cut, or with two issuers alone, it could be somebody else's. */
static idem_status name_principal(const idem__token_rules *rules, yyjson_val *root, idem_buf *out,
                                  const char **why) {
  yyjson_val *value = yyjson_obj_get(root, rules->principal_claim);
  const char *name = yyjson_get_str(value), *issuer = yyjson_get_str(yyjson_obj_get(root, "iss"));
  const char *const once[] = {rules->principal_claim, NULL};
  size_t len = yyjson_get_len(value);
  *why = "the token says twice who asks";
  if (!idem__token_says_once(root, once)) return IDEM_E_INVAL;
  *why = "the token does not say who asks";
  if (!name || !len || memchr(name, 0, len)) return IDEM_E_INVAL;
  for (size_t i = 0; i < len; i++)
    if ((uint8_t)name[i] < ' ' || name[i] == 127) return IDEM_E_INVAL;
  *why = "the token says at too great length who asks";
  idem_status status = IDEM_OK;
  if (rules->issuer_count > 1) status = idem_buf_printf(out, "%s ", issuer ? issuer : "");
  if (status == IDEM_OK) status = idem_buf_put(out, name, len);
  if (status == IDEM_OK) status = idem_buf_put(out, "", 1);
  return status == IDEM_E_LIMIT ? IDEM_E_INVAL : status;
}

/* A broad scope has narrower ones in it, as the operator says, and these may have others. */
static idem_status add_implied(const idem__token_rules *rules, idem_buf *scope) {
  idem_status status = IDEM_OK;
  size_t before = 0;
  while (status == IDEM_OK && rules->implies && scope->len != before) {
    before = scope->len;
    for (char *const *pair = rules->implies; *pair && status == IDEM_OK; pair += 2)
      if (idem__scope_covers(scope->data, pair[0]))
        status = idem__scope_add(scope, pair[1], strlen(pair[1]));
  }
  return status;
}

/* Whatever cannot be told must not look like a token that anybody may show. */
static idem_status bind(idem__grant **grant, const char **why) {
  yyjson_val *claims = yyjson_doc_get_root((*grant)->claims);
  if (idem__confirmation_read(claims, &(*grant)->bound, (*grant)->key, why)) return IDEM_OK;
  idem__grant_unref(*grant);
  *grant = NULL;
  return IDEM_E_INVAL;
}

static idem_status describe(const idem__token_rules *rules, idem__grant **grant) {
  idem_status status = idem__grant_log_claims(*grant, rules->log_claims);
  if (status == IDEM_OK) return IDEM_OK;
  idem__grant_unref(*grant);
  *grant = NULL;
  return status;
}

/* Takes the claims. */
static idem_status make_grant(const idem__token_rules *rules, const idem_alloc *alloc,
                              yyjson_doc *claims, uint64_t ends_s, idem__grant **out,
                              const char **why) {
  char who[PRINCIPAL_BYTES + 1];
  yyjson_val *root = yyjson_doc_get_root(claims);
  idem_buf principal, scope;
  idem_buf_fixed(&principal, who, sizeof who);
  idem_buf_init(&scope, alloc, IDEM__SCOPE_BYTES);
  *out = NULL;
  idem_status status = name_principal(rules, root, &principal, why);
  if (status == IDEM_OK) {
    *why = "the token grants more than can be looked at";
    status = gather_scopes(root, &scope);
    if (status == IDEM_OK) status = add_implied(rules, &scope);
    if (status == IDEM_E_LIMIT) status = IDEM_E_INVAL;
  }
  if (status == IDEM_OK) {
    *out = idem__grant_new(alloc, who, scope.data, claims, ends_s);
    status = *out ? bind(out, why) : IDEM_E_NOMEM;
    if (status == IDEM_OK) status = describe(rules, out);
  } else {
    yyjson_doc_free(claims);
  }
  idem_buf_deinit(&scope);
  return status;
}

idem_status idem__token_grant(const idem__token_rules *rules, const idem_alloc *alloc,
                              idem__token *token, idem__grant **out, const char **why) {
  yyjson_doc *claims = token->claims;
  uint64_t ends_s;
  token->claims = NULL;
  if (!idem__claim_time(yyjson_doc_get_root(claims), "exp", 0, &ends_s)) ends_s = 0;
  return make_grant(rules, alloc, claims, ends_s + rules->skew_s, out, why);
}

/* ------------------------------------------------------------ introspection */

static bool says_bound(yyjson_val *root) {
  yyjson_val *type = yyjson_obj_get(root, "token_type");
  return yyjson_is_str(type) &&
         idem__text_equal_nocase(yyjson_get_str(type), yyjson_get_len(type), "DPoP", 4);
}

/* Where it names an issuer that must be ours, and times must hold; the server we asked has judged its signature, and may say no end. */
static const char *introspection_fault(const idem__token_rules *rules, yyjson_val *root,
                                       uint64_t now_s) {
  static const char *const once[] = {"active", "iss",   "aud", "exp", "nbf",
                                     "sub",    "scope", "scp", NULL};
  size_t issuer;
  if (!idem__token_says_once(root, once)) return "what was said of the token says something twice";
  if (!yyjson_is_true(yyjson_obj_get(root, "active"))) return "the token is not active";
  if (rules->issuer_count && yyjson_obj_get(root, "iss") && !find_issuer(rules, root, &issuer))
    return "the token is of another issuer";
  if (!is_for(root, rules->audience)) return "the token is for another audience";
  if (says_bound(root) && !yyjson_obj_get(root, "cnf"))
    return "the token is bound to a key, and nobody says to which";
  const char *fault = binding_fault(root);
  return fault ? fault : time_fault(root, UINT64_MAX - rules->skew_s, now_s, rules->skew_s);
}

idem_status idem__introspected(const idem__token_rules *rules, const idem_alloc *alloc,
                               const char *body, size_t len, uint64_t now_s, idem__grant **out,
                               const char **why) {
  yyjson_alc alc = idem__json_alc(alloc);
  idem_status status;
  uint64_t ends_s;
  *out = NULL;
  *why = "what was said of the token is no JSON object";
  yyjson_doc *doc = idem__json_read_text(body, len, 16, &alc, &status);
  if (!doc) return status;
  yyjson_val *root = yyjson_doc_get_root(doc);
  const char *fault = yyjson_is_obj(root) ? introspection_fault(rules, root, now_s) : *why;
  if (fault) {
    *why = fault;
    yyjson_doc_free(doc);
    return IDEM_E_INVAL;
  }
  if (!idem__claim_time(root, "exp", UINT64_MAX - rules->skew_s, &ends_s)) ends_s = 0;
  return make_grant(rules, alloc, doc, ends_s + rules->skew_s, out, why);
}
