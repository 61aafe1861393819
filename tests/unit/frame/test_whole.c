/* test_whole.c - one message until end of input, rule by rule (behaviour 9).
 * Every exchange is played whole, byte by byte and at pseudo-random splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/fault_alloc.h"
#include "support/frame_play.h"

static const idem__frame_opts small = {.kind = IDEM__FRAME_WHOLE, .max_message = 10};

#define EXPECT(opts, input, expected) frame_expect(&(opts), input, sizeof(input) - 1, expected)

static void everything_until_the_end_is_one_message(void **state) {
  (void)state;
  EXPECT(small, "{}\r\n\r\n[1]", "message {}\r\n\r\n[1]\n");
  EXPECT(small, "  ", "message   \n");
}

static void empty_input_is_an_empty_message(void **state) {
  (void)state;
  EXPECT(small, "", "message \n");
}

static void message_up_to_the_limit_passes_and_beyond_it_is_oversize(void **state) {
  (void)state;
  EXPECT(small, "0123456789", "message 0123456789\n");
  EXPECT(small, "01234567890", "oversize\n");
  EXPECT(small, "0123456789012345678901234567890123456789", "oversize\n");
}

static void nothing_comes_before_the_end_of_input(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__frame_opts opts = small;
  opts.alloc = &alloc;
  idem__framer framer;
  idem__framer_init(&framer, &opts);
  assert_false(idem__framer_inside(&framer));
  idem__framer_feed(&framer, "{}\n", 3);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MORE);
  assert_true(idem__framer_inside(&framer));
  idem__framer_reset(&framer);
  assert_false(idem__framer_inside(&framer));
  idem__framer_feed(&framer, "[]", 2);
  idem__framer_feed_eof(&framer);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MESSAGE);
  assert_int_equal(framer.len, 2);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MORE);
  idem__framer_deinit(&framer);
}

static void single_piece_with_its_end_is_lent_in_place(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  fault_alloc_fail_from(&fault, 1);
  idem__frame_opts opts = small;
  opts.alloc = &fault.alloc;
  idem__framer framer;
  idem__framer_init(&framer, &opts);
  const char input[] = "{}";
  idem__framer_feed(&framer, input, 2);
  idem__framer_feed_eof(&framer);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MESSAGE);
  assert_ptr_equal(framer.data, input);
  assert_int_equal(idem__framer_next(&framer), IDEM__FRAME_MORE);
  idem__framer_deinit(&framer);
}

static void oversize_message_is_drained_without_holding_it(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem__frame_opts opts = {.kind = IDEM__FRAME_WHOLE, .max_message = 1000, .alloc = &fault.alloc};
  idem__framer framer;
  idem__framer_init(&framer, &opts);
  char piece[300];
  memset(piece, 'x', sizeof piece);
  size_t faults = 0;
  for (int i = 0; i < 1000; i++) {
    idem__framer_feed(&framer, piece, sizeof piece);
    while (idem__framer_next(&framer) == IDEM__FRAME_OVERSIZE) faults++;
  }
  assert_int_equal(faults, 1);
  assert_int_equal(framer.dropped, 1000 * sizeof piece);
  assert_true(fault.peak_bytes <= 1001);
  idem__framer_deinit(&framer);
  fault_alloc_assert_clean(&fault);
}

static void play_until_no_memory(fault_alloc *fault, void *user) {
  (void)user;
  idem__frame_opts opts = small;
  opts.alloc = &fault->alloc;
  idem__buf out;
  idem_alloc plain_alloc = idem__alloc_or_default(NULL);
  idem__buf_init(&out, &plain_alloc, 1 << 16);
  frame_play(&opts, "{\"a\":1}", 7, FRAME_PLAY_BYTES, &out);
  assert_int_equal(idem__buf_put(&out, "", 1), IDEM_OK);
  assert_string_equal(out.data, fault->failures ? "no-memory\n" : "message {\"a\":1}\n");
  idem__buf_deinit(&out);
}

static void no_memory_ends_the_stream_and_leaks_nothing(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(play_until_no_memory, NULL, 50), 1);
}

static void output_adds_nothing(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__buf out;
  idem__buf_init(&out, &alloc, 0);
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_WHOLE, &out, 5), IDEM_OK);
  assert_int_equal(idem__frame_put_tail(IDEM__FRAME_WHOLE, &out), IDEM_OK);
  assert_int_equal(out.len, 0);
  idem__buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_until_the_end_is_one_message),
      cmocka_unit_test(empty_input_is_an_empty_message),
      cmocka_unit_test(message_up_to_the_limit_passes_and_beyond_it_is_oversize),
      cmocka_unit_test(nothing_comes_before_the_end_of_input),
      cmocka_unit_test(single_piece_with_its_end_is_lent_in_place),
      cmocka_unit_test(oversize_message_is_drained_without_holding_it),
      cmocka_unit_test(no_memory_ends_the_stream_and_leaks_nothing),
      cmocka_unit_test(output_adds_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
