/* http_build.c - from the arguments of a call to the bytes of its request. One value stays within
 * one path segment, one query or form value, one header, one JSON value. */
#include "http_tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_MAX ((size_t)16 << 10)
#define HEADER_MAX ((size_t)64 << 10)
#define BODY_MAX ((size_t)10 << 20)

typedef enum place { PLACE_PATH, PLACE_QUERY, PLACE_FORM, PLACE_HEADER, PLACE_TEXT } place;

static bool refuse_value(template_fault *fault, const piece *name, const char *why) {
  return template_refuse(fault, "arguments.%.*s: %s", (int)name->len, name->text, why);
}

/* ------------------------------------------------------------------------- encoding */

static bool is_unreserved(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

static bool put_percent(idem_buf *out, const char *text, size_t len) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < len && status == IDEM_OK; i++) {
    unsigned char c = (unsigned char)text[i];
    status = is_unreserved(c) ? idem_buf_put(out, text + i, 1) : idem_buf_printf(out, "%%%02X", c);
  }
  return status == IDEM_OK;
}

/* A segment ".." would lead elsewhere; a server that undoes %2F too early must not see one either. */
static bool has_dots(const char *text, size_t len) {
  for (size_t at = 0; at <= len;) {
    size_t end = at;
    while (end < len && text[end] != '/' && text[end] != '\\') end++;
    if ((end - at == 1 && text[at] == '.') || (end - at == 2 && memcmp(text + at, "..", 2) == 0))
      return true;
    at = end + 1;
  }
  return false;
}

static bool has_control(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) return true;
  return false;
}

static bool put_value(idem_buf *out, place where, const char *text, size_t len, const piece *name,
                      template_fault *fault) {
  if (memchr(text, 0, len)) return refuse_value(fault, name, "must not hold a NUL character");
  if ((where == PLACE_PATH || where == PLACE_HEADER) && has_control(text, len))
    return refuse_value(fault, name, "must not hold a line's end or another control character");
  if (where == PLACE_PATH && !len) return refuse_value(fault, name, "must not be empty");
  if (where == PLACE_PATH && has_dots(text, len))
    return refuse_value(fault, name, "must not be or hold a path element . or ..");
  bool plain = where == PLACE_HEADER || where == PLACE_TEXT;
  bool fits = plain ? idem_buf_put(out, text, len) == IDEM_OK : put_percent(out, text, len);
  return fits || refuse_value(fault, name, "is too long");
}

/* Strings as they are, everything else as JSON writes it; whole numbers as integers. */
static bool put_json_value(idem_buf *out, place where, yyjson_val *value, const piece *name,
                           template_fault *fault) {
  char room[24];
  const char *whole = whole_number_text(value, room);
  if (whole) return put_value(out, where, whole, strlen(whole), name, fault);
  if (yyjson_is_str(value))
    return put_value(out, where, yyjson_get_str(value), yyjson_get_len(value), name, fault);
  if (yyjson_is_raw(value))
    return put_value(out, where, yyjson_get_raw(value), yyjson_get_len(value), name, fault);
  size_t len = 0;
  char *text = yyjson_val_write(value, 0, &len);
  bool fine = text ? put_value(out, where, text, len, name, fault)
                   : template_refuse(fault, "out of memory");
  free(text);
  return fine;
}

/* ------------------------------------------------------------------------ templates */

static yyjson_val *value_of(yyjson_val *arguments, const piece *name) {
  yyjson_val *value = yyjson_obj_getn(arguments, name->text, name->len);
  return yyjson_is_null(value) ? NULL : value;
}

/* `item` takes the place of a list. */
static bool render(const word_template *self, place where, yyjson_val *arguments, yyjson_val *item,
                   idem_buf *out, template_fault *fault) {
  for (size_t i = 0; i < self->count; i++) {
    const piece *at = &self->pieces[i];
    yyjson_val *value = at->is_name ? value_of(arguments, at) : NULL;
    if (item && yyjson_is_arr(value)) value = item;
    bool fine;
    if (at->is_name && !value)
      fine = where != PLACE_PATH || refuse_value(fault, at, "is needed for the address");
    else if (at->is_name)
      fine = put_json_value(out, where, value, at, fault);
    else if (where == PLACE_FORM)
      fine = put_percent(out, at->text, at->len) || template_refuse(fault, "the form is too long");
    else
      fine = idem_buf_put(out, at->text, at->len) == IDEM_OK ||
             template_refuse(fault, "it is too long");
    if (!fine) return false;
  }
  return true;
}

typedef struct survey {
  yyjson_val *arguments;
  bool absent;
  yyjson_val *list;
} survey;

static bool look(void *user, const char *name, size_t len) {
  survey *self = user;
  yyjson_val *value = value_of(self->arguments, &(piece){name, (uint32_t)len, true});
  if (!value) self->absent = true;
  if (yyjson_is_arr(value)) self->list = value;
  return true;
}

static survey survey_of(const word_template *self, yyjson_val *arguments) {
  survey seen = {.arguments = arguments};
  word_names(self, look, &seen);
  return seen;
}

/* ------------------------------------------------------------------ query and form */

static const char *too_long(place where) {
  return where == PLACE_QUERY ? "the address is too long" : "the form is too long";
}

static bool put_name(idem_buf *out, const char *name) {
  return put_percent(out, name, strlen(name)) && idem_buf_put(out, "=", 1) == IDEM_OK;
}

/* What comes before a query has no "?": values are encoded, the path of the file ends there. */
static bool put_pair(const char *name, const word_template *self, place where,
                     yyjson_val *arguments, yyjson_val *item, idem_buf *out,
                     template_fault *fault) {
  bool first = where == PLACE_QUERY ? !memchr(out->data, '?', out->len) : !out->len;
  bool fits = (where != PLACE_QUERY && first) || idem_buf_put(out, first ? "?" : "&", 1) == IDEM_OK;
  if (name) fits = fits && put_name(out, name);
  if (!fits) return template_refuse(fault, "%s", too_long(where));
  return render(self, where, arguments, item, out, fault);
}

/* An absent value takes its pair along; a list repeats it. */
static bool put_pairs(const char *name, const word_template *self, place where,
                      yyjson_val *arguments, idem_buf *out, template_fault *fault) {
  survey seen = survey_of(self, arguments);
  yyjson_val *item;
  size_t i, max;
  if (seen.absent) return true;
  if (!seen.list) return put_pair(name, self, where, arguments, NULL, out, fault);
  yyjson_arr_foreach(seen.list, i, max, item) {
    if (!put_pair(name, self, where, arguments, item, out, fault)) return false;
  }
  return true;
}

static bool build_url(http_request *self, const http_config *http, yyjson_val *arguments,
                      template_fault *fault) {
  idem_buf *url = &self->url;
  if (idem_buf_put(url, http->origin, strlen(http->origin)) != IDEM_OK)
    return template_refuse(fault, "the address is too long");
  size_t origin = url->len;
  if (!render(&http->path, PLACE_PATH, arguments, NULL, url, fault)) return false;
  if (url->len == origin && idem_buf_put(url, "/", 1) != IDEM_OK)
    return template_refuse(fault, "the address is too long");
  for (size_t i = 0; i < http->query_count; i++)
    if (!put_pairs(NULL, &http->query[i], PLACE_QUERY, arguments, url, fault)) return false;
  return idem_buf_put(url, "", 1) == IDEM_OK || template_refuse(fault, "the address is too long");
}

/* -------------------------------------------------------------------------- headers */

static bool add_header(http_request *self, const char *name, const char *value, size_t len) {
  char *line = NULL;
  if (asprintf(&line, "%s: %.*s", name, (int)len, value) < 0) return false;
  self->headers[self->header_count++] = line;
  return true;
}

static bool build_header(http_request *self, const http_field *field, yyjson_val *arguments,
                         template_fault *fault) {
  if (field->secret) return add_header(self, field->name, field->secret, strlen(field->secret));
  if (survey_of(&field->value, arguments).absent) return true;
  idem_buf value;
  idem_buf_init(&value, NULL, HEADER_MAX);
  bool fine = render(&field->value, PLACE_HEADER, arguments, NULL, &value, fault) &&
              (add_header(self, field->name, value.len ? value.data : "", value.len) ||
               template_refuse(fault, "out of memory"));
  idem_buf_deinit(&value);
  return fine;
}

static bool build_headers(http_request *self, const http_config *http, yyjson_val *arguments,
                          template_fault *fault) {
  static const char json[] = "application/json", form[] = "application/x-www-form-urlencoded";
  self->headers = calloc(http->header_count + 2, sizeof *self->headers);
  if (!self->headers) return template_refuse(fault, "out of memory");
  for (size_t i = 0; i < http->header_count; i++)
    if (!build_header(self, &http->headers[i], arguments, fault)) return false;
  if (http->has_content_type || (!http->body && !http->form_count)) return true;
  return http->body ? add_header(self, "Content-Type", json, sizeof json - 1)
                    : add_header(self, "Content-Type", form, sizeof form - 1);
}

/* ----------------------------------------------------------------------------- body */

typedef struct body_build {
  const http_config *http;
  yyjson_val *arguments;
  yyjson_mut_doc *doc;
  size_t next_text;
  template_fault *fault;
  bool failed;
} body_build;

/* "{name}" alone is the value itself, of whatever type; NULL: it is absent. */
static yyjson_mut_val *build_text(body_build *self) {
  const word_template *text = &self->http->body_texts[self->next_text++];
  if (text->count == 1 && text->pieces[0].is_name) {
    yyjson_val *value = value_of(self->arguments, &text->pieces[0]);
    yyjson_mut_val *copy = value ? yyjson_val_mut_copy(self->doc, value) : NULL;
    if (value && !copy) self->failed = true;
    return copy;
  }
  idem_buf out;
  idem_buf_init(&out, NULL, BODY_MAX);
  bool fine = render(text, PLACE_TEXT, self->arguments, NULL, &out, self->fault);
  yyjson_mut_val *made =
      fine ? yyjson_mut_strncpy(self->doc, out.len ? out.data : "", out.len) : NULL;
  if (!made) self->failed = true;
  idem_buf_deinit(&out);
  return made;
}

static yyjson_mut_val *build_value(body_build *self, yyjson_val *value) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value)) return build_text(self);
  yyjson_mut_val *made = !yyjson_is_ctn(value)  ? yyjson_val_mut_copy(self->doc, value)
                         : yyjson_is_arr(value) ? yyjson_mut_arr(self->doc)
                                                : yyjson_mut_obj(self->doc);
  if (!made) self->failed = true;
  if (!made || !yyjson_is_ctn(value)) return made;
  if (yyjson_is_arr(value)) {
    yyjson_arr_foreach(value, i, max, item) {
      yyjson_mut_val *built = build_value(self, item);
      if (built && !yyjson_mut_arr_append(made, built)) self->failed = true;
    }
    return made;
  }
  idem_each_member(value, i, max, key, item) {
    yyjson_mut_val *built = build_value(self, item);
    if (built && !yyjson_mut_obj_add(made, yyjson_val_mut_copy(self->doc, key), built))
      self->failed = true;
  }
  return made;
}

static bool build_json(http_request *self, const http_config *http, yyjson_val *arguments,
                       template_fault *fault) {
  body_build build = {.http = http, .arguments = arguments, .fault = fault};
  size_t len = 0;
  template_refuse(fault, "the body cannot be made"); /* unless something better is known */
  build.doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *root = build.doc ? build_value(&build, http->body) : NULL;
  char *text = root && !build.failed ? yyjson_mut_val_write(root, 0, &len) : NULL;
  bool fine = text && idem_buf_put(&self->body, text, len) == IDEM_OK;
  free(text);
  yyjson_mut_doc_free(build.doc);
  return fine;
}

static bool put_secret(idem_buf *body, const http_field *field) {
  return (!body->len || idem_buf_put(body, "&", 1) == IDEM_OK) && put_name(body, field->name) &&
         put_percent(body, field->secret, strlen(field->secret));
}

static bool build_body(http_request *self, const http_config *http, yyjson_val *arguments,
                       template_fault *fault) {
  if (yyjson_is_str(http->body))
    return render(&http->body_texts[0], PLACE_TEXT, arguments, NULL, &self->body, fault);
  if (http->body) return build_json(self, http, arguments, fault);
  for (size_t i = 0; i < http->form_count; i++) {
    const http_field *field = &http->form[i];
    if (field->secret) {
      if (!put_secret(&self->body, field))
        return template_refuse(fault, "%s", too_long(PLACE_FORM));
    } else if (!put_pairs(field->name, &field->value, PLACE_FORM, arguments, &self->body, fault)) {
      return false;
    }
  }
  return true;
}

/* ------------------------------------------------------------------------- together */

bool http_build(http_request *self, const tool_config *tool, yyjson_val *arguments,
                template_fault *fault) {
  *self = (http_request){.headers = NULL};
  idem_buf_init(&self->url, NULL, URL_MAX);
  idem_buf_init(&self->body, NULL, BODY_MAX);
  return build_url(self, tool->http, arguments, fault) &&
         build_headers(self, tool->http, arguments, fault) &&
         build_body(self, tool->http, arguments, fault);
}

void http_request_free(http_request *self) {
  for (size_t i = 0; i < self->header_count; i++) free(self->headers[i]);
  free(self->headers);
  idem_buf_deinit(&self->url);
  idem_buf_deinit(&self->body);
}
