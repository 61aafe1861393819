/* slots.h - how many calls of one kind may be under way. Who finds no slot waits until it is its turn
 * (turns.h), and so does a call whose client does not read its answers (room.h). On the loop alone; what has a slot must give it back. */
#ifndef IDEM_CLI_SLOTS_H
#define IDEM_CLI_SLOTS_H

#include "room.h"
#include "turns.h"

typedef struct slots {
  turns turns;
  size_t limit; /* of slots */
  size_t queue; /* of those that wait */
  size_t taken;
  bool turning;   /* slots_next is at work further up */
  room_wait room; /* there are slots, and those that wait have clients that do not read */
  /* It waited and has a slot now. */
  void (*begin)(turns_call *call);
  /* It waited and has to go, since someone else has fewer calls waiting: tell it that we are busy. */
  void (*give_way)(turns_call *call);
} slots;

typedef enum slot_answer { SLOT_TAKEN, SLOT_WAITS, SLOT_BUSY } slot_answer;

void slots_init(slots *self, void (*begin)(turns_call *call), void (*give_way)(turns_call *call));
/* SLOT_TAKEN: it has one, and `begin` is not called. SLOT_BUSY: there is no room to wait. */
slot_answer slots_ask(slots *self, turns_call *call, turns_tool *tool, const idem_request *request);
/* A call that waits does so no longer. */
void slots_leave(slots *self, turns_call *call);
/* A slot is free again: others may begin before it returns. */
void slots_give_back(slots *self);
/* After the limit was raised. */
void slots_next(slots *self);

#endif
