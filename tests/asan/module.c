/* module.c - a module with a variable of each thread's, for leaks.c. */
#include "module.h"

static _Thread_local void *held;

void **where_it_is_held(void) { return &held; }
