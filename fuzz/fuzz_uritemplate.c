/* fuzz_uritemplate.c - whatever matches a template is what the template makes of the values found.
 * The input is a template, a newline and a URI. */
#include "mcp/uritemplate.h"

#include <stdlib.h>
#include <string.h>

static void check(bool promise) {
  if (!promise) abort();
}

static void put_decoded(idem_buf *out, const char *text, size_t len) {
  while (len) {
    idem__uri_token token;
    size_t took = idem__uri_token_read(text, len, &token);
    check(token != IDEM__URI_BAD);
    char byte = (char)(token & 0xff);
    check(idem_buf_put(out, &byte, 1) == IDEM_OK);
    text += took;
    len -= took;
  }
}

static void put_char(idem_buf *out, char c) {
  if (c) check(idem_buf_put(out, &c, 1) == IDEM_OK);
}

static const char *value_of(const idem__uri_spec *spec, const idem__uri_variable *variables,
                            size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (variables[i].name_len == spec->name_len &&
        memcmp(variables[i].name, spec->name, spec->name_len) == 0) {
      return variables[i].value;
    }
  }
  return NULL;
}

static void expand_variable(idem_buf *out, const idem__uri_operator *how,
                            const idem__uri_spec *spec, const char *value, bool written) {
  put_char(out, written ? how->separator : how->first);
  if (how->named && spec->explode) {
    put_decoded(out, value, strlen(value));
    return;
  }
  if (how->named) put_decoded(out, spec->name, spec->name_len);
  if (how->named && (*value || !how->bare)) put_char(out, '=');
  check(idem_buf_put(out, value, strlen(value)) == IDEM_OK);
}

static void expand(idem_buf *out, const idem__uri_template *pattern,
                   const idem__uri_variable *variables, size_t count) {
  for (size_t i = 0; i < pattern->part_count; i++) {
    const idem__uri_part *part = &pattern->parts[i];
    bool written = false;
    for (size_t j = 0; j < part->count; j++) {
      if (!part->how) {
        char byte = (char)(pattern->tokens[part->at + j] & 0xff);
        check(idem_buf_put(out, &byte, 1) == IDEM_OK);
        continue;
      }
      const char *value = value_of(&pattern->specs[part->at + j], variables, count);
      if (!value) continue;
      expand_variable(out, part->how, &pattern->specs[part->at + j], value, written);
      written = true;
    }
  }
}

/* A name written twice may be missing in one place, and ";a=" is read like ";a": then the way back
 * is not the only one. */
static bool way_back_is_unique(const idem__uri_template *pattern) {
  for (size_t i = 0; i < pattern->spec_count; i++) {
    const idem__uri_spec *spec = &pattern->specs[i];
    for (size_t j = 0; j < i; j++) {
      const idem__uri_spec *other = &pattern->specs[j];
      if (spec->name_len == other->name_len && !memcmp(spec->name, other->name, spec->name_len)) {
        return false;
      }
    }
  }
  return strstr(pattern->text, "{;") == NULL;
}

static void check_match(const idem__uri_template *pattern, const char *uri, size_t len,
                        const idem__uri_variable *variables, size_t count) {
  idem_buf expanded, decoded;
  check(count <= pattern->spec_count);
  for (size_t i = 0; i < count; i++) {
    check(idem_utf8_valid(variables[i].value, strlen(variables[i].value)));
  }
  if (!way_back_is_unique(pattern)) return;
  idem_buf_init(&expanded, NULL, 1 << 20);
  idem_buf_init(&decoded, NULL, 1 << 20);
  expand(&expanded, pattern, variables, count);
  put_decoded(&decoded, uri, len);
  check(expanded.len == decoded.len);
  check(!expanded.len || memcmp(expanded.data, decoded.data, expanded.len) == 0);
  idem_buf_deinit(&expanded);
  idem_buf_deinit(&decoded);
}

static void match(const idem__uri_template *pattern, const char *uri, size_t len) {
  idem__arena arena;
  idem__uri_variable *variables;
  size_t count;
  idem__arena_init(&arena, NULL, NULL, 0, 1 << 20);
  idem_status status = idem__uri_template_match(pattern, uri, len, &arena, &variables, &count);
  check(status == IDEM_OK || status == IDEM_E_NOTFOUND);
  check(idem__uri_template_match(pattern, uri, len, NULL, NULL, NULL) == status);
  if (status == IDEM_OK) check_match(pattern, uri, len, variables, count);
  idem__arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
  if (!newline) return 0;
  size_t len = (size_t)(newline - data);
  char *text = malloc(len + 1);
  check(text != NULL);
  memcpy(text, data, len);
  text[len] = '\0';
  idem__uri_template *pattern;
  idem_status status = idem__uri_template_parse(NULL, text, &pattern);
  check(status == IDEM_OK || status == IDEM_E_INVAL || status == IDEM_E_LIMIT);
  if (status == IDEM_OK) {
    match(pattern, (const char *)newline + 1, size - len - 1);
    idem__uri_template_free(pattern, NULL);
  }
  free(text);
  return 0;
}
