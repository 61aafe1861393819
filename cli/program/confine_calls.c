/* confine_calls.c - the filters of system calls, for what Landlock does not know: programs leave other
 * processes alone, whose limits and priorities the same user could set, and their shared memory and
 * queues; they change no attributes of files; and without `net` they get no sockets. Calls that only
 * read stay, and so does a program's word about itself. Who may reach processes by ptrace, signals or
 * /proc is Landlock's to say. */
#include "confine.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On 64-bit machines programs may use the 32-bit calls as well, with other numbers: i386's and ARM's. */
#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#define MACHINE_32 AUDIT_ARCH_I386
#define NUMBER_32(i386, arm) (i386)
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#define MACHINE_32 AUDIT_ARCH_ARM
#define NUMBER_32(i386, arm) (arm)
#endif
#define FOREIGN_CALLS 0x40000000u /* x32: the numbers of another kind of program */
#define NOT_THERE (-1)

#if defined(MACHINE)

/* ------------------------------------------------------------------- writing a filter */

/* One call's lines, after which its answer is known. Jumps count the lines between. */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_LOW(index) LOAD(args[index]) /* these machines write the low half first */
#define LOAD_HIGH(index)                                                                           \
  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[index]) + 4)
#define KEEP_BITS(mask) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (mask))
#define IF_EQUAL(value, then, otherwise)                                                           \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define IF_AT_LEAST(value, then, otherwise)                                                        \
  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (then), (otherwise))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(number) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number))

#define LINES_MAX 512u
typedef struct filter {
  struct sock_filter lines[LINES_MAX];
  unsigned short len;
} filter;

static void put(filter *self, const struct sock_filter *lines, size_t count) {
  for (size_t i = 0; i < count && self->len < LINES_MAX; i++) self->lines[self->len++] = lines[i];
}
#define PUT(self, ...)                                                                             \
  put((self), (const struct sock_filter[]){__VA_ARGS__},                                           \
      sizeof((const struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))

/* --------------------------------------------------------------------------- judges */

static void never(filter *to, unsigned error) { PUT(to, REFUSE(error)); }

static void of_oneself(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(0), IF_EQUAL(0, 1, 0), REFUSE(error), ALLOW);
}

/* prlimit(pid, which, new, old): without a new one it only asks. */
static void of_oneself_or_asking(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(0), IF_EQUAL(0, 5, 0), LOAD_LOW(2), IF_EQUAL(0, 0, 2), LOAD_HIGH(2),
      IF_EQUAL(0, 1, 0), REFUSE(error), ALLOW);
}

/* setpriority(which, who): a process or a group, never a user's all. */
static void of_own_process_or_group(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(0), IF_AT_LEAST(2, 2, 0), LOAD_LOW(1), IF_EQUAL(0, 1, 0), REFUSE(error), ALLOW);
}

/* ioprio_set counts them from 1. */
static void of_own_process_or_group_from_1(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(0), IF_AT_LEAST(3, 2, 0), LOAD_LOW(1), IF_EQUAL(0, 1, 0), REFUSE(error), ALLOW);
}

/* Both ends are the program's own. Those of datagrams could be sent from to any other socket, and
 * families other than Unix have networks of their own. */
static void of_streams(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(0), IF_EQUAL(AF_UNIX, 0, 4), LOAD_LOW(1), KEEP_BITS(0xfu),
      IF_EQUAL(SOCK_STREAM, 2, 0), IF_EQUAL(SOCK_SEQPACKET, 1, 0), REFUSE(error), ALLOW);
}

/* FS_IOC_SETFLAGS, the same of 32-bit programs, FS_IOC_FSSETXATTR. */
static void not_of_attributes(filter *to, unsigned error) {
  PUT(to, LOAD_LOW(1), IF_EQUAL(0x40086602u, 2, 0), IF_EQUAL(0x40046602u, 1, 0),
      IF_EQUAL(0x401c5820u, 0, 1), REFUSE(error), ALLOW);
}

/* ---------------------------------------------------------------------- the calls */

typedef struct call_rule {
  int number;
  int number_32;
  seal_level from; /* this seal on */
  void (*judge)(filter *to, unsigned error);
  unsigned error;
} call_rule;

#define EVERYWHERE(number) (number), (number)
#define CALL(name, i386, arm) SYS_##name, NUMBER_32(i386, arm)
#define ONLY_32(i386, arm) NOT_THERE, NUMBER_32(i386, arm)

static const call_rule rules[] = {
    /* limits, priorities, processors, memory of other processes */
    {CALL(prlimit64, 340, 369), SEAL_OTHERS, of_oneself_or_asking, EPERM},
    {CALL(setpriority, 97, 97), SEAL_OTHERS, of_own_process_or_group, EPERM},
    {CALL(ioprio_set, 289, 314), SEAL_OTHERS, of_own_process_or_group_from_1, EPERM},
    {CALL(sched_setaffinity, 241, 241), SEAL_OTHERS, of_oneself, EPERM},
    {CALL(sched_setscheduler, 156, 156), SEAL_OTHERS, of_oneself, EPERM},
    {CALL(sched_setparam, 154, 154), SEAL_OTHERS, of_oneself, EPERM},
    {CALL(sched_setattr, 351, 380), SEAL_OTHERS, of_oneself, EPERM},
    {CALL(migrate_pages, 294, 400), SEAL_OTHERS, of_oneself, EPERM},
    {CALL(move_pages, 317, 344), SEAL_OTHERS, of_oneself, EPERM},
    {EVERYWHERE(440), SEAL_OTHERS, never, EPERM}, /* process_madvise: by a descriptor of anyone */
    {EVERYWHERE(448), SEAL_OTHERS, never, EPERM}, /* process_mrelease */
    /* memory, queues and semaphores by number, which are the user's and outlive a call */
    {CALL(shmget, 395, 307), SEAL_OTHERS, never, ENOSYS},
    {CALL(shmat, 397, 305), SEAL_OTHERS, never, ENOSYS},
    {CALL(shmctl, 396, 308), SEAL_OTHERS, never, ENOSYS},
    {CALL(semget, 393, 299), SEAL_OTHERS, never, ENOSYS},
    {CALL(semop, NOT_THERE, 298), SEAL_OTHERS, never, ENOSYS},
    {CALL(semtimedop, NOT_THERE, 312), SEAL_OTHERS, never, ENOSYS},
    {CALL(semctl, 394, 300), SEAL_OTHERS, never, ENOSYS},
    {CALL(msgget, 399, 303), SEAL_OTHERS, never, ENOSYS},
    {CALL(msgsnd, 400, 301), SEAL_OTHERS, never, ENOSYS},
    {CALL(msgrcv, 401, 302), SEAL_OTHERS, never, ENOSYS},
    {CALL(msgctl, 402, 304), SEAL_OTHERS, never, ENOSYS},
    {ONLY_32(420, 420), SEAL_OTHERS, never, ENOSYS}, /* semtimedop_time64 */
    {ONLY_32(117, 117), SEAL_OTHERS, never, ENOSYS}, /* ipc: all of them */
    {CALL(mq_open, 277, 274), SEAL_OTHERS, never, ENOSYS},
    {CALL(mq_unlink, 278, 275), SEAL_OTHERS, never, ENOSYS},
    /* the user's keys */
    {CALL(add_key, 286, 309), SEAL_OTHERS, never, ENOSYS},
    {CALL(request_key, 287, 310), SEAL_OTHERS, never, ENOSYS},
    {CALL(keyctl, 288, 311), SEAL_OTHERS, never, ENOSYS},
    /* attributes of any file of the user's, as if file systems had none */
    {CALL(setxattr, 226, 226), SEAL_OTHERS, never, EOPNOTSUPP},
    {CALL(lsetxattr, 227, 227), SEAL_OTHERS, never, EOPNOTSUPP},
    {CALL(fsetxattr, 228, 228), SEAL_OTHERS, never, EOPNOTSUPP},
    {CALL(removexattr, 235, 235), SEAL_OTHERS, never, EOPNOTSUPP},
    {CALL(lremovexattr, 236, 236), SEAL_OTHERS, never, EOPNOTSUPP},
    {CALL(fremovexattr, 237, 237), SEAL_OTHERS, never, EOPNOTSUPP},
    {EVERYWHERE(463), SEAL_OTHERS, never, EOPNOTSUPP}, /* setxattrat */
    {EVERYWHERE(466), SEAL_OTHERS, never, EOPNOTSUPP}, /* removexattrat */
    {EVERYWHERE(469), SEAL_OTHERS, never, EOPNOTSUPP}, /* file_setattr */
    {CALL(ioctl, 54, 54), SEAL_OTHERS, not_of_attributes, EOPNOTSUPP},
    {EVERYWHERE(425), SEAL_OTHERS, never, ENOSYS}, /* io_uring_setup: calls behind our back */
    /* sockets */
    {CALL(socket, 359, 281), SEAL_SOCKETS, never, EACCES},
    {CALL(socketpair, 360, 288), SEAL_SOCKETS, of_streams, EACCES},
    {ONLY_32(102, 102), SEAL_SOCKETS, never, EACCES}, /* socketcall: all of them */
};

static void put_rules(filter *to, seal_level seal, bool native) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    int number = native ? rules[i].number : rules[i].number_32;
    if (number == NOT_THERE || rules[i].from > seal) continue;
    unsigned short at = to->len;
    PUT(to, IF_EQUAL((unsigned)number, 0, 0));
    rules[i].judge(to, rules[i].error);
    to->lines[at].jf = (unsigned char)(to->len - at - 1);
  }
  PUT(to, ALLOW);
}

static void write_filter(filter *to, seal_level seal) {
  to->len = 0;
  PUT(to, LOAD(arch), IF_EQUAL(MACHINE, 1, 0), BPF_STMT(BPF_JMP | BPF_JA, 0));
  unsigned short past = to->len;
  PUT(to, LOAD(nr), IF_AT_LEAST(FOREIGN_CALLS, 0, 1), REFUSE(ENOSYS));
  put_rules(to, seal, true);
  to->lines[past - 1].k = to->len - past;
  PUT(to, IF_EQUAL(MACHINE_32, 1, 0), REFUSE(ENOSYS), LOAD(nr));
  put_rules(to, seal, false);
}

bool confine_knows_machine(void) { return true; }

int confine_calls(seal_level seal) {
  static filter made;
  write_filter(&made, seal);
  struct sock_fprog program = {.len = made.len, .filter = made.lines};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

#else

bool confine_knows_machine(void) { return false; }
int confine_calls(seal_level seal) { return seal ? ENOSYS : 0; }

#endif
