// client.mjs - clients under faults: they call tools with and without keys in both eras, and on the transport of 2024-11-05, ask again when they were cut off,
// take streams up where they broke, and write down all of it.
import http from "node:http";
import { Chance } from "./chance.mjs";
import { isPassing } from "./checker.mjs";
import { History, now } from "./history.mjs";
import { sleep } from "./processes.mjs";
import { LEGACY, OLDEST, exchange, headersOf, modernMeta } from "./talk.mjs";

export const STEPS = 4; // of the tool `steps`
const RESUME_MS = 4000; // a stream that says nothing for so long has no owner any more
const FOLLOW_MS = 15000;
const ANSWER_MS = 20000; // what was acknowledged is answered by then, or its stream has ended
const ENDING_MS = 2000; // until a stream whose node has died is over
const DOUBT_MS = 1000; // for an answer to a post of which nobody knows whether it arrived
const TRIES = 6;

// What comes first; undefined where nothing does in that time.
function first(ms, ...promises) {
  let timer;
  const silence = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  return Promise.race([...promises, silence]).finally(() => clearTimeout(timer));
}

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
  // How an attempt ended, from what its exchange came to and the messages that answered it on its stream: one, or something is wrong.
  judge(op, result, answers = []) {
    const [first, ...more] = answers;
    const end = this.judgeOne(op, result, first);
    for (const message of more) this.judgeOne(op, result, message);
    return end;
  }
  judgeOne(op, { status, cut, text }, message) {
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
  progress(op, event, { params }) {
    this.history.add({ do: "event", op, event, step: params.progress, echo: params.progressToken });
  }
  asked = new Map();
  invoke(call, more) {
    const op = this.history.op(), id = this.id();
    this.asked.set(op, call);
    this.history.add({ do: "invoke", op, client: this.number, era: this.era, id, call: call.name, key: call.key, session: this.session, ...more });
    return { op, id };
  }
  token(id, call) {
    return call.name;
  }
  message(id, call) {
    const _meta = { ...(call.key && { "idem/key": call.key }), ...(call.tool === "steps" && { progressToken: this.token(id, call) }) };
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
    const answers = [];
    const onEvent = ({ message }) => {
      if (message?.method) this.progress(op, null, message);
      else if (message) answers.push(message);
    };
    if (!this.calm && !more.final && this.chance.happens(0.05)) setTimeout(() => handle.cut?.("client left"), this.chance.between(0, 60));
    const result = await exchange(this.url, { headers: headersOf(message), body: JSON.stringify(message), agent: this.agent, onEvent }, handle);
    return this.judge(op, result, answers);
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
    const stream = { op, id, session, last: null, answers: [] };
    let result = await this.begin(stream, call, more);
    if (!stream.answers.length && stream.last && !result.text) result = await this.follow(stream);
    if (result.status === 404) this.gone(session);
    return this.judge(op, result, stream.answers);
  }
  // Takes it up again and again, until there is an answer or nothing to come back for.
  async follow(stream) {
    for (const over = Date.now() + FOLLOW_MS; Date.now() < over; await sleep(this.chance.between(20, 200))) {
      const { status, cut } = await this.resume(stream);
      if (stream.answers.length) return { status };
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
    if (message.method) this.progress(stream.op, id, message);
    else stream.answers.push(message);
  }
  begin(stream, call, more) {
    const message = this.message(stream.id, call), handle = {};
    const leaves = !this.calm && !more.final && this.chance.happens(0.3) ? this.chance.between(0, 150) : 0;
    if (leaves) setTimeout(() => !stream.answers.length && handle.cut?.("client left"), leaves);
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

// The transport of 2024-11-05: answers come on one stream, at one node; posts go to whichever node is next.
export class OldestClient extends Client {
  era = OLDEST;
  stepShare = 0.2;
  meta(more) {
    return more;
  }
  // Two attempts of one call may be under way on one stream.
  token(id, call) {
    return `${call.name} ${JSON.stringify(id)}`;
  }
  // What comes on a stream is written down as it comes, also behind the end of its attempt.
  hear(stream, { endpoint, message }) {
    if (endpoint) return stream.found(new URL(endpoint, this.url));
    if (!message) return;
    if (message.method) {
      const [echo, id] = message.params.progressToken.split(" ");
      return this.progress(stream.asked.get(id)?.op ?? `${this.number}/nobody's`, null, { params: { ...message.params, progressToken: echo } });
    }
    const one = stream.asked.get(JSON.stringify(message.id));
    if (one?.hello) return one.heard(message);
    if (!one) return this.history.add({ do: "answer", op: `${this.number}/nobody's`, id: message.id });
    one.heard(this.judge(one.op, {}, [message]));
  }
  // A stream with its session agreed upon, or null.
  async open() {
    const stream = { handle: {}, asked: new Map() };
    const found = new Promise((resolve) => (stream.found = resolve));
    const options = { method: "GET", headers: { accept: "text/event-stream" }, agent: this.agent, patience: 0, onEvent: (event) => this.hear(stream, event) };
    stream.over = exchange(new URL("/sse", this.url), options, stream.handle).then(() => this.leave(stream));
    stream.url = await first(ANSWER_MS, found, stream.over);
    if (!stream.url || !(await this.greet(stream))) return stream.handle.cut("no session"), null;
    stream.session = stream.url.searchParams.get("sessionId");
    this.history.add({ do: "opened", session: stream.session });
    if (stream.isOver) this.leave(stream);
    return stream;
  }
  async greet(stream) {
    const params = { protocolVersion: OLDEST, capabilities: {}, clientInfo: { name: "faults", version: "1" } };
    const one = this.expect(stream, 0, { hello: true });
    const { status } = await this.post(stream, { jsonrpc: "2.0", id: 0, method: "initialize", params });
    if (status !== 202 || !(await first(ANSWER_MS, one.answer, stream.over))?.result) return false;
    return (await this.post(stream, { jsonrpc: "2.0", method: "notifications/initialized" })).status === 202;
  }
  leave(stream) {
    stream.isOver = true;
    if (this.stream === stream) this.stream = null;
    if (stream.session) this.history.add({ do: "ended", session: stream.session });
  }
  async ready() {
    while (!this.stream) {
      this.opening ??= this.open().finally(() => (this.opening = null));
      const stream = await this.opening;
      if (stream && !stream.isOver) this.stream = stream;
      else await sleep(this.chance.between(50, 300));
    }
    return this.stream;
  }
  post(stream, message) {
    return exchange(stream.url, { headers: headersOf(message), body: JSON.stringify(message), agent: this.agent });
  }
  expect(stream, id, more) {
    const one = { ...more };
    one.answer = new Promise((resolve) => (one.heard = resolve));
    stream.asked.set(JSON.stringify(id), one);
    return one;
  }
  async attempt(call, more) {
    const stream = await this.ready();
    this.session = stream.session;
    const { op, id } = this.invoke(call, { ...more, streamed: true });
    const one = this.expect(stream, id, { op });
    const result = await this.post(stream, this.message(id, call));
    if (result.status === 202) return this.accepted(stream, one, more);
    if (result.status === 404) return this.unknown(stream, op, result);
    // Nobody knows whether the post arrived: it may be answered yet.
    if (result.cut || result.status === 502 || result.status === 504 || (result.status === 409 && JSON.parse(result.text).id === null))
      return (await first(DOUBT_MS, one.answer, stream.over)) ?? this.judge(op, { cut: result.cut ?? `HTTP ${result.status}` });
    return this.judge(op, result);
  }
  async accepted(stream, { op, answer }, { final }) {
    this.history.add({ do: "accepted", op });
    if (!this.calm && !final && this.chance.happens(0.02)) setTimeout(() => stream.handle.cut("client left"), this.chance.between(0, 60));
    const end = await first(ANSWER_MS, answer, stream.over);
    return end ?? this.judge(op, { cut: stream.isOver ? "its stream ended" : "silent" });
  }
  // Its stream has ended, or does in a moment; else the node that has it was taken for dead, and its client connects again.
  async unknown(stream, op, result) {
    const t = now(), reason = JSON.parse(result.text).error?.data?.reason;
    await first(ENDING_MS, stream.over);
    if (stream.isOver) return this.judge(op, { cut: "its stream ended" });
    this.history.add({ do: "gone", session: stream.session, reason, t });
    stream.handle.cut("not known any more");
    return this.judge(op, result);
  }
  async close() {
    const stream = this.stream;
    stream?.handle.cut("closed");
    await stream?.over;
    return super.close();
  }
}
