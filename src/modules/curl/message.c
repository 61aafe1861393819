/* message.c - what one transfer asks, as libcurl is told, and the head of its answer, as it comes.
 * Of its own accord libcurl repeats what a kept connection did not answer: only those get that whose repeating changes
 * nothing. See docs/internals/modules.md. */
#include "transfer.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

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

/* What libcurl did not take is remembered: it is another matter than want of memory. */
static bool took(idem__curl_transfer *transfer, CURLcode code) {
  transfer->fault = code;
  return code == CURLE_OK;
}

#define SET(option, value) took(transfer, curl_easy_setopt(transfer->easy, (option), (value)))

static bool set_message(idem__curl_transfer *transfer, const idem__curl_request *request) {
  if (strcmp(request->method, "HEAD") == 0) return SET(CURLOPT_NOBODY, 1L);
  if (!SET(CURLOPT_CUSTOMREQUEST, request->method)) return false;
  if (!request->body) return true;
  return SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len) &&
         SET(CURLOPT_COPYPOSTFIELDS, request->body);
}

static bool set_limits(idem__curl_transfer *transfer, const idem__curl_request *request) {
  return SET(CURLOPT_CONNECTTIMEOUT_MS, (long)request->connect_ms) &&
         SET(CURLOPT_TIMEOUT_MS, (long)request->total_ms) && SET(CURLOPT_NOSIGNAL, 1L) &&
         SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_FOLLOWLOCATION, 0L) &&
         SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) &&
         SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
         SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && SET(CURLOPT_QUICK_EXIT, 1L);
}

static bool set_trust(idem__curl_transfer *transfer, const idem__curl_request *request) {
  bool fine = SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  if (request->proxy) fine = fine && SET(CURLOPT_PROXY, request->proxy);
  if (request->ca_file) fine = fine && SET(CURLOPT_CAINFO, request->ca_file);
  if (request->cert_file) fine = fine && SET(CURLOPT_SSLCERT, request->cert_file);
  if (request->key_file) fine = fine && SET(CURLOPT_SSLKEY, request->key_file);
  if (request->no_verify)
    fine = fine && SET(CURLOPT_SSL_VERIFYPEER, 0L) && SET(CURLOPT_SSL_VERIFYHOST, 0L);
  return fine;
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

static bool set_checks(idem__curl_transfer *transfer) {
  return SET(CURLOPT_PREREQFUNCTION, before_request) && SET(CURLOPT_PREREQDATA, transfer) &&
         SET(CURLOPT_OPENSOCKETFUNCTION, open_socket) && SET(CURLOPT_OPENSOCKETDATA, transfer) &&
         (!transfer->request.may_connect || SET(CURLOPT_FRESH_CONNECT, 1L));
}

/* ------------------------------------------------------ the head of an answer */

static bool tell_status(idem__curl_transfer *transfer) {
  long status = 0;
  curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  transfer->status = (int)status;
  return transfer->request.on_status(transfer->request.user, (int)status);
}

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

static bool set_head(idem__curl_transfer *transfer) {
  return SET(CURLOPT_HEADERFUNCTION, on_line) && SET(CURLOPT_HEADERDATA, transfer) &&
         SET(CURLOPT_HTTPHEADER, transfer->headers);
}

bool idem__curl_write_request(idem__curl_transfer *transfer) {
  const idem__curl_request *request = &transfer->request;
  transfer->may_repeat = request->may_repeat || is_safe(request->method);
  return add_headers(transfer, request) && set_message(transfer, request) &&
         set_limits(transfer, request) && set_trust(transfer, request) && set_head(transfer) &&
         set_checks(transfer) && SET(CURLOPT_URL, request->url);
}
