/* h1_parser.c - llhttp's callbacks: where the parts of a head lie, what of a body is kept, what is too much.
 * It stops after each head and each message. See docs/internals/http.md. */
#include "conn.h"

#define TRAILER_MAX 4096 /* trailer fields and chunk extensions of one request */

/* ------------------------------------------------------ parser's callbacks */

static idem_http_conn *conn_of(llhttp_t *parser) { return parser->data; }

int idem__h1_stop(idem_http_conn *conn, uint16_t status, int code, const char *reason) {
  if (!conn->refusal.status)
    conn->refusal = (idem__http_refusal){.status = status, .code = code, .reason = reason};
  conn->refusal.close = true;
  return -1;
}

static int stop_no_memory(idem_http_conn *conn) {
  conn->failed = IDEM_E_NOMEM;
  return -1;
}

static int on_url(llhttp_t *parser, const char *at, size_t len) {
  idem_http_request *request = conn_of(parser)->request;
  if (!request->target.value_len) request->target.value = (uint32_t)(at - request->base);
  request->target.value_len += (uint32_t)len;
  return 0;
}

static int add_trailer(idem_http_conn *conn, size_t len) {
  conn->request->trailer_bytes += len;
  return conn->request->trailer_bytes > TRAILER_MAX
             ? idem__h1_stop(conn, 400, 0, "header-too-large")
             : 0;
}

static int on_extension(llhttp_t *parser, const char *at, size_t len) {
  (void)at;
  return add_trailer(conn_of(parser), len);
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  if (request->head_len) return add_trailer(conn, len);
  if (request->too_many) return 0;
  if (request->in_value || !request->header_count) {
    request->too_many = request->header_count >= conn->server->header_count;
    if (request->too_many) return 0;
    request->in_value = false;
    request->headers[request->header_count++] =
        (idem__http_header){.name = (uint32_t)(at - request->base)};
  }
  request->headers[request->header_count - 1].name_len += (uint32_t)len;
  return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  if (request->head_len) return add_trailer(conn, len);
  if (request->too_many) return 0;
  idem__http_header *header = &request->headers[request->header_count - 1];
  if (!header->value_len) header->value = (uint32_t)(at - request->base);
  header->value_len += (uint32_t)len;
  request->in_value = true;
  return 0;
}

/* One too many is refused when it is whole: by then a fault in it has shown, wherever input was
 * split. */
static int on_header_value_complete(llhttp_t *parser) {
  idem_http_conn *conn = conn_of(parser);
  conn->request->in_value = true; /* an empty value has no span */
  return conn->request->too_many ? idem__h1_stop(conn, 431, 0, "header-too-large") : 0;
}

static int on_headers_complete(llhttp_t *parser) {
  (void)parser;
  return HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t len) {
  idem_http_conn *conn = conn_of(parser);
  idem_http_request *request = conn->request;
  size_t room = conn->discard ? IDEM__H1_DRAIN : idem__http_body_most(conn);
  if (len > room - request->body.len) return idem__h1_stop(conn, 413, 0, "oversize");
  if (conn->discard || !request->body.len) {
    request->body = (idem__view){at, request->body.len + len};
    return 0;
  }
  if (!idem__http_own_body(request)) return stop_no_memory(conn);
  if (idem_buf_put(&request->body_copy, at, len) != IDEM_OK) return stop_no_memory(conn);
  request->body = (idem__view){request->body_copy.data, request->body_copy.len};
  return 0;
}

static int on_message_complete(llhttp_t *parser) {
  (void)parser;
  return HPE_PAUSED;
}

void idem__h1_settings(llhttp_settings_t *settings) {
  llhttp_settings_init(settings);
  settings->on_url = on_url;
  settings->on_header_field = on_header_field;
  settings->on_header_value = on_header_value;
  settings->on_header_value_complete = on_header_value_complete;
  settings->on_headers_complete = on_headers_complete;
  settings->on_chunk_extension_name = on_extension;
  settings->on_chunk_extension_value = on_extension;
  settings->on_body = on_body;
  settings->on_message_complete = on_message_complete;
}
