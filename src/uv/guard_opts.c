/* guard_opts.c - what a guard was told, checked and copied; and what it says of its server: the metadata of RFC 9728 at their
 * well-known paths. */
#include "auth/auth.h"
#include "uv/guard.h"

#include <stdio.h>
#include <string.h>

#define SKEW_S 30u
#define INTROSPECTION_S 60u
#define ISSUERS_MAX 16u
#define IMPLIES_MAX ((size_t)64)
#define DOCUMENT_BYTES 65536u

_Static_assert(IDEM_HTTP_EDDSA == 1 << IDEM__EDDSA && IDEM_HTTP_ES256 == 1 << IDEM__ES256 &&
                   IDEM_HTTP_PS256 == 1 << IDEM__PS256 && IDEM_HTTP_ES512 == 1 << IDEM__ES512,
               "the public bits are those of the algorithms");

static idem_status tell(const idem__guard *guard, const char *what, const char *about) {
  idem_logf(guard->log, IDEM_LOG_ERROR, "cannot check tokens", "%s: %s", about, what);
  return IDEM_E_INVAL;
}

static bool copy(const idem__guard *guard, const char *from, char **to) {
  *to = from ? idem__strndup(&guard->alloc, from, strlen(from)) : NULL;
  return !from || *to;
}

/* ------------------------------------------------------------------- URLs */

static const char *asked_fault(const char *url, bool bare) {
  const char *why = idem__auth_url_fault(url, bare);
  if (why || idem__auth_url_is_safe(url)) return why;
  return "it must be https, or http on loopback";
}

idem_status idem_http_check_url(const char *url, bool bare, const char **why) {
  *why = asked_fault(url, bare);
  return *why ? IDEM_E_INVAL : IDEM_OK;
}

/* ---------------------------------------------------------------- issuers */

static idem_status take_issuer(idem__guard *guard, const idem_http_issuer *from, size_t i) {
  idem__key_source *source = &guard->sources[i];
  source->guard = guard;
  if (!from->issuer || !*from->issuer) return tell(guard, "it is no URL", "issuer");
  bool found = !from->jwks_file && !from->jwks_url;
  const char *why = found ? asked_fault(from->issuer, true) : NULL;
  if (why) return tell(guard, why, from->issuer);
  if (from->jwks_url) why = asked_fault(from->jwks_url, false);
  if (why) return tell(guard, why, from->jwks_url);
  bool copied = copy(guard, from->issuer, &source->issuer) &&
                copy(guard, from->jwks_file, &source->jwks_file) &&
                copy(guard, from->jwks_file ? NULL : from->jwks_url, &source->jwks_url);
  guard->issuers[i] = source->issuer;
  return copied ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status take_issuers(idem__guard *guard, const idem_http_auth *opts) {
  idem_status status = IDEM_OK;
  if (opts->issuer_count > ISSUERS_MAX) return tell(guard, "there are too many", "issuers");
  if (!opts->issuer_count && !opts->introspection_url)
    return tell(guard, "nobody is named whose tokens are taken", "issuers");
  guard->sources = idem__calloc(&guard->alloc, (opts->issuer_count + 1) * sizeof *guard->sources);
  guard->issuers = idem__calloc(&guard->alloc, (opts->issuer_count + 1) * sizeof *guard->issuers);
  if (!guard->sources || !guard->issuers) return IDEM_E_NOMEM;
  for (size_t i = 0; i < opts->issuer_count && status == IDEM_OK; i++) {
    guard->issuer_count++;
    status = take_issuer(guard, &opts->issuers[i], i);
  }
  return status;
}

/* ---------------------------------------------------------- introspection */

static idem_status encode(const idem__guard *guard, idem_buf *out, const char *text) {
  idem_buf pair;
  idem_buf_init(&pair, &guard->alloc, 8192);
  idem_status status = idem__auth_form_add(&pair, "", text); /* "=TEXT" */
  if (status == IDEM_OK) status = idem_buf_put(out, pair.data + 1, pair.len - 1);
  if (pair.data) memset(pair.data, 0, pair.cap);
  idem_buf_deinit(&pair);
  return status;
}

/* RFC 6749, 2.3.1: both are encoded as in a form, then joined. */
static idem_status take_credentials(idem__guard *guard, const idem_http_auth *opts) {
  static const char head[] = "Authorization: Basic ";
  idem_buf both, line;
  if (!opts->introspection_id) return IDEM_OK;
  idem_buf_init(&both, &guard->alloc, 16384);
  idem_buf_init(&line, &guard->alloc, 32768);
  idem_status status = encode(guard, &both, opts->introspection_id);
  if (status == IDEM_OK) status = idem_buf_puts(&both, ":");
  if (status == IDEM_OK && opts->introspection_secret)
    status = encode(guard, &both, opts->introspection_secret);
  if (status == IDEM_OK) status = idem_buf_put(&line, head, sizeof head - 1);
  if (status == IDEM_OK)
    status = idem_base64_encode(&line, both.data, both.len, IDEM_BASE64_STANDARD);
  if (status == IDEM_OK && guard->log) {
    idem_log_add_secret(guard->log, line.data + sizeof head - 1, line.len - (sizeof head - 1));
    if (opts->introspection_secret)
      idem_log_add_secret(guard->log, opts->introspection_secret,
                          strlen(opts->introspection_secret));
  }
  if (status == IDEM_OK) {
    guard->introspection_authorization = idem__strndup(&guard->alloc, line.data, line.len);
    if (!guard->introspection_authorization) status = IDEM_E_NOMEM;
  }
  if (both.data) memset(both.data, 0, both.cap);
  if (line.data) memset(line.data, 0, line.cap);
  idem_buf_deinit(&both);
  idem_buf_deinit(&line);
  return status;
}

static idem_status take_introspection(idem__guard *guard, const idem_http_auth *opts) {
  const char *url = opts->introspection_url, *why = url ? asked_fault(url, false) : NULL;
  if (!url) return IDEM_OK;
  if (why) return tell(guard, why, url);
  if (!copy(guard, url, &guard->introspection_url)) return IDEM_E_NOMEM;
  guard->introspection_s = opts->introspection_s ? opts->introspection_s : INTROSPECTION_S;
  return take_credentials(guard, opts);
}

/* ------------------------------------------------------------- what it says */

static idem_status write_challenge(const idem__guard *guard,
                                   const idem__bearer_challenge *challenge, char **out) {
  idem_buf text;
  idem_buf_init(&text, &guard->alloc, 2 * IDEM__SCOPE_BYTES);
  idem_status status = idem__protected_challenge(&guard->protected_, &text, challenge);
  if (status == IDEM_OK && !copy(guard, text.data, out)) status = IDEM_E_NOMEM;
  idem_buf_deinit(&text);
  return status;
}

const char *idem__guard_challenge(const idem__guard *guard) { return guard->challenge; }
const char *idem__guard_stem(const idem__guard *guard) { return guard->stem; }
const char *idem__guard_bound_stem(const idem__guard *guard) { return guard->bound_stem; }

static idem_status write_challenges(idem__guard *guard) {
  idem__bearer_challenge plain = {.scope = guard->required_scope}, stem = {.alone = true},
                         bound = {.alone = true, .proof = true};
  idem_status status = write_challenge(guard, &stem, &guard->stem);
  if (status == IDEM_OK) status = write_challenge(guard, &bound, &guard->bound_stem);
  return status == IDEM_OK ? write_challenge(guard, &plain, &guard->challenge) : status;
}

static bool is_named(const char *const *named, size_t count, const char *server) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(named[i], server) == 0) return true;
  return false;
}

/* Who gives tokens: the issuers, and who else is said to. */
static idem_status name_servers(const idem__guard *guard, const idem_http_auth *opts,
                                const char **named, size_t *count) {
  const char *const *servers = opts->authorization_servers;
  for (*count = 0; *count < guard->issuer_count; ++*count) named[*count] = guard->issuers[*count];
  for (size_t i = 0; servers && servers[i]; i++) {
    const char *why = i < ISSUERS_MAX ? asked_fault(servers[i], true) : "there are too many";
    if (why) return tell(guard, why, "authorization_servers");
    if (!is_named(named, *count, servers[i])) named[(*count)++] = servers[i];
  }
  return IDEM_OK;
}

static idem_status describe(idem__guard *guard, const idem_http_auth *opts) {
  idem_buf text;
  const char *named[2 * ISSUERS_MAX];
  size_t count;
  if (name_servers(guard, opts, named, &count) != IDEM_OK) return IDEM_E_INVAL;
  guard->protected_ = (idem__protected){.resource = guard->resource,
                                        .issuers = named,
                                        .issuer_count = count,
                                        .scopes = guard->scopes,
                                        .name = guard->name,
                                        .offers_proofs = opts->proofs != IDEM_HTTP_PROOFS_TAKEN,
                                        .wants_proofs = opts->proofs == IDEM_HTTP_PROOFS_REQUIRED,
                                        .proof_algorithms = opts->proof_algorithms};
  idem_buf_init(&text, &guard->alloc, DOCUMENT_BYTES);
  idem_status status = idem__protected_document(&guard->protected_, &text);
  guard->protected_.issuers = NULL; /* they are in the document */
  guard->protected_.issuer_count = 0;
  if (status == IDEM_OK) {
    guard->document = idem__strndup(&guard->alloc, text.data, text.len);
    status = guard->document ? IDEM_OK : IDEM_E_NOMEM;
    guard->file =
        (idem_http_file){.type = "application/json", .body = guard->document, .len = text.len};
  }
  idem_buf_deinit(&text);
  if (status == IDEM_OK)
    status = idem__protected_paths(&guard->protected_, &guard->alloc, guard->paths);
  return status == IDEM_OK ? write_challenges(guard) : status;
}

idem_status idem__guard_add_routes(idem__guard *guard, idem_http_server *server) {
  static const char *const headers[] = {"Cache-Control: max-age=300", NULL};
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < 2 && guard->paths[i] && status == IDEM_OK; i++)
    status = idem__http_server_add(server,
                                   &(idem_http_route){.path = guard->paths[i],
                                                      .methods = IDEM_HTTP_GET,
                                                      .serve = idem_http_serve_file,
                                                      .user = &guard->file,
                                                      .no_token = true,
                                                      .any_origin = true,
                                                      .headers = headers},
                                   NULL);
  return status;
}

/* ------------------------------------------------------------------- story */

static idem_status take_resource(idem__guard *guard, const idem_http_auth *opts, const char *url) {
  idem__auth_url parts;
  const char *resource = opts->resource ? opts->resource : url;
  const char *why = idem__auth_url_fault(resource, true);
  if (why) return tell(guard, why, "resource");
  if (!opts->resource &&
      !(idem__auth_url_parse(resource, &parts) && idem__auth_url_is_loopback(&parts)))
    return tell(guard, "the URL by which clients know this server must be given", "resource");
  if (!copy(guard, resource, &guard->resource)) return IDEM_E_NOMEM;
  return copy(guard, opts->audience ? opts->audience : resource, &guard->audience) ? IDEM_OK
                                                                                   : IDEM_E_NOMEM;
}

/* What a proof must be for, and who has seen one. */
static idem_status take_proofs(idem__guard *guard, const idem_http_auth *opts, const char *url) {
  idem__url own;
  uint64_t skew_s = guard->rules.skew_s;
  if (opts->proofs < IDEM_HTTP_PROOFS_TAKEN || opts->proofs > IDEM_HTTP_PROOFS_REQUIRED)
    return tell(guard, "there is no such choice", "proofs");
  if (idem__url_parse(url, &own) != IDEM_OK) own.path[0] = '\0'; /* unreachable: it is served */
  idem_status status =
      idem__targets_init(&guard->targets, &guard->alloc, guard->resource, own.path);
  if (status == IDEM_E_INVAL) /* unreachable: idem__auth_url_fault has tried the same */
    return tell(guard, "it is too long", "resource");
  if (status == IDEM_OK)
    status = idem__proofs_get(&guard->alloc, guard->targets.resource,
                              IDEM__PROOF_AGE_S + 2 * skew_s + 1, &guard->proofs);
  if (status != IDEM_OK) return status;
  guard->proof_rules = (idem__proof_rules){
      .algorithms = opts->proof_algorithms,
      .skew_s = skew_s,
      .nonce_key = opts->proof_nonces ? idem__proofs_nonce_key(guard->proofs) : NULL};
  return IDEM_OK;
}

static idem_status take_scopes(idem__guard *guard, const idem_http_auth *opts) {
  const char *required = opts->required_scope ? opts->required_scope : "";
  const char *known = opts->scopes ? opts->scopes : required;
  if (!idem__scope_is_good(required) || !idem__scope_is_good(known))
    return tell(guard, "a scope has a character that no scope has", "scopes");
  if (strlen(required) > IDEM__SCOPE_BYTES / 2) return tell(guard, "they are too long", "scopes");
  return copy(guard, required, &guard->required_scope) && copy(guard, known, &guard->scopes)
             ? IDEM_OK
             : IDEM_E_NOMEM;
}

static idem_status take_implied(idem__guard *guard, const idem_http_auth *opts) {
  const char *const *given = opts->scope_implies;
  size_t count = 0;
  while (given && count <= 2 * IMPLIES_MAX && given[count]) count++;
  if (count > 2 * IMPLIES_MAX || count % 2)
    return tell(guard, "it is no list of pairs, or too long", "scope_implies");
  guard->implies = idem__calloc(&guard->alloc, (count + 1) * sizeof *guard->implies);
  if (!guard->implies) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    bool one = i % 2 || (*given[i] && !strchr(given[i], ' '));
    if (!one || !idem__scope_is_good(given[i]) || strlen(given[i]) > IDEM__SCOPE_BYTES / 2)
      return tell(guard, "a scope has a character that no scope has, or is too long",
                  "scope_implies");
    if (!copy(guard, given[i], &guard->implies[i])) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

idem_status idem_http_check_claim(const char *name, const char **why) {
  *why = idem__logged_fault(name);
  return *why ? IDEM_E_INVAL : IDEM_OK;
}

static idem_status take_logged(idem__guard *guard, const idem_http_auth *opts) {
  const char *const *given = opts->log_claims;
  size_t count = 0;
  while (given && count <= IDEM__LOGGED_MAX && given[count]) count++;
  if (count > IDEM__LOGGED_MAX) return tell(guard, "there are too many", "log_claims");
  guard->log_claims = idem__calloc(&guard->alloc, (count + 1) * sizeof *guard->log_claims);
  if (!guard->log_claims) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    const char *why = idem__logged_fault(given[i]);
    if (why) return tell(guard, why, "log_claims");
    if (!copy(guard, given[i], &guard->log_claims[i])) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

idem_status idem__guard_take(idem__guard *guard, const idem_http_auth *opts, const char *url) {
  const char *claim = opts->principal_claim ? opts->principal_claim : "sub";
  idem_status status = take_resource(guard, opts, url);
  if (status == IDEM_OK) status = take_issuers(guard, opts);
  if (status == IDEM_OK) status = take_scopes(guard, opts);
  if (status == IDEM_OK) status = take_implied(guard, opts);
  if (status == IDEM_OK) status = take_logged(guard, opts);
  if (status == IDEM_OK) status = take_introspection(guard, opts);
  if (status != IDEM_OK) return status;
  if (!copy(guard, claim, &guard->principal_claim) || !copy(guard, opts->name, &guard->name) ||
      !copy(guard, opts->ca_file, &guard->ca_file) || !copy(guard, opts->proxy, &guard->proxy))
    return IDEM_E_NOMEM;
  guard->anywhere = opts->private_addresses;
  guard->rules = (idem__token_rules){.issuers = (const char *const *)guard->issuers,
                                     .issuer_count = guard->issuer_count,
                                     .audience = guard->audience,
                                     .algorithms = opts->algorithms,
                                     .skew_s = opts->skew_s ? opts->skew_s : SKEW_S,
                                     .principal_claim = guard->principal_claim,
                                     .access_tokens_alone = opts->access_tokens_alone,
                                     .implies = guard->implies,
                                     .log_claims = guard->log_claims};
  status = take_proofs(guard, opts, url);
  return status == IDEM_OK ? describe(guard, opts) : status;
}

static void free_list(const idem_alloc *alloc, char **list) {
  for (size_t i = 0; list && list[i]; i++) idem__free(alloc, list[i]);
  idem__free(alloc, list);
}

void idem__guard_free_options(idem__guard *guard) {
  const idem_alloc *alloc = &guard->alloc;
  char *texts[] = {guard->resource,       guard->audience, guard->principal_claim,
                   guard->required_scope, guard->scopes,   guard->name,
                   guard->ca_file,        guard->proxy,    guard->document,
                   guard->paths[0],       guard->paths[1], guard->introspection_url,
                   guard->challenge,      guard->stem,     guard->bound_stem};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) idem__free(alloc, texts[i]);
  idem__targets_deinit(&guard->targets, alloc);
  if (guard->introspection_authorization)
    memset(guard->introspection_authorization, 0, strlen(guard->introspection_authorization));
  idem__free(alloc, guard->introspection_authorization);
  for (size_t i = 0; i < guard->issuer_count && guard->sources; i++) {
    idem__free(alloc, guard->sources[i].issuer);
    idem__free(alloc, guard->sources[i].jwks_file);
    idem__free(alloc, guard->sources[i].jwks_url);
  }
  idem__free(alloc, guard->sources);
  idem__free(alloc, guard->issuers);
  free_list(alloc, guard->implies);
  free_list(alloc, guard->log_claims);
}
