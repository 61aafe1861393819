/* uritemplate.c - parsing URI templates: RFC 6570, levels 1 to 4.
 * The result is a flat list of literals and expressions that uritemplate_match.c runs backwards, from
 * a URI to the values of its variables. */
#include "uritemplate.h"

#include <string.h>

static const idem__uri_operator operators[] = {
    {.sign = 0, .first = 0, .separator = ','},
    {.sign = '+', .first = 0, .separator = ',', .reserved = true},
    {.sign = '#', .first = '#', .separator = ',', .reserved = true},
    {.sign = '.', .first = '.', .separator = '.'},
    {.sign = '/', .first = '/', .separator = '/'},
    {.sign = ';', .first = ';', .separator = ';', .named = true, .bare = true},
    {.sign = '?', .first = '?', .separator = '&', .named = true},
    {.sign = '&', .first = '&', .separator = '&', .named = true},
};

/* -------------------------------------------------------------- characters */

static bool is_alphanumeric(unsigned c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool idem__uri_is_unreserved(unsigned c) {
  return is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

bool idem__uri_is_reserved(unsigned c) {
  return c != 0 && c < 128 && strchr(":/?#[]@!$&'()*+,;=", (int)c) != NULL;
}

/* %00 is refused: values are handed on as C strings. */
static idem__uri_token encoded_token(const char *text) {
  int high = idem_hex_value(text[1]), low = idem_hex_value(text[2]);
  if (high < 0 || low < 0 || high + low == 0) return IDEM__URI_BAD;
  unsigned byte = (unsigned)high << 4 | (unsigned)low;
  return (idem__uri_token)(idem__uri_is_unreserved(byte) ? byte : IDEM__URI_ENCODED + byte);
}

size_t idem__uri_token_read(const char *text, size_t len, idem__uri_token *token) {
  unsigned char c = (unsigned char)text[0];
  *token = IDEM__URI_BAD;
  if (c == '%' && len >= 3) {
    *token = encoded_token(text);
    return *token == IDEM__URI_BAD ? 1 : 3;
  }
  if (c >= 128) *token = (idem__uri_token)(IDEM__URI_ENCODED + c);
  if (idem__uri_is_unreserved(c) || idem__uri_is_reserved(c)) *token = c;
  return 1;
}

/* ------------------------------------------------------------------ parser */

typedef struct parser {
  idem__uri_template *out;
  const char *at;
  const char *end;
} parser;

static bool add_token(parser *p) {
  idem__uri_token token;
  p->at += idem__uri_token_read(p->at, (size_t)(p->end - p->at), &token);
  p->out->tokens[p->out->token_count++] = token;
  return token != IDEM__URI_BAD;
}

static idem__uri_part *add_part(parser *p) {
  if (p->out->part_count == IDEM__URI_PARTS_MAX) return NULL;
  return &p->out->parts[p->out->part_count++];
}

static idem_status parse_literal(parser *p) {
  size_t start = p->out->token_count;
  idem__uri_part *part = add_part(p);
  if (!part) return IDEM_E_LIMIT;
  while (p->at < p->end && *p->at != '{') {
    if (!add_token(p)) return IDEM_E_INVAL;
  }
  *part = (idem__uri_part){.at = start, .count = p->out->token_count - start};
  return IDEM_OK;
}

/* The characters at the parser: letters, digits, "_", percent-encoded; single dots inside. */
static bool parse_name(parser *p, idem__uri_spec *spec) {
  bool dot = true; /* where a dot, or the end, may not stand */
  spec->name = p->at;
  spec->name_at = p->out->token_count;
  for (; p->at < p->end; dot = p->at[-1] == '.') {
    unsigned char c = (unsigned char)*p->at;
    if (c == '.' && dot) return false;
    if (!is_alphanumeric(c) && c != '_' && c != '%' && c != '.') break;
    if (!add_token(p)) return false;
  }
  spec->name_len = (size_t)(p->at - spec->name);
  spec->name_tokens = p->out->token_count - spec->name_at;
  return !dot;
}

/* ":" and 1 to 9999, or "*", or nothing. */
static bool parse_modifier(parser *p, idem__uri_spec *spec) {
  if (p->at < p->end && *p->at == '*') {
    spec->explode = true;
    p->at++;
  } else if (p->at < p->end && *p->at == ':') {
    const char *digits = ++p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9' && p->at - digits < 4) {
      spec->prefix = spec->prefix * 10 + (unsigned)(*p->at++ - '0');
    }
    return p->at > digits && *digits != '0';
  }
  return true;
}

static void set_allowed(idem__uri_spec *spec, unsigned c, bool allowed) {
  uint32_t bit = UINT32_C(1) << c % 32;
  if (allowed)
    spec->allowed[c / 32] |= bit;
  else
    spec->allowed[c / 32] &= ~bit;
}

/* What a value may hold: lists are joined by commas, exploded ones by the separator and with names
 * before "=". A separator before the last variable is one: it is no part of a value. */
static void allow_characters(idem__uri_spec *spec, const idem__uri_operator *how, bool last) {
  for (unsigned c = 1; c < 128; c++) {
    bool allowed = idem__uri_is_unreserved(c) || (how->reserved && idem__uri_is_reserved(c));
    set_allowed(spec, c, allowed);
  }
  set_allowed(spec, ',', true);
  if (spec->explode) {
    set_allowed(spec, (unsigned char)how->separator, true);
    set_allowed(spec, '=', true);
  } else if (!last) {
    set_allowed(spec, (unsigned char)how->separator, false);
  }
}

static idem_status parse_spec(parser *p, const idem__uri_operator *how) {
  if (p->out->spec_count == IDEM__URI_VARIABLES_MAX) return IDEM_E_LIMIT;
  idem__uri_spec *spec = &p->out->specs[p->out->spec_count++];
  if (!parse_name(p, spec) || !parse_modifier(p, spec)) return IDEM_E_INVAL;
  if (p->at == p->end || (*p->at != ',' && *p->at != '}')) return IDEM_E_INVAL;
  allow_characters(spec, how, *p->at == '}');
  return IDEM_OK;
}

static const idem__uri_operator *parse_operator(parser *p) {
  for (size_t i = 1; i < sizeof operators / sizeof operators[0] && p->at < p->end; i++) {
    if (*p->at == operators[i].sign) {
      p->at++;
      return &operators[i];
    }
  }
  return &operators[0];
}

static idem_status parse_expression(parser *p) {
  idem_status status;
  idem__uri_part *part = add_part(p);
  if (!part) return IDEM_E_LIMIT;
  p->at++; /* the brace */
  part->how = parse_operator(p);
  part->at = p->out->spec_count;
  while ((status = parse_spec(p, part->how)) == IDEM_OK && *p->at++ == ',') part->count++;
  part->count++;
  return status;
}

static idem_status parse(parser *p) {
  idem_status status = IDEM_OK;
  while (p->at < p->end && status == IDEM_OK) {
    status = *p->at == '{' ? parse_expression(p) : parse_literal(p);
  }
  return status;
}

/* ----------------------------------------------------------------- public */

idem_status idem__uri_template_parse(const idem_alloc *alloc, const char *text,
                                     idem__uri_template **out) {
  size_t len = strlen(text);
  if (len > IDEM__URI_TEMPLATE_MAX) return IDEM_E_LIMIT;
  idem__uri_template *made = idem__calloc(alloc, sizeof *made + len * sizeof made->tokens[0]);
  if (!made) return IDEM_E_NOMEM;
  made->alloc = idem__alloc_or_default(alloc);
  made->text = idem__strndup(alloc, text, len);
  idem_status status = IDEM_E_NOMEM;
  if (made->text) status = parse(&(parser){.out = made, .at = made->text, .end = made->text + len});
  if (status != IDEM_OK) {
    idem__uri_template_free(made, alloc);
    return status;
  }
  *out = made;
  return IDEM_OK;
}

void idem__uri_template_free(idem__uri_template *pattern, const idem_alloc *alloc) {
  if (!pattern) return;
  idem__free(alloc, pattern->text);
  idem__free(alloc, pattern);
}
