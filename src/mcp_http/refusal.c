/* refusal.c - a request that wants credentials (401) or more of them (403): the program may have it sent again with
 * other headers, now or later. See docs/internals/mcp_http.md. */
#include "refusal.h"

#include <string.h>

#define REFUSALS_MAX 5 /* of one request */
#define HEAD_BYTES 65536

struct idem_mcp_refusal {
  idem_alloc alloc;
  idem__mcp_web *web; /* NULL: gone */
  idem_list link;
  idem__http_post *post; /* NULL: gone */
  int status;
  unsigned count;
  idem_buf head; /* "Name\0value\0" pairs */
  idem_buf body;
  char *url, *type;
  bool kept, asking, decided, again;
  bool not_again;
  bool outdated; /* other headers were given since it was sent */
};

void idem__mcp_lines_free(idem__mcp_web *web) {
  for (size_t i = 0; web->lines && web->lines[i]; i++) idem__free(&web->alloc, web->lines[i]);
  idem__free(&web->alloc, web->lines);
  web->lines = NULL;
}

static void free_refusal(idem_mcp_refusal *refusal) {
  if (refusal->web) idem_list_remove(&refusal->link);
  idem_buf_deinit(&refusal->head);
  idem_buf_deinit(&refusal->body);
  idem_alloc alloc = refusal->alloc;
  idem__free(&alloc, refusal->url);
  idem__free(&alloc, refusal->type);
  idem__free(&alloc, refusal);
}

void idem__mcp_refusals_leave(idem__mcp_web *web, const idem__http_post *post) {
  for (idem_list *node = web->refusals.next, *next; node != &web->refusals; node = next) {
    idem_mcp_refusal *refusal = IDEM_CONTAINER(node, idem_mcp_refusal, link);
    next = node->next;
    if (post && refusal->post != post) continue;
    idem_list_remove(&refusal->link);
    refusal->web = NULL;
    refusal->post = NULL;
  }
}

/* ------------------------------------------------------------------- what it was */

static idem_status copy_header(idem_mcp_refusal *refusal, const idem__http_outcome *outcome,
                               const char *name) {
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && outcome->header && i < 16; i++) {
    const char *value = outcome->header(outcome->answer, name, i);
    if (!value) break;
    status = idem_buf_put(&refusal->head, name, strlen(name) + 1);
    if (status == IDEM_OK) status = idem_buf_put(&refusal->head, value, strlen(value) + 1);
  }
  return status;
}

static idem_status copy_outcome(idem_mcp_refusal *refusal, const idem__http_outcome *outcome) {
  static const char *const names[] = {
      "WWW-Authenticate", "DPoP-Nonce", "Retry-After", "Date", "Link", "Location"};
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < sizeof names / sizeof *names; i++)
    status = copy_header(refusal, outcome, names[i]);
  size_t len = outcome->len < HEAD_BYTES ? outcome->len : HEAD_BYTES;
  if (status == IDEM_OK && len) status = idem_buf_put(&refusal->body, outcome->body, len);
  if (status == IDEM_OK && outcome->type) {
    refusal->type = idem__strndup(&refusal->alloc, outcome->type, strlen(outcome->type));
    if (!refusal->type) status = IDEM_E_NOMEM;
  }
  return status;
}

int idem_mcp_refusal_status(const idem_mcp_refusal *refusal) { return refusal->status; }
const char *idem_mcp_refusal_url(const idem_mcp_refusal *refusal) { return refusal->url; }
unsigned idem_mcp_refusal_count(const idem_mcp_refusal *refusal) { return refusal->count; }
bool idem_mcp_refusal_outdated(const idem_mcp_refusal *refusal) { return refusal->outdated; }
void idem_mcp_refusal_keep(idem_mcp_refusal *refusal) { refusal->kept = true; }
void idem_mcp_refusal_not_again(idem_mcp_refusal *refusal) { refusal->not_again = true; }

const char *idem_mcp_refusal_header(const idem_mcp_refusal *refusal, const char *name,
                                    size_t index) {
  const char *each = refusal->head.len ? refusal->head.data : "", *end = each + refusal->head.len;
  while (each < end) {
    const char *value = each + strlen(each) + 1;
    if (idem__text_equal_nocase(each, strlen(each), name, strlen(name)) && index-- == 0)
      return value;
    each = value + strlen(value) + 1;
  }
  return NULL;
}

/* ---------------------------------------------------------------------- deciding */

bool idem__mcp_is_line(const char *line) {
  size_t name = strcspn(line, ":");
  if (!name || !line[name] || strpbrk(line, "\r\n")) return false;
  for (size_t i = 0; i < name; i++) {
    if ((unsigned char)line[i] <= 0x20 || (unsigned char)line[i] >= 0x7f) return false;
  }
  return true;
}

static idem_status set_lines(idem__mcp_web *web, const char *const *headers) {
  size_t count = 0;
  for (; headers && headers[count]; count++) {
    if (!idem__mcp_is_line(headers[count])) return IDEM_E_INVAL;
  }
  char **lines = idem__calloc(&web->alloc, (count + 1) * sizeof *lines);
  if (!lines) return IDEM_E_NOMEM;
  bool whole = true;
  for (size_t i = 0; whole && i < count; i++)
    whole = (lines[i] = idem__strndup(&web->alloc, headers[i], strlen(headers[i]))) != NULL;
  idem__mcp_lines_free(web);
  web->lines = lines;
  web->lines_since = web->http ? idem__http_client_turns(web->http) : 0;
  idem__mcp_caches_drop(web->client, true); /* whoever asks now may be somebody else */
  return whole ? IDEM_OK : IDEM_E_NOMEM;
}

static void carry_out(idem_mcp_refusal *refusal) {
  idem__http_post *post = refusal->post;
  idem__http_outcome outcome = {.http_status = refusal->status,
                                .type = refusal->type,
                                .body = refusal->body.data,
                                .len = refusal->body.len};
  refusal->post = NULL;
  if (post && refusal->again)
    idem__http_post_again(post);
  else if (post)
    idem__http_post_give_up(post, &outcome);
  free_refusal(refusal);
}

static void decide(idem_mcp_refusal *refusal, bool again) {
  refusal->decided = true;
  refusal->again = again;
  if (refusal->asking) return;
  idem_conn *conn = refusal->web ? refusal->web->client->conn : NULL;
  carry_out(refusal);
  if (conn) idem__conn_look(conn);
}

idem_status idem_mcp_refusal_retry(idem_mcp_refusal *refusal, const char *const *headers) {
  idem_status status = refusal->web ? set_lines(refusal->web, headers) : IDEM_OK;
  if (status == IDEM_E_INVAL) return status;
  decide(refusal, status == IDEM_OK && refusal->count < REFUSALS_MAX && !refusal->not_again);
  return status;
}

void idem_mcp_refusal_give_up(idem_mcp_refusal *refusal) { decide(refusal, false); }

static idem_mcp_refusal *new_refusal(idem__mcp_web *web, idem__http_post *post,
                                     const idem__http_outcome *outcome) {
  idem_mcp_refusal *refusal = idem__calloc(&web->alloc, sizeof *refusal);
  if (!refusal) return NULL;
  refusal->alloc = web->alloc;
  refusal->web = web;
  refusal->post = post;
  refusal->status = outcome->http_status;
  refusal->count = idem__http_post_refusals(post);
  refusal->outdated = web->lines && idem__http_post_turn(post) <= web->lines_since;
  idem_buf_init(&refusal->head, &refusal->alloc, HEAD_BYTES);
  idem_buf_init(&refusal->body, &refusal->alloc, HEAD_BYTES);
  refusal->url = idem__strndup(&web->alloc, web->url, strlen(web->url));
  idem_list_append(&web->refusals, &refusal->link);
  if (refusal->url && copy_outcome(refusal, outcome) == IDEM_OK) return refusal;
  free_refusal(refusal);
  return NULL;
}

idem__http_verdict idem__mcp_refusal_begin(idem__mcp_web *web, idem__http_post *post,
                                           const idem__http_outcome *outcome) {
  idem_mcp_client *client = web->client;
  if (!client->opts.on_refused || client->closing) return IDEM__HTTP_GO;
  idem_mcp_refusal *refusal = new_refusal(web, post, outcome);
  if (!refusal) return IDEM__HTTP_GO;
  refusal->asking = true;
  client->opts.on_refused(client, refusal, client->opts.user);
  refusal->asking = false;
  if (!refusal->post) { /* the call ended inside */
    if (refusal->decided || !refusal->kept) free_refusal(refusal);
    return IDEM__HTTP_WAIT;
  }
  if (!refusal->decided && refusal->kept) return IDEM__HTTP_WAIT;
  bool again = refusal->decided && refusal->again;
  free_refusal(refusal);
  return again ? IDEM__HTTP_AGAIN : IDEM__HTTP_GO;
}
