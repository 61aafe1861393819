/* curl.c - libcurl's multi interface for a loop that somebody else runs.
 * libcurl may not be entered from its own callbacks, so what they start or cancel waits until it
 * has returned. Redirects, limits and retries are the caller's; what is sent and how often: message.c. See docs/internals/modules.md. */
#include "transfer.h"
#include "url.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of bodies, between two ticks. A server that never stops sending would keep libcurl reading for as long,
 * and no timer of the loop would run. */
#define TURN_BYTES ((size_t)256 * 1024)

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

/* -------------------------------------------------------------------- transfers */

static bool set_up(idem__curl_transfer *transfer) {
  CURL *easy = transfer->easy = curl_easy_init();
  return easy && idem__curl_write_request(transfer) &&
         curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
}

static bool add(idem__curl *set, idem__curl_transfer *transfer) {
  if (set->inside) {
    transfer->next = set->waiting;
    set->waiting = transfer;
    return true;
  }
  transfer->added = curl_multi_add_handle(set->multi, transfer->easy) == CURLM_OK;
  return transfer->added;
}

static idem_status start(idem__curl *set, const idem__curl_request *request,
                         idem__curl_transfer **out) {
  idem__curl_transfer *transfer = calloc(1, sizeof *transfer);
  *out = NULL;
  if (!transfer) return IDEM_E_NOMEM;
  transfer->set = set;
  transfer->request = *request;
  idem_list_init(&transfer->link);
  if (!set_up(transfer) || !add(set, transfer)) {
    bool refused = transfer->fault != CURLE_OK && transfer->fault != CURLE_OUT_OF_MEMORY;
    free_transfer(transfer);
    return refused ? IDEM_E_INVAL : IDEM_E_NOMEM;
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
