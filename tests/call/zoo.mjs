// zoo.mjs KIND - servers that misbehave, each in one way: on stdin and stdout, or (http-KIND) at a URL that is printed.
import { createServer } from "node:http";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { writeFileSync, writeSync } from "node:fs";

const kind = process.argv[2];
const evil = "\x1b[2J\x1b]0;owned\x07\u202eelif\u2069";
const tool = (name, inputSchema = { type: "object" }) => ({ name, description: `about ${evil}`, inputSchema });

function result(message) {
  switch (message.method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {}, prompts: {} }, serverInfo: { name: `zoo${kind === "escapes" ? evil : ""}`, version: "1" } };
    case "tools/list":
      if (kind === "endless-pages") return { tools: [tool(`t${Math.random()}`)], nextCursor: `${Math.random()}` };
      if (kind === "output-bomb") return { tools: [{ ...tool("go"), outputSchema: { type: "object", properties: { a: { pattern: "^(a+)+$", $ref: "#/properties/a" } }, $defs: { x: { $ref: "https://evil.example/x" } } } }] };
      return { tools: [tool("go"), tool("bomb", bomb()), ...(kind === "escapes" ? [tool("gone\x1bc")] : [])] };
    case "prompts/list":
      return { prompts: [{ name: "p" }] };
    case "prompts/get":
      return { messages: [{ role: "user", content: [{ type: "text", text: "" }, { type: "text", text: "" }] }, { role: "assistant", content: { type: "text", text: "well" } }] };
    case "tools/call":
      if (kind === "output-bomb") return { content: [{ type: "text", text: "well" }], structuredContent: { a: "a".repeat(5000) + "!" } };
      if (kind === "many-files") return { content: Array(2000).fill({ type: "image", mimeType: "image/png", data: "AAAA" }) };
      return { content: [{ type: "text", text: kind === "escapes" ? evil : "well" }] };
    default:
      return {};
  }
}

// A schema that is deep and wide beyond any need.
function bomb() {
  let schema = { type: "string" };
  for (let i = 0; i < (kind === "bomb" ? 90 : 0); i++) schema = { anyOf: [{ not: schema }, { type: "object", properties: { a: schema.anyOf ? {} : schema } }] };
  return { type: "object", properties: { a: schema } };
}

const put = (text) => { for (let at = 0; at < text.length; ) at += writeAll(text.slice(at, at + 65536)); };
function writeAll(piece) {
  const bytes = Buffer.from(piece);
  for (let at = 0; at < bytes.length; ) {
    try { at += writeSync(1, bytes, at); } catch (error) { if (error.code !== "EAGAIN") process.exit(0); }
  }
  return piece.length;
}
const send = (message) => put(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const answer = (message) => send({ id: message.id, result: result(message) });

const acts = {
  stray(message) { put("server is starting up...\n"); answer(message); put(`${evil}\n`); },
  "wrong-ids"(message) { send({ id: 99999, result: {} }); send({ id: null, result: {} }); send({ id: "x", error: { code: 1, message: "no" } }); answer(message); answer(message); send({ result: {} }); },
  "text-ids"(message) { send({ id: `${message.id}`, result: result(message) }); },
  "text-id"(message) { message.method === "tools/call" ? send({ id: `${message.id}`, result: result(message) }) : answer(message); },
  null(message) { message.method === "tools/call" ? put("null\n[]\n[[]]\n7\n") : 0; answer(message); },
  "ignores-term": answer,
  "answers-notifications"(message) { answer(message); },
  refuses(message) { message.method === "tools/call" ? send({ id: message.id, error: { code: -32000, message: `no: ${evil}`, data: { evil } } }) : answer(message); },
  silent() {},
  "silent-call"(message) { message.method === "tools/call" ? console.error("waiting for the printer") : answer(message); },
  dies(message) { if (message.method === "tools/call") { console.error("out of paper"); process.exit(7); } answer(message); },
  huge(message) {
    if (message.method !== "tools/call") return answer(message);
    put(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[{"type":"text","text":"`);
    const piece = "x".repeat(1 << 20);
    for (let i = 0; i < 100; i++) put(piece);
    put('"}]}}\n');
  },
  "endless-progress"(message) {
    if (message.method !== "tools/call") return answer(message);
    let n = 0;
    setInterval(() => send({ method: "notifications/progress", params: { progressToken: message.params?._meta?.progressToken, progress: ++n, message: evil } }), 5);
  },
  "late-progress"(message) { answer(message); send({ method: "notifications/progress", params: { progressToken: message.params?._meta?.progressToken ?? 0, progress: 1 } }); },
  "holds-pipe"(message) {
    if (message.method !== "tools/call") return answer(message);
    spawn("sleep", ["20"], { stdio: ["ignore", "inherit", "inherit"], detached: true }).unref();
    process.exit(0);
  },
  // Asks while the call waits, and tells what was answered.
  "asks-secret"(message) {
    if (message.method !== "tools/call") return answer(message);
    ask(message, { message: "Who?", requestedSchema: { type: "object", properties: { password: { type: "string" } }, required: ["password"] } },
      (said) => `length ${said?.content?.password?.length}`);
  },
  "asks-url"(message) {
    if (message.method !== "tools/call") return answer(message);
    ask(message, { mode: "url", elicitationId: "e", message: "Visit", url: "https://example.org/a/long/path?with=everything&token=\u202ex" }, (said) => `action ${said?.action}`);
  },
  // Does nothing before its user has been somewhere (2025-11-25), and says when that is so; or never does.
  "wants-address"(message) {
    if (message.method !== "tools/call" || visits++) return answer(message);
    send({ id: message.id, error: { code: -32042, message: "go there first", data: { elicitations: [{ mode: "url", elicitationId: "e", message: "Log in", url: "https://example.org/login" }] } } });
    setTimeout(() => send({ method: "notifications/elicitation/complete", params: { elicitationId: "e" } }), 300);
  },
  "wants-address-always"(message) {
    if (message.method !== "tools/call") return answer(message);
    send({ id: message.id, error: { code: -32042, message: "go there first", data: { elicitations: [{ mode: "url", elicitationId: "e", message: "Log in", url: "https://example.org/login" }] } } });
    send({ method: "notifications/elicitation/complete", params: { elicitationId: "e" } });
  },
  // Whatever is answered, it asks again.
  "asks-forever"(message) {
    if (message.method !== "tools/call") return answer(message);
    for (let n = 1; n < 100; n++) asked.set(`q${n}`, () => again(n + 1));
    const again = (n) => send({ id: `q${n}`, method: "elicitation/create", params: { message: `question ${n}`, requestedSchema: { type: "object", properties: { a: { type: "string" } } } } });
    again(1);
  },
  steps(message) {
    if (message.method !== "tools/call") return answer(message);
    let n = 0;
    const timer = setInterval(() => {
      send({ method: "notifications/progress", params: { progressToken: message.params._meta.progressToken, progress: ++n, total: 4, message: `step ${evil}` } });
      if (n === 4) { clearInterval(timer); answer(message); }
    }, 100);
  },
  "tells-cancel"(message) {
    if (message.method === "tools/call") send({ method: "notifications/message", params: { level: "warning", data: "the call is here" } });
    else answer(message);
  },
  "garbage"(message) { if (message.method === "tools/call") put("\0\x01\xff{{{{\n".repeat(3)); answer(message); },
  // Older when asked first, newer from the first call on; and the other way round.
  "changes-era"(message) { message.method === "tools/call" ? send({ id: message.id, error: { code: -32022, message: "speak 2026-07-28", data: { supported: ["2026-07-28"], requested: "2025-11-25" } } }) : answer(message); },
  "changes-era-quietly"(message) { message.method === "tools/call" ? send({ id: message.id, result: { resultType: "input_required", inputRequests: { a: { method: "roots/list" } }, requestState: evil } }) : answer(message); },
  "becomes-older"(message) {
    if (message.method === "server/discover" && kind !== "becomes-older") return send({ id: message.id, result: { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, ttlMs: 0, cacheScope: "public" } });
    if (message.method !== "tools/call") return answer(message);
    send({ id: "q", method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } });
    send({ id: message.id, error: { code: -32002, message: "Server not initialized" } });
  },
  "output-bomb"(message) { answer(message); },
  "repeats"(message) { for (let i = 0; i < 1000; i++) answer(message); },
  "endless-line"(message) { if (message.method !== "tools/call") return answer(message); for (;;) put("x".repeat(1 << 20)); },
  "bad-result"(message) { message.method === "tools/call" ? send({ id: message.id, result: 7 }) : answer(message); },
};
acts["tells-cancel-stays"] = acts["tells-cancel"];
const act = acts[kind] ?? answer;
const stays = kind === "ignores-term" || kind === "tells-cancel-stays";

let visits = 0;
const asked = new Map();
function ask(message, params, told) {
  asked.set("q1", (said) => send({ id: message.id, result: { content: [{ type: "text", text: told(said) }] } }));
  send({ id: "q1", method: "elicitation/create", params });
}

if (kind.startsWith("http-")) {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => visit(request, response, body));
  });
  server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`));
} else {
  if (stays) for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => {});
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const message = JSON.parse(line);
    if (!message.method) return asked.get(message.id)?.(message.result ?? message.error);
    if (message.method === "server/discover") return send({ id: message.id, error: { code: -32601, message: "Method not found" } });
    if (message.method === "notifications/cancelled") return writeFileSync("told", "");
    if (message.id !== undefined || kind === "answers-notifications") act(message);
  });
  lines.on("close", () => { if (!stays) process.exit(0); });
  if (stays) setInterval(() => {}, 1000);
}

function visit(request, response, body) {
  const message = body ? JSON.parse(body) : {};
  const json = (value, status = 200) => { response.writeHead(status, { "Content-Type": "application/json" }); response.end(JSON.stringify(value)); };
  const about = () => json({ jsonrpc: "2.0", id: message.id, result: result(message) });
  if (kind === "http-circle") { response.writeHead(307, { Location: request.url === "/mcp" ? "/elsewhere" : "/mcp" }); return response.end(); }
  if (kind === "http-404") { response.writeHead(404); return response.end(`<html>${evil}`); }
  if (kind === "http-500") { response.writeHead(500); return response.end("oops"); }
  if (kind === "http-away") { response.writeHead(307, { Location: "http://127.0.0.2:1/mcp" }); return response.end(); }
  if (kind === "http-repeats-token" && message.method === "tools/call") {
    const said = request.headers.authorization;
    return json({ jsonrpc: "2.0", id: message.id, error: { code: -32000, message: `who is ${said}?`, data: { said } } });
  }
  if (kind === "http-401") { response.writeHead(401, { "WWW-Authenticate": "Bearer" }); return response.end(); }
  if (kind === "http-hint") return json({ jsonrpc: "2.0", id: null, error: { code: -32600, message: "no", data: { reason: `forbidden-${evil}`, hint: "knock twice" } } }, 403);
  if (kind === "http-hint-later" && message.method === "tools/call") return json({ jsonrpc: "2.0", id: message.id, error: { code: -32000, message: "no", data: { reason: "asleep", hint: "knock twice" } } });
  if (kind === "http-html") { response.writeHead(200, { "Content-Type": "text/html" }); return response.end("<html>welcome"); }
  if (request.method === "GET") { response.writeHead(405); return response.end(); }
  if (request.method === "DELETE") { response.writeHead(200); return response.end(); }
  if (message.method === "initialize" && kind === "http-loses-sessions") response.setHeader("Mcp-Session-Id", `s${Math.random()}`);
  if (message.method === "server/discover") return json({ jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "Method not found" } }, 404);
  if (message.id === undefined) { response.writeHead(202); return response.end(); }
  if (message.method !== "tools/call") return about();
  if (kind === "http-changes-era") return json({ jsonrpc: "2.0", id: message.id, error: { code: -32022, message: "speak 2026-07-28", data: { supported: ["2026-07-28"] } } }, 400);
  if (kind === "http-loses-sessions") { response.writeHead(404); return response.end(); }
  if (kind === "http-events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    setInterval(() => response.write(`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}\n\n`), 20);
    return;
  }
  if (kind === "http-drip") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    setInterval(() => response.write(":"), 50);
    return;
  }
  if (kind === "http-huge") {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.write(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[{"type":"text","text":"`);
    let left = 100;
    const more = () => { while (left-- > 0) if (!response.write("x".repeat(1 << 20))) return response.once("drain", more); response.end('"}]}}'); };
    return more();
  }
  if (kind === "http-cut") { response.writeHead(200, { "Content-Type": "application/json", "Content-Length": 1000 }); response.write('{"jsonrpc"'); return setTimeout(() => response.destroy(), 50); }
  about();
}
