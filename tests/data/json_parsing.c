/* json_parsing.c - plays a suite of JSON texts as messages: what must be refused is a parse error with
 * id null, what must be accepted is anything else. The suite is not part of the repository: it is
 * looked for in the folder IDEM_TEST_DATA names, or in ../shared/data beside the project. Its absence
 * fails where CI=true and is a skip that says so elsewhere. */
#include <dirent.h>
#include <idem/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static const char parse_error[] =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}";

typedef struct text {
  char *data;
  size_t len;
} text;

static void put(text *out, const void *data, size_t len) {
  out->data = realloc(out->data, out->len + len + 1);
  if (!out->data) abort();
  memcpy(out->data + out->len, data, len);
  out->len += len;
  out->data[out->len] = 0;
}

static text read_file(const char *folder, const char *name) {
  char path[4096], piece[65536];
  text all = {0};
  put(&all, "", 0);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t got;
  while ((got = fread(piece, 1, sizeof piece, file)) > 0) put(&all, piece, got);
  fclose(file);
  return all;
}

/* Everything the conn sends for one message, and for a second, good one behind it. */
static text answers_to(const text *message, idem_framing framing) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = framing;
  idem_conn *conn;
  idem_conn_opts opts = {.policy = &policy};
  text out = {0};
  put(&out, "", 0);
  if (idem_conn_new(&opts, &conn) != IDEM_OK) abort();
  if (framing == IDEM_FRAMING_CONTENT_LENGTH) {
    char head[64];
    int len = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", message->len);
    idem_conn_feed(conn, head, (size_t)len);
  }
  idem_conn_feed(conn, message->data, message->len);
  idem_conn_feed_eof(conn);
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) {
    put(&out, chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
  idem_conn_free(conn);
  return out;
}

static bool judge(char kind, const text *out, idem_framing framing) {
  char wanted[256];
  int len = framing == IDEM_FRAMING_WHOLE
                ? snprintf(wanted, sizeof wanted, "%s", parse_error)
                : snprintf(wanted, sizeof wanted, "Content-Length: %zu\r\n\r\n%s",
                           sizeof parse_error - 1, parse_error);
  bool refused = out->len == (size_t)len && strcmp(out->data, wanted) == 0;
  if (kind == 'n') return refused;
  return !strstr(out->data, "-32700");
}

static bool play(const char *folder, const char *name) {
  text message = read_file(folder, name);
  bool good = true;
  for (int i = 0; i < 2; i++) {
    idem_framing framing = i ? IDEM_FRAMING_WHOLE : IDEM_FRAMING_CONTENT_LENGTH;
    text out = answers_to(&message, framing);
    /* i_ may be either, but must be one of them and end well. */
    if (name[0] != 'i' && !judge(name[0], &out, framing)) {
      fprintf(stderr, "%s (%s): %.300s\n", name, i ? "whole" : "content-length", out.data);
      good = false;
    }
    free(out.data);
  }
  free(message.data);
  return good;
}

static DIR *open_suite(char *folder, size_t size) {
  const char *data = getenv("IDEM_TEST_DATA");
  snprintf(folder, size, "%s/json-parsing/test_parsing",
           data ? data : IDEM_SOURCE_DIR "/../shared/data");
  return opendir(folder);
}

static int absent(const char *folder) {
  const char *ci = getenv("CI");
  fprintf(stderr,
          "THE JSON PARSING SUITE WAS NOT PLAYED: %s is not there.\n"
          "Set IDEM_TEST_DATA to the folder that holds json-parsing/test_parsing.\n",
          folder);
  return ci && strcmp(ci, "true") == 0 ? 1 : SKIPPED;
}

int main(void) {
  char folder[3072];
  DIR *suite = open_suite(folder, sizeof folder);
  if (!suite) return absent(folder);
  size_t played[3] = {0}, bad = 0;
  const struct dirent *entry;
  while ((entry = readdir(suite))) {
    const char *kinds = "yni", *kind = strchr(kinds, entry->d_name[0]);
    if (!kind || !*kind || entry->d_name[1] != '_') continue;
    played[kind - kinds]++;
    if (!play(folder, entry->d_name)) bad++;
  }
  closedir(suite);
  printf("json parsing: %zu accepted, %zu refused, %zu either; %zu wrong\n", played[0], played[1],
         played[2], bad);
  return bad || !played[0] || !played[1] ? 1 : 0;
}
