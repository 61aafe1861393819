/* init.c - the verb `init`: writes a commented file to start from, never over one that is there. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "idem init - write a commented configuration to start from\n"
    "\n"
    "  idem init                 write idem.json here\n"
    "  idem init tools.json      write tools.json\n"
    "  idem serve                then serve it\n"
    "\n"
    "usage: idem init [FILE]     a file that is there already is left as it is\n";

static int could_not(const char *path) {
  fprintf(stderr, "idem init: %s: %s\n", path, strerror(errno));
  return 1;
}

static int run(int argc, char **argv);
const verb init_verb = {"init", "write a commented idem.json to start from", help_text, run};

static int run(int argc, char **argv) {
  const char *path = argc ? argv[0] : "idem.json";
  if (argc > 1 || *path == '-') return usage_fault(&init_verb, "cannot use", argv[argc - 1]);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return could_not(path);
  FILE *file = fdopen(fd, "w");
  if (!file || fputs(embedded_starter_json, file) == EOF || fclose(file) != 0)
    return could_not(path);
  printf("wrote %s; serve it with: idem serve %s\n", path, path);
  return 0;
}
