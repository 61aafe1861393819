/* module.h - what leaks.c finds in module.c. */
#ifndef IDEM_TESTS_ASAN_MODULE_H
#define IDEM_TESTS_ASAN_MODULE_H

typedef void **where_it_is_held_fn(void);
extern where_it_is_held_fn where_it_is_held;

#endif
