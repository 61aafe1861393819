/* script.c - see script.h. */
#include "script.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uv.h>

struct script {
  uv_tcp_t tcp;
  script_fn on_request;
  void *user;
  int port, accepted, open;
  bool stopping;
  script_conn *conns;
};

struct script_conn {
  uv_tcp_t tcp;
  script *server;
  script_conn *next;
  char *text;
  size_t len;
  int count;
  bool closed;
  script_conn *other; /* a tunnel's other end */
  const char *word;   /* of the events that it passes on; NULL: it passes on everything */
  int events;         /* that it still passes on */
  bool inside;        /* of an event with the word */
  size_t matched;     /* bytes of the word, or of an event's end */
  uv_connect_t connecting;
};

static void free_when_done(script *server) {
  if (server->stopping && server->open == 0 && !uv_is_active((uv_handle_t *)&server->tcp) &&
      server->port < 0)
    free(server);
}

static void on_conn_closed(uv_handle_t *handle) {
  script_conn *conn = handle->data;
  script *server = conn->server;
  script_conn **link = &server->conns;
  while (*link != conn) link = &(*link)->next;
  *link = conn->next;
  if (conn->other) conn->other->other = NULL;
  free(conn->text);
  free(conn);
  server->open--;
  free_when_done(server);
}

void script_close(script_conn *conn) {
  if (conn->closed) return;
  conn->closed = true;
  if (conn->other) script_close(conn->other);
  uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

void script_reset(script_conn *conn) {
  if (conn->closed) return;
  conn->closed = true;
  uv_tcp_close_reset(&conn->tcp, on_conn_closed);
}

/* What the socket does not take at once is of no use to a test. */
void script_send_bytes(script_conn *conn, const char *bytes, size_t len) {
  while (len > 0 && !conn->closed) {
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int n = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
    if (n < 0) return;
    bytes += n;
    len -= (size_t)n;
  }
}

void script_send(script_conn *conn, const char *text) {
  script_send_bytes(conn, text, strlen(text));
}

void script_answer(script_conn *conn, const char *status, const char *headers, const char *body) {
  char head[1024];
  snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status, strlen(body),
           headers);
  script_send(conn, head);
  script_send(conn, body);
}

int script_count(const script_conn *conn) { return conn->count; }

const char *script_header(const char *request, const char *name) {
  static char value[512];
  size_t len = strlen(name);
  value[0] = 0;
  for (const char *line = strstr(request, "\r\n"); line && strncmp(line, "\r\n\r\n", 4) != 0;
       line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':') continue;
    const char *from = line + 3 + len;
    while (*from == ' ') from++;
    snprintf(value, sizeof value, "%.*s", (int)strcspn(from, "\r"), from);
  }
  return value;
}

const char *script_body(const char *request) {
  const char *end = strstr(request, "\r\n\r\n");
  return end ? end + 4 : "";
}

/* ---------------------------------------------------------------------- input */

static void give_requests(script_conn *conn) {
  const char *end;
  while (!conn->closed && !conn->other && conn->len && (end = strstr(conn->text, "\r\n\r\n"))) {
    size_t whole = (size_t)(end - conn->text) + 4 +
                   strtoul(script_header(conn->text, "Content-Length"), NULL, 10);
    if (conn->len < whole) return;
    char *request = strndup(conn->text, whole);
    memmove(conn->text, conn->text + whole, conn->len - whole + 1);
    conn->len -= whole;
    conn->count++;
    conn->server->on_request(conn, request, conn->server->user);
    free(request);
  }
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf) {
  (void)handle;
  *buf = uv_buf_init(malloc(size), (unsigned)size);
}

/* How much of this a tunnel passes on. */
static size_t share(script_conn *conn, const char *bytes, size_t len) {
  for (size_t i = 0; conn->word && i < len; i++) {
    const char *wanted = conn->inside ? "\n\n" : conn->word;
    if (conn->events == 0) return i;
    if (bytes[i] != wanted[conn->matched]) conn->matched = 0;
    if (bytes[i] == wanted[conn->matched]) conn->matched++;
    if (wanted[conn->matched]) continue;
    conn->events -= conn->inside;
    conn->inside = !conn->inside;
    conn->matched = 0;
  }
  return len;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  script_conn *conn = stream->data;
  if (n < 0) {
    script_close(conn);
  } else if (conn->other) {
    script_send_bytes(conn->other, buf->base, share(conn, buf->base, (size_t)n));
  } else {
    conn->text = realloc(conn->text, conn->len + (size_t)n + 1);
    memcpy(conn->text + conn->len, buf->base, (size_t)n);
    conn->len += (size_t)n;
    conn->text[conn->len] = 0;
    give_requests(conn);
  }
  free(buf->base);
}

static script_conn *conn_new(script *server) {
  script_conn *conn = calloc(1, sizeof *conn);
  assert_int_equal(uv_tcp_init(server->tcp.loop, &conn->tcp), 0);
  conn->tcp.data = conn;
  conn->server = server;
  conn->next = server->conns;
  server->conns = conn;
  server->open++;
  return conn;
}

static void on_connection(uv_stream_t *stream, int status) {
  script *server = stream->data;
  assert_int_equal(status, 0);
  script_conn *conn = conn_new(server);
  server->accepted++;
  assert_int_equal(uv_accept(stream, (uv_stream_t *)&conn->tcp), 0);
  uv_tcp_nodelay(&conn->tcp, 1);
  uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
}

static void on_tunnelled(uv_connect_t *connecting, int status) {
  script_conn *conn = connecting->data;
  if (status < 0 || !conn->other) {
    script_close(conn);
    return;
  }
  if (conn->text) script_send(conn, conn->text);
  uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
  uv_read_start((uv_stream_t *)&conn->other->tcp, on_alloc, on_read);
}

void script_tunnel(script_conn *conn, int port) {
  struct sockaddr_in to;
  uv_read_stop((uv_stream_t *)&conn->tcp); /* until there is somewhere to send it */
  script_conn *far = conn_new(conn->server);
  conn->other = far;
  far->other = conn;
  far->connecting.data = far;
  uv_ip4_addr("127.0.0.1", port, &to);
  uv_tcp_connect(&far->connecting, &far->tcp, (const struct sockaddr *)&to, on_tunnelled);
}

void script_relay(script_conn *conn, const char *request, int port) {
  script_tunnel(conn, port);
  conn->other->text = strdup(request);
}

void script_relay_no_more(script_conn *conn, const char *word, int events) {
  conn->other->word = word;
  conn->other->events = events;
}

/* -------------------------------------------------------------------- the life */

script *script_start(uv_loop_t *loop, script_fn on_request, void *user) {
  script *server = calloc(1, sizeof *server);
  struct sockaddr_in address;
  int len = sizeof address;
  server->on_request = on_request;
  server->user = user;
  uv_ip4_addr("127.0.0.1", 0, &address);
  assert_int_equal(uv_tcp_init(loop, &server->tcp), 0);
  server->tcp.data = server;
  assert_int_equal(uv_tcp_bind(&server->tcp, (const struct sockaddr *)&address, 0), 0);
  assert_int_equal(uv_listen((uv_stream_t *)&server->tcp, 64, on_connection), 0);
  assert_int_equal(uv_tcp_getsockname(&server->tcp, (struct sockaddr *)&address, &len), 0);
  server->port = ntohs(address.sin_port);
  return server;
}

int script_port(const script *server) { return server->port; }
int script_accepted(const script *server) { return server->accepted; }
int script_open(const script *server) { return server->open; }

static void on_server_closed(uv_handle_t *handle) {
  script *server = handle->data;
  server->port = -1;
  free_when_done(server);
}

void script_stop(script *server) {
  server->stopping = true;
  for (script_conn *conn = server->conns; conn; conn = conn->next) script_close(conn);
  uv_close((uv_handle_t *)&server->tcp, on_server_closed);
}
