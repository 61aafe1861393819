/* url.c - where a reference leads, by the parser that will connect, so that the two cannot disagree.
 * See curl.h. */
#include "url.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

typedef struct origin {
  char *scheme, *host, *port;
} origin;

static void free_origin(origin *of) {
  curl_free(of->scheme);
  curl_free(of->host);
  curl_free(of->port);
}

static bool get_origin(CURLU *url, origin *of) {
  return curl_url_get(url, CURLUPART_SCHEME, &of->scheme, 0) == CURLUE_OK &&
         curl_url_get(url, CURLUPART_HOST, &of->host, 0) == CURLUE_OK &&
         curl_url_get(url, CURLUPART_PORT, &of->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
}

static bool same(const origin *a, const origin *b) {
  return strcasecmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
         strcmp(a->port, b->port) == 0;
}

static bool good(CURLU *url, const origin *of) {
  char *user = NULL;
  bool named = curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_OK;
  curl_free(user);
  return !named && (strcasecmp(of->scheme, "http") == 0 || strcasecmp(of->scheme, "https") == 0);
}

idem_status idem__curl_resolve(const char *base, const char *reference, char **out,
                               bool *same_origin) {
  origin before = {0}, after = {0};
  CURLU *url = curl_url();
  *out = NULL;
  idem_status status = url ? IDEM_E_INVAL : IDEM_E_NOMEM;
  bool based = url && (!base || (curl_url_set(url, CURLUPART_URL, base, 0) == CURLUE_OK &&
                                 get_origin(url, &before)));
  if (based && curl_url_set(url, CURLUPART_URL, reference, 0) == CURLUE_OK &&
      get_origin(url, &after) && good(url, &after) &&
      curl_url_set(url, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
      curl_url_get(url, CURLUPART_URL, out, 0) == CURLUE_OK) {
    *same_origin = !base || same(&before, &after);
    status = IDEM_OK;
  }
  free_origin(&before);
  free_origin(&after);
  curl_url_cleanup(url);
  return status;
}

void idem__curl_free_text(char *text) { curl_free(text); }
