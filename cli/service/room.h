/* room.h - waiting for a client to read: one that does not gets no more answers made than fit into its output.
 * Who waits for it looks again and again, a hundred times a second at most. On the loop alone. */
#ifndef IDEM_CLI_ROOM_H
#define IDEM_CLI_ROOM_H

#include <idem/containers.h>
#include <idem/mcp.h>

/* Whether who asked has room for more. */
bool room_for(const idem_request *request);

typedef struct room_wait {
  idem_list link;
  void (*look)(struct room_wait *self);
} room_wait;

void room_wait_init(room_wait *self, void (*look)(room_wait *self));
/* `look` is called in a moment, once; no second time where it is going to be already. */
void room_look_soon(room_wait *self);
/* It is not any more. */
void room_forget(room_wait *self);

#endif
