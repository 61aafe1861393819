/* http_tricks.h - requests that are not HTTP/1.1 to the letter, or ask for what is not served, each with
 * the one answer it gets: for a server of `echo` at "/" and of /healthz. */
#ifndef IDEM_TEST_HTTP_TRICKS_H
#define IDEM_TEST_HTTP_TRICKS_H

#define HEAD "POST / HTTP/1.1\r\nHost: localhost:8420\r\nContent-Type: application/json\r\n"
#define ECHO_BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define ECHO HEAD "Content-Length: 53\r\n\r\n" ECHO_BODY
#define ECHO_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

typedef struct trick {
  const char *name, *text, *status, *contains;
} trick;

#define PARSE                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}"
#define INVALID(reason)                                                                            \
  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","   \
  "\"data\":{\"reason\":\"" reason "\""

static const trick tricks[] = {
    {"no Host", "GET /healthz HTTP/1.1\r\n\r\n", "400 ", INVALID("forbidden-host")},
    {"no Host in 1.0", "GET /healthz HTTP/1.0\r\n\r\n", "400 ", INVALID("forbidden-host")},
    {"two Hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "400 ",
     INVALID("forbidden-host")},
    {"conflicting lengths", HEAD "Content-Length: 53\r\nContent-Length: 5\r\n\r\n" ECHO_BODY,
     "400 ", INVALID("bad-content-length")},
    {"repeated lengths", HEAD "Content-Length: 53\r\nContent-Length: 53\r\n\r\n" ECHO_BODY, "400 ",
     INVALID("bad-content-length")},
    {"list of lengths", HEAD "Content-Length: 53, 53\r\n\r\n" ECHO_BODY, "400 ",
     INVALID("bad-content-length")},
    {"signed length", HEAD "Content-Length: +53\r\n\r\n" ECHO_BODY, "400 ",
     INVALID("bad-content-length")},
    {"length overflow", HEAD "Content-Length: 99999999999999999999\r\n\r\n" ECHO_BODY, "400 ",
     INVALID("bad-content-length")},
    {"hexadecimal length", HEAD "Content-Length: 0x35\r\n\r\n" ECHO_BODY, "400 ",
     INVALID("bad-content-length")},
    {"length and chunked", HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "400 ", "\"id\":null"},
    {"chunked and length", HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     "400 ", "\"id\":null"},
    {"another coding", HEAD "Transfer-Encoding: gzip\r\n\r\n" ECHO_BODY, "400 ", PARSE},
    {"a coding before chunked", HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400 ",
     PARSE},
    {"chunked before a coding", HEAD "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "400 ",
     PARSE},
    {"chunked twice", HEAD "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400 ", PARSE},
    {"two codings",
     HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 ",
     PARSE},
    {"identity", HEAD "Transfer-Encoding: identity\r\n\r\n" ECHO_BODY, "400 ", PARSE},
    {"quoted chunked", HEAD "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400 ", PARSE},
    {"vertical tab before chunked",
     HEAD "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n0\r\n\r\n",
     "400 ", PARSE},
    {"blank before the colon", HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400 ", PARSE},
    {"HTTP/1.0 with chunks",
     "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "400 ", PARSE},
    {"bare LF", "GET /healthz HTTP/1.1\nHost: localhost\n\n", "400 ", PARSE},
    {"bare LF after a header", "GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n", "400 ", PARSE},
    {"bare CR in a value", "GET /healthz HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n", "400 ", PARSE},
    {"obs-fold", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", "400 ", PARSE},
    {"obs-fold of the first header", "GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n", "400 ",
     PARSE},
    {"NUL replaced by 0x01 in a value",
     "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: \x01\r\n\r\n", "400 ", PARSE},
    {"no header name", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", "400 ", PARSE},
    {"no colon", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n", "400 ", PARSE},
    {"unknown method", "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"unknown method at an unknown path", "FOO /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
     "501 ", INVALID("method-not-allowed")},
    {"lower case method", "get /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ", PARSE},
    {"a header alone", "Content-Length: 2\r\n\r\n{}", "400 ", PARSE},
    {"shorter method", "PO / HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"longer method", "POSTS / HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"method of WebDAV", "PROPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"TRACE", "TRACE /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"tab behind the method", "GET\t/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ", PARSE},
    {"no method", " /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ", PARSE},
    {"a message alone", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}\n", "400 ", PARSE},
    {"TLS", "\x16\x03\x01\x02\x01", "400 ", PARSE},
    {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 ", PARSE},
    {"HTTP/0.9", "GET /healthz\r\n\r\n", "HTTP/1.1 505 ", PARSE},
    {"HTTP/1.2", "GET /healthz HTTP/1.2\r\nHost: localhost\r\n\r\n", "HTTP/1.1 ", PARSE},
    {"relative target", "GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ", PARSE},
    {"absolute form of another host",
     "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ",
     INVALID("forbidden-host")},
    {"absolute form with user information",
     "GET http://localhost@evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400 ",
     "\"id\":null"},
    {"CONNECT", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", "501 ",
     INVALID("method-not-allowed")},
    {"chunk size not a number", HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400 ", PARSE},
    {"negative chunk size", HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "400 ", PARSE},
    {"chunk size overflow", HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400 ",
     PARSE},
    {"chunk longer than its size", HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
     "400 ", PARSE},
    {"bare LF in chunks", HEAD "Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n", "400 ", PARSE},
    {"blank after the chunk size", HEAD "Transfer-Encoding: chunked\r\n\r\n2 \r\nab\r\n0\r\n\r\n",
     "400 ", PARSE},
    {"too long at once", HEAD "Content-Length: 10485761\r\n\r\n", "413 ", INVALID("oversize")},
    {"another type",
     "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
     "Content-Length: 53\r\n\r\n" ECHO_BODY,
     "415 ", INVALID("unsupported-content-type")},
    {"no type", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 53\r\n\r\n" ECHO_BODY,
     "415 ", INVALID("unsupported-content-type")},
    {"another charset",
     "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json; charset=latin1\r\n"
     "Content-Length: 53\r\n\r\n" ECHO_BODY,
     "415 ", INVALID("bad-charset")},
    {"compressed", HEAD "Content-Encoding: gzip\r\nContent-Length: 53\r\n\r\n" ECHO_BODY, "415 ",
     INVALID("unsupported-content-type")},
    {"unknown path", "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 ",
     INVALID("unavailable")},
    {"wrong method", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 ",
     INVALID("method-not-allowed")},
    {"empty body", HEAD "Content-Length: 0\r\n\r\n", "400 ", PARSE},
    {"no body", HEAD "\r\n", "400 ", PARSE},
};

#endif
