/* child.h - a program under test: started with descriptors of the test's choosing, spoken to, watched.
 * Everything that waits has a deadline and fails the test when it passes; nothing sleeps. */
#ifndef IDEM_TESTS_CHILD_H
#define IDEM_TESTS_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

typedef struct child {
  pid_t pid;
  int in;  /* what we write is its input; -1 when the test gave descriptors */
  int out; /* its output */
  int err; /* its stderr */
} child;

/* What the program gets as descriptors: one of ours, or these. */
enum { CHILD_PIPE = -1, CHILD_CLOSED = -2 };

/* argv ends with NULL. The given descriptors stay the caller's. */
child child_start_with(const char *const *argv, int in, int out);
/* Programs started from now on may not open files that their modes protect, not even as root. */
void child_obey_modes(bool obey);
/* Three pipes. */
child child_start(const char *const *argv);
#define CHILD(...) child_start((const char *const[]){__VA_ARGS__, NULL})

void child_send(int fd, const char *message);
/* The next line without its newline, in a buffer that the next call reuses. */
const char *child_line(int fd);
/* Skips lines until one contains what is wanted; returns it. */
const char *child_line_with(int fd, const char *wanted);
/* What is left until end of input; in a buffer that the next call reuses. */
const char *child_rest(int fd);
/* Ends its input and waits for its end: the exit status, or minus the signal's number. Closes the pipes. */
int child_end(child *running);
/* The same, and its input stays open until then. */
int child_wait(child *running);
void child_expect_line(int fd, const char *expected);

uint64_t child_now_ms(void);
long child_rss_kb(pid_t pid);
/* The time of processors that all its threads have had; it stands still while they wait. */
uint64_t child_cpu_ms(pid_t pid);
/* The time that its threads were ready to run and had no processor. */
uint64_t child_waited_ms(pid_t pid);
/* Connects to "tcp://127.0.0.1:PORT", "tcp://localhost:PORT" or "unix:/path". */
int child_connect(const char *url);
/* -1 and errno instead of a failed test. */
int child_try_connect(const char *url);
/* The URL in the next "listening on" line. */
void child_listening(const child *running, char *url, size_t size);
/* A new empty folder, removed with its files and folders by child_remove_folder. */
void child_make_folder(char *path, size_t size);
void child_remove_folder(const char *path);

/* A key and a certificate that it signs itself: for /CN=NAME and subjectAltName NAMES. */
void child_make_certificate(const char *cert_file, const char *key_file, const char *name,
                            const char *names);
/* The flag with which node knows WebSocket. Node 18 of Debian 12 has none; there the constant comes
 * from the undici package that Debian's node is made with. */
const char *child_node_flag(void);
#define CHILD_NODE_WEBSOCKET                                                                       \
  "import { createRequire } from 'node:module';\n"                                                 \
  "const WebSocket = globalThis.WebSocket ?? createRequire('/usr/share/nodejs/')('undici')"        \
  ".WebSocket;\n"

#endif
