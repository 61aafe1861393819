/* test_content_length_held.c - what Content-Length framing holds: memory, allocations, and when it is
 * inside a frame. Fed by hand. */
#include "content_length.h"
#include "support/unit.h"

/* ----------------------------------------------------------------- memory and time */

static void frame_inside_one_piece_is_lent_in_place(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  fault_alloc_fail_from(&hand.fault, 1);
  const char input[] = GOOD GOOD;
  idem__framer_feed(&hand.framer, input, sizeof input - 1);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_ptr_equal(hand.framer.data, input + sizeof GOOD - 3);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_ptr_equal(hand.framer.data, input + sizeof input - 3);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  assert_int_equal(hand.fault.calls, 0);
  frame_hand_close(&hand);
}

/* Feeds the same piece many times and says how many events came. */
static size_t feed_often(frame_hand *hand, const char *piece, size_t times) {
  size_t events = 0;
  for (size_t i = 0; i < times; i++) {
    frame_hand_feed(hand, piece);
    while (idem__framer_next(&hand->framer) != IDEM__FRAME_MORE) events++;
  }
  return events;
}

static void draining_is_bounded(const char *start, const char *piece, size_t expected_events) {
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  size_t events = feed_often(&hand, start, 1) + feed_often(&hand, piece, 10000);
  assert_int_equal(events, expected_events);
  assert_true(hand.fault.peak_bytes <= plain.max_header);
  assert_true(hand.fault.calls <= 2);
  frame_hand_close(&hand);
}

static void draining_holds_no_more_than_a_header(void **state) {
  (void)state;
  draining_is_bounded("Content-Length: 999999999\r\n\r\n", PAD32, 1);
  draining_is_bounded("", PAD32, 1);
  draining_is_bounded("", "X: y\r\n", 1);
  draining_is_bounded("X: ", PAD32, 1);
  draining_is_bounded("\r\n", "\r\n", 1);
  draining_is_bounded("\r\n", "Content-Length:", 1);
  draining_is_bounded("\r\n", "\"Content-Length: 1\r\n", 1);
  draining_is_bounded("\r\nContent-Length: ", "0", 1);
}

static void dropped_bytes_are_counted_for_each_fault(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(feed_often(&hand, "Content-Length: 32\r\n\r\n" PAD32, 1), 1);
    assert_int_equal(hand.framer.dropped, 32);
  }
  assert_int_equal(feed_often(&hand, "\r\n" PAD32, 1), 1);
  assert_int_equal(hand.framer.dropped, 2 + 32);
  frame_hand_close(&hand);
}

/* A body is not given its memory on the word of its header. */
static void announced_length_reserves_nothing(void **state) {
  (void)state;
  const idem__frame_opts opts = {
      .kind = IDEM__FRAME_CONTENT_LENGTH, .max_message = 10485760, .max_header = 8192};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  assert_int_equal(feed_often(&hand, "Content-Length: 10485760\r\n\r\n{", 1), 0);
  assert_true(hand.fault.peak_bytes <= 1024);
  assert_int_equal(feed_often(&hand, "x", 100000), 0);
  assert_true(hand.fault.calls <= 12); /* doubling, not creeping */
  frame_hand_close(&hand);
}

static void play_until_no_memory(fault_alloc *fault, void *user) {
  static const char input[] = GOOD "Content-Length: 600\r\n\r\n"; /* then 600 bytes */
  char frame[sizeof input - 1 + 600];
  memcpy(frame, input, sizeof input - 1);
  memset(frame + sizeof input - 1, 'x', 600);
  idem__frame_opts opts = plain;
  opts.max_message = 1000;
  opts.alloc = &fault->alloc;
  idem_buf out;
  idem_alloc plain_alloc = idem__alloc_or_default(NULL);
  idem_buf_init(&out, &plain_alloc, 1 << 16);
  frame_play(&opts, frame, sizeof frame, *(unsigned *)user, &out);
  assert_true(out.len >= 10);
  const char *last = out.data + out.len - 10;
  assert_int_equal(memcmp(last, "no-memory\n", 10) == 0, fault->failures > 0);
  idem_buf_deinit(&out);
}

static void no_memory_ends_the_stream_and_leaks_nothing(void **state) {
  (void)state;
  for (unsigned split = FRAME_PLAY_BYTES; split < FRAME_PLAY_RANDOM + 20; split++)
    assert_int_not_equal(fault_alloc_sweep(play_until_no_memory, &split, 50), 0);
}

/* A header line held in one byte needs room for the rest of it at its end. */
static void no_memory_at_the_end_of_a_header_line_is_reported(void **state) {
  (void)state;
  const idem__frame_opts opts = {
      .kind = IDEM__FRAME_CONTENT_LENGTH, .max_message = 10, .max_header = 8192};
  frame_hand hand;
  frame_hand_open(&hand, &opts);
  assert_int_equal(feed_often(&hand, "X", 1), 0);
  fault_alloc_fail_from(&hand.fault, 1);
  frame_hand_feed(&hand, ": " PAD128 PAD128 PAD128 "\r\n");
  frame_hand_expect(&hand, IDEM__FRAME_NOMEM);
  frame_hand_expect(&hand, IDEM__FRAME_MORE);
  frame_hand_close(&hand);
}

/* ---------------------------------------------------------------------- life cycle */

static void check_inside(const char *input, bool inside, const char *after_reset) {
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  feed_often(&hand, input, 1);
  assert_int_equal(idem__framer_inside(&hand.framer), inside);
  idem__framer_reset(&hand.framer);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_feed(&hand, after_reset);
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  frame_hand_close(&hand);
}

static void inside_from_the_first_byte_to_the_last(void **state) {
  (void)state;
  check_inside("", false, GOOD);
  check_inside("C", true, GOOD);
  check_inside("Content-Length: 2\r\n", true, GOOD);
  check_inside("Content-Length: 2\r\n\r\n", true, GOOD);
  check_inside("Content-Length: 2\r\n\r\n{", true, GOOD);
  check_inside(GOOD, false, GOOD);
  check_inside("X: " PAD128 PAD128, true, GOOD);
}

/* The time-out of the frame is what makes an absurd length harmless. */
static void reset_ends_the_draining_of_a_huge_body(void **state) {
  (void)state;
  check_inside("Content-Length: 9223372036854775807\r\n\r\n", true, GOOD);
}

static void search_in_damage_is_not_a_frame(void **state) {
  (void)state;
  check_inside("X: y\r\n\r\njunk", false, GOOD);
}

static void assembled_message_is_not_inside_the_next_frame(void **state) {
  (void)state;
  frame_hand hand;
  frame_hand_open(&hand, &plain);
  feed_often(&hand, "Content-Length: 2\r\n\r\n{", 1);
  frame_hand_feed(&hand, "}");
  frame_hand_expect(&hand, IDEM__FRAME_MESSAGE);
  assert_false(idem__framer_inside(&hand.framer));
  frame_hand_close(&hand);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frame_inside_one_piece_is_lent_in_place),
      cmocka_unit_test(draining_holds_no_more_than_a_header),
      cmocka_unit_test(dropped_bytes_are_counted_for_each_fault),
      cmocka_unit_test(announced_length_reserves_nothing),
      cmocka_unit_test(no_memory_ends_the_stream_and_leaks_nothing),
      cmocka_unit_test(no_memory_at_the_end_of_a_header_line_is_reported),
      cmocka_unit_test(inside_from_the_first_byte_to_the_last),
      cmocka_unit_test(reset_ends_the_draining_of_a_huge_body),
      cmocka_unit_test(search_in_damage_is_not_a_frame),
      cmocka_unit_test(assembled_message_is_not_inside_the_next_frame),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
