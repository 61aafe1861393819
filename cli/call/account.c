/* account.c - who is logged in at a server, and logging out: `idem call TARGET --whoami` and `--logout`.
 * No token is ever printed. */
#include "cache.h"
#include "kept.h"
#include "login.h"
#include "token_clients.h"
#include "trouble.h"

#include "config/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct account {
  call_target target;
  call_client client;
  token_store store;
  token_clients all; /* without --client: all that are kept there */
  text kept;
  bool revoked;
} account;

/* CALL_WELL: its target and store are there. Free it either way. */
static int account_open(account *self, const call_options *options) {
  *self = (account){.store = {.folder = -1, .lock = -1}};
  if (!target_find(&self->target, options)) return CALL_ASKED_WRONGLY;
  if (!self->target.url) {
    call_say("%s: tokens are for servers at http and https URLs", self->target.said);
    return CALL_ASKED_WRONGLY;
  }
  if (options->client && !secret_client(&self->target.memory, options->client, &self->client))
    return CALL_ASKED_WRONGLY;
  if (token_store_open(&self->store, self->target.url, self->client.id)) return CALL_WELL;
  call_say("%s", self->store.why);
  return CALL_ASKED_WRONGLY;
}

static int nobody(const account *self) {
  call_say("nobody is logged in at %s", self->target.url);
  return CALL_TOOL_FAILED;
}

static int unusable(const account *self) {
  call_say("%s", self->store.why);
  return CALL_ASKED_WRONGLY;
}

static void account_free(account *self) {
  token_store_close(&self->store);
  kept_wipe(&self->kept);
  text_free(&self->kept);
  target_free(&self->target);
}

/* -------------------------------------------------------------------------- --whoami */

static void put_row(const char *name, const char *value) {
  if (!*value) return;
  printf("  %-9s", name);
  text_show_line(stdout, value, strlen(value), 4096);
  putchar('\n');
}

static void put_expiry(const text *kept, char *out, size_t size) {
  uint64_t end = kept_expires(kept), now = (uint64_t)time(NULL);
  const char *again = kept_has_refresh_token(kept) ? "; the next call refreshes it" : "";
  if (end == UINT64_MAX)
    snprintf(out, size, "nobody said when it ends");
  else if (end <= now)
    snprintf(out, size, "over%s", again);
  else
    snprintf(out, size, "good for %" PRIu64 " s", end - now);
}

static bool is_borrowed(const account *self) {
  for (size_t i = 0; i < self->all.count; i++)
    if (strcmp(self->all.items[i].stem, self->store.stem) == 0) return !self->all.items[i].own;
  return false;
}

/* As whom a call without --client asks, where that could be somebody else. */
static void put_clients(const account *self) {
  text others = {.data = NULL};
  if (is_borrowed(self)) put_row("used", "by calls without --client, too: it is the only one");
  token_clients_list(&self->all, self->store.stem, &others);
  if (others.len) text_puts(&others, " (--client ID)");
  put_row("others", others.data ? others.data : "");
  text_free(&others);
}

static void print_for_people(const account *self) {
  static const struct {
    const char *row, *name;
  } rows[] = {{"issuer", "client_issuer"},
              {"resource", "resource"},
              {"client", "client_id"},
              {"scope", "scope"}};
  char value[4096];
  printf("%s\n", self->target.url);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kept_says(&self->kept, rows[i].name, value, sizeof value);
    put_row(rows[i].row, value);
  }
  put_expiry(&self->kept, value, sizeof value);
  put_row("token", value);
  token_store_name(&self->store, value, sizeof value);
  put_row("kept in", value);
  put_clients(self);
}

static void add_others(const account *self, yyjson_mut_doc *doc, yyjson_mut_val *root) {
  yyjson_mut_val *others = yyjson_mut_arr(doc);
  for (size_t i = 0; i < self->all.count; i++) {
    const token_client *one = &self->all.items[i];
    if (one->in && strcmp(one->stem, self->store.stem) != 0)
      yyjson_mut_arr_add_strcpy(doc, others, one->id);
  }
  if (yyjson_mut_arr_size(others)) yyjson_mut_obj_add_val(doc, root, "others", others);
}

static void print_json(const account *self) {
  static const char *const names[] = {"client_issuer", "resource", "client_id", "scope"};
  char value[4096];
  uint64_t end = kept_expires(&self->kept);
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  if (!doc) memory_exhausted();
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  yyjson_mut_doc_set_root(doc, root);
  yyjson_mut_obj_add_str(doc, root, "url", self->target.url);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (kept_says(&self->kept, names[i], value, sizeof value))
      yyjson_mut_obj_add_strcpy(doc, root, i ? names[i] : "issuer", value);
  if (end != UINT64_MAX) yyjson_mut_obj_add_uint(doc, root, "expires", end);
  yyjson_mut_obj_add_bool(doc, root, "refreshable", kept_has_refresh_token(&self->kept));
  add_others(self, doc, root);
  char *made = yyjson_mut_write(doc, 0, NULL);
  if (!made) memory_exhausted();
  puts(made);
  free(made);
  yyjson_mut_doc_free(doc);
}

/* What a call with the same --client, or without, would show. */
static int find_who(account *self) {
  if (!self->client.id && !token_clients_choose(&self->store, &self->all)) return unusable(self);
  token_file file = token_store_read(&self->store, &self->kept);
  if (file == TOKEN_FILE_REFUSED) return unusable(self);
  if (file == TOKEN_FILE_NONE) return nobody(self);
  if (kept_has_token(&self->kept)) return CALL_WELL;
  call_say("nobody is logged in at %s any more: --login", self->target.url);
  return CALL_TOOL_FAILED;
}

int login_whoami(const call_options *options) {
  account self;
  int code = account_open(&self, options);
  if (code == CALL_WELL) code = find_who(&self);
  if (code == CALL_WELL && options->json) print_json(&self);
  if (code == CALL_WELL && !options->json) print_for_people(&self);
  account_free(&self);
  return code;
}

/* -------------------------------------------------------------------------- --logout */

static void on_left(idem_auth *auth, bool revoked, void *user) {
  account *self = user;
  self->revoked = revoked;
  idem_auth_free(auth);
}

/* The server is asked to forget the tokens, too; whether it does or not, we do. */
static void leave(account *self, const call_options *options) {
  uv_loop_t loop;
  idem_auth *auth;
  idem_log *log = trouble_log();
  if (uv_loop_init(&loop) != 0) memory_exhausted();
  idem_auth_opts opts = {.url = self->target.url,
                         .grant = IDEM_AUTH_DEVICE,
                         .client_id =
                             secret_client_is_document(&self->client) ? NULL : self->client.id,
                         .client_secret = self->client.secret,
                         .private_key = self->client.key,
                         .kept_only = true,
                         .kept = self->kept.data,
                         .private_addresses = options->private_issuer,
                         .ca_file = options->ca_file,
                         .user = self,
                         .log = log};
  if (idem_auth_new(&loop, &opts, &auth) == IDEM_OK) {
    if (idem_auth_log_out(auth, on_left) != IDEM_OK) idem_auth_free(auth);
    uv_run(&loop, UV_RUN_DEFAULT);
  }
  uv_loop_close(&loop);
  idem_log_free(log);
}

static bool wait_for_lock(account *self) {
  const struct timespec step = {.tv_nsec = 20000000};
  token_lock got;
  for (int i = 0; (got = token_store_lock(&self->store)) == TOKEN_LOCK_BUSY && i < 3000; i++)
    nanosleep(&step, NULL);
  if (got == TOKEN_LOCK_BUSY)
    call_say("another process has been busy with the tokens for a minute");
  if (got == TOKEN_LOCK_REFUSED) call_say("%s", self->store.why);
  return got == TOKEN_LOCK_HELD;
}

static void tell_left(const account *self) {
  char issuer[512], client[256];
  bool named = kept_says(&self->kept, "client_issuer", issuer, sizeof issuer);
  bool several = self->all.count > 1 && kept_client(&self->kept, client, sizeof client);
  const char *how = self->revoked ? "the server has forgotten the tokens, too"
                    : kept_has_token(&self->kept)
                        ? "the server did not say that it forgets the tokens"
                        : "there was no token any more";
  call_say("%s%slogged out of %s; %s", several ? client : "", several ? ": " : "",
           named ? issuer : self->target.url, how);
}

/* The client whose file the store is: here, and at its server. */
static int leave_one(account *self, const call_options *options) {
  self->revoked = false;
  kept_wipe(&self->kept);
  if (token_store_read(&self->store, &self->kept) == TOKEN_FILE_REFUSED) return unusable(self);
  if (!wait_for_lock(self)) return CALL_NO_PEER;
  kept_wipe(&self->kept); /* it may have changed meanwhile */
  if (token_store_read(&self->store, &self->kept) == TOKEN_FILE_READ) leave(self, options);
  bool removed = token_store_remove(&self->store);
  token_store_unlock(&self->store);
  if (removed)
    tell_left(self);
  else
    call_say("%s", self->store.why);
  return removed ? CALL_WELL : CALL_NO_PEER;
}

/* Without --client: all, so that no later call is anybody's. */
static int leave_all(account *self, const call_options *options) {
  int code = CALL_WELL;
  size_t left = 0;
  for (size_t i = 0; i < self->all.count; i++) {
    memcpy(self->store.stem, self->all.items[i].stem, sizeof self->store.stem);
    int each = leave_one(self, options);
    left += each == CALL_WELL;
    if (each != CALL_WELL) code = each;
  }
  if (self->all.count > 1)
    call_say("%zu clients are logged out of %s%s", left, self->target.url,
             self->all.more ? "; there are more: --logout again" : "");
  return code;
}

/* With --client: of this one alone. */
static bool find_those(account *self) {
  if (!self->client.id) return token_clients_find(&self->store, &self->all);
  self->all.count = token_store_read(&self->store, &self->kept) != TOKEN_FILE_NONE;
  memcpy(self->all.items[0].stem, self->store.stem, sizeof self->store.stem);
  return true;
}

int login_out(const call_options *options) {
  account self;
  int code = account_open(&self, options);
  if (code == CALL_WELL && !find_those(&self)) code = unusable(&self);
  if (code == CALL_WELL && !self.all.count) code = nobody(&self);
  if (code == CALL_WELL) {
    code = leave_all(&self, options);
    cache_forget(&self.target);
  }
  account_free(&self);
  return code;
}
