/* hub.c - what the connections of one thread share.
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

static idem_status copy_tokens(idem__http_hub *hub, const char *const *tokens) {
  size_t count = list_length(tokens);
  if (!count) return tokens ? IDEM_E_INVAL : IDEM_OK; /* an empty list would open to nobody */
  hub->tokens = idem__calloc(&hub->alloc, count * sizeof *hub->tokens);
  hub->token_lens = idem__calloc(&hub->alloc, count * sizeof *hub->token_lens);
  if (!hub->tokens || !hub->token_lens) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    hub->token_lens[i] = strlen(tokens[i]);
    if (!hub->token_lens[i]) return IDEM_E_INVAL;
    hub->tokens[i] = idem__strndup(&hub->alloc, tokens[i], hub->token_lens[i]);
    if (!hub->tokens[i]) return IDEM_E_NOMEM;
    hub->token_count++;
    if (hub->log)
      idem_log_add_secret(hub->log, tokens[i], hub->token_lens[i]); /* as far as it can */
  }
  return IDEM_OK;
}

static idem_status copy_proxies(idem__http_hub *hub, const idem_http_opts *http) {
  const char *const *entries = http->trusted_proxies;
  const char *header = http->client_header ? http->client_header : "X-Forwarded-For";
  size_t count = list_length(entries), len = strlen(header);
  if (!idem__view_is_token((idem__view){header, len})) return IDEM_E_INVAL;
  if (!count) return IDEM_OK;
  hub->proxies.header = idem__strndup(&hub->alloc, header, len);
  hub->proxies.blocks = idem__calloc(&hub->alloc, count * sizeof *hub->proxies.blocks);
  if (!hub->proxies.header || !hub->proxies.blocks) return IDEM_E_NOMEM;
  hub->proxies.count = count;
  for (size_t i = 0; i < count; i++) {
    idem__view text = {entries[i], strlen(entries[i])};
    if (!idem__ip_block_parse(text, &hub->proxies.blocks[i])) return IDEM_E_INVAL;
  }
  return IDEM_OK;
}

static void set_limits(idem__http_hub *hub, const idem__http_hub_opts *opts,
                       const idem_http_opts *http) {
  hub->header_bytes = or_default(http->header_bytes, 65536);
  hub->header_count = or_default(http->header_count, IDEM__HTTP_HEADERS);
  if (hub->header_count > IDEM__HTTP_HEADERS) hub->header_count = IDEM__HTTP_HEADERS;
  hub->body_bytes = or_default(opts->body_bytes, 10485760);
  hub->queued_bytes = or_default(http->queued_bytes, (size_t)1 << 20);
  hub->request_ms = http->request_ms ? http->request_ms : 30000;
  hub->idle_ms = http->idle_ms ? http->idle_ms : 300000;
  hub->first_ms = http->first_ms ? http->first_ms : 10000;
  if (hub->first_ms > hub->idle_ms) hub->first_ms = hub->idle_ms;
  hub->access_log = http->access_log;
  hub->principal = http->principal;
  hub->principal_user = http->principal_user;
}

static idem_status set_checks(idem__http_hub *hub, const idem_http_opts *http, bool loopback) {
  hub->check_hosts = loopback || http->allow_hosts;
  idem_status status = idem__host_list_init(&hub->hosts, &hub->alloc, http->allow_hosts);
  if (status == IDEM_OK)
    status = idem__host_list_init(&hub->origins, &hub->alloc, http->allow_origins);
  if (status == IDEM_OK) status = copy_tokens(hub, http->tokens);
  return status == IDEM_OK ? copy_proxies(hub, http) : status;
}

idem_status idem__http_hub_new(const idem__http_hub_opts *opts, idem__http_hub **out) {
  static const idem_http_opts defaults = {0};
  const idem_http_opts *http = opts->http ? opts->http : &defaults;
  *out = NULL;
  idem__http_hub *hub = idem__calloc(opts->alloc, sizeof *hub);
  if (!hub) return IDEM_E_NOMEM;
  hub->alloc = idem__alloc_or_default(opts->alloc);
  hub->users = 1;
  hub->routes = opts->routes;
  hub->route_count = opts->route_count;
  hub->port = opts->port;
  hub->unknown_id = opts->unknown_id;
  hub->shares = opts->shares;
  hub->now_ns = opts->now_ns;
  hub->clock_ctx = opts->clock_ctx;
  hub->log = opts->log;
  hub->metrics = opts->metrics;
  set_limits(hub, opts, http);
  idem__h1_settings(&hub->settings);
  idem_status status = set_checks(hub, http, opts->loopback);
  if (status != IDEM_OK) {
    idem__http_hub_free(hub);
    return status;
  }
  *out = hub;
  return IDEM_OK;
}

static void release(idem__http_hub *hub) {
  if (--hub->users > 0) return;
  idem_alloc alloc = hub->alloc;
  idem__free(&alloc, hub);
}

void idem__http_hub_free(idem__http_hub *hub) {
  if (!hub) return;
  idem__http_hub_trim(hub);
  idem__host_list_deinit(&hub->hosts, &hub->alloc);
  idem__host_list_deinit(&hub->origins, &hub->alloc);
  for (size_t i = 0; i < hub->token_count; i++) {
    memset(hub->tokens[i], 0, hub->token_lens[i]);
    idem__free(&hub->alloc, hub->tokens[i]);
  }
  idem__free(&hub->alloc, hub->tokens);
  idem__free(&hub->alloc, hub->token_lens);
  idem__free(&hub->alloc, hub->proxies.blocks);
  idem__free(&hub->alloc, hub->proxies.header);
  hub->free_block_count = FREE_BLOCKS; /* blocks still out there are freed, not kept */
  release(hub);
}

bool idem__http_hub_trusts(const idem__http_hub *hub, const idem__ip *who) {
  return hub->proxies.count && idem__ip_in(hub->proxies.blocks, hub->proxies.count, who);
}

void idem__http_hub_set_port(idem__http_hub *hub, int port) { hub->port = port; }

/* ------------------------------------------------------------- free lists */

idem__http_request *idem__hub_take_request(idem__http_hub *hub) {
  idem__http_request *request = hub->free_requests;
  if (request) {
    hub->free_requests = request->next;
    hub->free_request_count--;
    return request;
  }
  request = idem__malloc(&hub->alloc, sizeof *request);
  if (!request) return NULL;
  idem__buf_init(&request->head, &hub->alloc, hub->header_bytes);
  idem__buf_init(&request->body_copy, &hub->alloc, hub->body_bytes);
  return request;
}

static void free_request(idem__http_hub *hub, idem__http_request *request) {
  idem__buf_deinit(&request->head);
  idem__buf_deinit(&request->body_copy);
  idem__free(&hub->alloc, request);
}

void idem__hub_give_request(idem__http_hub *hub, idem__http_request *request) {
  request->head.len = 0;
  request->body_copy.len = 0;
  if (hub->free_request_count >= FREE_REQUESTS) {
    free_request(hub, request);
    return;
  }
  idem__buf_trim(&request->body_copy, BODY_KEEP);
  request->next = hub->free_requests;
  hub->free_requests = request;
  hub->free_request_count++;
}

block *idem__hub_take_block(idem__http_hub *hub, size_t room) {
  block *out = hub->free_blocks;
  if (out && room <= BLOCK_ROOM) {
    hub->free_blocks = out->next;
    hub->free_block_count--;
  } else {
    size_t cap = room > BLOCK_ROOM ? room : BLOCK_ROOM;
    out = idem__malloc(&hub->alloc, sizeof *out + cap);
    if (!out) return NULL;
    out->cap = cap;
    out->hub = hub;
  }
  hub->users++;
  out->next = NULL;
  out->len = 0;
  out->chunk = (idem_chunk){0};
  return out;
}

void idem__hub_give_block(block *out) {
  idem__http_hub *hub = out->hub;
  if (out->chunk.data) idem_chunk_free(&out->chunk);
  if (out->cap == BLOCK_ROOM && hub->free_block_count < FREE_BLOCKS) {
    out->next = hub->free_blocks;
    hub->free_blocks = out;
    hub->free_block_count++;
  } else {
    idem__free(&hub->alloc, out);
  }
  release(hub);
}

void idem__http_hub_trim(idem__http_hub *hub) {
  while (hub->free_requests) {
    idem__http_request *next = hub->free_requests->next;
    free_request(hub, hub->free_requests);
    hub->free_requests = next;
  }
  while (hub->free_blocks) {
    block *next = hub->free_blocks->next;
    idem__free(&hub->alloc, hub->free_blocks);
    hub->free_blocks = next;
  }
  hub->free_request_count = hub->free_block_count = 0;
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

void idem__http_hub_set_date(idem__http_hub *hub, uint64_t wall_s) {
  static const char weekdays[] = "ThuFriSatSunMonTueWed";
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  uint64_t days = wall_s / 86400, second = wall_s % 86400;
  unsigned year, month, day;
  civil(days % 2932533, &year, &month, &day); /* four digits of year, whatever the clock says */
  idem__buf out;
  idem__buf_fixed(&out, hub->date, sizeof hub->date);
  idem_status status = idem__buf_printf(
      &out, "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n", weekdays + 3 * (days % 7), day,
      months + (size_t)3 * (month - 1), year, (unsigned)(second / 3600),
      (unsigned)(second / 60 % 60), (unsigned)(second % 60));
  hub->date_len = status == IDEM_OK ? out.len : 0;
}
