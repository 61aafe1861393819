/* test_request.c - header names sorted into known ones, and values found by name. */
#include "http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *name;
  idem__http_known which;
} known[] = {
    {"host", IDEM__H_HOST},
    {"origin", IDEM__H_ORIGIN},
    {"accept", IDEM__H_ACCEPT},
    {"expect", IDEM__H_EXPECT},
    {"upgrade", IDEM__H_UPGRADE},
    {"user-agent", IDEM__H_USER_AGENT},
    {"content-type", IDEM__H_CONTENT_TYPE},
    {"content-length", IDEM__H_CONTENT_LENGTH},
    {"content-encoding", IDEM__H_CONTENT_ENCODING},
    {"authorization", IDEM__H_AUTHORIZATION},
    {"transfer-encoding", IDEM__H_TRANSFER_ENCODING},
    {"last-event-id", IDEM__H_LAST_EVENT_ID},
    {"x-name", IDEM__H_GIVEN},
    {"x-method-of", IDEM__H_GIVEN + 1},
    {"x-id-of-session", IDEM__H_GIVEN + 2},
    {"x-version-of-the-protocol", IDEM__H_GIVEN + 3},
    {"x-key-of-the-request", IDEM__H_GIVEN + 4},
};
static const idem__http_names given[] = {
    {.list = {"x-name", "x-method-of", "x-id-of-session", "x-version-of-the-protocol",
              "x-key-of-the-request"},
     .by_length = {[6] = 1, [11] = 2, [15] = 3, [25] = 4, [20] = 5}}};
#define KNOWN (sizeof known / sizeof known[0])

static void every_known_name_is_known_without_case(void **state) {
  (void)state;
  assert_int_equal(KNOWN, IDEM__H_KNOWN - 1);
  for (size_t i = 0; i < KNOWN; i++) {
    char upper[32];
    size_t len = strlen(known[i].name);
    for (size_t k = 0; k < len; k++) {
      char c = known[i].name[k];
      upper[k] = (char)(c >= 'a' && c <= 'z' ? c - 32 : c);
    }
    assert_int_equal(idem__http_known_header(given, known[i].name, len), known[i].which);
    assert_int_equal(idem__http_known_header(given, upper, len), known[i].which);
  }
}

/* Whatever character a token may hold instead of the right one makes it another name. */
static void one_other_character_is_another_name(void **state) {
  (void)state;
  static const char token[] =
      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (size_t i = 0; i < KNOWN; i++) {
    size_t len = strlen(known[i].name);
    for (size_t k = 0; k < len; k++) {
      for (const char *c = token; *c; c++) {
        char name[32];
        memcpy(name, known[i].name, len);
        name[k] = *c;
        bool same = idem__ascii_lower(*c) == known[i].name[k];
        assert_int_equal(idem__http_known_header(given, name, len) == known[i].which, same);
      }
    }
  }
}

/* A request with these headers, laid out in `text`. */
static void fill(idem_http_request *request, char *text, const char *const (*headers)[2],
                 size_t count) {
  size_t at = 0;
  memset(request, 0, sizeof *request);
  request->base = text;
  request->given = given;
  for (size_t i = 0; i < count; i++) {
    idem__http_header *header = &request->headers[i];
    header->name = (uint32_t)at;
    header->name_len = (uint32_t)strlen(headers[i][0]);
    at += (size_t)snprintf(text + at, 64, "%s", headers[i][0]);
    header->value = (uint32_t)at;
    header->value_len = (uint32_t)strlen(headers[i][1]);
    at += (size_t)snprintf(text + at, 64, "%s", headers[i][1]);
    idem__http_known which = idem__http_known_header(given, headers[i][0], header->name_len);
    request->known[which] = (uint8_t)(i + 1);
    request->known_count[which]++;
  }
  request->header_count = count;
}

static bool is(const idem_http_request *request, const char *name, const char *value) {
  idem__view found = idem__http_header_value(request, name);
  return value ? found.at && idem__view_is(found, value, strlen(value)) : !found.at;
}

static void a_value_is_found_unless_there_are_two(void **state) {
  (void)state;
  static const char *const headers[][2] = {{"X-Name", " echo "}, {"X-Other", "1"},
                                           {"X-Method-Of", "a"}, {"x-method-of", "b"},
                                           {"X-Twice", "first"}, {"x-twice", "second"}};
  static idem_http_request request;
  char text[256];
  fill(&request, text, headers, 6);
  assert_true(is(&request, "x-name", "echo"));
  assert_true(is(&request, "x-other", "1"));
  assert_true(is(&request, "x-method-of", NULL));
  assert_true(is(&request, "x-twice", NULL));
  assert_true(is(&request, "mcp-session-id", NULL));
  assert_true(idem__view_eq(idem__http_given_value(&request, 0), "echo"));
  assert_null(idem__http_given_value(&request, 1).at);
  assert_null(idem__http_given_value(&request, 2).at);
}

static void every_accept_header_counts(void **state) {
  (void)state;
  static const char *const headers[][2] = {{"Accept", "text/plain"},
                                           {"accept", "application/json;q=0.5"}};
  static idem_http_request request;
  char text[256];
  fill(&request, text, headers, 1);
  assert_false(idem__http_accepts(&request, "application/json"));
  fill(&request, text, headers, 2);
  assert_true(idem__http_accepts(&request, "application/json"));
  assert_true(idem__http_accepts(&request, "text/plain"));
}

/* RFC 9110, 12.5.1: the most specific range that names a type says whether it is taken; a weight of zero says that it is not. */
static void the_closest_range_of_accept_decides(void **state) {
  (void)state;
  static const struct {
    const char *accept;
    bool json, events;
  } rows[] = {
      {"*/*", true, true},
      {"", true, true},
      {" ", true, true},
      {"application/json;q=0, */*", false, true},
      {"*/*, application/json;q=0", false, true},
      {"text/event-stream;q=0, */*", true, false},
      {"*/*;q=0", false, false},
      {"*/*;q=0, application/json", true, false},
      {"application/*;q=0, application/json", true, false},
      {"application/json;q=0, application/*", false, false},
      {"application/json;q=0, application/*, text/*;q=0.001", false, true},
      {"text/*;q=0, */*", true, false},
      {"application/json; q=0.000, text/event-stream", false, true},
      {"application/json ;\tQ=0", false, false},
      {"application/json;q=0.001", true, false},
      {"application/json;q=0.", false, false},
      {"application/json;q=00", false, false},
      {"application/json;q=0, application/json", true, false},
      {"application/json;charset=utf-8;q=0", false, false},
      {"application/json;charset=utf-8", true, false},
      {"application/json;x=q=0", true, false},
      {"application/json;q=zero", true, false},
      {"application/json;q=", true, false},
      {"application/json;", true, false},
      {"application/json;;q=0", false, false},
      {"application/jsonx, application", false, false},
      {"text/html", false, false},
      {",,", false, false},
      {"APPLICATION/*", true, false},
  };
  static idem_http_request request;
  char text[256];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *const headers[][2] = {{"Accept", rows[i].accept}};
    fill(&request, text, headers, 1);
    if (idem__http_accepts(&request, "application/json") != rows[i].json ||
        idem__http_accepts(&request, "text/event-stream") != rows[i].events)
      fail_msg("Accept: %s", rows[i].accept);
  }
}

static void several_accept_headers_are_one_list(void **state) {
  (void)state;
  static const char *const headers[][2] = {{"Accept", "*/*"}, {"Accept", "application/json;q=0"}};
  static idem_http_request request;
  char text[256];
  fill(&request, text, headers, 2);
  assert_false(idem__http_accepts(&request, "application/json"));
  assert_true(idem__http_accepts(&request, "text/event-stream"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_known_name_is_known_without_case),
      cmocka_unit_test(one_other_character_is_another_name),
      cmocka_unit_test(a_value_is_found_unless_there_are_two),
      cmocka_unit_test(every_accept_header_counts),
      cmocka_unit_test(the_closest_range_of_accept_decides),
      cmocka_unit_test(several_accept_headers_are_one_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
