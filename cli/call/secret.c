/* secret.c - see secret.h. What is wrong is said by the reference, never by what it leads to. */
#include "secret.h"
#include "call.h"

#include "config/regular_file.h"
#include "config/secret_command.h"

#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 64u

static const char *refuse(const char *what, const char *why) {
  call_say("%s: %s", what, why);
  return NULL;
}

/* ----------------------------------------------------------------------- commands */

static void split(char *words, const char **argv) {
  size_t count = 0;
  char *rest;
  for (char *word = strtok_r(words, " \t", &rest); word && count + 1 < MOST_WORDS;
       word = strtok_r(NULL, " \t", &rest))
    argv[count++] = word;
  argv[count] = NULL;
}

const char *secret_of_command(config_memory *memory, const char *flag, const char *words) {
  const char *argv[MOST_WORDS];
  char why[256] = "there is no command";
  char *copy = memory_text(memory, words, strlen(words));
  char *output = memory_zeroed(memory, SECRET_BYTES + 1, 1);
  size_t len = 0;
  split(copy, argv);
  if (!argv[0] || !secret_command(argv, ".", output, &len, why, sizeof why))
    return refuse(flag, why);
  output[strcspn(output, "\r\n")] = 0;
  return *output ? output : refuse(flag, "the command printed nothing");
}

/* ---------------------------------------------------------------------- references */

static const char *from_environment(config_memory *memory, const char *name) {
  const char *value = getenv(name);
  (void)memory;
  return value && *value ? value : refuse(name, "the environment has no such variable");
}

static const char *read_file(config_memory *memory, const char *path) {
  const char *why = "there is nothing in it";
  FILE *file = regular_file_open_secret(path, &why);
  char *held = memory_zeroed(memory, SECRET_BYTES + 1, 1);
  size_t len = file ? fread(held, 1, SECRET_BYTES, file) : 0;
  if (file) fclose(file);
  if (!len || memchr(held, 0, len)) return refuse(path, why);
  return held;
}

static const char *from_file(config_memory *memory, const char *path) {
  const char *held = read_file(memory, path);
  return held ? memory_text(memory, held, strcspn(held, "\r\n")) : NULL;
}

static const char *from_command(config_memory *memory, const char *words) {
  return secret_of_command(memory, "--client", words);
}

static const struct reference {
  const char *mark;
  const char *(*read)(config_memory *memory, const char *words);
  bool key;
} references[] = {{":env:", from_environment, false},
                  {":file:", from_file, false},
                  {":command:", from_command, false},
                  {":key:", read_file, true},
                  {":none", NULL, false}};
#define REFERENCES (sizeof references / sizeof *references)

/* Where it begins in `given`, or NULL. */
static const char *find_reference(const char *given, const struct reference **kind) {
  for (size_t i = 0; i < REFERENCES; i++) {
    const char *at = strstr(given, references[i].mark);
    bool ends = at && !at[strlen(references[i].mark)];
    if (!at || at == given || (references[i].read ? ends : !ends)) continue;
    *kind = &references[i];
    return at;
  }
  return NULL;
}

/* An id with a colon in it is nearly always one with its secret, which everybody has seen by now. */
static bool is_id(const char *given) {
  return !strchr(given, ':') || strncmp(given, "https://", 8) == 0 ||
         strncmp(given, "http://", 7) == 0 || strncmp(given, "urn:", 4) == 0;
}

const char *secret_client_id(config_memory *memory, const char *given) {
  const struct reference *kind;
  const char *at = find_reference(given, &kind);
  if (at) return memory_text(memory, given, (size_t)(at - given));
  if (is_id(given)) return given;
  return refuse("--client", "a secret is given by reference: ID:env:NAME, ID:file:PATH, "
                            "ID:command:WORDS or ID:key:PATH; an id with a colon ends with :none");
}

bool secret_client(config_memory *memory, const char *given, call_client *out) {
  const struct reference *kind = NULL;
  const char *at = find_reference(given, &kind);
  *out = (call_client){.id = secret_client_id(memory, given)};
  if (!out->id || !at || !kind->read) return out->id;
  const char *held = kind->read(memory, at + strlen(kind->mark));
  if (kind->key)
    out->key = held;
  else
    out->secret = held;
  return held && *held;
}

bool secret_client_is_document(const call_client *client) {
  return client->id && strncmp(client->id, "https://", 8) == 0 && !client->secret && !client->key;
}
