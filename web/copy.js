// copy.js - a call to take along: as curl, as `idem call`, as TypeScript, as C. What a server or a person wrote is data in each of
// them: a word of the shell, a literal of the language, and in no comment.
import { headerValue, paramHeaders, NEWEST } from './mcp.js';
import { isObject, resolve } from './schema.js';

const addressOf = (app) => new URL(app.client.url, location.href).href;

// ------------------------------------------------------------------------------- shells

const BARE_WORD = /^[A-Za-z0-9_%+:,./-][A-Za-z0-9_%+:,./=-]*$/;
const shellWord = (text) => (BARE_WORD.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
const shellLines = (words) => (words.join(' ').length < 100 ? words.join(' ') : words.join(' \\\n  '));

export function asCurl(app, tool, args) {
  const lines = [`curl -s ${shellWord(addressOf(app))}`, `-H 'Content-Type: application/json'`, `-H 'Accept: application/json, text/event-stream'`];
  if (app.client.token) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  lines.push(`-H 'MCP-Protocol-Version: ${NEWEST}'`, `-H 'Mcp-Method: tools/call'`, `-H ${shellWord('Mcp-Name: ' + headerValue(tool.name))}`);
  for (const [name, value] of Object.entries(paramHeaders(tool.inputSchema, args))) lines.push(`-H ${shellWord(`${name}: ${value}`)}`);
  const meta = { 'io.modelcontextprotocol/protocolVersion': NEWEST, 'io.modelcontextprotocol/clientCapabilities': {} };
  lines.push(`-d ${shellWord(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool.name, arguments: args, _meta: meta } }))}`);
  return lines.join(' \\\n  ');
}

// name=value where the tool's schema makes the same value of that text again, else name:=JSON. (A text that begins with @ would
// be the name of a file.)
function argumentWord(name, value, schema) {
  const type = resolve(schema.properties[name], schema).type;
  const isText = type === 'string' && typeof value === 'string' && !/^@|\0/.test(value) && value.isWellFormed?.() !== false;
  const isNumber = (type === 'integer' || type === 'number') && /^-?\d{1,15}(\.\d{1,15})?$/.test(String(value));
  const isTruth = type === 'boolean' && typeof value === 'boolean';
  return isText || isNumber || isTruth ? `${name}=${value}` : `${name}:=${JSON.stringify(value)}`;
}

export function asIdemCall(app, tool, args) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : {};
  const isWord = (name) => /^[A-Za-z_][\w.-]*$/.test(name) && isObject(schema.properties) && Object.hasOwn(schema.properties, name);
  const words = ['idem call', shellWord(addressOf(app))];
  if (app.client.revision !== NEWEST) words.push(`--revision ${app.client.revision}`);
  if (app.client.token) words.push(`-H "Authorization: Bearer $TOKEN"`);
  if (!tool.name || tool.name[0] === '-') words.push('--method tools/call', `-d ${shellWord(JSON.stringify({ name: tool.name, arguments: args }))}`);
  else if (Object.keys(args).every(isWord)) words.push(shellWord(tool.name), ...Object.keys(args).map((name) => shellWord(argumentWord(name, args[name], schema))));
  else words.push(shellWord(tool.name), `-d ${shellWord(JSON.stringify(args))}`);
  return shellLines(words);
}

// ---------------------------------------------------------------------------- TypeScript

export function asTypeScript(app, tool, args) {
  const options = app.client.token ? ', {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },\n}' : '';
  return ["import { Client } from '@modelcontextprotocol/sdk/client/index.js';",
    "import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';", '',
    "const client = new Client({ name: 'my-program', version: '1.0.0' });",
    `await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(addressOf(app))})${options}));`,
    `const result = await client.callTool({ name: ${JSON.stringify(tool.name)}, arguments: ${JSON.stringify(args, null, 2)} });`,
    'console.log(result);', 'await client.close();', ''].join('\n');
}

// ------------------------------------------------------------------------------------- C

// A byte as a string literal may hold it: in three octal digits where it is no plain sign, so that what follows cannot be taken for
// one of them; ? since two of them may begin a trigraph.
const literalByte = (byte) => (byte === 34 || byte === 92 || byte === 63 ? '\\' + String.fromCharCode(byte)
  : byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '\\' + byte.toString(8).padStart(3, '0'));

function literal(text, indent) {
  const lines = [''];
  for (const byte of new TextEncoder().encode(text)) {
    if (lines.at(-1).length > 84) lines.push('');
    lines[lines.length - 1] += literalByte(byte);
  }
  return lines.map((line) => `"${line}"`).join(`\n${' '.repeat(indent)}`);
}

export function asC(app, tool, args) {
  const token = app.client.token;
  const options = token ? `  idem_client_opts wire = {.token = getenv("TOKEN")};
  idem_mcp_client_opts opts = {.wire = &wire};
` : '';
  return `/* cc call.c $(pkg-config --cflags --libs idem-uv) -o call && ./call */
${token ? '#include <idem/http.h>\n' : ''}#include <idem/mcp_client.h>
#include <stdio.h>
${token ? '#include <stdlib.h>\n' : ''}#include <string.h>
#include <uv.h>

static const char url[] = ${literal(addressOf(app), 4)};
static const char tool[] = ${literal(tool.name, 4)};
static const char arguments[] =
    ${literal(JSON.stringify(args), 4)};

static void on_answer(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  int *code = user;
  size_t index, count;
  yyjson_val *block;
  *code = result->status == IDEM_OK && !result->is_error ? 0 : 1;
  yyjson_arr_foreach(result->content, index, count, block) {
    const char *text = yyjson_get_str(yyjson_obj_get(block, "text"));
    if (text) printf("%s\\n", text);
  }
  if (result->status != IDEM_OK)
    fprintf(stderr, "%s: %.*s\\n", idem_status_text(result->status), (int)result->message_len,
            result->message ? result->message : "");
  idem_mcp_client_close(client);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  if (status != IDEM_OK) {
    fprintf(stderr, "cannot connect: %s\\n", idem_mcp_client_trouble(client).text);
    return;
  }
  status = idem_mcp_call_tool_json(client, tool, arguments, strlen(arguments), NULL, on_answer,
                                   user, NULL);
  if (status == IDEM_OK) return;
  fprintf(stderr, "cannot call: %s\\n", idem_status_text(status));
  idem_mcp_client_close(client);
}

int main(void) {
  int code = 1;
  uv_loop_t *loop = uv_default_loop();
${options}  idem_status status = idem_mcp_connect(loop, url, ${token ? '&opts' : 'NULL'}, on_ready, &code, NULL);
  if (status != IDEM_OK) fprintf(stderr, "cannot connect: %s\\n", idem_status_text(status));
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);
  return code;
}
`;
}
