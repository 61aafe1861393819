/* confine_net.c - the filter that refuses sockets. Landlock knows TCP alone; this one closes UDP, raw
 * packets and Unix sockets as well, through which programs talk to services that are not confined.
 * socketpair stays: both of its ends are the program's own. */
#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On 64-bit machines programs may use the 32-bit calls as well, with other numbers. */
#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#define MACHINE_32 AUDIT_ARCH_I386
#define SOCKET_32 359
#define FOREIGN_CALLS 0x40000000u /* x32: the numbers of another kind of program */
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#define MACHINE_32 AUDIT_ARCH_ARM
#define SOCKET_32 281
#define FOREIGN_CALLS 0x40000000u
#endif
#define SOCKETCALL_32 102
#define IO_URING_SETUP 425 /* the same everywhere; a ring opens sockets behind the filter's back */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, then, otherwise)                                                           \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define IF_AT_LEAST(value, then, otherwise)                                                        \
  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (then), (otherwise))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(number) ANSWER(SECCOMP_RET_ERRNO | (number))

#if defined(MACHINE)

/* Jumps count the lines between. */
static struct sock_filter lines[] = {
    LOAD(arch),                       /*  0 */
    IF_EQUAL(MACHINE, 2, 0),          /*  1: to 4 */
    IF_EQUAL(MACHINE_32, 5, 0),       /*  2: to 8 */
    REFUSE(ENOSYS),                   /*  3 */
    LOAD(nr),                         /*  4 */
    IF_AT_LEAST(FOREIGN_CALLS, 8, 0), /*  5: to 14 */
    IF_EQUAL(SYS_socket, 6, 0),       /*  6: to 13 */
    IF_EQUAL(IO_URING_SETUP, 6, 4),   /*  7: to 14, 12 */
    LOAD(nr),                         /*  8 */
    IF_EQUAL(SOCKET_32, 3, 0),        /*  9: to 13 */
    IF_EQUAL(SOCKETCALL_32, 2, 0),    /* 10: to 13 */
    IF_EQUAL(IO_URING_SETUP, 2, 0),   /* 11: to 14 */
    ANSWER(SECCOMP_RET_ALLOW),        /* 12 */
    REFUSE(EACCES),                   /* 13 */
    REFUSE(ENOSYS),                   /* 14 */
};

bool confine_knows_machine(void) { return true; }

int confine_net(void) {
  struct sock_fprog filter = {.len = sizeof lines / sizeof *lines, .filter = lines};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0 ? 0 : errno;
}

#else

bool confine_knows_machine(void) { return false; }
int confine_net(void) { return ENOSYS; }

#endif
