/* idem/idem.h - the umbrella: everything that is sans-I/O. For libuv include <idem/uv.h>. */
#ifndef IDEM_IDEM_H
#define IDEM_IDEM_H

#include <idem/base.h>
#include <idem/containers.h>
#include <idem/http.h>
#include <idem/json.h>
#include <idem/mcp.h>
#include <idem/mcp_client.h>
#include <idem/mcp_http.h>
#include <idem/rpc.h>
#include <idem/schema.h>
#include <idem/text.h>

#endif
