/* challenge.c - reads WWW-Authenticate (RFC 9110, 11.6.1): several challenges may stand in one header, separated by the
 * same comma as their parameters, so a word that no "=" follows begins the next one. */
#include "auth.h"

#include <string.h>

#define HEADER_MAX 8192u

typedef struct reader {
  const char *at, *end;
  const idem_alloc *alloc;
  idem__auth_challenge *out;
  bool ours; /* within a challenge that we understand */
} reader;

static bool is_token(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || idem__is_digit(c) ||
         (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip(reader *self, const char *what) {
  while (self->at < self->end && *self->at && strchr(what, *self->at)) self->at++;
}

static size_t take_token(reader *self, const char **token) {
  *token = self->at;
  while (self->at < self->end && is_token(*self->at)) self->at++;
  return (size_t)(self->at - *token);
}

/* Behind the opening quote; false: it does not end. */
static bool take_quoted(reader *self, idem_buf *value) {
  for (; self->at < self->end; self->at++) {
    if (*self->at == '"') {
      self->at++;
      return true;
    }
    if (*self->at == '\\' && ++self->at == self->end) return false;
    if ((uint8_t)*self->at < ' ' || *self->at == 127) return false;
    if (idem_buf_put(value, self->at, 1) != IDEM_OK) return false;
  }
  return false;
}

static idem_status keep(reader *self, const char *name, size_t len, const idem_buf *value) {
  static const char *const names[] = {"resource_metadata", "scope", "error"};
  char **places[] = {&self->out->resource_metadata, &self->out->scope, &self->out->error};
  for (size_t i = 0; self->ours && i < 3; i++) {
    if (*places[i] || !idem__text_equal_nocase(name, len, names[i], strlen(names[i]))) continue;
    *places[i] = idem__strndup(self->alloc, value->len ? value->data : "", value->len);
    return *places[i] ? IDEM_OK : IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

static bool is_unquoted(char character) {
  return character > ' ' && character < 127 && character != ',' && character != '"';
}

/* A value without quotes is a token by the grammar, but servers write URLs and scopes so, too: all up to what ends one is meant. */
static size_t take_unquoted(reader *self, const char **value) {
  *value = self->at;
  while (self->at < self->end && is_unquoted(*self->at)) self->at++;
  return (size_t)(self->at - *value);
}

/* Behind "name =". */
static idem_status read_value(reader *self, const char *name, size_t len) {
  idem_buf value;
  const char *token;
  bool good = true;
  idem_buf_init(&value, self->alloc, HEADER_MAX);
  skip(self, " \t");
  if (self->at < self->end && *self->at == '"') {
    self->at++;
    good = take_quoted(self, &value);
  } else {
    size_t token_len = take_unquoted(self, &token);
    good = token_len && idem_buf_put(&value, token, token_len) == IDEM_OK;
  }
  idem_status status = good ? keep(self, name, len, &value) : IDEM_E_INVAL;
  idem_buf_deinit(&value);
  return status;
}

static void begin(reader *self, const char *scheme, size_t len) {
  bool bearer = idem__text_equal_nocase(scheme, len, "Bearer", 6);
  bool dpop = idem__text_equal_nocase(scheme, len, "DPoP", 4);
  self->out->bearer |= bearer;
  self->out->dpop |= dpop;
  self->ours = bearer || dpop;
}

/* A scheme, perhaps with token68 credentials behind it, or a parameter of the challenge before. */
static idem_status read_item(reader *self) {
  const char *word;
  size_t len = take_token(self, &word);
  if (!len) return IDEM_E_INVAL;
  skip(self, " \t");
  bool parameter = self->at < self->end && *self->at == '=';
  if (!parameter) {
    begin(self, word, len);
    return IDEM_OK;
  }
  self->at++;
  if (self->at < self->end && *self->at == '=') { /* the padding of a token68 */
    skip(self, "=");
    return IDEM_OK;
  }
  return read_value(self, word, len);
}

idem_status idem__auth_challenge_read(const idem_alloc *alloc, const char *header, size_t len,
                                      idem__auth_challenge *out) {
  reader self = {.at = header, .end = header + len, .alloc = alloc, .out = out};
  idem_status status = len <= HEADER_MAX ? IDEM_OK : IDEM_E_INVAL;
  skip(&self, " \t,");
  while (status == IDEM_OK && self.at < self.end) {
    status = read_item(&self);
    skip(&self, " \t,");
  }
  return status;
}

void idem__auth_challenge_deinit(const idem_alloc *alloc, idem__auth_challenge *challenge) {
  idem__free(alloc, challenge->resource_metadata);
  idem__free(alloc, challenge->scope);
  idem__free(alloc, challenge->error);
  *challenge = (idem__auth_challenge){.bearer = false};
}
