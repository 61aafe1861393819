// talk.mjs - one HTTP request of an MCP client and all that comes of it: messages one by one as they arrive, and how it ended.
import http from "node:http";

export const MODERN = "2026-07-28";
export const LEGACY = "2025-11-25";
export const OLDEST = "2024-11-05";
const META = "io.modelcontextprotocol/";

export const modernMeta = (more) => ({ [META + "protocolVersion"]: MODERN, [META + "clientCapabilities"]: {}, ...more });

export function headersOf(message, session) {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  if (session) headers["mcp-session-id"] = session;
  if (session) headers["mcp-protocol-version"] = LEGACY;
  if (!message?.params?._meta?.[META + "protocolVersion"]) return headers;
  headers["mcp-protocol-version"] = MODERN;
  headers["mcp-method"] = message.method;
  if (message.params.name) headers["mcp-name"] = message.params.name;
  return headers;
}

// Blocks of an event stream, whatever pieces they come in.
class Events {
  constructor(told) {
    this.told = told;
    this.text = "";
  }
  feed(piece) {
    this.text += piece;
    for (let end; (end = this.text.indexOf("\n\n")) >= 0; this.text = this.text.slice(end + 2)) this.block(this.text.slice(0, end));
  }
  block(block) {
    const id = /^id: ?(.*)$/m.exec(block)?.[1] ?? null;
    const data = [...block.matchAll(/^data: ?(.*)$/gm)].map((found) => found[1]).join("\n");
    if (/^event: ?endpoint$/m.test(block)) this.told({ id, endpoint: data, message: null });
    else this.told({ id, message: data ? JSON.parse(data) : null });
  }
}

// Resolves with {status, headers, text} at the end of the response, or {cut}; `patience: 0` is endless. `onEvent` hears of a stream's events; `handle.cut(why)` breaks it off.
export function exchange(url, { method = "POST", headers, body, agent, onEvent, patience = 20000 }, handle = {}) {
  return new Promise((resolve) => {
    const settle = (value) => (clearTimeout(timer), resolve(value));
    const sent = http.request(url, { method, headers, agent }, (response) => {
      const isStream = response.headers["content-type"]?.startsWith("text/event-stream");
      const events = isStream && onEvent ? new Events(onEvent) : null;
      let text = "";
      handle.streaming = isStream;
      response.setEncoding("utf8");
      response.on("data", (piece) => (events ? events.feed(piece) : (text += piece)));
      response.on("end", () => settle({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", (error) => settle({ cut: handle.why ?? error.code ?? error.message, status: response.statusCode }));
      response.on("close", () => settle({ cut: handle.why ?? "closed", status: response.statusCode }));
    });
    const timer = patience && setTimeout(() => handle.cut("silent"), patience);
    handle.cut = (why) => ((handle.why = why), sent.destroy(), settle({ cut: why }));
    sent.on("error", (error) => settle({ cut: handle.why ?? error.code ?? error.message }));
    sent.end(body);
  });
}
