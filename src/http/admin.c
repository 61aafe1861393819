/* admin.c - GET /healthz, and the form of an answer to GET /metrics.
 * Health tells the truth of the moment; whoever has the threads' counters adds them up.
 * See docs/internals/http.md. */
#include "http.h"

#include <string.h>

void idem__http_serve_health(idem_http_exchange *exchange, const idem_http_request *request,
                             void *user) {
  const idem__http_admin *admin = user;
  const char *fault = admin->health ? admin->health(admin->health_ctx) : NULL;
  char text[128];
  idem_buf body;
  (void)request;
  idem_buf_fixed(&body, text, sizeof text);
  if (idem_buf_printf(&body, "{\"status\":\"%s\"}\n", fault ? fault : "ok") != IDEM_OK)
    idem_buf_puts(&body, "{\"status\":\"unhealthy\"}\n");
  idem__http_respond(exchange, &(idem__http_answer){.status = fault ? 503 : 200,
                                                    .type = "application/json",
                                                    .body = text,
                                                    .len = body.len});
}

void idem__http_respond_metrics(idem_http_exchange *exchange, const char *text, size_t len) {
  if (!text) {
    idem__http_refuse(exchange, &(idem__http_refusal){.status = 503, .reason = "unavailable"},
                      NULL);
    return;
  }
  idem__http_respond(exchange,
                     &(idem__http_answer){.status = 200,
                                          .type = "text/plain; version=0.0.4; charset=utf-8",
                                          .body = text,
                                          .len = len});
}
