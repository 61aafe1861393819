/* unit.h - cmocka with the headers it wants to see before itself. */
#ifndef IDEM_TEST_UNIT_H
#define IDEM_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif
