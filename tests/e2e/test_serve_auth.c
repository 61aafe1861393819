/* test_serve_auth.c - `idem serve` with "auth" in its file: tokens by keys from a file, scopes in lists and calls, claims for
 * programs, :principal for queries, who asked in the log; and what --check says of files and flags that do not go together. */
#include "jwt.h"
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define AUTH                                                                                       \
  "\"auth\":{\"issuer\":\"https://id.example\",\"resource\":\"https://mcp.example/mcp\","          \
  "\"jwks_file\":\"keys.json\",\"principal\":\"email\",\"scopes\":\"mcp\","                        \
  "\"log_claims\":[\"client_id\",\"groups\",\"name\"],"                                            \
  "\"methods\":{\"prompts/list\":\"prompts\"}}"

static const char config[] =
    "{" AUTH ",\"tools\":{"
    "\"who\":{\"run\":[\"printenv\",\"WHO\",\"GROUPS_OF\"],\"env\":{\"WHO\":{\"principal\":true},"
    "\"GROUPS_OF\":{\"claim\":\"groups\"},\"NOT_THERE\":{\"claim\":\"nothing\"}}},"
    "\"mine\":{\"script\":\"t.sql\",\"query\":\"SELECT note FROM notes WHERE owner = :principal\"},"
    "\"fails\":{\"run\":[\"false\"]},"
    "\"admin\":{\"run\":[\"true\"],\"scopes\":[\"admin\",\"files:write\"]}},"
    "\"prompts\":{\"p\":{\"text\":\"x\",\"scopes\":\"admin\"}},"
    "\"resources\":{\"r\":{\"file\":\"t.sql\",\"scopes\":\"admin\"}}}";

typedef struct world {
  serving files;
  child server;
  char url[256];
  jwt_key key;
} world;

static void open_world_logging(world *w, const char *format) {
  char keys[4096] = "{\"keys\":[", path[512];
  serving_make(&w->files, config);
  w->key = jwt_key_new("k1", "ES256");
  jwt_put_jwk(keys, sizeof keys, &w->key);
  strcat(keys, "]}");
  serving_file(&w->files, "keys.json", keys);
  serving_file(&w->files, "t.sql",
               "CREATE TABLE notes (owner TEXT, note TEXT);"
               "INSERT INTO notes VALUES ('a@b.example', 'of a'), ('c@d.example', 'of c');");
  serving_path(&w->files, "idem.json", path, sizeof path);
  w->server = CHILD(program, "serve", path, "--http", "127.0.0.1:0", "--access-log", "--log-level",
                    "debug", "--log-format", format);
  child_listening(&w->server, w->url, sizeof w->url);
}

static void open_world(world *w) { open_world_logging(w, "text"); }

static void close_world(world *w) {
  kill(w->server.pid, SIGTERM);
  assert_int_equal(child_end(&w->server), 0);
  child_remove_folder(w->files.folder);
  jwt_key_free(&w->key);
}

static const char *token_of(const world *w, const char *email, const char *scope) {
  static char token[8192];
  char claims[1024];
  snprintf(
      claims, sizeof claims,
      "{\"iss\":\"https://id.example\",\"aud\":\"https://mcp.example/mcp\",\"sub\":\"1\","
      "\"email\":\"%s\",\"client_id\":\"app\",\"name\":\"A tool=who principal=x\\n\\u202e\\\"\","
      "\"groups\":[\"x\",\"y\"],\"scope\":\"%s\",\"exp\":%lld}",
      email, scope, (long long)time(NULL) + 600);
  jwt_make(token, sizeof token, &w->key, claims);
  return token;
}

/* The whole answer; the connection closes behind it. */
static const char *ask(const world *w, const char *token, const char *method, const char *name,
                       const char *params) {
  static char text[65536];
  char body[2048], tcp[128];
  size_t len = 0;
  snprintf(tcp, sizeof tcp, "tcp%.*s", (int)(strcspn(strstr(w->url, "://") + 3, "/") + 3),
           strstr(w->url, "://"));
  int fd = child_connect(tcp);
  int body_len = snprintf(
      body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"%s\",\"params\":{%s" META "}}",
      method, params);
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
           "application/json\r\n"
           "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
           "Mcp-Method: %s\r\n%s%s%sAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
           method, *name ? "Mcp-Name: " : "", name, *name ? "\r\n" : "", token, body_len, body);
  child_send(fd, text);
  for (ssize_t got = 1; got > 0; len += (size_t)got) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 60000) != 1) fail_msg("no answer in time");
    got = read(fd, text + len, sizeof text - len - 1);
    if (got < 0) fail_msg("the connection broke");
  }
  text[len] = '\0';
  close(fd);
  return text;
}

static void a_server_knows_its_callers_by_their_tokens(void **state) {
  (void)state;
  world w;
  char token[8192], poor[8192];
  open_world(&w);
  snprintf(token, sizeof token, "%s", token_of(&w, "a@b.example", "mcp admin files:write prompts"));
  snprintf(poor, sizeof poor, "%s", token_of(&w, "c@d.example", "mcp"));

  expect_in(ask(&w, "nonsense", "tools/list", "", ""), "401 Unauthorized");
  expect_in(ask(&w, token_of(&w, "a@b.example", "other"), "tools/list", "", ""),
            "scope=\"other mcp\"");

  const char *answer = ask(&w, token, "tools/call", "who", "\"name\":\"who\",");
  expect_in(answer, "a@b.example\\n[\\\"x\\\",\\\"y\\\"]");
  expect_in(ask(&w, token, "tools/call", "mine", "\"name\":\"mine\","), "of a");
  answer = ask(&w, poor, "tools/call", "mine", "\"name\":\"mine\",");
  expect_in(answer, "of c");
  expect_not_in(answer, "of a");

  expect_in(ask(&w, token, "tools/list", "", ""), "\"admin\"");
  answer = ask(&w, poor, "tools/list", "", "");
  expect_in(answer, "\"mine\"");
  expect_not_in(answer, "\"admin\"");
  answer = ask(&w, poor, "tools/call", "admin", "\"name\":\"admin\",");
  expect_in(answer, "403 Forbidden");
  expect_in(answer, "WWW-Authenticate: Bearer "
                    "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/"
                    "mcp\", error=\"insufficient_scope\", scope=\"mcp admin files:write\"");
  expect_in(answer, "\"id\":5,\"error\"");
  expect_in(ask(&w, poor, "prompts/list", "", ""), "scope=\"mcp prompts\"");
  expect_not_in(ask(&w, poor, "resources/list", "", ""), "idem://r");
  expect_in(ask(&w, token, "resources/list", "", ""), "idem://r");

  expect_in(child_line_with(w.server.err, "a tool was called"), "for a@b.example");
  expect_in(child_line_with(w.server.err, "tool=who"), "principal=a@b.example");
  close_world(&w);
}

/* Access, refusal, call and failure: each says who asked, by which program; nothing in a claim makes a line or a field. */
static void the_log_shows_the_claims_that_it_is_told_to(void **state) {
  static const char claims[] = " client_id=app name=A%20tool=who%20principal=x%0A%E2%80%AE%22";
  static const char *const formats[] = {"text", "json"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    char token[8192], wanted[256];
    open_world_logging(&w, formats[i]);
    snprintf(token, sizeof token, "%s", token_of(&w, "a@b.example", "mcp"));
    ask(&w, token, "tools/call", "who", "\"name\":\"who\",");
    ask(&w, token, "tools/call", "fails", "\"name\":\"fails\",");
    ask(&w, token, "tools/call", "admin", "\"name\":\"admin\",");
    snprintf(wanted, sizeof wanted, ", for a@b.example%s", claims);
    expect_in(child_line_with(w.server.err, "a tool was called"), wanted);
    snprintf(wanted, sizeof wanted, "tool=who principal=a@b.example%s", claims);
    expect_in(child_line_with(w.server.err, "tool=who"), wanted);
    snprintf(wanted, sizeof wanted, ", for a@b.example%s", claims);
    expect_in(child_line_with(w.server.err, "a tool call failed"), wanted);
    snprintf(wanted, sizeof wanted, ", for a@b.example%s", claims);
    const char *refused = child_line_with(w.server.err, "insufficient-scope: admin needs ");
    expect_in(refused, "a request was refused");
    expect_in(refused, wanted);
    snprintf(wanted, sizeof wanted, "tool=admin principal=a@b.example%s", claims);
    expect_in(child_line_with(w.server.err, "tool=admin"), wanted);
    close_world(&w);
  }
}

#define X "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"
#define NUMBERS "\"x\":\"" X "\",\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\""
#define POINT "\"kty\":\"EC\",\"crv\":\"P-256\"," NUMBERS

/* What it says of the file; in a buffer that the next call reuses. */
static const char *check_says(const char *file, int code, const char *const *flags) {
  serving files;
  char path[512];
  const char *argv[16] = {program, "serve", "--check", path};
  serving_make(&files, file);
  serving_file(&files, "keys.json", "{\"keys\":[{" POINT "}]}");
  serving_file(&files, "none.json", "{\"keys\":[]}");
  serving_file(&files, "text.json", "no JSON at all");
  serving_file(&files, "private.json", "{\"keys\":[{" POINT ",\"d\":\"AA\"}]}");
  serving_file(&files, "shared.json", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}]}");
  serving_file(&files, "use.json", "{\"keys\":[{" POINT ",\"use\":\"enc\"}]}");
  serving_file(&files, "curve.json",
               "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"secp256k1\"," NUMBERS "}]}");
  serving_file(&files, "alg.json", "{\"keys\":[{" POINT ",\"alg\":\"RS256\"}]}");
  serving_file(&files, "off.json",
               "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" X "\",\"y\":\"" X "\"}]}");
  serving_file(&files, "t.sql", "CREATE TABLE t (a)");
  serving_path(&files, "idem.json", path, sizeof path);
  for (size_t i = 0; flags[i]; i++) argv[4 + i] = flags[i];
  child one = child_start(argv);
  close(one.in);
  one.in = -1;
  const char *text = child_rest(one.err);
  int ended = child_end(&one);
  if (ended != code) fail_msg("%s: ended with %d: %s", file, ended, text);
  child_remove_folder(files.folder);
  return text;
}

static void check(const char *file, int code, const char *said, const char *const *flags) {
  const char *text = check_says(file, code, flags);
  if (!strstr(text, said)) fail_msg("expected \"%s\" of %s, got: %s", said, file, text);
}
#define FLAGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_FLAGS ((const char *const[]){NULL})

static void tokens_without_a_proof_are_told_of_where_proofs_are_required(void **state) {
  (void)state;
  char tokens[] = "/tmp/idem.tokens.XXXXXX";
  int file = mkstemp(tokens);
  assert_int_equal(write(file, "operator-token-of-some-length\n", 30), 30);
  close(file);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"dpop\":{\"required\":true}}}", 0,
        "open all the same, without a proof",
        FLAGS("--http", "127.0.0.1:0", "--token-file", tokens));
  unlink(tokens);
}

static void a_file_without_keys_is_told_before_the_start(void **state) {
  (void)state;
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"jwks_file\":\"none.json\"}}", 1,
        "jwks_file none.json: there is no key among its keys that could verify anything", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"jwks_file\":\"text.json\"}}", 1,
        "jwks_file text.json: its keys are no JSON object with a list of keys", NO_FLAGS);
}

static void a_file_of_keys_that_verify_nothing_is_told_before_the_start(void **state) {
  (void)state;
  static const struct row {
    const char *file, *more, *said;
  } rows[] = {{"private.json", "", "its keys are private ones"},
              {"shared.json", "", "its keys are secrets that are shared (oct)"},
              {"use.json", "", "for something else than signatures (use)"},
              {"curve.json", "", "no key among its keys that could verify anything"},
              {"alg.json", "", "no key among its keys that could verify anything"},
              {"off.json", "", "no key among its keys that could verify anything"},
              {"keys.json", ",\"algorithms\":[\"RS256\",\"ES384\"]",
               "none of its keys goes with one of the algorithms that are taken"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char file[256];
    snprintf(file, sizeof file,
             "{\"auth\":{\"issuer\":\"https://i.example\",\"jwks_file\":\"%s\"%s}}", rows[i].file,
             rows[i].more);
    check(file, 1, rows[i].said, NO_FLAGS);
  }
  check("{\"auth\":{\"issuer\":\"https://"
        "i.example\",\"jwks_file\":\"keys.json\",\"algorithms\":[\"RS256\",\"ES256\"]}}",
        0, "", NO_FLAGS);
}

static void claims_that_no_log_shows_are_told_of(void **state) {
  (void)state;
#define LOGS(list) "{\"auth\":{\"issuer\":\"https://i.example\",\"log_claims\":" list "}}"
  check(LOGS("[\"sub\",\"https://x.example/org\"]"), 0, "", NO_FLAGS);
  check(LOGS("[\"cnf\"]"), 1, ":1:53: auth: log_claims: cnf is about a key", NO_FLAGS);
  check(LOGS("[\"access_token\"]"), 1, "a log hides whatever stands behind such a name", NO_FLAGS);
  check(LOGS("[\"a b\"]"), 1, "a character that does not go into a log", NO_FLAGS);
  check(LOGS("[]"), 1, "log_claims", NO_FLAGS);
  check(LOGS("\"sub\""), 1, "log_claims", NO_FLAGS);
  check(LOGS("[\"a\",\"a\"]"), 1, "log_claims", NO_FLAGS);
  check(LOGS("[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\"]"), 1, "log_claims", NO_FLAGS);
#undef LOGS
}

static void scopes_that_nothing_needs_are_told_of(void **state) {
  (void)state;
#define IMPLIES(pairs)                                                                             \
  "{\"auth\":{\"issuer\":\"https://i.example\",\"scopes\":\"use\",\"methods\":{\"prompts/"         \
  "list\":\"look\"},"                                                                              \
  "\"scope_implies\":{" pairs "}},"                                                                \
  "\"tools\":{\"t\":{\"run\":[\"true\"],\"scopes\":[\"read\",\"files:write\"]}},"                  \
  "\"prompts\":{\"p\":{\"text\":\"x\",\"scopes\":\"ask\"}}}"
  static const char clean[] =
      IMPLIES("\"all\":\"admin ask\",\"admin\":\"read files:write look use\"");
  expect_not_in(check_says(clean, 0, NO_FLAGS), "scope_implies");
  const char *text = check_says(IMPLIES("\"admin\":\"raed files:write\""), 0, NO_FLAGS);
  expect_in(text, "scope_implies: nothing needs the scope raed, which admin has in it");
  expect_not_in(text, "the scope files:write");
  /* A chain must end somewhere. */
  text = check_says(IMPLIES("\"all\":\"a\",\"a\":\"b\",\"b\":\"a\""), 0, NO_FLAGS);
  expect_in(text, "nothing needs the scope a, which all has in it");
  expect_in(text, "nothing needs the scope b, which a has in it");
#undef IMPLIES
}

static void what_does_not_go_together_is_explained(void **state) {
  (void)state;
  check("{" AUTH "}", 0, "tokens would travel in the clear", FLAGS("--http", "0.0.0.0:0"));
  check("{" AUTH "}", 0, "holds for HTTP alone", FLAGS("--stdio", "--http", "127.0.0.1:0"));
  check("{" AUTH "}", 2, "every page that a person opens",
        FLAGS("--http", "127.0.0.1:0", "--allow-origin", "*"));
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"dpop\":{}}}", 0,
        "clients know this server by another URL",
        FLAGS("--http", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1"));
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"dpop\":{\"algorithms\":[\"HS256\"]}}}", 1,
        "dpop", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"dpop\":true}}", 1, "dpop", NO_FLAGS);
  check("{}", 2, "others than this machine could reach", FLAGS("--http", "0.0.0.0:0"));
  check("{\"auth\":{\"issuer\":\"https://i.example\"}}", 2, "resource is missing",
        FLAGS("--http", "0.0.0.0:0"));
  check("{\"auth\":{\"issuer\":\"http://i.example\"}}", 1, "must be https", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"http://mcp.example\"}}", 1,
        "in the clear", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"jwks\":\"http://i.example/k\"}}", 1,
        "must be https", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"https://m.example/#f\"}}", 1,
        ":1:50: auth: resource: it has a fragment (#)", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"https://m.example/?a=b\"}}", 1,
        ":1:50: auth: resource: it has a query (?)", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"https:///a\"}}", 1,
        ":1:50: auth: resource: it is no URL of a server", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"https://m.example/%2\"}}", 1,
        ":1:50: auth: resource: it has a % that begins no escape", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example?x#y\"}}", 1,
        ":1:19: auth: issuer: it has a fragment (#)", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example?x\"}}", 1,
        ":1:19: auth: issuer: it has a query (?)", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example?x\",\"jwks\":\"https://i.example/k?a=b\"}}", 0,
        "", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"jwks\":\"https://i.example/k#a\"}}", 1,
        "auth: jwks: it has a fragment (#)", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"http://127.example\"}}", 1,
        ":1:19: auth: issuer: it must be https, or http on loopback", NO_FLAGS);
  check("{\"auth\":{}}", 1, "needs an issuer", NO_FLAGS);
  check("{\"auth\":{\"issuer\":\"https://i.example\",\"introspection\":{\"url\":\"https://"
        "i.example/i\",\"id\":\"x\",\"secret\":{\"env\":\"NOT_THERE_AT_ALL\"}}}}",
        1, "auth introspection: the environment has no NOT_THERE_AT_ALL", NO_FLAGS);
  check("{\"auth\":{\"introspection\":{\"url\":\"https://i.example/i\"}}}", 0,
        "clients are not told where to get tokens: name authorization_servers", NO_FLAGS);
  assert_null(strstr(check_says("{\"auth\":{\"introspection\":{\"url\":\"https://i.example/i\"},"
                                "\"authorization_servers\":[\"https://i.example\"]}}",
                                0, NO_FLAGS),
                     "authorization_servers"));
  check("{\"auth\":{\"introspection\":{\"url\":\"https://i.example/i\"},"
        "\"authorization_servers\":[\"https://i.example\",\"http://i.example\"]}}",
        1, "auth: authorization_servers: it must be https", NO_FLAGS);
  check("{\"tools\":{\"t\":{\"run\":[\"true\"],\"scopes\":\"a\"}}}", 1, "scopes need \"auth\"",
        NO_FLAGS);
  check("{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"A\":{\"claim\":\"a\"}}}}}", 1,
        "claims need \"auth\"", NO_FLAGS);
  check("{" AUTH
        ",\"tools\":{\"t\":{\"run\":[\"cat\"],\"keep\":true,\"env\":{\"A\":{\"claim\":\"a\"}}}}}",
        1, "a program that stays", NO_FLAGS);
  check("{" AUTH ",\"tools\":{\"t\":{\"run\":[\"true\"],\"scopes\":\"a\\\"b\"}}}", 1, "scopes",
        NO_FLAGS);
  check("{" AUTH ",\"tools\":{\"t\":{\"script\":\"t.sql\",\"query\":\"SELECT "
        ":principal\",\"args\":{\"principal\":\"string\"}}}}",
        1, ":principal is who asks", NO_FLAGS);
}

/* The longest that a listener takes, and one more. */
static void a_resource_that_no_listener_takes_is_told_at_its_place(void **state) {
  (void)state;
  char text[5000];
  for (int len = 4095; len <= 4096; len++) {
    int before =
        snprintf(text, sizeof text, "{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"");
    int all = snprintf(text + before, sizeof text - (size_t)before, "https://m.example/%0*d\"}}",
                       len - 18, 0);
    assert_int_equal(all, len + 3);
    if (len == 4095)
      expect_not_in(check_says(text, 0, FLAGS("--http", "127.0.0.1:0")), "too long");
    else
      check(text, 1, ":1:50: auth: resource: it is too long", NO_FLAGS);
  }
}

/* Of the server, and of a method. */
static void scopes_that_are_too_long_are_told_at_their_place(void **state) {
  (void)state;
  static const char *const places[] = {
      "{\"auth\":{\"issuer\":\"https://i.example\",\"scopes\":\"",
      "{\"auth\":{\"issuer\":\"https://i.example\",\"methods\":{\"tools/call\":\""};
  char text[5000];
  for (size_t i = 0; i < 2; i++) {
    snprintf(text, sizeof text, "%s%02049d\"%s}}", places[i], 0, i ? "}" : "");
    check(text, 1, "scopes: they are too long (2048 bytes at most)", NO_FLAGS);
    snprintf(text, sizeof text, "%s%02048d\"%s}}", places[i], 0, i ? "}" : "");
    expect_not_in(check_says(text, 0, FLAGS("--http", "127.0.0.1:0")), "too long");
  }
}

#define RESOURCE(url) "{\"auth\":{\"issuer\":\"https://i.example\",\"resource\":\"" url "\"}}"
#define REFUSED "and tokens that clients get for that are refused"

static void another_resource_than_what_is_served_is_noted(void **state) {
  (void)state;
  check(RESOURCE("http://localhost:8421/mcp"), 0,
        "resource is http://localhost:8421/mcp: http://127.0.0.1:8420/mcp is served, " REFUSED,
        FLAGS("--http", "127.0.0.1:8420"));
  check(RESOURCE("http://127.0.0.1:8420/other"), 0, REFUSED, FLAGS("--http", "127.0.0.1:8420"));
  check(RESOURCE("https://mcp.example/other"), 0, REFUSED, FLAGS("--http", "127.0.0.1:8420"));
  static const char *const fine[] = {RESOURCE("http://localhost:8420/mcp"),
                                     RESOURCE("http://[::1]:8420/mcp"),
                                     RESOURCE("https://mcp.example/mcp")};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
    expect_not_in(check_says(fine[i], 0, FLAGS("--http", "127.0.0.1:8420")), "note");
  expect_not_in(check_says(RESOURCE("https://mcp.example/other"), 0,
                           FLAGS("--http", "127.0.0.1:8420", "--trusted-proxy", "127.0.0.1")),
                "resource");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_server_knows_its_callers_by_their_tokens),
      cmocka_unit_test(a_file_without_keys_is_told_before_the_start),
      cmocka_unit_test(another_resource_than_what_is_served_is_noted),
      cmocka_unit_test(a_file_of_keys_that_verify_nothing_is_told_before_the_start),
      cmocka_unit_test(the_log_shows_the_claims_that_it_is_told_to),
      cmocka_unit_test(claims_that_no_log_shows_are_told_of),
      cmocka_unit_test(scopes_that_nothing_needs_are_told_of),
      cmocka_unit_test(what_does_not_go_together_is_explained),
      cmocka_unit_test(scopes_that_are_too_long_are_told_at_their_place),
      cmocka_unit_test(a_resource_that_no_listener_takes_is_told_at_its_place),
      cmocka_unit_test(tokens_without_a_proof_are_told_of_where_proofs_are_required),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
