/* limit.c - the least a server on stdio could do: read, parse, write, nothing else.
 * One blocking read, every whole line in it answered by yyjson with a pool and an envelope built by
 * hand, one write. It has no limits, no errors and no other work: what bench/stdio compares with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#define INPUT_SIZE ((size_t)1 << 17)
#define POOL_SIZE ((size_t)1 << 20)

static char input[INPUT_SIZE], output[4 * INPUT_SIZE];
static char read_pool[POOL_SIZE], write_pool[POOL_SIZE];

static char *put(char *at, const char *text, size_t len) {
  memcpy(at, text, len);
  return at + len;
}

static char *answer(char *at, char *line, size_t len) {
  yyjson_alc read_alc, write_alc;
  size_t n;
  yyjson_alc_pool_init(&read_alc, read_pool, sizeof read_pool);
  yyjson_alc_pool_init(&write_alc, write_pool, sizeof write_pool);
  yyjson_doc *doc = yyjson_read_opts(line, len, 0, &read_alc, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  if (!yyjson_equals_str(yyjson_obj_get(root, "jsonrpc"), "2.0")) exit(1);
  yyjson_val *method = yyjson_obj_get(root, "method");
  if (!yyjson_equals_str(method, "echo") && !yyjson_equals_str(method, "tools/call")) exit(1);
  at = put(at, "{\"jsonrpc\":\"2.0\",\"id\":", 22);
  const char *text = yyjson_val_write_opts(yyjson_obj_get(root, "id"), 0, &write_alc, &n, NULL);
  at = put(at, text, n);
  at = put(at, ",\"result\":", 10);
  text = yyjson_val_write_opts(yyjson_obj_get(root, "params"), 0, &write_alc, &n, NULL);
  at = put(at, text, n);
  return put(at, "}\n", 2);
}

static void send_all(const char *data, size_t len) {
  while (len) {
    ssize_t n = write(1, data, len);
    if (n <= 0) exit(0);
    data += n;
    len -= (size_t)n;
  }
}

int main(void) {
  size_t held = 0;
  for (;;) {
    ssize_t n = read(0, input + held, sizeof input - held);
    if (n <= 0) return 0;
    held += (size_t)n;
    char *line = input, *end, *at = output;
    while ((end = memchr(line, '\n', held - (size_t)(line - input)))) {
      at = answer(at, line, (size_t)(end - line));
      line = end + 1;
    }
    send_all(output, (size_t)(at - output));
    held -= (size_t)(line - input);
    memmove(input, line, held);
  }
}
