/* list.c - the verb `list`: what a configuration serves, without serving it. */
#include "cli.h"
#include "service/service.h"
#include "welcome.h"

#include <stdio.h>

static void help(void) {
  fputs("idem list - say what a configuration serves, without serving it\n"
        "\n"
        "  idem list                 what idem.json of this folder serves: tools, resources and\n"
        "                            prompts, what keeps programs in bounds, how to try a tool,\n"
        "                            and the lines for an assistant's settings\n"
        "  idem list tools.json      another file\n"
        "\n"
        "usage: idem list [FILE]\n"
        "\n"
        "exit status: 0 told, 1 the file has faults, 2 asked wrongly\n",
        stdout);
}

static int run(int argc, char **argv);
const verb list_verb = {"list", "say what idem.json serves, without serving it", help, run};

static int print(edition *read, const char *path) {
  program_host programs;
  program_host_init(&programs, NULL, NULL);
  bool fine = edition_open(read, &programs);
  if (fine) welcome(stdout, read, path, NULL);
  program_host_end(&programs);
  return !fine;
}

static int run(int argc, char **argv) {
  const char *path = argc ? argv[0] : "idem.json";
  if (argc > 1 || *path == '-')
    return usage_fault(&list_verb, argc > 1 ? "one file is enough" : "there is no flag",
                       argv[argc - 1]);
  source_files files = {.count = 0};
  edition *read = edition_read(path, NULL, &files, (edition_use){.inputs = true});
  int code = read ? print(read, path) : 1;
  if (read) edition_free(read);
  source_files_clear(&files);
  return code;
}
