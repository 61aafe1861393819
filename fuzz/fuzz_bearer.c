/* fuzz_bearer.c - what a server is shown and told by strangers: tokens, key sets, metadata of issuers, answers about tokens. The
 * first byte says which. Whatever they say, no algorithm is believed that is none, a grant has a principal of one line, and
 * a key reaches the library for signatures only in the form that we write. */
#include "auth/auth.h"
#include "auth/bearer.h"
#include "jws.h"

static const char *const issuers[] = {"https://as.example"};

/* ------------------------------------------------------------------ tokens */

/* " name=word" for each that is there: as many blanks and no more, and nothing that a log would have to escape. */
static void check_logged(const char *logged) {
  size_t blanks = 0;
  for (const char *at = logged; at && *at; at++) {
    blanks += *at == ' ';
    MUST((uint8_t)*at >= ' ' && *at != 127 && !strchr("\"'\\", *at));
  }
  MUST(!logged || (*logged == ' ' && blanks <= 3 && strlen(logged) < 512));
}

static void check_grant(const idem__grant *grant) {
  size_t len = strlen(grant->principal);
  MUST(len && len < 256);
  for (size_t i = 0; i < len; i++)
    MUST((uint8_t)grant->principal[i] >= ' ' && grant->principal[i] != 127);
  MUST(idem__scope_is_good(grant->scope) && strlen(grant->scope) <= IDEM__SCOPE_BYTES);
  (void)idem__grant_claim(grant, "groups");
  check_logged(grant->logged);
}

static void try_token(const idem_alloc *alloc, const idem__token_rules *rules, const char *text,
                      size_t len) {
  idem__token token;
  idem__grant *grant = NULL;
  const char *why = NULL;
  size_t issuer = 7;
  idem_status status = idem__token_read(alloc, text, len, &token, &why);
  MUST(status == IDEM_OK || why);
  if (status == IDEM_OK) {
    MUST(token.algorithm < IDEM__ALGORITHMS && token.signed_len < len && token.signature.len);
    MUST(idem__token_is_jwt(text, len));
    status = idem__token_check(rules, &token, 1000, &issuer, &why);
    MUST(status != IDEM_OK || issuer == 0);
  }
  if (status == IDEM_OK) {
    status = idem__token_grant(rules, alloc, &token, &grant, &why);
    if (status == IDEM_OK) check_grant(grant);
    MUST((status == IDEM_OK) == (grant != NULL));
  }
  idem__grant_unref(grant);
  idem__token_deinit(&token);
}

static void try_parts(const idem_alloc *alloc, const idem__token_rules *rules, const char *text,
                      size_t len) {
  idem_buf token;
  idem_buf_init(&token, alloc, 1 << 20);
  if (jws_of_lines(&token, text, len)) try_token(alloc, rules, token.data, token.len);
  idem_buf_deinit(&token);
}

/* -------------------------------------------------------------------- keys */

static void try_keys(const idem_alloc *alloc, const char *text, size_t len) {
  idem__key_set set = {.count = 0};
  const char *why = NULL;
  for (int turn = 0; turn < 2; turn++) { /* the second time all of them stay */
    idem__key *first = set.count ? set.keys[0] : NULL;
    idem_status status = idem__key_set_read(&set, alloc, &jws_crypto, text, len, &why);
    MUST(status == IDEM_OK ? set.count > 0 && set.count <= IDEM__KEYS_MAX : why && !set.count);
    MUST(!first || set.keys[0] == first);
  }
  for (size_t i = 0; i < set.count; i++) {
    idem__token token = {.algorithm = IDEM__ES256, .key_id = set.keys[i]->id};
    token.key_id_len = token.key_id ? strlen(token.key_id) : 0;
    const idem__key *found = idem__key_set_find(&set, &token);
    MUST(!found || found->kind == IDEM__KEY_P256);
  }
  idem__key_set_deinit(&set);
}

/* ---------------------------------------------------------------- documents */

static void try_documents(const idem_alloc *alloc, const idem__token_rules *rules, const char *text,
                          size_t len) {
  idem__grant *grant;
  const char *why = NULL;
  char *url, said[IDEM__ISSUER_SAID];
  if (idem__introspected(rules, alloc, text, len, 1000, &grant, &why) == IDEM_OK)
    check_grant(grant);
  else
    MUST(!grant && why);
  idem__grant_unref(grant);
  if (idem__issuer_read(alloc, issuers[0], text, len, &url, said, &why) == IDEM_OK)
    MUST(idem__auth_url_is_safe(url));
  else
    MUST(!url && why);
  idem__free(alloc, url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  static const char *const logged[] = {"sub", "client_id", "groups", NULL};
  idem__token_rules rules = {.issuers = issuers,
                             .issuer_count = 1,
                             .audience = "https://mcp.example",
                             .skew_s = 30,
                             .principal_claim = "sub",
                             .log_claims = (char *const *)logged};
  if (!size) return 0;
  const char *text = (const char *)data + 1;
  switch (data[0]) {
  case 't': try_token(&alloc, &rules, text, size - 1); break;
  case 'p': try_parts(&alloc, &rules, text, size - 1); break;
  case 'k': try_keys(&alloc, text, size - 1); break;
  default: try_documents(&alloc, &rules, text, size - 1); break;
  }
  return 0;
}
