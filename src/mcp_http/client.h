/* client.h - an MCP client's way over HTTP, without I/O: what src/http's client is told by hooks about sessions,
 * headers, eras, the standing stream and the transport of 2024-11-05. See docs/internals/mcp_http.md. */
#ifndef IDEM_MCP_HTTP_CLIENT_H
#define IDEM_MCP_HTTP_CLIENT_H

#include "../http/http_client.h"
#include "../mcp_client/mcp_client.h"

typedef struct idem__mcp_web idem__mcp_web;

/* For one client and one URL; the URL is copied. NOMEM. */
idem_status idem__mcp_web_new(idem_mcp_client *client, const char *url, const idem_alloc *alloc,
                              idem__mcp_web **out);
/* After the conn. Takes NULL. */
void idem__mcp_web_free(idem__mcp_web *web);
/* With the web as their user. */
extern const idem__http_hooks idem__mcp_web_hooks;
/* The client's link asks these. */
void idem__mcp_web_settled(idem__mcp_web *web, const idem__revision *revision);
bool idem__mcp_web_fall_back(idem__mcp_web *web);
void idem__mcp_web_session(idem__mcp_web *web, bool there);
/* The conn goes: nothing is asked of the HTTP client any more. */
void idem__mcp_web_leave(idem__mcp_web *web);

/* The URI of an endpoint event, as an absolute URL of the same origin. INVAL: it is none. NOMEM. */
idem_status idem__mcp_web_resolve(const idem_alloc *alloc, const char *base, const char *text,
                                  size_t len, char **out);

#endif
