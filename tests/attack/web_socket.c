/* web_socket.c - WebSocket sessions: fragments, control frames between them, close codes, and frames
 * that are wrong. */
#include "web_socket.h"

#include "support/ws_frame.h"

#include <stdlib.h>
#include <string.h>

bool socket_open(wire *line, const char *path) {
  text request = {.data = NULL};
  exchange reply;
  http_request(&request, "GET", path,
               "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
               NULL);
  bool sent = wire_send(line, request.data, request.len);
  text_free(&request);
  if (!sent || !http_begin(&reply, line)) return false;
  http_free(&reply);
  return reply.status == 101;
}

/* ------------------------------------------------------------------------- sending */

void socket_frame(text *into, unsigned first, const char *payload, size_t len) {
  char *room = malloc(len + 16);
  if (!room) abort();
  text_add(into, room, frame(room, first, payload, len, true));
  free(room);
}

static void some_control(attacker *self, text *into) {
  char payload[125] = "attack";
  if (chance_one_in(&self->luck, 4))
    socket_frame(into, FIN | (chance_one_in(&self->luck, 3) ? PONG : PING), payload,
                 chance_below(&self->luck, 126));
}

/* In one frame, or in fragments with control frames between them. */
void socket_message(attacker *self, text *into, const char *message) {
  size_t len = strlen(message);
  unsigned kind = TEXT;
  some_control(self, into);
  while (chance_one_in(&self->luck, 2)) {
    size_t piece = len ? chance_below(&self->luck, (unsigned)len + 1) : 0;
    socket_frame(into, kind, message, piece);
    message += piece, len -= piece, kind = 0;
    some_control(self, into);
  }
  socket_frame(into, FIN | kind, message, len);
}

/* ------------------------------------------------------------------------- reading */

/* A server's frame: not masked, its length in as few bytes as it needs, whole. */
static bool take_frame(wire *line, unsigned *first, text *payload) {
  text *got = &line->got;
  size_t head = 2, len;
  while (got->len < head)
    if (!wire_more(line)) return false;
  const unsigned char *at = (const unsigned char *)got->data;
  if (at[1] & 0x80) attack_found(line->owner, "a server's frame is masked");
  len = at[1];
  head = len == 127 ? 10 : len == 126 ? 4 : 2;
  while (got->len < head)
    if (!wire_more(line)) return false;
  at = (const unsigned char *)got->data;
  if (head > 2) len = 0;
  for (size_t i = 2; i < head; i++) len = len << 8 | at[i];
  while (got->len < head + len)
    if (!wire_more(line)) return false;
  *first = (unsigned char)got->data[0];
  payload->len = 0;
  text_add(payload, got->data + head, len);
  text_cut(got, head + len);
  return true;
}

/* Each message of a server's is one text frame. */
bool socket_next(wire *line, text *message, unsigned *closed) {
  unsigned first;
  while (take_frame(line, &first, message)) {
    if (first == (FIN | TEXT)) return true;
    if (first == (FIN | CLOSE)) {
      const unsigned char *code = (const unsigned char *)message->data;
      *closed = message->len >= 2 ? (unsigned)(code[0] << 8 | code[1]) : 1005;
      return false;
    }
    if (first != (FIN | PONG) && first != (FIN | PING))
      attack_found(line->owner, "a frame of kind %x", first);
  }
  return false;
}

/* ------------------------------------------------------------------------ episodes */

static const char *socket_path(const attacker *self) {
  return self->server->target == REFERENCE ? "/" : "/mcp";
}

static void a_request(attacker *self, text *into, const char *id) {
  static const char *const plain[] = {"\"echo\",\"params\":[1,\"two\",{}]",
                                      "\"sleep\",\"params\":{\"ms\":3}",
                                      "\"sum\",\"params\":[1,2,3]",
                                      "\"fail\"",
                                      "\"nosuch\"",
                                      "\"get_data\""};
  static const char *const mcp[] = {"\"tools/list\"", "\"ping\"", "\"nosuch\"", "\"prompts/list\"",
                                    "\"tools/call\",\"params\":{\"name\":\"nosuch\"}"};
  const char *rest = self->server->target == REFERENCE ? CHANCE_OF(&self->luck, plain)
                                                       : CHANCE_OF(&self->luck, mcp);
  text_printf(into, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%s}", id, rest);
}

static void hear_rest(wire *line, ledger *asked) {
  text message = {.data = NULL};
  unsigned closed = 0;
  while (ledger_missing(asked) && socket_next(line, &message, &closed))
    ledger_hear(asked, message.data, message.len);
  text_free(&message);
}

/* A close frame is answered with one, and then the connection ends. */
static void close_well(attacker *self, wire *line) {
  static const unsigned codes[] = {1000, 1001, 3000, 4999};
  static const unsigned bad_codes[] = {0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 65535};
  bool bad = chance_one_in(&self->luck, 3);
  unsigned code = bad ? CHANCE_OF(&self->luck, bad_codes) : CHANCE_OF(&self->luck, codes);
  char payload[8] = {(char)(code >> 8), (char)code, 'b', 'y', 'e'};
  text bytes = {.data = NULL}, message = {.data = NULL};
  unsigned closed = 0;
  socket_frame(&bytes, FIN | CLOSE, payload, 5);
  wire_send(line, bytes.data, bytes.len);
  while (socket_next(line, &message, &closed)) continue;
  if (closed != (bad ? 1002 : code))
    attack_found(self, "close code %u was answered with %u", code, closed);
  text_free(&bytes);
  text_free(&message);
  wire_end(line, FINISH_IT);
}

void attack_web_socket(attacker *self) {
  ledger asked = {.owner = self};
  wire line = wire_tcp(self, self->server->http);
  text bytes = {.data = NULL}, message = {.data = NULL};
  if (!socket_open(&line, socket_path(self))) attack_found(self, "no upgrade");
  for (unsigned i = chance_below(&self->luck, 12) + 1; i; i--) {
    const char *id = ledger_new_id(&asked, self->server->target != REFERENCE);
    message.len = 0;
    a_request(self, &message, id);
    ledger_ask(&asked, id);
    socket_message(self, &bytes, message.data);
  }
  wire_send(&line, bytes.data, bytes.len);
  if (chance_one_in(&self->luck, 4)) {
    ledger_excuse_all(&asked);
    wire_end(&line, wire_any_farewell(self));
  } else {
    hear_rest(&line, &asked);
    close_well(self, &line);
  }
  ledger_close(&asked);
  text_free(&bytes);
  text_free(&message);
}

static void wrong_frame(attacker *self, text *into) {
  static const unsigned firsts[] = {0x00, 0x80, 0x83, 0xC1, 0x91, 0xA2, 0x09, 0x08,
                                    0x88, 0x8B, 0x82, 0x01, 0xFF, 0x8F, 0x81};
  char payload[200];
  for (size_t i = 0; i < sizeof payload; i++) payload[i] = (char)chance_next(&self->luck);
  unsigned first = CHANCE_OF(&self->luck, firsts);
  char room[256];
  text_add(into, room,
           frame(room, first, payload, chance_below(&self->luck, sizeof payload),
                 !chance_one_in(&self->luck, 4)));
}

void attack_web_socket_wild(attacker *self) {
  wire line = wire_tcp(self, self->server->http);
  text bytes = {.data = NULL}, message = {.data = NULL};
  ledger nobody = {.owner = self, .foreign = true};
  unsigned closed = 0;
  if (!socket_open(&line, socket_path(self))) attack_found(self, "no upgrade");
  for (unsigned i = chance_below(&self->luck, 6) + 1; i; i--) {
    message.len = 0;
    a_request(self, &message, "\"m-1\"");
    if (chance_one_in(&self->luck, 2)) text_mutate(&message, &self->luck, true);
    if (chance_one_in(&self->luck, 3))
      wrong_frame(self, &bytes);
    else
      socket_message(self, &bytes, message.data);
  }
  if (chance_one_in(&self->luck, 2)) text_mutate(&bytes, &self->luck, false);
  wire_send(&line, bytes.data, bytes.len);
  if (chance_one_in(&self->luck, 2)) {
    wire_finish(&line);
    while (socket_next(&line, &message, &closed)) ledger_hear(&nobody, message.data, message.len);
  }
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  text_free(&bytes);
  text_free(&message);
}
