/* print.c - reads files and prints verdicts, for people or as JSON lines. */
#include "validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)

static char *read_stream(FILE *file, const char *path, size_t *len) {
  size_t capacity = 65536, used = 0;
  char *text = malloc(capacity);
  while (text) {
    used += fread(text + used, 1, capacity - used, file);
    if (used < capacity) break;
    if (capacity >= MAX_FILE) {
      fprintf(stderr, "idem-validate: %s: larger than 256 MiB\n", path);
      free(text);
      return NULL;
    }
    capacity *= 2;
    char *grown = realloc(text, capacity);
    if (!grown) free(text);
    text = grown;
  }
  if (!text) fprintf(stderr, "idem-validate: %s: no memory\n", path);
  *len = used;
  return text;
}

char *read_file(const char *path, size_t *len) {
  bool standard = strcmp(path, "-") == 0;
  FILE *file = standard ? stdin : fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "idem-validate: %s: %s\n", path, strerror(errno));
    return NULL;
  }
  char *text = read_stream(file, path, len);
  if (text && ferror(file)) {
    fprintf(stderr, "idem-validate: %s: %s\n", path, strerror(errno));
    free(text);
    text = NULL;
  }
  if (!standard) fclose(file);
  return text;
}

void print_json_string(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c, out);
  }
  fputc('"', out);
}

static void print_member(const char *name, const char *text, const char *after) {
  printf("\"%s\":", name);
  print_json_string(stdout, text);
  fputs(after, stdout);
}

static void print_json(const char *name, idem_status status, const idem_schema_result *result) {
  printf("{");
  print_member("instance", name, ",");
  if (status == IDEM_E_LIMIT) print_member("limit", result->limit ? result->limit : "", ",");
  printf("\"valid\":%s,\"truncated\":%s,\"errors\":[", result->valid ? "true" : "false",
         result->truncated ? "true" : "false");
  for (size_t i = 0; i < result->error_count; i++) {
    const idem_schema_error *e = &result->errors[i];
    printf("%s{", i ? "," : "");
    print_member("instancePath", e->instance_path, ",");
    print_member("schemaPath", e->schema_path, ",");
    print_member("keyword", e->keyword, ",");
    print_member("expected", e->expected, ",");
    print_member("received", e->received, ",");
    print_member("sentence", e->sentence, "}");
  }
  printf("]}\n");
}

void print_result(const settings *s, const char *name, idem_status status,
                  const idem_schema_result *result) {
  if (s->json) {
    print_json(name, status, result);
    return;
  }
  if (s->quiet) return;
  if (status == IDEM_E_LIMIT)
    printf("%s: no verdict: the bound %s was reached\n", name, result->limit);
  else if (status == IDEM_E_NOMEM)
    printf("%s: no verdict: no memory\n", name);
  else
    printf("%s: %s\n", name, result->valid ? "valid" : "invalid");
  for (size_t i = 0; i < result->error_count; i++)
    printf("  %s  (%s)\n", result->errors[i].sentence, result->errors[i].schema_path);
  if (result->truncated) printf("  ... and more (--max-errors)\n");
}
