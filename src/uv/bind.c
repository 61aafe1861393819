/* bind.c - listening sockets: having an address, accepting, and giving the address back.
 * A Unix socket's file is made with mode 0600, replaces one that nobody listens on any more, and is
 * removed only while it is still ours. */
#include "uv/clients.h"
#include "uv/tls_files.h"

#include <errno.h>
#include <limits.h>
#ifdef __linux__
#include <linux/filter.h>
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 511
#define ACCEPTS_A_TURN 64
#define RETRY_MS 100
#define WARN_EVERY_MS 1000
#define PORT_TRIES 16
#define HANDSHAKE_MS 30000

static void set_flag(int fd, int level, int option) {
  int on = 1;
  setsockopt(fd, level, option, &on, sizeof on);
}

static void cannot_listen(const idem_listener *listener, const char *why) {
  idem__listener_tell(listener, IDEM_LOG_ERROR, "cannot listen on ", why);
}

static void cannot_listen_errno(const idem_listener *listener, int error) {
  const char *why = strerror(error);
  bool port = listener->scheme != IDEM__SCHEME_UNIX;
  if (error == EADDRINUSE)
    why = port ? "another program is there already; choose another port, or 0 for a free one"
               : "another program is there already; choose another path";
  else if (error == EACCES && port)
    why = "this user may not take it: ports below 1024 are the system's; choose another port";
  cannot_listen(listener, why);
}

/* ------------------------------------------------------------------ accepting */

/* At most one line a second, which tells how many it stands for. */
static void warn_sometimes(idem_listener *listener, const char *message, const char *why) {
  uint64_t now = idem__clock_ms();
  listener->unwarned++;
  if (listener->warned_ms != 0 && now - listener->warned_ms < WARN_EVERY_MS) return;
  idem_logf(listener->opts.log, IDEM_LOG_WARN, message, "%s: %s (%llu times since the last line)",
            listener->url, why, (unsigned long long)listener->unwarned);
  listener->warned_ms = now;
  listener->unwarned = 0;
}

static void name_peer(const idem_listener *listener, int fd, const idem__address *from, char *name,
                      size_t size) {
  if (listener->scheme == IDEM__SCHEME_TCP) {
    char text[80];
    idem__address_text(from, text, sizeof text);
    snprintf(name, size, "%s %s", listener->tls ? "tls" : "tcp", text);
    return;
  }
  struct ucred who = {0};
  socklen_t len = sizeof who;
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
  snprintf(name, size, "unix pid %ld", (long)who.pid);
}

static idem_status open_peer(idem_listener *listener, int fd, const char *name, idem__peer **out) {
  idem__tls_session *session = NULL;
  idem_status status = listener->tls ? idem__tls_files_accept(listener->tls, &session) : IDEM_OK;
  if (status != IDEM_OK) {
    close(fd);
    return status;
  }
  status = idem__socket_open(listener->runtime, listener, &listener->opts, &listener->policy, fd,
                             name, out);
  if (!session) return status;
  const idem__tls_module *module = idem__tls_files_module(listener->tls);
  if (status != IDEM_OK) {
    module->session_free(session);
    return status;
  }
  status = idem__socket_secure((*out)->driver.io, module, session, idem__clock_ms() + HANDSHAKE_MS);
  if (status != IDEM_OK) (*out)->driver.doomed = true; /* closed when it is first looked at */
  return IDEM_OK;
}

/* Who came first and has never said a word makes room. Those who have are sessions, whatever they
 * wait for. */
static bool make_room(idem_listener *listener) {
  for (idem_list *node = listener->peers.next; node != &listener->peers; node = node->next) {
    idem__driver *driver = IDEM_CONTAINER(node, idem__driver, node);
    if (idem__peer_of(driver)->used || driver->busy || !idem__driver_live(driver)) continue;
    idem__driver_close(driver);
    return true;
  }
  return false;
}

static void turn_away(idem_listener *listener, const char *why) {
  idem__metrics_add(listener->opts.metrics, IDEM__M_REFUSED_CONNECTIONS, 1);
  warn_sometimes(listener, "connection refused", why);
}

static void settle_in(idem_listener *listener, idem__peer *peer, const idem__client *client) {
  idem__ip address = idem__ip_client(&client->ip);
  peer->client = *client;
  idem__conn_set_client(peer->conn, address.bytes);
  peer->first_by_ms = idem__clock_ms() + idem__clients_first_ms(listener->clients);
  idem_list_append(&listener->peers, &peer->driver.node);
  listener->peer_count++;
  if (listener->opts.on_open) listener->opts.on_open(peer->conn, listener->opts.user);
}

/* Who has his share makes nobody give way. */
static const char *refusal(idem_listener *listener, const idem__client *client) {
  if (!idem__clients_enter(listener->clients, client)) return "client_connections reached";
  if (listener->peer_count < listener->opts.max_connections || make_room(listener)) return NULL;
  idem__clients_leave(listener->clients, client);
  return "max_connections reached";
}

static void welcome_peer(idem_listener *listener, int fd, const idem__address *from) {
  idem__client client = idem__clients_know(listener->clients, fd, from);
  const char *why = refusal(listener, &client);
  if (why) {
    close(fd);
    turn_away(listener, why);
    return;
  }
  char name[96];
  name_peer(listener, fd, from, name, sizeof name);
  idem__peer *peer;
  idem_status status = open_peer(listener, fd, name, &peer);
  if (status == IDEM_OK) {
    settle_in(listener, peer, &client);
    return;
  }
  idem__clients_leave(listener->clients, &client);
  turn_away(listener, idem_status_text(status));
}

static void welcome(idem_listener *listener, int fd, const idem__address *from) {
  if (listener->scheme != IDEM__SCHEME_UNIX) set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
  if (listener->web) {
    if (idem__web_count(listener->web) >= listener->opts.max_connections) {
      warn_sometimes(listener, "connection refused", "max_connections reached");
    }
    idem__web_accept(listener->web, fd, from);
    return;
  }
  welcome_peer(listener, fd, from);
}

static void on_accept(uv_poll_t *poll, int status, int events) {
  (void)events;
  if (status == 0) idem__listener_accept(poll->data);
}

static void on_retry(uv_timer_t *timer) {
  idem_listener *listener = timer->data;
  if (listener->stopping) return;
  for (size_t i = 0; i < listener->point_count; i++) {
    uv_poll_start(&listener->points[i].poll, UV_READABLE, on_accept);
  }
}

/* Out of descriptors or memory: the connection stays in the backlog, and polling for it would spin,
 * so look away for a moment. */
static void pause_accepting(idem_listener *listener, int error) {
  warn_sometimes(listener, "cannot accept for now", strerror(error));
  for (size_t i = 0; i < listener->point_count; i++) uv_poll_stop(&listener->points[i].poll);
  uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
}

static bool out_of_something(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void idem__listener_accept(idem__accept_point *point) {
  idem_listener *listener = point->listener;
  for (int i = 0; i < ACCEPTS_A_TURN && !listener->stopping; i++) {
    idem__address from = {.len = sizeof from.storage};
    int fd = accept4(point->fd, (struct sockaddr *)&from.storage, &from.len,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      welcome(listener, fd, &from);
    } else if (out_of_something(errno)) {
      pause_accepting(listener, errno);
      return;
    } else if (errno == EAGAIN) {
      return;
    } /* else: the connection was gone before we took it; the next one may not be */
  }
}

/* ------------------------------------------------------------------ the last of them */

/* From now on the kernel answers nobody who wants to connect; who is not answered tries again, and finds the port closed. */
static void answer_no_more(int fd) {
#ifdef __linux__
  enum { FLAGS = 13, SYN = 0x02 }; /* of the TCP header */
  struct sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS),
                                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, UINT_MAX)};
  struct sock_fprog filter = {.len = sizeof lines / sizeof *lines, .filter = lines};
  setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
#endif
}

/* To those whom the kernel has answered the connection stands, and their request may have been sent: with the port it would be
 * reset. */
void idem__listener_accept_last(idem_listener *listener) {
  for (size_t i = 0; i < listener->point_count; i++) {
    if (listener->scheme != IDEM__SCHEME_UNIX) answer_no_more(listener->points[i].fd);
    for (int turns = 0; turns <= BACKLOG / ACCEPTS_A_TURN; turns++)
      idem__listener_accept(&listener->points[i]);
  }
}

/* -------------------------------------------------------------------- binding */

static idem_status add_point(idem_listener *listener, int fd) {
  idem__accept_point *point = &listener->points[listener->point_count];
  point->fd = fd;
  point->listener = listener;
  if (uv_poll_init(listener->runtime->loop, &point->poll, fd) != 0) {
    close(fd);
    return IDEM_E_SYS;
  }
  listener->point_count++;
  listener->open_handles++;
  point->poll.data = point;
  return uv_poll_start(&point->poll, UV_READABLE, on_accept) == 0 ? IDEM_OK : IDEM_E_SYS;
}

/* A listening descriptor, or -errno. */
static int listen_tcp(const idem__address *address, bool reuse_port) {
  int family = address->storage.ss_family;
  int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
  if (reuse_port) set_flag(fd, SOL_SOCKET, SO_REUSEPORT);
  if (family == AF_INET6) set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
  if (bind(fd, (const struct sockaddr *)&address->storage, address->len) != 0 ||
      listen(fd, BACKLOG) != 0) {
    int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

static uint16_t port_of(int fd) {
  idem__address bound = {.len = sizeof bound.storage};
  getsockname(fd, (struct sockaddr *)&bound.storage, &bound.len);
  return idem__address_port(&bound);
}

/* Both addresses of localhost on one port; a machine without IPv6 has just one of them. With port 0
 * the port that was free on the first may be taken on the second: the caller tries again. */
static int listen_all(idem__address *list, size_t count, bool reuse_port, int fds[2]) {
  uint16_t port = idem__address_port(&list[0]);
  fds[0] = fds[1] = -1;
  for (size_t i = 0; i < count && i < 2; i++) {
    idem__address_set_port(&list[i], port);
    int fd = listen_tcp(&list[i], reuse_port);
    if (fd < 0 && i > 0 && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)) break;
    if (fd < 0) {
      if (i > 0) close(fds[0]);
      return fd;
    }
    fds[i] = fd;
    port = port_of(fd);
  }
  return port;
}

static void close_all(const int fds[2]) {
  for (size_t i = 0; i < 2 && fds[i] >= 0; i++) close(fds[i]);
}

/* For a port that several loops share: first alone, so that it is never another server's, then as
 * one of several. */
static int listen_shared(idem__address *list, size_t count, int fds[2]) {
  int port = listen_all(list, count, false, fds);
  if (port < 0) return port;
  close_all(fds);
  for (size_t i = 0; i < count; i++) idem__address_set_port(&list[i], (uint16_t)port);
  return listen_all(list, count, true, fds);
}

static bool shares_port(const idem_listener *listener) {
  return listener->web && listener->opts.http && listener->opts.http->workers > 1;
}

static int listen_once(const idem_listener *listener, idem__address *list, size_t count,
                       int fds[2]) {
  if (listener->reuse_port) return listen_all(list, count, true, fds);
  return shares_port(listener) ? listen_shared(list, count, fds)
                               : listen_all(list, count, false, fds);
}

static int listen_retrying(const idem_listener *listener, const idem__url *url, idem__address *list,
                           size_t count, int fds[2]) {
  int port = -EADDRINUSE;
  for (int i = 0; i < PORT_TRIES && port == -EADDRINUSE; i++) {
    for (size_t k = 0; k < count; k++) idem__address_set_port(&list[k], url->port);
    port = listen_once(listener, list, count, fds);
    if (url->port != 0) break;
  }
  return port;
}

/* A name is bound at the first address it has. */
static idem_status resolve(idem_listener *listener, const idem__url *url, idem__address *list,
                           size_t *count) {
  if (idem__address_literal(url, list, count) == IDEM_OK) return IDEM_OK;
  uv_getaddrinfo_t request;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  int error = uv_getaddrinfo(listener->runtime->loop, &request, NULL, url->host, NULL, &hints);
  if (error != 0) {
    cannot_listen(listener, uv_strerror(error));
    return IDEM_E_SYS;
  }
  memcpy(&list[0].storage, request.addrinfo->ai_addr, request.addrinfo->ai_addrlen);
  list[0].len = request.addrinfo->ai_addrlen;
  idem__address_set_port(&list[0], url->port);
  *count = 1;
  uv_freeaddrinfo(request.addrinfo);
  return IDEM_OK;
}

static idem_status set_tcp_url(idem_listener *listener, const idem__url *url, int port) {
  char text[sizeof url->host + sizeof url->path + 32];
  bool v6 = strchr(url->host, ':') != NULL;
  static const char *const names[] = {[IDEM__SCHEME_TCP] = "tcp",
                                      [IDEM__SCHEME_HTTP] = "http",
                                      [IDEM__SCHEME_WS] = "ws",
                                      [IDEM__SCHEME_ADMIN] = "admin"};
  bool path = url->scheme == IDEM__SCHEME_HTTP || url->scheme == IDEM__SCHEME_WS;
  bool tls = url->tls && url->scheme == IDEM__SCHEME_TCP;
  int len = snprintf(text, sizeof text, "%s%s%s://%s%s%s:%d%s", tls ? "tls" : names[url->scheme],
                     url->tls && !tls ? "s" : "", url->content_length ? "+lsp" : "", v6 ? "[" : "",
                     url->host, v6 ? "]" : "", port, path ? url->path : "");
  char *copy = idem__strndup(&listener->runtime->alloc, text, (size_t)len);
  if (!copy) return IDEM_E_NOMEM;
  idem__free(&listener->runtime->alloc, listener->url);
  listener->url = copy;
  return IDEM_OK;
}

static bool is_loopback(const idem__address *address) {
  if (address->storage.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)&address->storage;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  }
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&address->storage;
  return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

static idem_status bind_tcp(idem_listener *listener, const idem__url *url) {
  idem__address list[IDEM__ADDRESSES];
  size_t count;
  idem_status status = resolve(listener, url, list, &count);
  if (status != IDEM_OK) return status;
  int fds[2];
  int port = listen_retrying(listener, url, list, count, fds);
  if (port < 0) {
    cannot_listen_errno(listener, -port);
    return IDEM_E_SYS;
  }
  status = set_tcp_url(listener, url, port);
  if (status == IDEM_OK && listener->web)
    status = idem__web_started(listener->web, url, is_loopback(&list[0]), port);
  for (size_t i = 0; i < 2 && fds[i] >= 0; i++) {
    if (status == IDEM_OK) {
      status = add_point(listener, fds[i]);
    } else {
      close(fds[i]);
    }
  }
  return status;
}

/* ----------------------------------------------------------------- Unix sockets */

/* Whether the path is a socket's file that nobody listens on. */
static bool stale(const idem__address *address, const char *path) {
  struct stat found;
  if (lstat(path, &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool refused = connect(fd, (const struct sockaddr *)&address->storage, address->len) != 0 &&
                 errno == ECONNREFUSED;
  close(fd);
  return refused;
}

static int bind_path(int fd, const char *path) {
  idem__address address = idem__address_of_path(path);
  const struct sockaddr *name = (const struct sockaddr *)&address.storage;
  if (bind(fd, name, address.len) == 0) return 0;
  if (errno != EADDRINUSE || !stale(&address, path)) return -1;
  if (unlink(path) != 0) return -1;
  return bind(fd, name, address.len);
}

static void remember_file(idem_listener *listener, const char *path) {
  struct stat made;
  if (lstat(path, &made) != 0) return;
  memcpy(listener->unix_path, path, strlen(path) + 1);
  listener->unix_device = made.st_dev;
  listener->unix_inode = made.st_ino;
}

static idem_status bind_unix(idem_listener *listener, const idem__url *url) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  /* The file takes its mode from the socket, so there is no moment at which others may connect. */
  if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) != 0 || bind_path(fd, url->path) != 0) {
    cannot_listen_errno(listener, errno);
    if (fd >= 0) close(fd);
    return IDEM_E_SYS;
  }
  remember_file(listener, url->path);
  if (listen(fd, BACKLOG) != 0) {
    cannot_listen_errno(listener, errno);
    close(fd);
    return IDEM_E_SYS;
  }
  return add_point(listener, fd);
}

void idem__listener_unlink(idem_listener *listener) {
  struct stat found;
  if (listener->unix_path[0] && lstat(listener->unix_path, &found) == 0 &&
      found.st_dev == listener->unix_device && found.st_ino == listener->unix_inode) {
    unlink(listener->unix_path);
  }
  listener->unix_path[0] = 0;
}

idem_status idem__listener_bind(idem_listener *listener, const idem__url *url) {
  return url->scheme == IDEM__SCHEME_UNIX ? bind_unix(listener, url) : bind_tcp(listener, url);
}
