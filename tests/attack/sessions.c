/* sessions.c - the life of a legacy session over HTTP: calls that ask, run on as tasks or are cancelled,
 * streams that are left, questions answered well, badly, twice or never, and an end at any moment. */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

#define PENDING 12
#define STREAMS 3
#define TASKS 64
#define ACCEPT "Accept: application/json, text/event-stream\r\n"

typedef struct pending {
  bool used, begun, slow;
  char *id;
  wire line;
  exchange reply;
} pending;

typedef struct life {
  attacker *self;
  ledger asked;
  char session[SESSION_MAX];
  const char *revision;
  pending pendings[PENDING];
  wire streams[STREAMS];
  bool streaming[STREAMS];
  char last_event[64];
} life;

/* Tasks outlive their sessions; those of this attacker's earlier ones are asked about in later ones. */
static char *tasks[TASKS];
static unsigned task_count;

static void headers_of(const life *of, text *into) {
  text_printf(into, ACCEPT "Mcp-Session-Id: %s\r\n", of->session);
  if (strcmp(of->revision, "2025-06-18") >= 0)
    text_printf(into, "MCP-Protocol-Version: %s\r\n", of->revision);
}

/* -------------------------------------------------------------------------- single posts */

static int send_alone(life *of, const char *method, const char *body, text *answer) {
  text request = {.data = NULL}, headers = {.data = NULL};
  headers_of(of, &headers);
  http_request(&request, method, "/mcp", headers.data, body);
  int status = http_once(of->self, of->self->server->http, &request, answer);
  text_free(&request);
  text_free(&headers);
  return status;
}

static void notify(life *of, const char *body) {
  int status = send_alone(of, "POST", body, NULL);
  if (status != 202 && status != 404) attack_found(of->self, "status %d for %.200s", status, body);
}

static void answer_question(life *of, const char *question) {
  text body = {.data = NULL};
  mcp_answer(&body, of->self, question);
  notify(of, body.data);
  if (chance_one_in(&of->self->luck, 6)) notify(of, body.data);
  text_free(&body);
}

static bool begin_life(life *of) {
  static const char *const revisions[] = {"2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26"};
  attacker *self = of->self;
  wire line = wire_tcp(self, self->server->http);
  text body = {.data = NULL}, request = {.data = NULL};
  exchange reply;
  const char *id = ledger_new_id(&of->asked, true), *message;
  of->revision = CHANCE_OF(&self->luck, revisions);
  mcp_hello(&body, self, id, of->revision);
  http_request(&request, "POST", "/mcp", ACCEPT, body.data);
  ledger_ask(&of->asked, id);
  wire_send(&line, request.data, request.len);
  if (!http_begin(&reply, &line)) attack_found(self, "no answer to initialize");
  if ((message = http_message(&reply))) ledger_hear(&of->asked, message, strlen(message));
  snprintf(of->session, sizeof of->session, "%s", reply.session);
  bool begun = reply.status == 200 && reply.session[0];
  if (!begun && reply.status != 503) attack_found(self, "initialize got %d", reply.status);
  http_free(&reply);
  wire_end(&line, wire_any_farewell(self));
  text_free(&body);
  text_free(&request);
  if (begun && !chance_one_in(&self->luck, 8))
    notify(of, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  return begun;
}

/* ------------------------------------------------------------------------------- calls */

static pending *free_place(life *of) {
  for (unsigned i = 0; i < PENDING; i++)
    if (!of->pendings[i].used) return &of->pendings[i];
  return NULL;
}

static pending *any_pending(life *of) {
  unsigned at = chance_below(&of->self->luck, PENDING);
  for (unsigned i = 0; i < PENDING; i++)
    if (of->pendings[(at + i) % PENDING].used) return &of->pendings[(at + i) % PENDING];
  return NULL;
}

static void forget(pending *one, farewell how) {
  if (one->begun) http_free(&one->reply);
  wire_end(&one->line, how);
  *one = (pending){.used = false};
}

static void post(life *of, pending *place, const char *id, const char *body, bool slow) {
  text request = {.data = NULL}, headers = {.data = NULL};
  headers_of(of, &headers);
  http_request(&request, "POST", "/mcp", headers.data, body);
  *place = (pending){.used = true, .slow = slow, .id = (char *)(uintptr_t)id};
  place->line = wire_tcp(of->self, of->self->server->http);
  ledger_ask(&of->asked, id);
  wire_send(&place->line, request.data, request.len);
  text_free(&request);
  text_free(&headers);
}

static void new_call(life *of) {
  pending *place = free_place(of);
  if (!place || of->asked.count + 2 > COUNT(of->asked.items)) return;
  const mcp_call *call = mcp_any_call(of->self);
  const char *id = ledger_new_id(&of->asked, true);
  text body = {.data = NULL};
  bool task =
      call->task && strcmp(of->revision, "2025-11-25") == 0 && !chance_one_in(&of->self->luck, 4);
  mcp_legacy_call(&body, of->self, call, id, task);
  if (strcmp(call->tool, "test_reconnection") == 0) ledger_excuse(&of->asked, id);
  post(of, place, id, body.data, strcmp(call->tool, "test_slow") == 0);
  text_free(&body);
}

static void new_other(life *of) {
  pending *place = free_place(of);
  if (!place || of->asked.count + 2 > COUNT(of->asked.items)) return;
  const char *id = ledger_new_id(&of->asked, true);
  text body = {.data = NULL};
  if (task_count && chance_one_in(&of->self->luck, 2)) {
    static const char *const methods[] = {"tasks/get", "tasks/result", "tasks/cancel"};
    unsigned count = task_count < TASKS ? task_count : TASKS;
    text_printf(
        &body, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":{\"taskId\":\"%s\"}}",
        id, CHANCE_OF(&of->self->luck, methods), tasks[chance_below(&of->self->luck, count)]);
  } else {
    mcp_legacy_other(&body, of->self, id);
  }
  post(of, place, id, body.data, strstr(body.data, "tasks/result") != NULL);
  text_free(&body);
}

static void note_task(const char *message) {
  char *task = message_string(message, "taskId");
  if (!task) return;
  free(tasks[task_count % TASKS]);
  tasks[task_count++ % TASKS] = task;
}

/* Its answer came, or its stream ended without one; false: it asked, and nobody answers. */
static bool hear_one(life *of, pending *one) {
  const char *message;
  while ((message = http_message(&one->reply))) {
    heard kind = ledger_hear(&of->asked, message, strlen(message));
    if (kind == ANSWER) note_task(message);
    if (kind == QUESTION && chance_one_in(&of->self->luck, 3)) return false;
    if (kind == QUESTION) answer_question(of, message);
  }
  return true;
}

static void collect(life *of, pending *one) {
  if (!one->begun && !http_begin(&one->reply, &one->line))
    attack_found(of->self, "closed instead of answering id %s", one->id);
  one->begun = true;
  if (hear_one(of, one)) {
    if (ledger_owes(&of->asked, one->id))
      attack_found(of->self, "a stream ended without the answer to id %s", one->id);
    forget(one, CLOSE_IT);
  } else {
    one->slow = true; /* it waits for us now */
    snprintf(of->last_event, sizeof of->last_event, "%s", one->reply.last_id);
  }
}

static void abandon(life *of, pending *one) {
  ledger_excuse(&of->asked, one->id);
  forget(one, chance_one_in(&of->self->luck, 2) ? RESET_IT : CLOSE_IT);
}

static void cancel(life *of, pending *one) {
  text body = {.data = NULL};
  ledger_excuse(&of->asked, one->id);
  text_printf(
      &body,
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%s}}",
      one->id);
  notify(of, body.data);
  text_free(&body);
}

/* ----------------------------------------------------------------------------- streams */

static void listen_or_stop(life *of) {
  unsigned at = chance_below(&of->self->luck, STREAMS);
  if (of->streaming[at]) {
    wire_end(&of->streams[at], chance_one_in(&of->self->luck, 2) ? RESET_IT : CLOSE_IT);
    of->streaming[at] = false;
    return;
  }
  text request = {.data = NULL}, headers = {.data = NULL};
  headers_of(of, &headers);
  if (of->last_event[0] && chance_one_in(&of->self->luck, 2))
    text_printf(&headers, "Last-Event-ID: %s\r\n", of->last_event);
  http_request(&request, "GET", "/mcp", headers.data, NULL);
  of->streams[at] = wire_tcp(of->self, of->self->server->http);
  of->streaming[at] = true;
  wire_send(&of->streams[at], request.data, request.len);
  text_free(&request);
  text_free(&headers);
}

/* --------------------------------------------------------------------------------- end */

static void leave_all(life *of) {
  for (unsigned i = 0; i < PENDING; i++)
    if (of->pendings[i].used) abandon(of, &of->pendings[i]);
  for (unsigned i = 0; i < STREAMS; i++)
    if (of->streaming[i])
      wire_end(&of->streams[i], chance_one_in(&of->self->luck, 2) ? RESET_IT : CLOSE_IT);
}

static void delete_session(life *of) {
  int status = send_alone(of, "DELETE", NULL, NULL);
  if (status != 204 && status != 404) attack_found(of->self, "DELETE got %d", status);
}

static void leave_behind(life *of) {
  unsigned at = of->self->shared->session_count++;
  if (at < SESSIONS_MAX) snprintf(of->self->shared->sessions[at], SESSION_MAX, "%s", of->session);
}

/* Who waits when the session is ended hears the end: of the answer, or of the connection. */
static void hear_ends(life *of) {
  of->self->until_ms = now_ms() + PATIENCE_MS;
  of->asked.foreign = true; /* what DELETE overtook is refused unread: its id is null */
  for (unsigned i = 0; i < PENDING; i++) {
    pending *one = &of->pendings[i];
    const char *message;
    if (!one->used) continue;
    if (!one->begun) one->begun = http_begin(&one->reply, &one->line);
    while (one->begun && (message = http_message(&one->reply)))
      ledger_hear(&of->asked, message, strlen(message));
  }
}

static void end_life(life *of) {
  ledger_excuse_all(&of->asked);
  switch (chance_below(&of->self->luck, 4)) {
  case 0:
    leave_all(of);
    leave_behind(of);
    return;
  case 1: leave_all(of); break;
  case 2:
    delete_session(of);
    hear_ends(of);
    break;
  default:;
  }
  delete_session(of);
  leave_all(of);
}

static void act(life *of) {
  pending *one = any_pending(of);
  switch (chance_below(&of->self->luck, 8)) {
  case 0:
  case 1:
  case 2: new_call(of); break;
  case 3: new_other(of); break;
  case 4:
    if (one && !one->slow) collect(of, one);
    break;
  case 5:
    if (one) abandon(of, one);
    break;
  case 6:
    if (one) cancel(of, one);
    break;
  default: listen_or_stop(of);
  }
}

void attack_session(attacker *self) {
  life *of = calloc(1, sizeof *of);
  if (!of) abort();
  of->self = self;
  of->asked.owner = self;
  if (begin_life(of)) {
    for (unsigned i = chance_below(&self->luck, 24) + 1; i; i--) act(of);
    end_life(of);
  }
  ledger_free(&of->asked);
  free(of);
}
