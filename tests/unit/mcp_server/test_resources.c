/* test_resources.c - resources are listed as each revision knows them, found by URI or template, read
 * as text or bytes; what is missing is an error that names the URI. */
#include "support/mcp_peer.h"
#include "support/unit.h"

/* ---------------------------------------------------------------- fixture */

static idem_request *kept;

static void read_text(idem_request *request, const char *uri, void *user) {
  (void)uri;
  idem_resource_text(request, NULL, user, strlen(user));
}

static void read_bytes(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_blob(request, "image/png", "\x89PNG\0", 5);
}

static void read_variable(idem_request *request, const char *uri, void *user) {
  (void)uri;
  const char *value = idem_uri_variable(request, user);
  assert_null(idem_uri_variable(request, "no_such_variable"));
  if (!value)
    idem_resource_missing(request);
  else
    idem_resource_text(request, "text/plain", value, strlen(value));
}

static void read_several(idem_request *request, const char *uri, void *user) {
  (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *contents = yyjson_mut_arr(doc);
  yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, contents);
  yyjson_mut_obj_add_str(doc, one, "uri", uri);
  yyjson_mut_obj_add_str(doc, one, "text", "one");
  yyjson_mut_val *meta = yyjson_mut_obj_add_obj(doc, one, "_meta");
  yyjson_mut_obj_add_int(doc, meta, "x", 1);
  yyjson_mut_val *two = yyjson_mut_arr_add_obj(doc, contents);
  yyjson_mut_obj_add_str(doc, two, "uri", "dir://x/2");
  yyjson_mut_obj_add_str(doc, two, "mimeType", "a/b");
  yyjson_mut_obj_add_str(doc, two, "blob", "AA==");
  yyjson_mut_obj_add_str(doc, two, "unknown", "left out");
  idem_resource_reply(request, contents);
}

static void read_malformed(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *contents = yyjson_mut_arr(doc);
  yyjson_mut_arr_add_obj(doc, contents);
  assert_int_equal(idem_resource_reply(request, contents), IDEM_E_INVAL);
}

static void read_later(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_request_keep(request);
  kept = request;
}

static void read_nothing(idem_request *request, const char *uri, void *user) {
  (void)request, (void)uri, (void)user;
}

static void read_as_prompt(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  assert_int_equal(idem_prompt_text(request, "x", 1), IDEM_E_STATE);
}

static void add(idem_server *server, const idem_resource *resource) {
  char why[128] = "";
  if (idem_server_add_resource(server, resource, why, sizeof why) != IDEM_OK) fail_msg("%s", why);
}

static void add_plain(idem_server *server, const char *uri, idem_resource_fn fn) {
  add(server, &(idem_resource){.uri = uri, .name = uri, .fn = fn});
}

static void add_template(idem_server *server, const char *uri, const char *variable) {
  union {
    const char *in;
    void *out;
  } user = {variable};
  add(server,
      &(idem_resource){
          .uri = uri, .name = uri, .is_template = true, .fn = read_variable, .user = user.out});
}

static idem_server *full_server(void) {
  static char text[] = "hello", variable[] = "id";
  idem_server *server = mcp_test_server(&(idem_server_opts){.ttl_ms = 5, .cache_private = true});
  add(server, &(idem_resource){.uri = "test://text",
                               .name = "text",
                               .title = "A text",
                               .description = "says hello",
                               .mime_type = "text/plain",
                               .annotations = "{ \"audience\": [\"user\"], \"priority\": 0.5,"
                                              " \"lastModified\": \"2025-01-12T15:00:58Z\" }",
                               .icons = "[ {\"src\": \"https://x/y.png\"} ]",
                               .meta = "{ \"a/b\": 1 }",
                               .size = 5,
                               .fn = read_text,
                               .user = text});
  add(server, &(idem_resource){.uri = "test://item/{id}",
                               .name = "item",
                               .title = "An item",
                               .mime_type = "text/plain",
                               .size = 7,
                               .is_template = true,
                               .fn = read_variable,
                               .user = variable});
  return server;
}

/* ------------------------------------------------------------------ lists */

static void a_list_holds_what_the_revision_knows(void **state) {
  (void)state;
  static const char *const lists[MCP_TEST_REVISIONS] = {
      "\"result\":{\"resources\":[{\"uri\":\"test://"
      "text\",\"name\":\"text\",\"description\":\"says "
      "hello\",\"mimeType\":\"text/plain\",\"annotations\":{\"audience\":[\"user\"],\"priority\":"
      "0.5},\"size\":5}]}",
      "\"result\":{\"resources\":[{\"uri\":\"test://"
      "text\",\"name\":\"text\",\"description\":\"says "
      "hello\",\"mimeType\":\"text/plain\",\"annotations\":{\"audience\":[\"user\"],\"priority\":"
      "0.5},\"size\":5}]}",
      "\"result\":{\"resources\":[{\"uri\":\"test://text\",\"name\":\"text\",\"title\":\"A "
      "text\",\"description\":\"says hello\",\"mimeType\":\"text/plain\",\"annotations\":{"
      "\"audience\":[\"user\"],\"priority\":0.5,\"lastModified\":\"2025-01-12T15:00:58Z\"},"
      "\"size\":5,\"_meta\":{\"a/b\":1}}]}",
      "\"result\":{\"resources\":[{\"uri\":\"test://text\",\"name\":\"text\",\"title\":\"A "
      "text\",\"description\":\"says hello\",\"mimeType\":\"text/plain\",\"annotations\":{"
      "\"audience\":[\"user\"],\"priority\":0.5,\"lastModified\":\"2025-01-12T15:00:58Z\"},"
      "\"size\":5,\"icons\":[{\"src\":\"https://x/y.png\"}],\"_meta\":{\"a/b\":1}}]}",
      "\"result\":{\"resultType\":\"complete\",\"resources\":[{\"uri\":\"test://text\",\"name\":"
      "\"text\",\"title\":\"A text\",\"description\":\"says hello\",\"mimeType\":\"text/plain\","
      "\"annotations\":{\"audience\":[\"user\"],\"priority\":0.5,\"lastModified\":\"2025-01-12T15:"
      "00:58Z\"},\"size\":5,\"icons\":[{\"src\":\"https://x/y.png\"}],\"_meta\":{\"a/b\":1}}],"
      "\"ttlMs\":5,\"cacheScope\":\"private\"," MCP_TEST_INFO "}",
  };
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    idem_server *server = full_server();
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect(&peer, "resources/list", "", lists[i]);
    mcp_peer_expect_part(&peer, "resources/templates/list", "",
                         i < 2 ? "\"resourceTemplates\":[{\"uriTemplate\":\"test://item/{id}\","
                                 "\"name\":\"item\",\"mimeType\":\"text/plain\"}]"
                               : "\"resourceTemplates\":[{\"uriTemplate\":\"test://item/{id}\","
                                 "\"name\":\"item\",\"title\":\"An item\",\"mimeType\":"
                                 "\"text/plain\"}]");
    mcp_peer_close_with(&peer, server);
  }
}

/* ---------------------------------------------------------------- reading */

static void a_text_is_read_in_every_revision(void **state) {
  (void)state;
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    idem_server *server = full_server();
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect(&peer, "resources/read", "\"uri\":\"test://text\"",
                    peer.modern
                        ? "\"result\":{\"resultType\":\"complete\",\"contents\":[{\"uri\":\"test://"
                          "text\",\"mimeType\":\"text/plain\",\"text\":\"hello\"}],\"ttlMs\":5,"
                          "\"cacheScope\":\"private\"," MCP_TEST_INFO "}"
                        : "\"result\":{\"contents\":[{\"uri\":\"test://text\",\"mimeType\":\"text/"
                          "plain\",\"text\":\"hello\"}]}");
    mcp_peer_close_with(&peer, server);
  }
}

static void bytes_are_read_as_base64(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_plain(server, "test://bytes", read_bytes);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect(&peer, "resources/read", "\"uri\":\"test://bytes\"",
                  "\"result\":{\"contents\":[{\"uri\":\"test://bytes\",\"mimeType\":\"image/png\","
                  "\"blob\":\"iVBORwA=\"}]}");
  mcp_peer_close_with(&peer, server);
}

static void a_template_gives_its_variables(void **state) {
  (void)state;
  idem_server *server = full_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2024-11-05");
  mcp_peer_expect(&peer, "resources/read", "\"uri\":\"test://item/a%20b\"",
                  "\"result\":{\"contents\":[{\"uri\":\"test://item/a%20b\",\"mimeType\":\"text/"
                  "plain\",\"text\":\"a b\"}]}");
  mcp_peer_close_with(&peer, server);
}

static void a_plain_uri_goes_before_templates_and_those_in_order(void **state) {
  (void)state;
  static char exact[] = "exact";
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_template(server, "x:{first}", "first");
  add_template(server, "x:{+second}", "second");
  add(server, &(idem_resource){.uri = "x:plain", .name = "p", .fn = read_text, .user = exact});
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:plain\"", "\"text\":\"exact\"");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:one\"", "\"text\":\"one\"");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:a/b\"", "\"text\":\"a/b\"");
  mcp_peer_close_with(&peer, server);
}

static void several_contents_keep_only_what_the_schema_knows(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_plain(server, "dir://x", read_several);
  mcp_peer_open(&peer, server, "2025-03-26");
  mcp_peer_expect(&peer, "resources/read", "\"uri\":\"dir://x\"",
                  "\"result\":{\"contents\":[{\"uri\":\"dir://x\",\"text\":\"one\"},{\"uri\":\"dir:"
                  "//x/2\",\"mimeType\":\"a/b\",\"blob\":\"AA==\"}]}");
  mcp_peer_close(&peer);
  mcp_peer_open(&peer, server, "2025-06-18");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"dir://x\"",
                       "{\"uri\":\"dir://x\",\"text\":\"one\",\"_meta\":{\"x\":1}}");
  mcp_peer_close_with(&peer, server);
}

/* ----------------------------------------------------------------- faults */

static void a_missing_resource_is_an_error_that_names_it(void **state) {
  (void)state;
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    idem_server *server = full_server();
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    mcp_peer_expect(&peer, "resources/read", "\"uri\":\"test://none\"",
                    peer.modern ? "\"error\":{\"code\":-32602,\"message\":\"Resource not found: "
                                  "test://none\",\"data\":{"
                                  "\"uri\":\"test://none\"}}"
                                : "\"error\":{\"code\":-32002,\"message\":\"Resource not found: "
                                  "test://none\",\"data\":{"
                                  "\"uri\":\"test://none\"}}");
    mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"test://text\\u0000\"",
                         "\"data\":{\"uri\":\"test://text\\u0000\"}");
    mcp_peer_close_with(&peer, server);
  }
}

static void a_reader_may_say_that_there_is_none(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_template(server, "x:y{?a}", "a");
  mcp_peer_open(&peer, server, "2026-07-28");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:y?a=1\"", "\"text\":\"1\"");
  mcp_peer_expect(
      &peer, "resources/read", "\"uri\":\"x:y\"",
      "\"error\":{\"code\":-32602,\"message\":\"Resource not found: x:y\",\"data\":{\"uri\":\"x:"
      "y\"}}");
  mcp_peer_close_with(&peer, server);
}

static void a_uri_that_is_no_string_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"", "\"uri\":null", "\"uri\":7", "\"uri\":{}"};
  static const char *const received[] = {"nothing", "null", "number", "object"};
  idem_server *server = full_server();
  for (size_t i = 0; i < MCP_TEST_REVISIONS; i++) {
    mcp_peer peer;
    mcp_peer_open(&peer, server, mcp_test_revisions[i]);
    for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
      mcp_peer_expect_bad_param(&peer, "resources/read", bad[j], "uri", "string", received[j]);
    }
    mcp_peer_close(&peer);
  }
  idem_server_free(server);
}

static void a_readers_mistake_is_an_internal_error(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_plain(server, "x:malformed", read_malformed);
  add_plain(server, "x:nothing", read_nothing);
  add_plain(server, "x:prompt", read_as_prompt);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:malformed\"", "\"code\":-32603");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:nothing\"", "\"code\":-32603");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"x:prompt\"", "\"code\":-32603");
  mcp_peer_close_with(&peer, server);
}

static void a_reader_may_answer_later_but_once(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  add_plain(server, "x:later", read_later);
  mcp_peer_open(&peer, server, "2026-07-28");
  assert_string_equal(mcp_peer_ask(&peer, "resources/read", "\"uri\":\"x:later\""), "");
  assert_int_equal(idem_server_remove_resource(server, "x:later"), IDEM_OK);
  assert_int_equal(idem_resource_text(kept, NULL, "late", 4), IDEM_OK);
  assert_non_null(strstr(mcp_peer_more(&peer), "\"text\":\"late\""));
  assert_int_equal(idem_resource_text(kept, NULL, "twice", 5), IDEM_E_STATE);
  assert_int_equal(idem_resource_missing(kept), IDEM_E_STATE);
  assert_string_equal(mcp_peer_more(&peer), "");
  mcp_peer_close_with(&peer, server);
}

/* ------------------------------------------------------------ registering */

static void expect_refused(idem_server *server, idem_resource resource) {
  char why[128] = "";
  assert_int_equal(idem_server_add_resource(server, &resource, why, sizeof why), IDEM_E_INVAL);
  assert_true(strlen(why) > 0);
  assert_int_equal(idem_server_add_resource(server, &resource, NULL, 0), IDEM_E_INVAL);
}

/* MUST resources.custom-uris 2025-06-18+ */
static void a_bad_definition_is_refused_with_a_sentence(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  const idem_resource good = {.uri = "x:y", .name = "n", .fn = read_nothing};
  static const char *const bad_uris[] = {NULL,    "",       "relative", "1x:y",       "x:a b",
                                         "x:%zz", "x:{id}", "x:\x01",   "x:\xff\xfe", "://none"};
  for (size_t i = 0; i < sizeof bad_uris / sizeof bad_uris[0]; i++) {
    idem_resource bad = good;
    bad.uri = bad_uris[i];
    expect_refused(server, bad);
  }
  expect_refused(server, (idem_resource){.uri = "x:y", .fn = read_nothing});
  expect_refused(server, (idem_resource){.uri = "x:y", .name = "n"});
  idem_resource bad = good;
  bad.size = -1;
  expect_refused(server, bad);
  bad = good, bad.uri = "x:{", bad.is_template = true;
  expect_refused(server, bad);
  bad = good, bad.annotations = "[]";
  expect_refused(server, bad);
  bad = good, bad.icons = "{}";
  expect_refused(server, bad);
  bad = good, bad.meta = "{";
  expect_refused(server, bad);
  assert_int_equal(idem_server_add_resource(server, &good, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_resource(server, &good, NULL, 0), IDEM_E_EXISTS);
  idem_server_free(server);
}

static void fill(idem_server *server) {
  static char variable[] = "id";
  idem_resource plain = {.uri = "x:plain",
                         .name = "n",
                         .annotations = "{\"priority\":1}",
                         .icons = "[]",
                         .meta = "{}",
                         .fn = read_several};
  idem_resource template = {
      .uri = "x:t/{id}", .name = "n", .is_template = true, .fn = read_variable, .user = variable};
  idem_status plain_status = idem_server_add_resource(server, &plain, NULL, 0);
  idem_status template_status = idem_server_add_resource(server, &template, NULL, 0);
  assert_true(plain_status == IDEM_OK || plain_status == IDEM_E_NOMEM);
  assert_true(template_status == IDEM_OK || template_status == IDEM_E_NOMEM);
}

static void empty(idem_server *server) { idem_server_remove_resource(server, "x:plain"); }

static void any_allocation_may_fail(void **state) {
  (void)state;
  static const mcp_test_life life = {.fill = fill,
                                     .questions = {{"resources/list", ""},
                                                   {"resources/templates/list", ""},
                                                   {"resources/read", "\"uri\":\"x:plain\""},
                                                   {"resources/read", "\"uri\":\"x:t/1\""},
                                                   {"resources/read", "\"uri\":\"x:none\""}},
                                     .empty = empty};
  mcp_test_sweep(&life);
}

static void what_is_removed_is_gone(void **state) {
  (void)state;
  idem_server *server = full_server();
  mcp_peer peer;
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_int_equal(idem_server_remove_resource(server, "test://text"), IDEM_OK);
  assert_int_equal(idem_server_remove_resource(server, "test://item/{id}"), IDEM_OK);
  assert_int_equal(idem_server_remove_resource(server, "test://item/{id}"), IDEM_E_NOTFOUND);
  mcp_peer_more(&peer); /* it is told that the lists have changed */
  mcp_peer_expect(&peer, "resources/list", "", "\"result\":{\"resources\":[]}");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"test://text\"", "-32002");
  mcp_peer_expect_part(&peer, "resources/read", "\"uri\":\"test://item/1\"", "-32002");
  mcp_peer_close_with(&peer, server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_holds_what_the_revision_knows),
      cmocka_unit_test(a_text_is_read_in_every_revision),
      cmocka_unit_test(bytes_are_read_as_base64),
      cmocka_unit_test(a_template_gives_its_variables),
      cmocka_unit_test(a_plain_uri_goes_before_templates_and_those_in_order),
      cmocka_unit_test(several_contents_keep_only_what_the_schema_knows),
      cmocka_unit_test(a_missing_resource_is_an_error_that_names_it),
      cmocka_unit_test(a_reader_may_say_that_there_is_none),
      cmocka_unit_test(a_uri_that_is_no_string_is_refused),
      cmocka_unit_test(a_readers_mistake_is_an_internal_error),
      cmocka_unit_test(a_reader_may_answer_later_but_once),
      cmocka_unit_test(a_bad_definition_is_refused_with_a_sentence),
      cmocka_unit_test(what_is_removed_is_gone),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
