/* frames.c - lines and Content-Length frames over TCP, Unix sockets and pipes: good ones among bad ones,
 * odd ids, batches, readers that stop. What was asked well is answered, whatever stands around it. */
#include "attack.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 60000

static bool serves_tools(const attacker *self) { return self->server->target == SERVE; }

static void a_request(attacker *self, text *into, const char *id) {
  static const char *const rests[] = {"\"echo\",\"params\":[1,\"two\",{}]",
                                      "\"sleep\",\"params\":{\"ms\":2}",
                                      "\"sum\",\"params\":[1,2,3]",
                                      "\"fail\"",
                                      "\"nosuch\"",
                                      "\"get_data\"",
                                      "\"subtract\",\"params\":[42,\"x\"]",
                                      "\"raise\",\"params\":{\"code\":7,\"message\":\"m\"}",
                                      "\"rpc.discover\"",
                                      "\"echo\",\"params\":null",
                                      "\"echo\",\"params\":{\"id\":1,\"id\":2}",
                                      "\"\\u0065cho\",\"params\":[]"};
  static const char *const mcp[] = {
      "\"ping\"",         "\"tools/list\"",     "\"nosuch\"",
      "\"prompts/list\"", "\"resources/list\"", "\"tools/call\",\"params\":{\"name\":\"say\"}"};
  const char *rest =
      serves_tools(self) ? CHANCE_OF(&self->luck, mcp) : CHANCE_OF(&self->luck, rests);
  if (chance_one_in(&self->luck, 2))
    text_printf(into, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%s}", id, rest);
  else
    text_printf(into, " { \"method\":%s , \"id\" : %s,\"x\":[],\t\"jsonrpc\":\"2.0\"} ", rest, id);
}

/* ------------------------------------------------------------------------ messages */

static void new_request(attacker *self, ledger *asked, text *into) {
  const char *id = ledger_new_id(asked, serves_tools(self));
  ledger_ask(asked, id);
  a_request(self, into, id);
}

static void new_batch(attacker *self, ledger *asked, text *into) {
  unsigned count = chance_below(&self->luck, 5) + 1;
  text_add(into, "[", 1);
  for (unsigned i = 0; i < count; i++) {
    if (i) text_add(into, ",", 1);
    new_request(self, asked, into);
    if (chance_one_in(&self->luck, 3))
      text_printf(into, ",{\"jsonrpc\":\"2.0\",\"method\":\"update\"}");
  }
  text_add(into, "]", 1);
}

static void bad_message(attacker *self, text *into) {
  a_request(self, into, "\"m-1\"");
  text_mutate(into, &self->luck, true);
}

/* What must have no answer at all. */
static void silent_message(attacker *self, text *into) {
  static const char *const silent[] = {
      "{\"jsonrpc\":\"2.0\",\"method\":\"update\",\"params\":[1]}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"nosuch\"}",
      "{\"jsonrpc\":\"2.0\",\"method\":\"fail\",\"params\":{\"a\":1}}",
      "{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":1}",
      "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}",
      "{\"jsonrpc\":\"2.0\",\"result\":[]}"};
  text_printf(into, "%s", CHANCE_OF(&self->luck, silent));
}

/* True: what comes back may be about ids that are none of ours. */
static bool next_message(attacker *self, ledger *asked, text *into, bool batches) {
  unsigned kind = chance_below(&self->luck, 8);
  into->len = 0;
  if (kind == 0) return bad_message(self, into), true;
  if (kind == 1)
    silent_message(self, into);
  else if (kind == 2 && batches)
    new_batch(self, asked, into);
  else
    new_request(self, asked, into);
  return false;
}

/* --------------------------------------------------------------------------- lines */

static void send_lines(attacker *self, wire *line, ledger *asked) {
  text message = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 30) + 1; i; i--) {
    if (next_message(self, asked, &message, self->server->target == REFERENCE))
      asked->foreign = true;
    text_printf(&message, "%s", chance_one_in(&self->luck, 5) ? "\r\n \n" : "\n");
    if (!wire_send(line, message.data, message.len)) attack_found(self, "the connection broke");
  }
  text_free(&message);
}

static void hear_lines(wire *line, ledger *asked) {
  text message = {.data = NULL};
  wire_finish(line);
  while (wire_line(line, &message)) ledger_hear(asked, message.data, message.len);
  text_free(&message);
}

/* The answers are longer than what the kernel takes; they come when they are read. */
static void stop_reading(attacker *self, wire *line, ledger *asked) {
  text message = {.data = NULL};
  char *filler = malloc(LARGE);
  if (!filler) abort();
  memset(filler, 'y', LARGE);
  for (unsigned i = chance_below(&self->luck, 40) + 1; i; i--) {
    const char *id = ledger_new_id(asked, false);
    ledger_ask(asked, id);
    message.len = 0;
    text_printf(&message,
                "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"echo\",\"params\":[\"%.*s\"]}\n", id,
                LARGE, filler);
    if (!wire_send_whole(line, message.data, message.len))
      attack_found(self, "the connection broke");
  }
  free(filler);
  text_free(&message);
}

static wire any_line_wire(attacker *self) {
  if (self->server->tcp && chance_one_in(&self->luck, 2)) return wire_tcp(self, self->server->tcp);
  return wire_unix(self, self->server->unix_path);
}

static void hello(attacker *self, wire *line, ledger *asked) {
  text message = {.data = NULL};
  const char *id = ledger_new_id(asked, true);
  mcp_hello(&message, self, id, "2025-06-18");
  text_add(&message, "\n", 1);
  ledger_ask(asked, id);
  wire_send(line, message.data, message.len);
  while (!ledger_answered(asked, id) && wire_line(line, &message))
    ledger_hear(asked, message.data, message.len);
  text_free(&message);
}

void attack_lines(attacker *self) {
  ledger asked = {.owner = self};
  wire line = any_line_wire(self);
  if (serves_tools(self)) hello(self, &line, &asked);
  send_lines(self, &line, &asked);
  if (!serves_tools(self) && chance_one_in(&self->luck, 12)) stop_reading(self, &line, &asked);
  if (chance_one_in(&self->luck, 5)) {
    ledger_excuse_all(&asked);
    wire_end(&line, RESET_IT);
  } else {
    if (chance_one_in(&self->luck, 6))
      wire_send(&line, "{\"jsonrpc\":\"2.0\",\"id\":1", 24), asked.foreign = true;
    hear_lines(&line, &asked);
    wire_end(&line, CLOSE_IT);
  }
  ledger_close(&asked);
}

/* ------------------------------------------------------------------ Content-Length */

static void add_frame(attacker *self, text *into, const text *message) {
  static const char *const before[] = {"",
                                       "",
                                       "",
                                       "Content-Type: application/vscode-jsonrpc\r\n",
                                       "X-Other: \xff\r\n",
                                       "content-type: a; charset=\"utf-8\"\r\n"};
  static const char *const names[] = {"Content-Length: ", "content-length:", "CONTENT-LENGTH:  "};
  const char *other = chance_one_in(&self->luck, 3) ? before[chance_below(&self->luck, 5)] : "";
  text_printf(into, "%s%s%zu\r\n\r\n", other, CHANCE_OF(&self->luck, names), message->len);
  text_add(into, message->data, message->len);
}

static bool next_frame(attacker *self, wire *line, text *message) {
  const char *end;
  while (!line->got.data || !(end = strstr(line->got.data, "\r\n\r\n")))
    if (!wire_more(line)) {
      if (line->got.len) attack_found(self, "half a frame: %.100s", line->got.data);
      return false;
    }
  size_t head = (size_t)(end - line->got.data) + 4;
  if (strncmp(line->got.data, "Content-Length: ", 16) != 0)
    attack_found(self, "not a frame: %.100s", line->got.data);
  size_t len = strtoul(line->got.data + 16, NULL, 10);
  while (line->got.len < head + len)
    if (!wire_more(line)) attack_found(self, "half a frame");
  message->len = 0;
  text_add(message, line->got.data + head, len);
  text_cut(&line->got, head + len);
  return true;
}

static void hear_frames(attacker *self, wire *line, ledger *asked) {
  text message = {.data = NULL};
  wire_finish(line);
  while (next_frame(self, line, &message)) ledger_hear(asked, message.data, message.len);
  text_free(&message);
}

/* Damage comes last: what stands behind it may be taken for a part of it. */
static void damage(attacker *self, wire *line, ledger *asked) {
  text bytes = {.data = NULL}, message = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 4) + 1; i; i--) {
    message.len = 0;
    a_request(self, &message, "\"m-1\"");
    add_frame(self, &bytes, &message);
  }
  text_mutate(&bytes, &self->luck, false);
  asked->foreign = true;
  wire_send(line, bytes.data, bytes.len);
  text_free(&bytes);
  text_free(&message);
}

static void send_frames(attacker *self, wire *line, ledger *asked) {
  text message = {.data = NULL}, bytes = {.data = NULL};
  for (unsigned i = chance_below(&self->luck, 20) + 1; i; i--) {
    if (next_message(self, asked, &message, false)) asked->foreign = true;
    add_frame(self, &bytes, &message);
  }
  wire_send(line, bytes.data, bytes.len);
  text_free(&bytes);
  text_free(&message);
}

void attack_frames(attacker *self) {
  ledger asked = {.owner = self};
  wire line = any_line_wire(self);
  send_frames(self, &line, &asked);
  if (chance_one_in(&self->luck, 2)) damage(self, &line, &asked);
  if (chance_one_in(&self->luck, 5)) {
    ledger_excuse_all(&asked);
    wire_end(&line, RESET_IT);
  } else {
    hear_frames(self, &line, &asked);
    wire_end(&line, CLOSE_IT);
  }
  ledger_close(&asked);
}

/* --------------------------------------------------------------------------- stdio */

/* Something was answered, so the server minds signals by now. */
static void end_in_the_middle(attacker *self, wire *line, ledger *asked, pid_t pid) {
  ledger_excuse_all(asked);
  asked->foreign = true;
  while (!line->got.len && wire_more(line)) continue;
  if (chance_one_in(&self->luck, 2)) wire_peek(line, 5);
  kill(pid, SIGTERM);
}

/* A server of its own, on pipes; it ends with its input, or on a signal in the middle. */
static void speak(attacker *self, wire *line, ledger *asked, bool frames, pid_t pid) {
  if (frames)
    send_frames(self, line, asked);
  else
    send_lines(self, line, asked);
  if (ledger_missing(asked) && chance_one_in(&self->luck, 4))
    end_in_the_middle(self, line, asked, pid);
  if (frames)
    hear_frames(self, line, asked);
  else
    hear_lines(line, asked);
}

void attack_stdio(attacker *self) {
  char program[256];
  bool frames = self->server->target == EDITOR;
  ledger asked = {.owner = self};
  snprintf(program, sizeof program, "%s/idem-reference", bin_folder);
  piped pipes = piped_start(
      self, (const char *const[]){program, "--profile", frames ? "lsp" : "jsonrpc", NULL});
  speak(self, &pipes.line, &asked, frames, pipes.pid);
  piped_end(&pipes);
  ledger_close(&asked);
}
