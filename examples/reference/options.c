/* options.c - the command line of idem-reference: one row a flag. A new transport or setting is a new
 * row and its function; a flag that is not known ends with a hint. */
#include "reference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "usage: idem-reference [flags]\n"
    "A JSON-RPC and MCP server to test clients against; on stdin and stdout unless an address is\n"
    "given.\n"
    "\n"
    "  --profile PROFILE              the rules of the wire: jsonrpc (this unless told "
    "otherwise),\n"
    "                                 lsp, mcp (every revision), mcp-2025-11-25, mcp-2026-07-28\n"
    "  --framing line|content-length  how messages are told apart (the profile's own)\n"
    "  --codes standard|erlmcp        the numbers of errors (standard)\n"
    "  --stdio                        serve stdin and stdout, also beside addresses\n"
    "  --tcp [HOST:]PORT              serve TCP; port 0 takes a free one\n"
    "  --unix PATH                    serve a Unix socket\n"
    "  --http [HOST:]PORT             serve HTTP at / (mcp: at /mcp), WebSocket too\n"
    "  --ws [HOST:]PORT               serve WebSocket alone, at the same path\n"
    "  --https, --wss [HOST:]PORT     the same behind TLS\n"
    "  --tls [HOST:]PORT              serve TCP behind TLS\n"
    "  --tls-cert, --tls-key FILE     PEM files for it, read again when they change\n"
    "  --tls-client-ca FILE           ask for client certificates of this authority\n"
    "  --admin [HOST:]PORT            serve /healthz and /metrics alone\n"
    "  --workers N                    event loops for HTTP and WebSocket, a thread each (1)\n"
    "  --token-file FILE              bearer tokens, one a line; else IDEM_TOKEN, else none\n"
    "  --issuer URL                   take this authorization server's tokens (JWT); may be "
    "repeated\n"
    "  --jwks URL, --jwks-file FILE   where its keys are (as its metadata say)\n"
    "  --introspection URL            ask there about tokens that are no JWTs\n"
    "  --introspection-client ID      ... as whom; its secret is IDEM_INTROSPECTION_SECRET\n"
    "  --resource URL                 this server as clients name it (on loopback: its address)\n"
    "  --audience TEXT                what tokens say they are for (the resource)\n"
    "  --scope WORDS                  what every token must grant\n"
    "  --principal CLAIM              who asks (sub)\n"
    "  --rate-limit N/SECONDS         messages a client may send\n"
    "  --trusted-proxy ADDRESS[/BITS] a proxy that may name the client; may be repeated\n"
    "  --client-header NAME           where it does (X-Forwarded-For)\n"
    "  --allow-host HOST[:PORT|:*]    a Host to answer to; may be repeated\n"
    "  --allow-origin HOST[:PORT|:*]  whose pages may ask; may be repeated\n"
    "  --access-log                   one line a request\n"
    "  --max-connections N            at once, on each address (1000)\n"
    "  --client-connections N         of them, for one client that is not this machine (a "
    "quarter)\n"
    "  --first-ms N                   until a connection must say something (10000)\n"
    "  --grace-ms N                   for running requests when shutting down (1500)\n"
    "  --shutdown-ends-server         the lsp `shutdown` over a socket ends the process, too\n"
    "  --log-level LEVEL              debug, info, warn or error (info)\n"
    "  --log-format text|json         for people or for programs (text)\n"
    "  --no-color                     never colour the log\n"
    "  -V, --version, -h, --help\n"
    "\n"
    "A PORT alone is on this machine (localhost). Exit status: 0; 1 for what could not start or\n"
    "failed; 2 for a command line that is wrong.\n"
    "\n"
    "Logs go to stderr, or to the file named by IDEM_LOG.\n";

#define USAGE 2 /* the exit status of a command line that is wrong */

typedef bool (*option_fn)(options *parsed, const char *value);

/* ------------------------------------------------------------------- one function a flag */

static bool set_profile(options *parsed, const char *value) {
  static const struct {
    const char *name;
    idem_profile profile;
    uint32_t revisions;
  } profiles[] = {{"jsonrpc", IDEM_PROFILE_JSONRPC, 0},
                  {"lsp", IDEM_PROFILE_LSP, 0},
                  {"mcp", IDEM_PROFILE_MCP, 0},
                  {"mcp-2025-11-25", IDEM_PROFILE_MCP, IDEM_MCP_2025_11_25},
                  {"mcp-2026-07-28", IDEM_PROFILE_MCP, IDEM_MCP_2026_07_28}};
  for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
    if (strcmp(profiles[i].name, value) != 0) continue;
    parsed->profile = profiles[i].profile;
    parsed->revisions = profiles[i].revisions;
    return true;
  }
  return false;
}

static bool set_framing(options *parsed, const char *value) {
  parsed->framing_given = true;
  if (strcmp(value, "line") == 0)
    parsed->framing = IDEM_FRAMING_LINE;
  else if (strcmp(value, "content-length") == 0)
    parsed->framing = IDEM_FRAMING_CONTENT_LENGTH;
  else
    return false;
  return true;
}

static bool set_codes(options *parsed, const char *value) {
  bool own = strcmp(value, "erlmcp") == 0;
  parsed->codes = own ? IDEM_CODES_ERLMCP : IDEM_CODES_STANDARD;
  return own || strcmp(value, "standard") == 0;
}

bool add_url(options *parsed, const char *scheme, const char *rest) {
  if (parsed->url_count == REFERENCE_URLS) return false;
  size_t size = strlen(scheme) + strlen(rest) + 1;
  char *url = malloc(size);
  if (!url) return false;
  snprintf(url, size, "%s%s", scheme, rest);
  parsed->urls[parsed->url_count++] = url;
  return true;
}

static bool is_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits < 6 && !text[digits] && strtoul(text, NULL, 10) <= 65535;
}

/* A port alone is this machine's, as it is for idem. */
bool add_address(options *parsed, const char *scheme, const char *address) {
  char local[32];
  const char *colon = strrchr(address, ':');
  if (!is_port(colon ? colon + 1 : address)) return false;
  snprintf(local, sizeof local, "localhost:%.5s", address);
  return add_url(parsed, scheme, colon ? address : local);
}

static bool add_stdio(options *parsed, const char *value) {
  (void)value;
  return add_url(parsed, "stdio:", "");
}
static bool add_tcp(options *parsed, const char *value) {
  return add_address(parsed, "tcp://", value);
}
static bool add_unix(options *parsed, const char *value) {
  return *value && add_url(parsed, "unix:", value);
}

static bool set_level(options *parsed, const char *value) {
  return idem_log_level_parse(value, strlen(value), &parsed->log.level);
}

static bool set_format(options *parsed, const char *value) {
  if (strcmp(value, "text") == 0)
    parsed->log.format = IDEM_LOG_TEXT;
  else if (strcmp(value, "json") == 0)
    parsed->log.format = IDEM_LOG_JSON;
  else
    return false;
  return true;
}

static bool set_no_color(options *parsed, const char *value) {
  (void)value;
  return parsed->log.no_color = true;
}

static bool set_shutdown_ends(options *parsed, const char *value) {
  (void)value;
  return parsed->shutdown_ends_server = true;
}

static bool parse_count(const char *value, unsigned long *count) {
  char *end;
  errno = 0;
  *count = strtoul(value, &end, 10);
  return errno == 0 && *value >= '0' && *value <= '9' && *end == 0 && *count > 0;
}

static bool set_max_connections(options *parsed, const char *value) {
  unsigned long count;
  if (!parse_count(value, &count)) return false;
  parsed->max_connections = count;
  return true;
}

static bool set_client_connections(options *parsed, const char *value) {
  unsigned long count;
  if (!parse_count(value, &count)) return false;
  parsed->client_connections = count;
  return true;
}

static bool set_first(options *parsed, const char *value) {
  unsigned long count;
  if (!parse_count(value, &count)) return false;
  parsed->http.first_ms = count;
  return true;
}

static bool set_grace(options *parsed, const char *value) {
  unsigned long count;
  if (!parse_count(value, &count)) return false;
  parsed->grace_ms = count;
  return true;
}

static const struct flag {
  const char *name;
  bool takes_value;
  option_fn set;
} flags[] = {
    {"--profile", true, set_profile},
    {"--framing", true, set_framing},
    {"--codes", true, set_codes},
    {"--stdio", false, add_stdio},
    {"--tcp", true, add_tcp},
    {"--unix", true, add_unix},
    {"--max-connections", true, set_max_connections},
    {"--client-connections", true, set_client_connections},
    {"--first-ms", true, set_first},
    {"--grace-ms", true, set_grace},
    {"--shutdown-ends-server", false, set_shutdown_ends},
    {"--log-level", true, set_level},
    {"--log-format", true, set_format},
    {"--no-color", false, set_no_color},
    {"--http", true, add_http},
    {"--ws", true, add_ws},
    {"--admin", true, add_admin},
    {"--workers", true, set_workers},
    {"--token-file", true, set_token_file},
    {"--rate-limit", true, set_rate_limit},
    {"--trusted-proxy", true, add_trusted_proxy},
    {"--client-header", true, set_client_header},
    {"--allow-host", true, add_allow_host},
    {"--allow-origin", true, add_allow_origin},
    {"--access-log", false, set_access_log},
    {"--https", true, add_https},
    {"--wss", true, add_wss},
    {"--tls", true, add_tls},
    {"--tls-cert", true, set_tls_cert},
    {"--tls-key", true, set_tls_key},
    {"--tls-client-ca", true, set_tls_client_ca},
    {"--issuer", true, add_issuer},
    {"--jwks", true, set_jwks_url},
    {"--jwks-file", true, set_jwks_file},
    {"--resource", true, set_resource},
    {"--audience", true, set_audience},
    {"--scope", true, set_scope},
    {"--principal", true, set_principal_claim},
    {"--introspection", true, set_introspection},
    {"--introspection-client", true, set_introspection_client},
};

/* ------------------------------------------------------------------------------- the walk */

static bool complain(const char *what, const char *about) {
  fprintf(stderr, "idem-reference: %s: %s\ntry: idem-reference --help\n", what, about);
  return false;
}

/* "--name value" or "--name=value". */
static const struct flag *find_flag(const char *text, const char **value) {
  size_t len = strcspn(text, "=");
  *value = text[len] ? text + len + 1 : NULL;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (strlen(flags[i].name) == len && strncmp(flags[i].name, text, len) == 0) return &flags[i];
  }
  return NULL;
}

static bool parse_one(options *parsed, char **argv, int *index) {
  const char *text = argv[*index], *value;
  const struct flag *flag = find_flag(text, &value);
  if (!flag) return complain("unknown flag", text);
  if (!flag->takes_value && value) return complain("this flag takes no value", text);
  if (flag->takes_value && !value) value = argv[++*index];
  if (flag->takes_value && !value) return complain("a value is missing after", text);
  errno = 0;
  if (flag->set(parsed, value)) return true;
  return errno && flag->set == set_token_file ? complain(strerror(errno), value)
                                              : complain("not a value for this flag", text);
}

static bool print_only(const char *text) {
  if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)
    fputs(help_text, stdout);
  else if (strcmp(text, "--version") == 0 || strcmp(text, "-V") == 0)
    printf("idem-reference %s\n", idem_version());
  else
    return false;
  return true;
}

bool options_parse(options *parsed, int argc, char **argv, int *code) {
  *parsed = (options){.log = {.level = IDEM_LOG_INFO}};
  *code = USAGE;
  for (int i = 1; i < argc; i++) {
    if (print_only(argv[i])) {
      *code = fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
      return false;
    }
    if (!parse_one(parsed, argv, &i)) return false;
  }
  if (!settle_auth(parsed))
    return complain("whose tokens are taken is not said", "--issuer or --introspection");
  *code = 1;
  if (!settle_http(parsed)) return complain("cannot start", "no memory");
  return parsed->url_count > 0 || add_stdio(parsed, NULL);
}

void options_free(options *parsed) {
  for (size_t i = 0; i < parsed->url_count; i++) free(parsed->urls[i]);
  free(parsed->token_text);
}
