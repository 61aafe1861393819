/* cli.h - the verbs of the program `idem`: one file and one row each.
 * A verb gets the words after its name and returns the exit status: 0 well, 1 it failed, 2 it was
 * asked wrongly; `call` has more. */
#ifndef IDEM_CLI_H
#define IDEM_CLI_H

#include <stdbool.h>
#include <stddef.h>

typedef struct verb {
  const char *name;
  const char *summary;
  void (*help)(void); /* to stdout; examples first */
  int (*run)(int argc, char **argv);
} verb;

extern const verb serve_verb;
extern const verb init_verb;
extern const verb list_verb;
extern const verb call_verb;
extern const verb page_verb;

/* Says on stderr what cannot be understood and where help is; returns 2. */
int usage_fault(const verb *asked, const char *what, const char *about);

/* Files that are part of the program, NUL-terminated (cmake/programs.cmake makes them). */
extern const char embedded_idem_schema_json[];
extern const char embedded_starter_json[];

#endif
