// mcp.js - the page's MCP client: one server of its own origin, 2026-07-28 or one of the older revisions by choice.
// A call is a POST; its answer is JSON or an event stream that ends with the answer. What the server asks meanwhile goes to `onAsk`.
import { pause } from './dom.js';

export const REVISIONS = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
export const NEWEST = REVISIONS[0];
const META = 'io.modelcontextprotocol/';
export const TASKS = META + 'tasks';
export const CLIENT_INFO = { name: 'idem-page', title: 'The page of idem', version: '1' };
const CAPABILITIES = {
  '2026-07-28': { elicitation: { form: {}, url: {} }, sampling: {}, roots: {}, extensions: { [TASKS]: {} } },
  '2025-11-25': { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  '2025-06-18': { elicitation: {}, sampling: {}, roots: {} },
  '2025-03-26': { sampling: {}, roots: {} },
  '2024-11-05': { sampling: {}, roots: {} },
};
const LISTED_MOST = 5000; // a list that never ends is cut here
const ROUNDS_MOST = 16;
const RESUMED_MOST = 100; // times that a stream of one call is taken up again
const URL_FIRST = -32042; // 2025-11-25: somebody has to be at an address before

export class RpcError extends Error {
  constructor(message, code, data, status) {
    super(message);
    Object.assign(this, { code, data, status });
  }
}

// ---------------------------------------------------------------------- headers

// A value as Mcp-Name may hold it.
export function headerValue(text) {
  const plain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text);
  if (plain || text === '') return text;
  let binary = '';
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return `=?base64?${btoa(binary)}?=`;
}

const NAMED_BY = {
  'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri',
  'tasks/get': 'taskId', 'tasks/update': 'taskId', 'tasks/cancel': 'taskId',
};

// The headers a tool's schema asks for (x-mcp-header), from its arguments.
export function paramHeaders(schema, args, into = {}) {
  for (const [key, property] of Object.entries(schema?.properties || {})) {
    const value = args?.[key];
    if (value === undefined || value === null || typeof property !== 'object' || !property) continue;
    if (typeof property['x-mcp-header'] === 'string' && typeof value !== 'object')
      into['Mcp-Param-' + property['x-mcp-header']] = headerValue(String(value));
    if (typeof value === 'object' && !Array.isArray(value)) paramHeaders(property, value, into);
  }
  return into;
}

// ----------------------------------------------------------------- event streams

// Cuts a fetch body into lines that end with \n, \r\n or \r; text never grows past `most`.
export async function* readLines(body, most = 64 * 1024 * 1024) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      rest += value;
      const lines = rest.split(/\r\n|\n|\r(?=[^\n])/);
      rest = lines.pop();
      if (rest.length > most) throw new Error('a line without end');
      for (const line of lines) yield line;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The messages of an event stream. `place` learns where it is: the id of the last event, and the pause its server asks for.
async function* readEvents(body, place = {}) {
  let data = [];
  let size = 0;
  const messages = () => (data.length && data.join('') ? [JSON.parse(data.join('\n'))].flat() : []); // 2025-03-26 has batches
  for await (const line of readLines(body)) {
    const [, field, value] = /^(data|id|retry): ?(.*)$/s.exec(line) || [];
    if (line === '') {
      yield* messages();
      data = [];
      size = 0;
    } else if (field === 'data') {
      data.push(value);
      size += line.length;
      if (size > 64 * 1024 * 1024) throw new Error('an event without end');
    } else if (field === 'id' && value.length < 1000) place.last = value;
    else if (field === 'retry' && /^\d{1,9}$/.test(value)) place.pauseMs = Math.min(Number(value), 60000);
  }
  yield* messages();
}

// What a browser says of a server that is not there is no sentence for people.
async function reach(url, options) {
  try {
    return await fetch(url, { cache: 'no-store', ...options });
  } catch (error) {
    throw error instanceof TypeError ? new TypeError('The server cannot be reached') : error;
  }
}

// ----------------------------------------------------------------------- client

export class Client {
  constructor(url, { token, onAsk, onNotification, onTrouble } = {}) {
    Object.assign(this, { url, token, onAsk, onNotification, onTrouble });
    this.nextId = 1;
    this.revision = NEWEST;
    this.session = null;
    this.subscribed = new Set();
  }

  get modern() { return this.revision === NEWEST; }
  // Tasks of 2025-11-25 are the client's to ask for; those of 2026-07-28 are the server's to make.
  get asksForTasks() { return this.revision === '2025-11-25' && Boolean(this.capabilities?.tasks?.requests?.tools?.call); }
  get makesTasks() { return this.modern && Boolean(this.capabilities?.extensions?.[TASKS]); }
  // 2024-11-05 has no word for it: whoever has prompts or resources may be asked, until it says that it knows nothing of it.
  get completes() { return this.revision === '2024-11-05' ? !this.noCompletion : Boolean(this.capabilities?.completions); }

  // Opens with a revision; resolves with what the server says it is.
  async open(revision) {
    this.close();
    this.revision = revision;
    this.noCompletion = false;
    if (this.modern) {
      const result = await this.request('server/discover', {});
      this.capabilities = result.capabilities || {};
      this.versions = Array.isArray(result.supportedVersions) ? result.supportedVersions : REVISIONS;
      this.info = result._meta?.[META + 'serverInfo'] || result.serverInfo || {};
      this.instructions = result.instructions;
    } else await this.initialize();
    return this;
  }

  async initialize() {
    const params = { protocolVersion: this.revision, capabilities: CAPABILITIES[this.revision] || {}, clientInfo: CLIENT_INFO };
    const asked = this.revision;
    this.session = null;
    this.subscribed.clear();
    const result = await this.request('initialize', params);
    if (result.protocolVersion !== asked) throw new RpcError(`The server answered with revision ${result.protocolVersion}`, 0);
    this.capabilities = result.capabilities || {};
    this.info = result.serverInfo || {};
    this.instructions = result.instructions;
    await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  // A server may end a session whenever it likes, and says 404 to whoever comes with it; then there is a new one, for all who ask.
  renew(session) {
    if (this.session !== session) return this.renewing;
    this.renewing = this.initialize();
    return this.renewing;
  }

  // Ends a session of an older revision.
  close() {
    if (!this.session) return;
    fetch(this.url, { method: 'DELETE', headers: this.headers(), keepalive: true }).catch(() => {});
    this.session = null;
  }

  headers(message, schema) {
    const headers = { Accept: 'application/json, text/event-stream' };
    if (message) headers['Content-Type'] = 'application/json';
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (this.session) headers['Mcp-Session-Id'] = this.session;
    if (message?.method !== 'initialize' && this.revision >= '2025-06-18') headers['MCP-Protocol-Version'] = this.revision;
    if (this.modern && message?.method) {
      headers['Mcp-Method'] = message.method;
      const named = NAMED_BY[message.method];
      if (named) headers['Mcp-Name'] = headerValue(String(message.params[named] ?? ''));
      if (message.method === 'tools/call') paramHeaders(schema, message.params.arguments, headers);
    }
    return headers;
  }

  envelope(method, params, id, progress) {
    const message = { jsonrpc: '2.0', id, method, params: { ...params } };
    const meta = { ...(params._meta || {}) };
    if (progress) meta.progressToken = id;
    if (this.modern) {
      meta[META + 'protocolVersion'] = this.revision;
      meta[META + 'clientInfo'] = CLIENT_INFO;
      meta[META + 'clientCapabilities'] = CAPABILITIES[this.revision];
    }
    if (Object.keys(meta).length) message.params._meta = meta;
    return message;
  }

  async post(message, signal, schema) {
    const response = await reach(this.url, { method: 'POST', headers: this.headers(message, schema), body: JSON.stringify(message), signal });
    const session = response.headers.get('Mcp-Session-Id');
    if (session && message.method === 'initialize') this.session = session;
    return response;
  }

  // The same, in a session that there is.
  async postInSession(message, signal, schema) {
    const session = this.session;
    const response = await this.post(message, signal, schema);
    if (response.status !== 404 || !session || message.method === 'initialize') return response;
    await this.renew(session);
    return this.post(message, signal, schema);
  }

  stream(signal, last) {
    const headers = { ...this.headers(), Accept: 'text/event-stream' };
    if (last) headers['Last-Event-ID'] = last;
    return reach(this.url, { headers, signal });
  }

  // One request and its answer. Options: signal, onProgress, onLog, schema, onId.
  async request(method, params, options = {}) {
    const id = this.nextId++;
    options.onId?.(id);
    const message = this.envelope(method, params, id, options.onProgress);
    const cancelled = () => {
      if (!this.modern && method !== 'initialize')
        this.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason: 'the user cancelled' } }).catch(() => {});
    };
    options.signal?.addEventListener('abort', cancelled, { once: true });
    try {
      const response = await this.postInSession(message, options.signal, options.schema);
      const answer = await this.answerOf(response, id, options);
      if (answer.error) throw new RpcError(String(answer.error.message ?? 'error'), answer.error.code, answer.error.data, response.status);
      return answer.result ?? {};
    } finally {
      options.signal?.removeEventListener('abort', cancelled);
    }
  }

  async answerOf(response, id, options) {
    const type = response.headers.get('Content-Type') || '';
    if (response.status === 401) throw new RpcError('The server wants a token', 401, null, 401);
    if (type.startsWith('text/event-stream')) return this.streamedAnswer(response, id, options);
    const text = await response.text();
    let message;
    try {
      message = JSON.parse(text);
      if (Array.isArray(message)) message = message.find((one) => one?.id === id);
    } catch {
      throw new RpcError(`HTTP ${response.status} ${response.statusText}: not JSON`, 0, null, response.status);
    }
    if (!message || typeof message !== 'object' || !('result' in message || 'error' in message))
      throw new RpcError(`HTTP ${response.status}: no answer`, 0, null, response.status);
    return message;
  }

  // The answer at the end of a stream; before 2026-07-28 a stream that names its events is taken up again where it broke.
  async streamedAnswer(response, id, options) {
    const place = { pauseMs: 1000 };
    for (let times = 0; times < RESUMED_MOST && response.ok; times++) {
      try {
        for await (const message of readEvents(response.body, place)) {
          if (message.id === id && !message.method) return message;
          this.take(message, options);
        }
      } catch (error) {
        if (options.signal?.aborted || this.modern || !place.last) throw error;
      }
      if (this.modern || !place.last) break;
      await pause(place.pauseMs, options.signal);
      response = await this.stream(options.signal, place.last);
    }
    throw new RpcError('The stream ended without an answer', 0);
  }

  // What comes before the answer: progress, log messages, questions of older revisions, news.
  take(message, options) {
    if (message.method === 'notifications/progress') options.onProgress?.(message.params || {});
    else if (message.method === 'notifications/message') options.onLog?.(message.params || {});
    else if (message.method && message.id !== undefined) this.answer(message, options);
    else if (message.method) this.onNotification?.(message);
  }

  async answer(message, options) {
    const reply = { jsonrpc: '2.0', id: message.id };
    try {
      if (message.method === 'ping') reply.result = {};
      else reply.result = await (options.onAsk || this.onAsk)(message.method, message.params || {});
      if (reply.result === null) throw new RpcError('User rejected', -1);
    } catch (error) {
      delete reply.result;
      reply.error = { code: error.code || -32603, message: error.message };
    }
    await this.post(reply).catch(() => {});
  }

  // A request that may ask back (2026-07-28: by its result; before, on its stream), until it is answered.
  async converse(method, params, options = {}) {
    let result = await this.requestOnceSeen(method, params, options);
    for (let round = 0; result.resultType === 'input_required'; round++) {
      if (round >= ROUNDS_MOST) throw new RpcError('The server keeps asking', 0);
      const answers = {};
      for (const [key, question] of Object.entries(result.inputRequests || {})) {
        const answer = await (options.onAsk || this.onAsk)(question.method, question.params || {});
        if (answer === null || options.signal?.aborted) throw new RpcError('Not answered, so not called again', 0);
        answers[key] = answer;
      }
      const again = { ...params, inputResponses: answers };
      if (result.requestState !== undefined) again.requestState = result.requestState;
      if (!Object.keys(answers).length) await pause(500, options.signal);
      result = await this.request(method, again, options);
    }
    return result;
  }

  // 2025-11-25: a call that is refused until somebody has been at an address is made again when they have.
  async requestOnceSeen(method, params, options) {
    for (let round = 0; ; round++) {
      try {
        return await this.request(method, params, options);
      } catch (error) {
        const addresses = error.code === URL_FIRST && Array.isArray(error.data?.elicitations) ? error.data.elicitations.slice(0, ROUNDS_MOST) : [];
        if (!addresses.length || round >= ROUNDS_MOST) throw error;
        for (const one of addresses) {
          const answer = await (options.onAsk || this.onAsk)('elicitation/create', { mode: 'url', ...one });
          if (answer?.action !== 'accept') throw error;
        }
      }
    }
  }

  // What an argument may be, as the server completes it; null where it does not.
  async complete(params) {
    if (!this.completes) return null;
    try {
      const values = (await this.request('completion/complete', params)).completion?.values;
      return Array.isArray(values) ? values.map(String) : null;
    } catch (error) {
      if (error.code === -32601) this.noCompletion = true;
      return null;
    }
  }

  // A list, page by page; `onPage` sees it grow.
  async list(method, member, onPage) {
    const all = [];
    let cursor;
    const seen = new Set();
    do {
      const result = await this.request(method, cursor === undefined ? {} : { cursor });
      for (const item of Array.isArray(result[member]) ? result[member] : [])
        if (item && typeof item === 'object') all.push(item);
      cursor = typeof result.nextCursor === 'string' ? result.nextCursor : undefined;
      if (cursor !== undefined && (seen.has(cursor) || all.length >= LISTED_MOST || seen.size > 500)) {
        all.more = true;
        break;
      }
      seen.add(cursor);
      onPage?.(all);
    } while (cursor !== undefined);
    return all;
  }

  // News of changes, until the signal: one stream for all of them. onBegun: from now on nothing is missed.
  async listen(uris, signal, onNews, onBegun) {
    const silence = () => {
      onBegun();
      return new Promise((resolve) => signal.addEventListener('abort', resolve));
    };
    if (!this.modern) return this.listenOld(uris, signal, onNews, silence);
    const capabilities = this.capabilities || {};
    const notifications = {};
    if (capabilities.tools?.listChanged) notifications.toolsListChanged = true;
    if (capabilities.prompts?.listChanged) notifications.promptsListChanged = true;
    if (capabilities.resources?.listChanged) notifications.resourcesListChanged = true;
    if (uris.length && capabilities.resources?.subscribe) notifications.resourceSubscriptions = uris;
    if (!Object.keys(notifications).length) return silence();
    const message = this.envelope('subscriptions/listen', { notifications }, `listen-${this.nextId++}`);
    const response = await this.post(message, signal);
    if (!response.ok || !(response.headers.get('Content-Type') || '').startsWith('text/event-stream'))
      throw new RpcError(`HTTP ${response.status}`, 0, null, response.status);
    for await (const news of readEvents(response.body)) {
      onBegun(); // the first says so
      onNews(news);
    }
    return undefined;
  }

  // Watches these from now on, without another stream; false: it takes one.
  follow(uris) {
    if (this.modern || !this.streaming) return false;
    this.subscribing = Promise.resolve(this.subscribing).then(() => this.subscribeOld(uris)).catch((error) => this.onTrouble?.(error));
    return true;
  }

  // One session for all tabs: whatever any of them watches is subscribed to here.
  async subscribeOld(uris) {
    if (!this.capabilities?.resources?.subscribe) return;
    for (const uri of uris.filter((one) => !this.subscribed.has(one))) {
      this.subscribed.add(uri);
      await this.request('resources/subscribe', { uri });
    }
    for (const uri of [...this.subscribed].filter((one) => !uris.includes(one))) {
      this.subscribed.delete(uri);
      await this.request('resources/unsubscribe', { uri });
    }
  }

  async listenOld(uris, signal, onNews, silence) {
    const session = this.session;
    const response = await this.stream(signal);
    if (response.status === 404 && session) await this.renew(session); // and is listened to again
    if (response.status === 405) return silence(); // it has no news to tell
    if (!response.ok) throw new RpcError(`HTTP ${response.status}`, 0, null, response.status);
    this.streaming = signal;
    this.follow(uris);
    try {
      for await (const message of readEvents(response.body)) {
        if (message.method && message.id !== undefined) this.answer(message, {});
        else onNews(message);
      }
    } finally {
      if (this.streaming === signal) this.streaming = null;
    }
    return undefined;
  }
}
