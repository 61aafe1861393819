/* confine_privileges.c - what root's programs can do although they are confined. Some capabilities look
 * past Landlock (CAP_PERFMON reads the environment and memory of any process, CAP_SYS_ADMIN mounts) or
 * change the machine for everybody: these are given up for good. Those that concern files and users
 * stay, so that root's tools still work on root's files. */
#include "confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (UINT64_C(1) << (capability))
static const uint64_t kept = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
                             BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) |
                             BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_NET_RAW) |
                             BIT(CAP_SYS_CHROOT) | BIT(CAP_MKNOD) | BIT(CAP_AUDIT_WRITE) |
                             BIT(CAP_SETFCAP);

/* What a program gets from its parent whatever the bounding set says. */
static int keep_from_inheriting(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &head, sets) != 0) return errno;
  if (!(sets[0].inheritable & ~(uint32_t)kept) && !(sets[1].inheritable & ~(uint32_t)(kept >> 32)))
    return 0;
  sets[0].inheritable &= (uint32_t)kept;
  sets[1].inheritable &= (uint32_t)(kept >> 32);
  return syscall(SYS_capset, &head, sets) == 0 ? 0 : errno;
}

/* Who may not drop them has none that exec would bring. */
int confine_privileges(void) {
  for (unsigned long one = 0; prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0; one++)
    if (one > 63 || !(kept & BIT(one))) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  return keep_from_inheriting();
}
