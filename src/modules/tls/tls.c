/* tls.c - TLS by OpenSSL 3, between two memory buffers: no sockets here.
 * TLS 1.2 at least, no renegotiation, no compression; ALPN says http/1.1, the only thing spoken.
 * See docs/internals/modules.md. */
#include "tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct idem__tls_session {
  SSL *ssl;
  BIO *in, *out; /* owned by ssl */
};

/* The context is OpenSSL's own, counted by it. */
static SSL_CTX *ctx_of(idem__tls_context *context) { return (SSL_CTX *)(void *)context; }

static idem_status explain(char *why, size_t size, const char *what, const char *file) {
  char text[160] = "";
  unsigned long error = ERR_peek_last_error();
  if (error) ERR_error_string_n(error, text, sizeof text);
  /* OpenSSL tells of its own call; that the system refused the file is what helps. */
  if (file && access(file, R_OK) != 0) snprintf(text, sizeof text, "%s", strerror(errno));
  snprintf(why, size, "%s %s: %s", what, file ? file : "(none)", text);
  ERR_clear_error();
  return IDEM_E_INVAL;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned int in_len, void *user) {
  static const unsigned char ours[] = "\x08http/1.1";
  unsigned char *chosen;
  (void)ssl;
  (void)user;
  if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

static idem_status load_own(SSL_CTX *ctx, const idem__tls_opts *opts, char *why, size_t size) {
  if (!opts->cert_file || SSL_CTX_use_certificate_chain_file(ctx, opts->cert_file) != 1)
    return explain(why, size, "certificate", opts->cert_file);
  if (!opts->key_file || SSL_CTX_use_PrivateKey_file(ctx, opts->key_file, SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(ctx) != 1)
    return explain(why, size, "key", opts->key_file);
  return IDEM_OK;
}

static idem_status load_files(SSL_CTX *ctx, const idem__tls_opts *opts, char *why, size_t size) {
  idem_status status = load_own(ctx, opts, why, size);
  if (status != IDEM_OK || !opts->ca_file) return status;
  STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(opts->ca_file);
  if (!names || SSL_CTX_load_verify_file(ctx, opts->ca_file) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return explain(why, size, "client authority", opts->ca_file);
  }
  SSL_CTX_set_client_CA_list(ctx, names);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  return IDEM_OK;
}

static SSL_CTX *new_ctx(const SSL_METHOD *method) {
  ERR_clear_error();
  SSL_CTX *ctx = SSL_CTX_new(method);
  if (!ctx) return NULL;
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
  return ctx;
}

static idem_status server_new(const idem__tls_opts *opts, idem__tls_context **out, char *why,
                              size_t size) {
  *out = NULL;
  SSL_CTX *ctx = new_ctx(TLS_server_method());
  if (!ctx) return IDEM_E_NOMEM;
  SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"idem", 4);
  SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
  idem_status status = load_files(ctx, opts, why, size);
  if (status != IDEM_OK) {
    SSL_CTX_free(ctx);
    return status;
  }
  *out = (idem__tls_context *)(void *)ctx;
  return IDEM_OK;
}

static idem_status load_trust(SSL_CTX *ctx, const idem__tls_opts *opts, char *why, size_t size) {
  if (opts->no_verify) return IDEM_OK;
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
  int loaded = opts->ca_file ? SSL_CTX_load_verify_file(ctx, opts->ca_file)
                             : SSL_CTX_set_default_verify_paths(ctx);
  return loaded == 1 ? IDEM_OK : explain(why, size, "authority", opts->ca_file);
}

static idem_status client_new(const idem__tls_opts *opts, idem__tls_context **out, char *why,
                              size_t size) {
  static const unsigned char http[] = "\x08http/1.1";
  *out = NULL;
  SSL_CTX *ctx = new_ctx(TLS_client_method());
  if (!ctx) return IDEM_E_NOMEM;
  idem_status status = load_trust(ctx, opts, why, size);
  if (status == IDEM_OK && (opts->cert_file || opts->key_file))
    status = load_own(ctx, opts, why, size);
  if (status == IDEM_OK && opts->http && SSL_CTX_set_alpn_protos(ctx, http, sizeof http - 1) != 0)
    status = IDEM_E_NOMEM;
  if (status != IDEM_OK) {
    SSL_CTX_free(ctx);
    return status;
  }
  *out = (idem__tls_context *)(void *)ctx;
  return IDEM_OK;
}

static void context_free(idem__tls_context *context) { SSL_CTX_free(ctx_of(context)); }

static void session_free(idem__tls_session *session) {
  if (!session) return;
  SSL_free(session->ssl);
  free(session);
}

static idem_status new_session(idem__tls_context *context, idem__tls_session **out) {
  idem__tls_session *session = calloc(1, sizeof *session);
  *out = NULL;
  if (!session) return IDEM_E_NOMEM;
  session->ssl = SSL_new(ctx_of(context));
  session->in = BIO_new(BIO_s_mem());
  session->out = BIO_new(BIO_s_mem());
  if (!session->ssl || !session->in || !session->out) {
    BIO_free(session->in);
    BIO_free(session->out);
    session_free(session);
    return IDEM_E_NOMEM;
  }
  BIO_set_mem_eof_return(session->in, -1); /* empty means: later, not: never */
  SSL_set_bio(session->ssl, session->in, session->out);
  *out = session;
  return IDEM_OK;
}

static idem_status accept_session(idem__tls_context *context, idem__tls_session **out) {
  idem_status status = new_session(context, out);
  if (status == IDEM_OK) SSL_set_accept_state((*out)->ssl);
  return status;
}

/* Addresses are proven as addresses and are no server names. */
static bool expect_host(SSL *ssl, const char *host) {
  X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1) return true;
  ERR_clear_error();
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static idem_status connect_session(idem__tls_context *context, const char *host,
                                   idem__tls_session **out) {
  idem_status status = new_session(context, out);
  if (status != IDEM_OK) return status;
  if (!expect_host((*out)->ssl, host)) {
    session_free(*out);
    *out = NULL;
    return IDEM_E_INVAL;
  }
  SSL_set_connect_state((*out)->ssl);
  return IDEM_OK;
}

static idem_status feed(idem__tls_session *session, const char *data, size_t len) {
  size_t written;
  return BIO_write_ex(session->in, data, len, &written) == 1 && written == len ? IDEM_OK
                                                                               : IDEM_E_NOMEM;
}

static long read_plain(idem__tls_session *session, char *into, size_t size) {
  size_t got = 0;
  ERR_clear_error();
  if (SSL_read_ex(session->ssl, into, size, &got) == 1) return (long)got;
  switch (SSL_get_error(session->ssl, 0)) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE: return 0;
  case SSL_ERROR_ZERO_RETURN: return -1;
  default: ERR_clear_error(); return -2;
  }
}

/* With memory on the other side a write never waits once the handshake is over. */
static idem_status write_plain(idem__tls_session *session, const char *data, size_t len) {
  if (!SSL_is_init_finished(session->ssl)) return IDEM_E_STATE;
  ERR_clear_error();
  while (len) {
    size_t done = 0;
    if (SSL_write_ex(session->ssl, data, len, &done) != 1) {
      ERR_clear_error();
      return IDEM_E_PROTO;
    }
    data += done;
    len -= done;
  }
  return IDEM_OK;
}

static void say_goodbye(idem__tls_session *session) {
  if (SSL_is_init_finished(session->ssl)) SSL_shutdown(session->ssl);
  ERR_clear_error();
}

static size_t take(idem__tls_session *session, char *into, size_t size) {
  size_t got = 0;
  return BIO_read_ex(session->out, into, size, &got) == 1 ? got : 0;
}

static bool ready(const idem__tls_session *session) {
  return SSL_is_init_finished(session->ssl) == 1;
}

static const char *fault(const idem__tls_session *session) {
  long result = SSL_get_verify_result(session->ssl);
  return result == X509_V_OK ? "" : X509_verify_cert_error_string(result);
}

extern const idem__tls_module idem__tls_module_table;
__attribute__((visibility("default"))) const idem__tls_module idem__tls_module_table = {
    .server_new = server_new,
    .client_new = client_new,
    .context_free = context_free,
    .accept = accept_session,
    .connect = connect_session,
    .session_free = session_free,
    .feed = feed,
    .read = read_plain,
    .write = write_plain,
    .close = say_goodbye,
    .take = take,
    .ready = ready,
    .fault = fault,
};
