/* test_content_length.c - Content-Length framing, rule by rule (behaviour 4, 6 and 9).
 * Every exchange is played whole, byte by byte and at pseudo-random splits. */
#include "content_length.h"
#include "support/unit.h"

static const idem__frame_opts guarded = {
    .kind = IDEM__FRAME_CONTENT_LENGTH, .max_message = 20, .max_header = 128, .guard_http = true};

#define EXPECT_OPTS(opts, input, expected) frame_expect(&(opts), input, sizeof(input) - 1, expected)
#define EXPECT(input, expected) EXPECT_OPTS(plain, input, expected)

/* --------------------------------------------------------------------- good frames */

static void frames_follow_each_other(void **state) {
  (void)state;
  EXPECT("", "");
  EXPECT(GOOD "Content-Length: 3\r\n\r\n[1]", "message {}\nmessage [1]\n");
  EXPECT("Content-Length: 4\r\n\r\n\r\n\r\n" GOOD, "message \r\n\r\n\nmessage {}\n");
  EXPECT("Content-Length: 0\r\n\r\n" GOOD, "message \nmessage {}\n");
  EXPECT("Content-Length: 0\r\n\r\n", "message \n");
}

static void names_have_no_case_and_values_may_stand_between_blanks(void **state) {
  (void)state;
  EXPECT("CONTENT-LENGTH:2\r\n\r\n{}", "message {}\n");
  EXPECT("content-length: \t 2 \t \r\n\r\n{}", "message {}\n");
}

static void leading_zeros_are_fine(void **state) {
  (void)state;
  EXPECT("Content-Length: 0000000000000000000000000000002\r\n\r\n{}", "message {}\n");
}

static void headers_come_in_any_order_and_unknown_ones_are_ignored(void **state) {
  (void)state;
  EXPECT("X: y\r\nContent-Length: 2\r\nUser-Agent: me: too\r\nHost: h\r\n\r\n{}", "message {}\n");
  EXPECT("Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
         "message {}\n");
  EXPECT("no header at all\r\nContent-Length: 2\r\n\r\n{}", "message {}\n");
}

/* Leftovers on lines of their own do not hide the length that follows. */
static void lines_that_are_no_headers_are_ignored(void **state) {
  (void)state;
  EXPECT("Content-Length: 1\r\n\r\n[1]\r\n" GOOD, "message [\nmessage {}\n");
  EXPECT("Content-Length: 2\r\n{\r\n: x\r\n\r\n{}", "message {}\n");
}

static void equal_lengths_may_repeat(void **state) {
  (void)state;
  EXPECT("Content-Length: 2\r\ncontent-length: 02\r\n\r\n{}", "message {}\n");
}

/* Stricter than needed would only hurt people who write frames by hand. */
static void bare_line_feed_ends_a_header_line_too(void **state) {
  (void)state;
  EXPECT("Content-Length: 2\n\n{}" GOOD, "message {}\nmessage {}\n");
  EXPECT("Content-Length: x\n\nContent-Length: 2\n\n{}", "bad-length\nmessage {}\n");
}

/* ---------------------------------------------------------------------------- type */

#define TYPED(type) "Content-Type:" type "\r\nContent-Length: 2\r\n\r\n{}" GOOD

static void type_and_charset_are_read_leniently(void **state) {
  (void)state;
  static const char *const good = "message {}\nmessage {}\n";
  EXPECT(TYPED("application/vscode-jsonrpc"), good);
  EXPECT(TYPED(" Application/VSCode-JSONRPC;CHARSET=UTF-8 "), good);
  EXPECT(TYPED(" application/vscode-jsonrpc ; charset=\"utf-8\""), good);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset=utf8"), good);
  EXPECT(TYPED(" application/vscode-jsonrpc; v=1; charset = utf8 ; w=\";\\\"\" ;"), good);
  EXPECT(TYPED(" application/vscode-jsonrpc;; flag; charset=utf8;flag"), good);
}

static void another_type_is_refused_and_its_body_skipped(void **state) {
  (void)state;
  static const char *const bad = "bad-type\nmessage {}\n";
  EXPECT(TYPED(" application/json"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc2"), bad);
  EXPECT(TYPED(""), bad);
  EXPECT(TYPED(" ; charset=utf-8"), bad);
  EXPECT(TYPED(" text/plain; charset=latin1"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; a=\"b"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; a=\"b\" c"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; a=\"b\\"), bad);
  EXPECT(TYPED(" a/b\r\nContent-Type: application/vscode-jsonrpc"), bad);
}

static void another_charset_is_refused_and_its_body_skipped(void **state) {
  (void)state;
  static const char *const bad = "bad-charset\nmessage {}\n";
  EXPECT(TYPED(" application/vscode-jsonrpc; charset=latin1"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset=\"utf-8"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset="), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset; v=1"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset"), bad);
  EXPECT(TYPED(" application/vscode-jsonrpc; charset=utf-8; charset=utf-16"), bad);
}

static void refused_body_at_the_end_of_input_is_one_fault(void **state) {
  (void)state;
  EXPECT("Content-Length: 9\r\nContent-Type: a/b\r\n\r\n{}", "bad-type\n");
  EXPECT("Content-Length: 0\r\nContent-Type: a/b\r\n\r\n" GOOD, "bad-type\nmessage {}\n");
}

/* -------------------------------------------------------------------------- limits */

static void body_over_the_limit_is_reported_once_and_drained(void **state) {
  (void)state;
  EXPECT("Content-Length: 20\r\n\r\n01234567890123456789" GOOD,
         "message 01234567890123456789\nmessage {}\n");
  EXPECT("Content-Length: 21\r\n\r\n012345678901234567890" GOOD, "oversize\nmessage {}\n");
  EXPECT("Content-Length: 46\r\n\r\n" GOOD GOOD, "oversize\n");
}

static void huge_length_is_drained_until_the_end_of_input(void **state) {
  (void)state;
  EXPECT("Content-Length: 9223372036854775807\r\n\r\n" GOOD GOOD, "oversize\n");
}

static void section_of_exactly_the_limit_passes(void **state) {
  (void)state;
  const idem__frame_opts opts = {
      .kind = IDEM__FRAME_CONTENT_LENGTH, .max_message = 20, .max_header = 64};
  /* 19 + 43 + 2 = 64 bytes of header, then one more. */
  EXPECT_OPTS(opts, "Content-Length: 2\r\nX: 01234567890123456789012345678901234567\r\n\r\n{}",
              "message {}\n");
  EXPECT_OPTS(opts,
              "Content-Length: 2\r\nX: 012345678901234567890123456789012345678\r\n\r\n{}" GOOD,
              "header-too-large\nmessage {}\n");
}

static void section_over_the_limit_is_drained_with_its_body(void **state) {
  (void)state;
  static const char *const once = "header-too-large\nmessage {}\n";
  EXPECT("Content-Length: 2\r\nX: " PAD128 "\r\n\r\n[]" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: 2\r\n\r\n[]" GOOD, once);
  EXPECT("X: " PAD128 PAD128 "\r\nY: " PAD128 PAD128 "\r\nContent-Length: 2\r\n\r\n[]" GOOD, once);
  EXPECT("Content-Length: 2\r\nA: " PAD32 "\r\nB: " PAD32 "\r\nC: " PAD32 "\r\nD: " PAD32
         "\r\nE: x\r\n\r\n[]" GOOD,
         once);
  EXPECT("X: " PAD128 "\r\nAZaz09!#$%&'*+-.^_`|~: y\r\nContent-Length: 2\r\n\r\n[]" GOOD, once);
  EXPECT("X: Content-Length: 2\r\nX: " PAD128 "\r\n\r\n[]" GOOD, once);
  EXPECT("X: " PAD128 "\r\nX: Content-Length: 2\r\n\r\n[]" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: 2\r\nContent-Type: a/b\r\n\r\n[]" GOOD, once);
}

static void section_over_the_limit_without_a_length_is_damage(void **state) {
  (void)state;
  static const char *const once = "header-too-large\nmessage {}\n";
  EXPECT("X: " PAD128 "\r\n\r\njunk" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: -1\r\n\r\n" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: " PAD128 "\r\n\r\nabc" GOOD, once);
  EXPECT("X: " PAD128 "\r\nContent-Length: 0" PAD128 "000\r\n\r\nabc" GOOD, once);
  EXPECT("Content-Length: 000000" PAD32 PAD128 "\r\n\r\n" GOOD, once);
  EXPECT("X: " PAD128 PAD128, "header-too-large\n");
  EXPECT("X: " PAD128 "\r\nY:", "header-too-large\n");
}

/* Leftovers of a body much longer than announced are no header at all. */
static void junk_over_the_limit_recovers_at_the_next_length(void **state) {
  (void)state;
  static const char *const once = "header-too-large\nmessage {}\n";
  EXPECT(PAD128 PAD128 GOOD, once);
  EXPECT("\"a b\"" PAD128 "\r\n" GOOD, once);
  EXPECT("a b\r\n" PAD128 PAD128 GOOD, once);
  EXPECT("a b\r\n" PAD128 "\r\n\r\n" GOOD, once);
  /* The limit falls just behind the digits: the search must wait for the line end. */
  EXPECT("a b\r\n" PAD32 PAD32 PAD32 "0123456789" GOOD, once);
  EXPECT("X: " PAD128 "\r\nsome junk\r\n" GOOD, once);
  EXPECT("X: " PAD128 "\r\nsome junk" GOOD, once);
  EXPECT("X: " PAD128 "\r\n" PAD128 PAD128 GOOD, once);
  EXPECT("junk Content-Length: 2\r\nX: " PAD128 "\r\n\r\n[]" GOOD, once);
}

/* -------------------------------------------------------------------------- damage */

static void missing_length_recovers_at_the_next_one(void **state) {
  (void)state;
  static const char *const once = "missing-length\nmessage {}\n";
  EXPECT("X: y\r\n\r\n{\"a\":1}" GOOD, once);
  EXPECT("\r\n{\"a\":1}" GOOD, once);
  EXPECT("\r\n\r\n\r\n" GOOD, once);
  EXPECT("Content-Type: application/vscode-jsonrpc\r\n\r\n{}" GOOD, once);
  EXPECT("Content-Length : 7\r\n\r\n{}" GOOD, once);
  EXPECT("X: y\r\n\r\nlost", "missing-length\n");
}

#define BAD(value) "Content-Length:" value "\r\n\r\n{\"a\":1}" GOOD

static void unreadable_length_recovers_at_the_next_one(void **state) {
  (void)state;
  static const char *const once = "bad-length\nmessage {}\n";
  EXPECT(BAD(""), once);
  EXPECT(BAD(" "), once);
  EXPECT(BAD(" -2"), once);
  EXPECT(BAD(" +2"), once);
  EXPECT(BAD(" two"), once);
  EXPECT(BAD(" 2 2"), once);
  EXPECT(BAD(" 2x"), once);
  EXPECT(BAD(" 0x2"), once);
  EXPECT(BAD(" 2.0"), once);
  EXPECT(BAD(" 2, 2"), once);
  EXPECT(BAD(" 2\r"), once);
}

static void overflowing_length_is_bad(void **state) {
  (void)state;
  static const char *const once = "bad-length\nmessage {}\n";
  EXPECT(BAD(" 9223372036854775808"), once);
  EXPECT(BAD(" 18446744073709551615"), once);
  EXPECT(BAD(" 18446744073709551618"), once);
  EXPECT(BAD(" 99999999999999999999999999999999999999999"), once);
}

static void differing_lengths_are_bad(void **state) {
  (void)state;
  EXPECT("Content-Length: 2\r\nContent-Length: 3\r\n\r\n[1]" GOOD, "bad-length\nmessage {}\n");
  EXPECT("Content-Length: 2\r\nContent-Length: x\r\n\r\n[1]" GOOD, "bad-length\nmessage {}\n");
}

static void length_too_small_recovers_on_the_shared_line(void **state) {
  (void)state;
  EXPECT("Content-Length: 2\r\n\r\n[1,2]" GOOD GOOD,
         "message [1\nmissing-length\nmessage {}\nmessage {}\n");
  EXPECT("Content-Length: 0\r\n\r\na:b" GOOD, "message \nmissing-length\nmessage {}\n");
  EXPECT("Content-Length: 2\r\n\r\n{} X: y\r\nz" GOOD, "message {}\nmissing-length\nmessage {}\n");
  EXPECT("Content-Length: 2\r\n\r\n{} content-length:\t02 \r\nX: y\r\n\r\n[]",
         "message {}\nmissing-length\nmessage []\n");
}

static void recovered_header_keeps_its_own_type_and_limits(void **state) {
  (void)state;
  EXPECT("junk Content-Length: 2\r\nContent-Type: a/b\r\n\r\n[]" GOOD,
         "missing-length\nbad-type\nmessage {}\n");
  EXPECT("Content-Type: a/b\r\njunk Content-Length: 2\r\n\r\n[]" GOOD,
         "missing-length\nmessage []\nmessage {}\n");
  EXPECT("junk Content-Length: 21\r\n\r\n012345678901234567890" GOOD,
         "missing-length\noversize\nmessage {}\n");
  EXPECT("Content-Length: x\r\nContent-Length: 21\r\n\r\n012345678901234567890" GOOD,
         "bad-length\noversize\nmessage {}\n");
}

static void length_too_large_swallows_and_recovers(void **state) {
  (void)state;
  /* 4 bytes too many: the next frame loses its first letters and with them its length. */
  EXPECT("Content-Length: 6\r\n\r\n{}" GOOD GOOD, "message {}Cont\nmissing-length\nmessage {}\n");
}

static void one_error_per_damaged_region(void **state) {
  (void)state;
  EXPECT("Content-Length: x\r\n\r\nContent-Length: -1\r\n\r\nContent-Length: 99999999999999999999"
         "\r\n\r\nfoo\r\n\r\nbar\r\n\r\n" GOOD,
         "bad-length\nmessage {}\n");
  EXPECT("Content-Length: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabc" GOOD,
         "bad-length\nmessage {}\n");
  EXPECT("Content-Length: x\r\nContent-Length: 4\r\nX: " PAD128 "\r\n\r\nabcd" GOOD,
         "bad-length\nmessage {}\n");
  EXPECT("X: y\r\n\r\n" GOOD "X: y\r\n\r\n" GOOD,
         "missing-length\nmessage {}\nmissing-length\nmessage {}\n");
}

/* A length inside junk that is not followed by a header is junk too. */
static void false_recovery_is_left_again(void **state) {
  (void)state;
  EXPECT("Content-Length: x\r\n log: Content-Length: 9\r\n log: more\r\n" GOOD,
         "bad-length\nmessage {}\n");
  EXPECT("log: Content-Length: 9\r\n log more\r\n\r\n" GOOD, "missing-length\nmessage {}\n");
  EXPECT("log: Content-Length: 9\r\n log Content-Length: 2\r\n\r\n[]" GOOD,
         "missing-length\nmessage []\nmessage {}\n");
  EXPECT("x\r\n\r\nContent-Length: 9\r\n log Content-Length: 2\r\n\r\n[]" GOOD,
         "missing-length\nmessage []\nmessage {}\n");
}

static void search_sees_every_start_of_a_length(void **state) {
  (void)state;
  static const char *const once = "missing-length\nmessage {}\n";
  EXPECT("\r\nConContent-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Content-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length:Content-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length: 5Content-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length: 5 Content-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length: 5\rContent-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length: 5\r\r\nContent-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length: 5 6\r\nContent-Length: 2\r\n\r\n{}", once);
  EXPECT("\r\nContent-Length:\r\nContent-Length: 2\r\n\r\n{}", once);
}

static void end_of_input_inside_a_frame_is_truncated(void **state) {
  (void)state;
  EXPECT("C", "truncated\n");
  EXPECT("Content-Length: 2", "truncated\n");
  EXPECT("Content-Length: 2\r\n", "truncated\n");
  EXPECT("Content-Length: 2\r\n\r", "truncated\n");
  EXPECT("Content-Length: 2\r\n\r\n", "truncated\n");
  EXPECT(GOOD "Content-Length: 2\r\n\r\n{", "message {}\ntruncated\n");
  EXPECT("x\r\n\r\nContent-Length: 2\r\n", "missing-length\ntruncated\n");
}

/* --------------------------------------------------------------------------- guard */

static void http_request_ends_the_stream(void **state) {
  (void)state;
  EXPECT_OPTS(guarded, "POST / HTTP/1.1\r\nContent-Length: 22\r\n\r\n" GOOD, "http\n");
  EXPECT_OPTS(guarded, "GET / HTTP/1.1\n\n" GOOD, "http\n");
  EXPECT_OPTS(guarded, "POST /" PAD128 PAD128 " HTTP/1.1\r\n\r\n" GOOD, "http\n");
  EXPECT_OPTS(guarded, "\x16\x03\x01\n" GOOD, "http\n");
}

static void host_or_origin_in_a_frame_ends_the_stream(void **state) {
  (void)state;
  EXPECT_OPTS(guarded, GOOD "host: x\r\nContent-Length: 2\r\n\r\n{}", "message {}\nhttp\n");
  EXPECT_OPTS(guarded, "Content-Length: 2\r\nORIGIN:\r\n\r\n{}", "http\n");
  EXPECT_OPTS(guarded, "X: " PAD128 "\r\nOrigin: null\r\n\r\n" GOOD, "header-too-large\nhttp\n");
  EXPECT_OPTS(guarded, "X: " PAD128 "\r\nHost: " PAD128 "\r\n\r\n" GOOD,
              "header-too-large\nhttp\n");
}

static void guard_lets_frames_pass(void **state) {
  (void)state;
  EXPECT_OPTS(guarded, GOOD "GET / HTTP/1.1\r\n\r\n" GOOD,
              "message {}\nmissing-length\nmessage {}\n");
  EXPECT_OPTS(guarded, "X: " PAD128 "\r\n\r\n" GOOD, "header-too-large\nmessage {}\n");
  EXPECT_OPTS(guarded, "X: " PAD128 "\r\nGET / HTTP/1.1\r\n" GOOD,
              "header-too-large\nmessage {}\n");
  EXPECT_OPTS(guarded, "X: y\r\nGET / HTTP/1.1\r\n" GOOD, "message {}\n");
}

static void without_guard_browser_headers_are_unknown_headers(void **state) {
  (void)state;
  EXPECT("Host: x\r\nOrigin: y\r\nContent-Length: 2\r\n\r\n{}", "message {}\n");
  EXPECT("GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "message {}\n");
}

/* -------------------------------------------------------------------------- output */

static void output_puts_the_length_first(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf out;
  idem_buf_init(&out, &alloc, 64);
  static const char expected[] =
      "Content-Length: 0\r\n\r\nContent-Length: 18446744073709551615\r\n\r\n";
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_CONTENT_LENGTH, &out, 0), IDEM_OK);
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_CONTENT_LENGTH, &out, SIZE_MAX), IDEM_OK);
  assert_int_equal(idem__frame_put_tail(IDEM__FRAME_CONTENT_LENGTH, &out), IDEM_OK);
  assert_int_equal(out.len, sizeof expected - 1);
  assert_memory_equal(out.data, expected, out.len);
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_CONTENT_LENGTH, &out, 1), IDEM_E_LIMIT);
  idem_buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_follow_each_other),
      cmocka_unit_test(names_have_no_case_and_values_may_stand_between_blanks),
      cmocka_unit_test(leading_zeros_are_fine),
      cmocka_unit_test(headers_come_in_any_order_and_unknown_ones_are_ignored),
      cmocka_unit_test(lines_that_are_no_headers_are_ignored),
      cmocka_unit_test(equal_lengths_may_repeat),
      cmocka_unit_test(bare_line_feed_ends_a_header_line_too),
      cmocka_unit_test(type_and_charset_are_read_leniently),
      cmocka_unit_test(another_type_is_refused_and_its_body_skipped),
      cmocka_unit_test(another_charset_is_refused_and_its_body_skipped),
      cmocka_unit_test(refused_body_at_the_end_of_input_is_one_fault),
      cmocka_unit_test(body_over_the_limit_is_reported_once_and_drained),
      cmocka_unit_test(huge_length_is_drained_until_the_end_of_input),
      cmocka_unit_test(section_of_exactly_the_limit_passes),
      cmocka_unit_test(section_over_the_limit_is_drained_with_its_body),
      cmocka_unit_test(section_over_the_limit_without_a_length_is_damage),
      cmocka_unit_test(junk_over_the_limit_recovers_at_the_next_length),
      cmocka_unit_test(missing_length_recovers_at_the_next_one),
      cmocka_unit_test(unreadable_length_recovers_at_the_next_one),
      cmocka_unit_test(overflowing_length_is_bad),
      cmocka_unit_test(differing_lengths_are_bad),
      cmocka_unit_test(length_too_small_recovers_on_the_shared_line),
      cmocka_unit_test(recovered_header_keeps_its_own_type_and_limits),
      cmocka_unit_test(length_too_large_swallows_and_recovers),
      cmocka_unit_test(one_error_per_damaged_region),
      cmocka_unit_test(false_recovery_is_left_again),
      cmocka_unit_test(search_sees_every_start_of_a_length),
      cmocka_unit_test(end_of_input_inside_a_frame_is_truncated),
      cmocka_unit_test(http_request_ends_the_stream),
      cmocka_unit_test(host_or_origin_in_a_frame_ends_the_stream),
      cmocka_unit_test(guard_lets_frames_pass),
      cmocka_unit_test(without_guard_browser_headers_are_unknown_headers),
      cmocka_unit_test(output_puts_the_length_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
