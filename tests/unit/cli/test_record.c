/* test_record.c - a recording is lines of JSON, whatever was said: messages as they stood, secrets out, nothing that breaks a line. */
#include "support/unit.h"

#include "page/record.h"

static void no_line(void *ctx, const char *line, size_t len) {
  (void)ctx;
  (void)line;
  (void)len;
}

/* The record of one message; lent until the next. */
static const char *recorded(idem_direction direction, bool serves, const char *text, size_t len) {
  static char storage[256 * 1024];
  idem_buf out, scratch;
  idem_log *log = NULL;
  assert_int_equal(idem_log_new(&(idem_log_opts){.write = no_line}, &log), IDEM_OK);
  assert_int_equal(idem_log_add_secret(log, "open-sesame", 11), IDEM_OK);
  idem_buf_fixed(&out, storage, sizeof storage - 1);
  idem_buf_init(&scratch, NULL, RECORD_MESSAGE_MOST * 2);
  idem_traced message = {direction, text, len, 3, "tcp \"x\"", serves};
  assert_int_equal(record_put_message(&out, 17, &message, log, &scratch), IDEM_OK);
  idem_buf_deinit(&scratch);
  idem_log_free(log);
  storage[out.len] = 0;
  assert_ptr_equal(strchr(storage, '\n'), storage + out.len - 1);
  return storage;
}

static void expect(const char *text, const char *message) {
  char wanted[1024];
  snprintf(wanted, sizeof wanted,
           "{\"t\":17,\"conn\":3,\"dir\":\">\",\"bytes\":%zu,\"peer\":\"tcp "
           "\\\"x\\\"\",\"message\":%s}\n",
           strlen(text), message);
  assert_string_equal(recorded(IDEM_IN, true, text, strlen(text)), wanted);
}

static void a_message_stands_as_it_came(void **state) {
  (void)state;
  expect("{\"id\": 1.0, \"n\":123456789012345678901234567890}",
         "{\"id\": 1.0, \"n\":123456789012345678901234567890}");
}

static void line_ends_are_taken_out_and_numbers_stay(void **state) {
  (void)state;
  expect("{\"id\":\n 1.0,\r\n\"n\":1e400}\n", "{\"id\":1.0,\"n\":1e400}");
}

static void what_is_no_json_is_a_string(void **state) {
  (void)state;
  expect("GET / HTTP/1.1\r\n", "\"GET / HTTP/1.1\\r\\n\"");
  expect("", "\"\"");
}

static void secrets_are_taken_out(void **state) {
  (void)state;
  expect("{\"a\":\"open-sesame\",\"password\":\"x\",\"h\":\"Bearer abcdefgh\"}",
         "{\"a\":\"[redacted]\",\"password\":\"[redacted]\",\"h\":\"Bearer [redacted]\"}");
}

static void directions_are_to_and_from_the_server(void **state) {
  (void)state;
  assert_non_null(strstr(recorded(IDEM_OUT, true, "1", 1), "\"dir\":\"<\""));
  assert_non_null(strstr(recorded(IDEM_OUT, false, "1", 1), "\"dir\":\">\""));
  assert_non_null(strstr(recorded(IDEM_IN, false, "1", 1), "\"dir\":\"<\""));
}

static void a_long_message_is_cut_and_says_so(void **state) {
  (void)state;
  static char text[RECORD_MESSAGE_MOST + 1];
  memset(text, 'x', sizeof text);
  const char *line = recorded(IDEM_IN, true, text, sizeof text);
  assert_true(strlen(line) < 8192);
  assert_non_null(strstr(line, "xxx\",\"cut\":true}\n"));
  assert_non_null(strstr(line, "\"bytes\":65537"));
}

/* Half a line would spoil the rest of the recording. */
static void what_does_not_fit_leaves_nothing(void **state) {
  (void)state;
  char storage[64];
  idem_buf out, scratch;
  idem_buf_fixed(&out, storage, sizeof storage);
  idem_buf_init(&scratch, NULL, 1024);
  idem_traced message = {IDEM_IN, "{\"id\":1}", 8, 1, "a peer with a long name", true};
  assert_int_equal(record_put_message(&out, 17, &message, NULL, &scratch), IDEM_E_LIMIT);
  assert_int_equal(out.len, 0);
  assert_int_equal(record_put_log(&out, 17, storage, 60), IDEM_E_LIMIT);
  assert_int_equal(out.len, 0);
  idem_buf_deinit(&scratch);
}

static void the_other_lines_are_json_too(void **state) {
  (void)state;
  char storage[1024];
  idem_buf out;
  idem_buf_fixed(&out, storage, sizeof storage);
  sample taken = {.wall_us = 9, .requests = 4, .memory = 1u << 20};
  assert_int_equal(record_put_header(&out, 8), IDEM_OK);
  assert_int_equal(record_put_log(&out, 8, "{\"severity\":\"warn\"}\n", 20), IDEM_OK);
  assert_int_equal(record_put_sample(&out, &taken), IDEM_OK);
  assert_int_equal(record_put_lost(&out, 10, 3), IDEM_OK);
  storage[out.len] = 0;
  size_t lines = 0;
  for (char *line = strtok(storage, "\n"); line; line = strtok(NULL, "\n"), lines++) {
    yyjson_doc *doc = yyjson_read(line, strlen(line), 0);
    assert_non_null(doc);
    yyjson_doc_free(doc);
  }
  assert_int_equal(lines, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_stands_as_it_came),
      cmocka_unit_test(line_ends_are_taken_out_and_numbers_stay),
      cmocka_unit_test(what_is_no_json_is_a_string),
      cmocka_unit_test(secrets_are_taken_out),
      cmocka_unit_test(directions_are_to_and_from_the_server),
      cmocka_unit_test(a_long_message_is_cut_and_says_so),
      cmocka_unit_test(what_does_not_fit_leaves_nothing),
      cmocka_unit_test(the_other_lines_are_json_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
