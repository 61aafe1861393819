// changing.mjs HOW [http] - a server whose tools change, and that refuses calls in one way or another. Each call that reaches it is a
// line in the file "runs", each question for its tools one in "lists". The file "state" is read anew for every message:
// {"tools": {NAME: {x: TYPE}}, "ttl": MS, "answer": what tools/call gets}. HOW: the revision.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { appendFileSync, readFileSync } from "node:fs";

const [, , revision, web] = process.argv;
const modern = revision === "2026-07-28";
const state = () => JSON.parse(readFileSync("state", "utf8"));
const complete = (members) => ({ ...(modern ? { resultType: "complete" } : {}), ...members });
const error = (code, message, data) => ({ error: { code, message, ...(data ? { data } : {}) } });

function list({ tools, ttl }) {
  appendFileSync("lists", "list\n");
  const made = Object.entries(tools).map(([name, args]) => ({
    name, inputSchema: { type: "object", required: Object.keys(args), properties: Object.fromEntries(Object.entries(args).map(([key, type]) => [key, { type }])) } }));
  return { result: complete({ tools: made, ...(modern ? { ttlMs: ttl ?? 60000, cacheScope: "private" } : {}) }) };
}

// [HTTP status, answer]
function call({ tools, answer, refuse }, { name, arguments: given }) {
  if (answer) { appendFileSync("runs", "run\n"); return answer; }
  const failed = (text) => refuse === "error" ? [200, error(-32602, text)] : [200, { result: complete({ content: [{ type: "text", text }], isError: true }) }];
  if (!tools[name]) return failed(`Unknown tool: ${name}`);
  for (const [key, type] of Object.entries(tools[name]))
    if (typeof given[key] !== (type === "integer" ? "number" : type)) return failed(`Invalid arguments for tool ${name}: ${key}: expected ${type}`);
  appendFileSync("runs", "run\n");
  return [200, { result: complete({ content: [{ type: "text", text: `ran ${JSON.stringify(given)}` }] }) }];
}

function reply(message) {
  const now = state();
  switch (message.method) {
    case "server/discover":
      if (!modern) return [400, error(-32601, "Method not found")];
      return [200, { result: complete({ supportedVersions: [revision], capabilities: { tools: {} }, ttlMs: 0, cacheScope: "private" }) }];
    case "initialize":
      if (modern) return [400, error(-32022, "Unsupported protocol version", { supported: [revision] })];
      return [200, { result: { protocolVersion: revision, capabilities: { tools: {} }, serverInfo: { name: "changing", version: "1" } } }];
    case "tools/list": return [200, list(now)];
    case "tools/call": return call(now, message.params);
    default: return [200, { result: complete({}) }];
  }
}

if (web) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => {
      const message = body ? JSON.parse(body) : {};
      if (request.method !== "POST") { response.writeHead(405); return response.end(); }
      if (message.id === undefined) { response.writeHead(202); return response.end(); }
      const [status, answer] = reply(message);
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...answer }));
    });
  });
  server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
} else {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...reply(message)[1] }));
  }).on("close", () => process.exit(0));
}
