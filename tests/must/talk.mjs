// talk.mjs - a client for probes: any revision of MCP, on stdin and stdout or over HTTP, that sends what it is told
// to and forgives nothing. What came before an answer is kept beside it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import http from "node:http";
import { saw } from "./schemas.mjs";

export const MODERN = "2026-07-28";
const KEY = "io.modelcontextprotocol/";
const PATIENCE = 60000;

export const meta = (caps = {}, more = {}) => ({
  [KEY + "protocolVersion"]: MODERN,
  [KEY + "clientCapabilities"]: caps,
  ...more,
});

function late(what) {
  let timer;
  const over = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${PATIENCE / 1000} s`)), PATIENCE);
  });
  return { over, stop: () => clearTimeout(timer) };
}

async function within(promise, what) {
  const { over, stop } = late(what);
  try {
    return await Promise.race([promise, over]);
  } finally {
    stop();
  }
}

// ------------------------------------------------------------------ stdin and stdout

export class Line {
  constructor(command) {
    this.kind = "stdio";
    this.child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] });
    this.ended = once(this.child, "exit");
    this.lines = [];
    this.messages = [];
    this.waiting = [];
    this.methods = new Map(); // of what was asked, by id
    createInterface({ input: this.child.stdout }).on("line", (line) => this.take(line));
    this.child.stdin.on("error", () => {});
  }
  take(line) {
    this.lines.push(line);
    const message = JSON.parse(line); // what is no JSON ends the test
    this.messages.push(message);
    saw(this.revision ?? MODERN, message, this.methods.get(JSON.stringify(message.id)));
    if (message.method && "id" in message) this.onRequest?.(message);
    for (const wait of this.waiting.splice(0)) wait();
  }
  write(text) {
    this.child.stdin.write(text);
  }
  send(message) {
    if (message.method) this.methods.set(JSON.stringify(message.id), message.method);
    this.write((typeof message === "string" ? message : JSON.stringify(message)) + "\n");
  }
  // The first message from `from` on that fits.
  async find(fits, from = 0, what = "message") {
    const look = async () => {
      for (let at = from; ; at++) {
        while (at >= this.messages.length) await new Promise((resolve) => this.waiting.push(resolve));
        if (fits(this.messages[at])) return { message: this.messages[at], at };
      }
    };
    return within(look(), what);
  }
  async exchange(message, id) {
    const from = this.messages.length;
    this.send(message);
    const fits = (one) => !one.method && JSON.stringify(one.id) === JSON.stringify(id);
    const { message: answer, at } = await this.find(fits, from, `answer to ${id}`);
    return { answer, before: this.messages.slice(from, at), raw: this.lines[at] };
  }
  async close() {
    this.child.stdin.end();
    const [code] = await within(this.ended, "end of the server");
    return code;
  }
}

// ----------------------------------------------------------------------------- HTTP

export function request(url, { method = "POST", headers = {}, body, onEvent } = {}) {
  const asked = new Promise((resolve, reject) => {
    const sent = http.request(url, { method, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        text += piece;
        onEvent?.(text, sent);
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
  return within(asked, "HTTP response");
}

export const events = (text) =>
  text
    .split("\n\n")
    .map((block) => ({
      id: /^id: ?(.*)$/m.exec(block)?.[1],
      data: [...block.matchAll(/^data: ?(.*)$/gm)].map((found) => found[1]).join("\n"),
    }))
    .filter((event) => event.data);

const messagesOf = ({ headers, text }) => {
  if (!text) return [];
  if (headers["content-type"]?.startsWith("text/event-stream")) return events(text).map(({ data }) => JSON.parse(data));
  const body = JSON.parse(text);
  return Array.isArray(body) ? body : [body];
};

const NAMED = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/cancel": "taskId", "tasks/update": "taskId" };

export class Web {
  constructor(url) {
    this.kind = "http";
    this.url = url;
    this.headers = {};
  }
  standard(message) {
    const all = { "content-type": "application/json", accept: "application/json, text/event-stream", ...this.headers };
    if (this.revision !== MODERN) return all;
    all["mcp-protocol-version"] = MODERN;
    if (message?.method) all["mcp-method"] = message.method;
    const name = message?.params?.[NAMED[message.method]];
    if (typeof name === "string") all["mcp-name"] = name;
    return all;
  }
  async post(message, headers = {}) {
    const body = typeof message === "string" ? message : JSON.stringify(message);
    const all = { ...this.standard(typeof message === "string" ? undefined : message), ...headers };
    for (const name of Object.keys(all)) if (all[name] === null) delete all[name];
    let seen = 0;
    const onEvent = (text) => {
      if (!text.includes("data:")) return;
      const whole = events(text.slice(0, text.lastIndexOf("\n\n") + 2));
      for (const { data } of whole.slice(seen)) {
        const one = JSON.parse(data);
        if (one.method && "id" in one) this.onRequest?.(one);
      }
      seen = whole.length;
    };
    return request(this.url, { headers: all, body, onEvent });
  }
  send(message) {
    return this.post(message);
  }
  async exchange(message, id, headers) {
    const response = await this.post(message, headers);
    const all = messagesOf(response);
    for (const one of all) saw(this.revision, one, JSON.stringify(one.id) === JSON.stringify(message.id) ? message.method : undefined);
    const at = all.findIndex((one) => !one.method && JSON.stringify(one.id) === JSON.stringify(id));
    const answer = at < 0 ? all.at(-1) : all[at];
    return { ...response, answer, before: at < 0 ? [] : all.slice(0, at), raw: response.text };
  }
  get(headers = {}) {
    return request(this.url, { method: "GET", headers: { accept: "text/event-stream", ...this.headers, ...headers } });
  }
  async close() {
    return 0;
  }
}

// ----------------------------------------------------------------------------- a peer

export class Peer {
  constructor(wire, revision, caps = {}) {
    Object.assign(this, { wire, revision, caps, count: 100 });
    wire.revision = revision;
    this.asked = [];
    wire.onRequest = (question) => {
      this.asked.push(question);
      const reply = this.answers?.(question) ?? { error: { code: -32601, message: "no" } };
      wire.send({ jsonrpc: "2.0", id: question.id, ...reply });
    };
  }
  get modern() {
    return this.revision === MODERN;
  }
  static async open(wire, revision, caps = {}) {
    const peer = new Peer(wire, revision, caps);
    if (peer.modern) return peer;
    const params = { protocolVersion: revision, capabilities: caps, clientInfo: { name: "probe", version: "1" } };
    const hello = await wire.exchange({ jsonrpc: "2.0", id: 0, method: "initialize", params }, 0);
    peer.hello = hello.answer.result;
    if (wire.kind === "http") {
      wire.headers["mcp-session-id"] = hello.headers["mcp-session-id"];
      if (revision >= "2025-06-18") wire.headers["mcp-protocol-version"] = revision;
    }
    await wire.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return peer;
  }
  params(given = {}, caps = this.caps) {
    return this.modern ? { ...given, _meta: { ...meta(caps), ...given._meta } } : given;
  }
  message(method, given, id = ++this.count, caps) {
    return { jsonrpc: "2.0", id, method, params: this.params(given, caps) };
  }
  // Sends a request; { answer, before, status, headers, raw }.
  ask(method, given = {}, { id = ++this.count, caps, headers } = {}) {
    return this.wire.exchange(this.message(method, given, id, caps), id, headers);
  }
  async result(method, given, options) {
    const { answer } = await this.ask(method, given, options);
    if (!answer.result) throw new Error(`${method}: ${JSON.stringify(answer)}`);
    return answer.result;
  }
  async error(method, given, options) {
    const { answer } = await this.ask(method, given, options);
    if (!answer.error) throw new Error(`${method} was not refused: ${JSON.stringify(answer)}`);
    return answer.error;
  }
  call(name, args, options) {
    return this.ask("tools/call", args === undefined ? { name } : { name, arguments: args }, options);
  }
}
