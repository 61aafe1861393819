/* skill.c - skills: files that a list has announced with size and digest, read one at a time when they are wanted,
 * and believed only if they are what was announced. A SKILL.md must also say of itself what the list says of it.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

#define HEX 64
#define FIELDS_MAX 64 /* of front matter */

typedef struct skill {
  uint64_t size;
  char digest[HEX]; /* lower case */
  bool is_main;     /* the SKILL.md */
  idem_buf front;   /* the entry's front matter, as JSON */
} skill;

void idem__mcp_skill_free(idem__mcp_call *call) {
  skill *self = call->skill;
  idem_buf_deinit(&self->front);
  idem__free(&call->client->alloc, self);
  call->skill = NULL;
}

/* ------------------------------------------------------------------- the entry */

static yyjson_val *file_of(yyjson_val *entry, const char *uri) {
  yyjson_val *files = yyjson_obj_get(entry, "resources"), *each;
  size_t index, max;
  yyjson_arr_foreach(files, index, max, each) {
    if (yyjson_equals_str(yyjson_obj_get(each, "uri"), uri)) return each;
  }
  return NULL;
}

static bool read_digest(yyjson_val *value, char digest[HEX]) {
  static const char lead[] = "sha256:";
  const char *text = yyjson_get_str(value);
  if (!text || yyjson_get_len(value) != sizeof lead - 1 + HEX ||
      memcmp(text, lead, sizeof lead - 1) != 0)
    return false;
  for (size_t i = 0; i < HEX; i++) {
    char c = idem__ascii_lower(text[sizeof lead - 1 + i]);
    if (idem_hex_value(c) < 0) return false;
    digest[i] = c;
  }
  return true;
}

static idem_status read_entry(skill *self, yyjson_val *entry, const char *uri) {
  yyjson_val *file = file_of(entry, uri), *front = yyjson_obj_get(entry, "frontmatter");
  int64_t size;
  if (!file || !idem__json_get_int(yyjson_obj_get(file, "size"), &size) || size < 0 ||
      !read_digest(yyjson_obj_get(file, "digest"), self->digest))
    return IDEM_E_INVAL;
  self->size = (uint64_t)size;
  self->is_main = yyjson_equals_str(yyjson_obj_get(entry, "uri"), uri);
  if (!self->is_main) return IDEM_OK;
  return yyjson_is_obj(front) ? idem__json_put(&self->front, front) : IDEM_E_INVAL;
}

/* --------------------------------------------------------------- front matter */

/* A line of text, and what is left behind it. */
static bool next_line(const char **at, const char *end, const char **line, size_t *len) {
  if (*at >= end) return false;
  const char *stop = memchr(*at, '\n', (size_t)(end - *at));
  *line = *at;
  *len = (size_t)((stop ? stop : end) - *at);
  *at = stop ? stop + 1 : end;
  if (*len && (*line)[*len - 1] == '\r') (*len)--;
  return true;
}

static bool is_rule(const char *line, size_t len) {
  return len >= 3 && memcmp(line, "---", 3) == 0 && strspn(line + 3, " ") >= len - 3;
}

static void trim(const char **text, size_t *len) {
  while (*len && (**text == ' ' || **text == '\t')) (*text)++, (*len)--;
  while (*len && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t')) (*len)--;
  bool quoted =
      *len >= 2 && ((*text)[0] == '"' || (*text)[0] == '\'') && (*text)[*len - 1] == (*text)[0];
  if (quoted) (*text)++, *len -= 2;
}

/* A scalar says what a value says. Escapes and anything nested are not read, and so never agree. */
static bool agrees(yyjson_val *value, const char *text, size_t len) {
  int64_t number;
  char digits[24];
  if (memchr(text, '\\', len)) return false;
  if (yyjson_is_str(value))
    return yyjson_get_len(value) == len && memcmp(yyjson_get_str(value), text, len) == 0;
  if (yyjson_is_bool(value))
    return yyjson_get_bool(value) ? len == 4 && memcmp(text, "true", 4) == 0
                                  : len == 5 && memcmp(text, "false", 5) == 0;
  if (!idem__json_get_int(value, &number) || !len || len >= sizeof digits) return false;
  yyjson_val read;
  int64_t said;
  memcpy(digits, text, len);
  digits[len] = 0;
  return idem__json_number_of(digits, &read) && idem__json_get_int(&read, &said) && said == number;
}

/* Field by field, none missing on either side. */
static bool same_front(yyjson_val *front, const char *text, size_t text_len) {
  const char *at = text, *end = text + text_len, *line;
  size_t len, fields = 0;
  if (!next_line(&at, end, &line, &len) || !is_rule(line, len)) return false;
  while (next_line(&at, end, &line, &len)) {
    if (is_rule(line, len)) return fields == yyjson_obj_size(front);
    const char *value = memchr(line, ':', len);
    if (!len || line[0] == '#') continue;
    if (!value || line[0] == ' ' || line[0] == '-' || ++fields > FIELDS_MAX) return false;
    size_t key_len = (size_t)(value - line), value_len = len - key_len - 1;
    value++;
    trim(&value, &value_len);
    yyjson_val *said = yyjson_obj_getn(front, line, key_len);
    if (!said || !agrees(said, value, value_len)) return false;
  }
  return false;
}

static bool front_agrees(const idem__mcp_call *call, const char *text, size_t len) {
  const skill *self = call->skill;
  yyjson_alc alc = idem__json_alc(&call->client->alloc);
  yyjson_doc *doc =
      yyjson_read_opts(self->front.data, self->front.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  bool same = doc && same_front(yyjson_doc_get_root(doc), text, len);
  yyjson_doc_free(doc);
  return same;
}

/* ------------------------------------------------------------------- verifying */

static bool digest_agrees(const skill *self, const char *bytes, size_t len) {
  idem_sha256 sha;
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, bytes, len);
  idem_sha256_end(&sha, digest);
  for (size_t i = 0; i < sizeof digest; i++) {
    if (idem_hex_value(self->digest[2 * i]) * 16 + idem_hex_value(self->digest[2 * i + 1]) !=
        digest[i])
      return false;
  }
  return true;
}

static const char *fault_of(const idem__mcp_call *call, const char *bytes, size_t len) {
  const skill *self = call->skill;
  if (len != self->size) return "the file is not as long as the skill's list says";
  if (!digest_agrees(self, bytes, len)) return "the file is not the one of the skill's list";
  if (self->is_main && !front_agrees(call, bytes, len))
    return "the front matter is not what the skill's list says";
  return NULL;
}

void idem__mcp_skill_end(idem__mcp_call *call, yyjson_val *result) {
  idem_buf blob;
  yyjson_val *first = yyjson_arr_get(yyjson_obj_get(result, "contents"), 0);
  yyjson_val *text = yyjson_obj_get(first, "text"), *coded = yyjson_obj_get(first, "blob");
  idem_status status = yyjson_is_str(text) || yyjson_is_str(coded) ? IDEM_OK : IDEM_E_INVAL;
  idem_buf_init(&blob, &call->client->alloc, call->client->opts.message_bytes);
  if (status == IDEM_OK && !text)
    status = idem_base64_decode(&blob, yyjson_get_str(coded), yyjson_get_len(coded),
                                IDEM_BASE64_STANDARD);
  const char *bytes = text ? yyjson_get_str(text) : blob.data;
  size_t len = text ? yyjson_get_len(text) : blob.len;
  const char *why =
      status == IDEM_OK ? fault_of(call, bytes ? bytes : "", len) : "the server sent no file";
  if (why) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, why);
  } else {
    idem_mcp_result end = {.result = result, .skill_text = bytes ? bytes : "", .skill_len = len};
    idem__mcp_call_end(call, &end);
  }
  idem_buf_deinit(&blob);
}

/* ---------------------------------------------------------------------- asking */

idem_status idem_mcp_load_skill(idem_mcp_client *client, yyjson_val *entry, const char *uri,
                                const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                                uint64_t *handle) {
  uint64_t made;
  skill *self = idem__calloc(&client->alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  idem_buf_init(&self->front, &client->alloc, (size_t)1 << 20);
  idem_status status = read_entry(self, entry, uri);
  if (status == IDEM_OK) status = idem_mcp_read(client, uri, opts, fn, user, &made);
  if (status != IDEM_OK) {
    idem_buf_deinit(&self->front);
    idem__free(&client->alloc, self);
    return status;
  }
  idem__mcp_call *call = idem__mcp_call_find(client, made);
  call->kind = IDEM__MCP_SKILL;
  call->skill = self;
  if (handle) *handle = made;
  return IDEM_OK;
}
