/* mcp_connect.c - an MCP client on the loop: idem_connect's conn joined with the client of src/mcp_client, and
 * begun anew where a server goes at the first word it does not know. The client is freed a turn after its conn,
 * never inside one of its functions. See docs/internals/uv.md. */
#include "mcp_http/client.h"
#include "uv/client.h"

#include <stdio.h>
#include <string.h>

typedef struct joint {
  idem__runtime *runtime;
  idem_mcp_client *client;
  char *url;
  idem__client_opts wire;
  idem_client_opts opts; /* of the wire, its lists ours */
  char **argv, **environment;
  char *folder;
  idem__mcp_web *web; /* of HTTP; else NULL */
  uv_timer_t timer;   /* for what must not happen where it is decided */
  idem_conn *conn;
  bool connecting;  /* idem_connect's on_ready is to come */
  bool again;       /* another conn, once this one is gone */
  bool ready, over; /* the program was told so */
  idem_status failure;
  idem_mcp_ready_fn on_ready;
  void *user;
  int exit_status, signal;
  char *errors; /* the program's last words */
  size_t errors_len;
  char reason[256];
} joint;

/* --------------------------------------------------------------------- the end */

static void free_list(const idem_alloc *alloc, char **list) {
  for (size_t i = 0; list && list[i]; i++) idem__free(alloc, list[i]);
  idem__free(alloc, list);
}

static void free_joint(joint *self) {
  idem__runtime *runtime = self->runtime;
  const idem_alloc *alloc = &runtime->alloc;
  idem_mcp_client_free(self->client);
  idem__mcp_web_free(self->web);
  idem__client_opts_deinit(&self->wire, alloc);
  free_list(alloc, self->argv);
  free_list(alloc, self->environment);
  idem__free(alloc, self->folder);
  idem__free(alloc, self->errors);
  idem__free(alloc, self->url);
  idem__free(alloc, self);
  idem__runtime_release(runtime);
}

static void on_timer_closed(uv_handle_t *handle) { free_joint(handle->data); }

/* The program hears the last of it. */
static void be_over(joint *self) {
  if (self->over) return;
  self->over = true;
  idem_mcp_client *client = self->client;
  if (!self->ready)
    self->on_ready(client, self->failure ? self->failure : IDEM_E_CANCELLED, self->user);
  else if (client->opts.on_close)
    client->opts.on_close(client, client->opts.user);
  uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

static void on_over(uv_timer_t *timer) { be_over(timer->data); }

static void be_over_soon(joint *self) { uv_timer_start(&self->timer, on_over, 0, 0); }

/* ------------------------------------------------------------- what the conn tells */

static idem_status connect_now(joint *self);

static void keep_reason(joint *self, const idem_conn *conn) {
  const idem_alloc *alloc = &self->runtime->alloc;
  idem_close_reason reason = idem_conn_close_reason(conn);
  snprintf(self->reason, sizeof self->reason, "%s", reason.text);
  self->exit_status = reason.exit_status;
  self->signal = reason.signal;
  idem__free(alloc, self->errors);
  self->errors = reason.errors_len ? idem__strndup(alloc, reason.errors, reason.errors_len) : NULL;
  self->errors_len = self->errors ? reason.errors_len : 0;
}

static void on_close(idem_conn *conn, void *user) {
  joint *self = user;
  keep_reason(self, conn);
  self->conn = NULL;
  if (self->web) idem__mcp_web_leave(self->web);
  if (self->again && !self->client->closing) {
    self->again = false;
    idem__mcp_client_unbind(self->client);
    idem_status status = connect_now(self);
    if (status == IDEM_OK) return;
    self->failure = status;
  }
  idem__mcp_client_lost(self->client);
  idem__mcp_client_unbind(self->client);
  be_over(self);
}

static void on_stderr(idem_conn *conn, const char *data, size_t len, void *user) {
  const joint *self = user;
  idem_mcp_client *client = self->client;
  (void)conn;
  if (client->opts.on_stderr) client->opts.on_stderr(client, data, len, client->opts.user);
}

/* A program that was started again may be gone before its conn is there: how it went the first time is known. */
static const char *why_not(const joint *self, idem_status status) {
  const char *fault = status == IDEM_E_PROTO ? self->runtime->fault : NULL;
  if (self->reason[0]) return self->reason;
  return fault && *fault ? fault : idem_status_text(status);
}

static void on_conn(idem_conn *conn, idem_status status, void *user) {
  joint *self = user;
  self->connecting = false;
  self->conn = conn;
  if (!conn) {
    self->failure = status;
    idem__mcp_client_fail(self->client, status, why_not(self, status));
    be_over(self);
  } else if (self->client->closing) {
    idem_conn_close(conn);
  } else {
    idem__mcp_client_bind(self->client, conn);
  }
}

static idem_status connect_now(joint *self) {
  idem_mcp_client *client = self->client;
  idem_connect_opts opts = {.router = client->router,
                            .policy = &client->policy,
                            .log = client->opts.log,
                            .metrics = client->opts.metrics,
                            .alloc = client->opts.alloc,
                            .client = &self->opts,
                            .on_close = on_close,
                            .on_stderr = on_stderr,
                            .user = self};
  idem_status status = self->web
                           ? idem__connect_http(self->runtime, self->url, &opts,
                                                &idem__mcp_web_hooks, self->web, on_conn, self)
                           : idem_connect(self->runtime->loop, self->url, &opts, on_conn, self);
  self->connecting = status == IDEM_OK;
  return status;
}

/* ----------------------------------------------------------- what the client wants */

/* A failure is told when the conn is gone: how a program ended is known then. */
static void link_ready(void *user, idem_status status) {
  joint *self = user;
  if (status == IDEM_OK) {
    self->ready = true;
    self->on_ready(self->client, IDEM_OK, self->user);
    return;
  }
  self->failure = status;
  if (self->conn)
    idem_conn_close(self->conn);
  else if (!self->connecting)
    be_over_soon(self);
}

static bool link_restart(void *user) {
  joint *self = user;
  self->again = true;
  if (self->conn) idem_conn_close(self->conn);
  return true;
}

static void on_unwanted(uv_timer_t *timer) {
  joint *self = timer->data;
  if (self->connecting) idem__connect_cancel(self->runtime, on_conn, self);
}

static void link_close(void *user) {
  joint *self = user;
  if (self->conn)
    idem_conn_close(self->conn);
  else if (self->connecting)
    uv_timer_start(&self->timer, on_unwanted, 0, 0);
  else if (!self->over)
    be_over_soon(self);
}

static void link_reason(void *user, idem_mcp_trouble *trouble) {
  const joint *self = user;
  trouble->exit_status = self->exit_status;
  trouble->signal = self->signal;
  trouble->errors = self->errors;
  trouble->errors_len = self->errors_len;
  if (!trouble->text[0] && self->reason[0]) trouble->text = self->reason;
}

static const idem__mcp_link plain_link = {
    .ready = link_ready, .restart = link_restart, .close = link_close, .reason = link_reason};

static void link_settled(void *user, const idem__revision *revision) {
  const joint *self = user;
  idem__mcp_web_settled(self->web, revision);
}

static bool link_fall_back(void *user) {
  const joint *self = user;
  return idem__mcp_web_fall_back(self->web);
}

static void link_session(void *user, bool there) {
  const joint *self = user;
  idem__mcp_web_session(self->web, there);
}

static const idem__mcp_link web_link = {.http = true,
                                        .ready = link_ready,
                                        .close = link_close,
                                        .reason = link_reason,
                                        .settled = link_settled,
                                        .fall_back = link_fall_back,
                                        .session = link_session};

/* ------------------------------------------------------------------- the options */

static idem_status copy_list(const idem_alloc *alloc, const char *const *from, char ***to) {
  size_t count = 0;
  if (!from) return IDEM_OK;
  while (from[count]) count++;
  *to = idem__calloc(alloc, (count + 1) * sizeof **to);
  if (!*to) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    (*to)[i] = idem__strndup(alloc, from[i], strlen(from[i]));
    if (!(*to)[i]) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

static idem_status copy_wire(joint *self, const idem_client_opts *wire, idem_log *log) {
  const idem_alloc *alloc = &self->runtime->alloc;
  idem_status status = idem__client_opts_init(&self->wire, alloc, wire);
  if (status != IDEM_OK) return status;
  idem__client_hide_token(&self->wire, log);
  self->opts = self->wire.opts;
  self->opts.headers = self->wire.headers;
  if (!wire) return IDEM_OK;
  status = copy_list(alloc, wire->argv, &self->argv);
  if (status == IDEM_OK) status = copy_list(alloc, wire->environment, &self->environment);
  if (status == IDEM_OK && wire->folder) {
    self->folder = idem__strndup(alloc, wire->folder, strlen(wire->folder));
    if (!self->folder) status = IDEM_E_NOMEM;
  }
  self->opts.argv = (const char *const *)self->argv;
  self->opts.environment = (const char *const *)self->environment;
  self->opts.folder = self->folder;
  return status;
}

static idem_status prepare(joint *self, const char *url, const idem_mcp_client_opts *opts) {
  idem_mcp_client_opts own = *opts;
  if (!own.seed) own.seed = idem_random_seed();
  if (!own.random) own.random = idem__os_random;
  self->url = idem__strndup(&self->runtime->alloc, url, strlen(url));
  if (!self->url) return IDEM_E_NOMEM;
  idem_status status = copy_wire(self, opts->wire, opts->log);
  if (status == IDEM_OK) status = idem_mcp_client_new(&own, &self->client);
  bool http = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
  if (status == IDEM_OK && http)
    status = idem__mcp_web_new(self->client, url, &self->runtime->alloc, &self->web);
  if (status == IDEM_OK)
    idem__mcp_client_set_link(self->client, http ? &web_link : &plain_link, self);
  return status;
}

idem_status idem_mcp_connect(uv_loop_t *loop, const char *url, const idem_mcp_client_opts *opts,
                             idem_mcp_ready_fn on_ready, void *user, idem_mcp_client **out) {
  static const idem_mcp_client_opts none;
  idem__runtime *runtime;
  if (!opts) opts = &none;
  if (out) *out = NULL;
  if (!url || !on_ready) return IDEM_E_INVAL;
  idem_status status = idem__runtime_get(loop, opts->alloc, &runtime);
  if (status != IDEM_OK) return status;
  joint *self = idem__calloc(&runtime->alloc, sizeof *self);
  if (!self) {
    idem__runtime_release(runtime);
    return IDEM_E_NOMEM;
  }
  self->runtime = runtime;
  self->exit_status = -1;
  self->on_ready = on_ready;
  self->user = user;
  status = prepare(self, url, opts);
  if (status == IDEM_OK) status = connect_now(self);
  if (status != IDEM_OK) {
    free_joint(self);
    return status;
  }
  uv_timer_init(loop, &self->timer);
  self->timer.data = self;
  if (out) *out = self->client;
  return IDEM_OK;
}
