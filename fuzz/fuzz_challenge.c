/* fuzz_challenge.c - WWW-Authenticate of anybody. What is understood of it, written down and read again, is the same; a header that was
 * refused has not harmed what an earlier one said. */
#include "auth/auth.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

static void put_quoted(idem_buf *out, const char *name, const char *text) {
  if (!text) return;
  MUST(idem_buf_printf(out, ", %s=\"", name) == IDEM_OK);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') MUST(idem_buf_puts(out, "\\") == IDEM_OK);
    MUST(idem_buf_put(out, text, 1) == IDEM_OK);
  }
  MUST(idem_buf_puts(out, "\"") == IDEM_OK);
}

static bool same(const char *one, const char *other) {
  return one && other ? strcmp(one, other) == 0 : one == other;
}

static void read_again(const idem_alloc *alloc, const idem__auth_challenge *was) {
  idem__auth_challenge now = {.bearer = false};
  idem_buf header;
  idem_buf_init(&header, NULL, 1 << 20);
  MUST(idem_buf_puts(&header, "Bearer realm=\"x\"") == IDEM_OK);
  put_quoted(&header, "Resource_Metadata", was->resource_metadata);
  put_quoted(&header, "scope", was->scope);
  put_quoted(&header, "ERROR", was->error);
  if (header.len <= 8192) {
    MUST(idem__auth_challenge_read(alloc, header.data, header.len, &now) == IDEM_OK);
    MUST(now.bearer && same(now.resource_metadata, was->resource_metadata) &&
         same(now.scope, was->scope) && same(now.error, was->error));
  }
  idem__auth_challenge_deinit(alloc, &now);
  idem_buf_deinit(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char first[] = "Bearer scope=\"kept\"";
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__auth_challenge challenge = {.bearer = false}, second = {.bearer = false};
  (void)idem__auth_challenge_read(&alloc, (const char *)data, size, &challenge);
  read_again(&alloc, &challenge);
  MUST(idem__auth_challenge_read(&alloc, first, sizeof first - 1, &second) == IDEM_OK);
  (void)idem__auth_challenge_read(&alloc, (const char *)data, size, &second);
  MUST(second.bearer && same(second.scope, "kept"));
  idem__auth_challenge_deinit(&alloc, &challenge);
  idem__auth_challenge_deinit(&alloc, &second);
  return 0;
}
