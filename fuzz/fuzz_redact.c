/* fuzz_redact.c - whatever the text, a configured secret never comes out, whole or at a cut.
 * The first byte says how long the secret is, then come the secret and the text. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static void check(bool promise) {
  if (!promise) abort();
}

static bool contains(const idem_buf *buf, const idem_secret *secret) {
  for (size_t i = 0; i + secret->len <= buf->len; i++)
    if (memcmp(buf->data + i, secret->text, secret->len) == 0) return true;
  return false;
}

/* A secret that shares bytes with the mark could be made by the mark itself. */
static bool is_judged(const idem_secret *secret) {
  for (size_t i = 0; i < secret->len; i++)
    if (!strchr("[redacted]", secret->text[i]) || secret->text[i] == '\0')
      return !memchr(secret->text, '[', secret->len) && !memchr(secret->text, ']', secret->len);
  return false;
}

static void cut_at(size_t room, const char *text, size_t len, const idem_secret *secret) {
  char storage[256];
  idem_buf out;
  idem_buf_fixed(&out, storage, room);
  idem_redact_cut(&out, text, len, secret, secret ? 1 : 0, false);
  check(out.len <= room);
  check(!secret || !is_judged(secret) || !contains(&out, secret));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t secret_len = size ? data[0] % 16 : 0;
  if (size < 1 + secret_len) return 0;
  idem_secret secret = {(char *)(uintptr_t)(data + 1), secret_len};
  const char *text = (const char *)data + 1 + secret_len;
  size_t len = size - 1 - secret_len, secrets = secret_len >= 4 ? 1 : 0;
  idem_buf out;
  idem_buf_init(&out, NULL, 16 * size + 64);
  check(idem_redact(&out, text, len, &secret, secrets) == IDEM_OK);
  check(secrets == 0 || !is_judged(&secret) || !contains(&out, &secret));
  for (size_t room = 0; room <= 256; room += 32) cut_at(room, text, len, secrets ? &secret : NULL);
  idem_buf_deinit(&out);
  return 0;
}
