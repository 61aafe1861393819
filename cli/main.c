/* main.c - idem: finds the verb in a table and runs it.
 * A new verb is a file of its own and a row here. See docs/internals/cli.md. */
#include "call/words.h"
#include "cli.h"
#include "program/spawner.h"
#include "verbs/words.h"

#include <errno.h>
#include <idem/base.h>
#include <idem/schema.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const verb *const verbs[] = {&serve_verb, &call_verb, &init_verb, &list_verb, &page_verb};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void print_overview(FILE *stream) {
  fputs("idem - programs, files and databases as tools for assistants (Model Context Protocol)\n"
        "\n"
        "  idem init                 write a commented idem.json to start from\n"
        "  idem serve --check        say what is wrong with it, if anything\n"
        "  idem serve                serve it at http://127.0.0.1:8420/mcp\n"
        "  idem call idem.json       see what it serves, as an assistant does; call its tools\n"
        "\n"
        "verbs:\n",
        stream);
  for (size_t i = 0; i < VERB_COUNT; i++)
    fprintf(stream, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
  fputs("  help [VERB]  this text, or a verb's own, with examples and every flag\n"
        "  version      which idem this is; so does --version\n"
        "\n"
        "exit status: 0 well, 1 it failed, 2 asked wrongly (idem help call has more)\n",
        stream);
}

static const verb *find_verb(const char *name) {
  for (size_t i = 0; i < VERB_COUNT; i++)
    if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
  return NULL;
}

static int unknown_verb(const char *name) {
  const char *names[VERB_COUNT + 2] = {"help", "version"};
  static const char *const flags[] = {"--help", "--version"};
  for (size_t i = 0; i < VERB_COUNT; i++) names[i + 2] = verbs[i]->name;
  bool flag = *name == '-';
  const char *near = idem_schema_suggest(name, strlen(name), flag ? flags : names,
                                         flag ? sizeof flags / sizeof *flags : VERB_COUNT + 2);
  fprintf(stderr, "idem: there is no %s %s", flag ? "flag" : "verb", name);
  if (near) fprintf(stderr, "; did you mean %s?", near);
  fputs("\ntry: idem help\n", stderr);
  return 2;
}

int usage_fault(const verb *asked, const char *what, const char *about) {
  fprintf(stderr, "idem %s: %s: %s\ntry: idem help %s\n", asked->name, what, about, asked->name);
  return 2;
}

static bool is_one_of(const char *word, const char *const *words) {
  while (*words && strcmp(word, *words) != 0) words++;
  return *words;
}

static const char *const help_words[] = {"help", "--help", "-h", NULL};
static const char *const version_words[] = {"version", "--version", "-V", NULL};

static int help(const char *name) {
  if (!name || is_one_of(name, help_words) || is_one_of(name, version_words))
    return print_overview(stdout), 0;
  const verb *asked = find_verb(name);
  if (!asked) return unknown_verb(name);
  asked->help();
  return 0;
}

static int run_verb(int argc, char **argv) {
  if (argc < 2) return print_overview(stderr), 2;
  if (is_one_of(argv[1], help_words)) return help(argc > 2 ? argv[2] : NULL);
  if (is_one_of(argv[1], version_words)) return printf("idem %s\n", idem_version()), 0;
  if (strcmp(argv[1], SPAWNER_ARGUMENT) == 0) return spawner_main();
  if (strcmp(argv[1], WORDS_ARGUMENT) == 0) return words_print(argc - 2, argv + 2);
  if (strcmp(argv[1], CALL_WORDS_ARGUMENT) == 0) return call_words(argc - 2, argv + 2);
  const verb *asked = find_verb(argv[1]);
  if (!asked) return unknown_verb(argv[1]);
  for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (is_one_of(argv[i], help_words + 1)) return help(asked->name);
  signal(SIGCHLD, SIG_DFL); /* ignored by who started us, it would hide how our children end */
  return asked->run(argc - 2, argv + 2);
}

/* What did not reach its reader was not done: a full disk, a closed pipe. */
int main(int argc, char **argv) {
  int code = run_verb(argc, argv);
  if (fflush(stdout) == 0 && !ferror(stdout)) return code;
  fprintf(stderr, "idem: cannot write to stdout: %s\n", strerror(errno));
  return code ? code : 1;
}
