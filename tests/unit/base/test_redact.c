/* test_redact.c - secrets and paths do not survive, ordinary text does. Each row is a text and what
 * must become of it. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <time.h>

#define R "[redacted]"

typedef struct row {
  const char *text;
  const char *wanted;
} row;

static const idem_secret known[] = {{"s3cr3t-value", 12}, {"value-two", 9}, {"x=\"quo ted", 10}};

static void check(const char *text, const char *wanted, size_t secrets) {
  idem_buf out;
  idem_buf_init(&out, NULL, 1 << 20);
  assert_int_equal(idem_redact(&out, text, strlen(text), known, secrets), IDEM_OK);
  idem_buf_put(&out, "", 1);
  if (strcmp(out.data, wanted) != 0) print_error("text: %s\n", text);
  assert_string_equal(out.data, wanted);
  idem_buf_deinit(&out);
}

#define CHECK_ALL(rows)                                                                            \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); i++)                                       \
  check((rows)[i].text, (rows)[i].wanted, 0)
#define UNCHANGED(rows)                                                                            \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); i++) check((rows)[i], (rows)[i], 0)

static void headers_lose_their_value_to_the_end_of_the_line(void **state) {
  (void)state;
  static const row rows[] = {
      {"Authorization: Bearer abc.def-123", "Authorization: " R},
      {"authorization: Digest username=\"bob\", response=\"12ab\"\r\nHost: h",
       "authorization: " R "\r\nHost: h"},
      {"Proxy-Authorization:Basic Zm9vOmJhcg==\nX: y", "Proxy-Authorization:" R "\nX: y"},
      {"Cookie: a=b; c=d", "Cookie: " R},
      {"Set-Cookie: id=1; Path=/; HttpOnly\nnext", "Set-Cookie: " R "\nnext"},
      {"curl -H 'Authorization: Bearer x' https://host/path",
       "curl -H 'Authorization: " R "' https://host/path"},
      {"\"Cookie: a=\\\"b\" rest", "\"Cookie: " R "\" rest"},
      {"\"Cookie: unclosed\nnext\"", "\"Cookie: " R "\nnext\""},
      {"{\\\"h\\\":\\\"Cookie: abc\\\",\\\"n\\\":1}",
       "{\\\"h\\\":\\\"Cookie: " R "\\\",\\\"n\\\":1}"},
      {"{\"Authorization\":\"Bearer x\",\"n\":1}", "{\"Authorization\":\"" R "\",\"n\":1}"},
      {"Authorization:", "Authorization:"},
  };
  CHECK_ALL(rows);
}

static void bearer_and_basic_credentials_go_wherever_they_stand(void **state) {
  (void)state;
  static const row rows[] = {
      {"sent Bearer abc123 to it", "sent Bearer " R " to it"},
      {"BEARER   x", "BEARER   " R},
      {"(bearer abc)", "(bearer " R ")"},
      {"Basic dXNlcjpwYXNz", "Basic " R},
      {"basic Zm9vOmJhcg==, next", "basic " R ", next"},
      {"got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln here", "got " R " here"},
      {"uses ghp_0123456789abcdefABCDEF", "uses " R},
      {"sk-0123456789abcdef0123456789", R},
  };
  CHECK_ALL(rows);
}

static void prose_about_credentials_stays(void **state) {
  (void)state;
  static const char *const rows[] = {
      "Bearer token missing",
      "basic usage of this",
      "Basic authentication is required",
      "bearer authentication.",
      "WWW-Authenticate: Bearer realm=\"idem\"",
      "Bearer",
      "bearer ",
      "forebearer abc",
      "sk-short",
      "sk-learn-is-a-library-without-digits",
      "eyJ",
  };
  UNCHANGED(rows);
}

static void query_and_key_value_secrets_go(void **state) {
  (void)state;
  static const row rows[] = {
      {"?token=abc&api_key=def&page=2", "?token=" R "&api_key=" R "&page=2"},
      {"https://h/cb?code=abc&state=s#access_token=t",
       "https://h/cb?code=" R "&state=s#access_token=" R},
      {"https://h/?key=abc&sig=1", "https://h/?key=" R "&sig=" R},
      {"password=hunter2 rest", "password=" R " rest"},
      {"password=a,b:c rest", "password=" R " rest"},
      {"PASSWORD = 'it is' rest", "PASSWORD = '" R "' rest"},
      {"Server=x;Password=abc;User=y", "Server=x;Password=" R ";User=y"},
      {"X-Api-Key: 12345\nnext", "X-Api-Key: " R "\nnext"},
      {"token: Bearer abc def", "token: " R " def"},
      {"token: basic abc", "token: " R},
      {"user[password]=x", "user[password]=" R},
      {"redirect=token%3Dabc%26x rest", "redirect=token%3D" R " rest"},
      {"pass%77ord=x", "pass%77ord=" R},
      {"secret => x", "secret => " R},
      {"secret := x", "secret := " R},
      {"client.secret=x", "client.secret=" R},
      {"Mcp-Session-Id: 1f2e", "Mcp-Session-Id: " R},
      {"AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=" R},
      {"password='unclosed value", "password='" R},
      {"--token abc --verbose", "--token " R " --verbose"},
      {"[\"--api-key\",\"xyz\",\"ok\"]", "[\"--api-key\",\"" R "\",\"ok\"]"},
      {"[\"--token\", \"xyz\"]", "[\"--token\", \"" R "\"]"},
      {"--token=abc x", "--token=" R " x"},
  };
  CHECK_ALL(rows);
}

static void key_like_json_members_lose_their_value(void **state) {
  (void)state;
  static const row rows[] = {
      {"{\"password\":\"x\",\"n\":1}", "{\"password\":\"" R "\",\"n\":1}"},
      {"{\"client_secret\" : \"a\\\"b\", \"n\":1}", "{\"client_secret\" : \"" R "\", \"n\":1}"},
      {"{\"clientSecret\":\"a\\\\\",\"n\":1}", "{\"clientSecret\":\"" R "\",\"n\":1}"},
      {"{\"pass\\u0077ord\":\"x\"}", "{\"pass\\u0077ord\":\"" R "\"}"},
      {"{\"secret\":12345,\"n\":1}", "{\"secret\":" R ",\"n\":1}"},
      {"{\"secret\":12345}", "{\"secret\":" R "}"},
      {"[{\"pwd\":7}]", "[{\"pwd\":" R "}]"},
      {"{\"credentials\":{\"a\":[\"}\\\"\"],\"b\":1},\"n\":1}", "{\"credentials\":" R ",\"n\":1}"},
      {"{\"token\":[\"a\",\"b\"],\"n\":1}", "{\"token\":" R ",\"n\":1}"},
      {"{\"token\":\n   \"x\"}", "{\"token\":\n   \"" R "\"}"},
      {"{\"token\":\"unterminated", "{\"token\":\"" R},
      {"{\"token\":{\"unterminated\":\"x", "{\"token\":" R},
      {"{'token':'x','n':1}", "{'token':'" R "','n':1}"},
  };
  CHECK_ALL(rows);
}

static void json_inside_json_strings_is_read_at_its_depth(void **state) {
  (void)state;
  static const row rows[] = {
      {"{\"a\":\"{\\\"password\\\":\\\"x\\\",\\\"n\\\":2}\"}",
       "{\"a\":\"{\\\"password\\\":\\\"" R "\\\",\\\"n\\\":2}\"}"},
      {"\"{\\\"password\\\":\\\"x\\\\\\\"y\\\",\\\"n\\\":2}\"",
       "\"{\\\"password\\\":\\\"" R "\\\",\\\"n\\\":2}\""},
      {"\"{\\\"secret\\\":\\\"x\\\\\\\\\\\",\\\"n\\\":2}\"",
       "\"{\\\"secret\\\":\\\"" R "\\\",\\\"n\\\":2}\""},
      {"\\\\\\\"secret\\\\\\\":\\\\\\\"x\\\\\\\",\\\\\\\"n",
       "\\\\\\\"secret\\\\\\\":\\\\\\\"" R "\\\\\\\",\\\\\\\"n"},
      {"\"{\\\"secret\\\":{\\\"k\\\":\\\"}\\\"},\\\"n\\\":1}\"",
       "\"{\\\"secret\\\":" R ",\\\"n\\\":1}\""},
      {"\"{\\\"secret\\\":\\\"cut\" rest", "\"{\\\"secret\\\":\\\"" R "\" rest"},
  };
  CHECK_ALL(rows);
}

static void empty_and_null_values_are_no_secrets(void **state) {
  (void)state;
  static const char *const rows[] = {
      "{\"token\":null,\"password\":\"\",\"secret\":false,\"apiKey\":true}",
      "password=",
      "token=&x=1",
      "token: ",
      "--token --verbose",
      "--token",
  };
  UNCHANGED(rows);
}

static void names_that_only_look_similar_stay(void **state) {
  (void)state;
  static const char *const rows[] = {
      "max_tokens=100", "progressToken=5",    "\"workDoneToken\":\"7\"",
      "code=-32601",    "key=value",          "method: tools/call",
      "author=bob",     "\"name\":\"value\"", "monkey: 3",
      "passed=12",      "compass: north",     "token and secret without a value",
  };
  UNCHANGED(rows);
}

static void absolute_and_home_paths_go(void **state) {
  (void)state;
  static const row rows[] = {
      {"/home/bob/x", R},
      {"open /etc/hosts failed", "open " R " failed"},
      {"at /usr/lib/x.c:12: bad", "at " R ":12: bad"},
      {"(/var/log/a.log)", "(" R ")"},
      {"path=/srv/data/x,next", "path=" R ",next"},
      {"//etc/hosts", R},
      {"unix:/run/idem/x.sock", "unix:" R},
      {"PATH=/usr/bin:/usr/sbin", "PATH=" R ":" R},
      {"\\/etc\\/hosts", R},
      {"{\"f\":\"\\/etc\\/hosts\"}", "{\"f\":\"" R "\"}"},
      {"\"/home/bob/My Documents/a.txt\", next", "\"" R "\", next"},
      {"{\\\"f\\\":\\\"/home/bob/My Documents\\\",\\\"n\\\":1}",
       "{\\\"f\\\":\\\"" R "\\\",\\\"n\\\":1}"},
      {"'/home/bob/a b' next", "'" R "' next"},
      {"\"/home/bob unclosed", "\"" R " unclosed"},
      {"\"/home/bob\nnext\"", "\"" R "\nnext\""},
      {"/home/bob/a\\ b c", R " c"},
      {"~/x ~bob/y", R " " R},
      {"$HOME/x ${HOME}/y %USERPROFILE%\\z", R " " R " " R},
      {"C:\\Users\\bob\\x.txt rest", R " rest"},
      {"\"C:\\\\Users\\\\bob me\\\\x\" rest", "\"" R "\" rest"},
      {"C:/Users/bob", R},
      {"\\\\server\\share\\f rest", R " rest"},
      {"file:///home/bob/y.txt rest", "file://" R " rest"},
      {"file://host/share/y", "file://host" R},
      {"-I/home/bob/include", "-I" R},
      {"\xe2\x80\x9c/etc/hosts\xe2\x80\x9d rest", "\xe2\x80\x9c" R " rest"},
      {"http://h/x?file=/etc/hosts", "http://h/x?file=" R},
  };
  CHECK_ALL(rows);
}

static void ordinary_slashes_stay(void **state) {
  (void)state;
  static const char *const rows[] = {
      "a/b",
      "application/json",
      "1/2",
      "tools/list",
      "and/or",
      "*/*",
      "text/plain, */*;q=0.5",
      "https://example.com:80/a/b?x=1#f",
      "http://127.0.0.1:8420/mcp",
      "test://static-text",
      "POST /a/b/c HTTP/1.1",
      "GET /home HTTP/1.1",
      "/mcp",
      "/metrics and /healthz",
      "/",
      "//",
      "a / b",
      "caf\xc3\xa9/bar/baz",
      "11/15/2026",
      "~5 ms",
      "~",
      "~/",
      "a~/b",
      "c:",
      "c: x",
      "12:/x/",
      "\\n\\t",
      "\\",
      "$HOME",
      "$PATH/x",
      "</a>",
      "<br/>",
      "s/a/b/",
      "file://",
      "ratio 3:/",
  };
  UNCHANGED(rows);
}

static void user_information_leaves_an_address(void **state) {
  (void)state;
  static const row rows[] = {
      {"http://user:pw@example.com/x", "http://" R "@example.com/x"},
      {"redis://:p@ss@h:6379/0", "redis://" R "@h:6379/0"},
      {"ws://me@h", "ws://" R "@h"},
  };
  CHECK_ALL(rows);
  check("http://h/x@y", "http://h/x@y", 0);
}

static void configured_secrets_never_appear(void **state) {
  (void)state;
  static const row rows[] = {
      {"s3cr3t-value", R},
      {"xs3cr3t-valuey", "x" R "y"},
      {"s3cr3t-valus3cr3t-value", "s3cr3t-valu" R},
      {"s3cr3t-value-two", R},
      {"a=x=\"quo ted rest", "a=" R " rest"},
      {"password=abcs3cr3t-value rest", "password=" R " rest"},
      {"token=x=\"quo ted rest", "token=" R " rest"},
      {"prefix=\"quo tedtoken=x=\"quo ted", "prefi" R "token=" R},
      {"nothing here", "nothing here"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(rows[i].text, rows[i].wanted, 3);
}

/* Random texts out of suggestive pieces: no configured secret may come out of any of them. */
static void no_mixture_lets_a_configured_secret_through(void **state) {
  (void)state;
  static const char *const pieces[] = {"s3cr3t-value",
                                       "value-two",
                                       "x=\"quo ted",
                                       "token",
                                       "=",
                                       ":",
                                       " ",
                                       "\"",
                                       "\\",
                                       "/etc/x",
                                       "://",
                                       "@",
                                       "bearer ",
                                       "{",
                                       "}",
                                       "--token",
                                       ",",
                                       "%3D",
                                       "'",
                                       "s3cr3t-val",
                                       "C:\\",
                                       "~/",
                                       "Cookie: "};
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < 20000; round++) {
    char text[512] = "", result[8192];
    for (int i = 0; i < 12; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      strcat(text, pieces[random % (sizeof pieces / sizeof *pieces)]);
    }
    idem_buf out;
    idem_buf_fixed(&out, result, sizeof result - 1);
    assert_int_equal(idem_redact(&out, text, strlen(text), known, 3), IDEM_OK);
    result[out.len] = '\0';
    for (size_t i = 0; i < 3; i++) {
      if (!strstr(result, known[i].text)) continue;
      print_error("text: %s\nresult: %s\n", text, result);
      fail();
    }
  }
}

static void what_does_not_fit_leaves_the_buffer_as_it_was(void **state) {
  (void)state;
  const char *text = "a token=x and /home/bob/y end";
  for (size_t room = 0; room < 45; room++) {
    char storage[64];
    idem_buf out;
    idem_buf_fixed(&out, storage, room + 2);
    idem_buf_puts(&out, "k:");
    idem_status status = idem_redact(&out, text, strlen(text), NULL, 0);
    assert_true(status == IDEM_OK || (status == IDEM_E_LIMIT && out.len == 2));
    assert_int_equal(status == IDEM_OK, room >= strlen("a token=" R " and " R " end"));
  }
}

static void a_cut_shows_no_part_of_a_secret(void **state) {
  (void)state;
  const char *text = "0123456789 s3cr3t-value end and more text behind it";
  for (size_t room = 0; room < 40; room++) {
    char storage[64] = {0};
    idem_buf out;
    idem_buf_fixed(&out, storage, room);
    idem_redact_cut(&out, text, strlen(text), known, 3, true);
    assert_true(out.len <= room);
    assert_null(strstr(storage, "s3"));
  }
}

static void only_secrets_leaves_everything_else(void **state) {
  (void)state;
  char storage[128] = {0};
  idem_buf out;
  idem_buf_fixed(&out, storage, sizeof storage - 1);
  const char *text = "/home/bob token=x s3cr3t-value";
  idem_redact_cut(&out, text, strlen(text), known, 3, true);
  assert_string_equal(storage, "/home/bob token=x " R);
}

/* Processor time for `len` bytes of a piece repeated. */
static double seconds_for(const char *piece, size_t len) {
  char *text = test_malloc(len);
  size_t n = strlen(piece);
  for (size_t i = 0; i < len; i++) text[i] = piece[i % n];
  idem_buf out;
  idem_buf_init(&out, NULL, 16 * len);
  clock_t start = clock();
  assert_int_equal(idem_redact(&out, text, len, NULL, 0), IDEM_OK);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  idem_buf_deinit(&out);
  test_free(text);
  return seconds;
}

/* Texts made to provoke looking ahead and back. Eight times the text may take eight times as long;
 * square growth would take 64 times as long. The constant allows for a busy machine. */
static void hostile_texts_take_linear_time(void **state) {
  (void)state;
  static const char *const pieces[] = {
      "/a",         "\"/a/b ",   "\\\"/a/b ", "token={", "=",       ":",
      "://",        "a://b",     "a:",        "~a",      "\\",      "\"token\":\"\\",
      "bearer ",    "--token ",  "eyJ",       "sk-",     "C:\\",    "%3d",
      "'token':'",  "token=[\"", "@://",      "{\"",     "file://", "token:\\",
      "token:null "};
  for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
    double small = seconds_for(pieces[p], 16384), large = seconds_for(pieces[p], 131072);
    if (large > 24 * small + 0.1)
      print_error("piece %s: %f s, then %f s\n", pieces[p], small, large);
    assert_true(large <= 24 * small + 0.1);
  }
}

static void check_by(const idem_redaction *rules, const row *one) {
  idem_buf out;
  idem_buf_init(&out, NULL, 1 << 16);
  assert_int_equal(idem_redact_by(&out, one->text, strlen(one->text), rules), IDEM_OK);
  idem_buf_put(&out, "", 1);
  assert_string_equal(out.data, one->wanted);
  idem_buf_deinit(&out);
}

static void what_is_in_a_known_folder_is_named_from_there(void **state) {
  (void)state;
  static const char *const folders[] = {"/srv/app/docs", "/srv/app", "/", NULL};
  static const idem_redaction rules = {.secrets = known, .secret_count = 2, .folders = folders};
  static const row rows[] = {
      {"/srv/app/src/main.c:3:5: error", "src/main.c:3:5: error"},
      {"open \"/srv/app/docs/a b.md\"", "open \"a b.md\""},
      {"in /srv/app, then", "in ., then"},
      {"/srv/application/x", R},
      {"/srv/app/../../etc/passwd", R},
      {"/srv/app//etc/passwd", R},
      {"/home/bob/x and /srv/app/x", R " and x"},
      {"/srv/app/s3cr3t-value/x token=abc", R "/x token=" R},
      {"token=/srv/app/x", "token=" R},
      {"file:///srv/app/x", "file://" R},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_by(&rules, &rows[i]);
}

static void paths_can_be_kept_and_nothing_else(void **state) {
  (void)state;
  static const idem_redaction rules = {.secrets = known, .secret_count = 2, .keep_paths = true};
  static const row rows[] = {
      {"/home/bob/x: file:///etc/hosts", "/home/bob/x: file:///etc/hosts"},
      {"/home/s3cr3t-value: Bearer abc", "/home/" R ": Bearer " R},
      {"password=/home/x", "password=" R},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_by(&rules, &rows[i]);
}

static void redact_once(fault_alloc *fault, void *user) {
  (void)user;
  idem_buf out;
  idem_buf_init(&out, &fault->alloc, 1 << 16);
  for (int i = 0; i < 200; i++) {
    size_t before = out.len;
    if (idem_redact(&out, "a token=x b", 11, NULL, 0) != IDEM_OK) assert_int_equal(out.len, before);
  }
  idem_buf_deinit(&out);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(redact_once, NULL, 100) >= 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(headers_lose_their_value_to_the_end_of_the_line),
      cmocka_unit_test(bearer_and_basic_credentials_go_wherever_they_stand),
      cmocka_unit_test(prose_about_credentials_stays),
      cmocka_unit_test(query_and_key_value_secrets_go),
      cmocka_unit_test(key_like_json_members_lose_their_value),
      cmocka_unit_test(json_inside_json_strings_is_read_at_its_depth),
      cmocka_unit_test(empty_and_null_values_are_no_secrets),
      cmocka_unit_test(names_that_only_look_similar_stay),
      cmocka_unit_test(absolute_and_home_paths_go),
      cmocka_unit_test(ordinary_slashes_stay),
      cmocka_unit_test(user_information_leaves_an_address),
      cmocka_unit_test(configured_secrets_never_appear),
      cmocka_unit_test(no_mixture_lets_a_configured_secret_through),
      cmocka_unit_test(what_does_not_fit_leaves_the_buffer_as_it_was),
      cmocka_unit_test(a_cut_shows_no_part_of_a_secret),
      cmocka_unit_test(only_secrets_leaves_everything_else),
      cmocka_unit_test(what_is_in_a_known_folder_is_named_from_there),
      cmocka_unit_test(paths_can_be_kept_and_nothing_else),
      cmocka_unit_test(hostile_texts_take_linear_time),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
