/* test_sse.c - event streams: any text survives writing and reading, at any split. */
#include "http/http.h"

#include "support/fault_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct seen {
  char text[4096]; /* "event|id|data;" for each */
} seen;

static void add(char *text, idem__view view) { strncat(text, view.at, view.len); }

static void on_event(void *user, const idem__sse_event *event) {
  seen *log = user;
  add(log->text, event->event);
  strcat(log->text, "|");
  add(log->text, event->id);
  strcat(log->text, "|");
  add(log->text, event->data);
  strcat(log->text, ";");
}

static void expect_events(const char *stream, size_t len, const char *want) {
  static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 5, 7};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    seen log = {""};
    idem__sse_parser parser;
    idem__sse_parser_init(&parser, NULL, 1024, on_event, &log);
    for (size_t at = 0; at < len;) {
      size_t take = pieces[i] < len - at ? pieces[i] : len - at;
      char *lent = malloc(take);
      assert_non_null(lent);
      memcpy(lent, stream + at, take);
      assert_int_equal(idem__sse_parser_feed(&parser, lent, take), IDEM_OK);
      free(lent);
      at += take;
    }
    idem__sse_parser_deinit(&parser);
    assert_string_equal(log.text, want);
  }
}
#define EXPECT(stream, want) expect_events("" stream, sizeof(stream) - 1, want)

static void reads_events_with_every_line_end(void **state) {
  (void)state;
  EXPECT("data: a\n\ndata: b\r\n\r\ndata: c\r\r", "message||a;message||b;message||c;");
  EXPECT("data: a\r\ndata: b\rdata:c\n\n", "message||a\nb\nc;");
  EXPECT("event: e\ndata: 1\n\ndata: 2\n\n", "e||1;message||2;");
}

static void reads_fields_as_the_standard_says(void **state) {
  (void)state;
  EXPECT("data\n\n", "message||;");
  EXPECT("data\ndata\n\n", "message||\n;");
  EXPECT("data:  two blanks\n\n", "message|| two blanks;");
  EXPECT(": comment\ndata: x\n:\nnonsense: y\ndataset: z\n\n", "message||x;");
  EXPECT("\n\nevent: lonely\n\ndata: x\n\n", "message||x;");
  EXPECT("data: no end", "");
  EXPECT("data: a:b: c\n\n", "message||a:b: c;");
}

static void keeps_the_last_id_until_another_comes(void **state) {
  (void)state;
  EXPECT("id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", "message|7|a;message|7|b;message||c;");
  EXPECT("id: 8\n\ndata: a\n\n", "message|8|a;");
  EXPECT("id: a\0b\ndata: x\n\n", "message||x;");
}

static void drops_a_byte_order_mark_at_the_start_alone(void **state) {
  (void)state;
  EXPECT("\xef\xbb\xbf"
         "data: a\n\n",
         "message||a;");
  EXPECT("\xef\xbb"
         "data: a\n\ndata: b\n\n",
         "message||b;");
  EXPECT("data: \xef\xbb\xbf\n\n", "message||\xef\xbb\xbf;");
}

static void keeps_what_a_reconnection_needs(void **state) {
  (void)state;
  seen log = {""};
  idem__sse_parser parser;
  idem__sse_parser_init(&parser, NULL, 1024, on_event, &log);
  static const char text[] = "retry: 2500\nretry: soon\nid: 41\ndata: a\n\nid: 42\ndata: half";
  assert_int_equal(idem__sse_parser_feed(&parser, text, sizeof text - 1), IDEM_OK);
  idem__sse_parser_restart(&parser);
  assert_int_equal(parser.retry_ms, 2500);
  assert_int_equal(parser.last_id.len, 2);
  assert_memory_equal(parser.last_id.data, "41", 2);
  assert_int_equal(idem__sse_parser_feed(&parser, "data: b\n\n", 9), IDEM_OK);
  assert_string_equal(log.text, "message|41|a;message|41|b;");
  idem__sse_parser_deinit(&parser);
}

static void an_event_over_the_limit_ends_the_stream(void **state) {
  (void)state;
  seen log = {""};
  idem__sse_parser parser;
  char line[64];
  memset(line, 'x', sizeof line);
  idem__sse_parser_init(&parser, NULL, 256, on_event, &log);
  idem_status status = idem__sse_parser_feed(&parser, "data: ", 6);
  for (int i = 0; i < 10 && status == IDEM_OK; i++)
    status = idem__sse_parser_feed(&parser, line, sizeof line);
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_int_equal(idem__sse_parser_feed(&parser, "\n\n", 2), IDEM_E_LIMIT);
  idem__sse_parser_deinit(&parser);
  idem__sse_parser_init(&parser, NULL, 256, on_event, &log);
  status = IDEM_OK;
  for (int i = 0; i < 10 && status == IDEM_OK; i++)
    status = idem__sse_parser_feed(&parser, "data: 0123456789012345678901234567890123456789\n", 47);
  assert_int_equal(status, IDEM_E_LIMIT);
  idem__sse_parser_deinit(&parser);
}

/* ----------------------------------------------------------------- writing */

static void keep_data(void *user, const idem__sse_event *event) {
  idem_buf *out = user;
  idem_buf_put(out, event->data.at, event->data.len);
  idem_buf_puts(out, "|");
}

static void any_text_comes_back_with_line_ends_made_equal(void **state) {
  (void)state;
  static const struct {
    const char *text, *back;
  } cases[] = {{"", "|"},
               {"{\"a\":1}", "{\"a\":1}|"},
               {"a\nb", "a\nb|"},
               {"a\r\nb", "a\nb|"},
               {"a\rb", "a\nb|"},
               {"\n", "\n|"},
               {"a\n\nb", "a\n\nb|"},
               {" lead", " lead|"},
               {"data: x\n\nid: 9", "data: x\n\nid: 9|"},
               {"\r\n\r\n", "\n\n|"},
               {"a\r", "a\n|"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    idem_buf out, back;
    idem__sse_parser parser;
    idem_buf_init(&out, NULL, 4096);
    idem_buf_init(&back, NULL, 4096);
    assert_int_equal(
        idem__sse_put_event(&out, "message", NULL, cases[i].text, strlen(cases[i].text)), IDEM_OK);
    idem__sse_parser_init(&parser, NULL, 4096, keep_data, &back);
    assert_int_equal(idem__sse_parser_feed(&parser, out.data, out.len), IDEM_OK);
    assert_int_equal(back.len, strlen(cases[i].back));
    assert_memory_equal(back.data, cases[i].back, back.len);
    idem__sse_parser_deinit(&parser);
    idem_buf_deinit(&out);
    idem_buf_deinit(&back);
  }
}

static void names_and_ids_cannot_break_out_of_their_line(void **state) {
  (void)state;
  idem_buf out;
  idem_buf_init(&out, NULL, 4096);
  assert_int_equal(idem__sse_put_event(&out, "e\ndata: forged", "1\r\n\r\n", "x", 1), IDEM_OK);
  assert_int_equal(out.len, strlen("data: x\n\n"));
  assert_memory_equal(out.data, "data: x\n\n", out.len);
  idem_buf_deinit(&out);
}

static void a_failed_write_leaves_the_buffer_as_it_was(void **state) {
  (void)state;
  idem_buf out;
  idem_buf_init(&out, NULL, 20);
  assert_int_equal(idem_buf_puts(&out, "before"), IDEM_OK);
  assert_int_equal(idem__sse_put_event(&out, NULL, NULL, "0123456789", 10), IDEM_E_LIMIT);
  assert_int_equal(out.len, 6);
  idem_buf_deinit(&out);
}

static void read_with_faults(fault_alloc *fault, void *user) {
  (void)user;
  seen log = {""};
  idem__sse_parser parser;
  idem__sse_parser_init(&parser, &fault->alloc, 4096, on_event, &log);
  static const char text[] = "event: e\nid: 1\ndata: one\ndata: two\n\nretry: 3\n\n";
  for (size_t i = 0; i < sizeof text - 1; i++)
    if (idem__sse_parser_feed(&parser, text + i, 1) != IDEM_OK) break;
  idem__sse_parser_deinit(&parser);
}

static void no_allocation_failure_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(read_with_faults, NULL, 1000) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_events_with_every_line_end),
      cmocka_unit_test(reads_fields_as_the_standard_says),
      cmocka_unit_test(keeps_the_last_id_until_another_comes),
      cmocka_unit_test(drops_a_byte_order_mark_at_the_start_alone),
      cmocka_unit_test(keeps_what_a_reconnection_needs),
      cmocka_unit_test(an_event_over_the_limit_ends_the_stream),
      cmocka_unit_test(any_text_comes_back_with_line_ends_made_equal),
      cmocka_unit_test(names_and_ids_cannot_break_out_of_their_line),
      cmocka_unit_test(a_failed_write_leaves_the_buffer_as_it_was),
      cmocka_unit_test(no_allocation_failure_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
