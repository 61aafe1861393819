/* test_sha256.c - digests against published vectors, at any split of the input. */
#include "../../../src/base/base.h"
#include "../../support/unit.h"

#include <stdio.h>
#include <string.h>

static void hex(const uint8_t *bytes, size_t len, char *out) {
  for (size_t i = 0; i < len; i++) snprintf(out + i * 2, 3, "%02x", bytes[i]);
}

static void assert_sha256(const char *text, size_t len, size_t piece, const char *expected) {
  uint8_t digest[IDEM_SHA256_BYTES];
  char shown[65];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  for (size_t at = 0; at < len; at += piece) {
    idem_sha256_add(&sha, text + at, len - at < piece ? len - at : piece);
  }
  idem_sha256_end(&sha, digest);
  hex(digest, sizeof digest, shown);
  assert_string_equal(shown, expected);
}

static void digests_match_published_vectors(void **state) {
  (void)state;
  static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  assert_sha256("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_sha256("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (size_t piece = 1; piece <= 56; piece++) {
    assert_sha256(two_blocks, 56, piece,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
}

/* RFC 4231 case 1, its 20-byte key padded with zeros as HMAC does. */
static void tags_match_published_vectors(void **state) {
  (void)state;
  uint8_t key[32] = {0}, tag[32];
  char shown[65];
  idem__hmac hmac;
  memset(key, 0x0b, 20);
  idem__hmac_init(&hmac, key);
  idem__hmac_add(&hmac, "Hi ", 3);
  idem__hmac_add(&hmac, "There", 5);
  idem__hmac_end(&hmac, tag);
  hex(tag, sizeof tag, shown);
  assert_string_equal(shown, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

static void secrets_compare_by_every_byte(void **state) {
  (void)state;
  assert_true(idem__equal_secret("abcd", "abcd", 4));
  assert_false(idem__equal_secret("abcd", "abce", 4));
  assert_false(idem__equal_secret("abcd", "bbcd", 4));
  assert_true(idem__equal_secret("a", "b", 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(digests_match_published_vectors),
      cmocka_unit_test(tags_match_published_vectors),
      cmocka_unit_test(secrets_compare_by_every_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
