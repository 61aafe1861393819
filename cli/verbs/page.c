/* page.c - the verb `page`: the page of `idem serve` as one file that shows recordings, without a server. */
#include "cli.h"
#include "page/viewer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void help(void) {
  fputs("idem page - write a page that shows recordings, without a server\n"
        "\n"
        "  idem page -o viewer.html  one file: open it in a browser, drop a recording on it\n"
        "  idem page >viewer.html    the same\n"
        "\n"
        "The page of a running server is at its own address: see idem help serve.\n"
        "\n"
        "usage: idem page [-o FILE]\n"
        "\n"
        "exit status: 0 written, 1 it could not be, 2 asked wrongly\n",
        stdout);
}

static int run(int argc, char **argv);
const verb page_verb = {"page", "write a page that shows recordings", help, run};

static int could_not(const char *path) {
  fprintf(stderr, "idem page: %s: %s\n", path, strerror(errno));
  return 1;
}

static int write_to(const char *path, const idem_buf *text) {
  FILE *file = path ? fopen(path, "we") : stdout;
  if (!file) return could_not(path);
  bool whole = fwrite(text->data, 1, text->len, file) == text->len;
  if (path && fclose(file) != 0) whole = false;
  return whole ? 0 : could_not(path ? path : "stdout");
}

static int run(int argc, char **argv) {
  bool named = argc == 2 && (strcmp(argv[0], "-o") == 0 || strcmp(argv[0], "--output") == 0);
  if (argc && !named)
    return usage_fault(&page_verb, argc > 2 ? "one file is enough" : "it wants -o FILE",
                       argv[argc - 1]);
  idem_buf text;
  idem_buf_init(&text, NULL, (size_t)8 << 20);
  int code = viewer_put(&text) == IDEM_OK ? write_to(named ? argv[1] : NULL, &text) : 1;
  idem_buf_deinit(&text);
  return code;
}
