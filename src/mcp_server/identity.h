/* identity.h - which store it is: a secret that whoever came first has left there, for all who share it. What seals requestState is
 * made of it, and the name by which clients know where their keys are. A store that has lost what it held has another one, which
 * its nodes take when they notice. See docs/internals/mcp_server.md. */
#ifndef IDEM_MCP_IDENTITY_H
#define IDEM_MCP_IDENTITY_H

#include "../mcp/once_key.h"
#include "../store/store.h"
#include "nouns.h"

#define IDEM__STATE_KEY_BYTES 32

typedef struct idem__identity {
  idem__lock lock; /* the first two, which may change while serving */
  char keys_name[IDEM__ONCE_STORE_ID + 1];
  uint8_t state_key[IDEM__STATE_KEY_BYTES];
  bool shared; /* it stands in the store */
  _Atomic bool doubted;
  _Atomic bool looking;    /* the store was asked for it */
  _Atomic bool unknown;    /* ... and did not say */
  _Atomic unsigned losses; /* so often it was another */
  uint64_t version;        /* of its record, while it is looked at */
  /* identity_parts.c: where its store has several parts, the names of the marks in them. Before serving. */
  unsigned parts;
  uint16_t marks[IDEM__STORE_PARTS_MAX];
  _Atomic uint64_t seen; /* parts whose mark was there: one that never was is missed by nobody */
} idem__identity;

/* The record that holds it, for who reads or writes it. */
idem__store_op idem__identity_op(idem__store_verb verb);
/* Before serving: as the store says. */
void idem__identity_share(idem_server *server, const uint8_t secret[IDEM__STATE_KEY_BYTES]);
/* Of a server's own, in memory. */
void idem__identity_own(idem_server *server);
/* It may be another: looked at with the next delivery. From any thread. */
void idem__identity_doubt(idem_server *server);
void idem__identity_deliver(idem__mcp_worker *worker);
/* With each renewal of its node: where the store did not say it is asked again. */
void idem__identity_tick(idem_server *server);
/* A watcher of its space. */
void idem__identity_on_change(const idem__store_change *change, void *user);

/* identity_parts.c: a store of several parts has a mark in each, by which is seen that one of them has lost what it held. Names them; before
 * serving. */
void idem__identity_name_marks(idem_server *server);
/* Makes those that are missing; nobody waits for it. */
void idem__identity_mark_all(idem_server *server);
/* Whether all are there; unless somebody knows that one is not, they are. */
typedef void (*idem__identity_seen)(idem__mcp_worker *worker, bool all);
void idem__identity_look_at_marks(idem__mcp_worker *worker, idem__identity_seen seen);

/* Whether the store is still the one of that name: OK; STATE: it is not, or has none; else nobody knows. */
idem_status idem__identity_judge(const char *name, const idem__store_answer *answer);

#endif
