/* room.c - see room.h. One timer for all; it runs while anybody waits. */
#include "room.h"

#include <idem/uv.h>
#include <uv.h>

#define LOOK_MS 10u

/* One for the life of the process. */
static struct {
  idem_list waiting;
  uv_timer_t timer; /* of the loop of whoever asked first: there is one */
} room = {.waiting = {&room.waiting, &room.waiting}};

bool room_for(const idem_request *request) {
  if (!room.timer.loop && uv_timer_init(idem_request_loop(request), &room.timer) == 0)
    uv_unref((uv_handle_t *)&room.timer);
  return !room.timer.loop || idem_request_has_room(request);
}

void room_wait_init(room_wait *self, void (*look)(room_wait *self)) {
  idem_list_init(&self->link);
  self->look = look;
}

/* Whoever looks may wait again, or make others go. */
static void on_time(uv_timer_t *timer) {
  idem_list now;
  (void)timer;
  idem_list_init(&now);
  while (!idem_list_empty(&room.waiting)) {
    idem_list *first = room.waiting.next;
    idem_list_remove(first);
    idem_list_append(&now, first);
  }
  while (!idem_list_empty(&now)) {
    room_wait *first = IDEM_CONTAINER(now.next, room_wait, link);
    idem_list_remove(&first->link);
    first->look(first);
  }
}

/* Only who was told that there is no room waits, so there is a timer. */
void room_look_soon(room_wait *self) {
  if (!idem_list_empty(&self->link)) return;
  idem_list_append(&room.waiting, &self->link);
  if (!uv_is_active((uv_handle_t *)&room.timer)) uv_timer_start(&room.timer, on_time, LOOK_MS, 0);
}

void room_forget(room_wait *self) { idem_list_leave(&self->link); }
