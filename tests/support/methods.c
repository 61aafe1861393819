/* methods.c - what the peer in memory serves: the methods of idem-reference, and test methods that
 * do what handlers should not: keep, forget, drop, answer twice, answer with what is not JSON. */
#include "peer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *id_text(const idem_request *request) {
  size_t len = 0;
  const char *id = idem_request_id(request, &len);
  char *copy = id ? strndup(id, len) : strdup("none");
  if (!copy) abort();
  return copy;
}

/* ------------------------------------------------------------ reference */

static void reply_number(idem_request *request, double number) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  bool small = number > -9007199254740992.0 && number < 9007199254740992.0;
  bool whole = small && (double)(int64_t)number == number;
  if (!doc) return;
  idem_reply_mut(request,
                 whole ? yyjson_mut_sint(doc, (int64_t)number) : yyjson_mut_real(doc, number));
}

static void subtract(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  double minuend, subtrahend;
  idem_param_fault fault;
  if (idem_param_double(params, "minuend", 0, &minuend, &fault) != IDEM_OK ||
      idem_param_double(params, "subtrahend", 1, &subtrahend, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  reply_number(request, minuend - subtrahend);
}

static void sum(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  double total = 0;
  size_t count = yyjson_arr_size(params);
  for (size_t i = 0; i < count; i++) {
    yyjson_val *item = yyjson_arr_get(params, i);
    char path[32];
    snprintf(path, sizeof path, "[%zu]", i);
    idem_param_fault fault = {.param = path, .expected = "number", .received = item};
    if (!yyjson_is_num(item)) {
      idem_reply_invalid_params(request, &fault);
      return;
    }
    total += yyjson_get_num(item);
  }
  reply_number(request, total);
}

static void accept_anything(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply(request, NULL);
}

static void get_data(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_json(request, "[\"hello\", 5]", 12);
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void fail(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error(request, IDEM_RPC_INTERNAL_ERROR, "Internal error", NULL);
}

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
  if (doc) idem_reply_error(request, code, message, data ? yyjson_val_mut_copy(doc, data) : NULL);
}

static void sleep_ms(idem_request *request, yyjson_val *params, void *user) {
  peer *p = user;
  int64_t ms;
  idem_param_fault fault;
  if (idem_param_int(params, "ms", 0, &ms, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  if (ms <= 0) {
    idem_reply(request, NULL);
    return;
  }
  peer_keep(p, request, p->now_ms + (uint64_t)ms);
}

typedef struct method_row {
  const char *name;
  idem_method_fn fn;
} method_row;

static idem_status register_rows(peer *p, const method_row *rows, size_t count) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < count && status == IDEM_OK; i++) {
    status = idem_router_method(p->router, rows[i].name, rows[i].fn, p);
  }
  return status;
}

idem_status peer_register_reference(peer *p) {
  static const method_row rows[] = {
      {"subtract", subtract},
      {"sum", sum},
      {"update", accept_anything},
      {"notify_hello", accept_anything},
      {"notify_sum", accept_anything},
      {"get_data", get_data},
      {"echo", echo},
      {"fail", fail},
      {"raise", raise_error},
      {"sleep", sleep_ms},
  };
  return register_rows(p, rows, sizeof rows / sizeof rows[0]);
}

/* ---------------------------------------------------------- misbehaving */

static void keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  peer_keep(user, request, 0);
}

static void reply_twice(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  char *id = id_text(request);
  peer_saw_reply(user, id, idem_reply_json(request, "\"first\"", 7));
  peer_saw_reply(user, id, idem_reply_json(request, "\"second\"", 8));
  free(id);
}

static void forget(idem_request *request, yyjson_val *params, void *user) {
  (void)request;
  (void)params;
  (void)user;
}

static void drop(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_request_keep(request);
  idem_request_drop(request);
}

static void reply_text(idem_request *request, void *user, const char *json, size_t len) {
  char *id = id_text(request);
  peer_saw_reply(user, id, idem_reply_json(request, json, len));
  free(id);
}

static void bad_utf8(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  char *id = id_text(request);
  yyjson_mut_doc *doc = idem_request_doc(request);
  if (doc) peer_saw_reply(user, id, idem_reply_mut(request, yyjson_mut_str(doc, "\xff\xfe")));
  free(id);
}

static void nan_result(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  char *id = id_text(request);
  yyjson_mut_doc *doc = idem_request_doc(request);
  if (doc) peer_saw_reply(user, id, idem_reply_mut(request, yyjson_mut_real(doc, (double)NAN)));
  free(id);
}

static void raw_newline(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  static const char text[] = " {\n  \"a\" :\t[ 1 ,\r\n 2.50 ] }\n";
  reply_text(request, user, text, sizeof text - 1);
}

static void bad_json(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  reply_text(request, user, "{\"a\":", 5);
}

static void two_values(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  static const char text[] = "1\n{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1}";
  reply_text(request, user, text, sizeof text - 1);
}

/* big {"bytes":N}: a string of that length. */
static void big(idem_request *request, yyjson_val *params, void *user) {
  int64_t bytes = 0;
  idem_param_fault fault;
  if (idem_param_int(params, "bytes", 0, &bytes, &fault) != IDEM_OK) return;
  char *text = malloc((size_t)bytes + 2);
  if (!text) abort();
  memset(text, 'x', (size_t)bytes + 2);
  text[0] = text[bytes + 1] = '"';
  reply_text(request, user, text, (size_t)bytes + 2);
  free(text);
}

/* fault {"number":N,"subject":TEXT} */
static void fault_by_name(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  int64_t number = 0;
  const char *subject = NULL;
  size_t len;
  idem_param_fault fault;
  if (idem_param_int(params, "number", 0, &number, &fault) != IDEM_OK) return;
  if (idem_param_string(params, "subject", 1, &subject, &len, &fault) != IDEM_OK) subject = NULL;
  idem_reply_fault(request, (idem_fault)number, subject);
}

static void text_error(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error_text(request, 7, "Out of tea", "the pot is \"empty\"\n");
}

static void json_error(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error_json(request, 8, "Out of \"tea\"", "[ 1, null ]", 11);
}

/* Types: one typed getter each, so that every fault can be provoked from the wire. */
static void typed(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  int64_t number;
  const char *text;
  size_t len;
  bool flag;
  idem_param_fault fault;
  if (idem_param_int(params, "count", 0, &number, &fault) == IDEM_OK &&
      idem_param_string(params, "name", 1, &text, &len, &fault) == IDEM_OK &&
      idem_param_bool(params, "flag", 2, &flag, &fault) == IDEM_OK) {
    idem_reply_json(request, "true", 4);
    return;
  }
  idem_reply_invalid_params(request, &fault);
}

static void colour(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  static const char *const accepted[] = {"red", "green", NULL};
  idem_param_fault fault = {.param = "colour",
                            .expected = "one of the accepted values",
                            .received = yyjson_obj_get(params, "colour"),
                            .accepted = accepted};
  idem_reply_invalid_params(request, &fault);
}

static void record(idem_request *request, yyjson_val *params, void *user) {
  char *text = params ? yyjson_val_write(params, 0, NULL) : strdup("nothing");
  char *id = id_text(request);
  peer_see(user, "record %s %s", id, text ? text : "?");
  free(id);
  free(text);
  idem_reply(request, NULL);
}

static void close_conn(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_conn_close(idem_request_conn(request));
  idem_reply_json(request, "\"closing\"", 9);
}

/* ask_back: answers with what the peer answers to our own question. */
static void on_asked_back(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  idem_request *request = user;
  if (response->status == IDEM_OK) {
    idem_reply(request, response->result);
  } else {
    idem_reply_error_text(request, 1, "No answer", peer_status_word(response->status));
  }
}

static void ask_back(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_request_keep(request);
  idem_status status = idem_call_json(idem_request_conn(request), "question", NULL, 0, NULL,
                                      on_asked_back, request, NULL);
  if (status != IDEM_OK) idem_request_drop(request);
}

static void note(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  char *text = params ? yyjson_val_write(params, 0, NULL) : strdup("nothing");
  peer_see(user, "note %s", text ? text : "?");
  free(text);
}

/* A notification handler that talks back: what it sends is a message of its own, not an answer. */
static void note_back(idem_conn *conn, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_notify_json(conn, "noted", NULL, 0);
}

idem_status peer_register_test(peer *p) {
  static const method_row rows[] = {
      {"keep", keep},
      {"reply_twice", reply_twice},
      {"forget", forget},
      {"drop", drop},
      {"bad_utf8", bad_utf8},
      {"nan_result", nan_result},
      {"raw_newline", raw_newline},
      {"bad_json", bad_json},
      {"two_values", two_values},
      {"big", big},
      {"fault", fault_by_name},
      {"text_error", text_error},
      {"json_error", json_error},
      {"typed", typed},
      {"colour", colour},
      {"record", record},
      {"close_conn", close_conn},
      {"ask_back", ask_back},
      {"", echo},
      {"tricky \"\\\n\xc3\xa9", echo},
  };
  idem_status status = register_rows(p, rows, sizeof rows / sizeof rows[0]);
  if (status == IDEM_OK) status = idem_router_notification(p->router, "note", note, p);
  if (status == IDEM_OK) status = idem_router_notification(p->router, "note_back", note_back, p);
  return status;
}
