/* fuzz_metadata.c - documents in which strangers say who protects what (RFC 9728) and how they are asked (RFC 8414). Whatever stands in
 * them, what is believed may be asked, and places that follow from it are of the same origin. */
#include "auth/auth.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

typedef char *place_fn(const idem_alloc *alloc, const char *text, unsigned n, idem_status *status);

static void check_places(const idem_alloc *alloc, place_fn *place, const char *text) {
  idem__auth_url from, to;
  idem_status status = IDEM_OK;
  unsigned n = 0;
  for (char *url; (url = place(alloc, text, n, &status)); n++) {
    MUST(idem__auth_url_parse(text, &from) && idem__auth_url_parse(url, &to));
    MUST(to.origin_len == from.origin_len && memcmp(to.origin, from.origin, to.origin_len) == 0);
    idem__free(alloc, url);
  }
  MUST(status == IDEM_OK && n <= 3);
}

static void read_resource(const idem_alloc *alloc, const char *body, size_t len) {
  static const char url[] = "https://mcp.example/a/mcp";
  static const char *const places[] = {
      "https://mcp.example/.well-known/oauth-protected-resource/a/mcp",
      "https://mcp.example/.well-known/oauth-protected-resource", "https://elsewhere.example/prm"};
  idem__auth_resource found;
  idem__auth_url own, other;
  const char *why = NULL;
  if (idem__auth_resource_read(alloc, body, len, &found, &why) != IDEM_OK) {
    MUST(why && *why && !found.resource && !found.server && !found.scopes);
    return;
  }
  MUST(idem__auth_url_is_safe(found.server));
  check_places(alloc, idem__auth_server_place, found.server);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (!idem__auth_resource_fits(found.resource, places[i], url)) continue;
    MUST(idem__auth_url_parse(url, &own) && idem__auth_url_parse(found.resource, &other));
    MUST(idem__text_equal_nocase(own.origin, own.origin_len, other.origin, other.origin_len));
    check_places(alloc, idem__auth_resource_place, found.resource);
  }
  idem__auth_resource_deinit(alloc, &found);
}

static void read_server(const idem_alloc *alloc, const char *body, size_t len) {
  idem__auth_server found;
  const char *why = NULL;
  if (idem__auth_server_read(alloc, body, len, &found, &why) != IDEM_OK) {
    MUST(why && *why && !found.issuer && !found.token_endpoint);
    return;
  }
  const char *const all[] = {found.issuer,
                             found.token_endpoint,
                             found.authorization_endpoint,
                             found.registration_endpoint,
                             found.device_endpoint,
                             found.revocation_endpoint};
  MUST(found.issuer && found.token_endpoint);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(!all[i] || idem__auth_url_is_safe(all[i]));
  MUST(!found.scopes || idem__auth_scope_has(found.scopes, found.scopes));
  idem__auth_server_deinit(alloc, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  read_resource(&alloc, (const char *)data, size);
  read_server(&alloc, (const char *)data, size);
  return 0;
}
