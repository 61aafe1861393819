// browser.mjs - what web pages can and cannot do to idem-reference, tried by pages in Chromium:
// CORS, a name that is rebound to this machine, and a port that speaks lines.
// The browser is driven over its debugging pipe, so that nothing but node is needed.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [program, browser] = process.argv.slice(2);
const ended = (child) => new Promise((resolve) => child.on('exit', resolve));
const folder = mkdtempSync(join(tmpdir(), 'idem-browser-'));
const children = [];

const finish = (code, why) => {
  if (why) console.error(`FAILED: ${why}`);
  for (const child of children) child.kill('SIGKILL');
  try { // the browser's own children may still write into it for a moment
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  } catch (error) {
    console.error(`${folder} stays: ${error.message}`);
  }
  process.exit(code);
};
const check = (name, good, saw) => {
  if (!good) finish(1, `${name}; saw ${JSON.stringify(saw)}`);
  console.log(`ok: ${name}`);
};
setTimeout(() => finish(1, 'took too long'), 500000).unref();
process.on('uncaughtException', (error) => finish(1, error.stack));

// ------------------------------------------------------------------- server

// Starts idem-reference; resolves once every listener is there.
const start = (listeners, ...args) =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const server = { child, log: '', ports: [], ended: ended(child) };
    children.push(child);
    child.stderr.setEncoding('utf8').on('data', (text) => {
      server.log += text;
      server.ports = [...server.log.matchAll(/listening on \w+:\/\/[^:\s]+:(\d+)/g)].map((m) => +m[1]);
      if (server.ports.length === listeners) resolve(server);
    });
    server.ended.then((code) => reject(new Error(`${program} ended with ${code}: ${server.log}`)));
  });

// Waits for words in its log: what happens there is not told otherwise.
const logged = (server, words) =>
  new Promise((resolve) => {
    const look = () => server.log.includes(words) && resolve();
    server.child.stderr.on('data', look);
    look();
  });

const metrics = async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
const count = (text, name) =>
  [...text.matchAll(new RegExp(`^${name}({.*})? (\\d+)`, 'gm'))].reduce((sum, m) => sum + +m[2], 0);

// ------------------------------------------------------------------- browser

const launch = async () => {
  const args = ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
    '--remote-debugging-pipe', `--user-data-dir=${folder}`,
    '--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', 'about:blank'];
  const child = spawn(browser, args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  children.push(child);
  let closing = false;
  const gone = ended(child).then((code) => closing || finish(1, `the browser ended with ${code}`));
  const waiting = new Map();
  let rest = '', next = 1;
  child.stdio[4].setEncoding('utf8').on('data', (text) => {
    const messages = (rest + text).split('\0');
    rest = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      if (message.id) waiting.get(message.id)(message);
    }
  });
  const call = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, (m) => (m.error ? reject(new Error(`${method}: ${m.error.message}`)) : resolve(m.result)));
      child.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    });
  const close = () => {
    closing = true;
    call('Browser.close');
    return gone;
  };
  return { call, close };
};

// A page of its own at an address; evaluates what it is given there.
const open = async ({ call }, url) => {
  const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
  const { errorText } = await call('Page.navigate', { url }, sessionId);
  if (errorText) throw new Error(`${url}: ${errorText}`);
  const evaluate = async (script, argument) => {
    const expression = `(${script})(${JSON.stringify(argument)})`;
    for (;;) {
      const params = { expression, awaitPromise: true, returnByValue: true };
      const { result, exceptionDetails } = await call('Runtime.evaluate', params, sessionId);
      if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
      if (result.value !== 'not there yet') return result.value;
    }
  };
  // Navigation has begun when the call returns; the page's own words tell that it is there.
  const there = `(url) => document.URL === url && document.readyState === 'complete' || 'not there yet'`;
  await evaluate(there, url);
  return evaluate;
};

// What pages run: they tell how their request fared.
const post = `async ({ url, type, body }) => {
  try {
    const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': type }, body });
    return { status: answer.status, text: await answer.text() };
  } catch (error) {
    return { error: error.message };
  }
}`;
const ask = `async ({ url, headers, body }) => {
  const all = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers };
  try {
    const answer = await fetch(url, { method: 'POST', headers: all, body });
    return { status: answer.status, session: answer.headers.get('Mcp-Session-Id'), text: await answer.text() };
  } catch (error) {
    return { error: error.message };
  }
}`;
const blindly = `async ({ url, body }) => {
  try {
    await fetch(url, { method: 'POST', mode: 'no-cors', body });
    return 'sent';
  } catch (error) {
    return 'refused';
  }
}`;
const socket = `({ url, body }) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => socket.send(body);
  socket.onmessage = (event) => resolve(event.data);
  socket.onerror = () => resolve('refused');
})`;

const echo = '{"jsonrpc":"2.0","id":1,"method":"echo","params":["hello"]}';
const json = { type: 'application/json', body: echo };

// --------------------------------------------------------------------- pages

const pages = () =>
  new Promise((resolve) => {
    const server = createServer((request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/html', Connection: 'close' });
      response.end('<!doctype html><title>a page</title>');
    });
    server.listen(0, '127.0.0.1', () => resolve(server));
  });

const cors = async (chrome, front) => {
  const server = await start(1, '--http', '127.0.0.1:0', '--allow-origin', `friend.test:${front}`);
  const url = `http://127.0.0.1:${server.ports[0]}/`, ws = url.replace('http', 'ws');
  const friend = await open(chrome, `http://friend.test:${front}/`);
  const stranger = await open(chrome, `http://stranger.test:${front}/`);
  const good = await friend(post, { url, ...json });
  check('a page of an allowed origin is answered', good.status === 200 && good.text.includes('"hello"'), good);
  const spoken = await friend(socket, { url: ws, body: echo });
  check('and opens a WebSocket', spoken.includes('"hello"'), spoken);

  const before = count(await metrics(server.ports[0]), 'mcp_requests_total');
  check('both were counted', before === 2, before);
  const bad = await stranger(post, { url, ...json });
  check('a page of another origin is not answered', bad.error !== undefined, bad);
  const plain = await stranger(post, { url, type: 'text/plain', body: echo });
  check('nor without a preflight', plain.error !== undefined, plain);
  await stranger(blindly, { url, body: echo });
  const shut = await stranger(socket, { url: ws, body: echo });
  check('nor through a WebSocket', shut === 'refused', shut);
  const after = count(await metrics(server.ports[0]), 'mcp_requests_total');
  check('nothing it asked was executed', after === before, after);
  server.child.kill('SIGTERM');
};

// What an MCP client in a page needs: its headers pass the preflight, the session's id can be read.
const mcp = async (chrome, front) => {
  const server = await start(1, '--profile', 'mcp', '--http', '127.0.0.1:0', '--allow-origin', `friend.test:${front}`);
  const url = `http://127.0.0.1:${server.ports[0]}/mcp`;
  const friend = await open(chrome, `http://friend.test:${front}/`);
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'page', version: '1' } };
  const hello = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  const opened = await friend(ask, { url, headers: {}, body: hello });
  check('a page can read the id of its session', /^[0-9a-f]{32}$/.test(opened.session), opened);
  const headers = { 'Mcp-Session-Id': opened.session, 'MCP-Protocol-Version': '2025-11-25', 'Mcp-Param-City': 'Ulm',
    'Last-Event-ID': '0-0', 'Mcp-Method': 'ping', 'Mcp-Name': 'x' };
  const ping = await friend(ask, { url, headers, body: '{"jsonrpc":"2.0","id":2,"method":"ping"}' });
  check('and send every header of MCP', ping.status === 200, ping);
  const other = await friend(ask, { url, headers: { 'X-Other': '1' }, body: hello });
  check('but no other', other.error !== undefined, other);
  server.child.kill('SIGTERM');
};

// The page came from its owner's server; then its name leads here, at the same port.
const rebinding = async (chrome) => {
  const owner = await pages(), { port } = owner.address();
  const page = await open(chrome, `http://rebound.test:${port}/`);
  await new Promise((resolve) => {
    owner.close(resolve);
    owner.closeAllConnections(); // the browser may hold one that it opened to have it ready
  });
  const server = await start(1, '--http', `127.0.0.1:${port}`);
  const answer = await page(post, { url: '/', ...json });
  check('a name rebound to this machine gets 403', answer.status === 403, answer);
  check('for its Host', answer.text.includes('forbidden-host'), answer);
  const spoken = await page(socket, { url: `ws://rebound.test:${port}/`, body: echo });
  check('and no WebSocket', spoken === 'refused', spoken);
  const asked = count(await metrics(port), 'mcp_requests_total');
  check('nothing was executed', asked === 0, asked);
  server.child.kill('SIGTERM');
};

// The witness: whoever has one request executed on these ports ends the server.
const lines = async (chrome, front, framing, wrap) => {
  const server = await start(1, '--profile', 'lsp', '--framing', framing, '--shutdown-ends-server', '--tcp',
    '127.0.0.1:0');
  const shutdown = wrap('{"jsonrpc":"2.0","id":1,"method":"shutdown"}');
  const page = await open(chrome, `http://stranger.test:${front}/`);
  const url = `http://127.0.0.1:${server.ports[0]}/`;
  for (const body of [shutdown, `\n${shutdown}`, `\r\n\r\n${shutdown}`]) {
    const sent = await page(blindly, { url, body });
    check(`a page cannot drive a port of ${framing} frames`, sent === 'refused', sent);
  }
  await page(socket, { url: url.replace('http', 'ws'), body: shutdown });
  await logged(server, 'HTTP request');
  check('the server is there still', server.child.exitCode === null, server.log);
  connect(server.ports[0], '127.0.0.1').on('error', () => {}).end(shutdown);
  check('which the same words end, said by a peer', (await server.ended) === 0, server.log);
};

const chrome = await launch();
const front = await pages();
const { port } = front.address();
await cors(chrome, port);
await mcp(chrome, port);
await rebinding(chrome);
await lines(chrome, port, 'line', (message) => `${message}\n`);
await lines(chrome, port, 'content-length', (message) => `Content-Length: ${message.length}\r\n\r\n${message}`);
await chrome.close();
finish(0);
