/* main.c - idem: finds the verb in a table and runs it.
 * A new verb is a file of its own and a row here. See docs/internals/cli.md. */
#include "cli.h"

#include <idem/base.h>
#include <idem/schema.h>
#include <stdio.h>
#include <string.h>

static const verb *const verbs[] = {&serve_verb, &init_verb};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void print_overview(FILE *stream) {
  fputs("idem - programs, files and databases as tools of the Model Context Protocol\n"
        "\n"
        "  idem init                 write a commented idem.json to start from\n"
        "  idem serve idem.json      serve it\n"
        "\n"
        "verbs:\n",
        stream);
  for (size_t i = 0; i < VERB_COUNT; i++)
    fprintf(stream, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
  fputs("  help [VERB]  this text, or a verb's own\n"
        "\n"
        "idem --version prints the version.\n",
        stream);
}

static const verb *find_verb(const char *name) {
  for (size_t i = 0; i < VERB_COUNT; i++)
    if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
  return NULL;
}

static int unknown_verb(const char *name) {
  const char *names[VERB_COUNT];
  for (size_t i = 0; i < VERB_COUNT; i++) names[i] = verbs[i]->name;
  const char *near = idem_schema_suggest(name, strlen(name), names, VERB_COUNT);
  fprintf(stderr, "idem: there is no verb %s", name);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\ntry: idem help\n", stderr);
  return 2;
}

int usage_fault(const verb *asked, const char *what, const char *about) {
  fprintf(stderr, "idem %s: %s: %s\ntry: idem help %s\n", asked->name, what, about, asked->name);
  return 2;
}

static int help(const char *name) {
  if (!name) return print_overview(stdout), 0;
  const verb *asked = find_verb(name);
  if (!asked) return unknown_verb(name);
  fputs(asked->help, stdout);
  return 0;
}

static bool is_one_of(const char *word, const char *one, const char *other) {
  return strcmp(word, one) == 0 || strcmp(word, other) == 0;
}

int main(int argc, char **argv) {
  if (argc < 2) return print_overview(stderr), 2;
  if (is_one_of(argv[1], "help", "--help")) return help(argc > 2 ? argv[2] : NULL);
  if (is_one_of(argv[1], "--version", "-V")) return printf("idem %s\n", idem_version()), 0;
  const verb *asked = find_verb(argv[1]);
  if (!asked) return unknown_verb(argv[1]);
  for (int i = 2; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0) return help(asked->name);
  return asked->run(argc - 2, argv + 2);
}
