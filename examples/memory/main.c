/* main.c - idem-memory: what an assistant should not forget, in one SQLite file.
 * Options, the place of the file, and the end. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct options {
  const char *url;
  char path[4096];
} options;

/* ---------------------------------------------------------------------------- help */

static void print_help(const char *path) {
  char program[4096];
  ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  snprintf(program + (len > 0 ? len : 0), sizeof program - (size_t)(len > 0 ? len : 0), "%s",
           len > 0 ? "" : "idem-memory");
  printf(
      "usage: idem-memory [--listen URL] [DATABASE]\n\n"
      "A memory for assistants: an MCP server with the tools remember, recall, forget and list.\n"
      "Memories are kept in DATABASE, a SQLite file that is made when it is missing:\n"
      "  %s\n"
      "URL is where to serve: stdio: (the default), unix:/path or tcp://127.0.0.1:PORT.\n\n"
      "For an assistant's configuration:\n"
      "{\n  \"mcpServers\": {\n    \"memory\": {\n      \"command\": \"%s\",\n"
      "      \"args\": [\"%s\"]\n    }\n  }\n}\n",
      path, program, path);
}

/* ------------------------------------------------------------------------- the file */

static bool default_path(char *path, size_t size) {
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int len = -1;
  if (data && data[0] == '/')
    len = snprintf(path, size, "%s/idem/memory.db", data);
  else if (home && home[0] == '/')
    len = snprintf(path, size, "%s/.local/share/idem/memory.db", home);
  return len > 0 && (size_t)len < size;
}

/* The folders above the file, for us alone. What cannot be made shows when the file is opened. */
static void make_folders(char *path) {
  for (char *at = path + 1; (at = strchr(at, '/')); at++) {
    *at = '\0';
    mkdir(path, 0700);
    *at = '/';
  }
}

/* -------------------------------------------------------------------------- options */

/* -1: go on; else the exit code. */
static int read_options(int argc, char **argv, options *out) {
  bool help = false;
  out->url = "stdio:";
  const char *path = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
      help = true;
    else if (strcmp(argv[i], "--listen") == 0 && i + 1 < argc)
      out->url = argv[++i];
    else if (argv[i][0] == '-' || path || !argv[i][0])
      return fprintf(stderr, "idem-memory: what is %s? See --help.\n", argv[i]) < 0 ? 1 : 2;
    else
      path = argv[i];
  }
  bool fits = path ? (size_t)snprintf(out->path, sizeof out->path, "%s", path) < sizeof out->path
                   : default_path(out->path, sizeof out->path);
  if (!fits) {
    fputs("idem-memory: name the database, neither XDG_DATA_HOME nor HOME says where\n", stderr);
    return 2;
  }
  if (help) print_help(out->path);
  if (!help && !path) make_folders(out->path);
  return help ? 0 : -1;
}

static int serve(const options *given, store *memory_store) {
  idem_server *server;
  idem_server_opts opts = {
      .name = "idem-memory",
      .title = "Memory",
      .version = "1.0.0",
      .cache_private = true,
      .instructions = "Call recall before you answer what may depend on earlier conversations, and "
                      "remember what the user will want you to know next time."};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  int code = 1;
  if (memory_serve(server, memory_store)) {
    code = idem_run(&given->url, 1, &(idem_serve_opts){.server = server});
  }
  idem_server_free(server);
  return code;
}

int main(int argc, char **argv) {
  static options given;
  char why[256];
  store *memory_store;
  int code = read_options(argc, argv, &given);
  if (code >= 0) return code;
  if (strcmp(given.url, "stdio:") == 0 &&
      fcntl(STDOUT_FILENO, F_GETFD) < 0) { /* SQLite would put /dev/null there */
    fputs("idem-memory: stdout is closed: there is nowhere to answer\n", stderr);
    return 1;
  }
  umask(077); /* memories are the user's own */
  if (store_open(given.path, &memory_store, why, sizeof why) != IDEM_OK) {
    fprintf(stderr, "idem-memory: %s: %s\n", given.path, why);
    return 1;
  }
  code = serve(&given, memory_store);
  store_close(memory_store);
  return code;
}
