/* test_metadata.c - where metadata lie, whose they may be, which URLs may be asked, and the sets that scopes are. */
#include "auth/auth.h"
#include "support/unit.h"

static idem_alloc alloc;

static void expect_places(char *(*place)(const idem_alloc *, const char *, unsigned, idem_status *),
                          const char *of, const char *const *expected) {
  idem_status status;
  alloc = idem__alloc_or_default(NULL);
  for (unsigned i = 0;; i++) {
    char *found = place(&alloc, of, i, &status);
    assert_int_equal(status, IDEM_OK);
    if (!expected[i]) {
      assert_null(found);
      return;
    }
    assert_non_null(found);
    assert_string_equal(found, expected[i]);
    idem__free(&alloc, found);
  }
}

static void metadata_lie_in_well_known_places(void **state) {
  (void)state;
#define PLACES(...) ((const char *const[]){__VA_ARGS__, NULL})
  expect_places(idem__auth_resource_place, "https://h:1/a/b?q",
                PLACES("https://h:1/.well-known/oauth-protected-resource/a/b",
                       "https://h:1/.well-known/oauth-protected-resource"));
  expect_places(idem__auth_resource_place, "https://h/",
                PLACES("https://h/.well-known/oauth-protected-resource"));
  expect_places(idem__auth_server_place, "https://h/t",
                PLACES("https://h/.well-known/oauth-authorization-server/t",
                       "https://h/.well-known/openid-configuration/t",
                       "https://h/t/.well-known/openid-configuration"));
  expect_places(idem__auth_server_place, "https://h",
                PLACES("https://h/.well-known/oauth-authorization-server",
                       "https://h/.well-known/openid-configuration"));
}

#define WELL_KNOWN "https://h/.well-known/oauth-protected-resource"

typedef struct claim {
  const char *resource, *place, *url;
} claim;

/* RFC 9728, 3.3. */
static void metadata_are_of_the_server_or_of_what_their_place_is_made_of(void **state) {
  (void)state;
  static const claim good[] = {
      {"https://h/mcp", WELL_KNOWN "/mcp", "https://h/mcp"},
      {"HTTPS://H/mcp", WELL_KNOWN "/mcp", "https://h/mcp"}, /* RFC 3986, 6.2.2.1 */
      {"https://h", WELL_KNOWN, "https://h/mcp"},
      {"https://h/", WELL_KNOWN, "https://h/mcp"},
      {"https://h", WELL_KNOWN, "https://h"},
      {"https://h/mcp", WELL_KNOWN, "https://h/mcp"}, /* the root place of a server that has one */
      {"https://h/a", WELL_KNOWN "/a", "https://h/a/mcp"}, /* as a challenge may say */
      {"https://h/mcp", "https://h/prm.json", "https://h/mcp"},
      {"https://h/mcp", "https://elsewhere/prm", "https://h/mcp"},
      {"https://h/mcp", WELL_KNOWN "/mcp", "https://h/mcp/"}, /* the place is the same for both */
      {"https://h/mcp/", WELL_KNOWN "/mcp", "https://h/mcp"},
      {"https://h/mcp", WELL_KNOWN "/mcp", "https://h/mcp?x=1"},
      {"https://h/mcp?x=1", WELL_KNOWN "/mcp?x=1", "https://h/mcp?x=1"}};
  static const claim bad[] = {
      {"https://h", WELL_KNOWN "/mcp", "https://h/mcp"},
      {"https://h", "https://h/prm.json", "https://h/mcp"},
      {"https://h/a", WELL_KNOWN "/a/mcp", "https://h/a/mcp"},
      {"https://h/a", WELL_KNOWN, "https://h/a/mcp"},
      {"https://h/a", WELL_KNOWN "/a", "https://h/ab"},
      {"https://h/other", WELL_KNOWN "/other", "https://h/mcp"},
      {"https://h/mcp/x", WELL_KNOWN "/mcp/x", "https://h/mcp"},
      {"https://h", WELL_KNOWN "x", "https://h/mcp"},
      {"https://h/x", WELL_KNOWN "x", "https://h/x/mcp"},
      {"https://h", "https://elsewhere/.well-known/oauth-protected-resource", "https://h/mcp"},
      {"https://elsewhere", "https://elsewhere/.well-known/oauth-protected-resource",
       "https://h/mcp"},
      {"https://h/mcp?x=1", WELL_KNOWN "/mcp", "https://h/mcp"},
      {"https://h/mcp?x=1", WELL_KNOWN "/mcp", "https://h/mcp?x=2"},
      {"https://h?x=1", WELL_KNOWN "?x=1", "https://h/mcp?x=1"}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!idem__auth_resource_fits(good[i].resource, good[i].place, good[i].url))
      fail_msg("%s at %s is not %s", good[i].resource, good[i].place, good[i].url);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__auth_resource_fits(bad[i].resource, bad[i].place, bad[i].url))
      fail_msg("%s at %s is %s", bad[i].resource, bad[i].place, bad[i].url);
}

static void no_other_resource_is_the_server(void **state) {
  (void)state;
  static const char *const others[] = {"https://h/mc",
                                       "https://h/mcp/x",
                                       "https://h/MCP",
                                       "https://h:1/mcp",
                                       "http://h/mcp",
                                       "https://evil/mcp",
                                       "https://h.evil/mcp",
                                       "https://h/mcp?x=1",
                                       "h/mcp",
                                       ""};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (idem__auth_resource_fits(others[i], WELL_KNOWN "/mcp", "https://h/mcp"))
      fail_msg("%s", others[i]);
}

static void only_https_and_loopback_are_asked(void **state) {
  (void)state;
  static const char *const good[] = {"https://example.org", "http://localhost:1/x",
                                     "http://127.0.0.1", "http://127.1.2.3:80/", "http://[::1]:8/"};
  static const char *const bad[] = {"http://example.org",
                                    "http://127.0.0.1.evil.org/",
                                    "http://localhost.evil",
                                    "ftp://localhost",
                                    "https://",
                                    "https://a@localhost/",
                                    "http://[::1",
                                    "http://localhost:x/",
                                    "https://h/\nx",
                                    "https://h/#f",
                                    "javascript:alert(1)",
                                    "http://[::2]/",
                                    "https://h:123456/",
                                    "http://127.0.0/"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!idem__auth_url_is_safe(good[i])) fail_msg("%s", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (idem__auth_url_is_safe(bad[i])) fail_msg("%s", bad[i]);
}

static void scopes_are_sets(void **state) {
  idem_status status;
  (void)state;
  alloc = idem__alloc_or_default(NULL);
  char *both = idem__auth_scope_union(&alloc, "a b", " b  c a ", &status);
  assert_string_equal(both, "a b c");
  assert_true(idem__auth_scope_has(both, "c a"));
  assert_false(idem__auth_scope_has(both, "a d"));
  assert_true(idem__auth_scope_has(NULL, NULL));
  assert_false(idem__auth_scope_has(NULL, "a"));
  idem__free(&alloc, both);
  assert_null(idem__auth_scope_union(&alloc, NULL, "", &status));
  assert_int_equal(status, IDEM_OK);
}

static void forms_are_decoded_and_doubts_refused(void **state) {
  (void)state;
  alloc = idem__alloc_or_default(NULL);
#define GET(form, name) idem__auth_form_get(&alloc, form, strlen(form), name)
  char *value = GET("a=1&code=x%2Fy+z&b=", "code");
  assert_string_equal(value, "x/y z");
  idem__free(&alloc, value);
  assert_null(GET("code=1&code=2", "code"));
  assert_null(GET("xcode=1", "code"));
  assert_null(GET("code=%4", "code"));
  assert_null(GET("code=%00", "code"));
  assert_null(GET("code=%ff", "code"));
  assert_null(GET("", "code"));
}

static void documents_that_cannot_be_are_refused(void **state) {
  static const char *const servers[] = {
      "[]",
      "{}",
      "{\"issuer\":\"https://h\"}",
      "{\"issuer\":1,\"token_endpoint\":\"https://h/t\"}",
      "{\"issuer\":\"https://h\",\"token_endpoint\":\"http://h/t\"}",
      "{\"issuer\":\"https://h\",\"token_endpoint\":\"ftp:x\"}",
      "{\"issuer\":\"https://h\\u0000\",\"token_endpoint\":\"https://h/t\"}"};
  static const char *const resources[] = {
      "{}", "{\"resource\":\"https://h\"}",
      "{\"resource\":\"https://h\",\"authorization_servers\":[]}",
      "{\"resource\":\"https://h\",\"authorization_servers\":[\"http://h\"]}",
      "{\"resource\":\"https://h\",\"authorization_servers\":[7]}"};
  const char *why;
  (void)state;
  alloc = idem__alloc_or_default(NULL);
  for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
    idem__auth_server found;
    why = NULL;
    if (idem__auth_server_read(&alloc, servers[i], strlen(servers[i]), &found, &why) !=
        IDEM_E_INVAL)
      fail_msg("%s", servers[i]);
    assert_non_null(why);
  }
  for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
    idem__auth_resource found;
    why = NULL;
    if (idem__auth_resource_read(&alloc, resources[i], strlen(resources[i]), &found, &why) !=
        IDEM_E_INVAL)
      fail_msg("%s", resources[i]);
    assert_non_null(why);
  }
}

static void only_addresses_of_the_world_are_public(void **state) {
  static const uint8_t open4[][4] = {{1, 1, 1, 1},     {8, 8, 8, 8},     {172, 32, 0, 1},
                                     {100, 128, 0, 1}, {192, 169, 0, 1}, {223, 255, 255, 255},
                                     {11, 0, 0, 1}};
  static const uint8_t closed4[][4] = {{0, 0, 0, 0},        {10, 1, 2, 3},        {100, 64, 0, 1},
                                       {127, 0, 0, 1},      {169, 254, 169, 254}, {172, 16, 0, 1},
                                       {172, 31, 255, 255}, {192, 168, 1, 1},     {198, 19, 0, 1},
                                       {224, 0, 0, 1},      {255, 255, 255, 255}};
  static const uint8_t open6[][16] = {{0x26, 0x06, 0x47},
                                      {0x20, 0x02, 8, 8, 8, 8},
                                      {[10] = 0xff, [11] = 0xff, [12] = 8, [13] = 8},
                                      {0, 0x64, 0xff, 0x9b, [12] = 8, [13] = 8}};
  static const uint8_t closed6[][16] = {{0},
                                        {[15] = 1},
                                        {0xfe, 0x80},
                                        {0xfc},
                                        {0xfd, 1},
                                        {0xff, 2},
                                        {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1},
                                        {0, 0x64, 0xff, 0x9b, [12] = 10},
                                        {0x20, 0x02, 192, 168, 1, 1},
                                        {0x20, 0x01, 0, 0, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof open4 / 4; i++)
    assert_true(idem__auth_address_is_public(open4[i], 4));
  for (size_t i = 0; i < sizeof closed4 / 4; i++)
    assert_false(idem__auth_address_is_public(closed4[i], 4));
  for (size_t i = 0; i < sizeof open6 / 16; i++)
    assert_true(idem__auth_address_is_public(open6[i], 16));
  for (size_t i = 0; i < sizeof closed6 / 16; i++)
    assert_false(idem__auth_address_is_public(closed6[i], 16));
  assert_false(idem__auth_address_is_public(open6[0], 6));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(metadata_lie_in_well_known_places),
      cmocka_unit_test(metadata_are_of_the_server_or_of_what_their_place_is_made_of),
      cmocka_unit_test(no_other_resource_is_the_server),
      cmocka_unit_test(only_https_and_loopback_are_asked),
      cmocka_unit_test(only_addresses_of_the_world_are_public),
      cmocka_unit_test(scopes_are_sets),
      cmocka_unit_test(forms_are_decoded_and_doubts_refused),
      cmocka_unit_test(documents_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
