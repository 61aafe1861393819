/* client_opts.c - a copy of what a client was told: headers, token, whom to trust.
 * See docs/internals/uv.md. */
#include "uv/client.h"

#include <stdio.h>
#include <string.h>

static idem_status copy_text(const idem_alloc *alloc, const char *from, const char **to) {
  *to = from ? idem__strndup(alloc, from, strlen(from)) : NULL;
  return *to || !from ? IDEM_OK : IDEM_E_NOMEM;
}

static char *bearer(const idem_alloc *alloc, const char *token) {
  static const char words[] = "Authorization: Bearer ";
  size_t len = strlen(token);
  char *line = idem__malloc(alloc, sizeof words + len);
  if (!line) return NULL;
  memcpy(line, words, sizeof words - 1);
  memcpy(line + sizeof words - 1, token, len + 1);
  return line;
}

static idem_status copy_headers(idem__client_opts *client, const idem_alloc *alloc,
                                const idem_client_opts *from) {
  size_t count = 0, kept = 0;
  while (from->headers && from->headers[count]) count++;
  client->headers = idem__calloc(alloc, (count + 2) * sizeof *client->headers);
  if (!client->headers) return IDEM_E_NOMEM;
  if (from->token && !(client->headers[kept++] = bearer(alloc, from->token))) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < count; i++)
    status = copy_text(alloc, from->headers[i], &client->headers[kept++]);
  return status;
}

idem_status idem__client_opts_init(idem__client_opts *client, const idem_alloc *alloc,
                                   const idem_client_opts *from) {
  static const idem_client_opts none;
  if (!from) from = &none;
  *client = (idem__client_opts){.opts = *from};
  client->opts.headers = NULL;
  client->opts.token = client->opts.ca_file = client->opts.cert_file = NULL;
  client->opts.key_file = client->opts.proxy = NULL;
  if (from->token && (!*from->token || strpbrk(from->token, "\r\n"))) return IDEM_E_INVAL;
  client->token_len = from->token ? strlen(from->token) : 0;
  idem_status status = copy_headers(client, alloc, from);
  if (status == IDEM_OK) status = copy_text(alloc, from->ca_file, &client->opts.ca_file);
  if (status == IDEM_OK) status = copy_text(alloc, from->cert_file, &client->opts.cert_file);
  if (status == IDEM_OK) status = copy_text(alloc, from->key_file, &client->opts.key_file);
  if (status == IDEM_OK) status = copy_text(alloc, from->proxy, &client->opts.proxy);
  return status;
}

void idem__client_opts_deinit(idem__client_opts *client, const idem_alloc *alloc) {
  for (size_t i = 0; client->headers && client->headers[i]; i++)
    idem__free(alloc, (void *)(uintptr_t)client->headers[i]);
  idem__free(alloc, client->headers);
  const char *const texts[] = {client->opts.ca_file, client->opts.cert_file, client->opts.key_file,
                               client->opts.proxy};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    idem__free(alloc, (void *)(uintptr_t)texts[i]);
  *client = (idem__client_opts){0};
}

void idem__client_hide_token(const idem__client_opts *client, idem_log *log) {
  if (!log || !client->token_len) return;
  const char *line = client->headers[0];
  idem_log_add_secret(log, line + strlen(line) - client->token_len, client->token_len);
}
