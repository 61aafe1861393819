/* grant.c - what a checked token says, counted; and the sets of words that scopes are. */
#include "grant.h"

#include <string.h>

/* ------------------------------------------------------------------ grants */

idem__grant *idem__grant_new(const idem_alloc *alloc, const char *principal, const char *scope,
                             yyjson_doc *claims, uint64_t ends_s) {
  size_t principal_len = strlen(principal) + 1, scope_len = strlen(scope) + 1;
  size_t bytes = sizeof(idem__grant) + principal_len + scope_len;
  idem__grant *grant = idem__malloc(alloc, bytes);
  if (!grant) {
    yyjson_doc_free(claims);
    return NULL;
  }
  atomic_init(&grant->refs, 1);
  grant->alloc = *alloc;
  grant->claims = claims;
  grant->ends_s = ends_s;
  grant->voucher = NULL;
  grant->token = grant->logged = NULL;
  grant->asked_s = 0;
  grant->bound = false;
  grant->bytes = bytes + yyjson_doc_get_read_size(claims) +
                 yyjson_doc_get_val_count(claims) * sizeof(yyjson_val);
  memcpy(grant->texts, principal, principal_len);
  memcpy(grant->texts + principal_len, scope, scope_len);
  grant->principal = grant->texts;
  grant->scope = grant->texts + principal_len;
  return grant;
}

void idem__grant_unref(idem__grant *grant) {
  if (!grant || atomic_fetch_sub_explicit(&grant->refs, 1, memory_order_acq_rel) != 1) return;
  idem_alloc alloc = grant->alloc;
  if (grant->voucher) grant->voucher_unref(grant->voucher);
  for (volatile char *at = grant->token; at && *at; at++) *at = '\0';
  idem__free(&alloc, grant->token);
  idem__free(&alloc, grant->logged);
  yyjson_doc_free(grant->claims);
  idem__free(&alloc, grant);
}

void idem__grant_vouch(idem__grant *grant, void *voucher, void (*unref)(void *voucher)) {
  grant->voucher = voucher;
  grant->voucher_unref = unref;
}

idem_status idem__grant_keep_token(idem__grant *grant, const char *token, size_t len,
                                   uint64_t asked_s) {
  grant->token = idem__strndup(&grant->alloc, token, len);
  grant->asked_s = asked_s;
  if (grant->token) grant->bytes += len + 1;
  return grant->token ? IDEM_OK : IDEM_E_NOMEM;
}

idem_status idem__grant_keep_logged(idem__grant *grant, const char *text, size_t len) {
  grant->logged = idem__strndup(&grant->alloc, text, len);
  if (grant->logged) grant->bytes += len + 1;
  return grant->logged ? IDEM_OK : IDEM_E_NOMEM;
}

yyjson_val *idem__grant_claim(const idem__grant *grant, const char *name) {
  return yyjson_obj_get(yyjson_doc_get_root(grant->claims), name);
}

/* ------------------------------------------------------------------ scopes */

bool idem__scope_is_good(const char *scope) {
  for (; *scope; scope++)
    if ((uint8_t)*scope < ' ' || (uint8_t)*scope > '~' || *scope == '"' || *scope == '\\')
      return false;
  return true;
}

/* The next word at or behind *at; its length, 0: there are no more. */
static size_t next_word(const char **at) {
  *at += strspn(*at, " ");
  return strcspn(*at, " ");
}

static bool has_word(const char *scope, const char *word, size_t len) {
  for (size_t found; (found = next_word(&scope)); scope += found)
    if (found == len && memcmp(scope, word, len) == 0) return true;
  return false;
}

bool idem__scope_covers(const char *scope, const char *needed) {
  for (size_t len; needed && (len = next_word(&needed)); needed += len)
    if (!has_word(scope, needed, len)) return false;
  return true;
}

static bool is_good_word(const char *word, size_t len) {
  for (size_t i = 0; i < len; i++)
    if ((uint8_t)word[i] <= ' ' || (uint8_t)word[i] > '~' || word[i] == '"' || word[i] == '\\')
      return false;
  return len > 0;
}

static idem_status add_word(idem_buf *out, const char *word, size_t len) {
  if (!is_good_word(word, len) || (out->len && has_word(out->data, word, len))) return IDEM_OK;
  idem_status status = idem_buf_reserve(out, len + 2);
  if (status != IDEM_OK) return status;
  if (out->len) out->data[out->len++] = ' ';
  memcpy(out->data + out->len, word, len);
  out->len += len;
  out->data[out->len] = '\0';
  return IDEM_OK;
}

idem_status idem__scope_add(idem_buf *out, const char *scope, size_t len) {
  idem_status status = idem_buf_reserve(out, 1);
  if (status == IDEM_OK && !out->len) out->data[0] = '\0';
  for (size_t at = 0; at < len && status == IDEM_OK;) {
    const char *blank = memchr(scope + at, ' ', len - at);
    size_t end = blank ? (size_t)(blank - scope) : len;
    status = add_word(out, scope + at, end - at);
    at = end + 1;
  }
  return status;
}
