/* address.c - -32042 of 2025-11-25: the server does nothing before its user has been at one address or several. They are
 * handed over as URL questions; when all are accepted and the server has told that each is over, or the program says so,
 * the call is asked again, with a new id. Else it ends with the server's error.
 * See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#define URL_REQUIRED (-32042)
#define ADDRESSES_MAX 16
#define WAIT_MS 600000 /* for the server's word that all is over */

struct idem__mcp_addresses {
  yyjson_doc *data; /* of the error, which the call ends with if nothing comes of it */
  char *message;
  size_t message_len;
  size_t left; /* of which the server has not told that they are over */
  bool over[ADDRESSES_MAX];
};

void idem__mcp_addresses_free(idem__mcp_call *call) {
  const idem_alloc *alloc = &call->client->alloc;
  idem__mcp_addresses *self = call->addresses;
  yyjson_doc_free(self->data);
  idem__free(alloc, self->message);
  idem__free(alloc, self);
  call->addresses = NULL;
}

static yyjson_val *list_of(yyjson_val *data) { return yyjson_obj_get(data, "elicitations"); }

static bool are_addresses(yyjson_val *list) {
  yyjson_val *each;
  size_t index, max, count = yyjson_arr_size(list);
  yyjson_arr_foreach(list, index, max, each) {
    if (!yyjson_equals_str(yyjson_obj_get(each, "mode"), "url") ||
        !yyjson_is_str(yyjson_obj_get(each, "elicitationId")) ||
        !yyjson_is_str(yyjson_obj_get(each, "message")) ||
        !yyjson_is_str(yyjson_obj_get(each, "url")))
      return false;
  }
  return count > 0 && count <= ADDRESSES_MAX;
}

/* ---------------------------------------------------------------------- the ends */

static void end_refused(idem__mcp_call *call) {
  const idem__mcp_addresses *self = call->addresses;
  idem_response response = {.status = IDEM_E_REMOTE,
                            .code = URL_REQUIRED,
                            .message = self->message,
                            .message_len = self->message_len,
                            .data = yyjson_doc_get_root(self->data)};
  idem__mcp_call_end_remote(call, &response);
}

static void ask_again(idem__mcp_call *call) {
  idem__mcp_addresses_free(call);
  call->answered = false;
  idem_status status = idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, "the call could not be repeated");
}

static void give_up(idem__mcp_call *call) {
  idem__mcp_call_fail(call, IDEM_E_TIMEOUT, "the server did not say that the address is done with");
}

static bool is_waiting(const idem__mcp_call *call) {
  return call->addresses && call->stage == IDEM__MCP_PAUSING && call->resume == give_up;
}

static void on_answered(idem__mcp_call *call) {
  bool accepted = idem__mcp_round_accepted(call->round);
  idem__mcp_round_free(call);
  if (!accepted)
    end_refused(call);
  else if (!call->addresses->left)
    ask_again(call);
  else
    idem__mcp_call_pause(call, WAIT_MS, give_up);
}

/* --------------------------------------------------------------------- the start */

static idem_status copy_error(idem__mcp_call *call, const idem_response *response) {
  const idem_alloc *alloc = &call->client->alloc;
  yyjson_alc alc = idem__json_alc(alloc);
  idem_buf text;
  idem__mcp_addresses *self = call->addresses = idem__calloc(alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  idem_buf_init(&text, alloc, call->client->opts.message_bytes);
  idem_status status = idem__json_put(&text, response->data);
  if (status == IDEM_OK)
    self->data = yyjson_read_opts(text.data, text.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  self->message = idem__strndup(alloc, response->message, response->message_len);
  self->message_len = response->message_len;
  self->left = yyjson_arr_size(list_of(response->data));
  idem_buf_deinit(&text);
  return self->data && self->message ? IDEM_OK : IDEM_E_NOMEM;
}

/* As a round of 2026-07-28 would have them: the handlers see no difference. */
static yyjson_doc *make_requests(const idem__mcp_call *call) {
  const idem_alloc *alloc = &call->client->alloc;
  yyjson_alc alc = idem__json_alc(alloc);
  idem_buf text;
  idem_buf_init(&text, alloc, call->client->opts.message_bytes);
  idem__writer out = idem__writer_on(&text);
  yyjson_val *each;
  size_t index, max;
  idem__write_object(&out);
  yyjson_arr_foreach(list_of(yyjson_doc_get_root(call->addresses->data)), index, max, each) {
    idem__write_key(&out, (const char[]){(char)('a' + index), 0});
    idem__write_object(&out);
    idem__write_member_text(&out, "method", "elicitation/create");
    idem__write_member_value(&out, "params", each);
    idem__write_object_end(&out);
  }
  idem__write_object_end(&out);
  yyjson_doc *doc = out.status == IDEM_OK ? yyjson_read_opts(text.data, text.len,
                                                             YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL)
                                          : NULL;
  idem_buf_deinit(&text);
  return doc;
}

bool idem__mcp_addresses_begin(idem__mcp_call *call, const idem_response *response) {
  const idem_mcp_client *client = call->client;
  bool may = call->kind == IDEM__MCP_TOOL || call->kind == IDEM__MCP_ROUNDS ||
             call->kind == IDEM__MCP_SKILL;
  if (response->code != URL_REQUIRED || !may || !client->opts.on_url || !client->revision ||
      !idem__revision_has(client->revision, IDEM__R_URL_ERROR) ||
      !are_addresses(list_of(response->data)))
    return false;
  call->answered = call->was_sent = true;
  if (call->rounds++ >= client->opts.max_rounds) {
    idem__mcp_call_fail(call, IDEM_E_LIMIT, "the server asks for input again and again");
    return true;
  }
  yyjson_doc *requests = copy_error(call, response) == IDEM_OK ? make_requests(call) : NULL;
  if (requests)
    (void)idem__mcp_round_begin(call, yyjson_doc_get_root(requests), NULL, on_answered);
  else
    idem__mcp_call_fail(call, IDEM_E_NOMEM, idem_status_text(IDEM_E_NOMEM));
  yyjson_doc_free(requests);
  return true;
}

/* ----------------------------------------------------------------------- the word */

static void note_over(idem__mcp_addresses *self, const char *id, size_t len) {
  yyjson_val *each;
  size_t index, max;
  yyjson_arr_foreach(list_of(yyjson_doc_get_root(self->data)), index, max, each) {
    yyjson_val *its = yyjson_obj_get(each, "elicitationId");
    if (self->over[index] || !yyjson_equals_strn(its, id, len)) continue;
    self->over[index] = true;
    self->left--;
  }
}

/* A call that goes on has no addresses any more, so each is found once. */
static idem__mcp_call *next_ready(const idem_mcp_client *client) {
  for (idem_list *node = client->calls.next; node != &client->calls; node = node->next) {
    idem__mcp_call *call = IDEM_CONTAINER(node, idem__mcp_call, link);
    if (is_waiting(call) && !call->addresses->left) return call;
  }
  return NULL;
}

void idem__mcp_address_over(idem_mcp_client *client, const char *id, size_t len) {
  idem__mcp_call *call;
  for (idem_list *node = client->calls.next; node != &client->calls; node = node->next) {
    call = IDEM_CONTAINER(node, idem__mcp_call, link);
    if (call->addresses) note_over(call->addresses, id, len);
  }
  while ((call = next_ready(client))) ask_again(call);
}

idem_status idem_mcp_retry(idem_mcp_client *client, uint64_t handle) {
  idem__mcp_call *call = idem__mcp_call_find(client, handle);
  if (!call) return IDEM_E_NOTFOUND;
  if (!is_waiting(call)) return IDEM_E_STATE;
  call->addresses->left = 0;
  idem__mcp_call_pause(call, 0, ask_again); /* what ends it must not run in here */
  return IDEM_OK;
}
