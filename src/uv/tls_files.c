/* tls_files.c - certificates that change while they are used: looked at when a connection comes, at
 * most once a second. What cannot be used leaves the old ones in place. See docs/internals/uv.md. */
#include "uv/tls_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_MS 1000

struct idem__tls_files {
  const idem_listener *listener;
  const idem__tls_module *module;
  idem__tls_context *context;
  char *names[3]; /* certificate, key, client authority */
  struct timespec changed[3];
  uint64_t looked_ms;
};

const idem__tls_module *idem__tls_module_get(char *why, size_t size) {
  return idem__module_load("tls", IDEM__TLS_SYMBOL, why, size);
}

/* A FIFO in a file's place would stop the loop until someone writes to it. */
static bool are_regular(const idem__tls_files *files, char *why, size_t size) {
  for (size_t i = 0; i < 3; i++) {
    struct stat now;
    if (!files->names[i] || stat(files->names[i], &now) != 0 || S_ISREG(now.st_mode)) continue;
    snprintf(why, size, "%s is no regular file", files->names[i]);
    return false;
  }
  return true;
}

static idem_status load(const idem__tls_files *files, idem__tls_context **out, char *why,
                        size_t size) {
  if (!are_regular(files, why, size)) return IDEM_E_SYS;
  idem__tls_opts opts = {
      .cert_file = files->names[0], .key_file = files->names[1], .ca_file = files->names[2]};
  return files->module->server_new(&opts, out, why, size);
}

/* True when a file is another than the last time. */
static bool files_changed(idem__tls_files *files) {
  bool changed = false;
  for (size_t i = 0; i < 3; i++) {
    struct stat now;
    if (!files->names[i] || stat(files->names[i], &now) != 0) continue;
    changed |= now.st_mtim.tv_sec != files->changed[i].tv_sec ||
               now.st_mtim.tv_nsec != files->changed[i].tv_nsec;
    files->changed[i] = now.st_mtim;
  }
  return changed;
}

/* Connections that are open keep the certificate they began with. */
static void reload_if_changed(idem__tls_files *files) {
  const idem_listener *listener = files->listener;
  uint64_t now = idem__clock_ms();
  if (now - files->looked_ms < LOOK_MS) return;
  files->looked_ms = now;
  if (!files_changed(files)) return;
  char why[256] = "";
  idem__tls_context *fresh;
  if (load(files, &fresh, why, sizeof why) == IDEM_OK) {
    files->module->context_free(files->context);
    files->context = fresh;
    idem_logf(listener->opts.log, IDEM_LOG_INFO, "certificate read again", "%s", listener->url);
  } else {
    idem_logf(listener->opts.log, IDEM_LOG_ERROR,
              "the changed certificate cannot be used; the old one stays", "%s", why);
  }
}

static idem_status copy_names(idem__tls_files *files) {
  const idem_http_opts *http = files->listener->opts.http;
  const char *names[3] = {http ? http->tls_cert : NULL, http ? http->tls_key : NULL,
                          http ? http->tls_client_ca : NULL};
  for (size_t i = 0; i < 3; i++) {
    if (!names[i]) continue;
    files->names[i] = idem__strndup(&files->listener->runtime->alloc, names[i], strlen(names[i]));
    if (!files->names[i]) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

idem_status idem__tls_files_open(const idem_listener *listener, idem__tls_files **out) {
  char why[256] = "";
  idem__tls_files *files = *out = idem__calloc(&listener->runtime->alloc, sizeof *files);
  if (!files) return IDEM_E_NOMEM;
  files->listener = listener;
  idem_status status = copy_names(files);
  if (status != IDEM_OK) return status;
  files->module = idem__tls_module_get(why, sizeof why);
  files_changed(files);
  if (!files->module || load(files, &files->context, why, sizeof why) != IDEM_OK) {
    idem_logf(listener->opts.log, IDEM_LOG_ERROR, "cannot serve", "%s: %s", listener->url, why);
    return IDEM_E_SYS;
  }
  return IDEM_OK;
}

void idem__tls_files_free(idem__tls_files *files) {
  if (!files) return;
  idem_alloc alloc = files->listener->runtime->alloc;
  if (files->context) files->module->context_free(files->context);
  for (size_t i = 0; i < 3; i++) idem__free(&alloc, files->names[i]);
  idem__free(&alloc, files);
}

const idem__tls_module *idem__tls_files_module(const idem__tls_files *files) {
  return files->module;
}

idem_status idem__tls_files_accept(idem__tls_files *files, idem__tls_session **out) {
  reload_if_changed(files);
  return files->module->accept(files->context, out);
}
