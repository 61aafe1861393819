// copy.js - a call to take along: as curl, as `idem call`, as TypeScript, as C. What a server or a person wrote is data in each of
// them: a word of the shell, a literal of the language, and in no comment.
import { headerValue, paramHeaders, NEWEST, TASKS } from './mcp.js';
import { isObject, resolve } from './schema.js';

const addressOf = (app) => new URL(app.client.url, location.href).href;

// ------------------------------------------------------------------------------- shells

const BARE_WORD = /^[A-Za-z0-9_%+:,./-][A-Za-z0-9_%+:,./=-]*$/;
const shellWord = (text) => (BARE_WORD.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
const shellLines = (words) => (words.join(' ').length < 100 ? words.join(' ') : words.join(' \\\n  '));

const JSON_HEADERS = [`-H 'Content-Type: application/json'`, `-H 'Accept: application/json, text/event-stream'`];
const tokenHeader = (app) => (app.client.token ? [`-H "Authorization: Bearer $TOKEN"`] : []);
const bodyOf = (message) => `-d ${shellWord(JSON.stringify({ jsonrpc: '2.0', ...message }))}`;

// A request of 2026-07-28 stands alone, and says with which headers and what of its client.
const metaOf = (app) => ({ 'io.modelcontextprotocol/protocolVersion': NEWEST, 'io.modelcontextprotocol/clientCapabilities': app.client.makesTasks ? { extensions: { [TASKS]: {} } } : {} });
const headersOf = (tool, args) => ({ 'Mcp-Method': 'tools/call', 'Mcp-Name': headerValue(tool.name), ...paramHeaders(tool.inputSchema, args) });
const VERSION_HEADER = `-H 'MCP-Protocol-Version: ${NEWEST}'`;

function asCurlAlone(app, tool, args) {
  const own = Object.entries(headersOf(tool, args)).map(([name, value]) => `-H ${shellWord(`${name}: ${value}`)}`);
  const body = bodyOf({ id: 1, method: 'tools/call', params: { name: tool.name, arguments: args, _meta: metaOf(app) } });
  if (app.client.makesTasks) return asCurlForTasks(app, own, body);
  return [`curl -s ${shellWord(addressOf(app))}`, ...JSON_HEADERS, ...tokenHeader(app), VERSION_HEADER, ...own, body].join(' \\\n  ');
}

// Whether a call becomes a task is its server's to say, call by call; then it is asked for until it has ended, or asks something.
function asCurlForTasks(app, own, body) {
  const look = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tasks/get', params: { taskId: '$task', _meta: metaOf(app) } }).replace('$task', `'"$task"'`);
  return ['(', `  url=${shellWord(addressOf(app))}`, '  ask() {', `    curl -s "$url" ${[...JSON_HEADERS, ...tokenHeader(app), VERSION_HEADER].join(' \\\n      ')} "$@"`, '  }',
    `  answer=$(ask ${own.join(' ')} \\\n    ${body})`,
    `  task=$(printf '%s\\n' "$answer" | sed -n '/"resultType": *"task"/s/.*"taskId": *"\\([^"]*\\)".*/\\1/p')`,
    '  while [ -n "$task" ]; do', '    sleep 1', `    answer=$(ask -H 'Mcp-Method: tasks/get' -H "Mcp-Name: $task" \\\n      -d '${look}')`,
    `    case $(printf '%s\\n' "$answer" | grep -o '"status": *"[^"]*"' | head -n 1) in`, '    *working*) ;;', '    *) task= ;;', '    esac', '  done',
    `  printf '%s\\n' "$answer"`, ')'].join('\n');
}

// An older one needs a session around it. (A server that gives none is fine, too: curl leaves out a header without a value.)
function asCurlInSession(app, tool, args, task) {
  const revision = app.client.revision;
  const version = revision >= '2025-06-18' ? ` -H 'MCP-Protocol-Version: ${revision}'` : '';
  const opening = { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'curl', version: '1' } };
  const call = bodyOf({ id: 2, method: 'tools/call', params: { name: tool.name, arguments: args, ...(task ? { task: {} } : {}) } });
  const outcome = `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"'"$task"'"}}`;
  return ['(', `  url=${shellWord(addressOf(app))}`, '  ask() {', `    curl -s "$url" ${[...JSON_HEADERS, ...tokenHeader(app)].join(' \\\n      ')} "$@"`, '  }',
    `  session=$(ask -D - -o /dev/null \\\n    ${bodyOf({ id: 1, method: 'initialize', params: opening })} |`,
    `    tr -d '\\r' | awk -F ': *' 'tolower($1) == "mcp-session-id" { print $2 }')`,
    `  set -- -H "Mcp-Session-Id: $session"${version}`,
    `  ask "$@" -o /dev/null ${bodyOf({ method: 'notifications/initialized' })}`,
    ...(task ? [`  task=$(ask "$@" ${call} |`, `    sed -n 's/.*"taskId": *"\\([^"]*\\)".*/\\1/p')`, `  ask "$@" -d '${outcome}'`] : [`  ask "$@" ${call}`]),
    '  ask "$@" -o /dev/null -X DELETE', ')'].join('\n');
}

export const asCurl = (app, tool, args, task) => (app.client.modern ? asCurlAlone : asCurlInSession)(app, tool, args, task);

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

// A value as source. (A member of this name would be the object's prototype.)
const source = (value) => JSON.stringify(value, null, 2).replace(/^( *)"__proto__":/gm, '$1["__proto__"]:');

// Tasks of 2025-11-25 are not among the SDK's own functions; its general one asks for them.
function taskLines(params) {
  return ["const anything = { '~standard': { version: 1 as const, vendor: 'my-program', validate: (value: unknown) => ({ value }) } };",
    `const created: any = await client.request({ method: 'tools/call', params: ${source({ ...params, task: {} })} }, anything);`,
    "const result = await client.request({ method: 'tasks/result', params: { taskId: created.task.taskId } }, anything);"];
}

// The SDK takes a task of 2026-07-28 for a fault; fetch does not.
function asFetch(app, tool, args) {
  const written = (value, indent) => source(value).replace(/\n/g, `\n${' '.repeat(indent)}`);
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': NEWEST };
  const token = app.client.token ? ', Authorization: `Bearer ${process.env.TOKEN}`' : '';
  return `const meta = ${written(metaOf(app), 0)};

async function ask(method: string, params: object, headers: Record<string, string>): Promise<any> {
  const response = await fetch(${JSON.stringify(addressOf(app))}, {
    method: 'POST',
    headers: { ...${written(headers, 4)}${token}, ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
  });
  const text = await response.text();
  const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream');
  const messages = isStream ? [...text.matchAll(/^data: ?(.+)$/gm)].map((line) => JSON.parse(line[1]!)) : [JSON.parse(text)];
  const answer = messages.find((message) => message.id === 1);
  if (!answer || answer.error) throw new Error(answer?.error.message ?? \`HTTP \${response.status}\`);
  return answer.result;
}

let result = await ask('tools/call', ${written({ name: tool.name, arguments: args }, 0)}, ${written(headersOf(tool, args), 0)});
if (result.resultType === 'task') {
  let task = result;
  while (task.status === 'working') {
    await new Promise((resolve) => setTimeout(resolve, task.pollIntervalMs ?? 1000));
    task = await ask('tasks/get', { taskId: task.taskId }, { 'Mcp-Method': 'tasks/get', 'Mcp-Name': task.taskId });
  }
  result = task.result ?? task.error ?? task;
}
console.log(result);
`;
}

export function asTypeScript(app, tool, args, task) {
  if (app.client.makesTasks) return asFetch(app, tool, args);
  const { token, revision, modern } = app.client;
  const wire = token ? ', {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },\n}' : '';
  const spoken = modern ? `versionNegotiation: { mode: { pin: '${revision}' } }` : `supportedProtocolVersions: ['${revision}']`;
  const params = { name: tool.name, arguments: args };
  return ['// npm install @modelcontextprotocol/client',
    "import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';", '',
    `const client = new Client({ name: 'my-program', version: '1.0.0' }, { ${spoken} });`,
    `const transport = new StreamableHTTPClientTransport(new URL(${JSON.stringify(addressOf(app))})${wire});`,
    'await client.connect(transport);',
    ...(task ? taskLines(params) : [`const result = await client.callTool(${source(params)});`]),
    'console.log(result);', ...(modern ? [] : ['await transport.terminateSession();']), 'await client.close();', ''].join('\n');
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

export function asC(app, tool, args, task) {
  const { token, revision, modern } = app.client;
  const wire = token ? `  idem_client_opts wire = {.token = getenv("TOKEN")};
` : '';
  const members = [`.revisions = IDEM_MCP_${revision.replace(/-/g, '_')}`, modern ? '.tasks = true' : '', token ? '.wire = &wire' : ''].filter(Boolean).join(', ');
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
${task ? '  idem_mcp_call_opts call = {.task = true};\n' : ''}  status = idem_mcp_call_tool_json(client, tool, arguments, strlen(arguments), ${task ? '&call' : 'NULL'}, on_answer,
                                   user, NULL);
  if (status == IDEM_OK) return;
  fprintf(stderr, "cannot call: %s\\n", idem_status_text(status));
  idem_mcp_client_close(client);
}

int main(void) {
  int code = 1;
  uv_loop_t *loop = uv_default_loop();
${wire}  idem_mcp_client_opts opts = {${members}};
  idem_status status = idem_mcp_connect(loop, url, &opts, on_ready, &code, NULL);
  if (status != IDEM_OK) fprintf(stderr, "cannot connect: %s\\n", idem_status_text(status));
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);
  return code;
}
`;
}
