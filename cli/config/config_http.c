/* config_http.c - what a tool that makes one HTTP call is made of. Scheme, host and port are fixed:
 * a placeholder there is a fault of the file, so that no value can choose whom to ask. */
#include "config.h"

#include <stdio.h>
#include <string.h>

/* Those that frame the message, or say whom it is for, are not the file's to write. */
static const char *const reserved_headers[] = {
    "Host",    "Content-Length", "Transfer-Encoding", "Connection",       "Upgrade", "TE",
    "Trailer", "Expect",         "Keep-Alive",        "Proxy-Connection",
};

/* ---------------------------------------------------------------------------- URL */

static bool compile(serve_config *self, const tool_config *tool, yyjson_val *at, const char *text,
                    size_t len, word_template *out) {
  const char *why = word_compile(out, text, len, &self->memory);
  if (why) source_fault(&self->source, at, "tool %s: \"%s\" %s", tool->name, text, why);
  return !why;
}

/* The length of "https://host:port"; 0: told. */
static size_t origin_length(serve_config *self, const tool_config *tool, yyjson_val *at) {
  const char *url = yyjson_get_str(at), *why = NULL;
  size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
  size_t host = scheme ? strcspn(url + scheme, "/?#") : 0;
  if (!scheme)
    why = "must begin with https:// or http://, as it stands";
  else if (!host || memchr(url + scheme, '{', host))
    why = "must name its host; no {placeholder} can stand there";
  else if (memchr(url + scheme, '@', host))
    why = "must not hold a user; use a header with a secret by reference";
  else if (strchr(url, '#'))
    why = "must not have a #fragment; it is never sent";
  if (why) source_fault(&self->source, at, "tool %s: the url %s", tool->name, why);
  return why ? 0 : scheme + host;
}

static bool is_clean(const char *url) {
  for (; *url; url++)
    if ((unsigned char)*url <= ' ' || (unsigned char)*url >= 0x7f) return false;
  return true;
}

static void take_query(serve_config *self, const tool_config *tool, yyjson_val *at,
                       const char *text, http_config *http) {
  size_t most = 1;
  for (const char *c = text; *c; c++) most += *c == '&';
  http->query = memory_zeroed(&self->memory, most, sizeof *http->query);
  for (const char *pair = text; *pair;) {
    size_t len = strcspn(pair, "&");
    if (len && compile(self, tool, at, memory_text(&self->memory, pair, len), len,
                       &http->query[http->query_count]))
      http->query_count++;
    pair += len + (pair[len] == '&');
  }
}

static bool take_url(serve_config *self, const tool_config *tool, yyjson_val *at,
                     http_config *http) {
  const char *url = yyjson_get_str(at);
  size_t origin = origin_length(self, tool, at);
  if (!origin) return false;
  if (!is_clean(url)) {
    source_fault(&self->source, at,
                 "tool %s: the url holds a blank or a letter that is not ASCII; "
                 "write it as %%XX",
                 tool->name);
    return false;
  }
  http->origin = memory_text(&self->memory, url, origin);
  size_t path = strcspn(url + origin, "?");
  const char *query = url + origin + path;
  if (*query) take_query(self, tool, at, query + 1, http);
  return compile(self, tool, at, memory_text(&self->memory, url + origin, path), path, &http->path);
}

/* ------------------------------------------------------------------------- fields */

static const char *join(serve_config *self, const char *prefix, const char *text) {
  size_t size = strlen(prefix) + strlen(text) + 1;
  char *joined = memory_zeroed(&self->memory, size, 1);
  snprintf(joined, size, "%s%s", prefix, text);
  return joined;
}

static bool has_control(const char *text) {
  for (; *text; text++)
    if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) return true;
  return false;
}

static void take_secret(serve_config *self, const tool_config *tool, yyjson_val *value,
                        http_field *field) {
  const char *prefix = config_text(value, "prefix"), *text = config_secret(self, tool, value);
  field->secret = text ? join(self, prefix ? prefix : "", text) : "";
  if (has_control(field->secret))
    source_fault(&self->source, value,
                 "tool %s: the secret for %s holds a line's end or another "
                 "control character",
                 tool->name, field->name);
}

static size_t take_fields(serve_config *self, const tool_config *tool, yyjson_val *given,
                          http_field **out) {
  yyjson_val *key, *value;
  size_t i, max, count = 0;
  *out = memory_zeroed(&self->memory, yyjson_obj_size(given) + 1, sizeof **out);
  idem_each_member(given, i, max, key, value) {
    http_field *field = &(*out)[count++];
    field->name = yyjson_get_str(key);
    if (yyjson_is_obj(value))
      take_secret(self, tool, value, field);
    else
      compile(self, tool, value, yyjson_get_str(value), yyjson_get_len(value), &field->value);
  }
  return count;
}

static void check_headers(serve_config *self, const tool_config *tool, yyjson_val *given,
                          http_config *http) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(given, i, max, key, value) {
    const char *name = yyjson_get_str(key);
    if (strcasecmp(name, "Content-Type") == 0) http->has_content_type = true;
    for (size_t j = 0; j < sizeof reserved_headers / sizeof *reserved_headers; j++)
      if (strcasecmp(name, reserved_headers[j]) == 0)
        source_fault(&self->source, key, "tool %s: the header %s is written by idem itself",
                     tool->name, name);
    if (yyjson_is_str(value) && has_control(yyjson_get_str(value)))
      source_fault(&self->source, value, "tool %s: a header cannot hold a line's end", tool->name);
  }
}

/* --------------------------------------------------------------------------- body */

static size_t count_texts(yyjson_val *value) {
  yyjson_val *key, *item;
  size_t i, max, count = yyjson_is_str(value);
  if (yyjson_is_arr(value)) yyjson_arr_foreach(value, i, max, item) count += count_texts(item);
  if (yyjson_is_obj(value)) idem_each_member(value, i, max, key, item) {
      count += count_texts(item);
    }
  return count;
}

static void compile_texts(serve_config *self, const tool_config *tool, yyjson_val *value,
                          http_config *http) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value))
    compile(self, tool, value, yyjson_get_str(value), yyjson_get_len(value),
            &http->body_texts[http->body_count++]);
  if (yyjson_is_arr(value))
    yyjson_arr_foreach(value, i, max, item) compile_texts(self, tool, item, http);
  if (yyjson_is_obj(value)) idem_each_member(value, i, max, key, item) {
      compile_texts(self, tool, item, http);
    }
}

static void take_body(serve_config *self, const tool_config *tool, yyjson_val *body,
                      http_config *http) {
  http->body = body;
  http->body_texts = memory_zeroed(&self->memory, count_texts(body) + 1, sizeof *http->body_texts);
  compile_texts(self, tool, body, http);
  if (yyjson_is_str(body) && !http->has_content_type)
    source_fault(&self->source, body,
                 "tool %s: a body of text needs a Content-Type header; a body "
                 "of JSON is written as JSON",
                 tool->name);
}

/* A value inside text would not be encoded for what that text means. */
static void check_text_body(serve_config *self, const tool_config *tool, const http_config *http) {
  for (size_t i = 0; yyjson_is_str(http->body) && i < http->header_count; i++) {
    const http_field *field = &http->headers[i];
    const piece *first = field->value.pieces;
    if (strcasecmp(field->name, "Content-Type") != 0 || !field->value.count || first->is_name)
      continue;
    if (memmem(first->text, first->len, "json", 4) ||
        memmem(first->text, first->len, "urlencoded", 10))
      source_fault(&self->source, http->body,
                   "tool %s: write a JSON body as JSON and form fields "
                   "as \"form\", so that values are encoded",
                   tool->name);
  }
}

/* ------------------------------------------------------------------------ together */

static void check_fields(name_check *check, yyjson_val *given, const http_field *fields) {
  yyjson_val *key, *value;
  size_t i, max;
  idem_each_member(given, i, max, key, value) name_check_word(check, value, &fields[i].value);
}

/* In the order of compile_texts. */
static void check_texts(name_check *check, yyjson_val *value, const word_template **next) {
  yyjson_val *key, *item;
  size_t i, max;
  if (yyjson_is_str(value)) name_check_word(check, value, (*next)++);
  if (yyjson_is_arr(value)) yyjson_arr_foreach(value, i, max, item) check_texts(check, item, next);
  if (yyjson_is_obj(value)) idem_each_member(value, i, max, key, item) {
      check_texts(check, item, next);
    }
}

static void check_names(serve_config *self, tool_config *tool, yyjson_val *given,
                        const http_config *http) {
  name_check check;
  const word_template *texts = http->body_texts;
  yyjson_val *url = yyjson_obj_get(given, "url");
  name_check_init(&check, self, tool);
  name_check_word(&check, url, &http->path);
  for (size_t i = 0; i < http->query_count; i++) name_check_word(&check, url, &http->query[i]);
  check_fields(&check, yyjson_obj_get(given, "headers"), http->headers);
  check_fields(&check, yyjson_obj_get(given, "form"), http->form);
  check_texts(&check, http->body, &texts);
  name_check_deinit(&check);
}

bool config_http(serve_config *self, yyjson_val *value, tool_config *tool) {
  yyjson_val *given = yyjson_obj_get(value, "http"), *body = yyjson_obj_get(given, "body");
  yyjson_val *headers = yyjson_obj_get(given, "headers"), *form = yyjson_obj_get(given, "form");
  const char *method = config_text(given, "method"), *output = config_text(value, "output");
  http_config *http = tool->http = memory_zeroed(&self->memory, 1, sizeof *http);
  http->method = method ? method : body || form ? "POST" : "GET";
  tool->output_json = output && strcmp(output, "json") == 0;
  if (body && form)
    source_fault(&self->source, given, "tool %s: give body or form, not both", tool->name);
  bool fine = take_url(self, tool, yyjson_obj_get(given, "url"), http);
  check_headers(self, tool, headers, http);
  http->header_count = take_fields(self, tool, headers, &http->headers);
  http->form_count = take_fields(self, tool, form, &http->form);
  if (body) take_body(self, tool, body, http);
  check_text_body(self, tool, http);
  check_names(self, tool, given, http);
  return fine;
}
