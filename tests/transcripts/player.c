/* player.c - plays a transcript against a conn in memory, in every way bytes and memory can fail us:
 * step by step, as few and large pieces as possible, a byte at a time, at random splits, and with
 * each allocation failing in turn. Usage: player FILE.txt */
#include "support/fault_alloc.h"
#include "support/message_shape.h"
#include "support/peer.h"
#include "support/transcript.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum mode {
  BY_STEP,  /* each send step is one feed */
  WHOLE,    /* sends up to the next thing our side does are one feed */
  BY_BYTE,  /* one byte a feed */
  AT_RANDOM /* pieces of random length */
} mode;

typedef struct play {
  const transcript *script;
  const scenario *scene;
  mode mode;
  uint64_t seed;
  peer *peer;
  bool failed;
} play;

static const char *const mode_names[] = {"step by step", "whole", "a byte at a time",
                                         "at random splits"};

static void print_text(const char *label, const char *text, size_t len) {
  fprintf(stderr, "  %s ", label);
  if (!text) fprintf(stderr, "nothing");
  size_t shown = len < 2000 ? len : 2000;
  if (text) fwrite(text, 1, shown, stderr);
  if (text && shown < len) fprintf(stderr, "... (%zu bytes)", len);
  fputc('\n', stderr);
}

static void complain(play *p, const step *at, const char *what, const char *wanted,
                     size_t wanted_len, const peer_text *got) {
  fprintf(stderr, "%s:%d: %s (%s, played %s, seed %llu)\n", p->script->path,
          at ? at->line : p->scene->line, what, p->scene->name, mode_names[p->mode],
          (unsigned long long)p->seed);
  if (wanted) print_text("wanted:", wanted, wanted_len);
  if (wanted || got) print_text("got:   ", got ? got->data : NULL, got ? got->len : 0);
  p->failed = true;
}

/* xorshift: the same splits for the same seed on every machine. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* -------------------------------------------------------------- sending */

static size_t piece_length(play *p, uint64_t *random, size_t left) {
  size_t len = left;
  if (p->mode == BY_BYTE) len = 1;
  if (p->mode == AT_RANDOM) len = 1 + (size_t)(next_random(random) % 40);
  return len < left ? len : left;
}

/* Each piece is fed from memory of its own, so that a read past its end is noticed. */
static void feed_pieces(play *p, const char *data, size_t len) {
  uint64_t random = p->seed * 2654435761u + 88172645463325252u;
  while (len) {
    size_t piece = piece_length(p, &random, len);
    char *copy = malloc(piece);
    if (!copy) abort();
    memcpy(copy, data, piece);
    peer_feed(p->peer, copy, piece);
    free(copy);
    data += piece;
    len -= piece;
  }
}

static bool joins_whole(const step *one) {
  return step_sends(one) || one->kind == STEP_EXPECT || one->kind == STEP_EXPECT_ANY;
}

/* Sends step `at`, and in WHOLE mode all sends before the next barrier; returns where sending
 * stopped, so that joined sends are not sent twice. */
static size_t send_from(play *p, size_t at) {
  const scenario *scene = p->scene;
  char *all = NULL;
  size_t all_len = 0;
  size_t end = at;
  while (end < scene->step_count && joins_whole(&scene->steps[end])) {
    if (step_sends(&scene->steps[end])) {
      size_t len;
      char *bytes = step_wire_bytes(scene, &scene->steps[end], &len);
      all = realloc(all, all_len + len + 1);
      if (!all) abort();
      memcpy(all + all_len, bytes, len);
      all_len += len;
      free(bytes);
    }
    end++;
    if (p->mode != WHOLE) break;
  }
  feed_pieces(p, all, all_len);
  free(all);
  if (scene->policy.framing == IDEM_FRAMING_WHOLE) peer_feed_eof(p->peer);
  return end;
}

/* ------------------------------------------------------------ expecting */

static bool same(const step *wanted, const peer_text *got) {
  return got && got->len == wanted->len && memcmp(got->data, wanted->text, got->len) == 0;
}

static void expect(play *p, const step *wanted) {
  const peer_text *got = peer_list_take(&p->peer->messages);
  if (!same(wanted, got)) complain(p, wanted, "not the answer", wanted->text, wanted->len, got);
}

/* Neighbouring <? steps are one group; returns the step behind it. */
static size_t expect_group(play *p, size_t at) {
  const scenario *scene = p->scene;
  size_t end = at;
  while (end < scene->step_count && scene->steps[end].kind == STEP_EXPECT_ANY) end++;
  bool *used = calloc(end - at + 1, sizeof *used);
  if (!used) abort();
  for (size_t n = at; n < end; n++) {
    const peer_text *got = peer_list_take(&p->peer->messages);
    size_t k = at;
    while (k < end && (used[k - at] || !same(&scene->steps[k], got))) k++;
    if (k == end) complain(p, &scene->steps[n], "not in the group", "one of them", 11, got);
    if (k < end) used[k - at] = true;
  }
  free(used);
  return end;
}

static void expect_nothing(play *p, const step *at) {
  const peer_text *got = peer_list_take(&p->peer->messages);
  if (got) complain(p, at, "nothing was expected", "", 0, got);
  if (p->peer->out_len) complain(p, at, "part of a message was sent", NULL, 0, NULL);
  if (p->peer->malformed_output) complain(p, at, "the output breaks its framing", NULL, 0, NULL);
}

/* A trailing * stands for anything. */
static bool seen_matches(const step *wanted, const peer_text *got) {
  if (!got) return false;
  bool open = wanted->len && wanted->text[wanted->len - 1] == '*';
  if (!open) return same(wanted, got);
  return got->len >= wanted->len - 1 && memcmp(got->data, wanted->text, wanted->len - 1) == 0;
}

static void expect_seen(play *p, const step *wanted) {
  const peer_text *got = peer_list_take(&p->peer->seen);
  if (!seen_matches(wanted, got)) {
    complain(p, wanted, "not what our side was told", wanted->text, wanted->len, got);
  }
}

/* -------------------------------------------------------------- playing */

static size_t play_step(play *p, size_t at, size_t *sent) {
  const step *one = &p->scene->steps[at];
  switch (one->kind) {
  case STEP_SEND:
  case STEP_SEND_RAW:
    if (at >= *sent) *sent = send_from(p, at);
    break;
  case STEP_EXPECT: expect(p, one); break;
  case STEP_EXPECT_ANY: return expect_group(p, at);
  case STEP_NOTHING: expect_nothing(p, one); break;
  case STEP_ADVANCE: peer_advance(p->peer, one->number); break;
  case STEP_EOF: peer_feed_eof(p->peer); break;
  case STEP_CLOSED:
    expect_nothing(p, one);
    if (!peer_ended(p->peer)) complain(p, one, "the conn has not ended", NULL, 0, NULL);
    break;
  case STEP_ACT:
    if (!peer_act(p->peer, one->text))
      complain(p, one, "cannot do that", one->text, one->len, NULL);
    break;
  case STEP_SEE: expect_seen(p, one); break;
  }
  return at + 1;
}

static idem_status open_peer(play *p, fault_alloc *memory, mcp_schema *checker) {
  const scenario *scene = p->scene;
  peer_opts opts = {.alloc = &memory->alloc,
                    .memory = memory,
                    .policy = &scene->policy,
                    .profile = scene->profile,
                    .test_methods = scene->test_methods,
                    .server = scene->mcp_server ? &scene->server : NULL,
                    .client = scene->mcp_client ? &scene->client : NULL,
                    .principal = scene->principal,
                    .checker = checker};
  return peer_open(p->peer, &opts);
}

static void check_calls(play *p) {
  if (p->peer->calls_started != p->peer->calls_ended) {
    complain(p, NULL, "a call did not end exactly once", NULL, 0, NULL);
  }
}

static void play_strictly(play *p) {
  fault_alloc memory;
  fault_alloc_init(&memory);
  bool mcp = p->scene->mcp_server || p->scene->mcp_client;
  mcp_schema *checker = mcp && p->mode == BY_STEP ? mcp_schema_new() : NULL;
  if (open_peer(p, &memory, checker) != IDEM_OK) {
    complain(p, NULL, "the conn could not be made", NULL, 0, NULL);
    return;
  }
  size_t sent = 0;
  for (size_t at = 0; at < p->scene->step_count && !p->failed;) at = play_step(p, at, &sent);
  if (!p->failed) {
    expect_nothing(p, NULL);
    const peer_text *unseen = peer_list_take(&p->peer->seen);
    if (unseen) complain(p, NULL, "our side was told more", "nothing", 7, unseen);
  }
  peer_close(p->peer);
  check_calls(p);
  fault_alloc_assert_clean(&memory);
  if (checker && !mcp_schema_end(checker)) {
    complain(p, NULL, "a message breaks the schema of its revision", NULL, 0, NULL);
  }
}

/* ------------------------------------------------------ failing memory */

/* Without memory a conn may fail, forget detail or answer "Internal error"; what it may never do is
 * answer an id more often than it was asked, or send something that is no message. */
typedef struct sent {
  char *text; /* all bytes sent, for counting ids in them */
  size_t len;
} sent;

static sent all_sent(const scenario *scene) {
  sent all = {calloc(1, 1), 0};
  for (size_t i = 0; i < scene->step_count; i++) {
    const step *one = &scene->steps[i];
    if (!step_sends(one)) continue;
    all.text = realloc(all.text, all.len + one->len + 1);
    if (!all.text) abort();
    memcpy(all.text + all.len, one->text, one->len);
    all.len += one->len;
    all.text[all.len] = 0;
  }
  return all;
}

static size_t occurrences(const char *text, size_t len, const char *word) {
  size_t found = 0, word_len = strlen(word);
  const char *at = text;
  while ((at = memmem(at, len - (size_t)(at - text), word, word_len))) {
    found++;
    at += word_len;
  }
  return found;
}

/* How often an id may be answered: as often as it stands in what was sent or expected. */
static size_t times_asked(const play *p, const sent *all, const char *id) {
  char *word = NULL;
  if (asprintf(&word, "\"id\":%s", id) < 0) abort();
  size_t asked = occurrences(all->text, all->len, word);
  size_t expected = 0;
  for (size_t i = 0; i < p->scene->step_count; i++) {
    const step *one = &p->scene->steps[i];
    if (one->kind == STEP_EXPECT || one->kind == STEP_EXPECT_ANY) {
      expected += occurrences(one->text, one->len, word);
    }
  }
  free(word);
  return asked > expected ? asked : expected;
}

static const char envelope[] = "{\"jsonrpc\":\"2.0\",\"id\":";

/* Where the JSON token at `at` ends: ids are strings or numbers. */
static const char *token_end(const char *at) {
  if (*at != '"') return at + strcspn(at, ",}");
  for (at++; *at && *at != '"'; at++) {
    if (*at == '\\' && at[1]) at++;
  }
  return *at ? at + 1 : at;
}

typedef struct tally {
  char **ids;
  size_t count;
  size_t without; /* answers whose id was not known */
} tally;

/* Quotes inside strings are escaped, so an envelope in the text is one of ours. */
static void tally_ids(tally *t, const char *text) {
  while ((text = strstr(text, envelope))) {
    text += sizeof envelope - 1;
    size_t len = (size_t)(token_end(text) - text);
    if (len == 4 && memcmp(text, "null", 4) == 0) {
      t->without++;
      continue;
    }
    t->ids = realloc(t->ids, (t->count + 1) * sizeof *t->ids);
    if (!t->ids) abort();
    t->ids[t->count] = strndup(text, len);
    if (!t->ids[t->count++]) abort();
  }
}

/* Over HTTP a message has a request around it, or is none. */
static void tally_text(play *p, tally *t, const peer_text *got) {
  const char *text = p->scene->client.http ? strchr(got->data, '{') : got->data;
  if (!text) return;
  size_t len = got->len - (size_t)(text - got->data);
  yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW);
  yyjson_val *root = yyjson_doc_get_root(doc);
  bool good = message_or_batch(root, message_is_well_formed);
  if (!good) complain(p, NULL, "without memory, this is no message", "a message", 9, got);
  if (!yyjson_obj_get(root, "method")) tally_ids(t, got->data);
  yyjson_doc_free(doc);
}

static void check_tally(play *p, const tally *t, const sent *all) {
  for (size_t i = 0; i < t->count; i++) {
    size_t times = 0;
    for (size_t k = 0; k < t->count; k++) times += strcmp(t->ids[i], t->ids[k]) == 0;
    if (times <= times_asked(p, all, t->ids[i])) continue;
    peer_text id = {t->ids[i], strlen(t->ids[i])};
    complain(p, NULL, "without memory, an id was answered more often than asked", "", 0, &id);
    return;
  }
  if (t->without > all->len + 1) complain(p, NULL, "too many answers without an id", NULL, 0, NULL);
}

static void check_answers_without_memory(play *p) {
  sent all = all_sent(p->scene);
  tally t = {0};
  const peer_text *got;
  while (!p->failed && (got = peer_list_take(&p->peer->messages))) tally_text(p, &t, got);
  if (!p->failed) check_tally(p, &t, &all);
  if (p->peer->out_len || p->peer->malformed_output) {
    complain(p, NULL, "without memory, part of a message was sent", NULL, 0, NULL);
  }
  for (size_t i = 0; i < t.count; i++) free(t.ids[i]);
  free(t.ids);
  free(all.text);
}

/* Acts the scenario out without looking; only what can be asked of a conn without memory is asked. */
static void play_without_memory(fault_alloc *fault, void *user) {
  play *p = user;
  if (p->failed || open_peer(p, fault, NULL) != IDEM_OK) return;
  for (size_t at = 0; at < p->scene->step_count; at++) {
    const step *one = &p->scene->steps[at];
    if (step_sends(one)) send_from(p, at);
    if (one->kind == STEP_ADVANCE) peer_advance(p->peer, one->number);
    if (one->kind == STEP_EOF) peer_feed_eof(p->peer);
    if (one->kind == STEP_ACT) peer_act(p->peer, one->text);
  }
  check_answers_without_memory(p);
  peer_close(p->peer);
  check_calls(p);
}

static bool play_one(const transcript *script, const scenario *scene, mode how, uint64_t seed) {
  play p = {.script = script, .scene = scene, .mode = how, .seed = seed};
  p.peer = malloc(sizeof *p.peer);
  if (!p.peer) abort();
  play_strictly(&p);
  free(p.peer);
  return !p.failed;
}

static bool sweep_one(const transcript *script, const scenario *scene) {
  play p = {.script = script, .scene = scene, .mode = BY_STEP};
  p.peer = malloc(sizeof *p.peer);
  if (!p.peer) abort();
  fault_alloc_sweep(play_without_memory, &p, 100000);
  if (!p.failed) fault_alloc_sweep_ever_after(play_without_memory, &p, 100000);
  free(p.peer);
  return !p.failed;
}

static size_t bytes_sent(const scenario *scene) {
  size_t total = 0;
  for (size_t i = 0; i < scene->step_count; i++) {
    if (step_sends(&scene->steps[i])) total += scene->steps[i].len;
  }
  return total;
}

/* With a store that answers later, requests that are sent at once overtake each other, as they may. */
static bool at_once_differs(const scenario *scene) {
  return scene->mcp_server && getenv("IDEM_LATER_STORE");
}

static bool play_scenario(const transcript *script, const scenario *scene) {
  enum { RANDOM_PLAYS = 20 };
  bool good = play_one(script, scene, BY_STEP, 0) &&
              (at_once_differs(scene) || play_one(script, scene, WHOLE, 0)) &&
              play_one(script, scene, BY_BYTE, 0);
  for (uint64_t seed = 1; good && seed <= RANDOM_PLAYS; seed++) {
    good = play_one(script, scene, AT_RANDOM, seed);
    if (bytes_sent(scene) > 100000) break;
  }
  return good && sweep_one(script, scene);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: player FILE.txt\n");
    return 2;
  }
  transcript *script = transcript_load(argv[1]);
  size_t bad = 0;
  for (size_t i = 0; i < script->count; i++) {
    if (!play_scenario(script, &script->scenarios[i])) bad++;
  }
  printf("%s: %zu scenarios, %zu failed\n", argv[1], script->count, bad);
  transcript_free(script);
  return bad ? 1 : 0;
}
