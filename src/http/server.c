/* server.c - what the connections of one thread share.
 * Options are checked and copied once; requests and output blocks are kept on free lists, so that
 * serving allocates nothing once it runs. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

#define BLOCK_ROOM ((size_t)16 * 1024)
#define FREE_REQUESTS 64
#define FREE_BLOCKS 64
#define BODY_KEEP ((size_t)64 * 1024) /* capacity a pooled request may keep */

static size_t or_default(size_t value, size_t fallback) { return value ? value : fallback; }

static size_t list_length(const char *const *list) {
  size_t count = 0;
  while (list && list[count]) count++;
  return count;
}

static idem_status copy_proxies(idem_http_server *server, const idem_http_opts *http) {
  const char *const *entries = http->trusted_proxies;
  const char *header = http->client_header ? http->client_header : "X-Forwarded-For";
  size_t count = list_length(entries), len = strlen(header);
  if (!idem__view_is_token((idem__view){header, len})) return IDEM_E_INVAL;
  if (!count) return IDEM_OK;
  server->proxies.header = idem__strndup(&server->alloc, header, len);
  server->proxies.blocks = idem__calloc(&server->alloc, count * sizeof *server->proxies.blocks);
  if (!server->proxies.header || !server->proxies.blocks) return IDEM_E_NOMEM;
  server->proxies.count = count;
  for (size_t i = 0; i < count; i++) {
    idem__view text = {entries[i], strlen(entries[i])};
    if (!idem__ip_block_parse(text, &server->proxies.blocks[i])) return IDEM_E_INVAL;
  }
  return IDEM_OK;
}

static void set_limits(idem_http_server *server, const idem__http_server_opts *opts,
                       const idem_http_opts *http) {
  server->header_bytes = or_default(http->header_bytes, 65536);
  server->header_count = or_default(http->header_count, IDEM__HTTP_HEADERS);
  if (server->header_count > IDEM__HTTP_HEADERS) server->header_count = IDEM__HTTP_HEADERS;
  server->body_bytes = or_default(opts->body_bytes, 10485760);
  server->queued_bytes = or_default(http->queued_bytes, (size_t)1 << 20);
  server->max_held = or_default(http->max_waiting, 1024);
  server->waiting_ms = http->waiting_ms ? http->waiting_ms : 10000;
  server->max_held_bytes = or_default(http->waiting_bytes, (size_t)64 << 20);
  server->max_unfinished_bytes = or_default(http->unfinished_bytes, IDEM__UNFINISHED_BYTES);
  server->request_ms = http->request_ms ? http->request_ms : 30000;
  server->request_most_ms = http->request_most_ms ? http->request_most_ms : 120000;
  if (server->request_most_ms < server->request_ms) server->request_most_ms = server->request_ms;
  server->stream_ms = http->stream_ms ? http->stream_ms : 15000;
  server->idle_ms = http->idle_ms ? http->idle_ms : 300000;
  server->first_ms = http->first_ms ? http->first_ms : 10000;
  if (server->first_ms > server->idle_ms) server->first_ms = server->idle_ms;
  server->access_log = http->access_log;
  server->principal = http->principal;
  server->principal_user = http->principal_user;
}

/* This machine's own names stay, whatever is added: no page of another name can send them as its Host,
 * and health checks, metrics and the addresses that we print ourselves go by them. */
static idem_status set_hosts(idem_http_server *server, const idem__http_server_opts *opts,
                             const idem_http_opts *http) {
  const char *const own[] = {opts->host, NULL};
  server->check_hosts = opts->loopback || http->allow_hosts;
  idem_status status = idem__host_list_init(&server->hosts, &server->alloc, NULL);
  if (status == IDEM_OK) status = idem__host_list_add(&server->hosts, &server->alloc, own);
  if (status == IDEM_OK)
    status = idem__host_list_add(&server->hosts, &server->alloc, http->allow_hosts);
  return status;
}

/* On loopback the pages of this very listener stay allowed, too: they send their own Origin when they ask. */
static idem_status set_origins(idem_http_server *server, const idem__http_server_opts *opts,
                               const idem_http_opts *http) {
  const char *const own[] = {"localhost", "127.0.0.1", "[::1]", opts->host, NULL};
  idem_status status = idem__host_list_init(&server->origins, &server->alloc, http->allow_origins);
  if (status != IDEM_OK || !opts->loopback) return status;
  return idem__host_list_add(&server->origins, &server->alloc, own);
}

static idem_status set_checks(idem_http_server *server, const idem__http_server_opts *opts,
                              const idem_http_opts *http) {
  idem_status status = set_hosts(server, opts, http);
  if (status == IDEM_OK) status = set_origins(server, opts, http);
  if (status == IDEM_OK)
    status = idem__token_list_init(&server->tokens, &server->alloc, http->tokens, server->log);
  return status == IDEM_OK ? copy_proxies(server, http) : status;
}

static idem_status copy_challenge(idem_http_server *server, const char *challenge, char **to) {
  if (!challenge) return IDEM_OK;
  if (!idem__http_good_value(challenge)) return IDEM_E_INVAL;
  *to = idem__strndup(&server->alloc, challenge, strlen(challenge));
  return *to ? IDEM_OK : IDEM_E_NOMEM;
}

static void take_opts(idem_http_server *server, const idem__http_server_opts *opts) {
  server->unfinished = opts->unfinished ? opts->unfinished : &server->own_unfinished;
  server->port = opts->port;
  server->unknown_id = opts->unknown_id;
  server->codes = opts->codes;
  server->detail = opts->detail;
  server->canonical = opts->canonical;
  server->shares = opts->shares;
  server->limiter = opts->limiter;
  server->now_ns = opts->now_ns;
  server->clock_ctx = opts->clock_ctx;
  server->log = opts->log;
  server->metrics = opts->metrics;
  server->judge = opts->judge;
  server->stays = opts->stays;
  server->judge_user = opts->judge_user;
  server->judge_reads = opts->judge_reads;
  server->judge_says = opts->judge_says;
}

static idem_status copy_challenges(idem_http_server *server, const idem__http_server_opts *opts) {
  idem_status status = copy_challenge(server, opts->challenge, &server->challenge);
  if (status == IDEM_OK)
    status = copy_challenge(server, opts->challenge_stem, &server->challenge_stem);
  return status == IDEM_OK ? copy_challenge(server, opts->bound_stem, &server->bound_stem) : status;
}

idem_status idem__http_server_new(const idem__http_server_opts *opts, idem_http_server **out) {
  static const idem_http_opts defaults = {0};
  const idem_http_opts *http = opts->http ? opts->http : &defaults;
  *out = NULL;
  idem_http_server *server = idem__calloc(opts->alloc, sizeof *server);
  if (!server) return IDEM_E_NOMEM;
  server->alloc = idem__alloc_or_default(opts->alloc);
  server->users = 1;
  idem__unfinished_init(&server->own_unfinished);
  take_opts(server, opts);
  set_limits(server, opts, http);
  idem__h1_settings(&server->settings);
  idem_status status = set_checks(server, opts, http);
  if (status == IDEM_OK) status = copy_challenges(server, opts);
  if (status != IDEM_OK) {
    idem__http_server_free(server);
    return status;
  }
  *out = server;
  return IDEM_OK;
}

static void release(idem_http_server *server) {
  if (--server->users > 0) return;
  idem_alloc alloc = server->alloc;
  idem__free(&alloc, server);
}

void idem__http_server_free(idem_http_server *server) {
  if (!server) return;
  idem__http_server_trim(server);
  idem__host_list_deinit(&server->hosts, &server->alloc);
  idem__host_list_deinit(&server->origins, &server->alloc);
  idem__http_tenants_free(server);
  idem__http_routes_free(server);
  idem__token_list_deinit(&server->tokens, &server->alloc);
  idem__free(&server->alloc, server->proxies.blocks);
  idem__free(&server->alloc, server->proxies.header);
  idem__free(&server->alloc, server->challenge);
  idem__free(&server->alloc, server->challenge_stem);
  idem__free(&server->alloc, server->bound_stem);
  server->free_block_count = FREE_BLOCKS; /* blocks still out there are freed, not kept */
  release(server);
}

bool idem__http_server_trusts(const idem_http_server *server, const idem__ip *who) {
  return server->proxies.count && idem__ip_in(server->proxies.blocks, server->proxies.count, who);
}

/* ------------------------------------------------------------- free lists */

idem_http_request *idem__http_server_take_request(idem_http_server *server) {
  idem_http_request *request = server->free_requests;
  if (request) {
    server->free_requests = request->next;
    server->free_request_count--;
    return request;
  }
  request = idem__malloc(&server->alloc, sizeof *request);
  if (!request) return NULL;
  idem_buf_init(&request->head, &server->alloc, server->header_bytes);
  idem_buf_init(&request->body_copy, &server->alloc, server->body_bytes);
  return request;
}

static void free_request(idem_http_server *server, idem_http_request *request) {
  idem_buf_deinit(&request->head);
  idem_buf_deinit(&request->body_copy);
  idem__free(&server->alloc, request);
}

void idem__http_server_give_request(idem_http_server *server, idem_http_request *request) {
  request->head.len = 0;
  request->body_copy.len = 0;
  if (server->free_request_count >= FREE_REQUESTS) {
    free_request(server, request);
    return;
  }
  idem_buf_trim(&request->body_copy, BODY_KEEP);
  request->next = server->free_requests;
  server->free_requests = request;
  server->free_request_count++;
}

block *idem__http_server_take_block(idem_http_server *server, size_t room) {
  block *out = server->free_blocks;
  if (out && room <= BLOCK_ROOM) {
    server->free_blocks = out->next;
    server->free_block_count--;
  } else {
    size_t cap = room > BLOCK_ROOM ? room : BLOCK_ROOM;
    out = idem__malloc(&server->alloc, sizeof *out + cap);
    if (!out) return NULL;
    out->cap = cap;
    out->server = server;
  }
  server->users++;
  out->next = NULL;
  out->len = 0;
  out->chunk = (idem_chunk){0};
  return out;
}

void idem__http_server_give_block(block *out) {
  idem_http_server *server = out->server;
  if (out->chunk.data) idem_chunk_free(&out->chunk);
  if (out->cap == BLOCK_ROOM && server->free_block_count < FREE_BLOCKS) {
    out->next = server->free_blocks;
    server->free_blocks = out;
    server->free_block_count++;
  } else {
    idem__free(&server->alloc, out);
  }
  release(server);
}

void idem__http_server_trim(idem_http_server *server) {
  while (server->free_requests) {
    idem_http_request *next = server->free_requests->next;
    free_request(server, server->free_requests);
    server->free_requests = next;
  }
  while (server->free_blocks) {
    block *next = server->free_blocks->next;
    idem__free(&server->alloc, server->free_blocks);
    server->free_blocks = next;
  }
  server->free_request_count = server->free_block_count = 0;
}

/* ------------------------------------------------------------------- date */

/* Days since 1970 to a civil date, by the era of 400 years the Gregorian calendar repeats in. */
static void civil(uint64_t days, unsigned *year, unsigned *month, unsigned *day) {
  uint64_t shifted = days + 719468; /* since 0000-03-01 */
  uint64_t era = shifted / 146097, in_era = shifted % 146097;
  uint64_t year_of_era = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
  uint64_t in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  uint64_t shifted_month = (5 * in_year + 2) / 153;
  *day = (unsigned)(in_year - (153 * shifted_month + 2) / 5 + 1);
  *month = (unsigned)(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
  *year = (unsigned)(year_of_era + era * 400 + (*month <= 2));
}

void idem__http_server_set_date(idem_http_server *server, uint64_t wall_s) {
  static const char weekdays[] = "ThuFriSatSunMonTueWed";
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  uint64_t days = wall_s / 86400, second = wall_s % 86400;
  unsigned year, month, day;
  civil(days % 2932533, &year, &month, &day); /* four digits of year, whatever the clock says */
  idem_buf out;
  idem_buf_fixed(&out, server->date, sizeof server->date);
  idem_status status = idem_buf_printf(
      &out, "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n", weekdays + 3 * (days % 7), day,
      months + (size_t)3 * (month - 1), year, (unsigned)(second / 3600),
      (unsigned)(second / 60 % 60), (unsigned)(second % 60));
  server->date_len = status == IDEM_OK ? out.len : 0;
}
