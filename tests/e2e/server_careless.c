/* server_careless.c - a server whose handlers do what handlers should not: print, read stdin in a
 * child, leave through exit(), never come back, wait by handles that keep no loop alive. */
#include <idem/idem.h>
#include <idem/uv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

static void print(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  printf("this was printed\n");
  idem_reply_json(request, "\"printed\"", 9);
}

static void print_unfinished(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  printf("no newline here");
  idem_reply_json(request, "\"printed\"", 9);
}

/* A child that reads all of its input and writes to its output, as a careless tool might. */
static void child(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", "cat; echo from the child; ls /proc/self/fd | wc -l",
          (char *)NULL);
    _exit(127);
  }
  waitpid(pid, NULL, 0);
  idem_reply_json(request, "\"child ended\"", 13);
}

static void leave(idem_request *request, yyjson_val *params, void *user) {
  (void)request, (void)params, (void)user;
  exit(3);
}

/* Work that never ends, on another thread. */
static void stall_work(void *job) {
  (void)job;
  for (;;) pause();
}
static void stall_after(idem_request *request, void *job) {
  (void)job;
  idem_request_drop(request);
}
static void stall(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  uv_loop_t *loop = idem_conn_loop(idem_request_conn(request));
  idem_offload(loop, request, stall_work, stall_after, NULL);
}

/* Answers by a timer of which the loop makes no account, asked for the loop but once. */
static void on_quiet_timer(uv_timer_t *timer) {
  idem_request *request = timer->data;
  idem_reply_json(request, "\"in time\"", 9);
}
static void quiet_timer(idem_request *request, yyjson_val *params, void *user) {
  static uv_timer_t timer;
  static bool made;
  (void)params, (void)user;
  if (!made) {
    uv_timer_init(idem_conn_loop(idem_request_conn(request)), &timer);
    uv_unref((uv_handle_t *)&timer);
  }
  made = true;
  timer.data = request;
  idem_request_keep(request);
  uv_timer_start(&timer, on_quiet_timer, 1, 0);
}

int main(void) {
  idem_router *router;
  if (idem_router_new(NULL, &router) != IDEM_OK) return 1;
  idem_router_method(router, "print", print, NULL);
  idem_router_method(router, "print_unfinished", print_unfinished, NULL);
  idem_router_method(router, "child", child, NULL);
  idem_router_method(router, "leave", leave, NULL);
  idem_router_method(router, "stall", stall, NULL);
  idem_router_method(router, "quiet_timer", quiet_timer, NULL);
  printf("a banner before serving\n");
  const char *urls[] = {"stdio:"};
  int code = idem_run(urls, 1, &(idem_serve_opts){.router = router});
  idem_router_free(router);
  printf("after serving\n");
  return code;
}
