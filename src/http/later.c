/* later.c - heads whose judge will say later who asks: their bodies stay unread meanwhile, within the
 * server's bounds, and they go with their connection. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

struct idem_http_wait {
  idem_alloc alloc;
  idem_http_conn *conn; /* NULL: nobody waits any more */
  void (*on_gone)(void *user);
  void *user;
  size_t bytes;
};

idem_http_wait *idem_http_caller_wait(const idem_http_caller *caller, void (*on_gone)(void *user),
                                      void *user) {
  idem_http_conn *conn = caller->conn;
  idem_http_server *server = conn->server;
  size_t bytes = sizeof *caller->request + caller->request->head_len;
  if (conn->judging || !idem__http_may_wait(server, bytes)) return NULL;
  idem_http_wait *wait = idem__malloc(&server->alloc, sizeof *wait);
  if (!wait) return NULL;
  *wait = (idem_http_wait){.alloc = server->alloc, .conn = conn, .user = user, .bytes = bytes};
  wait->on_gone = on_gone;
  server->held++;
  server->held_bytes += bytes;
  conn->judging = wait;
  conn->judge_by_ms = conn->now_ms + server->waiting_ms;
  return wait;
}

/* The connection waits no longer. */
static void leave(idem_http_wait *wait) {
  idem_http_server *server = wait->conn->server;
  server->held--;
  server->held_bytes -= wait->bytes;
  wait->conn->judging = NULL;
  wait->conn = NULL;
}

void idem__http_judge_gone(idem_http_conn *conn) {
  idem_http_wait *wait = conn->judging;
  if (!wait) return;
  leave(wait);
  if (wait->on_gone) wait->on_gone(wait->user);
}

/* What follows runs in the driver's calls, as handlers do. */
void idem__http_resume(idem_http_wait *wait, const idem__http_judgment *verdict) {
  idem_http_conn *conn = wait->conn;
  if (conn) {
    leave(wait);
    idem__http_take_judgment(conn, verdict);
    conn->judged = conn->resume = true;
    idem__http_conn_notify(conn);
  }
  idem_alloc alloc = wait->alloc;
  idem__free(&alloc, wait);
}

void idem_http_resume(idem_http_wait *wait, int status, const char *principal) {
  idem__http_resume(wait, &(idem__http_judgment){.status = status, .principal = principal});
}
