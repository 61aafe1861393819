/* test_base64.c - bytes come back as they were, and no text has a second spelling. */
#include "base/base.h"
#include "support/unit.h"

static void expect_both_ways(const char *bytes, size_t len, const char *text,
                             idem_base64_alphabet alphabet) {
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem_base64_encode(&out, bytes, len, alphabet), IDEM_OK);
  assert_int_equal(out.len, strlen(text));
  if (out.len) assert_memory_equal(out.data, text, out.len);
  out.len = 0;
  assert_int_equal(idem_base64_decode(&out, text, strlen(text), alphabet), IDEM_OK);
  assert_int_equal(out.len, len);
  if (len) assert_memory_equal(out.data, bytes, len);
  idem_buf_deinit(&out);
}
#define STANDARD(bytes, text) expect_both_ways(bytes, sizeof(bytes) - 1, text, IDEM_BASE64_STANDARD)
#define URL(bytes, text) expect_both_ways(bytes, sizeof(bytes) - 1, text, IDEM_BASE64_URL)

static void expect_refused(const char *text, size_t len, idem_base64_alphabet alphabet) {
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem_buf_puts(&out, "kept"), IDEM_OK);
  assert_int_equal(idem_base64_decode(&out, text, len, alphabet), IDEM_E_INVAL);
  assert_int_equal(out.len, 4);
  assert_memory_equal(out.data, "kept", 4);
  idem_buf_deinit(&out);
}
#define REFUSED(text) expect_refused(text, sizeof(text) - 1, IDEM_BASE64_STANDARD)
#define REFUSED_URL(text) expect_refused(text, sizeof(text) - 1, IDEM_BASE64_URL)

static void the_vectors_of_the_rfc_hold(void **state) {
  (void)state;
  STANDARD("", "");
  STANDARD("f", "Zg==");
  STANDARD("fo", "Zm8=");
  STANDARD("foo", "Zm9v");
  STANDARD("foob", "Zm9vYg==");
  STANDARD("fooba", "Zm9vYmE=");
  STANDARD("foobar", "Zm9vYmFy");
}

static void the_url_alphabet_is_not_padded(void **state) {
  (void)state;
  URL("", "");
  URL("f", "Zg");
  URL("fo", "Zm8");
  URL("foo", "Zm9v");
  URL("\xfb\xff\xbf", "-_-_");
  STANDARD("\xfb\xff\xbf", "+/+/");
  STANDARD("\0\0\0\0", "AAAAAA==");
}

static void every_byte_survives_at_every_offset(void **state) {
  (void)state;
  uint8_t bytes[259];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
  for (size_t len = 0; len <= sizeof bytes; len++) {
    for (int alphabet = IDEM_BASE64_STANDARD; alphabet <= IDEM_BASE64_URL; alphabet++) {
      idem_buf text, back;
      idem_buf_init(&text, NULL, 4096);
      idem_buf_init(&back, NULL, 4096);
      assert_int_equal(idem_base64_encode(&text, bytes, len, (idem_base64_alphabet)alphabet), 0);
      assert_int_equal(
          idem_base64_decode(&back, text.data, text.len, (idem_base64_alphabet)alphabet), 0);
      assert_int_equal(back.len, len);
      if (len) assert_memory_equal(back.data, bytes, len);
      idem_buf_deinit(&text);
      idem_buf_deinit(&back);
    }
  }
}

static void wrong_padding_is_refused(void **state) {
  (void)state;
  REFUSED("Zg");
  REFUSED("Zg=");
  REFUSED("Zg===");
  REFUSED("Zm8");
  REFUSED("Zm9v====");
  REFUSED("=");
  REFUSED("====");
  REFUSED("Z===");
  REFUSED("Zg==Zg==");
  REFUSED("Z=g=");
  REFUSED_URL("Zg==");
  REFUSED_URL("Zm8=");
  REFUSED_URL("Z");
  REFUSED_URL("Zm9vZ");
}

static void foreign_digits_are_refused(void **state) {
  (void)state;
  REFUSED("Zm9v\n");
  REFUSED("Zm 9");
  REFUSED("Zm-_");
  REFUSED("Zm\0v");
  REFUSED("Zm\xc3\xa9");
  REFUSED_URL("Zm+/");
  REFUSED_URL("Zm9 ");
}

static void bits_behind_the_last_byte_are_refused(void **state) {
  (void)state;
  REFUSED("Zh==");
  REFUSED("Zm9=");
  REFUSED_URL("Zh");
  REFUSED_URL("Zm9");
}

static void a_full_buffer_is_a_limit(void **state) {
  (void)state;
  idem_buf out;
  idem_buf_init(&out, NULL, 4);
  assert_int_equal(idem_base64_encode(&out, "four", 4, IDEM_BASE64_STANDARD), IDEM_E_LIMIT);
  assert_int_equal(out.len, 0);
  assert_int_equal(idem_base64_encode(&out, "foo", 3, IDEM_BASE64_STANDARD), IDEM_OK);
  assert_int_equal(idem_base64_decode(&out, "Zg==", 4, IDEM_BASE64_STANDARD), IDEM_E_LIMIT);
  idem_buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_vectors_of_the_rfc_hold),
      cmocka_unit_test(the_url_alphabet_is_not_padded),
      cmocka_unit_test(every_byte_survives_at_every_offset),
      cmocka_unit_test(wrong_padding_is_refused),
      cmocka_unit_test(foreign_digits_are_refused),
      cmocka_unit_test(bits_behind_the_last_byte_are_refused),
      cmocka_unit_test(a_full_buffer_is_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
