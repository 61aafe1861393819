/* test_keys.c - key sets of issuers: which keys are taken, which one a token means, what a rotation leaves; tokens that are
 * remembered; and what a protected server says of itself. Signatures are a fake's. */
#include "auth/bearer.h"
#include "base/hash.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define X32 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" /* 32 bytes */
#define X48 X32 "AAAAAAAAAAAAAAAAAAAAA"                   /* 48 */
#define X66 X48 "AAAAAAAAAAAAAAAAAAAAAAAA"                /* 66 */
#define EC(id, more)                                                                               \
  "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"" id "\",\"x\":\"" X32 "\",\"y\":\"" X32 "\"" more  \
  "}"
#define OKP(id) "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"" id "\",\"x\":\"" X32 "\"}"

static size_t made, freed;
static char last_jwk[2048];

static idem_status fake_new(idem__key_kind kind, const char *jwk, size_t len, void **out) {
  (void)kind;
  snprintf(last_jwk, sizeof last_jwk, "%.*s", (int)len, jwk);
  *out = malloc(1);
  if (!*out) return IDEM_E_NOMEM;
  made++;
  return IDEM_OK;
}
static void fake_free(void *key) {
  freed++;
  free(key);
}
static idem_status fake_verify(const void *key, const idem__signed *token) {
  (void)key, (void)token;
  return IDEM_E_INVAL;
}
static const idem__crypto fake = {
    .key_new = fake_new, .key_free = fake_free, .verify = fake_verify};

static idem_status read_set(idem__key_set *set, const char *keys) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  char text[8192];
  const char *why = NULL;
  snprintf(text, sizeof text, "{\"keys\":[%s]}", keys);
  idem_status status = idem__key_set_read(set, &alloc, &fake, text, strlen(text), &why);
  assert_true(status == IDEM_OK || (why && *why));
  return status;
}

static idem__key *find(const idem__key_set *set, idem__algorithm algorithm, const char *id) {
  idem__token token = {.algorithm = algorithm, .key_id = id, .key_id_len = id ? strlen(id) : 0};
  return idem__key_set_find(set, &token);
}

static void only_keys_that_can_verify_are_taken(void **state) {
  (void)state;
  static const char *const others[] = {
      "7",
      "{}",
      "{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"AAAA\"}",
      EC("a", ",\"use\":\"enc\""),
      EC("a", ",\"d\":\"" X32 "\""), /* which everybody could sign with */
      EC("a", ",\"key_ops\":[\"encrypt\"]"),
      EC("a", ",\"alg\":\"RS256\""),
      EC("a", ",\"alg\":\"HS256\""),
      EC("a", ",\"alg\":\"none\""),
      EC("a", ",\"alg\":7"),
      "{\"kty\":\"EC\",\"crv\":\"secp256k1\",\"x\":\"" X32 "\",\"y\":\"" X32 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"" X32 "\",\"y\":\"" X32 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"" X48 "\",\"y\":\"" X48 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"" X48 "\",\"y\":\"" X66 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X66 "\",\"y\":\"" X66 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-521\",\"alg\":\"ES384\",\"x\":\"" X66 "\",\"y\":\"" X66 "\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X32 "\"}",
      "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"" X32 "\"}",
      "{\"kty\":\"RSA\",\"n\":\"" X48 "\",\"e\":\"AQAB\"}",
      "{\"kty\":\"RSA\",\"e\":\"AQAB\"}",
      "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":7,\"x\":\"" X32 "\",\"y\":\"" X32 "\"}"};
  idem__key_set set = {.count = 0};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (read_set(&set, others[i]) != IDEM_E_INVAL) fail_msg("%s", others[i]);
  assert_int_equal(read_set(&set, EC("a", ",\"use\":\"sig\",\"x5u\":\"https://evil\"")), IDEM_OK);
  assert_string_equal(last_jwk,
                      "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X32 "\",\"y\":\"" X32 "\"}");
  assert_int_equal(read_set(&set, ""), IDEM_E_INVAL);
  assert_int_equal(set.count, 1); /* what makes no sense changes nothing */
  idem__key_set_deinit(&set);
  assert_int_equal(made, freed);
}

static void a_long_number_is_a_key_and_a_short_one_is_none(void **state) {
  (void)state;
  static const size_t bytes[] = {255, 256, 1024, 1025};
  idem_alloc alloc = idem__alloc_or_default(NULL);
  for (size_t i = 0; i < 4; i++) {
    idem_buf text;
    char number[1100];
    const char *why;
    idem__key_set set = {.count = 0};
    memset(number, 0xA5, sizeof number);
    idem_buf_init(&text, &alloc, 8192);
    idem_buf_puts(&text, "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"");
    idem_base64_encode(&text, number, bytes[i], IDEM_BASE64_URL);
    idem_buf_puts(&text, "\"}]}");
    idem_status status = idem__key_set_read(&set, &alloc, &fake, text.data, text.len, &why);
    assert_int_equal(status, i == 1 || i == 2 ? IDEM_OK : IDEM_E_INVAL);
    idem__key_set_deinit(&set);
    idem_buf_deinit(&text);
  }
}

static void a_key_verifies_what_goes_with_its_kind_alone(void **state) {
  (void)state;
  idem__key_set set = {.count = 0};
  assert_int_equal(read_set(&set, EC("a", "") "," OKP("b") "," EC("c", ",\"alg\":\"ES256\"")),
                   IDEM_OK);
  assert_non_null(find(&set, IDEM__ES256, "a"));
  assert_non_null(find(&set, IDEM__ES256, "c"));
  assert_null(find(&set, IDEM__ES384, "a"));
  assert_null(find(&set, IDEM__ES512, "a"));
  assert_null(find(&set, IDEM__RS256, "a"));
  assert_null(find(&set, IDEM__EDDSA, "a"));
  assert_non_null(find(&set, IDEM__EDDSA, "b"));
  assert_null(find(&set, IDEM__ES256, "d"));
  assert_null(find(&set, IDEM__ES256, "../../a"));
  assert_null(find(&set, IDEM__ES256, NULL));     /* two could be meant */
  assert_non_null(find(&set, IDEM__EDDSA, NULL)); /* one */
  idem__key_set_deinit(&set);
}

static void a_rotation_keeps_what_stays_and_retires_what_goes(void **state) {
  (void)state;
  idem__key_set set = {.count = 0};
  assert_int_equal(read_set(&set, EC("a", "") "," EC("b", "")), IDEM_OK);
  idem__key *a = idem__key_ref(find(&set, IDEM__ES256, "a")), *b = find(&set, IDEM__ES256, "b");
  assert_int_equal(read_set(&set, EC("b", "") "," EC("c", "")), IDEM_OK);
  assert_ptr_equal(find(&set, IDEM__ES256, "b"), b);
  assert_null(find(&set, IDEM__ES256, "a"));
  assert_true(atomic_load(&a->retired));
  assert_false(atomic_load(&b->retired));
  idem__key_unref(a);
  idem__key_set_deinit(&set);
}

static void key_sets_are_bounded(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  size_t len = IDEM__JWKS_BYTES + 1;
  char *text = malloc(len);
  const char *why;
  idem__key_set set = {.count = 0};
  assert_non_null(text);
  memset(text, ' ', len);
  assert_int_equal(idem__key_set_read(&set, &alloc, &fake, text, len, &why), IDEM_E_INVAL);
  size_t at = (size_t)sprintf(text, "{\"keys\":[" EC("k", ""));
  for (int i = 0; i < 200; i++) at += (size_t)sprintf(text + at, "," EC("k%d", ""), i);
  at += (size_t)sprintf(text + at, "]}");
  assert_int_equal(idem__key_set_read(&set, &alloc, &fake, text, at, &why), IDEM_OK);
  assert_int_equal(set.count, IDEM__KEYS_MAX);
  assert_true(set.cut);
  idem__key_set_deinit(&set);
  free(text);
}

static void read_once(fault_alloc *fault, void *user) {
  static const char text[] = "{\"keys\":[" EC("a", "") "," OKP("b") "]}";
  idem__key_set set = {.count = 0};
  const char *why;
  (void)user;
  idem_status status = idem__key_set_read(&set, &fault->alloc, &fake, text, sizeof text - 1, &why);
  assert_true(status == IDEM_OK || status == IDEM_E_NOMEM);
  assert_int_equal(set.count, status == IDEM_OK ? 2 : 0);
  idem__key_set_deinit(&set);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(read_once, NULL, 100) > 4);
}

/* -------------------------------------------------------------- remembered */

static idem__grant *new_grant(const char *who, uint64_t ends_s) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  yyjson_alc alc = idem__json_alc(&alloc);
  idem_status status;
  idem__grant *grant =
      idem__grant_new(&alloc, who, "", idem__json_read_text("{}", 2, 4, &alc, &status), ends_s);
  assert_non_null(grant);
  return grant;
}

static void digests_are_those_of_siphash(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__remembered all;
  uint8_t key[16], text[64];
  uint64_t secret[2];
  for (size_t i = 0; i < sizeof key; i++) key[i] = (uint8_t)i;
  for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)i;
  secret[0] = idem__load8(key);
  secret[1] = idem__load8(key + 8);
  idem__remembered_init(&all, &alloc, secret);
  /* vectors of the authors' reference, for 0, 1 and 15 bytes */
  idem__token_digest digest = idem__remembered_digest(&all, (char *)text, 0);
  assert_int_equal(digest.words[0], 0xe6a825ba047f81a3u);
  assert_int_equal(digest.words[1], 0x930255c71472f66du);
  digest = idem__remembered_digest(&all, (char *)text, 1);
  assert_int_equal(digest.words[0], 0x44af996bd8c187dau);
  assert_int_equal(digest.words[1], 0x45fc229b11597634u);
  idem__remembered_deinit(&all);
}

static void a_token_is_remembered_until_it_ends_or_its_key_does(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__remembered all;
  idem__key_set set = {.count = 0};
  assert_int_equal(read_set(&set, EC("a", "")), IDEM_OK);
  idem__remembered_init(&all, &alloc, (uint64_t[]){1, 2});
  idem__grant *grant = new_grant("alice", 100);
  idem__token_digest one = idem__remembered_digest(&all, "one", 3);
  idem__token_digest two = idem__remembered_digest(&all, "two", 3);
  idem__remembered_add(&all, one, grant, find(&set, IDEM__ES256, "a"), UINT64_MAX);
  idem__remembered_add(&all, two, grant, NULL, 50);
  idem__grant_unref(grant);
  assert_ptr_equal(idem__remembered_find(&all, one, 49), grant);
  assert_ptr_equal(idem__remembered_find(&all, two, 49), grant);
  assert_null(idem__remembered_find(&all, two, 50));
  assert_ptr_equal(idem__remembered_find(&all, one, 99), grant);
  assert_null(idem__remembered_find(&all, idem__remembered_digest(&all, "onf", 3), 49));
  assert_int_equal(read_set(&set, EC("b", "")), IDEM_OK);
  assert_null(idem__remembered_find(&all, one, 99));
  assert_int_equal(all.map.count, 0);
  assert_int_equal(all.bytes, 0);
  idem__remembered_deinit(&all);
  idem__key_set_deinit(&set);
}

static void the_oldest_make_room(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__remembered all;
  idem__remembered_init(&all, &alloc, (uint64_t[]){1, 2});
  idem__grant *grant = new_grant("alice", 100);
  for (size_t i = 0; i <= IDEM__REMEMBERED_MAX; i++)
    idem__remembered_add(&all, idem__remembered_digest(&all, (char *)&i, sizeof i), grant, NULL,
                         100);
  idem__grant_unref(grant);
  size_t first = 0, last = IDEM__REMEMBERED_MAX;
  assert_null(
      idem__remembered_find(&all, idem__remembered_digest(&all, (char *)&first, sizeof first), 1));
  assert_non_null(
      idem__remembered_find(&all, idem__remembered_digest(&all, (char *)&last, sizeof last), 1));
  assert_int_equal(all.map.count, IDEM__REMEMBERED_MAX);
  idem__remembered_deinit(&all);
}

/* ------------------------------------------------------------ what it says */

static void a_protected_server_says_who_gives_tokens_for_it(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  static const char *const issuers[] = {"https://as.example", "https://b.example/t"};
  idem__protected self = {.resource = "https://h.example:8/a/mcp",
                          .issuers = issuers,
                          .issuer_count = 2,
                          .scopes = " read write read  write rea",
                          .name = "A \"name\""};
  char *paths[2];
  idem_buf text;
  idem_buf_init(&text, &alloc, 4096);
  assert_int_equal(idem__protected_document(&self, &text), IDEM_OK);
  idem_buf_put(&text, "", 1);
  assert_string_equal(
      text.data, "{\"resource\":\"https://h.example:8/a/mcp\",\"authorization_servers\":[\"https://"
                 "as.example\","
                 "\"https://b.example/"
                 "t\"],\"scopes_supported\":[\"read\",\"write\",\"rea\"],\"resource_name\":"
                 "\"A \\\"name\\\"\",\"bearer_methods_supported\":[\"header\"]}");
  assert_int_equal(idem__protected_paths(&self, &alloc, paths), IDEM_OK);
  assert_string_equal(paths[0], "/.well-known/oauth-protected-resource");
  assert_string_equal(paths[1], "/.well-known/oauth-protected-resource/a/mcp");
  idem__free(&alloc, paths[0]);
  idem__free(&alloc, paths[1]);
  text.len = 0;
  assert_int_equal(
      idem__protected_challenge(
          &self, &text,
          &(idem__bearer_challenge){.error = "invalid_token", .why = "no", .scope = "read"}),
      IDEM_OK);
  assert_string_equal(
      text.data,
      "Bearer "
      "resource_metadata=\"https://h.example:8/.well-known/oauth-protected-resource/a/mcp\", "
      "scope=\"read\", error=\"invalid_token\", error_description=\"no\"");
  self = (idem__protected){.resource = "https://h.example/"};
  text.len = 0;
  assert_int_equal(idem__protected_document(&self, &text), IDEM_OK);
  idem_buf_put(&text, "", 1);
  assert_null(strstr(text.data, "authorization_servers")); /* RFC 9728, 3.2: no list of none */
  assert_int_equal(idem__protected_paths(&self, &alloc, paths), IDEM_OK);
  assert_null(paths[1]);
  idem__free(&alloc, paths[0]);
  idem_buf_deinit(&text);
}

static void what_metadata_name_elsewhere_is_not_asked_in_a_private_network(void **state) {
  (void)state;
  assert_true(idem__issuer_may_be_private("https://as.example/t", "https://as.example/keys"));
  assert_true(idem__issuer_may_be_private("https://AS.example", "https://as.EXAMPLE/keys"));
  assert_true(idem__issuer_may_be_private("http://127.0.0.1:1", "http://127.0.0.1:2/keys"));
  static const char *const elsewhere[] = {
      "https://as.example:8443/keys", "https://169.254.169.254/latest", "http://127.0.0.1/keys",
      "https://10.0.0.1/keys",        "https://as.example.evil/keys",   "file:///etc/passwd"};
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    if (idem__issuer_may_be_private("https://as.example", elsewhere[i]))
      fail_msg("%s", elsewhere[i]);
}

static void metadata_of_an_issuer_are_its_own_or_nobodys(void **state) {
  (void)state;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  static const char *const bad[] = {
      "",
      "[]",
      "{}",
      "{\"issuer\":\"https://as.example/\",\"jwks_uri\":\"https://as.example/k\"}",
      "{\"issuer\":\"https://as.example\"}",
      "{\"issuer\":\"https://as.example\",\"jwks_uri\":\"http://as.example/k\"}",
      "{\"issuer\":\"https://as.example\",\"jwks_uri\":\"file:///etc/passwd\"}",
      "{\"issuer\":\"https://as.example\",\"jwks_uri\":7}"};
  static const char good[] =
      "{\"issuer\":\"https://as.example\",\"jwks_uri\":\"https://keys.example/k\"}";
  char *url, said[IDEM__ISSUER_SAID];
  const char *why;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(
        idem__issuer_read(&alloc, "https://as.example", bad[i], strlen(bad[i]), &url, said, &why),
        IDEM_E_INVAL);
    assert_string_equal(said, i == 3 ? "https://as.example/" : "");
  }
  assert_int_equal(
      idem__issuer_read(&alloc, "https://as.example", good, sizeof good - 1, &url, said, &why),
      IDEM_OK);
  assert_string_equal(url, "https://keys.example/k");
  idem__free(&alloc, url);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_keys_that_can_verify_are_taken),
      cmocka_unit_test(a_long_number_is_a_key_and_a_short_one_is_none),
      cmocka_unit_test(a_key_verifies_what_goes_with_its_kind_alone),
      cmocka_unit_test(a_rotation_keeps_what_stays_and_retires_what_goes),
      cmocka_unit_test(key_sets_are_bounded),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(digests_are_those_of_siphash),
      cmocka_unit_test(a_token_is_remembered_until_it_ends_or_its_key_does),
      cmocka_unit_test(the_oldest_make_room),
      cmocka_unit_test(a_protected_server_says_who_gives_tokens_for_it),
      cmocka_unit_test(what_metadata_name_elsewhere_is_not_asked_in_a_private_network),
      cmocka_unit_test(metadata_of_an_issuer_are_its_own_or_nobodys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
