/* redact_rules.c - what a key, a credential and a path look like.
 * The knowledge behind redact.c, mostly in tables: to hide one more kind of name or token, add a
 * row. Every look back or ahead is bounded, so that the walk stays linear. */
#include "redact.h"

#include <string.h>

enum { NAME_MAX_BYTES = 96, BLANKS_MAX = 16, SHAPE_LOOK = 64, FENCED_PATH_MAX = 4096 };

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool is_alnum(char c) {
  return idem__is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool one_of(char c, const char *set) { return c != '\0' && strchr(set, c) != NULL; }

static bool prefixed(const char *text, size_t len, const char *prefix) {
  size_t n = strlen(prefix);
  return len >= n && idem__text_equal_nocase(text, n, prefix, n);
}

/* ---------------------------------------------------------------- quotes */

/* A string written inside k strings has 2^k - 1 backslashes before its quotes; one that is part of
 * its content has a multiple of twice that, plus more. Fewer backslashes close an outer string. */
size_t idem__quoted_end(const char *text, size_t len, size_t at, size_t slashes) {
  size_t run = 0;
  for (; at < len; at++) {
    if (text[at] == '"' && (run < slashes || (run - slashes) % (2 * (slashes + 1)) == 0)) return at;
    run = text[at] == '\\' ? run + 1 : 0;
  }
  return len;
}

size_t idem__quote_end(const char *text, size_t len, size_t at, char quote) {
  for (bool escaped = false; at < len; at++) {
    if (text[at] == quote && !escaped) return at;
    escaped = text[at] == '\\' && !escaped;
  }
  return len;
}

/* ------------------------------------------------------------------ keys */

/* Names are compared in lower case with everything but letters and digits left out, so that
 * X-Api-Key, api_key and apiKey are one. */
static const char *const header_endings[] = {"authorization", "cookie", "cookies"};
static const char *const secret_parts[] = {"password",   "passwd",    "passphrase", "secret",
                                           "privatekey", "accesskey", "apikey",     "credential"};
static const char *const secret_endings[] = {
    "token",     "signingkey",   "encryptionkey", "sessionid", "bearer",         "jwt",
    "signature", "codeverifier", "pwd",           "passcode",  "clientassertion"};
static const char *const secret_names[] = {"pass", "psk", "otp"};
static const char *const query_names[] = {"auth", "code", "key", "sig", "pin"};
/* Progress tokens of MCP and LSP are correlation ids, and one needs them to read a log. */
static const char *const harmless[] = {"progresstoken", "workdonetoken", "partialresulttoken"};

typedef struct name {
  char text[NAME_MAX_BYTES];
  size_t len;
} name;

/* Reads `digits` hex digits; -1 if there are not as many. */
static int read_hex(const char *text, size_t len, size_t digits) {
  int code = 0;
  if (len < digits) return -1;
  for (size_t i = 0; i < digits; i++) {
    int digit = idem_hex_value(text[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

/* One character of a name, with \u0070 and %70 read as what they stand for. */
static size_t read_character(const char *text, size_t len, int *code) {
  if (text[0] == '\\' && len >= 2 && text[1] == 'u') {
    *code = read_hex(text + 2, len - 2, 4);
    if (*code >= 0) return 6;
  }
  if (text[0] == '%') {
    *code = read_hex(text + 1, len - 1, 2);
    if (*code >= 0) return 3;
  }
  *code = (unsigned char)text[0];
  return 1;
}

static void normalise(name *out, const char *text, size_t len) {
  out->len = 0;
  for (size_t i = 0; i < len && out->len < sizeof out->text;) {
    int code;
    i += read_character(text + i, len - i, &code);
    if (code < 0x80 && is_alnum((char)code)) out->text[out->len++] = idem__ascii_lower((char)code);
  }
}

static bool name_is(const name *n, const char *word) {
  return n->len == strlen(word) && memcmp(n->text, word, n->len) == 0;
}

static bool name_ends(const name *n, const char *ending) {
  size_t len = strlen(ending);
  return n->len >= len && memcmp(n->text + n->len - len, ending, len) == 0;
}

static bool name_contains(const name *n, const char *part) {
  size_t len = strlen(part);
  for (size_t i = 0; i + len <= n->len; i++)
    if (memcmp(n->text + i, part, len) == 0) return true;
  return false;
}

typedef bool (*test)(const name *n, const char *word);

static bool any(const name *n, test matches, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (matches(n, words[i])) return true;
  return false;
}

static idem__key_kind classify(const name *n, bool in_query) {
  if (n->len == 0 || any(n, name_is, harmless, COUNT(harmless))) return IDEM__KEY_PLAIN;
  if (any(n, name_ends, header_endings, COUNT(header_endings))) return IDEM__KEY_HEADER;
  bool secret = any(n, name_ends, secret_endings, COUNT(secret_endings)) ||
                any(n, name_contains, secret_parts, COUNT(secret_parts)) ||
                any(n, name_is, secret_names, COUNT(secret_names)) ||
                (in_query && any(n, name_is, query_names, COUNT(query_names)));
  return secret ? IDEM__KEY_SECRET : IDEM__KEY_PLAIN;
}

static bool is_quote(char c) { return c == '"' || c == '\''; }

/* text[close] is the quote that ends the name. */
static void read_quoted_name(const char *text, size_t close, size_t *start, size_t *end) {
  size_t stop = close;
  while (stop > 0 && text[stop - 1] == '\\') stop--;
  size_t from = stop, floor = stop > NAME_MAX_BYTES ? stop - NAME_MAX_BYTES : 0;
  while (from > floor && text[from - 1] != text[close]) from--;
  *start = from;
  *end = stop;
}

static void read_bare_name(const char *text, size_t end, size_t *start) {
  size_t from = end, floor = end > NAME_MAX_BYTES ? end - NAME_MAX_BYTES : 0;
  while (from > floor && (is_alnum(text[from - 1]) || one_of(text[from - 1], "_-.%[]"))) from--;
  *start = from;
}

bool idem__key_before(const char *text, size_t at, idem__key *key) {
  size_t end = at, start;
  for (int i = 0; i < BLANKS_MAX && end > 0 && is_blank(text[end - 1]); i++) end--;
  *key = (idem__key){.quoted = end > 0 && is_quote(text[end - 1])};
  if (key->quoted)
    read_quoted_name(text, end - 1, &start, &end);
  else
    read_bare_name(text, end, &start);
  char before = start > 0 ? text[start - 1] : '\0';
  if (!key->quoted && is_quote(before)) key->fence = before;
  while (key->fence && key->slashes + 1 < start && text[start - 2 - key->slashes] == '\\')
    key->slashes++;
  key->flag = end - start > 2 && text[start] == '-' && text[start + 1] == '-';
  name n;
  normalise(&n, text + start, end - start);
  key->kind = classify(&n, before == '?' || before == '&');
  return key->kind != IDEM__KEY_PLAIN;
}

/* ----------------------------------------------------------- credentials */

typedef struct shape {
  const char *prefix;
  size_t least; /* bytes in all */
} shape;

/* Tokens that are known by how they begin. */
static const shape shapes[] = {{"eyJ", 24},         {"sk-", 20},    {"ghp_", 20}, {"gho_", 20},
                               {"ghs_", 20},        {"glpat-", 20}, {"AKIA", 20}, {"AIza", 30},
                               {"github_pat_", 30}, {"xoxb-", 20},  {"xoxp-", 20}};

/* What follows "bearer" or "basic" in prose and in challenges. */
static const char *const prose[] = {"token",         "tokens", "auth",       "authentication",
                                    "authorization", "scheme", "credential", "credentials",
                                    "header",        "realm"};

static size_t token_end(const char *text, size_t len, size_t at) {
  while (at < len && (is_alnum(text[at]) || one_of(text[at], "-_."))) at++;
  return at;
}

static bool has_digit(const char *text, size_t at, size_t end) {
  while (at < end && !idem__is_digit(text[at])) at++;
  return at < end;
}

static bool has_known_shape(const char *text, size_t len, size_t at, size_t *end) {
  for (size_t i = 0; i < COUNT(shapes); i++) {
    size_t n = strlen(shapes[i].prefix);
    if (len - at < n || memcmp(text + at, shapes[i].prefix, n) != 0) continue;
    /* Judged by its beginning alone, so that a text of nothing but prefixes is not read again and
     * again to its end. */
    size_t seen = token_end(text, len - at > SHAPE_LOOK ? at + SHAPE_LOOK : len, at);
    if (seen - at < shapes[i].least || !has_digit(text, at, seen)) return false;
    *end = token_end(text, len, seen);
    return true;
  }
  return false;
}

static bool is_prose(const char *text, size_t at, size_t end) {
  size_t word = at;
  while (word < end && is_alnum(text[word])) word++;
  /* "token." and "realm=x" are prose, "token-4711" is not. */
  if (word < end && !one_of(text[word], ".:=!?")) return false;
  if (word < end && text[word] != '=' && word + 1 < end) return false;
  for (size_t i = 0; i < COUNT(prose); i++)
    if (idem__text_equal_nocase(text + at, word - at, prose[i], strlen(prose[i]))) return true;
  return false;
}

/* Basic credentials are padded base64; any other word after "basic" is prose. */
static bool is_base64(const char *text, size_t at, size_t end) {
  bool all_lower = true;
  if (end - at < 4 || (end - at) % 4 != 0) return false;
  for (; at < end; at++) {
    if (!is_alnum(text[at]) && !one_of(text[at], "+/=")) return false;
    if (text[at] < 'a' || text[at] > 'z') all_lower = false;
  }
  return !all_lower;
}

bool idem__credential_at(const char *text, size_t len, size_t at, size_t *from, size_t *end) {
  bool bearer = prefixed(text + at, len - at, "bearer"),
       basic = prefixed(text + at, len - at, "basic");
  *from = at;
  if (!bearer && !basic) return has_known_shape(text, len, at, end);
  size_t word = at + (bearer ? 6 : 5);
  *from = word;
  while (*from < len && is_blank(text[*from])) (*from)++;
  *end = *from;
  while (*end < len && !one_of(text[*end], " \t\r\n\"',;<>)]}\\")) (*end)++;
  if (*from == word || *end == *from || is_prose(text, *from, *end)) return false;
  return bearer || is_base64(text, *from, *end);
}

/* ----------------------------------------------------------------- paths */

static const char *const roots[] = {"etc",  "home", "root", "usr",   "var",     "tmp",
                                    "opt",  "proc", "sys",  "dev",   "mnt",     "media",
                                    "srv",  "run",  "bin",  "sbin",  "lib",     "boot",
                                    "snap", "nix",  "data", "Users", "private", "Volumes"};
static const char *const home_roots[] = {"home", "root", "Users"};
static const char *const home_names[] = {"$HOME", "${HOME}", "%USERPROFILE%", "%APPDATA%"};
static const char *const verbs[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"};

/* The length of a slash, which JSON may write with a backslash before it. */
static size_t slash_at(const char *text, size_t len, size_t at) {
  if (at < len && text[at] == '/') return 1;
  return at + 1 < len && text[at] == '\\' && text[at + 1] == '/' ? 2 : 0;
}

static bool in_segment(const char *text, size_t len, size_t at) {
  return at < len && !slash_at(text, len, at) && !one_of(text[at], " \t\r\n\"'`,;:()[]{}<>|*\\") &&
         text[at] != '\0';
}

static bool is_listed(const char *text, size_t at, size_t end, const char *const *words,
                      size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strlen(words[i]) == end - at && memcmp(words[i], text + at, end - at) == 0) return true;
  return false;
}

/* "POST /mcp/x" names what was asked for, not a file. */
static bool follows_verb(const char *text, size_t at) {
  if (at < 4 || text[at - 1] != ' ') return false;
  size_t end = at - 1, start = end;
  while (start > 0 && end - start < 8 && is_alnum(text[start - 1])) start--;
  return is_listed(text, start, end, verbs, COUNT(verbs));
}

static bool ends_path(const char *text, size_t len, size_t at) {
  char c = text[at];
  if (c == '\0' || one_of(c, "\r\n\"'`,;)]}<>|")) return true;
  if (is_blank(c)) return text[at - 1] != '\\';
  if (c == '\\') return at + 1 < len && text[at + 1] == '"';
  return c == ':' && (at + 1 == len || one_of(text[at + 1], "0123456789 \t\r\n/\"'"));
}

size_t idem__fenced_end(const char *text, size_t len, size_t at, char fence, size_t slashes) {
  size_t end = fence == '"' ? idem__quoted_end(text, len, at, slashes)
                            : idem__quote_end(text, len, at, fence);
  if (end == len) return len;
  while (end > at && slashes-- > 0 && text[end - 1] == '\\') end--;
  return end;
}

/* The end of a path in quotes, or 0: the closing quote is not near, or on another line. */
static size_t quoted_path_end(const char *text, size_t len, size_t at, char fence, size_t slashes) {
  size_t limit = len - at > FENCED_PATH_MAX ? at + FENCED_PATH_MAX : len;
  size_t end = idem__fenced_end(text, limit, at, fence, slashes);
  return end == limit || memchr(text + at, '\n', end - at) ? 0 : end;
}

size_t idem__path_end(const char *text, size_t len, size_t at, char fence, size_t slashes) {
  size_t end = fence ? quoted_path_end(text, len, at, fence, slashes) : 0;
  if (end) return end;
  while (at < len && !ends_path(text, len, at)) at++;
  return at;
}

/* The path at `at`, of which what stands before `from` is certain, up to the quote that matches one
 * right before it, which lets a quoted path hold blanks. */
static size_t whole_path(const char *text, size_t len, size_t at, size_t from) {
  char fence = at > 0 && one_of(text[at - 1], "\"'`") ? text[at - 1] : '\0';
  size_t slashes = 0;
  if (fence)
    while (slashes + 1 < at && text[at - 2 - slashes] == '\\') slashes++;
  return idem__path_end(text, len, from, fence, slashes);
}

/* How sure the byte before a slash makes us that a path begins there. */
typedef enum boundary { NONE, INSIDE_WORD, UNCLEAR, CLEAR } boundary;

static boundary boundary_before(const char *text, size_t at) {
  if (at == 0) return CLEAR;
  char c = text[at - 1];
  if (c == '/' || c == '\\') return NONE;
  if (one_of(c, " \t\r\n\"'`([{=,;:|<>@&!")) return CLEAR;
  return is_alnum(c) || one_of(c, "_.-~*%+?)]}$") ? INSIDE_WORD : UNCLEAR;
}

static size_t slash_path(const char *text, size_t len, size_t at) {
  boundary before = boundary_before(text, at);
  if (before == NONE || (before == CLEAR && follows_verb(text, at))) return 0;
  size_t first = at, n;
  while ((n = slash_at(text, len, first)) > 0) first += n;
  size_t end = first;
  while (in_segment(text, len, end)) end++;
  n = slash_at(text, len, end);
  if (first == end || n == 0 || !in_segment(text, len, end + n)) return 0;
  if (before == UNCLEAR && !is_listed(text, first, end, roots, COUNT(roots))) return 0;
  if (before == INSIDE_WORD && !is_listed(text, first, end, home_roots, COUNT(home_roots)))
    return 0;
  return whole_path(text, len, at, at);
}

static bool separates(const char *text, size_t len, size_t at) {
  return at < len && (text[at] == '/' || text[at] == '\\');
}

static bool inside_word(const char *text, size_t at) {
  return at > 0 && (is_alnum(text[at - 1]) || one_of(text[at - 1], "_~/\\"));
}

/* ~/x, ~bob/x, $HOME/x */
static size_t home_path(const char *text, size_t len, size_t at) {
  size_t end = at + 1;
  if (text[at] == '~') {
    while (end < len && (is_alnum(text[end]) || one_of(text[end], "._-"))) end++;
  } else {
    size_t i = 0;
    while (i < COUNT(home_names) && !prefixed(text + at, len - at, home_names[i])) i++;
    if (i == COUNT(home_names)) return 0;
    end = at + strlen(home_names[i]);
  }
  if (inside_word(text, at) || !separates(text, len, end) || end + 1 == len) return 0;
  return is_blank(text[end + 1]) ? 0 : whole_path(text, len, at, end);
}

/* C:\x and C:/x, but no address. */
static size_t drive_path(const char *text, size_t len, size_t at) {
  if (inside_word(text, at) || len - at < 4 || text[at + 1] != ':') return 0;
  if (!separates(text, len, at + 2) || idem__is_digit(text[at]) || is_blank(text[at + 3])) return 0;
  if (text[at + 2] == '/' && text[at + 3] == '/') return 0;
  return whole_path(text, len, at, at + 2);
}

/* \\server\share */
static size_t share_path(const char *text, size_t len, size_t at) {
  size_t name_at = at;
  if (inside_word(text, at)) return 0;
  while (name_at < len && text[name_at] == '\\') name_at++;
  if (name_at - at < 2) return 0;
  size_t end = name_at;
  while (end < len && (is_alnum(text[end]) || one_of(text[end], "._-$"))) end++;
  bool share = end > name_at && end + 1 < len && text[end] == '\\' && text[end + 1] != '"';
  return share ? whole_path(text, len, at, at) : 0;
}

size_t idem__path_at(const char *text, size_t len, size_t at) {
  char c = text[at];
  if (slash_at(text, len, at)) return slash_path(text, len, at);
  if (c == '~' || c == '$' || c == '%') return home_path(text, len, at);
  if (c == '\\') return share_path(text, len, at);
  return is_alnum(c) ? drive_path(text, len, at) : 0;
}
