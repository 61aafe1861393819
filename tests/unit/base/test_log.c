/* test_log.c - lines say what happened, and nothing a peer sends can forge, leak or overflow one. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

/* Everything the sink was given. */
typedef struct sink {
  char text[1 << 16];
  size_t len;
  size_t lines;
  size_t longest;
} sink;

static sink seen;

static void keep(void *ctx, const char *line, size_t len) {
  sink *into = ctx;
  assert_true(into->len + len < sizeof into->text);
  assert_int_equal(line[len - 1], '\n');
  assert_null(memchr(line, '\n', len - 1));
  memcpy(into->text + into->len, line, len);
  into->len += len;
  into->text[into->len] = '\0';
  into->lines++;
  if (len > into->longest) into->longest = len;
}

static uint64_t fixed_clock(void *ctx) { return *(const uint64_t *)ctx; }

static idem_log *open_log(idem_log_format format, idem_log_level level) {
  idem_log *log = NULL;
  seen = (sink){.len = 0};
  idem_log_opts opts = {.level = level, .format = format, .write = keep, .write_ctx = &seen};
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  return log;
}

static idem_log_record sample(void) {
  return (idem_log_record){.level = IDEM_LOG_WARN,
                           .message = "request refused",
                           .method = "tools/call",
                           .method_len = 10,
                           .id = "\"a-1\"",
                           .id_len = 5,
                           .peer = "tcp 127.0.0.1:4242",
                           .detail = "no such tool",
                           .detail_len = 12};
}

static void expect(idem_log_format format, const idem_log_record *record, const char *wanted) {
  idem_log *log = open_log(format, IDEM_LOG_DEBUG);
  idem_log_write(log, record);
  idem_log_free(log);
  assert_string_equal(seen.text, wanted);
}

static void a_text_line_reads_from_left_to_right(void **state) {
  (void)state;
  idem_log_record record = sample();
  expect(IDEM_LOG_TEXT, &record,
         "WARN  request refused id=\"a-1\" method=tools/call peer=\"tcp 127.0.0.1:4242\" "
         "detail=no such tool\n");
}

static void a_json_line_has_the_same_members(void **state) {
  (void)state;
  idem_log_record record = sample();
  expect(IDEM_LOG_JSON, &record,
         "{\"severity\":\"warn\",\"message\":\"request refused\",\"method\":\"tools/call\","
         "\"id\":\"\\\"a-1\\\"\",\"peer\":\"tcp 127.0.0.1:4242\",\"detail\":\"no such tool\"}\n");
}

/* A peer may put what is secret where a name or an id belongs. */
static void method_and_id_are_redacted_as_detail_is(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_WARN,
                            .message = "m",
                            .method = "password=hunter2",
                            .method_len = 16,
                            .id = "\"/home/ann/notes.txt\"",
                            .id_len = 21};
  expect(IDEM_LOG_TEXT, &record, "WARN  m id=\"[redacted]\" method=\"password=[redacted]\"\n");
  expect(IDEM_LOG_JSON, &record,
         "{\"severity\":\"warn\",\"message\":\"m\",\"method\":\"password=[redacted]\","
         "\"id\":\"\\\"[redacted]\\\"\"}\n");
}

/* Names of methods look like paths and are none. */
static void names_of_methods_stand_whole(void **state) {
  (void)state;
  static const char *const names[] = {"tools/call", "notifications/initialized", "$/cancelRequest",
                                      "textDocument/didOpen", "list.items"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char wanted[128];
    idem_log_record record = {
        .level = IDEM_LOG_INFO, .message = "m", .method = names[i], .method_len = strlen(names[i])};
    snprintf(wanted, sizeof wanted, "INFO  m method=%s\n", names[i]);
    expect(IDEM_LOG_TEXT, &record, wanted);
  }
}

static void a_plain_detail_keeps_its_paths_and_loses_added_secrets(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_INFO,
                            .message = "m",
                            .detail = "sink /var/log/hunter2.log",
                            .detail_len = 25,
                            .plain = true};
  expect(IDEM_LOG_TEXT, &record, "INFO  m detail=sink /var/log/hunter2.log\n");
  idem_log *log = open_log(IDEM_LOG_JSON, IDEM_LOG_DEBUG);
  assert_int_equal(idem_log_add_secret(log, "hunter2", 7), IDEM_OK);
  idem_log_write(log, &record);
  idem_log_free(log);
  assert_string_equal(seen.text, "{\"severity\":\"info\",\"message\":\"m\",\"detail\":\"sink "
                                 "/var/log/[redacted].log\"}\n");
}

static void absent_fields_are_left_out(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_ERROR, .message = "out of memory"};
  expect(IDEM_LOG_TEXT, &record, "ERROR out of memory\n");
  expect(IDEM_LOG_JSON, &record, "{\"severity\":\"error\",\"message\":\"out of memory\"}\n");
  record.message = NULL;
  expect(IDEM_LOG_TEXT, &record, "ERROR \n");
}

static void an_id_that_is_null_is_shown(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_INFO, .message = "m", .id = "null", .id_len = 4};
  expect(IDEM_LOG_TEXT, &record, "INFO  m id=null\n");
  expect(IDEM_LOG_JSON, &record, "{\"severity\":\"info\",\"message\":\"m\",\"id\":\"null\"}\n");
}

static void timestamps_are_utc_with_microseconds(void **state) {
  (void)state;
  static const struct {
    uint64_t us;
    const char *wanted;
  } rows[] = {{0, "1970-01-01T00:00:00.000000Z DEBUG m\n"},
              {951782399999999, "2000-02-28T23:59:59.999999Z DEBUG m\n"},
              {951782400000000, "2000-02-29T00:00:00.000000Z DEBUG m\n"},
              {951868800000000, "2000-03-01T00:00:00.000000Z DEBUG m\n"},
              {1709164800000001, "2024-02-29T00:00:00.000001Z DEBUG m\n"},
              {1767225599000000, "2025-12-31T23:59:59.000000Z DEBUG m\n"},
              {1794771601123456, "2026-11-15T19:40:01.123456Z DEBUG m\n"},
              {4107542400000000, "2100-03-01T00:00:00.000000Z DEBUG m\n"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint64_t now = rows[i].us;
    idem_log *log = NULL;
    seen = (sink){.len = 0};
    idem_log_opts opts = {
        .write = keep, .write_ctx = &seen, .wall_us = fixed_clock, .wall_ctx = &now};
    assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
    idem_log_write(log, &(idem_log_record){.level = IDEM_LOG_DEBUG, .message = "m"});
    idem_log_free(log);
    assert_string_equal(seen.text, rows[i].wanted);
  }
}

static void a_json_line_begins_with_its_timestamp(void **state) {
  (void)state;
  uint64_t now = UINT64_MAX;
  idem_log *log = NULL;
  seen = (sink){.len = 0};
  idem_log_opts opts = {.format = IDEM_LOG_JSON,
                        .write = keep,
                        .write_ctx = &seen,
                        .wall_us = fixed_clock,
                        .wall_ctx = &now};
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  idem_log_write(log, &(idem_log_record){.level = IDEM_LOG_INFO, .message = "m"});
  idem_log_free(log);
  assert_string_equal(seen.text, "{\"timestamp\":\"586524-01-19T08:01:49.551615Z\","
                                 "\"severity\":\"info\",\"message\":\"m\"}\n");
}

static void colour_comes_only_when_asked_for(void **state) {
  (void)state;
  idem_log *log = NULL;
  seen = (sink){.len = 0};
  idem_log_opts opts = {.color = true, .write = keep, .write_ctx = &seen};
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  idem_log_write(log, &(idem_log_record){.level = IDEM_LOG_WARN, .message = "m"});
  idem_log_free(log);
  assert_string_equal(seen.text, "\x1b[33mWARN \x1b[0m m\n");
}

static void records_below_the_level_are_dropped(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_WARN);
  for (int level = -1; level <= IDEM_LOG_OFF; level++)
    idem_log_write(log, &(idem_log_record){.level = (idem_log_level)level, .message = "m"});
  assert_string_equal(seen.text, "WARN  m\nERROR m\n");
  idem_log_set_level(log, IDEM_LOG_OFF);
  assert_int_equal(idem_log_get_level(log), IDEM_LOG_OFF);
  idem_logf(log, IDEM_LOG_ERROR, "m", "%d", 1);
  assert_int_equal(seen.lines, 2);
  idem_log_free(log);
}

static void a_null_log_swallows_everything(void **state) {
  (void)state;
  idem_log_record record = sample();
  idem_log_bucket bucket = {0};
  idem_log_write(NULL, &record);
  idem_logf(NULL, IDEM_LOG_ERROR, "m", "%d", 1);
  idem__log_limited(NULL, &record, &bucket, 0);
  idem_log_set_level(NULL, IDEM_LOG_DEBUG);
  assert_int_equal(idem_log_get_level(NULL), IDEM_LOG_OFF);
  assert_int_equal(idem_log_add_secret(NULL, "abcd", 4), IDEM_E_INVAL);
  idem_log_free(NULL);
}

static void levels_are_read_in_any_case(void **state) {
  (void)state;
  idem_log_level level;
  assert_true(idem_log_level_parse("DeBug", 5, &level) && level == IDEM_LOG_DEBUG);
  assert_true(idem_log_level_parse("info", 4, &level) && level == IDEM_LOG_INFO);
  assert_true(idem_log_level_parse("WARN", 4, &level) && level == IDEM_LOG_WARN);
  assert_true(idem_log_level_parse("error", 5, &level) && level == IDEM_LOG_ERROR);
  assert_false(idem_log_level_parse("off", 3, &level));
  assert_false(idem_log_level_parse("warning", 7, &level));
  assert_false(idem_log_level_parse("", 0, &level));
  assert_string_equal(idem_log_level_text(IDEM_LOG_WARN), "warn");
  assert_string_equal(idem_log_level_text((idem_log_level)77), "unknown");
}

static void a_log_without_a_sink_or_with_a_wrong_level_is_refused(void **state) {
  (void)state;
  idem_log *log = NULL;
  idem_log_opts opts = {0};
  assert_int_equal(idem_log_new(NULL, &log), IDEM_E_INVAL);
  assert_int_equal(idem_log_new(&opts, &log), IDEM_E_INVAL);
  opts.write = keep;
  opts.level = (idem_log_level)9;
  assert_int_equal(idem_log_new(&opts, &log), IDEM_E_INVAL);
  assert_null(log);
}

static void no_field_can_begin_a_line_or_another_field(void **state) {
  (void)state;
  idem_log_record record = sample();
  record.method = "x\nERROR forged id=9 \"\\";
  record.method_len = strlen(record.method);
  record.id = "\"a\\\" peer=root\"";
  record.id_len = strlen(record.id);
  record.peer = "p\r\xe2\x80\xaeq";
  record.detail = "d\x1b[2J\xc2\x85\xff";
  record.detail_len = strlen(record.detail);
  expect(IDEM_LOG_TEXT, &record,
         "WARN  request refused id=\"\\\"a\\\\\\\" peer=root\\\"\" "
         "method=\"x\\nERROR forged id=9 \\\"\\\\\" peer=p\\r\\u{202e}q "
         "detail=d\\x1b[2J\\u{0085}\\xff\n");
  expect(IDEM_LOG_JSON, &record,
         "{\"severity\":\"warn\",\"message\":\"request refused\","
         "\"method\":\"x\\nERROR forged id=9 \\\"\\\\\",\"id\":\"\\\"a\\\\\\\" peer=root\\\"\","
         "\"peer\":\"p\\r\\u202eq\",\"detail\":\"d\\u001b[2J\\u0085\xef\xbf\xbd\"}\n");
}

static void an_empty_method_is_shown_as_empty(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_WARN, .message = "m", .method = "", .method_len = 0};
  expect(IDEM_LOG_TEXT, &record, "WARN  m method=\"\"\n");
}

static void methods_and_ids_are_cut_at_128_bytes(void **state) {
  (void)state;
  char text[300], wanted[400];
  memset(text, 'm', sizeof text);
  idem_log_record record = {
      .level = IDEM_LOG_WARN, .message = "m", .method = text, .method_len = 128};
  snprintf(wanted, sizeof wanted, "WARN  m method=%.128s\n", text);
  expect(IDEM_LOG_TEXT, &record, wanted);
  record.method_len = 129;
  snprintf(wanted, sizeof wanted, "WARN  m method=%.128s...\n", text);
  expect(IDEM_LOG_TEXT, &record, wanted);
  record = (idem_log_record){.level = IDEM_LOG_WARN, .message = "m", .id = text, .id_len = 300};
  snprintf(wanted, sizeof wanted,
           "{\"severity\":\"warn\",\"message\":\"m\",\"id\":\"%.128s...\"}\n", text);
  expect(IDEM_LOG_JSON, &record, wanted);
  text[0] = '"';
  snprintf(wanted, sizeof wanted, "WARN  m id=\"\\\"%.127s...\"\n", text + 1);
  expect(IDEM_LOG_TEXT, &record, wanted);
}

static void the_worst_bytes_still_fit_a_line(void **state) {
  (void)state;
  static char bad[100000];
  for (int byte = 0; byte < 3; byte++) {
    memset(bad, "\x01\xff\""[byte], sizeof bad - 1);
    idem_log_record record = {.level = IDEM_LOG_WARN,
                              .message = "the worst",
                              .method = bad,
                              .method_len = sizeof bad - 1,
                              .id = bad,
                              .id_len = sizeof bad - 1,
                              .peer = bad,
                              .detail = bad,
                              .detail_len = sizeof bad - 1};
    for (int format = IDEM_LOG_TEXT; format <= IDEM_LOG_JSON; format++) {
      idem_log *log = open_log((idem_log_format)format, IDEM_LOG_DEBUG);
      idem_log_write(log, &record);
      record.message = bad;
      idem_log_write(log, &record);
      record.message = "the worst";
      idem_log_free(log);
      assert_int_equal(seen.lines, 2);
      assert_true(seen.longest <= 4096);
      assert_non_null(strstr(seen.text, format == IDEM_LOG_JSON ? "\"detail\":\"" : " detail="));
      assert_non_null(strstr(seen.text, format == IDEM_LOG_JSON ? "...\"}\n" : "...\n"));
    }
  }
}

static void details_are_redacted_and_other_fields_are_not(void **state) {
  (void)state;
  idem_log_record record = {.level = IDEM_LOG_INFO,
                            .message = "listening on unix:/run/x/y.sock",
                            .detail = "token=abc /home/bob/x",
                            .detail_len = 21};
  expect(IDEM_LOG_TEXT, &record,
         "INFO  listening on unix:/run/x/y.sock detail=token=[redacted] [redacted]\n");
}

static void known_secrets_appear_in_no_field(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  assert_int_equal(idem_log_add_secret(log, "hunter2!", 8), IDEM_OK);
  idem_log_write(log, &(idem_log_record){.level = IDEM_LOG_INFO,
                                         .message = "m hunter2!",
                                         .method = "xhunter2!",
                                         .method_len = 9,
                                         .id = "\"hunter2!\"",
                                         .id_len = 10,
                                         .peer = "hunter2!",
                                         .detail = "a hunter2! b",
                                         .detail_len = 12});
  idem_logf(log, IDEM_LOG_INFO, "m", "%s", "hunter2!");
  idem_log_free(log);
  assert_null(strstr(seen.text, "hunter2"));
  assert_int_equal(seen.lines, 2);
}

static void a_secret_at_the_cut_is_not_shown_in_part(void **state) {
  (void)state;
  for (int before = 2020; before < 2060; before++) {
    idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
    assert_int_equal(idem_log_add_secret(log, "hunter2!", 8), IDEM_OK);
    idem_logf(log, IDEM_LOG_INFO, "m", "%*s%s and much more behind it", before, "", "hunter2!");
    idem_log_free(log);
    assert_null(strstr(seen.text, "hu"));
  }
}

static void secrets_are_bounded_in_size_and_number(void **state) {
  (void)state;
  static char long_one[2000];
  memset(long_one, 'x', sizeof long_one);
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  assert_int_equal(idem_log_add_secret(log, "abc", 3), IDEM_E_INVAL);
  assert_int_equal(idem_log_add_secret(log, NULL, 9), IDEM_E_INVAL);
  assert_int_equal(idem_log_add_secret(log, long_one, 1025), IDEM_E_LIMIT);
  assert_int_equal(idem_log_add_secret(log, long_one, 1024), IDEM_OK);
  for (int i = 1; i < 64; i++) {
    char secret[16];
    snprintf(secret, sizeof secret, "abcd%d", i);
    assert_int_equal(idem_log_add_secret(log, secret, strlen(secret)), IDEM_OK);
    assert_int_equal(idem_log_add_secret(log, secret, strlen(secret)), IDEM_OK); /* known */
  }
  assert_int_equal(idem_log_add_secret(log, "abcd", 4), IDEM_E_LIMIT);
  assert_int_equal(idem_log_add_secret(log, "abcd7", 5), IDEM_OK);
  idem_log_free(log);
}

static void a_formatted_detail_longer_than_a_line_is_cut(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  idem_logf(log, IDEM_LOG_INFO, "m", "%10000d", 1);
  idem_log_free(log);
  assert_true(seen.longest < 2100);
  assert_string_equal(seen.text + seen.len - 5, " ...\n");
}

static void repeated_records_are_limited_to_ten_a_second(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  idem_log_bucket bucket = {0};
  idem_log_record record = {.level = IDEM_LOG_WARN, .message = "unknown notification"};
  for (int i = 0; i < 25; i++) idem__log_limited(log, &record, &bucket, 5000 + (uint64_t)i);
  assert_int_equal(seen.lines, 10);
  idem__log_limited(log, &record, &bucket, 5999);
  assert_int_equal(seen.lines, 10);
  idem__log_limited(log, &record, &bucket, 6000);
  assert_int_equal(seen.lines, 12);
  assert_non_null(strstr(seen.text, "WARN  similar records suppressed "
                                    "detail=16 more: unknown notification\nWARN  unknown"));
  idem_log_free(log);
}

static void the_end_of_a_bucket_tells_what_was_left_out_once(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  idem_log_bucket bucket = {0};
  idem_log_record record = {.level = IDEM_LOG_WARN};
  for (int i = 0; i < 13; i++) idem__log_limited(log, &record, &bucket, 0);
  idem_log_bucket_end(log, &bucket);
  idem_log_bucket_end(log, &bucket);
  assert_int_equal(seen.lines, 11);
  assert_non_null(strstr(seen.text, "detail=3 more: "));
  idem_log_free(log);
}

static void a_clock_that_goes_back_does_not_silence_the_log(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_DEBUG);
  idem_log_bucket bucket = {0};
  idem_log_record record = {.level = IDEM_LOG_WARN, .message = "m"};
  for (int i = 0; i < 10; i++) idem__log_limited(log, &record, &bucket, 9000);
  idem__log_limited(log, &record, &bucket, 10);
  assert_int_equal(seen.lines, 11);
  idem_log_free(log);
}

static void disabled_records_fill_no_bucket(void **state) {
  (void)state;
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_ERROR);
  idem_log_bucket bucket = {0};
  idem_log_record record = {.level = IDEM_LOG_WARN, .message = "m"};
  for (int i = 0; i < 20; i++) idem__log_limited(log, &record, &bucket, 0);
  assert_int_equal(bucket.suppressed, 0);
  idem_log_free(log);
}

static void open_and_use(fault_alloc *fault, void *user) {
  (void)user;
  idem_log *log = NULL;
  seen = (sink){.len = 0};
  idem_log_opts opts = {.write = keep, .write_ctx = &seen, .alloc = &fault->alloc};
  if (idem_log_new(&opts, &log) != IDEM_OK) {
    assert_null(log);
    return;
  }
  (void)idem_log_add_secret(log, "hunter2!", 8);
  size_t calls = fault->calls;
  idem_log_record record = sample();
  idem_log_write(log, &record);
  assert_int_equal(fault->calls, calls);
  idem_log_free(log);
}

static void no_want_of_memory_leaks_and_lines_need_none(void **state) {
  (void)state;
  assert_int_equal(fault_alloc_sweep(open_and_use, NULL, 100), 2);
}

typedef struct looker {
  char text[4096];
  size_t len;
} looker;

static void look(idem_log_level level, const char *line, size_t len, void *user) {
  looker *self = user;
  (void)level;
  assert_true(self->len + len < sizeof self->text);
  memcpy(self->text + self->len, line, len);
  self->len += len;
  self->text[self->len] = 0;
}

static void who_watches_may_see_more_than_is_written(void **state) {
  (void)state;
  looker seen_too = {.len = 0};
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_WARN);
  idem_log_watch(log, IDEM_LOG_DEBUG, look, &seen_too);
  assert_true(idem_log_enabled(log, IDEM_LOG_DEBUG) && idem__log_is_debug(log));
  assert_int_equal(idem_log_get_level(log), IDEM_LOG_WARN);
  idem_logf(log, IDEM_LOG_DEBUG, "shown", "%s", "x");
  assert_int_equal(seen.lines, 0);
  idem_log_set_level(log, IDEM_LOG_INFO);
  idem_logf(log, IDEM_LOG_INFO, "both", "%s", "x");
  assert_int_equal(seen.lines, 1);
  idem_log_watch(log, IDEM_LOG_OFF, NULL, NULL);
  assert_false(idem_log_enabled(log, IDEM_LOG_DEBUG));
  idem_logf(log, IDEM_LOG_DEBUG, "neither", "%s", "x");
  assert_int_equal(seen.lines, 1);
  assert_string_equal(seen_too.text,
                      "{\"severity\":\"debug\",\"message\":\"shown\",\"detail\":\"x\"}\n"
                      "{\"severity\":\"info\",\"message\":\"both\",\"detail\":\"x\"}\n");
  idem_log_free(log);
}

static void who_watches_sees_json_from_a_level_on(void **state) {
  (void)state;
  looker seen_too = {.len = 0};
  idem_log *log = open_log(IDEM_LOG_TEXT, IDEM_LOG_INFO);
  idem_log_watch(log, IDEM_LOG_WARN, look, &seen_too);
  assert_int_equal(idem_log_add_secret(log, "hush-hush", 9), IDEM_OK);
  idem_logf(log, IDEM_LOG_INFO, "not shown", "%s", "x");
  idem_logf(log, IDEM_LOG_WARN, "shown", "%s", "with hush-hush");
  idem_log_watch(log, IDEM_LOG_OFF, NULL, NULL);
  idem_logf(log, IDEM_LOG_ERROR, "too late", "%s", "x");
  assert_string_equal(
      seen_too.text,
      "{\"severity\":\"warn\",\"message\":\"shown\",\"detail\":\"with [redacted]\"}\n");
  assert_int_equal(seen.lines, 3);
  idem_log_free(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_watches_sees_json_from_a_level_on),
      cmocka_unit_test(who_watches_may_see_more_than_is_written),
      cmocka_unit_test(a_text_line_reads_from_left_to_right),
      cmocka_unit_test(a_json_line_has_the_same_members),
      cmocka_unit_test(method_and_id_are_redacted_as_detail_is),
      cmocka_unit_test(names_of_methods_stand_whole),
      cmocka_unit_test(a_plain_detail_keeps_its_paths_and_loses_added_secrets),
      cmocka_unit_test(absent_fields_are_left_out),
      cmocka_unit_test(an_id_that_is_null_is_shown),
      cmocka_unit_test(timestamps_are_utc_with_microseconds),
      cmocka_unit_test(a_json_line_begins_with_its_timestamp),
      cmocka_unit_test(colour_comes_only_when_asked_for),
      cmocka_unit_test(records_below_the_level_are_dropped),
      cmocka_unit_test(a_null_log_swallows_everything),
      cmocka_unit_test(levels_are_read_in_any_case),
      cmocka_unit_test(a_log_without_a_sink_or_with_a_wrong_level_is_refused),
      cmocka_unit_test(no_field_can_begin_a_line_or_another_field),
      cmocka_unit_test(an_empty_method_is_shown_as_empty),
      cmocka_unit_test(methods_and_ids_are_cut_at_128_bytes),
      cmocka_unit_test(the_worst_bytes_still_fit_a_line),
      cmocka_unit_test(details_are_redacted_and_other_fields_are_not),
      cmocka_unit_test(known_secrets_appear_in_no_field),
      cmocka_unit_test(a_secret_at_the_cut_is_not_shown_in_part),
      cmocka_unit_test(secrets_are_bounded_in_size_and_number),
      cmocka_unit_test(a_formatted_detail_longer_than_a_line_is_cut),
      cmocka_unit_test(repeated_records_are_limited_to_ten_a_second),
      cmocka_unit_test(the_end_of_a_bucket_tells_what_was_left_out_once),
      cmocka_unit_test(a_clock_that_goes_back_does_not_silence_the_log),
      cmocka_unit_test(disabled_records_fill_no_bucket),
      cmocka_unit_test(no_want_of_memory_leaks_and_lines_need_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
