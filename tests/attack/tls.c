/* tls.c - what comes before TLS is done: handshakes cut short or changed, plain text at a TLS port. Then
 * a real client, which must be served all the same. */
#include "web_socket.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The beginning of a ClientHello of TLS 1.2; what follows is made up. */
static const unsigned char hello[] = {
    0x16, 0x03, 0x01, 0x00, 0xa5, 0x01, 0x00, 0x00, 0xa1, 0x03, 0x03, 0x20, 0x21, 0x22, 0x23,
    0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32,
    0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x00, 0x00,
    0x20, 0xcc, 0xa8, 0xcc, 0xa9, 0xc0, 0x2f, 0xc0, 0x30, 0xc0, 0x2b, 0xc0, 0x2c, 0xc0, 0x13};

static void break_handshake(attacker *self, uint16_t port) {
  text bytes = {.data = NULL};
  wire line = wire_tcp(self, port);
  if (chance_one_in(&self->luck, 3))
    text_printf(&bytes, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  else
    text_add(&bytes, (const char *)hello, sizeof hello);
  while (chance_one_in(&self->luck, 2)) text_mutate(&bytes, &self->luck, false);
  wire_send(&line, bytes.data, bytes.len);
  wire_peek(&line, 2);
  wire_end(&line, chance_one_in(&self->luck, 2) ? RESET_IT : CLOSE_IT);
  text_free(&bytes);
}

/* openssl s_client as a pipe through TLS. */
static pid_t tunnel(attacker *self, uint16_t port, wire *line, FILE *log) {
  int pair[2];
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  const char *argv[] = {"/usr/bin/openssl", "s_client", "-quiet", "-connect", address, NULL};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) attack_found(self, "no pipes");
  pid_t pid = program_start(argv, pair[1], pair[1], log);
  close(pair[1]);
  *line = (wire){.owner = self, .in = pair[0], .out = pair[0]};
  return pid;
}

static void end_tunnel(wire *line, pid_t pid, FILE *log) {
  wire_end(line, CLOSE_IT);
  kill(pid, SIGTERM);
  waitpid(pid, NULL, 0);
  fclose(log);
}

static void ask_https(attacker *self, wire *line) {
  text request = {.data = NULL};
  exchange reply;
  ledger asked = {.owner = self};
  const char *id = ledger_new_id(&asked, false), *message;
  char body[512];
  snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"echo\"}", id);
  http_request(&request, "POST", "/", "", body);
  ledger_ask(&asked, id);
  wire_send(line, request.data, request.len);
  if (!http_begin(&reply, line)) attack_found(self, "no answer over TLS");
  if ((message = http_message(&reply))) ledger_hear(&asked, message, strlen(message));
  http_free(&reply);
  ledger_close(&asked);
  text_free(&request);
}

static void ask_wss(attacker *self, wire *line) {
  text bytes = {.data = NULL}, message = {.data = NULL};
  ledger asked = {.owner = self};
  unsigned closed = 0;
  if (!socket_open(line, "/")) attack_found(self, "no upgrade over TLS");
  for (unsigned i = 0; i < 3; i++) {
    const char *id = ledger_new_id(&asked, false);
    message.len = 0;
    text_printf(&message, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"get_data\"}", id);
    ledger_ask(&asked, id);
    socket_message(self, &bytes, message.data);
  }
  wire_send(line, bytes.data, bytes.len);
  while (ledger_missing(&asked) && socket_next(line, &message, &closed))
    ledger_hear(&asked, message.data, message.len);
  ledger_close(&asked);
  text_free(&bytes);
  text_free(&message);
}

void attack_tls(attacker *self) {
  uint16_t port = self->server->https ? self->server->https : self->server->tls;
  for (unsigned i = chance_below(&self->luck, 6); i; i--)
    break_handshake(self, chance_one_in(&self->luck, 2) ? port : self->server->tls);
  if (!self->server->https) return;
  wire line;
  FILE *log = tmpfile();
  if (!log) attack_found(self, "no file");
  pid_t pid = tunnel(self, port, &line, log);
  for (unsigned i = chance_below(&self->luck, 4); i; i--) ask_https(self, &line);
  ask_wss(self, &line);
  end_tunnel(&line, pid, log);
}
