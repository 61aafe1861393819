/* client.c - asks one question: client URL METHOD [PARAMS [PROGRAM [ARGUMENT...]]]; the program is for
 * the URL "exec:". Prints the result; an error goes to stderr and makes the exit code 1. */
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

typedef struct question {
  const char *method;
  const char *params;
  int code;
} question;

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  question *self = user;
  if (response->status == IDEM_OK) {
    char *text = yyjson_val_write(response->result, 0, NULL);
    printf("%s\n", text ? text : "out of memory");
    free(text);
    self->code = 0;
  } else if (response->status == IDEM_E_REMOTE) {
    char *data = response->data ? yyjson_val_write(response->data, 0, NULL) : NULL;
    fprintf(stderr, "error %lld: %.*s%s%s\n", (long long)response->code, (int)response->message_len,
            response->message, data ? " " : "", data ? data : "");
    free(data);
  } else {
    fprintf(stderr, "no answer: %s\n", idem_status_text(response->status));
  }
  idem_conn_close(conn); /* nothing else to ask: the loop then has nothing left to do */
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  question *self = user;
  if (status == IDEM_OK) {
    size_t len = self->params ? strlen(self->params) : 0;
    idem_call_opts opts = {.timeout_ms = 5000};
    status = idem_call_json(conn, self->method, self->params, len, &opts, on_response, self, NULL);
    if (status != IDEM_OK) idem_conn_close(conn);
  }
  if (status != IDEM_OK) fprintf(stderr, "cannot ask: %s\n", idem_status_text(status));
}

/* What is wrong with params that are no JSON is easily said, and hard to see. */
static bool check_params(const char *params) {
  yyjson_read_err fault;
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)params, strlen(params), 0, NULL, &fault);
  bool fine = yyjson_is_ctn(yyjson_doc_get_root(doc));
  if (!doc)
    fprintf(stderr, "PARAMS is no JSON: %s at byte %zu: %.20s\n", fault.msg, fault.pos,
            params + fault.pos);
  else if (!fine)
    fprintf(stderr, "PARAMS must be an object or an array, such as {\"a\": 1} or [1]\n");
  yyjson_doc_free(doc);
  return fine;
}

int main(int argc, char **argv) {
  if (argc > 3 && !check_params(argv[3])) return 2;
  if (argc < 3) {
    fprintf(stderr, "usage: client URL METHOD [PARAMS [PROGRAM [ARGUMENT...]]]\n");
    return 2;
  }
  question self = {.method = argv[2], .params = argc > 3 ? argv[3] : NULL, .code = 1};
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.answer_junk = false; /* what a server says by mistake is not argued with */
  idem_client_opts client = {.token = getenv("CLIENT_TOKEN"), /* for http:// and ws:// */
                             .argv = argc > 4 ? (const char *const *)argv + 4 : NULL}; /* exec: */
  idem_connect_opts opts = {.policy = &policy, .client = &client};
  uv_loop_t *loop = uv_default_loop();
  idem_status status = idem_connect(loop, argv[1], &opts, on_ready, &self);
  if (status == IDEM_OK) {
    uv_run(loop, UV_RUN_DEFAULT);
  } else if (status == IDEM_E_INVAL) {
    fprintf(stderr,
            "%s is no address to ask: tcp://HOST:PORT, tls://HOST:PORT, unix:/PATH, "
            "http://HOST:PORT/PATH, https://..., ws://..., wss://..., or exec: with PROGRAM\n",
            argv[1]);
  } else {
    fprintf(stderr, "cannot connect: %s\n", idem_status_text(status));
  }
  uv_loop_close(loop);
  return self.code;
}
