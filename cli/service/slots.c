/* slots.c - see slots.h. */
#include "slots.h"

static void on_room(room_wait *room) { slots_next(IDEM_CONTAINER(room, slots, room)); }

void slots_init(slots *self, void (*begin)(turns_call *call), void (*give_way)(turns_call *call)) {
  *self = (slots){.limit = 1, .begin = begin, .give_way = give_way};
  room_wait_init(&self->room, on_room);
  turns_init(&self->turns);
}

/* Room for one more that waits; who has the most of them may have to give way. */
static bool make_room(slots *self, const idem_request *request) {
  if (self->turns.count < self->queue) return true;
  turns_call *displaced = turns_displace(&self->turns, request);
  if (displaced) self->give_way(displaced);
  return displaced;
}

/* With a slot free, who waits waits for its client. */
static void look_for_room(slots *self) {
  if (self->taken < self->limit && self->turns.count) room_look_soon(&self->room);
}

slot_answer slots_ask(slots *self, turns_call *call, turns_tool *tool,
                      const idem_request *request) {
  if (self->taken < self->limit && room_for(request)) {
    self->taken++;
    return SLOT_TAKEN;
  }
  bool waits = make_room(self, request) && turns_add(&self->turns, call, tool, request);
  if (waits) look_for_room(self);
  return waits ? SLOT_WAITS : SLOT_BUSY;
}

void slots_leave(slots *self, turns_call *call) { turns_remove(&self->turns, call); }

/* A call that cannot begin gives its slot back at once, which must not lead here again and again. */
void slots_next(slots *self) {
  turns_call *next;
  if (self->turning) return;
  self->turning = true;
  while (self->taken < self->limit && (next = turns_take(&self->turns))) {
    self->taken++;
    self->begin(next);
  }
  self->turning = false;
  look_for_room(self);
}

void slots_give_back(slots *self) {
  self->taken--;
  slots_next(self);
}
