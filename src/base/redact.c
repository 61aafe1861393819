/* redact.c - takes secrets and paths out of text before anybody writes it down.
 * One walk from left to right: at each byte the rules are asked in turn what begins here, and what
 * they name is replaced. When in doubt it redacts. The rules are listed in docs/internals/base.md.
 */
#include "redact.h"

#include <string.h>

typedef struct scan {
  const char *text;
  size_t len;
  const idem_secret *secrets;
  size_t secret_count;
  idem_buf *out;
  size_t copied;  /* text before this has been written */
  size_t url_end; /* inside the scheme, host and path of a URL until here */
  bool cut;       /* write what fits and then stop quietly */
  bool keep_paths;
  const char *const *folders; /* that may be known; NULL: none */
} scan;

/* ------------------------------------------------------------- writing */

static idem_status put(scan *s, const char *bytes, size_t len) {
  if (s->cut && len > s->out->max - s->out->len) len = s->out->max - s->out->len;
  return idem_buf_put(s->out, bytes, len);
}

static bool full(const scan *s) { return s->cut && s->out->len == s->out->max; }

/* Writes the text up to `from` as it is and a mark for from..end. */
static idem_status replace(scan *s, size_t from, size_t end) {
  idem_status status = put(s, s->text + s->copied, from - s->copied);
  if (status == IDEM_OK) status = put(s, IDEM__REDACTED, sizeof IDEM__REDACTED - 1);
  s->copied = end;
  return status;
}

/* ------------------------------------------------------------- secrets */

static size_t secret_at(const scan *s, size_t at) {
  size_t longest = 0;
  for (size_t i = 0; i < s->secret_count; i++) {
    const idem_secret *secret = &s->secrets[i];
    if (secret->len <= longest || secret->len > s->len - at) continue;
    if (s->text[at] == secret->text[0] && memcmp(s->text + at, secret->text, secret->len) == 0)
      longest = secret->len;
  }
  return longest;
}

/* A secret that begins inside at..end and reaches past it moves the end: replacing half of one
 * would show the other half. */
static size_t extend(const scan *s, size_t at, size_t end) {
  if (s->secret_count == 0) return end;
  for (; at < end; at++) {
    size_t found = secret_at(s, at);
    if (at + found > end) end = at + found;
  }
  return end;
}

/* Replaces from..end, found by a rule at `at`, and says where to go on. A configured secret that
 * begins in what would be kept moves the start. */
static idem_status hide(scan *s, size_t at, size_t from, size_t end, size_t *next) {
  for (; s->secret_count && at < from; at++)
    if (secret_at(s, at)) from = at;
  *next = extend(s, from, end);
  return replace(s, from, *next);
}

static IDEM__EARLY idem_status try_secret(scan *s, size_t at, size_t *next) {
  size_t found = s->secret_count ? secret_at(s, at) : 0;
  return found ? hide(s, at, at, at + found, next) : IDEM_OK;
}

/* ------------------------------------------------- key=value, key: value */

/* What a rule needs to know about the value that follows a key. */
typedef struct value {
  size_t at; /* its first byte */
  idem__key key;
} value;

static bool ends_line(char c) { return c == '\n' || c == '\r'; }

/* A header ends with its line, or with the quote it stands in. */
static size_t header_end(const scan *s, const value *v) {
  size_t end = v->at;
  while (end < s->len && !ends_line(s->text[end])) end++;
  return v->key.fence ? idem__fenced_end(s->text, end, v->at, v->key.fence, v->key.slashes) : end;
}

/* The end of a string, whose quote at `at` may itself be escaped. */
static size_t string_end(const scan *s, size_t at) {
  size_t slashes = 0;
  while (slashes < at && s->text[at - 1 - slashes] == '\\') slashes++;
  return idem__quoted_end(s->text, s->len, at + 1, slashes);
}

/* The end of an object or array that opens at `at`: behind its closing bracket, or the text's end.
 */
static size_t bracket_end(const scan *s, size_t at) {
  size_t depth = 0;
  for (; at < s->len; at++) {
    char c = s->text[at];
    if (c == '"') at = string_end(s, at);
    if (c == '{' || c == '[') depth++;
    if ((c == '}' || c == ']') && --depth == 0) return at + 1;
  }
  return s->len;
}

static bool ends_word(const value *v, char c) {
  if (c == ' ' || c == '\t' || ends_line(c) || c == '&' || c == ';' || c == '"' || c == '\'')
    return true;
  return v->key.quoted && (c == ',' || c == '}' || c == ']');
}

static size_t word_end(const scan *s, size_t at, const value *v) {
  while (at < s->len && !ends_word(v, s->text[at])) at++;
  return at;
}

static bool word_is(const scan *s, size_t at, size_t end, const char *word) {
  return idem__text_equal_nocase(s->text + at, end - at, word, strlen(word));
}

/* One word, and the next one too if the first only names a scheme ("token: Bearer x"). */
static size_t bare_value_end(const scan *s, const value *v) {
  size_t end = word_end(s, v->at, v), next = end;
  if (!word_is(s, v->at, end, "bearer") && !word_is(s, v->at, end, "basic")) return end;
  while (next < s->len && (s->text[next] == ' ' || s->text[next] == '\t')) next++;
  return next > end ? word_end(s, next, v) : end;
}

static bool says_nothing(const scan *s, size_t at, size_t end) {
  return at == end || word_is(s, at, end, "null") || word_is(s, at, end, "true") ||
         word_is(s, at, end, "false");
}

/* Finds the value of a key-like name: text[*from..return). Backslashes before its opening quote say
 * how deeply the JSON it stands in was itself written as a string. */
static size_t value_end(const scan *s, const value *v, size_t *from) {
  size_t slashes = 0, at = v->at;
  while (at + slashes < s->len && s->text[at + slashes] == '\\') slashes++;
  char first = at + slashes < s->len ? s->text[at + slashes] : '\0';
  *from = at;
  if (first == '"' || (first == '\'' && slashes == 0)) {
    *from = at + slashes + 1;
    return idem__fenced_end(s->text, s->len, *from, first, slashes);
  }
  if (v->key.kind == IDEM__KEY_HEADER) return header_end(s, v);
  return first == '{' || first == '[' ? bracket_end(s, at) : bare_value_end(s, v);
}

/* How many bytes separate a key from its value at `at`: '=' (percent-encoded too) and ':', and on a
 * command line a blank ("--token x") or a comma (["--token","x"]). */
static size_t separator_at(const scan *s, size_t at) {
  char c = s->text[at];
  if (c == '=' || c == ':' || c == ' ' || c == ',') return 1;
  bool encoded = c == '%' && s->len - at >= 3 && s->text[at + 1] == '3' &&
                 idem__ascii_lower(s->text[at + 2]) == 'd';
  return encoded ? 3 : 0;
}

static size_t value_start(const scan *s, size_t at, const idem__key *key) {
  while (at < s->len) {
    char c = s->text[at];
    /* Pretty-printed JSON may break the line here; "=>", ":=" and "==" are separators too. */
    bool skip =
        c == ' ' || c == '\t' || c == '=' || c == ':' || c == '>' || (key->quoted && ends_line(c));
    if (!skip) break;
    at++;
  }
  return at;
}

static idem_status try_key(scan *s, size_t at, size_t *next) {
  size_t separator = separator_at(s, at), from;
  value v;
  if (separator == 0 || !idem__key_before(s->text, at, &v.key)) return IDEM_OK;
  bool spaced = s->text[at] == ' ' || s->text[at] == ',';
  if (spaced && !(v.key.flag && (s->text[at] == ' ') != v.key.quoted)) return IDEM_OK;
  v.at = value_start(s, at + separator, &v.key);
  if (spaced && v.at < s->len && s->text[v.at] == '-') return IDEM_OK;
  size_t end = value_end(s, &v, &from);
  return says_nothing(s, from, end) ? IDEM_OK : hide(s, at, from, end, next);
}

/* --------------------------------------------------- words and addresses */

static bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins_word(const scan *s, size_t at) {
  return at == 0 || !(is_alnum(s->text[at - 1]) || s->text[at - 1] == '_');
}

static idem_status try_credential(scan *s, size_t at, size_t *next) {
  if (!is_alnum(s->text[at]) || !begins_word(s, at)) return IDEM_OK;
  size_t from, end;
  if (!idem__credential_at(s->text, s->len, at, &from, &end)) return IDEM_OK;
  return hide(s, at, from, end, next);
}

static bool ends_authority(char c) {
  return c == '/' || c == '?' || c == '#' || c == ' ' || c == '\t' || ends_line(c) || c == '"' ||
         c == '\'' || c == '<' || c == '>' || c == '\\';
}

static bool ends_url_path(char c) {
  return c == '?' || c == '#' || (c != '/' && ends_authority(c)) || c == ',' || c == ';';
}

/* "://": user information goes, the rest of the address up to its query stays, except that of a
 * file, whose path is a path like any other. */
static idem_status try_url(scan *s, size_t at, size_t *next) {
  if (s->len - at < 3 || memcmp(s->text + at, "://", 3) != 0) return IDEM_OK;
  size_t host = at + 3, end = host, user_end = 0;
  for (; end < s->len && !ends_authority(s->text[end]); end++)
    if (s->text[end] == '@') user_end = end;
  if (at >= 4 && !s->keep_paths && word_is(s, at - 4, at, "file")) {
    size_t path_end = idem__path_end(s->text, s->len, end, 0, 0);
    return path_end > end + 1 ? hide(s, at, end, path_end, next) : IDEM_OK;
  }
  /* An address inside an address ends where the outer one does: no need to look again. */
  if (s->url_end < end) s->url_end = end;
  while (s->url_end < s->len && !ends_url_path(s->text[s->url_end])) s->url_end++;
  if (user_end) return hide(s, at, host, user_end, next);
  *next = at + 1;
  return IDEM_OK;
}

/* How much of the path at..end is the name of a folder that may be known, the slash behind it included. */
static size_t known_folder(const scan *s, size_t at, size_t end) {
  for (const char *const *folder = s->folders; folder && *folder; folder++) {
    size_t len = strlen(*folder);
    if (len < 2 || end - at < len || memcmp(s->text + at, *folder, len) != 0) continue;
    if (end - at == len || s->text[at + len] == '/') return len + (end - at > len);
  }
  return 0;
}

/* Whether the path goes up again, or to the root: then it may leave the folder it begins with. */
static bool wanders(const scan *s, size_t at, size_t end) {
  for (; at + 1 < end; at++) {
    if (s->text[at] == '/' && s->text[at + 1] == '/') return true;
    if (s->text[at] == '.' && s->text[at + 1] == '.') return true;
  }
  return false;
}

/* The folder's name goes; what follows is read by all rules as if it stood there alone. */
static idem_status name_from(scan *s, size_t at, size_t known, size_t end, size_t *next) {
  idem_status status = put(s, s->text + s->copied, at - s->copied);
  if (status == IDEM_OK && at + known == end) status = put(s, ".", 1);
  s->copied = *next = at + known;
  return status;
}

static idem_status try_path(scan *s, size_t at, size_t *next) {
  size_t end = at < s->url_end || s->keep_paths ? 0 : idem__path_at(s->text, s->len, at);
  if (!end) return IDEM_OK;
  size_t known = known_folder(s, at, end);
  if (known && !wanders(s, at, end) && extend(s, at, at + known) == at + known)
    return name_from(s, at, known, end, next);
  return hide(s, at, at, end, next);
}

/* ------------------------------------------------------------ the walk */

typedef idem_status (*rule)(scan *s, size_t at, size_t *next);
static const rule all_rules[] = {try_secret, try_url, try_key, try_credential, try_path};

/* Only these bytes can begin what the rules after the first look for. */
static bool interesting(const scan *s, size_t at) {
  char c = s->text[at];
  return is_alnum(c) || (c != '\0' && strchr("=:%/\\~$ ,", c) != NULL);
}

static idem_status step(scan *s, size_t at, size_t rules, size_t *next) {
  for (size_t i = 0; i < rules; i++) {
    idem_status status = all_rules[i](s, at, next);
    if (status != IDEM_OK || *next > at) return status;
    if (i == 0 && !interesting(s, at)) return IDEM_OK;
  }
  return IDEM_OK;
}

static idem_status walk(scan *s, size_t stop, size_t rules) {
  size_t before = s->out->len;
  idem_status status = IDEM_OK;
  size_t at = 0;
  while (at < stop && status == IDEM_OK && !full(s)) {
    size_t next = at;
    status = step(s, at, rules, &next);
    at = next > at ? next : at + 1;
  }
  if (status == IDEM_OK && at > s->copied) status = put(s, s->text + s->copied, at - s->copied);
  if (status != IDEM_OK) s->out->len = before;
  return status;
}

idem_status idem_redact(idem_buf *out, const char *text, size_t len, const idem_secret *secrets,
                        size_t secret_count) {
  scan s = {.text = text, .len = len, .secrets = secrets, .secret_count = secret_count, .out = out};
  return walk(&s, len, sizeof all_rules / sizeof *all_rules);
}

idem_status idem_redact_by(idem_buf *out, const char *text, size_t len,
                           const idem_redaction *rules) {
  scan s = {.text = text,
            .len = len,
            .secrets = rules->secrets,
            .secret_count = rules->secret_count,
            .folders = rules->folders,
            .keep_paths = rules->keep_paths,
            .out = out};
  return walk(&s, len, rules->only_secrets ? 1 : sizeof all_rules / sizeof *all_rules);
}

void idem_redact_cut(idem_buf *out, const char *text, size_t len, const idem_secret *secrets,
                     size_t secret_count, bool only_secrets) {
  scan s = {.text = text,
            .len = len,
            .secrets = secrets,
            .secret_count = secret_count,
            .out = out,
            .cut = true};
  size_t room = out->max - out->len;
  walk(&s, len < room ? len : room, only_secrets ? 1 : sizeof all_rules / sizeof *all_rules);
}
