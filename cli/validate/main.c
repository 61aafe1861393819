/* main.c - idem-validate: judges JSON files by a JSON Schema.
 * Exit 0 when all are valid, 1 when one is not, 2 for a bad schema or usage. */
#include "validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "idem-validate - check JSON files against a JSON Schema\n"
    "\n"
    "usage: idem-validate [options] SCHEMA [INSTANCE ...]\n"
    "       idem-validate [options] --suite DIR ...\n"
    "\n"
    "SCHEMA is a JSON Schema of draft 2020-12 or draft-07, told apart by $schema. Each INSTANCE\n"
    "is a JSON file, - for standard input. Without an INSTANCE only the schema is checked.\n"
    "Nothing is fetched: references reach registered documents only.\n"
    "\n"
    "options:\n"
    "  --draft 2020-12|7     the dialect of schemas that name none (default 2020-12)\n"
    "  --format-assertion    strings must have the `format` that the schema gives them\n"
    "  --register URI=FILE   make FILE reachable as URI; may be repeated\n"
    "  --json                one JSON line per instance\n"
    "  --quiet               no output, only the exit status\n"
    "  --first               stop at the first error of each instance\n"
    "  --max-errors N        errors shown per instance (default 64)\n"
    "  --show-values         quote the offending values\n"
    "  --name NAME           what sentences call the whole value (default `value`)\n"
    "  --suite DIR           run test suite files, print what failed and `N passed, N failed`;\n"
    "                        folders named optional are left out unless DIR names one\n"
    "  --optional            --suite enters folders named optional too\n"
    "  --remotes DIR         --suite: documents served as http://localhost:1234/ (default: the\n"
    "                        folder `remotes` near DIR)\n"
    "  --help, --version\n"
    "\n"
    "exit status:\n"
    "  0  every instance is valid (or the schema is good, or the suite passed)\n"
    "  1  an instance is invalid or got no verdict; its errors are printed\n"
    "  2  bad schema, bad usage or no room to write; the reason is on standard error\n"
    "\n"
    "examples:\n"
    "  idem-validate tool.schema.json call.json\n"
    "  echo '{\"count\":0}' | idem-validate --json --name arguments schema.json -\n"
    "  idem-validate --register https://example.com/common.json=common.json main.json data.json\n";

static int usage(const char *problem, const char *what) {
  fprintf(stderr, "idem-validate: %s%s%s\n(idem-validate --help lists the options)\n", problem,
          what ? " " : "", what ? what : "");
  return EXIT_USAGE;
}

static bool set_draft(settings *s, const char *text) {
  s->draft_given = true;
  if (!strcmp(text, "2020-12") || !strcmp(text, "2020"))
    s->compile.draft = IDEM_SCHEMA_DRAFT_2020_12;
  else if (!strcmp(text, "7") || !strcmp(text, "07") || !strcmp(text, "draft-07"))
    s->compile.draft = IDEM_SCHEMA_DRAFT_07;
  else
    return false;
  return true;
}

/* URI=FILE, split at the last '=': a URI may hold others. */
static bool register_document(settings *s, const char *text) {
  const char *equals = strrchr(text, '=');
  if (!equals || equals == text || !equals[1]) return false;
  char *uri = strndup(text, (size_t)(equals - text));
  size_t len;
  char *document = uri ? read_file(equals + 1, &len) : NULL;
  idem_status status =
      document ? idem_schema_registry_add(s->registry, uri, document, len) : IDEM_E_SYS;
  if (document && status != IDEM_OK)
    fprintf(stderr, "idem-validate: %s: %s\n", text,
            status == IDEM_E_INVAL ? "not JSON" : idem_status_text(status));
  free(document);
  free(uri);
  return status == IDEM_OK;
}

/* What the command line asked for beyond settings. */
typedef struct request {
  char **suites;
  int suite_count;
  char **files;
  int file_count;
} request;

typedef enum parsed { PARSED, PARSED_HELP, PARSED_BAD } parsed;

static parsed parse_flag(settings *s, const char *arg) {
  if (!strcmp(arg, "--format-assertion"))
    s->compile.assert_formats = true;
  else if (!strcmp(arg, "--json"))
    s->json = true;
  else if (!strcmp(arg, "--quiet"))
    s->quiet = true;
  else if (!strcmp(arg, "--first"))
    s->check.all_errors = false;
  else if (!strcmp(arg, "--show-values"))
    s->check.show_values = true;
  else if (!strcmp(arg, "--optional"))
    s->optional = true;
  else
    return PARSED_BAD;
  return PARSED;
}

static parsed parse_valued(settings *s, request *q, const char *arg, char *value) {
  if (!strcmp(arg, "--draft")) return set_draft(s, value) ? PARSED : PARSED_BAD;
  if (!strcmp(arg, "--register")) return register_document(s, value) ? PARSED : PARSED_BAD;
  if (!strcmp(arg, "--suite")) q->suites[q->suite_count++] = value;
  if (!strcmp(arg, "--remotes")) s->remotes = value;
  if (!strcmp(arg, "--name")) s->check.root_name = value;
  if (!strcmp(arg, "--max-errors")) {
    char *end;
    unsigned long count = strtoul(value, &end, 10);
    if (*end || count == 0 || count > 1000000) return PARSED_BAD;
    s->check.max_errors = (uint32_t)count;
  }
  return PARSED;
}

static bool takes_value(const char *arg) {
  static const char *const names[] = {"--draft",   "--register", "--suite",
                                      "--remotes", "--name",     "--max-errors"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(arg, names[i])) return true;
  return false;
}

static int parse_arguments(settings *s, request *q, int argc, char **argv) {
  bool options = true;
  for (int i = 1; i < argc; i++) {
    char *arg = argv[i];
    char *equals = strncmp(arg, "--", 2) ? NULL : strchr(arg, '=');
    if (!options || arg[0] != '-' || !arg[1]) {
      q->files[q->file_count++] = arg;
    } else if (!strcmp(arg, "--")) {
      options = false;
    } else if (takes_value(arg)) {
      if (i + 1 == argc) return usage("a value is missing after", arg);
      char *value = argv[++i];
      if (parse_valued(s, q, arg, value) != PARSED) return usage("cannot use the value", value);
    } else if (equals) {
      *equals = 0;
      if (!takes_value(arg)) return usage("unknown option", arg);
      if (parse_valued(s, q, arg, equals + 1) != PARSED)
        return usage("cannot use the value", equals + 1);
    } else if (parse_flag(s, arg) != PARSED) {
      return usage("unknown option", arg);
    }
  }
  return EXIT_VALID;
}

static int run_suites(settings *s, const request *q) {
  size_t passed = 0, failed = 0;
  for (int i = 0; i < q->suite_count; i++)
    if (!run_suite(s, q->suites[i], &passed, &failed)) return EXIT_USAGE;
  printf("%zu passed, %zu failed\n", passed, failed);
  if (passed + failed == 0) {
    fprintf(stderr, "idem-validate: no suite cases found\n");
    return EXIT_USAGE;
  }
  return failed ? EXIT_INVALID : EXIT_VALID;
}

static int judge(settings *s, const idem_schema *schema, idem_schema_ctx *ctx, const char *path) {
  size_t len;
  char *text = read_file(path, &len);
  if (!text) return EXIT_USAGE;
  idem_schema_result result;
  idem_status status = idem_schema_validate_text(schema, ctx, text, len, &s->check, &result);
  print_result(s, path, status, &result);
  free(text);
  return status == IDEM_OK && result.valid ? EXIT_VALID : EXIT_INVALID;
}

static int judge_all(settings *s, const request *q) {
  if (q->file_count == 0) return usage("which schema?", NULL);
  size_t len;
  char *text = read_file(q->files[0], &len);
  if (!text) return EXIT_USAGE;
  idem_schema *schema;
  idem_schema_fault fault;
  idem_schema_ctx *ctx = NULL;
  idem_status status = idem_schema_compile(&s->compile, text, len, &schema, &fault);
  free(text);
  if (status != IDEM_OK) {
    fprintf(stderr, "idem-validate: %s: bad schema: %s\n", q->files[0], fault.sentence);
    return EXIT_USAGE;
  }
  int worst = idem_schema_ctx_new(NULL, &ctx) == IDEM_OK ? EXIT_VALID : EXIT_USAGE;
  for (int i = 1; i < q->file_count && ctx; i++) {
    int one = judge(s, schema, ctx, q->files[i]);
    if (one > worst) worst = one;
  }
  idem_schema_ctx_free(ctx);
  idem_schema_free(schema);
  return worst;
}

static int run(int argc, char **argv) {
  settings s = {.check.all_errors = true};
  if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    fputs(help, stdout);
    return EXIT_VALID;
  }
  if (argc == 2 && !strcmp(argv[1], "--version")) {
    printf("idem-validate %s\n", idem_version());
    return EXIT_VALID;
  }
  request q = {.suites = calloc((size_t)argc, sizeof(char *)),
               .files = calloc((size_t)argc, sizeof(char *))};
  if (!q.suites || !q.files || idem_schema_registry_new(NULL, &s.registry) != IDEM_OK) abort();
  s.compile.registry = s.registry;
  int result = parse_arguments(&s, &q, argc, argv);
  if (result == EXIT_VALID) result = q.suite_count ? run_suites(&s, &q) : judge_all(&s, &q);
  idem_schema_registry_free(s.registry);
  free(q.suites);
  free(q.files);
  return result;
}

/* What did not reach its reader was not said. */
int main(int argc, char **argv) {
  int result = run(argc, argv);
  if (fflush(stdout) == 0 && !ferror(stdout)) return result;
  fprintf(stderr, "idem-validate: cannot write to stdout: %s\n", strerror(errno));
  return EXIT_USAGE;
}
