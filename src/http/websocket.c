/* websocket.c - one JSON-RPC message a text frame, framing by wslay; both roles.
 * wslay checks masks, opcodes, order of fragments and UTF-8; we gather messages (its own way costs a
 * hundred bytes a fragment), turn its verdicts into close codes, refuse binary, and hand it heads and
 * control frames in one piece, so that what it finds does not depend on how the bytes came. Behind a message
 * that waits for its turn nothing is looked at, whatever it is: its answer leaves before the close frame.
 * See docs/internals/http.md. */
#include "http.h"

#include <string.h>
#include <wslay/wslay.h>

#define CONTROL_FRAME_MAX 131 /* two bytes, a mask, 125 bytes; the longest head has 14 */

#define MESSAGE_KEEP 1024             /* capacity that stays between messages */
#define BEHIND_ROOM ((size_t)1 << 20) /* beside a message: what was read at once */

struct idem__websocket {
  wslay_event_context_ptr context;
  idem__websocket_opts opts;
  idem_buf message; /* the text so far; bounded by bytes, whatever the fragments */
  idem_buf behind;  /* what came behind a message that waits, from `behind_at` on */
  size_t behind_at;
  uint64_t message_count; /* of messages, and of control frames outside of them, that have ended */
  uint64_t begun_count;   /* message_count when `begun_ms` was taken */
  uint64_t begun_ms;      /* when what is unfinished was first seen so; 0: nothing was */
  const char *input;
  size_t input_len;
  idem_status failed;
  uint8_t piece[CONTROL_FRAME_MAX]; /* of a head or a control frame that is not complete yet */
  uint8_t piece_len;
  uint64_t payload_left; /* of the data frame whose head wslay has been given */
  uint8_t opcode;        /* of the frame being read */
  bool inside;           /* a data message has begun and not ended */
  bool waits;            /* it has ended, and waits for its turn */
  bool halted;           /* what the last one began goes on first, in other turns */
  bool lent;             /* its text is with on_message */
  bool sending;          /* wslay is writing: it must not be entered a second time */
  bool told;             /* on_close has run */
  bool closing;          /* a close frame of ours is queued or sent */
  bool broken;           /* the peer does not speak frames; it has been told */
};

/* --------------------------------------------------------------- handshake */

void idem__websocket_accept(idem__view key, char accept[IDEM__WEBSOCKET_ACCEPT]) {
  static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  char text[24 + sizeof suffix - 1];
  uint8_t digest[IDEM__SHA1_BYTES];
  size_t len = key.len < 24 ? key.len : 24;
  if (len) memcpy(text, key.at, len);
  memcpy(text + len, suffix, sizeof suffix - 1);
  idem__sha1(text, len + sizeof suffix - 1, digest);
  idem_buf out;
  idem_buf_fixed(&out, accept, IDEM__WEBSOCKET_ACCEPT);
  idem_base64_encode(&out, digest, sizeof digest, IDEM_BASE64_STANDARD);
}

bool idem__websocket_asked(const idem_http_request *request) {
  idem__view list = idem__http_known_value(request, IDEM__H_UPGRADE), element;
  while (idem__view_next(&list, &element))
    if (idem__view_eq(element, "websocket")) return true;
  return false;
}

static bool names_upgrade(const idem_http_request *request) {
  idem__view list = idem__http_header_value(request, "connection"), element;
  while (idem__view_next(&list, &element))
    if (idem__view_eq(element, "upgrade")) return true;
  return false;
}

/* 16 bytes in base64: 22 digits and two equals signs. */
static bool good_key(idem__view key) {
  if (!key.at || key.len != 24 || key.at[22] != '=' || key.at[23] != '=') return false;
  for (size_t i = 0; i < 22; i++) {
    char c = key.at[i];
    bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!letter && !(c >= '0' && c <= '9') && c != '+' && c != '/') return false;
  }
  return true;
}

void idem__websocket_check(const idem_http_request *request, idem__http_refusal *refusal) {
  if (!idem__view_eq(idem__http_header_value(request, "sec-websocket-version"), "13"))
    *refusal = (idem__http_refusal){.status = 426, .reason = "unavailable"};
  else if (request->minor != 1 || !names_upgrade(request) ||
           !good_key(idem__http_header_value(request, "sec-websocket-key")))
    *refusal = (idem__http_refusal){.status = 400, .code = IDEM_RPC_PARSE_ERROR};
}

/* -------------------------------------------------------- wslay's callbacks */

static size_t take_input(idem__websocket *socket, uint8_t *data, size_t len) {
  size_t take = len < socket->input_len ? len : socket->input_len;
  if (take) memcpy(data, socket->input, take);
  socket->input += take;
  socket->input_len -= take;
  return take;
}

/* How many bytes wslay must see at once, as far as the first `have` of them tell: a head, and with
 * it the payload of a control frame. A control frame that is wrong already needs no more. */
static size_t piece_wanted(const uint8_t *piece, size_t have) {
  if (have < 2) return 2;
  bool control = piece[0] & 0x08, final = piece[0] & 0x80;
  size_t mask = piece[1] & 0x80 ? 4 : 0, length = piece[1] & 0x7f;
  if (control) return final && length <= 125 ? 2 + mask + length : 2;
  return 2 + mask + (length == 126 ? 2u : length == 127 ? 8u : 0u);
}

static uint64_t payload_length(const uint8_t *head) {
  uint64_t length = head[1] & 0x7f;
  size_t extended = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (head[0] & 0x08) return 0; /* a control frame's came with its head */
  if (extended) length = 0;
  for (size_t i = 0; i < extended; i++) length = length << 8 | head[2 + i];
  return length;
}

/* Gathers a piece; its length once it is whole, 0 while it is not. */
static size_t take_piece(idem__websocket *socket, uint8_t *data) {
  size_t wanted;
  while (socket->piece_len < (wanted = piece_wanted(socket->piece, socket->piece_len))) {
    size_t took = take_input(socket, socket->piece + socket->piece_len, wanted - socket->piece_len);
    if (!took) return 0;
    socket->piece_len = (uint8_t)(socket->piece_len + took);
  }
  memcpy(data, socket->piece, wanted);
  socket->payload_left = payload_length(socket->piece);
  socket->piece_len = 0;
  return wanted;
}

/* Nothing more is looked at until idem__websocket_go_on. */
static bool is_stopped(const idem__websocket *socket) { return socket->waits || socket->halted; }

/* wslay asks with an empty buffer of 4 KiB, since it never got more than it could use up. It checks
 * the text of a close frame piece by piece and skips two bytes of each, so it must get one. */
static ssize_t on_receive(wslay_event_context_ptr context, uint8_t *data, size_t len, int flags,
                          void *user) {
  idem__websocket *socket = user;
  size_t got = 0;
  (void)flags;
  if (is_stopped(socket))
    len = 0; /* between two frames: nothing is left of the one that ended the message */
  if (!socket->payload_left && len >= CONTROL_FRAME_MAX) got = take_piece(socket, data);
  size_t room = len - got < socket->payload_left ? len - got : (size_t)socket->payload_left;
  size_t took = take_input(socket, data + got, room);
  socket->payload_left -= took;
  if (got + took) return (ssize_t)(got + took);
  wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
  return -1;
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *data, size_t len, int flags,
                       void *user) {
  idem__websocket *socket = user;
  (void)flags;
  idem_status status = socket->opts.output(socket->opts.user, (const char *)data, len);
  if (status == IDEM_OK) return (ssize_t)len;
  socket->failed = status;
  wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
  return -1;
}

static int on_mask(wslay_event_context_ptr context, uint8_t *data, size_t len, void *user) {
  idem__websocket *socket = user;
  (void)context;
  socket->opts.random(socket->opts.random_ctx, data, len);
  return 0;
}

static void tell_closed(idem__websocket *socket, uint16_t code) {
  if (socket->told) return;
  socket->told = true;
  if (socket->opts.on_close) socket->opts.on_close(socket, code, socket->opts.user);
}

/* Codes a peer may send: RFC 6455 7.4, and those registered since. */
static bool good_code(uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

/* 0: the close frame's payload is as it should be. */
static uint16_t close_fault(const uint8_t *payload, size_t len) {
  if (!len) return 0;
  if (len == 1 || !good_code((uint16_t)(payload[0] << 8 | payload[1])))
    return WSLAY_CODE_PROTOCOL_ERROR;
  bool text = idem_utf8_valid((const char *)payload + 2, len - 2);
  return text ? 0 : WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA;
}

static void drop_message(idem__websocket *socket) {
  if (socket->lent) return;
  socket->waits = false;
  socket->message.len = 0;
  idem_buf_trim(&socket->message, socket->closing ? 0 : MESSAGE_KEEP);
}

/* Nothing more is read; the peer is told why. */
static void stop_reading(idem__websocket *socket, uint16_t code) {
  if (!socket->closing) wslay_event_queue_close(socket->context, code, NULL, 0);
  socket->closing = true;
  wslay_event_shutdown_read(socket->context);
  drop_message(socket);
}

static void on_frame_start(wslay_event_context_ptr context,
                           const struct wslay_event_on_frame_recv_start_arg *start, void *user) {
  idem__websocket *socket = user;
  (void)context;
  socket->opcode = start->opcode;
  if (start->opcode & 0x08) return;
  socket->inside = true;
  if (start->payload_length > socket->message.max - socket->message.len)
    stop_reading(socket, WSLAY_CODE_MESSAGE_TOO_BIG);
}

static void gather(idem__websocket *socket, const uint8_t *data, size_t len) {
  if (socket->closing || !len) return;
  if (idem_buf_put(&socket->message, data, len) == IDEM_OK) return;
  socket->failed = IDEM_E_NOMEM;
  wslay_event_shutdown_read(socket->context);
}

/* wslay answers any close frame in kind; to a malformed one our own verdict is queued first. */
static void on_frame_chunk(wslay_event_context_ptr context,
                           const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *user) {
  idem__websocket *socket = user;
  if (!(socket->opcode & 0x08)) gather(socket, chunk->data, chunk->data_length);
  if (socket->opcode != WSLAY_CONNECTION_CLOSE) return;
  uint16_t fault = close_fault(chunk->data, chunk->data_length);
  if (!fault) return;
  socket->closing = true;
  wslay_event_queue_close(context, fault, NULL, 0);
}

static idem_status flush(idem__websocket *socket);

static void deliver(idem__websocket *socket) {
  const char *text = socket->message.len ? socket->message.data : "";
  socket->lent = true;
  socket->opts.on_message(socket, text, socket->message.len, socket->opts.user);
  socket->lent = false;
}

static bool must_wait(const idem__websocket *socket) {
  return socket->opts.must_wait && socket->opts.must_wait(socket->opts.user);
}

static void deliver_and_see(idem__websocket *socket) {
  deliver(socket);
  socket->halted = socket->opts.must_halt && socket->opts.must_halt(socket->opts.user);
}

/* What each message gives rise to leaves before the next is looked at: wslay lets control frames
 * overtake, and after a close frame it sends nothing more. */
static void on_frame_message(wslay_event_context_ptr context,
                             const struct wslay_event_on_msg_recv_arg *message, void *user) {
  idem__websocket *socket = user;
  bool data = !(message->opcode & 0x08);
  (void)context;
  if (data) socket->inside = false;
  if (!socket->inside) socket->message_count++;
  if (message->opcode == WSLAY_CONNECTION_CLOSE) {
    socket->closing = true;
    tell_closed(socket, message->status_code ? message->status_code : WSLAY_CODE_NO_STATUS_RCVD);
  } else if (socket->closing) {
    return; /* what comes after our close frame is not for us */
  } else if (message->opcode == WSLAY_TEXT_FRAME) {
    socket->waits = must_wait(socket);
    if (socket->waits) return;
    deliver_and_see(socket);
  } else if (message->opcode == WSLAY_BINARY_FRAME) {
    idem__websocket_close(socket, WSLAY_CODE_UNSUPPORTED_DATA, "text only");
  }
  if (data || socket->closing) drop_message(socket);
  flush(socket);
}

/* ------------------------------------------------------------ entry points */

idem_status idem__websocket_new(const idem__websocket_opts *opts, idem__websocket **out) {
  static const struct wslay_event_callbacks callbacks = {
      .recv_callback = on_receive,
      .send_callback = on_send,
      .genmask_callback = on_mask,
      .on_frame_recv_start_callback = on_frame_start,
      .on_frame_recv_chunk_callback = on_frame_chunk,
      .on_msg_recv_callback = on_frame_message,
  };
  *out = NULL;
  if (opts->client && !opts->random) return IDEM_E_INVAL;
  idem__websocket *socket = idem__calloc(opts->alloc, sizeof *socket);
  if (!socket) return IDEM_E_NOMEM;
  socket->opts = *opts;
  int failure = opts->client
                    ? wslay_event_context_client_init(&socket->context, &callbacks, socket)
                    : wslay_event_context_server_init(&socket->context, &callbacks, socket);
  if (failure) {
    idem__free(opts->alloc, socket);
    return IDEM_E_NOMEM;
  }
  size_t max = opts->message_bytes ? opts->message_bytes : 10485760;
  wslay_event_config_set_max_recv_msg_length(socket->context, max); /* of a frame, then */
  wslay_event_config_set_no_buffering(socket->context, 1);
  idem_buf_init(&socket->message, opts->alloc, max);
  idem_buf_init(&socket->behind, opts->alloc, max + BEHIND_ROOM);
  *out = socket;
  return IDEM_OK;
}

void idem__websocket_free(idem__websocket *socket) {
  if (!socket) return;
  tell_closed(socket, WSLAY_CODE_ABNORMAL_CLOSURE);
  wslay_event_context_free(socket->context);
  idem_buf_deinit(&socket->message);
  idem_buf_deinit(&socket->behind);
  if (socket->opts.on_free) socket->opts.on_free(socket->opts.user);
  idem__free(socket->opts.alloc, socket);
}

static idem_status flush(idem__websocket *socket) {
  if (socket->failed == IDEM_OK && !socket->sending && !socket->broken) {
    socket->sending = true;
    int failure = wslay_event_send(socket->context);
    socket->sending = false;
    if (failure && socket->failed == IDEM_OK)
      socket->failed = failure == WSLAY_ERR_NOMEM ? IDEM_E_NOMEM : IDEM_E_PROTO;
  }
  return socket->failed;
}

static uint16_t close_code(const idem__websocket *socket) {
  uint16_t code = wslay_event_get_status_code_sent(socket->context);
  return code ? code : WSLAY_CODE_PROTOCOL_ERROR;
}

/* For what is no frame at all wslay closes without a code; the peer gets 1002 from us instead. */
static idem_status break_off(idem__websocket *socket) {
  char close[8] = {(char)0x88, 2, 0x03, (char)0xea};
  size_t len = 4;
  if (socket->opts.client) {
    uint8_t mask[4];
    socket->opts.random(socket->opts.random_ctx, mask, sizeof mask);
    close[1] = (char)0x82;
    close[6] = (char)(0x03 ^ mask[0]);
    close[7] = (char)(0xea ^ mask[1]);
    memcpy(close + 2, mask, sizeof mask);
    len = 8;
  }
  socket->broken = socket->closing = true;
  if (socket->failed == IDEM_OK && !wslay_event_get_close_sent(socket->context))
    socket->failed = socket->opts.output(socket->opts.user, close, len);
  tell_closed(socket, WSLAY_CODE_PROTOCOL_ERROR);
  return socket->failed;
}

/* As far as it may be looked at; how much is left of it then. */
static size_t read_frames(idem__websocket *socket, const char *data, size_t len, int *failure) {
  socket->input = data;
  socket->input_len = len;
  *failure = wslay_event_want_read(socket->context) ? wslay_event_recv(socket->context) : 0;
  size_t left = is_stopped(socket) ? socket->input_len : 0;
  socket->input_len = 0;
  return left;
}

static idem_status conclude(idem__websocket *socket, int failure) {
  if (failure == WSLAY_ERR_NOMEM) socket->failed = IDEM_E_NOMEM;
  if (socket->failed != IDEM_OK) return socket->failed;
  if (failure) return break_off(socket);
  flush(socket);
  if (!wslay_event_get_read_enabled(socket->context)) {
    socket->closing = true;
    tell_closed(socket, close_code(socket));
  }
  return socket->failed;
}

static void keep_behind(idem__websocket *socket, const char *data, size_t len) {
  idem_status status = len ? idem_buf_put(&socket->behind, data, len) : IDEM_OK;
  if (socket->failed == IDEM_OK) socket->failed = status;
}

idem_status idem__websocket_feed(idem__websocket *socket, const char *data, size_t len) {
  if (socket->failed != IDEM_OK || socket->broken) return socket->failed;
  int failure = 0;
  size_t left = len;
  if (!is_stopped(socket) && !socket->behind.len) left = read_frames(socket, data, len, &failure);
  keep_behind(socket, data + len - left, left);
  return conclude(socket, failure);
}

static void read_behind(idem__websocket *socket, int *failure) {
  size_t len = socket->behind.len - socket->behind_at;
  size_t left = read_frames(socket, socket->behind.data + socket->behind_at, len, failure);
  socket->behind_at = socket->behind.len - left;
  if (left) return;
  idem_buf_deinit(&socket->behind);
  socket->behind_at = 0;
}

idem_status idem__websocket_go_on(idem__websocket *socket) {
  int failure = 0;
  if (socket->failed != IDEM_OK || socket->broken) return socket->failed;
  socket->halted = false;
  if (socket->waits) {
    socket->waits = false;
    deliver_and_see(socket);
    drop_message(socket);
    flush(socket);
  }
  if (socket->behind.len && !socket->halted) read_behind(socket, &failure);
  return conclude(socket, failure);
}

static idem_status queue(idem__websocket *socket, uint8_t opcode, const char *text, size_t len) {
  if (socket->failed != IDEM_OK) return socket->failed;
  if (socket->closing) return IDEM_E_CLOSED;
  struct wslay_event_msg message = {opcode, (const uint8_t *)text, len};
  int failure = wslay_event_queue_msg(socket->context, &message);
  if (failure) return failure == WSLAY_ERR_NOMEM ? IDEM_E_NOMEM : IDEM_E_CLOSED;
  return flush(socket);
}

idem_status idem__websocket_send(idem__websocket *socket, const char *text, size_t len) {
  return queue(socket, WSLAY_TEXT_FRAME, text, len);
}

idem_status idem__websocket_ping(idem__websocket *socket) {
  return queue(socket, WSLAY_PING, "", 0);
}

void idem__websocket_close(idem__websocket *socket, uint16_t code, const char *reason) {
  if (socket->closing || socket->failed != IDEM_OK) return;
  socket->closing = true;
  wslay_event_queue_close(socket->context, code, (const uint8_t *)reason,
                          reason ? strlen(reason) : 0);
  flush(socket);
  drop_message(socket);
}

size_t idem__websocket_unfinished(const idem__websocket *socket) {
  return socket->closing || socket->lent || socket->waits ? 0 : socket->message.cap;
}

static bool unfinished(const idem__websocket *socket) {
  return !socket->closing && (socket->inside || socket->payload_left || socket->piece_len);
}

uint64_t idem__websocket_due(idem__websocket *socket, uint64_t now_ms, uint64_t limit_ms,
                             uint64_t most_ms) {
  if (!unfinished(socket)) {
    socket->begun_ms = 0;
    return UINT64_MAX;
  }
  if (!socket->begun_ms || socket->begun_count != socket->message_count) {
    socket->begun_ms = now_ms;
    socket->begun_count = socket->message_count;
  }
  return socket->begun_ms + idem__time_to_arrive(limit_ms, most_ms, socket->message.len);
}

bool idem__websocket_closing(const idem__websocket *socket) { return socket->closing; }

bool idem__websocket_finished(const idem__websocket *socket) {
  if (socket->failed != IDEM_OK || socket->broken) return true;
  bool heard = wslay_event_get_close_received(socket->context) ||
               !wslay_event_get_read_enabled(socket->context);
  return heard && wslay_event_get_close_sent(socket->context);
}
