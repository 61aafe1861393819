/* test_bad_input.c - input too large for a transcript: after any bad message the next good one is
 * answered, and memory stays within the configured limits. */
#include "support/fault_alloc.h"
#include "support/peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEBI = 1 << 20 };

static const char oversize[] =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
    "\"message\":\"Invalid Request\",\"data\":{\"reason\":\"oversize\"}}}";
static const char bad_length[] =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","
    "\"data\":{\"reason\":\"bad-content-length\"}}}";
static const char parse_error[] =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}";

typedef struct fixture {
  fault_alloc memory;
  idem_policy policy;
  peer peer;
} fixture;

static fixture *open_with(idem_policy policy, idem_log *log) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  fault_alloc_init(&f->memory);
  f->policy = policy;
  peer_opts opts = {.alloc = &f->memory.alloc, .policy = &f->policy, .log = log};
  assert_int_equal(peer_open(&f->peer, &opts), IDEM_OK);
  return f;
}

static void close_fixture(fixture *f) {
  peer_close(&f->peer);
  fault_alloc_assert_clean(&f->memory);
  free(f);
}

static void feed_text(fixture *f, const char *text) {
  assert_int_equal(peer_feed(&f->peer, text, strlen(text)), IDEM_OK);
}

/* Feeds `times` copies of `unit`, in pieces as a socket would bring them. */
static void feed_repeated(fixture *f, const char *unit, size_t times) {
  enum { PIECE = 65536 };
  char piece[PIECE];
  size_t unit_len = strlen(unit), per_piece = PIECE / unit_len;
  for (size_t i = 0; i < per_piece * unit_len; i++) piece[i] = unit[i % unit_len];
  while (times) {
    size_t now = times < per_piece ? times : per_piece;
    assert_int_equal(peer_feed(&f->peer, piece, now * unit_len), IDEM_OK);
    times -= now;
  }
}

static void expect_message(fixture *f, const char *wanted) {
  const peer_text *got = peer_list_take(&f->peer.messages);
  assert_non_null(got);
  assert_string_equal(got->data, wanted);
}

static void expect_life(fixture *f) {
  static const char good[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"get_data\"}";
  if (f->policy.framing == IDEM_FRAMING_CONTENT_LENGTH) {
    feed_text(f, "Content-Length: 44\r\n\r\n");
    feed_text(f, good);
  } else {
    feed_text(f, good);
    feed_text(f, "\n");
  }
  expect_message(f, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[\"hello\",5]}");
  assert_null(peer_list_take(&f->peer.messages));
}

static void close_alive(fixture *f) {
  expect_life(f);
  close_fixture(f);
}

/* Most tests begin with a peer of one of these, and all end as the file promises. */
static int open_lines(void **state) {
  *state = open_with(idem_policy_preset(IDEM_PROFILE_JSONRPC), NULL);
  return 0;
}

static int open_frames(void **state) {
  *state = open_with(idem_policy_preset(IDEM_PROFILE_LSP), NULL);
  return 0;
}

static int next_good_message_is_answered(void **state) {
  close_alive(*state);
  return 0;
}

#define LINES(test) cmocka_unit_test_setup_teardown(test, open_lines, next_good_message_is_answered)
#define FRAMES(test)                                                                               \
  cmocka_unit_test_setup_teardown(test, open_frames, next_good_message_is_answered)

static void a_length_of_2_to_the_63_is_refused(void **state) {
  fixture *f = *state;
  feed_text(f, "Content-Length: 9223372036854775808\r\n\r\n");
  expect_message(f, bad_length);
}

static void a_length_of_2_to_the_64_is_refused(void **state) {
  fixture *f = *state;
  feed_text(f, "Content-Length: 18446744073709551616\r\n\r\n");
  expect_message(f, bad_length);
}

static void endless_headers_are_drained_in_little_memory(void **state) {
  fixture *f = *state;
  feed_repeated(f, "X-Header: abcdefgh\r\n", 200000);
  expect_message(f, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
                    "\"message\":\"Invalid Request\",\"data\":{\"reason\":\"header-too-large\"}}}");
  assert_null(peer_list_take(&f->peer.messages));
  assert_true(f->memory.peak_bytes < (size_t)256 * 1024);
  feed_text(f, "\r\n\r\n");
}

static void one_endless_header_line_is_drained_in_little_memory(void **state) {
  fixture *f = *state;
  feed_repeated(f, "x", (size_t)4 * MEBI);
  assert_true(f->memory.peak_bytes < (size_t)256 * 1024);
  feed_text(f, "\r\n\r\n");
  const peer_text *got = peer_list_take(&f->peer.messages);
  assert_non_null(got);
  assert_non_null(strstr(got->data, "\"code\":-32600"));
}

static void open_brackets_by_the_hundred_thousand_are_a_parse_error(void **state) {
  fixture *f = *state;
  const char *const units[] = {"[", "{\"a\":", "[{\"\":"};
  for (size_t i = 0; i < 3; i++) {
    feed_repeated(f, units[i], 100000);
    feed_text(f, "\n");
    expect_message(f, parse_error);
    expect_life(f);
  }
}

static void deep_but_closed_brackets_are_a_parse_error(void **state) {
  fixture *f = *state;
  feed_text(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":");
  feed_repeated(f, "[", 100000);
  feed_repeated(f, "]", 100000);
  feed_text(f, "}\n");
  expect_message(f, parse_error);
}

static void ten_mebibytes_are_taken_and_one_byte_more_is_not(void **state) {
  fixture *f = *state;
  static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\",\"x\":\"";
  size_t fill = (size_t)10 * MEBI - (sizeof head - 1) - 2;
  for (size_t extra = 0; extra < 2; extra++) {
    feed_text(f, head);
    feed_repeated(f, "x", fill + extra);
    feed_text(f, "\"}\n");
    expect_message(f, extra ? oversize : "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"hello\",5]}");
    expect_life(f);
  }
}

static void a_body_of_ten_mebibytes_and_one_byte_is_never_buffered(void **state) {
  fixture *f = *state;
  feed_text(f, "Content-Length: 10485761\r\n\r\n");
  feed_repeated(f, "x", (size_t)10 * MEBI + 1);
  expect_message(f, oversize);
  assert_true(f->memory.peak_bytes < (size_t)256 * 1024);
}

static void an_endless_line_is_held_to_the_limit(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.message_bytes = MEBI;
  fixture *f = open_with(policy, NULL);
  feed_repeated(f, "x", (size_t)20 * MEBI);
  expect_message(f, oversize);
  assert_null(peer_list_take(&f->peer.messages));
  assert_true(f->memory.peak_bytes < (size_t)2 * MEBI + 262144);
  feed_text(f, "\n");
  close_alive(f);
}

static void feed_ones(fixture *f, size_t bytes) {
  feed_text(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_data\",\"params\":[");
  feed_repeated(f, "1,", bytes / 2);
  feed_text(f, "1]}\n");
}

/* Two bytes of text become sixteen of values. */
static void ten_mebibytes_of_ones_stay_within_the_parse_limit(void **state) {
  fixture *f = *state;
  feed_ones(f, (size_t)10 * MEBI - 100);
  const peer_text *got = peer_list_take(&f->peer.messages);
  assert_non_null(got);
  size_t bound = f->policy.limits.parse_bytes + 2 * f->policy.limits.message_bytes + MEBI;
  assert_true(f->memory.peak_bytes <= bound);
}

static void values_past_the_parse_limit_are_oversize(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.parse_bytes = (size_t)4 * MEBI;
  policy.limits.message_bytes = (size_t)2 * MEBI;
  fixture *f = open_with(policy, NULL);
  feed_ones(f, MEBI);
  expect_message(f, oversize);
  assert_true(f->memory.peak_bytes <= (size_t)(4 + 2 * 2 + 1) * MEBI);
  close_alive(f);
}

static void memory_goes_back_after_a_large_message(void **state) {
  fixture *f = *state;
  feed_ones(f, (size_t)5 * MEBI);
  peer_list_take(&f->peer.messages);
  for (int i = 0; i < 2000; i++) expect_life(f);
  assert_true(f->memory.live_bytes < MEBI);
}

static void ids_of_a_megabyte_come_back(void **state) {
  fixture *f = *state;
  feed_text(f, "{\"jsonrpc\":\"2.0\",\"method\":\"get_data\",\"id\":");
  feed_repeated(f, "7", MEBI);
  feed_text(f, "}\n");
  const peer_text *got = peer_list_take(&f->peer.messages);
  assert_non_null(got);
  assert_int_equal(got->len,
                   strlen("{\"jsonrpc\":\"2.0\",\"id\":,\"result\":[\"hello\",5]}") + MEBI);
}

static void method_names_of_a_megabyte_are_not_echoed(void **state) {
  fixture *f = *state;
  feed_text(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"");
  feed_repeated(f, "m", MEBI);
  feed_text(f, "\"}\n");
  expect_message(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,"
                    "\"message\":\"Method not found\"}}");
}

/* A hundred thousand distinct junk lines must not make anything grow. */
static void a_flood_of_junk_does_not_grow_memory(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 20000; i++) {
    char line[64];
    snprintf(line, sizeof line, "{\"id\":\"%d\",\"method\":\"m%d\"}\n[]\nx%d\n", i, i, i);
    feed_text(f, line);
    while (peer_list_take(&f->peer.messages)) {
    }
  }
  assert_true(f->memory.peak_bytes < (size_t)256 * 1024);
}

/* ------------------------------------------------------------------ log */

typedef struct captured {
  char text[65536];
  size_t len;
} captured;

static void capture(void *ctx, const char *line, size_t len) {
  captured *c = ctx;
  if (c->len + len >= sizeof c->text) return;
  memcpy(c->text + c->len, line, len);
  c->len += len;
  c->text[c->len] = 0;
}

static idem_log *log_into(captured *c, idem_log_format format) {
  idem_log *log;
  idem_log_opts opts = {
      .level = IDEM_LOG_DEBUG, .format = format, .write = capture, .write_ctx = c};
  memset(c, 0, sizeof *c);
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  return log;
}

static void assert_no_forgery(const captured *c) {
  assert_true(c->len > 0);
  assert_null(strchr(c->text, 0x1b));
  assert_null(strchr(c->text, 0x7f));
  assert_null(strchr(c->text, '\r'));
  assert_null(strstr(c->text, "\xc2\x9b"));     /* a C1 control */
  assert_null(strstr(c->text, "\xe2\x80\xae")); /* right-to-left override */
  for (const char *at = strstr(c->text, "forged"); at; at = strstr(at + 1, "forged")) {
    assert_true(at > c->text && at[-1] != '\n');
  }
}

static void log_level(idem_log_format format) {
  static captured c;
  idem_log *log = log_into(&c, format);
  fixture *f = open_with(idem_policy_preset(IDEM_PROFILE_JSONRPC), log);
  feed_text(f,
            "{\"jsonrpc\":\"2.0\",\"id\":\"\\u001b[31m\\nforged\",\"method\":\"\\u001b]0;x\\u0007"
            "\\nforged line\\r\\u007f\\u009b\\u202e\"}\n"
            "{\"jsonrpc\":\"2.0\",\"id\":\"\xe2\x80\xae\x7f\",\"method\":\"\xc2\x9b\x7f\"}\n"
            "{\"jsonrpc\":\"2.0\",\"method\":\"\\u001b[2Jforged\"}\n"
            "\x1b[31mforged\r\n");
  assert_no_forgery(&c);
  expect_message(f,
                 "{\"jsonrpc\":\"2.0\",\"id\":\"\\u001b[31m\\nforged\",\"error\":{\"code\":-32601,"
                 "\"message\":\"Method not found\",\"data\":{\"method\":\"\\u001b]0;x\\u0007"
                 "\\nforged line\\r\\u007f\\u009b\\u202e\"}}}");
  while (peer_list_take(&f->peer.messages)) {
  }
  close_alive(f);
  idem_log_free(log);
}

static void terminal_escapes_cannot_forge_log_lines(void **state) {
  (void)state;
  log_level(IDEM_LOG_TEXT);
  log_level(IDEM_LOG_JSON);
}

static void what_did_not_parse_is_never_logged(void **state) {
  (void)state;
  static captured c;
  idem_log *log = log_into(&c, IDEM_LOG_TEXT);
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.message_bytes = 64;
  fixture *f = open_with(policy, log);
  feed_text(f, "{\"secret\":\"hunter2\"\n");
  feed_text(f,
            "{\"secret\":\"hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunter2\"}\n");
  assert_true(c.len > 0);
  assert_null(strstr(c.text, "hunter2"));
  close_fixture(f);
  idem_log_free(log);
}

static void ids_and_methods_are_cut_in_the_log(void **state) {
  (void)state;
  static captured c;
  idem_log *log = log_into(&c, IDEM_LOG_TEXT);
  fixture *f = open_with(idem_policy_preset(IDEM_PROFILE_JSONRPC), log);
  feed_text(f, "{\"jsonrpc\":\"2.0\",\"id\":");
  feed_repeated(f, "7", 10000);
  feed_text(f, ",\"method\":\"");
  feed_repeated(f, "m", 10000);
  feed_text(f, "\"}\n");
  assert_true(c.len > 0);
  assert_true(c.len < 1000);
  close_fixture(f);
  idem_log_free(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      FRAMES(a_length_of_2_to_the_63_is_refused),
      FRAMES(a_length_of_2_to_the_64_is_refused),
      FRAMES(endless_headers_are_drained_in_little_memory),
      FRAMES(one_endless_header_line_is_drained_in_little_memory),
      LINES(open_brackets_by_the_hundred_thousand_are_a_parse_error),
      LINES(deep_but_closed_brackets_are_a_parse_error),
      LINES(ten_mebibytes_are_taken_and_one_byte_more_is_not),
      FRAMES(a_body_of_ten_mebibytes_and_one_byte_is_never_buffered),
      cmocka_unit_test(an_endless_line_is_held_to_the_limit),
      LINES(ten_mebibytes_of_ones_stay_within_the_parse_limit),
      cmocka_unit_test(values_past_the_parse_limit_are_oversize),
      LINES(memory_goes_back_after_a_large_message),
      LINES(ids_of_a_megabyte_come_back),
      LINES(method_names_of_a_megabyte_are_not_echoed),
      LINES(a_flood_of_junk_does_not_grow_memory),
      cmocka_unit_test(terminal_escapes_cannot_forge_log_lines),
      cmocka_unit_test(what_did_not_parse_is_never_logged),
      cmocka_unit_test(ids_and_methods_are_cut_in_the_log),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
