/* turns.c - see turns.h. A lane holds the calls of one client for one tool in the order they came;
 * it stands in the ring of its client and in the ring of its tool, and goes when it is empty. */
#include "turns.h"

#include "room.h"

#include <stdlib.h>
#include <string.h>

typedef struct client {
  idem_list link;
  idem_list lanes;
  idem_client_identity who;
  size_t count;
  char bytes[]; /* of `who` */
} client;

struct lane {
  idem_list in_client;
  idem_list in_tool;
  idem_list calls;
  client *client;
  turns_tool *tool;
};

void turns_init(turns *self) {
  *self = (turns){.count = 0};
  idem_list_init(&self->clients);
  idem_list_init(&self->tools);
}

void turns_tool_init(turns_tool *tool) {
  idem_list_init(&tool->link);
  idem_list_init(&tool->lanes);
}

/* ------------------------------------------------------------------ clients and lanes */

static client *find_client(const turns *self, const idem_request *request) {
  idem_client_identity who = idem_request_client(request);
  for (idem_list *at = self->clients.next; at != &self->clients; at = at->next) {
    client *one = IDEM_CONTAINER(at, client, link);
    if (one->who.thing == who.thing && one->who.len == who.len &&
        memcmp(one->who.bytes, who.bytes, who.len) == 0)
      return one;
  }
  return NULL;
}

static client *client_new(turns *self, const idem_request *request) {
  idem_client_identity who = idem_request_client(request);
  client *made = calloc(1, sizeof *made + who.len);
  if (!made) return NULL;
  memcpy(made->bytes, who.bytes, who.len);
  made->who = (idem_client_identity){who.thing, made->bytes, who.len};
  idem_list_init(&made->lanes);
  idem_list_append(&self->clients, &made->link);
  return made;
}

static void client_free_if_done(client *self) {
  if (self->count) return;
  idem_list_remove(&self->link);
  free(self);
}

static lane *find_lane(const client *self, const turns_tool *tool) {
  for (idem_list *at = self->lanes.next; at != &self->lanes; at = at->next) {
    lane *one = IDEM_CONTAINER(at, lane, in_client);
    if (one->tool == tool) return one;
  }
  return NULL;
}

static lane *lane_new(turns *self, client *owner, turns_tool *tool) {
  lane *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->client = owner;
  made->tool = tool;
  idem_list_init(&made->calls);
  idem_list_append(&owner->lanes, &made->in_client);
  if (idem_list_empty(&tool->lanes)) idem_list_append(&self->tools, &tool->link);
  idem_list_append(&tool->lanes, &made->in_tool);
  return made;
}

static void lane_free_if_empty(lane *self) {
  if (!idem_list_empty(&self->calls)) return;
  idem_list_remove(&self->in_client);
  idem_list_remove(&self->in_tool);
  if (idem_list_empty(&self->tool->lanes)) idem_list_remove(&self->tool->link);
  free(self);
}

/* ------------------------------------------------------------------ coming and going */

bool turns_add(turns *self, turns_call *waiting, turns_tool *tool, const idem_request *request) {
  client *owner = find_client(self, request);
  if (!owner) owner = client_new(self, request);
  if (!owner) return false;
  waiting->lane = find_lane(owner, tool);
  if (!waiting->lane) waiting->lane = lane_new(self, owner, tool);
  if (!waiting->lane) {
    client_free_if_done(owner);
    return false;
  }
  waiting->request = request;
  idem_list_append(&waiting->lane->calls, &waiting->link);
  owner->count++;
  self->count++;
  return true;
}

void turns_remove(turns *self, turns_call *waiting) {
  client *owner = waiting->lane->client;
  idem_list_remove(&waiting->link);
  lane_free_if_empty(waiting->lane);
  waiting->lane = NULL;
  owner->count--;
  self->count--;
  client_free_if_done(owner);
}

/* ---------------------------------------------------------------------------- turns */

/* An answer that its client has no room for would be lost. */
static bool may_begin(const lane *self) {
  const turns_call *first = IDEM_CONTAINER(self->calls.next, turns_call, link);
  return room_for(first->request);
}

static lane *next_by_tool(const turns *self) {
  for (idem_list *at = self->tools.next; at != &self->tools; at = at->next) {
    const turns_tool *tool = IDEM_CONTAINER(at, turns_tool, link);
    for (idem_list *in = tool->lanes.next; in != &tool->lanes; in = in->next) {
      lane *one = IDEM_CONTAINER(in, lane, in_tool);
      if (may_begin(one)) return one;
    }
  }
  return NULL;
}

static lane *next_by_client(const turns *self) {
  for (idem_list *at = self->clients.next; at != &self->clients; at = at->next) {
    const client *who = IDEM_CONTAINER(at, client, link);
    for (idem_list *in = who->lanes.next; in != &who->lanes; in = in->next) {
      lane *one = IDEM_CONTAINER(in, lane, in_client);
      if (may_begin(one)) return one;
    }
  }
  return NULL;
}

static void to_the_end(idem_list *ring, idem_list *link) {
  idem_list_remove(link);
  idem_list_append(ring, link);
}

/* Who has had a turn is last in every ring. */
turns_call *turns_take(turns *self) {
  lane *chosen = self->by_tool ? next_by_tool(self) : next_by_client(self);
  if (!chosen) return NULL;
  turns_call *first = IDEM_CONTAINER(chosen->calls.next, turns_call, link);
  self->by_tool = !self->by_tool;
  to_the_end(&self->clients, &chosen->client->link);
  to_the_end(&chosen->client->lanes, &chosen->in_client);
  to_the_end(&self->tools, &chosen->tool->link);
  to_the_end(&chosen->tool->lanes, &chosen->in_tool);
  turns_remove(self, first);
  return first;
}

turns_call *turns_take_any(turns *self) {
  if (!self->count) return NULL;
  const client *one = IDEM_CONTAINER(self->clients.next, client, link);
  const lane *first = IDEM_CONTAINER(one->lanes.next, lane, in_client);
  turns_call *taken = IDEM_CONTAINER(first->calls.next, turns_call, link);
  turns_remove(self, taken);
  return taken;
}

turns_call *turns_displace(turns *self, const idem_request *request) {
  const client *asks = find_client(self, request), *most = asks;
  for (idem_list *at = self->clients.next; at != &self->clients; at = at->next) {
    const client *one = IDEM_CONTAINER(at, client, link);
    if (!most || one->count > most->count) most = one;
  }
  if (!most || most->count <= (asks ? asks->count : 0) + 1) return NULL;
  const lane *last = IDEM_CONTAINER(most->lanes.prev, lane, in_client);
  turns_call *displaced = IDEM_CONTAINER(last->calls.prev, turns_call, link);
  turns_remove(self, displaced);
  return displaced;
}
