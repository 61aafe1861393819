/* idem/mcp_http.h - MCP over HTTP in a loop of your own: an MCP server (mcp.h) at a path of an HTTP server (http.h).
 * With libuv nothing of this is needed: idem_serve takes "http://" addresses (uv.h). */
#ifndef IDEM_MCP_HTTP_H
#define IDEM_MCP_HTTP_H

#include <idem/http.h>
#include <idem/mcp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Serves it at `path`, before the first connection: POST, GET and DELETE, WebSocket, sessions of the older revisions,
 * and the transport of 2024-11-05 at paths of its own. Of `opts` max_sessions, max_sessions_each, session_idle_ms,
 * stateless_legacy, sse_path and message_path are looked at; NULL: defaults. The server must outlive the HTTP server.
 * What belongs to no connection (sessions that end, tasks, news of changes) happens in idem_http_server_expire.
 * INVAL: a path is served already. After a failure free the HTTP server. */
IDEM_API idem_status idem_http_server_add_mcp(idem_http_server *http, const char *path,
                                              idem_server *server, const idem_http_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
