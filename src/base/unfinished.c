/* unfinished.c - what has come of messages whose rest has not, bounded for all who share a loop.
 * Past the bound whoever has been at it for longest gives way, so that those who send slowly, or half of
 * something, do not keep out those who just send. Little is not counted: the number of connections bounds
 * that. See docs/internals/base.md. */
#include "base.h"

#define SMALL ((size_t)64 << 10)

void idem__unfinished_init(idem__unfinished *all) {
  idem_list_init(&all->halves);
  all->bytes = 0;
}

void idem__unfinished_forget(idem__unfinished *all, idem__half *half) {
  if (!half->bytes) return;
  all->bytes -= half->bytes;
  half->bytes = 0;
  idem_list_remove(&half->node);
}

static void count(idem__unfinished *all, idem__half *half, size_t bytes) {
  if (!half->bytes) idem_list_append(&all->halves, &half->node);
  all->bytes += bytes - half->bytes;
  half->bytes = bytes;
}

/* The last one may stay, however large: some message has to be the one that is let in. */
static bool too_much(const idem__unfinished *all, size_t max) {
  return all->bytes > max && all->halves.next->next != &all->halves;
}

void idem__unfinished_count(idem__unfinished *all, idem__half *half, size_t bytes, size_t max,
                            uint64_t now_ms) {
  if (bytes <= SMALL) {
    idem__unfinished_forget(all, half);
    return;
  }
  count(all, half, bytes);
  while (too_much(all, max)) {
    idem__half *oldest = IDEM_CONTAINER(all->halves.next, idem__half, node);
    idem__unfinished_forget(all, oldest);
    oldest->give_way(oldest, now_ms);
  }
}
