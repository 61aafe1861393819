/* conn_support.h - what the conn targets share: a router whose handlers do as the input says, a
 * clock, and the checks that hold for whatever a conn sends. */
#ifndef IDEM_FUZZ_CONN_SUPPORT_H
#define IDEM_FUZZ_CONN_SUPPORT_H

#include <idem/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_KEPT = 64 };

typedef struct fuzz_world {
  idem_router *router;
  idem_conn *conn;
  idem_policy policy;
  uint64_t now_ms;
  idem_request *kept[FUZZ_KEPT];
  size_t kept_count;
  size_t messages_in;
  size_t elements_in; /* an upper bound: opening braces of what came in */
  size_t answers_out;
  size_t calls_started;
  size_t calls_ended;
} fuzz_world;

static _Noreturn void fuzz_fail(const char *what, const char *text, size_t len) {
  fprintf(stderr, "%s: %.*s\n", what, (int)(len < 500 ? len : 500), text);
  abort();
}

static uint64_t fuzz_now(void *ctx) { return ((fuzz_world *)ctx)->now_ms * 1000000u; }

static void fuzz_echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void fuzz_keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  fuzz_world *world = (fuzz_world *)user;
  if (world->kept_count == FUZZ_KEPT) return;
  idem_request_keep(request);
  world->kept[world->kept_count++] = request;
}

static void fuzz_forget(idem_request *request, yyjson_val *params, void *user) {
  (void)request;
  (void)params;
  (void)user;
}

static void fuzz_subtract(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  double a, b;
  idem_param_fault fault;
  if (idem_param_double(params, "minuend", 0, &a, &fault) != IDEM_OK ||
      idem_param_double(params, "subtrahend", 1, &b, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  yyjson_mut_doc *doc = idem_request_doc(request);
  if (doc) idem_reply_mut(request, yyjson_mut_real(doc, a - b));
}

/* A pattern's values are parts of the name. */
static void fuzz_value(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  size_t name_len, len;
  const char *name = idem_request_method(request, &name_len);
  const char *value = idem_request_value(request, "b", &len);
  if (!value || !len || value < name || value + len > name + name_len) abort();
  yyjson_mut_doc *doc = idem_request_doc(request);
  if (doc) idem_reply_mut(request, yyjson_mut_strncpy(doc, value, len));
}

static void fuzz_hear(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  (void)params;
  (void)user;
}

static void fuzz_register(fuzz_world *world) {
  idem_status status = idem_router_new(NULL, &world->router);
  if (status == IDEM_OK) status = idem_router_method(world->router, "echo", fuzz_echo, world);
  if (status == IDEM_OK) status = idem_router_method(world->router, "keep", fuzz_keep, world);
  if (status == IDEM_OK) status = idem_router_method(world->router, "forget", fuzz_forget, world);
  if (status == IDEM_OK) {
    status = idem_router_method(world->router, "subtract", fuzz_subtract, world);
  }
  if (status == IDEM_OK) status = idem_router_pattern(world->router, "{a}-{b}.x", fuzz_value, NULL);
  if (status == IDEM_OK) {
    status = idem_router_notification(world->router, "update", fuzz_hear, world);
  }
  idem_lsp_opts lsp = {.server_name = "fuzz", .server_version = "1.0.0"};
  if (status == IDEM_OK) status = idem_router_lsp(world->router, &lsp);
  if (status != IDEM_OK) abort();
}

/* Exactly one of result and error, the version, and an id unless the policy leaves it out. */
static void fuzz_check_answer(fuzz_world *world, yyjson_val *answer, const char *text, size_t len) {
  bool result = yyjson_obj_get(answer, "result") != NULL;
  yyjson_val *error = yyjson_obj_get(answer, "error");
  if (!yyjson_equals_str(yyjson_obj_get(answer, "jsonrpc"), "2.0")) fuzz_fail("version", text, len);
  if (yyjson_obj_get(answer, "method")) {
    if (result || error) fuzz_fail("a request with an outcome", text, len);
    return;
  }
  if (result == (error != NULL)) fuzz_fail("not one of result and error", text, len);
  if (error && (!yyjson_is_int(yyjson_obj_get(error, "code")) ||
                !yyjson_is_str(yyjson_obj_get(error, "message")))) {
    fuzz_fail("an error without code or message", text, len);
  }
  if (!yyjson_obj_get(answer, "id") && world->policy.unknown_id == IDEM_UNKNOWN_ID_NULL) {
    fuzz_fail("an answer without an id", text, len);
  }
  world->answers_out++;
}

static void fuzz_trace(idem_conn *conn, idem_direction direction, const char *message, size_t len,
                       void *user) {
  (void)conn;
  fuzz_world *world = (fuzz_world *)user;
  if (direction == IDEM_IN) {
    world->messages_in++;
    for (size_t i = 0; i < len; i++) world->elements_in += message[i] == '{' || message[i] == ',';
    return;
  }
  if (memchr(message, '\n', len)) fuzz_fail("a newline in a message", message, len);
  yyjson_doc *doc = yyjson_read(message, len, YYJSON_READ_BIGNUM_AS_RAW);
  yyjson_val *root = yyjson_doc_get_root(doc), *item;
  size_t i, max;
  if (!root) fuzz_fail("not JSON", message, len);
  if (yyjson_is_arr(root)) {
    if (!yyjson_arr_size(root)) fuzz_fail("an empty array", message, len);
    yyjson_arr_foreach(root, i, max, item) fuzz_check_answer(world, item, message, len);
  } else {
    fuzz_check_answer(world, root, message, len);
  }
  yyjson_doc_free(doc);
}

static void fuzz_open(fuzz_world *world) {
  fuzz_register(world);
  world->now_ms = 1000;
  idem_conn_opts opts = {.router = world->router,
                         .policy = &world->policy,
                         .now_ns = fuzz_now,
                         .clock_ctx = world,
                         .on_trace = fuzz_trace,
                         .user = world};
  if (idem_conn_new(&opts, &world->conn) != IDEM_OK) abort();
}

static void fuzz_drain(fuzz_world *world) {
  idem_chunk chunk;
  while (idem_conn_next_chunk(world->conn, &chunk)) idem_chunk_free(&chunk);
}

static void fuzz_reply_one(fuzz_world *world) {
  if (world->kept_count) idem_reply_json(world->kept[--world->kept_count], "[1, 2]", 6);
}

static void fuzz_close(fuzz_world *world) {
  while (world->kept_count > FUZZ_KEPT / 2) fuzz_reply_one(world);
  fuzz_drain(world);
  idem_conn_free(world->conn);
  while (world->kept_count) fuzz_reply_one(world);
  /* Faults of framing are answered without being messages; each takes at least one byte. */
  idem_router_free(world->router);
  if (world->calls_started != world->calls_ended) fuzz_fail("a call did not end once", "", 0);
}

#endif
