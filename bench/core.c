/* core.c - nanoseconds per message in process, without I/O, against the least that could be done:
 * yyjson with a pool and an envelope built by hand. Both answer `echo` with its params. The two take
 * turns in many short batches and the fastest batch of each counts, since others on the machine can
 * only make one slower; the ratio of the medians stands beside it. */
#include "clock.h"
#include "counting.h"

#include <idem/idem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 101
#define BATCH_NS 2e6

/* ------------------------------------------------------------------- limit */

static char *read_pool, *write_pool, *limit_out;
static size_t pool_size = (size_t)64 << 20;

static size_t put(char *out, const char *text, size_t len) {
  memcpy(out, text, len);
  return len;
}

static size_t limit_answer(char *text, size_t len) {
  yyjson_alc read_alc, write_alc;
  size_t size = len < 4096 ? (size_t)1 << 17 : pool_size, n;
  yyjson_alc_pool_init(&read_alc, read_pool, size);
  yyjson_alc_pool_init(&write_alc, write_pool, size);
  yyjson_doc *doc = yyjson_read_opts(text, len, 0, &read_alc, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  if (!yyjson_equals_str(yyjson_obj_get(root, "jsonrpc"), "2.0")) return 0;
  if (!yyjson_equals_str(yyjson_obj_get(root, "method"), "echo")) return 0;
  char *out = limit_out;
  out += put(out, "{\"jsonrpc\":\"2.0\",\"id\":", 22);
  char *value = yyjson_val_write_opts(yyjson_obj_get(root, "id"), 0, &write_alc, &n, NULL);
  out += put(out, value, n);
  out += put(out, ",\"result\":", 10);
  value = yyjson_val_write_opts(yyjson_obj_get(root, "params"), 0, &write_alc, &n, NULL);
  out += put(out, value, n);
  out += put(out, "}\n", 2);
  return (size_t)(out - limit_out);
}

/* -------------------------------------------------------------------- idem */

static void on_echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static idem_conn *conn;

static size_t idem_answer(char *text, size_t len) {
  idem_chunk chunk;
  if (idem_conn_feed(conn, text, len) != IDEM_OK || !idem_conn_next_chunk(conn, &chunk)) return 0;
  size_t n = chunk.len;
  idem_chunk_free(&chunk);
  return n;
}

static idem_router *new_router(size_t methods) {
  idem_router *router;
  if (idem_router_new(&(idem_router_opts){.alloc = &counting}, &router) != IDEM_OK) abort();
  for (size_t i = 1; i < methods; i++) {
    char name[32];
    snprintf(name, sizeof name, "method/%zu", i);
    if (idem_router_method(router, name, on_echo, NULL) != IDEM_OK) abort();
  }
  if (idem_router_method(router, "echo", on_echo, NULL) != IDEM_OK) abort();
  return router;
}

/* --------------------------------------------------------------- measuring */

typedef size_t (*engine)(char *text, size_t len);

static double batch_ns(engine answer, char *text, size_t len, size_t times) {
  double start = now_ns();
  for (size_t i = 0; i < times; i++) {
    if (!answer(text, len)) abort();
  }
  return (now_ns() - start) / (double)times;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts: the first is then the least, the one in the middle the median. */
static void sort(double *values) { qsort(values, ROUNDS, sizeof *values, by_value); }

typedef struct result {
  double limit, ours, median_ratio;
} result;

/* The limit gets the text without its line end: it has no framing to do. */
static result compare(char *text, size_t len) {
  double limits[ROUNDS], idems[ROUNDS];
  size_t times = 1;
  while (batch_ns(idem_answer, text, len, times) * (double)times < BATCH_NS) times *= 2;
  for (int i = 0; i < ROUNDS; i++) {
    limits[i] = batch_ns(limit_answer, text, len - 1, times);
    idems[i] = batch_ns(idem_answer, text, len, times);
  }
  sort(limits);
  sort(idems);
  return (result){limits[0], idems[0], idems[ROUNDS / 2] / limits[ROUNDS / 2]};
}

static double least_ns(char *text, size_t len, size_t times) {
  double batches[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) batches[i] = batch_ns(idem_answer, text, len, times);
  sort(batches);
  return batches[0];
}

static size_t make_text(char *text, int shape) {
  char *at = text;
  size_t target = shape == 0 ? 100 : shape == 1 ? 1024 : (size_t)1 << 20;
  at += sprintf(at, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"echo\",\"params\":{");
  if (shape < 3) {
    at += sprintf(at, "\"name\":\"x\",\"text\":\"");
    for (size_t i = (size_t)(at - text); i < target - 4; i++) *at++ = "hello, world "[i % 13];
    at += sprintf(at, "\"}}");
  } else {
    at += sprintf(at, "\"items\":[");
    for (int i = 0; (size_t)(at - text) < target - 90; i++) {
      at +=
          sprintf(at, "%s{\"sku\":\"item-%06d\",\"qty\":%d,\"price\":%d.25,\"tags\":[\"a\",\"b\"]}",
                  i ? "," : "", i, i % 100, i % 1000);
    }
    at += sprintf(at, "]}}");
  }
  *at++ = '\n';
  return (size_t)(at - text);
}

static void open_conn(const idem_router *router) {
  if (idem_conn_new(&(idem_conn_opts){.router = router, .alloc = &counting}, &conn) != IDEM_OK) {
    abort();
  }
}

static void shapes(void) {
  static const char *const names[] = {"100 B", "1 KiB", "1 MiB, one string", "1 MiB, structured"};
  static const double bounds[] = {1.5, 1.2, 1.2, 1.2};
  char *text = malloc((size_t)2 << 20);
  idem_router *router = new_router(10);
  open_conn(router);
  printf("| message | limit ns | idem ns | ratio | (of medians) | bound | mallocs | |\n"
         "|---|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < 4; i++) {
    size_t len = make_text(text, i);
    batch_ns(idem_answer, text, len, 64);
    allocations = 0;
    batch_ns(idem_answer, text, len, 64);
    size_t mallocs = allocations;
    result got = compare(text, len);
    double ratio = got.ours / got.limit;
    printf("| %s | %.0f | %.0f | %.2f | %.2f | at most %.1f | %zu | %s |\n", names[i], got.limit,
           got.ours, ratio, got.median_ratio, bounds[i], mallocs,
           ratio <= bounds[i] && mallocs == 0 ? "PASS" : "MISS");
    fflush(stdout);
  }
  idem_conn_free(conn);
  idem_router_free(router);
  free(text);
}

/* Cost per message must not depend on how many came before, nor on how many methods there are. */
static void flatness(void) {
  static const size_t counts[] = {1, 10, 100, 1000, 10000};
  char text[256];
  size_t len = make_text(text, 0);
  printf("\n| registered methods | ns a message |\n|---|---|\n");
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    idem_router *router = new_router(counts[i]);
    open_conn(router);
    printf("| %zu | %.0f |\n", counts[i], least_ns(text, len, 5000));
    idem_conn_free(conn);
    idem_router_free(router);
  }
  idem_router *router = new_router(10);
  open_conn(router);
  printf("\n| after messages on the conn | ns a message |\n|---|---|\n");
  for (size_t sent = 1; sent <= 1000000; sent *= 10) {
    batch_ns(idem_answer, text, len, sent);
    printf("| %zu | %.0f |\n", sent, least_ns(text, len, 200));
  }
  idem_conn_free(conn);
  idem_router_free(router);
}

int main(void) {
  read_pool = malloc(pool_size);
  write_pool = malloc(pool_size);
  limit_out = malloc((size_t)8 << 20);
  memset(read_pool, 1, pool_size);
  memset(write_pool, 1, pool_size);
  memset(limit_out, 1, (size_t)8 << 20);
  shapes();
  flatness();
  return 0;
}
