/* methods.c - what idem-reference can be asked: the methods of the specification's examples, an echo,
 * and three that misbehave on request. */
#include "reference.h"

#include <stdio.h>

/* Integers stay integers, whatever their size; only what does not fit becomes a double. */
static void subtract(idem_request *request, yyjson_val *params, void *user) {
  const answers *how = user;
  int64_t a, b, difference;
  double minuend, subtrahend;
  idem_param_fault fault;
  yyjson_mut_doc *doc = idem_request_doc(request);
  if (idem_param_int(params, "minuend", 0, &a, &fault) == IDEM_OK &&
      idem_param_int(params, "subtrahend", 1, &b, &fault) == IDEM_OK &&
      !__builtin_sub_overflow(a, b, &difference)) {
    how->mutable(request, yyjson_mut_sint(doc, difference));
  } else if (idem_param_double(params, "minuend", 0, &minuend, &fault) != IDEM_OK ||
             idem_param_double(params, "subtrahend", 1, &subtrahend, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
  } else {
    how->mutable(request, yyjson_mut_real(doc, minuend - subtrahend));
  }
}

typedef struct total {
  bool exact;
  int64_t whole;
  double real;
} total;

static idem_status add(total *sum, yyjson_val *params, size_t position, idem_param_fault *fault) {
  int64_t whole;
  double real;
  idem_status status = idem_param_double(params, "", position, &real, fault);
  if (status != IDEM_OK) return status;
  sum->real += real;
  idem_param_fault not_whole;
  sum->exact = sum->exact && idem_param_int(params, "", position, &whole, &not_whole) == IDEM_OK &&
               !__builtin_add_overflow(sum->whole, whole, &sum->whole);
  return IDEM_OK;
}

/* An array, or (MCP has no arrays for params) an object that holds one. */
static void sum_all(idem_request *request, yyjson_val *params, void *user) {
  const answers *how = user;
  idem_param_fault fault = {.param = "", .expected = "array of numbers", .received = params};
  if (yyjson_is_obj(params)) {
    params = yyjson_obj_get(params, "numbers");
    fault.param = "numbers";
    fault.received = params;
  }
  if (!yyjson_is_arr(params)) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  total sum = {.exact = true};
  size_t count = yyjson_arr_size(params);
  for (size_t i = 0; i < count; i++) {
    if (add(&sum, params, i, &fault) != IDEM_OK) {
      idem_reply_invalid_params(request, &fault);
      return;
    }
  }
  yyjson_mut_doc *doc = idem_request_doc(request);
  how->mutable(request,
               sum.exact ? yyjson_mut_sint(doc, sum.whole) : yyjson_mut_real(doc, sum.real));
}

/* update, notify_hello, notify_sum: anything goes, and there is nothing to say about it. */
static void accept_anything(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  const answers *how = user;
  how->json(request, "null", 4);
}
static void hear_anything(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params, (void)user;
}

static void get_data(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  const answers *how = user;
  static const char data[] = "[\"hello\",5]";
  how->json(request, data, sizeof data - 1);
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  const answers *how = user;
  if (params) {
    how->value(request, params);
  } else {
    how->json(request, "null", 4);
  }
}

static void fail(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem_reply_error(request, IDEM_RPC_INTERNAL_ERROR, "Internal error", NULL);
}

/* {code, message, data?}: the error the caller would like to see. */
static void raise_error(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  int64_t code;
  const char *message;
  size_t len;
  idem_param_fault fault;
  if (idem_param_int(params, "code", 0, &code, &fault) != IDEM_OK ||
      idem_param_string(params, "message", 1, &message, &len, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  yyjson_val *data =
      yyjson_is_obj(params) ? yyjson_obj_get(params, "data") : yyjson_arr_get(params, 2);
  yyjson_mut_doc *doc = idem_request_doc(request);
  idem_reply_error(request, code, message, data ? yyjson_val_mut_copy(doc, data) : NULL);
}

/* --------------------------------------------------------------------------- the table */

static const struct method {
  const char *name;
  idem_method_fn fn;
  idem_notification_fn heard;
  const char *description;
  const char *params[4];
  const char *returns;
} methods[] = {
    {"subtract",
     subtract,
     NULL,
     "The difference of two numbers",
     {"minuend: number", "subtrahend: number"},
     "number"},
    {"sum", sum_all, NULL, "The sum of an array of numbers", {"...: number"}, "number"},
    {"update", accept_anything, hear_anything, "Accepts anything", {NULL}, "null"},
    {"notify_hello", accept_anything, hear_anything, "Accepts anything", {NULL}, "null"},
    {"notify_sum", accept_anything, hear_anything, "Accepts anything", {NULL}, "null"},
    {"get_data", get_data, NULL, "A string and a number", {NULL}, "array"},
    {"echo", echo, NULL, "Its params", {"...: any"}, "any"},
    {"fail", fail, NULL, "Fails inside", {NULL}, "nothing"},
    {"raise",
     raise_error,
     NULL,
     "Fails as told",
     {"code: integer", "message: string", "data: any"},
     "nothing"},
    {"sleep", method_sleep, NULL, "Answers later", {"ms: integer"}, "null"},
};

static idem_status register_one(idem_router *router, const struct method *method,
                                const answers *how) {
  void *user = (void *)(uintptr_t)how; /* handlers only read it */
  idem_status status = idem_router_method(router, method->name, method->fn, user);
  if (status == IDEM_OK && method->heard) {
    status = idem_router_notification(router, method->name, method->heard, NULL);
  }
  if (status != IDEM_OK) return status;
  return idem_router_describe(router, method->name,
                              &(idem_method_info){.description = method->description,
                                                  .params = method->params,
                                                  .returns = method->returns});
}

idem_status methods_register(idem_router *router, const answers *how) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < sizeof methods / sizeof *methods; i++) {
    status = register_one(router, &methods[i], how);
  }
  return status;
}
