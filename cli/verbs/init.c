/* init.c - the verb `init`: writes a commented file to start from, never over one that is there. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void help(void) {
  fputs("idem init - write a commented configuration to start from\n"
        "\n"
        "  idem init                 write idem.json here\n"
        "  idem init tools.json      write tools.json\n"
        "  idem serve --check        then see whether it is right\n"
        "  idem serve                and serve it\n"
        "\n"
        "usage: idem init [FILE]     a file that is there already is left as it is\n"
        "\n"
        "exit status: 0 written, 1 it could not be, 2 asked wrongly\n",
        stdout);
}

static int could_not(const char *path) {
  bool there = errno == EEXIST;
  fprintf(stderr, "idem init: %s: %s\n", path, strerror(errno));
  if (there) fputs("it is left as it is; another name: idem init FILE\n", stderr);
  return 1;
}

static int run(int argc, char **argv);
const verb init_verb = {"init", "write a commented idem.json to start from", help, run};

static int run(int argc, char **argv) {
  const char *path = argc ? argv[0] : "idem.json";
  if (argc > 1 || *path == '-')
    return usage_fault(&init_verb, argc > 1 ? "one file is enough" : "there is no flag",
                       argv[argc - 1]);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return could_not(path);
  FILE *file = fdopen(fd, "w");
  if (!file || fputs(embedded_starter_json, file) == EOF || fclose(file) != 0)
    return could_not(path);
  printf("wrote %s; serve it with: idem serve %s\n", path, path);
  return 0;
}
