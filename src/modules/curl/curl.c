/* curl.c - libcurl's multi interface for a loop that somebody else runs.
 * libcurl may not be entered from its own callbacks, so what they start or cancel waits until it
 * has returned. Redirects, limits and retries are the caller's: of its own accord libcurl repeats what a kept connection
 * did not answer, which only those get whose repeating changes nothing. See docs/internals/modules.md. */
#include "url.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Of bodies, between two ticks. A server that never stops sending would keep libcurl reading for as long,
 * and no timer of the loop would run. */
#define TURN_BYTES ((size_t)256 * 1024)

struct idem__curl {
  CURLM *multi;
  idem__curl_host host;
  unsigned inside; /* libcurl is on the stack */
  bool masked;     /* and SIGPIPE is held back meanwhile */
  sigset_t mask;
  idem__curl_transfer *waiting; /* to be started, in no order */
  idem__curl_transfer *doomed;  /* to be freed */
  size_t taken;                 /* of bodies, since the last tick */
  idem_list late;               /* whose bodies go on with the next tick, in this order */
  idem_list broken;             /* that could not be let go: to be ended */
};

struct idem__curl_transfer {
  idem__curl *set;
  CURL *easy;
  struct curl_slist *headers;
  idem__curl_request request; /* callbacks, user, body */
  idem__curl_transfer *next;  /* in waiting or doomed */
  idem_list link;             /* in late or broken */
  bool added, cancelled, head_over, held;
  bool may_repeat;
  bool begun;     /* it has gone out, perhaps not all of it */
  CURLcode fault; /* of one that is broken */
  int status;
  char error[CURL_ERROR_SIZE];
};

/* ---------------------------------------------------------- entering libcurl */

/* OpenSSL writes with write(2): a server that has left would end a process that has not said what
 * it thinks of SIGPIPE. */
static void hold_signal(idem__curl *set) {
  struct sigaction now;
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  set->masked = sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
                pthread_sigmask(SIG_BLOCK, &pipe, &set->mask) == 0;
}

static void release_signal(const idem__curl *set) {
  const struct timespec at_once = {0};
  sigset_t pipe, pending;
  if (!set->masked) return;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  if (!sigismember(&set->mask, SIGPIPE) && sigpending(&pending) == 0 &&
      sigismember(&pending, SIGPIPE))
    sigtimedwait(&pipe, NULL, &at_once);
  pthread_sigmask(SIG_SETMASK, &set->mask, NULL);
}

static void enter(idem__curl *set) {
  if (set->inside++ == 0) hold_signal(set);
}

static void free_transfer(idem__curl_transfer *transfer) {
  idem__curl *set = transfer->set;
  idem_list_leave(&transfer->link);
  if (!set->inside) hold_signal(set); /* it may say goodbye */
  if (transfer->added) curl_multi_remove_handle(set->multi, transfer->easy);
  curl_easy_cleanup(transfer->easy);
  if (!set->inside) release_signal(set);
  curl_slist_free_all(transfer->headers);
  free(transfer);
}

static idem_status status_of(CURLcode code) {
  switch (code) {
  case CURLE_OK: return IDEM_OK;
  case CURLE_OUT_OF_MEMORY: return IDEM_E_NOMEM;
  case CURLE_OPERATION_TIMEDOUT: return IDEM_E_TIMEOUT;
  case CURLE_WRITE_ERROR: return IDEM_E_CANCELLED; /* our callbacks' false */
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE:
  case CURLE_SEND_ERROR:
  case CURLE_HTTP2: /* a connection, or a stream of one, that was there */
  case CURLE_HTTP2_STREAM:
  case CURLE_RECV_ERROR: return IDEM_E_CLOSED;
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_UNSUPPORTED_PROTOCOL:
  case CURLE_BAD_CONTENT_ENCODING: return IDEM_E_PROTO;
  default: return IDEM_E_SYS;
  }
}

/* What has gone out may have been carried out, whatever became of a second attempt. */
static idem_status status_in(const idem__curl_transfer *transfer, CURLcode code) {
  idem_status status = status_of(code);
  return transfer->begun && status == IDEM_E_SYS ? IDEM_E_CLOSED : status;
}

/* Of an attempt that was stopped, or that could not be made, its words say nothing. */
static const char *words_of(const idem__curl_transfer *transfer, CURLcode code) {
  bool second = code == CURLE_ABORTED_BY_CALLBACK || code == CURLE_COULDNT_CONNECT;
  if (transfer->begun && second) return "the connection broke before an answer came";
  return transfer->error[0] ? transfer->error : curl_easy_strerror(code);
}

static void end_transfer(CURL *easy, CURLcode code) {
  char *own = NULL;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &own);
  idem__curl_transfer *transfer = (idem__curl_transfer *)(void *)own;
  if (transfer->cancelled) return; /* freed with the doomed */
  idem__curl_request request = transfer->request;
  idem_status status = status_in(transfer, code);
  char why[CURL_ERROR_SIZE];
  strncpy(why, words_of(transfer, code), sizeof why - 1);
  why[sizeof why - 1] = 0;
  free_transfer(transfer);
  request.on_end(request.user, status, why);
}

static void fail_transfer(idem__curl_transfer *transfer) {
  idem__curl_request request = transfer->request;
  free_transfer(transfer);
  request.on_end(request.user, IDEM_E_NOMEM, "libcurl did not take the request");
}

static void start_waiting(idem__curl *set) {
  while (set->waiting) {
    idem__curl_transfer *transfer = set->waiting;
    set->waiting = transfer->next;
    if (transfer->cancelled) {
      free_transfer(transfer);
      continue;
    }
    transfer->added = curl_multi_add_handle(set->multi, transfer->easy) == CURLM_OK;
    if (!transfer->added) fail_transfer(transfer);
  }
}

static idem__curl_transfer *first_of(const idem_list *list) {
  return IDEM_CONTAINER(list->next, idem__curl_transfer, link);
}

static void end_broken(idem__curl *set) {
  while (!idem_list_empty(&set->broken)) {
    idem__curl_transfer *transfer = first_of(&set->broken);
    idem_list_remove(&transfer->link);
    end_transfer(transfer->easy, transfer->fault);
  }
}

/* libcurl has returned: what had to wait for that is done now. */
static void leave(idem__curl *set) {
  if (--set->inside > 0) return;
  release_signal(set);
  CURLMsg *message;
  int left;
  while ((message = curl_multi_info_read(set->multi, &left))) {
    if (message->msg == CURLMSG_DONE) end_transfer(message->easy_handle, message->data.result);
  }
  end_broken(set);
  while (set->doomed) {
    idem__curl_transfer *transfer = set->doomed;
    set->doomed = transfer->next;
    free_transfer(transfer);
  }
  start_waiting(set);
  if (!idem_list_empty(&set->late)) set->host.set_timer(set->host.user, 0);
}

/* ------------------------------------------------------------------ holding back */

/* What libcurl kept meanwhile is delivered at once. It does not look at what our callbacks say of that,
 * and before there is a connection there is nothing to go on with. */
static void go_on(idem__curl_transfer *transfer) {
  CURLcode code = curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
  if (code == CURLE_OK || code == CURLE_BAD_FUNCTION_ARGUMENT || transfer->cancelled) return;
  transfer->fault = code;
  idem_list_leave(&transfer->link);
  idem_list_append(&transfer->set->broken, &transfer->link);
}

static void hold(idem__curl_transfer *transfer, bool held) {
  transfer->held = held;
  enter(transfer->set);
  if (held)
    curl_easy_pause(transfer->easy, CURLPAUSE_RECV);
  else if (idem_list_empty(&transfer->link)) /* else it has its turn */
    go_on(transfer);
  leave(transfer->set);
}

/* A new turn: those that were late in the one before come first. */
static void take_turn(idem__curl *set) {
  set->taken = 0;
  while (!idem_list_empty(&set->late) && set->taken < TURN_BYTES) {
    idem__curl_transfer *transfer = first_of(&set->late);
    idem_list_remove(&transfer->link);
    if (!transfer->cancelled && !transfer->held) go_on(transfer);
  }
}

/* ------------------------------------------------------- libcurl's callbacks */

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *mark) {
  idem__curl *set = user;
  void *kept = mark;
  (void)easy;
  bool gone = what == CURL_POLL_REMOVE;
  set->host.watch(set->host.user, socket, !gone && (what & CURL_POLL_IN),
                  !gone && (what & CURL_POLL_OUT), &kept);
  if (!gone && kept != mark) curl_multi_assign(set->multi, socket, kept);
  return 0;
}

static int on_timer(CURLM *multi, long after_ms, void *user) {
  idem__curl *set = user;
  (void)multi;
  set->host.set_timer(set->host.user, idem_list_empty(&set->late) ? after_ms : 0);
  return 0;
}

static bool tell_status(idem__curl_transfer *transfer) {
  long status = 0;
  curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  transfer->status = (int)status;
  return transfer->request.on_status(transfer->request.user, (int)status);
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static bool tell_header(const idem__curl_transfer *transfer, const char *line, size_t len) {
  const char *colon = memchr(line, ':', len);
  if (!colon) return true; /* folded: libcurl has joined what it understands */
  const char *value = colon + 1, *end = line + len;
  while (value < end && blank(*value)) value++;
  while (end > value && blank(end[-1])) end--;
  return transfer->request.on_header(transfer->request.user, line, (size_t)(colon - line), value,
                                     (size_t)(end - value));
}

static bool end_head(idem__curl_transfer *transfer) {
  if (transfer->status < 200) return true;
  transfer->head_over = true;
  return transfer->request.on_head(transfer->request.user);
}

/* One line of the head; lines after the body (trailers) are nobody's business. */
static size_t on_line(char *line, size_t one, size_t len, void *user) {
  idem__curl_transfer *transfer = user;
  bool fine = true;
  (void)one;
  if (transfer->cancelled) return 0;
  if (transfer->head_over) return len;
  if (len >= 5 && strncasecmp(line, "HTTP/", 5) == 0)
    fine = tell_status(transfer);
  else if (len <= 2 && (len == 0 || blank(line[0])))
    fine = end_head(transfer);
  else
    fine = tell_header(transfer, line, len);
  return fine && !transfer->cancelled ? len : (len ? 0 : 1);
}

static size_t on_data(char *data, size_t one, size_t len, void *user) {
  idem__curl_transfer *transfer = user;
  idem__curl *set = transfer->set;
  (void)one;
  if (transfer->cancelled || transfer->fault != CURLE_OK) return 0;
  if (transfer->held || set->taken >= TURN_BYTES) {
    idem_list_leave(&transfer->link);
    if (!transfer->held) idem_list_append(&set->late, &transfer->link);
    return CURL_WRITEFUNC_PAUSE;
  }
  set->taken += len;
  bool fine = transfer->request.on_body(transfer->request.user, data, len);
  return fine && !transfer->cancelled ? len : 0;
}

/* ------------------------------------------------------------------- a request */

static bool has_header(const char *const *headers, const char *name) {
  size_t len = strlen(name);
  for (; headers && *headers; headers++)
    if (strncasecmp(*headers, name, len) == 0 && (*headers)[len] == ':') return true;
  return false;
}

static bool add_line(idem__curl_transfer *transfer, const char *line) {
  struct curl_slist *longer = curl_slist_append(transfer->headers, line);
  if (longer) transfer->headers = longer;
  return longer != NULL;
}

/* For libcurl a header without value is one to leave out; an empty one ends with a semicolon. */
static bool add_header(idem__curl_transfer *transfer, const char *line) {
  size_t len = strlen(line), end = len;
  while (end > 0 && blank(line[end - 1])) end--;
  if (end == 0 || line[end - 1] != ':' || strchr(line, ':') != line + end - 1)
    return add_line(transfer, line);
  char *copy = strdup(line);
  if (!copy) return false;
  copy[end - 1] = ';';
  copy[end] = 0;
  bool added = add_line(transfer, copy);
  free(copy);
  return added;
}

static bool add_headers(idem__curl_transfer *transfer, const idem__curl_request *request) {
  bool fine = true;
  for (const char *const *line = request->headers; fine && line && *line; line++)
    fine = add_header(transfer, *line);
  /* What libcurl would add unasked. */
  if (fine && !has_header(request->headers, "Content-Type"))
    fine = add_line(transfer, "Content-Type:");
  return fine && add_line(transfer, "Expect:");
}

#define SET(option, value) (curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

static bool set_message(CURL *easy, const idem__curl_request *request) {
  if (strcmp(request->method, "HEAD") == 0) return SET(CURLOPT_NOBODY, 1L);
  if (!SET(CURLOPT_CUSTOMREQUEST, request->method)) return false;
  if (!request->body) return true;
  return SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len) &&
         SET(CURLOPT_COPYPOSTFIELDS, request->body);
}

static bool set_limits(CURL *easy, const idem__curl_request *request) {
  return SET(CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_ms) &&
         SET(CURLOPT_TIMEOUT_MS, (long)request->total_ms) && SET(CURLOPT_NOSIGNAL, 1L) &&
         SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_FOLLOWLOCATION, 0L) &&
         SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) &&
         SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
         SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && SET(CURLOPT_QUICK_EXIT, 1L);
}

static bool set_trust(CURL *easy, const idem__curl_request *request) {
  bool fine = SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  if (request->proxy) fine = fine && SET(CURLOPT_PROXY, request->proxy);
  if (request->ca_file) fine = fine && SET(CURLOPT_CAINFO, request->ca_file);
  if (request->cert_file) fine = fine && SET(CURLOPT_SSLCERT, request->cert_file);
  if (request->key_file) fine = fine && SET(CURLOPT_SSLKEY, request->key_file);
  if (request->no_verify)
    fine = fine && SET(CURLOPT_SSL_VERIFYPEER, 0L) && SET(CURLOPT_SSL_VERIFYHOST, 0L);
  return fine;
}

static bool set_callbacks(CURL *easy, idem__curl_transfer *transfer) {
  return SET(CURLOPT_PRIVATE, transfer) && SET(CURLOPT_ERRORBUFFER, transfer->error) &&
         SET(CURLOPT_HEADERFUNCTION, on_line) && SET(CURLOPT_HEADERDATA, transfer) &&
         SET(CURLOPT_WRITEFUNCTION, on_data) && SET(CURLOPT_WRITEDATA, transfer) &&
         SET(CURLOPT_HTTPHEADER, transfer->headers);
}

/* ------------------------------------------------------------------ only once */

static bool is_safe(const char *method) {
  return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
         strcmp(method, "OPTIONS") == 0;
}

static bool was_enough(const idem__curl_transfer *transfer) {
  return transfer->begun && !transfer->may_repeat;
}

/* Each attempt passes here before its first byte. */
static int before_request(void *user, char *to, char *from, int to_port, int from_port) {
  idem__curl_transfer *transfer = user;
  (void)to, (void)from, (void)to_port, (void)from_port;
  if (was_enough(transfer)) return CURL_PREREQFUNC_ABORT;
  transfer->begun = true;
  return CURL_PREREQFUNC_OK;
}

/* The address is known here, whatever name led to it. */
static bool may_connect(const idem__curl_request *request, const struct curl_sockaddr *to) {
  const void *address = &to->addr;
  if (!request->may_connect) return true;
  if (to->family == AF_INET) {
    const struct sockaddr_in *four = address;
    return request->may_connect(request->user, (const uint8_t *)&four->sin_addr, 4);
  }
  const struct sockaddr_in6 *six = address;
  return to->family == AF_INET6 &&
         request->may_connect(request->user, (const uint8_t *)&six->sin6_addr, 16);
}

/* None for an attempt that would be stopped once it is there. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *to) {
  const idem__curl_transfer *transfer = user;
  (void)purpose;
  if (was_enough(transfer) || !may_connect(&transfer->request, to)) return CURL_SOCKET_BAD;
  return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static bool set_checks(CURL *easy, idem__curl_transfer *transfer) {
  return SET(CURLOPT_PREREQFUNCTION, before_request) && SET(CURLOPT_PREREQDATA, transfer) &&
         SET(CURLOPT_OPENSOCKETFUNCTION, open_socket) && SET(CURLOPT_OPENSOCKETDATA, transfer) &&
         (!transfer->request.may_connect || SET(CURLOPT_FRESH_CONNECT, 1L));
}

static idem_status start(idem__curl *set, const idem__curl_request *request,
                         idem__curl_transfer **out) {
  idem__curl_transfer *transfer = calloc(1, sizeof *transfer);
  *out = NULL;
  if (!transfer) return IDEM_E_NOMEM;
  transfer->set = set;
  transfer->request = *request;
  transfer->may_repeat = request->may_repeat || is_safe(request->method);
  idem_list_init(&transfer->link);
  CURL *easy = transfer->easy = curl_easy_init();
  bool fine = easy && add_headers(transfer, request) && set_message(easy, request) &&
              set_limits(easy, request) && set_trust(easy, request) &&
              set_callbacks(easy, transfer) && set_checks(easy, transfer) &&
              SET(CURLOPT_URL, request->url);
  if (!fine) {
    free_transfer(transfer);
    return IDEM_E_NOMEM;
  }
  if (set->inside) {
    transfer->next = set->waiting;
    set->waiting = transfer;
  } else {
    transfer->added = curl_multi_add_handle(set->multi, easy) == CURLM_OK;
    if (!transfer->added) {
      free_transfer(transfer);
      return IDEM_E_NOMEM;
    }
  }
  *out = transfer;
  return IDEM_OK;
}

static void cancel(idem__curl_transfer *transfer) {
  idem__curl *set = transfer->set;
  if (transfer->added && !set->inside) {
    free_transfer(transfer);
    return;
  }
  transfer->cancelled = true;
  if (!transfer->added) return; /* it is waiting, and freed there, also while the set is left */
  transfer->next = set->doomed;
  set->doomed = transfer;
}

/* ----------------------------------------------------------------------- a set */

static void ready(idem__curl *set, int socket, bool read, bool write, bool failed) {
  int running, what = (read ? CURL_CSELECT_IN : 0) | (write ? CURL_CSELECT_OUT : 0) |
                      (failed ? CURL_CSELECT_ERR : 0);
  enter(set);
  curl_multi_socket_action(set->multi, socket, what, &running);
  leave(set);
}

static void tick(idem__curl *set) {
  int running;
  enter(set);
  take_turn(set);
  curl_multi_socket_action(set->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  leave(set);
}

static void drive(idem__curl *set) {
  int running;
  enter(set);
  curl_multi_perform(set->multi, &running);
  leave(set);
}

static void close_set(idem__curl *set) {
  hold_signal(set);
  if (set->multi) curl_multi_cleanup(set->multi);
  release_signal(set);
  free(set);
}

static void start_library(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

static idem_status open_set(const idem__curl_host *host, idem__curl **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  *out = NULL;
  pthread_once(&once, start_library);
  idem__curl *set = calloc(1, sizeof *set);
  if (!set) return IDEM_E_NOMEM;
  set->host = *host;
  idem_list_init(&set->late);
  idem_list_init(&set->broken);
  set->multi = curl_multi_init();
  if (!set->multi || curl_multi_setopt(set->multi, CURLMOPT_SOCKETFUNCTION, on_socket) ||
      curl_multi_setopt(set->multi, CURLMOPT_SOCKETDATA, set) ||
      curl_multi_setopt(set->multi, CURLMOPT_TIMERFUNCTION, on_timer) ||
      curl_multi_setopt(set->multi, CURLMOPT_TIMERDATA, set)) {
    close_set(set);
    return IDEM_E_NOMEM;
  }
  *out = set;
  return IDEM_OK;
}

extern const idem__curl_module idem__curl_module_table;
__attribute__((visibility("default"))) const idem__curl_module idem__curl_module_table = {
    .open = open_set,
    .close = close_set,
    .ready = ready,
    .tick = tick,
    .drive = drive,
    .start = start,
    .cancel = cancel,
    .hold = hold,
    .resolve = idem__curl_resolve,
    .free_text = idem__curl_free_text,
};
