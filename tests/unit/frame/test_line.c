/* test_line.c - line framing, rule by rule (behaviour 1, 6 and 9).
 * Every exchange is played whole, byte by byte and at pseudo-random splits. */
#include "support/frame_play.h"
#include "support/unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const idem__frame_opts plain = {.kind = IDEM__FRAME_LINE, .max_message = 10};
static const idem__frame_opts guarded = {
    .kind = IDEM__FRAME_LINE, .max_message = 64, .guard_http = true};

#define EXPECT(opts, input, expected) frame_expect(&(opts), input, sizeof(input) - 1, expected)

static void line_feed_ends_a_message(void **state) {
  (void)state;
  EXPECT(plain, "{\"a\":1}\n[2]\n", "message {\"a\":1}\nmessage [2]\n");
  EXPECT(plain, "a\0b\n", "message a\\0b\n");
}

static void empty_input_gives_nothing(void **state) {
  (void)state;
  EXPECT(plain, "", "");
}

static void one_carriage_return_before_the_line_feed_is_dropped(void **state) {
  (void)state;
  EXPECT(plain, "{}\r\n", "message {}\n");
  EXPECT(plain, "{}\r\r\n", "message {}\r\n");
  EXPECT(plain, "{\r}\n", "message {\r}\n");
}

static void lines_of_blanks_are_skipped(void **state) {
  (void)state;
  EXPECT(plain, "\n\r\n \n\t\r\n \r \r\n{}\n\n", "message {}\n");
  EXPECT(plain, "  \t", "");
  EXPECT(plain, "\r", "");
}

static void line_of_blanks_past_the_limit_is_still_skipped(void **state) {
  (void)state;
  EXPECT(plain, "                    \n{}\n", "message {}\n");
  EXPECT(plain, "                    \r\n{}\n", "message {}\n");
  EXPECT(plain, "                    ", "");
}

static void unterminated_last_line_is_a_message(void **state) {
  (void)state;
  EXPECT(plain, "{}\n[1]", "message {}\nmessage [1]\n");
  EXPECT(plain, "[1]\r", "message [1]\n");
}

static void limit_counts_the_message_without_its_line_end(void **state) {
  (void)state;
  EXPECT(plain, "0123456789\n", "message 0123456789\n");
  EXPECT(plain, "0123456789\r\n", "message 0123456789\n");
  EXPECT(plain, "0123456789", "message 0123456789\n");
  EXPECT(plain, "0123456789\r", "message 0123456789\n");
  EXPECT(plain, "01234567890\n", "oversize\n");
  EXPECT(plain, "01234567890\r\n", "oversize\n");
  EXPECT(plain, "0123456789\r\r\n", "oversize\n");
  EXPECT(plain, "0123456789\r1\n", "oversize\n");
  EXPECT(plain, "01234567890", "oversize\n");
}

static void oversize_line_is_reported_once_and_the_next_line_is_fine(void **state) {
  (void)state;
  EXPECT(plain, "{}\n0123456789012345678901234567890123456789\n[1]\n",
         "message {}\noversize\nmessage [1]\n");
  EXPECT(plain, "012345678901\n012345678901\r\n[1]", "oversize\noversize\nmessage [1]\n");
  EXPECT(plain, "               x              \n{}\n", "oversize\nmessage {}\n");
  EXPECT(plain, "               x", "oversize\n");
}

static void no_limit_is_too_large_to_state(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = SIZE_MAX};
  EXPECT(opts, "{}\r\n[1]", "message {}\nmessage [1]\n");
}

static void nothing_fits_a_limit_of_zero(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 0};
  EXPECT(opts, "\r\n\n1\n ", "oversize\n");
}

static void http_request_line_ends_the_stream(void **state) {
  (void)state;
  EXPECT(guarded, "POST / HTTP/1.1\r\nHost: a\r\n\r\n{\"method\":\"x\"}\n", "http\n");
  EXPECT(guarded, "GET /a b HTTP/1.0\n{}\n", "http\n");
  EXPECT(guarded, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http\n");
  EXPECT(guarded, "\r\n\r\nM-SEARCH * HTTP/1.1\r\n\r\n{}\n", "http\n");
  EXPECT(guarded, "OPTIONS / HTTP/1.1", "http\n");
  EXPECT(guarded, "GET / HTTP/\n", "http\n");
}

static void tls_handshake_ends_the_stream(void **state) {
  (void)state;
  EXPECT(guarded, "\x16\x03\x01\n{}\n", "http\n");
}

static void overlong_request_line_does_not_pass_the_guard(void **state) {
  (void)state;
  const idem__frame_opts tight = {.kind = IDEM__FRAME_LINE, .max_message = 3, .guard_http = true};
  EXPECT(guarded,
         "POST /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n"
         "\r\n{}\n",
         "http\n");
  EXPECT(guarded, "\x16                                                                        \n",
         "http\n");
  EXPECT(tight, "POST / HTTP/1.1\r\n\r\n{}\n", "http\n");
  EXPECT(tight, "{\"a\":1}\n{}\n", "oversize\nmessage {}\n");
}

static void guard_looks_at_the_first_line_only(void **state) {
  (void)state;
  static const idem__frame_opts tight = {
      .kind = IDEM__FRAME_LINE, .max_message = 14, .guard_http = true};
  EXPECT(guarded, "{}\nGET / HTTP/1.1\n", "message {}\nmessage GET / HTTP/1.1\n");
  EXPECT(tight, "{               }\nGET / HTTP/1.1\n", "oversize\nmessage GET / HTTP/1.1\n");
  EXPECT(tight, "                {}\nGET / HTTP/1.1\n", "oversize\nmessage GET / HTTP/1.1\n");
}

static void guard_lets_messages_and_junk_pass(void **state) {
  (void)state;
  EXPECT(guarded, "[1] x HTTP/1.1\n", "message [1] x HTTP/1.1\n");
  EXPECT(guarded, " x HTTP/1.1\n", "message  x HTTP/1.1\n");
  EXPECT(guarded, "GET\n", "message GET\n");
  EXPECT(guarded, "GET /\n", "message GET /\n");
  EXPECT(guarded, "GET HTTP/1.1\n", "message GET HTTP/1.1\n");
  EXPECT(guarded, "GET / HTTPS\n", "message GET / HTTPS\n");
  EXPECT(guarded, "GET / \n", "message GET / \n");
  EXPECT(guarded, "GET:/ x HTTP/1.1\n", "message GET:/ x HTTP/1.1\n");
}

static void without_guard_a_request_line_is_a_message(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 64};
  EXPECT(opts, "GET / HTTP/1.1\n", "message GET / HTTP/1.1\n");
}

/* -------------------------------------------------------------- memory and time */

static void message_inside_one_piece_is_lent_in_place(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  fault_alloc_fail_from(&hand.fault, 1);
  const char input[] = "{}\r\n[1]\n";
  idem__framer_feed(&hand.framer, input, sizeof input - 1);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_ptr_equal(hand.framer.data, input);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_ptr_equal(hand.framer.data, input + 4);
  assert_int_equal(hand.framer.len, 3);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  assert_int_equal(hand.fault.calls, 0);
  frame_hand_close(&hand);
}

static void draining_holds_nothing(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 1000};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  frame_hand_expect_draining(&hand);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_close(&hand);
}

/* An allocator of one block of pages, so that pages already held can be made untouchable. */
enum { PAGES = 64 };
static void *pages_realloc(void *ctx, void *ptr, size_t old_size, size_t size) {
  (void)ptr, (void)old_size;
  return size <= PAGES * (size_t)sysconf(_SC_PAGESIZE) ? *(void **)ctx : NULL;
}
static void *pages_malloc(void *ctx, size_t size) { return pages_realloc(ctx, NULL, 0, size); }
static void pages_free(void *ctx, void *ptr) { (void)ctx, (void)ptr; }

/* What is held is not looked at again while a line drips in: its pages may not even be read. */
static void dripped_line_is_read_once(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PAGES * page;
  void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(block, MAP_FAILED);
  const idem_alloc alloc = {pages_malloc, pages_realloc, pages_free, &block};
  const idem__frame_opts opts = {
      .kind = IDEM__FRAME_LINE, .max_message = size - 1, .alloc = &alloc};
  idem__framer framer;
  idem__framer_init(&framer, &opts);
  assert_int_equal(idem_buf_reserve(&framer.partial, size), IDEM_OK);
  for (size_t i = 0; i < size - 1; i++) {
    idem__framer_feed(&framer, "x", 1);
    assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MORE);
    if (i % page == page - 1) assert_int_equal(mprotect(block, i + 1, PROT_NONE), 0);
  }
  assert_int_equal(mprotect(block, size, PROT_READ | PROT_WRITE), 0);
  idem__framer_feed(&framer, "\n", 1);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MESSAGE);
  assert_int_equal(framer.len, size - 1);
  idem__framer_deinit(&framer);
  munmap(block, size);
}

static void growing_takes_few_allocations(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 1 << 20};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  for (int i = 0; i < 1 << 17; i++) {
    idem__framer_feed(&hand.framer, "x", 1);
    frame_hand_expect(&hand, IDEM__FRAME_MORE);
  }
  assert_true(hand.fault.calls <= 17);
  frame_hand_close(&hand);
}

static void play_until_no_memory(fault_alloc *fault, void *user) {
  (void)user;
  frame_expect_or_no_memory(fault, &plain,
                            "{\"a\":1}\n                                   x\n[1]\n[2]",
                            "message {\"a\":1}\noversize\nmessage [1]\nmessage [2]\n");
}

static void no_memory_ends_the_stream_and_leaks_nothing(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(play_until_no_memory, NULL, 50), 1);
}

static void no_memory_at_the_end_of_a_line_is_reported(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 1000};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  char rest[400];
  memset(rest, 'x', sizeof rest);
  rest[sizeof rest - 1] = '\n';
  idem__framer_feed(&hand.framer, "x", 1);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  fault_alloc_fail_from(&hand.fault, 1);
  idem__framer_feed(&hand.framer, rest, sizeof rest);
  frame_hand_expect(&hand, IDEM__FRAME_NOMEM);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  frame_hand_close(&hand);
}

/* ------------------------------------------------------------------- life cycle */

static void inside_from_the_first_byte_to_the_line_end(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_feed(&hand, "{");
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  assert_true(idem__framer_inside(&hand.framer));
  frame_hand_feed(&hand, "}\n");
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_close(&hand);
}

static void reset_drops_the_partial_line(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  frame_hand_feed(&hand, "{\"a");
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  idem__framer_reset(&hand.framer);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_feed(&hand, "[1]\n");
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_int_equal(hand.framer.len, 3);
  frame_hand_close(&hand);
}

static void reset_does_not_help_a_request_line_past_the_guard(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &guarded);
  frame_hand_feed(&hand, "POST / HT");
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  idem__framer_reset(&hand.framer);
  frame_hand_feed(&hand, "TP/1.1\r\n\r\n{}\n");
  frame_hand_expect(&hand, IDEM__FRAME_HTTP);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  idem__framer_reset(&hand.framer);
  frame_hand_feed(&hand, "{}\n");
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  frame_hand_close(&hand);
}

static void reset_between_messages_changes_nothing(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &guarded);
  idem__framer_reset(&hand.framer);
  frame_hand_feed(&hand, "{}\n");
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  frame_hand_close(&hand);
}

static void trim_gives_back_the_memory_of_a_large_line(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_LINE, .max_message = 1 << 20};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  char *large = malloc(1 << 19);
  assert_non_null(large);
  memset(large, 'x', 1 << 19);
  idem__framer_feed(&hand.framer, large, 1 << 19);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  free(large);
  idem__framer_trim(&hand.framer);
  assert_true(hand.fault.live_bytes >= 1 << 19);
  frame_hand_feed(&hand, "\n");
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_int_equal(hand.framer.len, 1 << 19);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  idem__framer_trim(&hand.framer);
  assert_true(hand.fault.live_bytes <= 4096);
  frame_hand_close(&hand);
}

static void output_ends_each_message_with_a_line_feed(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf out;
  idem_buf_init(&out, &alloc, 1);
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_LINE, &out, 5), IDEM_OK);
  assert_int_equal(out.len, 0);
  assert_int_equal(idem__frame_put_tail(IDEM__FRAME_LINE, &out), IDEM_OK);
  assert_memory_equal(out.data, "\n", 1);
  assert_int_equal(idem__frame_put_tail(IDEM__FRAME_LINE, &out), IDEM_E_LIMIT);
  idem_buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(line_feed_ends_a_message),
      cmocka_unit_test(empty_input_gives_nothing),
      cmocka_unit_test(one_carriage_return_before_the_line_feed_is_dropped),
      cmocka_unit_test(lines_of_blanks_are_skipped),
      cmocka_unit_test(line_of_blanks_past_the_limit_is_still_skipped),
      cmocka_unit_test(unterminated_last_line_is_a_message),
      cmocka_unit_test(limit_counts_the_message_without_its_line_end),
      cmocka_unit_test(oversize_line_is_reported_once_and_the_next_line_is_fine),
      cmocka_unit_test(no_limit_is_too_large_to_state),
      cmocka_unit_test(nothing_fits_a_limit_of_zero),
      cmocka_unit_test(http_request_line_ends_the_stream),
      cmocka_unit_test(tls_handshake_ends_the_stream),
      cmocka_unit_test(overlong_request_line_does_not_pass_the_guard),
      cmocka_unit_test(guard_looks_at_the_first_line_only),
      cmocka_unit_test(guard_lets_messages_and_junk_pass),
      cmocka_unit_test(without_guard_a_request_line_is_a_message),
      cmocka_unit_test(message_inside_one_piece_is_lent_in_place),
      cmocka_unit_test(draining_holds_nothing),
      cmocka_unit_test(dripped_line_is_read_once),
      cmocka_unit_test(growing_takes_few_allocations),
      cmocka_unit_test(no_memory_ends_the_stream_and_leaks_nothing),
      cmocka_unit_test(no_memory_at_the_end_of_a_line_is_reported),
      cmocka_unit_test(inside_from_the_first_byte_to_the_line_end),
      cmocka_unit_test(reset_drops_the_partial_line),
      cmocka_unit_test(reset_does_not_help_a_request_line_past_the_guard),
      cmocka_unit_test(reset_between_messages_changes_nothing),
      cmocka_unit_test(trim_gives_back_the_memory_of_a_large_line),
      cmocka_unit_test(output_ends_each_message_with_a_line_feed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
