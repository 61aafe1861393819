// feed.js - what happens in the server, as recorded: messages, log lines, metrics; live from /page/feed or from a file.
// Both are recordings (JSON lines, docs/guide/page.md). What is kept is bounded; the oldest goes first.
import { isObject } from './schema.js';

export const MESSAGES_KEPT = 20000;
const MESSAGE_BYTES_KEPT = 48 * 1024 * 1024;
const LOGS_KEPT = 5000;
const METRICS_KEPT = 361;
const PAST_MOST = 2000;
const WAITING_MOST = 20000; // two of each request
const LINE_BYTES_MOST = 16 * 1024 * 1024;

// The first so many of a kind leave when others come; each has a number that stays its own.
export class Ring {
  constructor(most) {
    this.most = most;
    this.slots = [];
    this.first = 0; // the number of the oldest
    this.next = 0;
  }

  push(item) {
    this.slots[this.next % this.most] = item;
    this.next++;
    if (this.next - this.first > this.most) this.first++;
  }

  shift() {
    if (this.first === this.next) return undefined;
    const item = this.slots[this.first % this.most];
    this.slots[this.first % this.most] = undefined;
    this.first++;
    return item;
  }

  get(number) { return number >= this.first && number < this.next ? this.slots[number % this.most] : undefined; }
  get length() { return this.next - this.first; }
}

// Of a message that was cut only its beginning is there, in which idem writes the id first.
function guess(text) {
  const id = /"id":\s*("(?:[^"\\]|\\.){0,60}"|-?\d{1,20})/.exec(text.slice(0, 400));
  const method = /"method":\s*"([^"\\]{1,100})"/.exec(text.slice(0, 400));
  const known = {};
  try {
    if (id) known.id = JSON.parse(id[1]);
  } catch { /* then it has none */ }
  if (method) known.method = method[1];
  return known;
}

const methodOf = (message) => (typeof message?.method === 'string' ? message.method : '');
const nameIn = (message) => {
  const params = message?.params;
  const name = params?.name ?? params?.uri ?? params?.taskId;
  return typeof name === 'string' ? name.slice(0, 100) : '';
};

// Of the few texts that many records have, one copy is kept.
const COMMON_MOST = 1000;
const common = new Map();
function oneOf(text) {
  const known = common.get(text);
  if (known !== undefined) return known;
  if (common.size >= COMMON_MOST) common.clear();
  common.set(text, text);
  return text;
}

// What the list shows of a record; the rest stays text until somebody looks.
function summaryOf(record, line) {
  const message = Array.isArray(record.message) ? record.message[0] : record.message;
  const known = isObject(message) ? message : record.cut ? guess(String(message)) : {};
  return {
    line, t: Number(record.t) || 0, conn: record.conn ?? 0, dir: record.dir === '<' ? '<' : '>', peer: oneOf(String(record.peer ?? '').slice(0, 80)),
    bytes: Number(record.bytes) || line.length, method: oneOf(methodOf(known).slice(0, 100)), name: oneOf(nameIn(known)),
    id: known.id === undefined || typeof known.id === 'object' ? '' : JSON.stringify(known.id).slice(0, 60),
    bad: known.error !== undefined || known.result?.isError === true || record.refused !== undefined, pair: -1, ms: undefined,
  };
}

export class Feed {
  constructor(kept = MESSAGES_KEPT) {
    this.messages = new Ring(kept);
    this.logs = new Ring(LOGS_KEPT);
    this.metrics = new Ring(METRICS_KEPT);
    this.header = { idem: 'recording', version: 1 };
    this.bytes = 0;
    this.lost = 0;
    this.state = 'opening';
    this.waiting = new Map(); // requests without an answer yet, by whose they are
    this.watchers = new Set();
  }

  watch(fn) {
    this.watchers.add(fn);
    return () => this.watchers.delete(fn);
  }

  setState(state) {
    this.state = state;
    this.changed('state');
  }

  changed(kind) { for (const fn of this.watchers) fn(kind); }

  take(lines) {
    const kinds = new Set();
    for (const line of lines) {
      const kind = this.takeLine(line);
      if (kind) kinds.add(kind);
    }
    for (const kind of kinds) this.changed(kind);
  }

  takeLine(line) {
    let record;
    try {
      record = JSON.parse(line);
    } catch {
      return null;
    }
    if (!isObject(record)) return null;
    if (record.idem === 'recording') this.begin(record);
    else if (record.lost !== undefined) return this.takeLost(record);
    else if (isObject(record.log)) return this.takeLog(record);
    else if (isObject(record.metrics)) return this.takeMetrics(record);
    else if (record.message !== undefined) return this.takeMessage(record, line);
    return null;
  }

  // A feed begins with what was before, some of which may be known: it is taken once.
  begin(header) {
    this.header = header;
    this.known = new Set();
    for (let i = this.logs.first; i < this.logs.next; i++) this.known.add(`${this.logs.get(i).t} ${this.logs.get(i).text}`);
  }

  takeLost(record) {
    this.lost += Number(record.lost) || 0;
    return 'messages';
  }

  takeLog(record) {
    const log = record.log;
    const one = { t: Number(record.t) || 0, level: String(log.severity ?? 'info'), text: [log.message, log.method, log.id, log.peer, log.detail].filter((part) => part !== undefined && part !== null).map(String).join(' \u00b7 ') };
    if (this.known?.has(`${one.t} ${one.text}`)) return null;
    this.logs.push(one);
    return 'logs';
  }

  takeMetrics(record) {
    const last = this.metrics.get(this.metrics.next - 1);
    const t = Number(record.t) || 0;
    if (last && t <= last.t) return null; // the past again, after a reconnection
    this.metrics.push({ t, ...record.metrics });
    return 'metrics';
  }

  takeMessage(record, line) {
    const one = summaryOf(record, line);
    const number = this.messages.next;
    if (this.messages.length === this.messages.most) this.forget();
    this.messages.push(one);
    this.bytes += line.length;
    while (this.bytes > MESSAGE_BYTES_KEPT && this.messages.length > 1) this.forget();
    this.join(one, number, record);
    return 'messages';
  }

  forget() {
    const gone = this.messages.shift();
    if (gone) this.bytes -= gone.line.length;
  }

  // A request and its answer: of one conn, in opposite directions, with the same id. Over HTTP clients share a conn, and their ids may
  // be the same: so of one peer first. (The answer to a server's question comes on another connection.)
  join(one, number) {
    if (!one.id) return;
    if (one.method) {
      this.wait(`${one.conn} ${one.dir} ${one.id} ${one.peer}`, number);
      this.wait(`${one.conn} ${one.dir} ${one.id}`, number);
      return;
    }
    const key = `${one.conn} ${one.dir === '<' ? '>' : '<'} ${one.id}`;
    const asked = this.askedBy(`${key} ${one.peer}`) ?? this.askedBy(key);
    if (asked === undefined) return;
    const request = this.messages.get(asked);
    request.pair = number;
    one.pair = asked;
    request.ms = one.ms = (one.t - request.t) / 1000;
    one.method = request.method;
    one.name = request.name;
    one.answers = true;
    if (one.bad) request.bad = true;
  }

  wait(key, number) {
    if (this.waiting.size >= WAITING_MOST) this.waiting.delete(this.waiting.keys().next().value);
    this.waiting.set(key, number);
  }

  // The request that waits under this key, if it has no answer yet.
  askedBy(key) {
    const number = this.waiting.get(key);
    const request = number === undefined ? undefined : this.messages.get(number);
    this.waiting.delete(key);
    return request && request.pair < 0 ? number : undefined;
  }

  // The lines that somebody lacks who comes later: an hour of numbers, and of the rest the latest.
  past() {
    const lines = [JSON.stringify(this.header)];
    const each = (ring, most, fn) => { for (let i = Math.max(ring.first, ring.next - most); i < ring.next; i++) lines.push(fn(ring.get(i))); };
    each(this.metrics, METRICS_KEPT, ({ t, ...metrics }) => JSON.stringify({ t, metrics }));
    each(this.logs, PAST_MOST, ({ t, level, text }) => JSON.stringify({ t, log: { severity: level, message: text } }));
    each(this.messages, PAST_MOST, (one) => one.line);
    return lines;
  }

  recording() {
    const lines = [JSON.stringify(this.header)];
    for (let i = this.messages.first; i < this.messages.next; i++) lines.push(this.messages.get(i).line);
    return lines.join('\n') + '\n';
  }
}

// Reads the live feed until it ends; false: the key is not the right one.
export async function readFeed(key, signal, onLines) {
  const response = await fetch('/page/feed', { headers: { Authorization: `Bearer ${key}` }, signal, cache: 'no-store' });
  if (response.status === 401 || response.status === 404) return false;
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  const reader = response.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const lines = [];
    rest = takeLines(joined(rest, value), lines);
    if (rest.length > LINE_BYTES_MOST) throw new Error('a line without end');
    if (lines.length) onLines(lines);
  }
}

function joined(one, other) {
  if (!one.length) return other;
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

// The whole lines, each a text of its own: pieces of one text would keep all of it, however few of them are kept. Gives what is left.
function takeLines(bytes, lines) {
  const decoder = new TextDecoder();
  let from = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
    if (at > from) lines.push(decoder.decode(bytes.subarray(from, at)));
    from = at + 1;
  }
  return bytes.slice(from);
}

// A recording from a file, in pieces that leave the page its turn. Throws where it is none.
export async function readRecording(blob) {
  const feed = new Feed(200000);
  const reader = blob.stream().pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let first = true;
  const take = async (lines) => {
    for (let i = 0; i < lines.length; i += 500) {
      feed.take(lines.slice(i, i + 500));
      await new Promise((resolve) => setTimeout(resolve));
    }
  };
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value || '')).split('\n');
    rest = done ? '' : lines.pop();
    const whole = lines.filter((line) => line.trim());
    if (first && whole.length) {
      first = false;
      if (!isRecordingHeader(whole[0])) throw new Error('This is no recording of idem: its first line does not say so.');
    }
    await take(whole);
    if (rest.length > 64 * 1024 * 1024) throw new Error('A line of it has no end.');
    if (done) break;
  }
  if (first) throw new Error('The file is empty.');
  return feed;
}

function isRecordingHeader(line) {
  try {
    const header = JSON.parse(line);
    return header.idem === 'recording' && header.version === 1;
  } catch {
    return false;
  }
}
