/* status.c - HTTP statuses and their words: one table for what we send and what we are told. And answers that need no request. */
#include "http.h"

typedef struct status_row {
  uint16_t status;
  idem__view text;
} status_row;

#define ROW(number, words)                                                                         \
  {                                                                                                \
    number, { "" #number " " words, sizeof(#number " " words) - 1 }                                \
  }
static const status_row rows[] = {
    ROW(200, "OK"),
    ROW(201, "Created"),
    ROW(202, "Accepted"),
    ROW(203, "Non-Authoritative Information"),
    ROW(204, "No Content"),
    ROW(205, "Reset Content"),
    ROW(206, "Partial Content"),
    ROW(300, "Multiple Choices"),
    ROW(301, "Moved Permanently"),
    ROW(302, "Found"),
    ROW(303, "See Other"),
    ROW(304, "Not Modified"),
    ROW(307, "Temporary Redirect"),
    ROW(308, "Permanent Redirect"),
    ROW(400, "Bad Request"),
    ROW(401, "Unauthorized"),
    ROW(402, "Payment Required"),
    ROW(403, "Forbidden"),
    ROW(404, "Not Found"),
    ROW(405, "Method Not Allowed"),
    ROW(406, "Not Acceptable"),
    ROW(407, "Proxy Authentication Required"),
    ROW(408, "Request Timeout"),
    ROW(409, "Conflict"),
    ROW(410, "Gone"),
    ROW(411, "Length Required"),
    ROW(412, "Precondition Failed"),
    ROW(413, "Content Too Large"),
    ROW(414, "URI Too Long"),
    ROW(415, "Unsupported Media Type"),
    ROW(416, "Range Not Satisfiable"),
    ROW(417, "Expectation Failed"),
    ROW(421, "Misdirected Request"),
    ROW(422, "Unprocessable Content"),
    ROW(426, "Upgrade Required"),
    ROW(429, "Too Many Requests"),
    ROW(431, "Request Header Fields Too Large"),
    ROW(500, "Internal Server Error"),
    ROW(501, "Not Implemented"),
    ROW(502, "Bad Gateway"),
    ROW(503, "Service Unavailable"),
    ROW(504, "Gateway Timeout"),
    ROW(505, "HTTP Version Not Supported"),
};

static const status_row *find(int status) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].status == status) return &rows[i];
  return NULL;
}

const char *idem__http_reason(int status) {
  const status_row *row = find(status);
  return row ? row->text.at : NULL;
}

idem__view idem__http_status_text(uint16_t status) {
  const status_row *row = find(status);
  return row ? row->text : find(500)->text;
}

/* ------------------------------------------------------- answers that are sent as they are */

#define BUSY_BODY                                                                                  \
  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","   \
  "\"data\":{\"reason\":\"unavailable\"}}}"
const char idem__http_busy[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 111\r\n"
    "Retry-After: 1\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n\r\n" BUSY_BODY;
const size_t idem__http_busy_len = sizeof idem__http_busy - 1;
_Static_assert(sizeof BUSY_BODY - 1 == 111, "the Content-Length above counts this body");

#define PLAIN_BODY                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","   \
  "\"data\":{\"reason\":\"unavailable\",\"hint\":\"this port speaks HTTPS: use https://\"}}}"
const char idem__http_plain[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 157\r\n"
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n\r\n" PLAIN_BODY;
const size_t idem__http_plain_len = sizeof idem__http_plain - 1;
_Static_assert(sizeof PLAIN_BODY - 1 == 157, "the Content-Length above counts this body");
