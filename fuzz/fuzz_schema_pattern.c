/* fuzz_schema_pattern.c - any bytes as a pattern and a text, on every matcher there is.
 * The first line is the pattern. Automata, with and without a table, must say what PCRE2 says,
 * wherever each comes to an answer within its steps, and take or refuse the same patterns. */
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/schema/pattern_help.h"

static bool is_utf8(const char *text, size_t len) {
  uint32_t code;
  for (const char *at = text; at < text + len;)
    if (!idem__next_code_point(&at, text + len, &code)) return false;
  return true;
}

/* A pattern may be too large for PCRE2 and not for us, or the other way round. */
static void compare(pattern_trio *trio, const char *text, size_t len) {
  bool compared;
  for (int kind = 0; kind < MATCHER_KINDS; kind++)
    if (trio->status[kind] != IDEM_OK) return;
  if (!trio_agrees(trio, text, len, &compared) && is_utf8(text, len)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *pattern = (const char *)data;
  const char *line = size ? memchr(data, '\n', size) : NULL;
  size_t len = line ? (size_t)(line - pattern) : size;
  if (len > 256 || size - len > 4096) return 0;
  pattern_trio trio;
  trio_init(&trio, pattern, len);
  bool mine = trio.status[BY_TABLE] == IDEM_OK && trio.status[BY_STATES] == IDEM_OK;
  if (mine != (trio.status[BY_PCRE2] == IDEM_OK)) abort();
  compare(&trio, line ? line + 1 : "", line ? size - len - 1 : 0);
  trio_deinit(&trio);
  return 0;
}
