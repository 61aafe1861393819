/* arguments.c - see arguments.h. Words are texts until a schema says otherwise; JSON is taken at its word. */
#include "arguments.h"

#include "config/memory.h"

#include <errno.h>
#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES ((size_t)64 << 20)
#define JSON_FLAGS YYJSON_READ_NUMBER_AS_RAW
#define FAULTS_SHOWN 8u

/* ------------------------------------------------------------------------ reading */

static bool read_stream(FILE *file, const char *what, text *out) {
  char piece[65536];
  size_t len;
  while ((len = fread(piece, 1, sizeof piece, file)) > 0 && out->len <= INPUT_BYTES)
    text_put(out, piece, len);
  text_puts(out, "");
  if (!ferror(file) && out->len <= INPUT_BYTES) return true;
  call_say("%s: %s", what, ferror(file) ? strerror(errno) : "it is larger than 64 MiB");
  return false;
}

/* "-" is stdin. */
static bool read_file(const char *path, text *out) {
  if (strcmp(path, "-") == 0) return read_stream(stdin, "stdin", out);
  FILE *file = fopen(path, "re");
  if (!file) {
    call_say("%s: %s", path, strerror(errno));
    return false;
  }
  bool fine = read_stream(file, path, out);
  fclose(file);
  return fine;
}

static yyjson_doc *read_json(const text *from, const char *what, int what_len) {
  yyjson_read_err fault;
  yyjson_doc *doc = yyjson_read_opts(from->data, from->len, JSON_FLAGS, NULL, &fault);
  if (!doc) call_say("%.*s: this is no JSON: %s at byte %zu", what_len, what, fault.msg, fault.pos);
  return doc;
}

static bool read_base(call_arguments *self, const char *data) {
  if (!data) return true;
  if (*data == '@' || strcmp(data, "-") == 0) {
    if (!read_file(data + (*data == '@'), &self->base_text)) return false;
  } else {
    text_puts(&self->base_text, data);
  }
  return (self->base = read_json(&self->base_text, "-d", 2)) != NULL;
}

static bool read_word(given_argument *self, const char *word) {
  const char *equals = strchr(word, '=');
  bool json = equals > word && equals[-1] == ':';
  const char *value = equals + 1;
  self->name = word;
  self->name_len = (size_t)(equals - word) - json;
  if (*value == '@' && value[1]) {
    if (!read_file(value + 1, &self->value)) return false;
  } else {
    text_puts(&self->value, value);
  }
  if (json) self->json = read_json(&self->value, word, (int)self->name_len);
  return !json || self->json;
}

bool arguments_read(call_arguments *self, const call_options *options) {
  *self = (call_arguments){.items = NULL};
  if (!read_base(self, options->data)) return false;
  bool object = !self->base || yyjson_is_obj(yyjson_doc_get_root(self->base));
  if (!object && options->kind != CALL_METHOD && options->kind != CALL_NOTIFY) {
    call_say("-d: arguments are an object, {\"name\": value}");
    return false;
  }
  if (!options->value_count) return true;
  self->items = calloc((size_t)options->value_count, sizeof *self->items);
  if (!self->items) memory_exhausted();
  for (int i = 0; i < options->value_count; i++) {
    self->count++;
    if (!read_word(&self->items[i], options->values[i])) return false;
  }
  return true;
}

void arguments_free(call_arguments *self) {
  for (size_t i = 0; i < self->count; i++) {
    text_free(&self->items[i].value);
    yyjson_doc_free(self->items[i].json);
  }
  free(self->items);
  yyjson_doc_free(self->base);
  text_free(&self->base_text);
}

const given_argument *arguments_first(const call_arguments *self) { return self->items; }

/* ------------------------------------------------------------------------- making */

/* A name given several times is a list. */
static void put_text(yyjson_mut_doc *doc, yyjson_mut_val *object, const given_argument *one) {
  yyjson_mut_val *value = yyjson_mut_strn(doc, one->value.data, one->value.len);
  yyjson_mut_val *before = yyjson_mut_obj_getn(object, one->name, one->name_len);
  if (before && !yyjson_mut_is_arr(before)) {
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    yyjson_mut_arr_append(list, yyjson_mut_val_mut_copy(doc, before));
    yyjson_mut_arr_append(list, value);
    value = list;
  } else if (before) {
    yyjson_mut_arr_append(before, value);
    return;
  }
  yyjson_mut_obj_put(object, yyjson_mut_strn(doc, one->name, one->name_len), value);
}

/* The words, as the schema wants them. */
static yyjson_mut_val *shape_texts(const call_arguments *self, const idem_schema *schema,
                                   yyjson_mut_doc *doc) {
  yyjson_mut_val *texts = yyjson_mut_obj(doc), *shaped = NULL;
  for (size_t i = 0; i < self->count; i++)
    if (!self->items[i].json) put_text(doc, texts, &self->items[i]);
  if (!schema) return texts;
  yyjson_doc *plain = yyjson_mut_val_imut_copy(texts, NULL);
  idem_schema_shape shape = {.coerce = true};
  if (!plain) memory_exhausted();
  if (idem_schema_apply(schema, yyjson_doc_get_root(plain), &shape, doc, &shaped) != IDEM_OK)
    shaped = texts;
  yyjson_doc_free(plain);
  return shaped;
}

static void put_all(yyjson_mut_doc *doc, yyjson_mut_val *into, yyjson_mut_val *from) {
  yyjson_mut_obj_iter at;
  yyjson_mut_val *key;
  yyjson_mut_obj_iter_init(from, &at);
  while ((key = yyjson_mut_obj_iter_next(&at)))
    yyjson_mut_obj_put(into, yyjson_mut_val_mut_copy(doc, key),
                       yyjson_mut_val_mut_copy(doc, yyjson_mut_obj_iter_get_val(key)));
}

/* -d first, words over it. */
static yyjson_mut_val *join(const call_arguments *self, const idem_schema *schema,
                            yyjson_mut_doc *doc) {
  yyjson_mut_val *all = yyjson_mut_obj(doc);
  if (self->base) all = yyjson_val_mut_copy(doc, yyjson_doc_get_root(self->base));
  put_all(doc, all, shape_texts(self, schema, doc));
  for (size_t i = 0; i < self->count; i++) {
    const given_argument *one = &self->items[i];
    if (one->json)
      yyjson_mut_obj_put(all, yyjson_mut_strn(doc, one->name, one->name_len),
                         yyjson_val_mut_copy(doc, yyjson_doc_get_root(one->json)));
  }
  return all;
}

static void write_out(const yyjson_mut_val *value, text *out) {
  size_t len;
  char *made = yyjson_mut_val_write(value, 0, &len);
  if (!made) memory_exhausted();
  text_put(out, made, len);
  free(made);
}

/* ----------------------------------------------------------------------- checking */

/* A schema without "additionalProperties" lets any name pass; one letter off is meant otherwise. */
static bool names_are_known(const call_arguments *self, yyjson_val *value,
                            const idem_schema *schema, text *why) {
  yyjson_val *properties = yyjson_obj_get(value, "properties");
  for (size_t i = 0; i < self->count; i++) {
    const given_argument *one = &self->items[i];
    if (yyjson_obj_getn(properties, one->name, one->name_len)) continue;
    const char *near = idem_schema_suggest_property(schema, one->name, one->name_len);
    if (!near) continue;
    text_printf(why, "there is no argument %.*s; did you mean %s?\n", (int)one->name_len, one->name,
                near);
    return false;
  }
  return true;
}

static bool fits(const idem_schema *schema, const text *arguments, text *why) {
  idem_schema_ctx *ctx = NULL;
  idem_schema_result result = {.valid = false};
  idem_schema_check check = {.root_name = "arguments",
                             .all_errors = true,
                             .max_errors = FAULTS_SHOWN,
                             .show_values = true};
  if (idem_schema_ctx_new(NULL, &ctx) != IDEM_OK) memory_exhausted();
  idem_status status =
      idem_schema_validate_text(schema, ctx, arguments->data, arguments->len, &check, &result);
  for (size_t i = 0; i < result.error_count; i++)
    text_printf(why, "%s\n", result.errors[i].sentence);
  bool fine =
      result.valid || status == IDEM_E_LIMIT; /* its schema is too much work: let it judge */
  if (!fine && !result.error_count) text_puts(why, "the arguments cannot be checked\n");
  idem_schema_ctx_free(ctx);
  return fine;
}

/* A schema that cannot be honoured is the server's fault, and no reason not to ask it. */
static idem_schema *compile(yyjson_val *value, text *note) {
  idem_schema *schema = NULL;
  idem_schema_fault fault = {.sentence = ""};
  idem_schema_opts opts = {.assert_formats = false};
  if (!value || idem_schema_compile_value(&opts, value, &schema, &fault) == IDEM_OK) return schema;
  text_puts(note, "its input schema cannot be used, so values go as texts: ");
  text_escape_cut(note, fault.sentence, strlen(fault.sentence), 300);
  return NULL;
}

bool arguments_make(const call_arguments *self, yyjson_val *value, text *out, text *why,
                    text *note) {
  idem_schema *schema = compile(value, note);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  if (!doc) memory_exhausted();
  write_out(join(self, schema, doc), out);
  bool fine = !schema || (names_are_known(self, value, schema, why) && fits(schema, out, why));
  yyjson_mut_doc_free(doc);
  idem_schema_free(schema);
  return fine;
}

bool arguments_fit(yyjson_val *value, const text *arguments) {
  text why = {.data = NULL}, note = {.data = NULL};
  idem_schema *schema = compile(value, &note);
  bool fine = !schema || fits(schema, arguments, &why);
  idem_schema_free(schema);
  text_free(&note);
  text_free(&why);
  return fine;
}
