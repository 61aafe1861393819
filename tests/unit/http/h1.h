/* h1.h - what the tests of HTTP/1.1 share: a peer for each test, and requests at any split. */
#ifndef IDEM_TEST_H1_H
#define IDEM_TEST_H1_H

#include "support/http_peer.h"
#include "support/http_tricks.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOW HEAD "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"slow\"}"

static inline int open_peer(void **state) {
  http_peer *peer = calloc(1, sizeof *peer);
  assert_non_null(peer);
  assert_int_equal(http_peer_init(peer, NULL), IDEM_OK);
  *state = peer;
  return 0;
}

static inline int close_peer(void **state) {
  http_peer_deinit(*state);
  free(*state);
  return 0;
}

#define WITH_PEER(test) cmocka_unit_test_setup_teardown(test, open_peer, close_peer)

static inline void feed(http_peer *peer, const char *text, size_t piece) {
  http_peer_feed(peer, text, strlen(text), piece);
}

/* Plays the text whole, byte by byte and in pieces of 2, 3, 5 ...; each on a conn of its own. */
static inline void play_all_splits(const http_peer_opts *opts, const char *text, const char *status,
                                   const char *contains, size_t answers) {
  static const size_t pieces[] = {0, 1, 2, 3, 5, 7, 11, 16, 33, 64, 100};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, opts), IDEM_OK);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
    feed(&peer, text, pieces[i]);
    assert_int_equal(peer.status, IDEM_OK);
    if (!strstr(peer.output, status) || !strstr(peer.output, contains) ||
        http_peer_count(&peer, "HTTP/1.1 ") != answers)
      fail_msg("pieces of %zu: wanted %zu x %s with %s, got:\n%s", pieces[i], answers, status,
               contains, peer.output);
  }
  http_peer_deinit(&peer);
}

#endif
