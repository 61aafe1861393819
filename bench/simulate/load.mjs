// load.mjs - asks as fast as it is answered, on some connections, for some time; a process of its own, so that what it costs can be told apart. Forked; told
// {ports, open} it opens so many sessions, told {ports, connections, kind} it prepares, and says {ready}; told {seconds, most} it goes and says {requests, failed,
// cpuUs, seconds}. It ends when it is left.
import net from "node:net";

const META = "io.modelcontextprotocol/";
const modern = { [META + "protocolVersion"]: "2026-07-28", [META + "clientCapabilities"]: {} };
const call = (id, _meta) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "look", arguments: { n: 1 }, _meta } });
const hello = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "load", version: "1" } } };

function request(message, headers = "") {
  const body = JSON.stringify(message);
  return `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
}
const ofModern = (message) => request(message, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: look\r\n");

// One request after the other; `ask` resolves with the head of the answer.
class Line {
  constructor(port) {
    this.socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    this.text = "";
    this.socket.setEncoding("latin1").on("data", (piece) => this.take(piece));
    this.socket.on("error", () => {}).on("close", () => this.heard?.(null));
  }
  take(piece) {
    this.text += piece;
    const head = this.text.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = /content-length: (\d+)/i.exec(this.text.slice(0, head));
    const whole = length ? this.text.length >= head + 4 + Number(length[1]) : this.text.endsWith("\r\n0\r\n\r\n") || / 202 | 204 /.test(this.text.slice(0, 20));
    if (!whole) return;
    const answer = this.text;
    this.text = "";
    this.heard(answer);
  }
  ask(bytes) {
    return new Promise((resolve) => {
      this.heard = resolve;
      this.socket.write(bytes, "latin1");
    });
  }
}

// Each is asked once, long after it was opened.
const sessions = [];

async function openOne(line) {
  const session = /mcp-session-id: (\S+)/i.exec(await line.ask(request(hello)))?.[1];
  const name = `Mcp-Session-Id: ${session}\r\nMCP-Protocol-Version: 2025-11-25\r\n`;
  await line.ask(request({ jsonrpc: "2.0", method: "notifications/initialized" }, name));
  sessions.push(name);
}

const KINDS = {
  stateless: async () => () => fixed.stateless,
  session: async () => () => sessions.length && request(call(1), sessions.shift()),
  async keyed() {
    let count = 0;
    const own = `${process.pid}-${Math.random()}`;
    return () => ofModern(call(1, { ...modern, "idem/key": `${own}-${++count}` }));
  },
  open: async () => () => fixed.open,
};
const fixed = { stateless: ofModern(call(1, modern)), open: request(hello) };

async function drive(line, next, until, most, totals) {
  for (let bytes; Date.now() < until && totals.begun < most && (bytes = next()); ) {
    totals.begun++;
    const answer = await line.ask(bytes);
    totals.requests++;
    if (answer === null || !answer.startsWith("HTTP/1.1 200") || !answer.includes('"result"')) {
      totals.failed++;
      totals.why ??= answer === null ? "a connection ended" : answer.slice(answer.indexOf("\r\n\r\n") + 4, 1000).trim();
    }
    if (answer === null) return;
  }
}

let lines = [], makers;

function connect(ports, connections) {
  for (const { socket } of lines) socket.destroy();
  lines = Array.from({ length: connections }, (_, i) => new Line(ports[i % ports.length]));
}

async function open({ ports, open: count }) {
  connect(ports, 16);
  let left = count;
  await Promise.all(lines.map(async (line) => {
    while (left-- > 0) await openOne(line);
  }));
  process.send({ ready: true });
}

async function prepare({ ports, connections, kind }) {
  connect(ports, connections);
  makers = await Promise.all(lines.map((line) => KINDS[kind](line)));
  process.send({ ready: true });
}

async function go({ seconds, most }) {
  const totals = { requests: 0, begun: 0, failed: 0 }, began = Date.now(), cpu = process.cpuUsage();
  await Promise.all(lines.map((line, i) => drive(line, makers[i], began + seconds * 1000, most ?? Infinity, totals)));
  const { user, system } = process.cpuUsage(cpu);
  process.send({ ...totals, cpuUs: user + system, seconds: (Date.now() - began) / 1000 });
}

process.on("message", (message) => (message.open ? open : message.ports ? prepare : go)(message));
process.on("disconnect", () => process.exit(0));
