/* test_websocket.c - frames as they should be, and every way they should not, at any split. */
#include "http/http.h"
#include "support/fault_alloc.h"
#include "support/ws_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* -------------------------------------------------------------- a pair in memory */

typedef struct side {
  idem__websocket *socket;
  char out[1 << 18];
  size_t out_len;
  char messages[8192]; /* "text;" for each */
  unsigned count;
  int code; /* of on_close; 0: not yet */
  bool echo;
} side;

static idem_status put(void *user, const char *data, size_t len) {
  side *who = user;
  if (who->out_len + len > sizeof who->out) return IDEM_E_LIMIT;
  memcpy(who->out + who->out_len, data, len);
  who->out_len += len;
  return IDEM_OK;
}

static void on_message(idem__websocket *socket, const char *text, size_t len, void *user) {
  side *who = user;
  who->count++;
  if (len < 200) {
    strncat(who->messages, text, len);
    strcat(who->messages, ";");
  }
  if (who->echo) idem__websocket_send(socket, text, len);
}

static void on_close(idem__websocket *socket, uint16_t code, void *user) {
  side *who = user;
  (void)socket;
  assert_int_equal(who->code, 0); /* told once */
  who->code = code;
}

static void pseudo_random(void *ctx, uint8_t *bytes, size_t len) {
  unsigned *seed = ctx;
  for (size_t i = 0; i < len; i++)
    bytes[i] = (uint8_t)((*seed = *seed * 1103515245u + 12345u) >> 16);
}

static unsigned seed = 1;

static side *open_side(bool client, size_t message_bytes) {
  side *who = calloc(1, sizeof *who);
  assert_non_null(who);
  idem__websocket_opts opts = {.client = client,
                               .message_bytes = message_bytes,
                               .on_message = on_message,
                               .on_close = on_close,
                               .output = put,
                               .random = pseudo_random,
                               .random_ctx = &seed,
                               .user = who};
  assert_int_equal(idem__websocket_new(&opts, &who->socket), IDEM_OK);
  return who;
}

static void close_side(side *who) {
  idem__websocket_free(who->socket);
  free(who);
}

typedef struct script {
  char bytes[1 << 18];
  size_t len;
} script;

static void say(script *to, unsigned first, const char *payload, size_t len) {
  to->len += frame(to->bytes + to->len, first, payload, len, true);
}
#define SAY(to, first, literal) say((to), (first), "" literal, sizeof(literal) - 1)

static void feed(side *who, const script *what, size_t piece) {
  for (size_t at = 0; at < what->len;) {
    size_t take = what->len - at < piece ? what->len - at : piece;
    if (idem__websocket_feed(who->socket, what->bytes + at, take) != IDEM_OK) break;
    at += take;
  }
}

static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 7, 64};
#define FOR_SPLITS                                                                                 \
  for (const size_t *piece = pieces; piece < pieces + sizeof pieces / sizeof *pieces; piece++)

/* The close code of the last frame sent, 0 if it is none. */
static int sent_close(const side *who) {
  for (size_t at = 0; at + 2 <= who->out_len;) {
    unsigned first = (uint8_t)who->out[at], len = (uint8_t)who->out[at + 1] & 0x7f;
    size_t head = 2, body = len;
    if (len == 126) {
      body = (size_t)(uint8_t)who->out[at + 2] << 8 | (uint8_t)who->out[at + 3];
      head = 4;
    }
    assert_true(len != 127);
    if ((first & 15) == CLOSE)
      return body >= 2 ? (uint8_t)who->out[at + head] << 8 | (uint8_t)who->out[at + head + 1]
                       : 1005;
    at += head + body;
  }
  return 0;
}

/* What the peer says ends with our close code, and nothing of it was delivered. */
static void expect_close(const script *what, int code) {
  FOR_SPLITS {
    side *who = open_side(false, 4096);
    feed(who, what, *piece);
    if (sent_close(who) != code) fail_msg("wanted close %d, sent %d", code, sent_close(who));
    assert_int_equal(who->count, 0);
    assert_true(idem__websocket_closing(who->socket));
    if (code != 1003) assert_true(who->code != 0); /* that close waits for its answer */
    close_side(who);
  }
}

/* -------------------------------------------------------------------- frames */

static void text_is_delivered_at_any_split(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, FIN | TEXT, "hello");
  SAY(what, FIN | TEXT, "");
  SAY(what, FIN | TEXT, "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_string_equal(who->messages, "hello;;\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5;");
    assert_int_equal(who->out_len, 0);
    close_side(who);
  }
  free(what);
}

static void all_lengths_come_back(void **state) {
  (void)state;
  static const size_t lengths[] = {0, 1, 125, 126, 127, 128, 65535, 65536, 100000};
  static char text[100001];
  memset(text, 'x', sizeof text);
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    side *client = open_side(true, 0), *server = open_side(false, 0);
    server->echo = true;
    assert_int_equal(idem__websocket_send(client->socket, text, lengths[i]), IDEM_OK);
    assert_int_equal(idem__websocket_feed(server->socket, client->out, client->out_len), IDEM_OK);
    assert_int_equal(server->count, 1);
    assert_int_equal(idem__websocket_feed(client->socket, server->out, server->out_len), IDEM_OK);
    assert_int_equal(client->count, 1);
    close_side(client);
    close_side(server);
  }
}

static void a_client_masks_with_fresh_bits(void **state) {
  (void)state;
  side *client = open_side(true, 0);
  assert_int_equal(idem__websocket_send(client->socket, "same", 4), IDEM_OK);
  assert_int_equal(idem__websocket_send(client->socket, "same", 4), IDEM_OK);
  assert_int_equal(client->out_len, 20);
  assert_true((uint8_t)client->out[1] & 0x80);
  assert_memory_not_equal(client->out + 2, client->out + 12, 4);
  close_side(client);
  idem__websocket *none;
  assert_int_equal(idem__websocket_new(&(idem__websocket_opts){.client = true}, &none),
                   IDEM_E_INVAL);
}

static void fragments_are_joined_around_control_frames(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, TEXT, "frag");
  SAY(what, FIN | PING, "are you there");
  SAY(what, 0, "");
  SAY(what, FIN | PONG, "unasked");
  SAY(what, 0, "men");
  SAY(what, FIN | 0, "ted");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_string_equal(who->messages, "fragmented;");
    assert_int_equal(who->out_len, 15);
    assert_memory_equal(who->out,
                        "\x8a\x0d"
                        "are you there",
                        15);
    close_side(who);
  }
  free(what);
}

static void a_character_may_be_cut_by_fragments(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, TEXT, "\xe2");
  SAY(what, 0, "\x82");
  SAY(what, FIN | 0, "\xac");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_string_equal(who->messages, "\xe2\x82\xac;");
    close_side(who);
  }
  free(what);
}

static void pings_up_to_125_bytes_are_answered_with_their_payload(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  char payload[125];
  memset(payload, 0xfe, sizeof payload);
  say(what, FIN | PING, payload, sizeof payload);
  SAY(what, FIN | PING, "");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_int_equal(who->out_len, 2 + 125 + 2);
    assert_int_equal((uint8_t)who->out[0], FIN | PONG);
    assert_memory_equal(who->out + 2, payload, 125);
    close_side(who);
  }
  free(what);
}

/* ------------------------------------------------------------------ protocol */

typedef struct bad {
  const char *name;
  unsigned first;
  const char *payload;
  size_t len;
  int code;
} bad;

static void broken_frames_are_closed_with_1002(void **state) {
  (void)state;
  static const unsigned firsts[] = {FIN | 0x40 | TEXT,
                                    FIN | 0x20 | TEXT,
                                    FIN | 0x10 | TEXT,
                                    FIN | 0x70 | PING, /* reserved bits */
                                    FIN | 3,
                                    FIN | 4,
                                    FIN | 5,
                                    FIN | 6,
                                    FIN | 7, /* reserved opcodes */
                                    FIN | 11,
                                    FIN | 12,
                                    FIN | 13,
                                    FIN | 14,
                                    FIN | 15, /* reserved control opcodes */
                                    PING,
                                    PONG,
                                    CLOSE, /* fragmented control frames */
                                    FIN | 0,
                                    0}; /* nothing to continue */
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    what->len = 0;
    say(what, firsts[i], "x", 1);
    print_message("  first byte %02x\n", firsts[i]);
    expect_close(what, 1002);
  }
  free(what);
}

static void a_message_inside_a_message_is_1002(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, TEXT, "begun");
  SAY(what, FIN | TEXT, "another");
  expect_close(what, 1002);
  free(what);
}

static void a_long_control_frame_is_1002(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  char payload[126];
  memset(payload, 'x', sizeof payload);
  say(what, FIN | PING, payload, sizeof payload);
  expect_close(what, 1002);
  free(what);
}

static void an_unmasked_frame_of_a_client_is_1002(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  what->len = frame(what->bytes, FIN | TEXT, "x", 1, false);
  expect_close(what, 1002);
  free(what);
}

static void a_masked_frame_of_a_server_is_1002(void **state) {
  (void)state;
  side *client = open_side(true, 0);
  char bytes[32];
  size_t len = frame(bytes, FIN | TEXT, "x", 1, true);
  idem__websocket_feed(client->socket, bytes, len);
  assert_int_equal(client->count, 0);
  assert_true(idem__websocket_closing(client->socket));
  close_side(client);
}

static void binary_is_1003(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, FIN | BINARY, "\x01\x02");
  expect_close(what, 1003);
  free(what);
}

static void broken_text_is_1007(void **state) {
  (void)state;
  static const char *const texts[] = {
      "\xff",     "\xc0\xaf", "\xed\xa0\x80",        "\xf4\x90\x80\x80",
      "\xe2\x82", "a\x80",    "\xf8\x88\x80\x80\x80"};
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    what->len = 0;
    say(what, FIN | TEXT, texts[i], strlen(texts[i]));
    expect_close(what, 1007);
    what->len = 0;
    say(what, TEXT, texts[i], 1);
    say(what, FIN | 0, texts[i] + 1, strlen(texts[i]) - 1);
    expect_close(what, 1007);
  }
  free(what);
}

static void a_message_over_the_limit_is_1009(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  static char text[5000];
  memset(text, 'x', sizeof text);
  say(what, FIN | TEXT, text, 4097);
  expect_close(what, 1009);
  what->len = 0;
  say(what, TEXT, text, 4000);
  say(what, FIN | 0, text, 97);
  expect_close(what, 1009);
  what->len = 0; /* announced, hardly begun */
  static const uint8_t huge[] = {0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 'x'};
  memcpy(what->bytes, huge, sizeof huge);
  what->len = sizeof huge;
  expect_close(what, 1009);
  what->len = 0;
  say(what, FIN | TEXT, text, 4096);
  side *who = open_side(false, 4096);
  feed(who, what, 100);
  assert_int_equal(who->count, 1);
  close_side(who);
  free(what);
}

static void a_length_with_its_top_bit_set_is_refused(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  static const uint8_t head[] = {0x81, 0xff, 0x80, 0,    0,    0,    0,  0,
                                 0,    1,    0x12, 0x34, 0x56, 0x78, 'x'};
  memcpy(what->bytes, head, sizeof head);
  what->len = sizeof head;
  side *who = open_side(false, 4096);
  feed(who, what, 1);
  assert_int_equal(who->count, 0);
  assert_true(idem__websocket_closing(who->socket) || idem__websocket_finished(who->socket));
  close_side(who);
  free(what);
}

/* -------------------------------------------------------------------- closing */

static void a_close_is_answered_with_its_code(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, FIN | CLOSE,
      "\x03\xe8"
      "bye");
  SAY(what, FIN | TEXT, "too late");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_int_equal(sent_close(who), 1000);
    assert_int_equal(who->code, 1000);
    assert_int_equal(who->count, 0);
    assert_true(idem__websocket_finished(who->socket));
    assert_int_equal(idem__websocket_send(who->socket, "x", 1), IDEM_E_CLOSED);
    close_side(who);
  }
  what->len = 0;
  SAY(what, FIN | CLOSE, "");
  side *who = open_side(false, 0);
  feed(who, what, 1);
  assert_int_equal(who->code, 1005);
  assert_true(idem__websocket_finished(who->socket));
  close_side(who);
  free(what);
}

static void a_close_we_began_ends_when_it_is_answered(void **state) {
  (void)state;
  side *client = open_side(true, 0), *server = open_side(false, 0);
  idem__websocket_close(server->socket, 1001, "going away");
  idem__websocket_close(server->socket, 1011, "again");
  assert_false(idem__websocket_finished(server->socket));
  assert_int_equal(sent_close(server), 1001);
  idem__websocket_feed(client->socket, server->out, server->out_len);
  assert_int_equal(client->code, 1001);
  idem__websocket_feed(server->socket, client->out, client->out_len);
  assert_true(idem__websocket_finished(server->socket));
  assert_true(idem__websocket_finished(client->socket));
  close_side(client);
  close_side(server);
}

static void a_bad_close_frame_is_1002_or_1007(void **state) {
  (void)state;
  static const bad frames[] = {{"one byte", 0, "\x03", 1, 1002},
                               {"code 0", 0, "\x00\x00", 2, 1002},
                               {"code 999", 0, "\x03\xe7", 2, 1002},
                               {"code 1004", 0, "\x03\xec", 2, 1002},
                               {"code 1005", 0, "\x03\xed", 2, 1002},
                               {"code 1006", 0, "\x03\xee", 2, 1002},
                               {"code 1016", 0, "\x03\xf8", 2, 1002},
                               {"code 2000", 0, "\x07\xd0", 2, 1002},
                               {"bad reason", 0, "\x03\xe8\xff\xfe", 4, 1007},
                               {"a reason cut short", 0, "\x03\xe8 bad \xe2\x82", 9, 1007},
                               {"code and reason", 0, "\x03\xec then \xff\xfe", 10, 1007}};
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    what->len = 0;
    say(what, FIN | CLOSE, frames[i].payload, frames[i].len);
    print_message("  %s\n", frames[i].name);
    expect_close(what, frames[i].code);
  }
  free(what);
}

/* The text of a close frame is one text, however many pieces it comes in. */
static void a_reason_may_be_cut_anywhere(void **state) {
  (void)state;
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, FIN | CLOSE, "\x03\xe9\xe2\x82\xac\xe2\x82\xac\xce\xba\xe1\xbd\xb9\xcf\x83");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    feed(who, what, *piece);
    assert_int_equal(sent_close(who), 1001);
    assert_int_equal(who->code, 1001);
    close_side(who);
  }
  free(what);
}

/* Answer, pong, answer, close: whatever comes behind a message does not overtake its answer. */
static void what_was_asked_first_is_answered_first(void **state) {
  (void)state;
  static const char wanted[] = "\x81\x03one\x8a\x01p\x81\x03two\x88\x02\x03\xea";
  script *what = calloc(1, sizeof *what);
  assert_non_null(what);
  SAY(what, FIN | TEXT, "one");
  SAY(what, FIN | PING, "p");
  SAY(what, FIN | TEXT, "two");
  SAY(what, FIN | 11, "no such frame");
  SAY(what, FIN | TEXT, "too late");
  FOR_SPLITS {
    side *who = open_side(false, 0);
    who->echo = true;
    feed(who, what, *piece);
    assert_int_equal(who->out_len, sizeof wanted - 1);
    assert_memory_equal(who->out, wanted, sizeof wanted - 1);
    close_side(who);
  }
  free(what);
}

/* ---------------------------------------------------------------------- fragments */

static size_t resident_bytes(void) {
  unsigned long all = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
  fclose(file);
  return resident * 4096;
}

static void feed_fragments(side *who, size_t count, const char *payload, size_t len) {
  static char bytes[1 << 16];
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    at += frame(bytes + at, i ? 0 : TEXT, payload, len, true);
    if (at < sizeof bytes - 256 && i + 1 < count) continue;
    assert_int_equal(idem__websocket_feed(who->socket, bytes, at), IDEM_OK);
    at = 0;
  }
}

/* A frame may carry one byte, or none: what is kept are the bytes. */
static void a_million_fragments_cost_their_bytes(void **state) {
  (void)state;
  enum { COUNT = 1000000 };
  static const size_t lengths[] = {1, 0};
  for (size_t i = 0; i < 2; i++) {
    side *who = open_side(false, 0);
    size_t before = resident_bytes();
    feed_fragments(who, COUNT, " ", lengths[i]);
    size_t now = resident_bytes();
    if (now > before + ((size_t)16 << 20)) fail_msg("%zu MiB more", (now - before) >> 20);
    char last[16];
    assert_int_equal(idem__websocket_feed(who->socket, last, frame(last, FIN, "x", 1, true)),
                     IDEM_OK);
    assert_int_equal(who->count, 1);
    assert_int_equal(who->code, 0);
    close_side(who);
  }
}

static void fragments_together_over_the_limit_are_1009(void **state) {
  (void)state;
  for (size_t count = 0; count < 3; count++) {
    side *who = open_side(false, 100);
    char text[60], bytes[256];
    memset(text, 'a', sizeof text);
    feed_fragments(who, 1, text, sizeof text);
    for (size_t i = 0; i < count; i++)
      idem__websocket_feed(who->socket, bytes, frame(bytes, 0, "", 0, true));
    idem__websocket_feed(who->socket, bytes, frame(bytes, FIN, text, 41, true));
    assert_int_equal(who->code, 1009);
    assert_int_equal(who->count, 0);
    assert_memory_equal(who->out, "\x88\x02\x03\xf1", 4);
    close_side(who);
    who = open_side(false, 100);
    feed_fragments(who, 1, text, sizeof text);
    idem__websocket_feed(who->socket, bytes, frame(bytes, FIN, text, 40, true));
    assert_int_equal(who->count, 1);
    close_side(who);
  }
}

/* The text is ours and goes back with the message, or with our goodbye. */
static void memory_goes_back(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  side *who = calloc(1, sizeof *who);
  assert_non_null(who);
  idem__websocket_opts opts = {.on_message = on_message,
                               .on_close = on_close,
                               .output = put,
                               .user = who,
                               .alloc = &fault.alloc};
  assert_int_equal(idem__websocket_new(&opts, &who->socket), IDEM_OK);
  size_t empty = fault.live_bytes;
  char bytes[256], text[200];
  memset(text, 'a', sizeof text);
  feed_fragments(who, 5000, text, sizeof text);
  assert_true(fault.live_bytes >= 1000000 && fault.live_bytes < 4000000);
  idem__websocket_feed(who->socket, bytes, frame(bytes, FIN, "x", 1, true));
  assert_int_equal(who->count, 1);
  assert_true(fault.live_bytes <= empty + 1024);
  feed_fragments(who, 5000, text, sizeof text);
  idem__websocket_close(who->socket, 1008, "too slow");
  assert_int_equal(fault.live_bytes, empty);
  close_side(who);
  fault_alloc_assert_clean(&fault);
}

static void what_has_begun_is_due(void **state) {
  (void)state;
  side *who = open_side(false, 0);
  char bytes[256];
  assert_true(idem__websocket_due(who->socket, 5, 100, 1000) == UINT64_MAX);
  idem__websocket_feed(who->socket, bytes, frame(bytes, TEXT, "0123456789abcdef", 16, true));
  assert_int_equal(idem__websocket_due(who->socket, 10, 100, 1000), 111);
  idem__websocket_feed(who->socket, bytes, frame(bytes, FIN | PING, "", 0, true));
  assert_int_equal(idem__websocket_due(who->socket, 50, 100, 1000), 111); /* a ping is no excuse */
  size_t len = frame(bytes, FIN, "", 0, true);
  len += frame(bytes + len, TEXT, "x", 1, true);
  idem__websocket_feed(who->socket, bytes, len); /* the next one has its own time */
  assert_int_equal(idem__websocket_due(who->socket, 60, 100, 1000), 160);
  idem__websocket_feed(who->socket, bytes, frame(bytes, FIN, "", 0, true));
  assert_true(idem__websocket_due(who->socket, 70, 100, 1000) == UINT64_MAX);
  frame(bytes, FIN | PING, "ping", 4, true);
  idem__websocket_feed(who->socket, bytes, 3); /* a frame's head, too */
  assert_int_equal(idem__websocket_due(who->socket, 80, 100, 1000), 180);
  close_side(who);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_is_delivered_at_any_split),
      cmocka_unit_test(all_lengths_come_back),
      cmocka_unit_test(a_client_masks_with_fresh_bits),
      cmocka_unit_test(fragments_are_joined_around_control_frames),
      cmocka_unit_test(a_character_may_be_cut_by_fragments),
      cmocka_unit_test(pings_up_to_125_bytes_are_answered_with_their_payload),
      cmocka_unit_test(broken_frames_are_closed_with_1002),
      cmocka_unit_test(a_message_inside_a_message_is_1002),
      cmocka_unit_test(a_long_control_frame_is_1002),
      cmocka_unit_test(an_unmasked_frame_of_a_client_is_1002),
      cmocka_unit_test(a_masked_frame_of_a_server_is_1002),
      cmocka_unit_test(binary_is_1003),
      cmocka_unit_test(broken_text_is_1007),
      cmocka_unit_test(a_message_over_the_limit_is_1009),
      cmocka_unit_test(a_length_with_its_top_bit_set_is_refused),
      cmocka_unit_test(a_close_is_answered_with_its_code),
      cmocka_unit_test(a_close_we_began_ends_when_it_is_answered),
      cmocka_unit_test(a_bad_close_frame_is_1002_or_1007),
      cmocka_unit_test(a_reason_may_be_cut_anywhere),
      cmocka_unit_test(what_was_asked_first_is_answered_first),
      cmocka_unit_test(a_million_fragments_cost_their_bytes),
      cmocka_unit_test(fragments_together_over_the_limit_are_1009),
      cmocka_unit_test(memory_goes_back),
      cmocka_unit_test(what_has_begun_is_due),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
