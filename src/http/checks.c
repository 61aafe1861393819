/* checks.c - who may ask: Host and Origin lists, bearer tokens.
 * Against DNS rebinding and drive-by pages: a name we were not told to answer to is refused, and
 * the refusal names the flag that would allow it. See docs/internals/http.md. */
#include "http.h"

#include <string.h>

/* host, host:port, [v6], [v6]:port. `port` is -1 when there is none. */
typedef struct authority {
  idem__view host;
  int port;
} authority;

static bool parse_port(idem__view text, int *port) {
  int value = 0;
  if (!text.len || text.len > 5) return false;
  for (size_t i = 0; i < text.len; i++) {
    if (text.at[i] < '0' || text.at[i] > '9') return false;
    value = value * 10 + (text.at[i] - '0');
  }
  *port = value;
  return value <= 65535;
}

/* Letters, digits and what else a name or an address may hold; no user information, no blanks. */
static bool host_characters(idem__view host) {
  bool bracketed = host.len && host.at[0] == '[';
  for (size_t i = 0; i < host.len; i++) {
    char c = idem__ascii_lower(host.at[i]);
    bool plain =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    bool edge = (c == '[' && i == 0) || (c == ']' && bracketed && i + 1 == host.len);
    if (!plain && !edge && !(c == ':' && bracketed)) return false;
  }
  return host.len > 0 && (!bracketed || (host.len > 2 && host.at[host.len - 1] == ']'));
}

static bool split_authority(idem__view text, authority *out) {
  size_t host_len = text.len;
  if (text.len && text.at[0] == '[') {
    const char *close = memchr(text.at, ']', text.len);
    if (!close) return false;
    host_len = (size_t)(close - text.at) + 1;
  } else if (text.len) {
    const char *colon = memchr(text.at, ':', text.len);
    if (colon) host_len = (size_t)(colon - text.at);
  }
  out->host = (idem__view){text.at, host_len};
  out->port = -1;
  if (host_len < text.len) {
    idem__view rest = {text.at + host_len + 1, text.len - host_len - 1};
    if (text.at[host_len] != ':' || !parse_port(rest, &out->port)) return false;
  }
  if (out->host.len && out->host.at[out->host.len - 1] == '.') out->host.len--;
  return host_characters(out->host);
}

/* ------------------------------------------------------------------ lists */

static const char *const loopback_names[] = {"localhost:*", "127.0.0.1:*", "[::1]:*", NULL};

static char *lower_copy(const idem_alloc *alloc, idem__view text) {
  char *copy = idem__strndup(alloc, text.at, text.len);
  for (size_t i = 0; copy && i < text.len; i++) copy[i] = idem__ascii_lower(copy[i]);
  return copy;
}

static idem_status rule_init(idem__host_rule *rule, const idem_alloc *alloc, idem__view text) {
  const char *mark = NULL;
  for (size_t i = 0; i + 2 < text.len && !mark; i++)
    if (memcmp(text.at + i, "://", 3) == 0) mark = text.at + i;
  idem__view scheme = {text.at, mark ? (size_t)(mark - text.at) : 0};
  if (mark) text.at += scheme.len + 3, text.len -= scheme.len + 3;
  bool any = text.len > 2 && memcmp(text.at + text.len - 2, ":*", 2) == 0;
  if (any) text.len -= 2;
  authority parts;
  if (!split_authority(text, &parts) || (any && parts.port >= 0)) return IDEM_E_INVAL;
  rule->port = any ? -1 : parts.port >= 0 ? parts.port : 0;
  rule->scheme = mark ? lower_copy(alloc, scheme) : NULL;
  rule->host = lower_copy(alloc, parts.host);
  return rule->host && (rule->scheme || !mark) ? IDEM_OK : IDEM_E_NOMEM;
}

idem_status idem__host_list_add(idem__host_list *list, const idem_alloc *alloc,
                                const char *const *entries) {
  size_t count = 0;
  while (entries && entries[count]) count++;
  if (!count) return IDEM_OK;
  idem__host_rule *rules = idem__calloc(alloc, (list->count + count) * sizeof *rules);
  if (!rules) return IDEM_E_NOMEM;
  if (list->count) memcpy(rules, list->rules, list->count * sizeof *rules);
  idem__free(alloc, list->rules);
  list->rules = rules;
  for (size_t i = 0; entries[i]; i++) {
    idem__view text = {entries[i], strlen(entries[i])};
    idem_status status = rule_init(&rules[list->count++], alloc, text);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}

idem_status idem__host_list_init(idem__host_list *list, const idem_alloc *alloc,
                                 const char *const *entries) {
  *list = (idem__host_list){NULL, 0};
  idem_status status = idem__host_list_add(list, alloc, entries ? entries : loopback_names);
  if (status != IDEM_OK) idem__host_list_deinit(list, alloc);
  return status;
}

void idem__host_list_deinit(idem__host_list *list, const idem_alloc *alloc) {
  for (size_t i = 0; i < list->count; i++) {
    idem__free(alloc, list->rules[i].scheme);
    idem__free(alloc, list->rules[i].host);
  }
  idem__free(alloc, list->rules);
  *list = (idem__host_list){NULL, 0};
}

static bool rule_matches(const idem__host_rule *rule, const authority *who, int listener_port) {
  if (rule->port == 0 && who->port >= 0 && who->port != listener_port) return false;
  if (rule->port > 0 && who->port != rule->port) return false;
  return idem__view_is(who->host, rule->host, strlen(rule->host));
}

bool idem__host_allowed(const idem__host_list *list, idem__view text, int listener_port) {
  authority who;
  if (!split_authority(text, &who)) return false;
  for (size_t i = 0; i < list->count; i++)
    if (rule_matches(&list->rules[i], &who, listener_port)) return true;
  return false;
}

bool idem__web_scheme(idem__view scheme) {
  return idem__view_eq(scheme, "http") || idem__view_eq(scheme, "https");
}

/* An entry without a scheme means pages of the web: what runs in a page of another kind is not
 * where it says. */
static bool scheme_matches(const idem__host_rule *rule, idem__view scheme) {
  return rule->scheme ? idem__view_is(scheme, rule->scheme, strlen(rule->scheme))
                      : idem__web_scheme(scheme);
}

bool idem__origin_allowed(const idem__host_list *list, idem__view origin, int listener_port) {
  size_t scheme = 0;
  while (scheme < origin.len && origin.at[scheme] != ':') scheme++;
  if (!scheme || origin.len < scheme + 4 || memcmp(origin.at + scheme, "://", 3) != 0) return false;
  authority who;
  idem__view rest = {origin.at + scheme + 3, origin.len - scheme - 3};
  if (!split_authority(rest, &who)) return false;
  for (size_t i = 0; i < list->count; i++) {
    const idem__host_rule *rule = &list->rules[i];
    if (scheme_matches(rule, (idem__view){origin.at, scheme}) &&
        rule_matches(rule, &who, listener_port))
      return true;
  }
  return false;
}

/* ----------------------------------------------------------------- tokens */

/* Runs over the given text whatever the token holds, so that time tells its length at most. */
static bool same_secret(const char *token, size_t token_len, idem__view given) {
  unsigned char difference = (unsigned char)(token_len != given.len);
  for (size_t i = 0; i < given.len; i++) {
    char expected = token[token_len ? i % token_len : 0];
    difference |= (unsigned char)(expected ^ given.at[i]);
  }
  return difference == 0;
}

idem_status idem__token_list_init(idem__token_list *list, const idem_alloc *alloc,
                                  const char *const *tokens, idem_log *log) {
  size_t count = 0;
  *list = (idem__token_list){NULL, NULL, 0};
  while (tokens && tokens[count]) count++;
  if (!count) return tokens ? IDEM_E_INVAL : IDEM_OK;
  list->texts = idem__calloc(alloc, count * sizeof *list->texts);
  list->lens = idem__calloc(alloc, count * sizeof *list->lens);
  if (!list->texts || !list->lens) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    list->lens[i] = strlen(tokens[i]);
    if (!list->lens[i]) return IDEM_E_INVAL;
    list->texts[i] = idem__strndup(alloc, tokens[i], list->lens[i]);
    if (!list->texts[i]) return IDEM_E_NOMEM;
    list->count++;
    if (log) idem_log_add_secret(log, tokens[i], list->lens[i]); /* as far as it can */
  }
  return IDEM_OK;
}

void idem__token_list_deinit(idem__token_list *list, const idem_alloc *alloc) {
  for (size_t i = 0; i < list->count; i++) {
    memset(list->texts[i], 0, list->lens[i]);
    idem__free(alloc, list->texts[i]);
  }
  idem__free(alloc, list->texts);
  idem__free(alloc, list->lens);
  *list = (idem__token_list){NULL, NULL, 0};
}

bool idem__token_allowed(const idem__token_list *list, idem__view authorization) {
  if (!authorization.at || authorization.len < 8) return false;
  if (!idem__text_equal_nocase(authorization.at, 7, "Bearer ", 7)) return false;
  idem__view given = {authorization.at + 7, authorization.len - 7};
  given = idem__view_trim(given);
  bool allowed = false;
  for (size_t i = 0; i < list->count; i++)
    allowed |= same_secret(list->texts[i], list->lens[i], given);
  return allowed && given.len > 0;
}
