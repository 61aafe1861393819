/* test_whole.c - one message until end of input, rule by rule (behaviour 9).
 * Every exchange is played whole, byte by byte and at pseudo-random splits. */
#include "support/frame_play.h"
#include "support/unit.h"

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
  frame_hand hand;
  frame_hand_open(&hand, &small);
  assert_false(idem__framer_inside(&hand.framer));
  idem__framer_feed(&hand.framer, "{}\n", 3);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  assert_true(idem__framer_inside(&hand.framer));
  idem__framer_reset(&hand.framer);
  assert_false(idem__framer_inside(&hand.framer));
  idem__framer_feed(&hand.framer, "[]", 2);
  idem__framer_feed_eof(&hand.framer);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_int_equal(hand.framer.len, 2);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  frame_hand_close(&hand);
}

static void single_piece_with_its_end_is_lent_in_place(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &small);
  fault_alloc_fail_from(&hand.fault, 1);
  const char input[] = "{}";
  idem__framer_feed(&hand.framer, input, 2);
  idem__framer_feed_eof(&hand.framer);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_ptr_equal(hand.framer.data, input);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  frame_hand_close(&hand);
}

static void oversize_message_is_drained_without_holding_it(void **state) {
  (void)state;
  const idem__frame_opts opts = {.kind = IDEM__FRAME_WHOLE, .max_message = 1000};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  frame_hand_expect_draining(&hand);
  frame_hand_close(&hand);
}

static void play_until_no_memory(fault_alloc *fault, void *user) {
  (void)user;
  frame_expect_or_no_memory(fault, &small, "{\"a\":1}", "message {\"a\":1}\n");
}

static void no_memory_ends_the_stream_and_leaks_nothing(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(play_until_no_memory, NULL, 50), 1);
}

static void output_adds_nothing(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem_buf out;
  idem_buf_init(&out, &alloc, 0);
  assert_int_equal(idem__frame_put_head(IDEM__FRAME_WHOLE, &out, 5), IDEM_OK);
  assert_int_equal(idem__frame_put_tail(IDEM__FRAME_WHOLE, &out), IDEM_OK);
  assert_int_equal(out.len, 0);
  idem_buf_deinit(&out);
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
