// client.mjs - clients under faults: they call tools with and without keys in both eras, ask again when they were cut off, take streams up where
// they broke, and write down all of it.
import http from "node:http";
import { Chance } from "./chance.mjs";
import { isPassing } from "./checker.mjs";
import { History } from "./history.mjs";
import { sleep } from "./processes.mjs";
import { LEGACY, exchange, headersOf, modernMeta } from "./talk.mjs";

export const STEPS = 4; // of the tool `steps`
const RESUME_MS = 4000; // a stream that says nothing for so long has no owner any more
const FOLLOW_MS = 15000;
const TRIES = 6;

const isDefinite = (end) => end.do === "answer" || (end.do === "refused" && !isPassing(end));

class Client {
  constructor(number, { url, seed, folder, calm = false }) {
    this.number = number;
    this.url = url;
    this.seed = seed;
    this.calm = calm; // it never leaves by itself
    this.chance = new Chance(seed * 1000 + number);
    this.history = new History(folder, `client-${number}`);
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    this.calls = []; // with a key, for the end
    this.count = 0;
    this.ids = 0;
  }
  // An id of any kind that JSON-RPC has, never twice in a session.
  id() {
    const n = ++this.ids;
    return n % 3 ? n : `${this.number}-${n}`;
  }
  // How an attempt ended, from what its exchange came to and the message that bore its id, if one did.
  judge(op, { status, cut, text }, message) {
    if (!message && text) {
      try {
        message = JSON.parse(text);
      } catch {
        cut ??= `HTTP ${status}`; // nginx's own words
      }
    }
    if (!message && cut === "silent") return null;
    if (!message) return this.history.add({ do: "cut", op, why: cut ?? `HTTP ${status}` });
    if (message.error) {
      const { code, data } = message.error;
      return this.history.add({ do: "refused", op, id: message.id ?? null, status, code, reason: data?.reason ?? null });
    }
    const [echo, token] = (message.result?.content?.[0]?.text ?? "").trim().split(" ");
    const replayed = message.result?._meta?.["idem/replayed"] === true;
    const { tool } = this.asked.get(op);
    if (message.result?.isError) return this.history.add({ do: "refused", op, id: message.id, status, reason: `tool: ${message.result.content[0].text}` });
    return this.history.add({ do: "answer", op, id: message.id, echo, token, replayed, ...(tool === "steps" && { steps: STEPS }) });
  }
  asked = new Map();
  invoke(call, more) {
    const op = this.history.op(), id = this.id();
    this.asked.set(op, call);
    this.history.add({ do: "invoke", op, client: this.number, era: this.era, id, call: call.name, key: call.key, session: this.session, ...more });
    return { op, id };
  }
  message(id, call) {
    const _meta = { ...(call.key && { "idem/key": call.key }), ...(call.tool === "steps" && { progressToken: call.name }) };
    return { jsonrpc: "2.0", id, method: "tools/call", params: { name: call.tool, arguments: { call: call.name }, _meta: this.meta(_meta) } };
  }
  newCall() {
    const name = `${this.number}-${++this.count}`;
    const call = { name, tool: this.chance.happens(this.stepShare) ? "steps" : "mark" };
    if (this.chance.happens(0.9)) this.calls.push(Object.assign(call, { key: `${this.seed}-${name}` }));
    return call;
  }
  // Until there is something definite; without a key once alone, since it might run twice.
  async settle(call, { tries, ...more }) {
    for (let i = 0; i < tries; i++) {
      const end = await this.attempt(call, more);
      if (!end || isDefinite(end) || !call.key) return end;
      await sleep(this.chance.between(20, 200) * (i + 1));
    }
  }
  async work(isOver) {
    while (!isOver()) {
      const call = this.newCall();
      const twice = call.key && this.chance.happens(0.15);
      await Promise.all([this.settle(call, { tries: TRIES }), twice && this.settle(call, { tries: 1 })]);
      await sleep(this.chance.between(0, 100));
    }
  }
  // All is well again: what became of every call with a key?
  async look() {
    for (const call of this.calls) await this.settle(call, { tries: 40, final: true });
  }
  async close() {
    this.agent.destroy();
    await this.history.close();
  }
}

export class ModernClient extends Client {
  era = "modern";
  stepShare = 0.1;
  meta(more) {
    return modernMeta(more);
  }
  async attempt(call, more) {
    const { op, id } = this.invoke(call, more);
    const message = this.message(id, call), handle = {};
    let answer;
    const onEvent = ({ message }) => {
      if (message?.method) this.progress(op, null, message);
      else if (message) answer ??= message;
    };
    if (!this.calm && !more.final && this.chance.happens(0.05)) setTimeout(() => handle.cut?.("client left"), this.chance.between(0, 60));
    const result = await exchange(this.url, { headers: headersOf(message), body: JSON.stringify(message), agent: this.agent, onEvent }, handle);
    return this.judge(op, result, answer);
  }
  progress(op, event, { params }) {
    this.history.add({ do: "event", op, event, step: params.progress, echo: params.progressToken });
  }
}

export class LegacyClient extends Client {
  era = "legacy";
  stepShare = 0.5;
  meta(more) {
    return more;
  }
  async post(message) {
    return exchange(this.url, { headers: headersOf(message, this.session), body: JSON.stringify(message), agent: this.agent });
  }
  async open() {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: "faults", version: "1" } };
    this.session = undefined;
    const { status, headers } = await this.post({ jsonrpc: "2.0", id: this.id(), method: "initialize", params });
    const session = status === 200 ? headers["mcp-session-id"] : undefined;
    if (!session) return;
    this.session = session;
    const { status: told } = await this.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    if (told === 202) this.history.add({ do: "opened", session });
    else this.session = undefined;
  }
  async ready() {
    while (!this.session) {
      await this.open();
      if (!this.session) await sleep(this.chance.between(50, 300));
    }
  }
  async attempt(call, more) {
    await this.ready();
    const session = this.session;
    const { op, id } = this.invoke(call, more);
    const stream = { op, id, session, last: null, answer: null };
    let result = await this.begin(stream, call, more);
    if (!stream.answer && stream.last && !result.text) result = await this.follow(stream);
    if (result.status === 404) this.gone(session);
    return this.judge(op, result, stream.answer);
  }
  // Takes it up again and again, until there is an answer or nothing to come back for.
  async follow(stream) {
    for (const over = Date.now() + FOLLOW_MS; Date.now() < over; await sleep(this.chance.between(20, 200))) {
      const { status, cut } = await this.resume(stream);
      if (stream.answer) return { status };
      if (cut === "stream-silent") return { cut };
      if (!cut && ![200, 502, 503, 504].includes(status)) return { cut: `HTTP ${status} on resumption`, status };
    }
    return { cut: "stream-silent" };
  }
  gone(session) {
    this.history.add({ do: "gone", session });
    if (this.session === session) this.session = undefined;
  }
  hear(stream, { id, message }) {
    if (id) stream.last = id;
    if (!message) return;
    if (message.method) this.history.add({ do: "event", op: stream.op, event: id, step: message.params.progress, echo: message.params.progressToken });
    else stream.answer ??= message;
  }
  begin(stream, call, more) {
    const message = this.message(stream.id, call), handle = {};
    const leaves = !this.calm && !more.final && this.chance.happens(0.3) ? this.chance.between(0, 150) : 0;
    if (leaves) setTimeout(() => !stream.answer && handle.cut?.("client left"), leaves);
    return exchange(this.url, { headers: headersOf(message, stream.session), body: JSON.stringify(message), agent: this.agent, onEvent: (event) => this.hear(stream, event) }, handle);
  }
  async resume(stream) {
    const handle = {};
    this.history.add({ do: "resume", op: stream.op, after: stream.last });
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => handle.cut?.("stream-silent"), RESUME_MS);
    };
    const onEvent = (event) => {
      if (event.id || event.message) wait();
      this.hear(stream, event);
    };
    wait();
    const headers = { ...headersOf(null, stream.session), accept: "text/event-stream", "last-event-id": stream.last };
    delete headers["content-type"];
    const result = await exchange(this.url, { method: "GET", headers, agent: this.agent, onEvent }, handle);
    clearTimeout(timer);
    return result;
  }
}
