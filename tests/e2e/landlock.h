/* landlock.h - for tests of what Landlock keeps programs from: what this kernel's cannot do is left out, and CTest
 * is told by exit status 77. */
#ifndef IDEM_TESTS_LANDLOCK_H
#define IDEM_TESTS_LANDLOCK_H

#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(SYS_landlock_create_ruleset)
#define SYS_landlock_create_ruleset 444
#endif

static inline long landlock(void) { return syscall(SYS_landlock_create_ruleset, NULL, 0, 1u); }

static bool left_out; /* CTest reports it: no kernel can be installed for a test */

/* Where the kernel has it, something else keeps it from us: a machine that tests everything must not pass then. */
static inline bool kernel_has_landlock(void) {
  char modules[512] = "";
  FILE *file = fopen("/sys/kernel/security/lsm", "r");
  if (file && !fgets(modules, sizeof modules, file)) modules[0] = 0;
  if (file) fclose(file);
  return strstr(modules, "landlock") || (landlock() < 0 && errno == EPERM);
}

static inline void need_landlock(long abi) {
  const char *ci = getenv("CI");
  if (landlock() >= abi) return;
  if (ci && strcmp(ci, "true") == 0 && landlock() < 1 && kernel_has_landlock())
    fail_msg("this kernel has Landlock, but it cannot be used here, and CI is true");
  print_message("NOT TESTED: this kernel's Landlock is older than ABI %ld\n", abi);
  left_out = true;
  skip();
}

#endif
