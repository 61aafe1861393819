/* mcp_wire_player.c - plays MCP's transcripts over a transport. See mcp_wire.h.
 * Usage: mcp_wire_player stdio|tcp|unix|ws|http FILE.txt. Before our own side acts, the server has read all
 * that was sent. Nothing waits for time to pass: a scenario ends with a question of the player's own, so
 * that what should not come has had its chance before the answer. */
#include "mcp_wire.h"

#include "base/metrics.h"
#include "uv/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000, GRACE_MS = 2 * PATIENCE_MS, QUIET_TURNS = 4 };
#define LAST_ID "\"the end\""

_Noreturn void mcp_wire_die(const char *what) {
  fprintf(stderr, "mcp_wire_player: %s: %s\n", what, strerror(errno));
  exit(2);
}

static void complain(mcp_wire *wire, const step *at, const char *what, const char *got) {
  fprintf(stderr, "%s:%d: %s (%s)\n", wire->script->path, at ? at->line : wire->scene->line, what,
          wire->scene->name);
  if (at) fprintf(stderr, "  wanted: %.2000s\n", at->text);
  if (got) fprintf(stderr, "  got:    %.2000s\n", got);
  wire->failed = true;
}

/* ------------------------------------------------------------------------ turns */

static void on_late(uv_timer_t *timer) { ((mcp_wire *)timer->data)->late = true; }

bool mcp_wire_turn(mcp_wire *wire) {
  if (wire->late) return false;
  uv_run(&wire->loop, UV_RUN_ONCE);
  return !wire->late;
}

static uint64_t bytes_read(const mcp_wire *wire) {
  return atomic_load(&wire->metrics->counters[IDEM__M_BYTES_IN]);
}

/* The server has read all that was sent, and has done what came of it. */
static void settle(mcp_wire *wire) {
  while (bytes_read(wire) < wire->sent && !wire->ended && mcp_wire_turn(wire)) {
  }
  for (int i = 0; i < QUIET_TURNS; i++) uv_run(&wire->loop, UV_RUN_NOWAIT);
}

void mcp_wire_heard(mcp_wire *wire, const char *message, size_t len) {
  peer_list *inbox = &wire->inbox;
  inbox->items = realloc(inbox->items, (inbox->count + 1) * sizeof *inbox->items);
  char *copy = strndup(message, len);
  if (!inbox->items || !copy) abort();
  inbox->items[inbox->count++] = (peer_text){copy, len};
}

static void forget(peer_list *inbox, size_t at) {
  free(inbox->items[at].data);
  inbox->count--;
  memmove(inbox->items + at, inbox->items + at + 1, (inbox->count - at) * sizeof *inbox->items);
}

void mcp_wire_date(const char *text, char *date, size_t size) {
  static const char word[] = "protocolVersion\":\"";
  const char *at = strstr(text, word);
  snprintf(date, size, "%.*s", at ? 10 : 0, at ? at + sizeof word - 1 : "");
}

/* -------------------------------------------------------------------- expecting */

static bool same(const peer_text *got, const step *wanted) {
  return got->len == wanted->len && memcmp(got->data, wanted->text, got->len) == 0;
}

/* Where the wanted message is among those that came; the count: it is not. */
static size_t find(const mcp_wire *wire, const step *wanted, bool any) {
  size_t last = any ? wire->inbox.count : wire->inbox.count ? 1 : 0, at = 0;
  while (at < last && !same(&wire->inbox.items[at], wanted)) at++;
  return at < last ? at : wire->inbox.count;
}

static void expect(mcp_wire *wire, const step *wanted) {
  bool any = wanted->kind == STEP_EXPECT_ANY || !wire->link->ordered;
  size_t at;
  while ((at = find(wire, wanted, any)) == wire->inbox.count) {
    bool wrong = !any && wire->inbox.count > 0;
    if (!wrong && mcp_wire_turn(wire)) continue;
    complain(wire, wanted, "not the answer", wire->inbox.count ? wire->inbox.items[0].data : "");
    return;
  }
  forget(&wire->inbox, at);
}

/* Of what our own side is told, what it kept is all that can be seen from here. */
static void expect_seen(mcp_wire *wire, const step *wanted) {
  if (strncmp(wanted->text, "cancelled ", 10) != 0) return;
  while (wire->peer->seen.taken == wire->peer->seen.count && mcp_wire_turn(wire)) {
  }
  const peer_text *got = peer_list_take(&wire->peer->seen);
  if (!got || !same(got, wanted)) complain(wire, wanted, "not told", got ? got->data : "");
}

static bool is_last(const peer_text *got) { return strstr(got->data, "\"id\":" LAST_ID) != NULL; }

/* An answer to this comes whatever was said before. */
static void expect_nothing_more(mcp_wire *wire) {
  static const char last[] =
      "{\"jsonrpc\":\"2.0\",\"id\":" LAST_ID ",\"method\":\"ping\",\"params\":{}}";
  settle(wire);
  if (!wire->ended) wire->link->send(wire, last, sizeof last - 1);
  while (!wire->ended && !wire->inbox.count && mcp_wire_turn(wire)) {
  }
  if (wire->late) complain(wire, NULL, "the last question has no answer", "");
  if (wire->inbox.count && !is_last(&wire->inbox.items[0]))
    complain(wire, NULL, "more came", wire->inbox.items[0].data);
}

static void expect_end(mcp_wire *wire, const step *at) {
  while (!wire->ended && mcp_wire_turn(wire)) {
  }
  if (!wire->ended) complain(wire, at, "the server did not end the conversation", NULL);
  settle(wire);
}

/* ----------------------------------------------------------------------- acting */

/* "DATE [CAPABILITIES]": a handshake whose answer is not looked at. */
static void act_hello(mcp_wire *wire, const char *rest) {
  static const char done[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
  char date[32] = "", *line = NULL;
  int at = 0;
  sscanf(rest, "%31s %n", date, &at);
  int len = asprintf(&line,
                     "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                     "\"protocolVersion\":\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":"
                     "\"c\",\"version\":\"1\"}}}",
                     date, rest[at] ? rest + at : "{}");
  if (len < 0) abort();
  size_t before = wire->inbox.count;
  wire->link->send(wire, line, (size_t)len);
  free(line);
  while (wire->inbox.count == before && mcp_wire_turn(wire)) {
  }
  if (wire->inbox.count > before) forget(&wire->inbox, before);
  wire->link->send(wire, done, sizeof done - 1);
  settle(wire);
}

/* What is done in a row is told at once, as in memory: the loop runs before the first and when news is to
 * be delivered. */
static void act(mcp_wire *wire, const step *one) {
  peer *p = wire->peer;
  bool first = one == wire->scene->steps || one[-1].kind != STEP_ACT;
  if (first || strcmp(one->text, "deliver") == 0) settle(wire);
  if (strncmp(one->text, "hello ", 6) == 0)
    act_hello(wire, one->text + 6);
  else if (strncmp(one->text, "drop ", 5) == 0)
    idem_request_drop(peer_kept_request(p, one->text + 5, true));
  else if (strcmp(one->text, "close") == 0)
    idem_conn_close(p->conn);
  else if (strcmp(one->text, "abort") == 0)
    idem_conn_abort(p->conn);
  else if (!peer_act_mcp(p, one->text))
    complain(wire, one, "cannot do that", NULL);
}

/* ---------------------------------------------------------------------- playing */

static void play_step(mcp_wire *wire, const step *one) {
  switch (one->kind) {
  case STEP_SEND: wire->link->send(wire, one->text, one->len); break;
  case STEP_EXPECT:
  case STEP_EXPECT_ANY: expect(wire, one); break;
  case STEP_EOF:
    settle(wire);
    wire->link->end_input(wire);
    break;
  case STEP_CLOSED: expect_end(wire, one); break;
  case STEP_ACT: act(wire, one); break;
  case STEP_SEE: expect_seen(wire, one); break;
  default: break; /* nothing came: the next message, or the last question, shows */
  }
}

static void on_open(idem_conn *conn, void *user) { ((mcp_wire *)user)->peer->conn = conn; }
static void on_close(idem_conn *conn, void *user) {
  (void)conn;
  ((mcp_wire *)user)->ended = true;
}
static void keep(idem_request *request, void *user) { peer_keep(user, request, 0); }
static void on_stopped(void *user) { ((mcp_wire *)user)->stopped = true; }

static void start(mcp_wire *wire) {
  idem_serve_opts opts = {
      .grace_ms = GRACE_MS, .metrics = wire->metrics, .on_open = on_open, .on_close = on_close};
  wire->peer->fixture.keep = keep;
  wire->peer->fixture.user = wire->peer;
  if (mcp_fixture_open(&wire->peer->fixture, &wire->scene->server) != IDEM_OK) abort();
  opts.server = wire->peer->fixture.server;
  opts.user = wire;
  char url[256];
  wire->link->prepare(wire, url, sizeof url);
  if (idem_serve(&wire->loop, url, &opts, &wire->listener) != IDEM_OK) mcp_wire_die(url);
  struct idem__mcp_worker **worker = &wire->peer->hub;
  if (idem__runtime_worker(wire->listener->runtime, opts.server, worker) != IDEM_OK) abort();
}

static void stop(mcp_wire *wire) {
  for (size_t i = 0; i < wire->peer->kept_count; i++) {
    idem_request_drop(wire->peer->kept[i].request);
    free(wire->peer->kept[i].id);
  }
  wire->peer->kept_count = 0;
  wire->link->close(wire);
  uv_timer_stop(&wire->listener->grace); /* which the end of input may have begun */
  wire->listener->opts.grace_ms = 1;
  idem_listener_stop(wire->listener, on_stopped, wire);
  while (!wire->stopped && mcp_wire_turn(wire)) {
  }
  uv_close((uv_handle_t *)&wire->patience, NULL);
  while (uv_run(&wire->loop, UV_RUN_NOWAIT)) {
  }
  if (!wire->stopped || uv_loop_close(&wire->loop) != 0)
    complain(wire, NULL, "the server did not stop", NULL);
  mcp_fixture_close(&wire->peer->fixture);
  if (wire->link->restore) wire->link->restore();
}

static void free_list(peer_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->items[i].data);
  free(list->items);
}

static bool play(const transcript *script, const scenario *scene, const mcp_link *link) {
  mcp_wire wire = {.script = script, .scene = scene, .link = link, .peer = calloc(1, sizeof(peer))};
  if (!wire.peer || idem_metrics_new(NULL, &wire.metrics) != IDEM_OK) abort();
  uv_loop_init(&wire.loop);
  uv_timer_init(&wire.loop, &wire.patience);
  wire.patience.data = &wire;
  uv_timer_start(&wire.patience, on_late, PATIENCE_MS, 0);
  start(&wire);
  link->open(&wire);
  for (size_t at = 0; at < scene->step_count && !wire.failed; at++)
    play_step(&wire, &scene->steps[at]);
  if (!wire.failed) expect_nothing_more(&wire);
  stop(&wire);
  free_list(&wire.inbox);
  free_list(&wire.peer->seen);
  idem_metrics_free(wire.metrics);
  free(wire.peer);
  return !wire.failed;
}

/* ----------------------------------------------------------------- what can be played */

static bool step_fits(const step *one, const mcp_link *link) {
  if (one->kind == STEP_ACT && strcmp(one->text, "free") == 0) return false;
  if (one->kind == STEP_SEND_RAW) return false;
  bool of_conn =
      one->kind == STEP_ACT && (strcmp(one->text, "close") == 0 || strcmp(one->text, "abort") == 0);
  if (of_conn && !link->tells) return false;
  return link->ordered || (one->kind != STEP_EOF && one->kind != STEP_CLOSED);
}

static bool can_play(const scenario *scene, const mcp_link *link) {
  if (!scene->mcp_server || scene->memory_only || *scene->principal) return false;
  if (scene->lines_only && !link->ordered) return false;
  for (size_t i = 0; i < scene->step_count; i++) {
    if (!step_fits(&scene->steps[i], link)) return false;
  }
  return true;
}

static const mcp_link *link_named(const char *name) {
  static const mcp_link *const links[] = {&mcp_link_stdio, &mcp_link_tcp, &mcp_link_unix,
                                          &mcp_link_ws, &mcp_link_http};
  for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
    if (strcmp(links[i]->name, name) == 0) return links[i];
  }
  fprintf(stderr, "mcp_wire_player: no such transport: %s\n", name);
  exit(2);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: mcp_wire_player stdio|tcp|unix|ws|http FILE.txt\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  const mcp_link *link = link_named(argv[1]);
  transcript *script = transcript_load(argv[2]);
  size_t played = 0, bad = 0;
  for (size_t i = 0; i < script->count; i++) {
    if (!can_play(&script->scenarios[i], link)) continue;
    played++;
    if (!play(script, &script->scenarios[i], link)) bad++;
  }
  printf("%s: %zu of %zu scenarios played over %s, %zu failed\n", argv[2], played, script->count,
         argv[1], bad);
  transcript_free(script);
  if (!played) fprintf(stderr, "%s: nothing in it can be played over %s\n", argv[2], argv[1]);
  return bad || !played ? 1 : 0;
}
