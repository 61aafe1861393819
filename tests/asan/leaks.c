/* leaks.c - the leak check at a program's end: `leaks MODULE held` holds memory by a module's variable of this thread alone, which is put where the sanitizer
 * would misread what lies before it (options.c); that is no leak, and no crash. `leaks MODULE lost` forgets it; that is a leak. Memory that is freed has to be the next that
 * is given, so it is run without a quarantine. */
#include "module.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 4096, PAGE = 4096, BEHIND = 16 };

static int is_misread(const void *at) { return (uintptr_t)at % PAGE == BEHIND; }

/* The next malloc of so few bytes gives such a place. */
static int offer_place(void) {
  static void *taken[TRIES];
  int count = 0;
  while (count < TRIES && (count == 0 || !is_misread(taken[count - 1])))
    taken[count++] = malloc(sizeof(void *));
  int found = is_misread(taken[count - 1]);
  for (int i = 0; i < count; i++) free(taken[i]);
  return found;
}

int main(int argc, char **argv) {
  void *module = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
  void *found = module ? dlsym(module, "where_it_is_held") : NULL;
  where_it_is_held_fn *where;
  memcpy(&where, &found, sizeof where);
  if (!where || !offer_place()) {
    fprintf(stderr, "leaks: no module, or no such place\n");
    return 2;
  }
  void **held = where();
  if (!is_misread(held)) {
    fprintf(stderr, "leaks: it lies at %p\n", (void *)held);
    return 3;
  }
  *held = malloc(1000);
  if (strcmp(argv[2], "lost") == 0) *held = NULL;
  return 0;
}
