// support.mjs - what the scenarios share: a server, a browser, a person's steps, and checks that say what they promise.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs';
import { createServer, request as ask } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const [program, browserPath, root, pictures] = process.argv.slice(2);
const PATIENCE_MS = 60000;
export const KEY = 'the-operators-key-of-this-test';
export const folder = mkdtempSync(join(tmpdir(), 'idem-page-'));
const children = [];
const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const finish = (code, why) => {
  if (why) console.error(`FAILED: ${why}`);
  for (const child of children) child.kill('SIGKILL');
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  } catch (error) {
    console.error(`${folder} stays: ${error.message}`);
  }
  process.exit(code);
};
process.on('uncaughtException', (error) => finish(1, error.stack));
process.on('unhandledRejection', (error) => finish(1, error.stack));

export const check = (name, good, saw) => {
  if (!good) finish(1, `${name}; saw ${JSON.stringify(saw)?.slice(0, 2000)}`);
  console.log(`ok: ${name}`);
};

// ------------------------------------------------------------------------------ servers

// A process of the test's own, which ends with it.
export const start = (child) => {
  children.push(child);
  return child;
};

export const listening = (child, words) => new Promise((resolve, reject) => {
  let log = '';
  child.log = () => log;
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text;
    const match = words.exec(log);
    if (match) resolve(match);
  });
  child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
});

// idem serve on a free port, or on `port`; resolves when it listens.
export async function serve(config, { port = 0, args = [], env = {} } = {}) {
  const path = typeof config === 'string' ? config : join(folder, `idem-${children.length}.json`);
  if (typeof config !== 'string') writeFileSync(path, JSON.stringify(config));
  mkdirSync(join(folder, 'run'), { recursive: true, mode: 0o700 });
  const child = spawn(program, ['serve', path, '--http', `127.0.0.1:${port}`, ...args],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, IDEM_PAGE_KEY: KEY, XDG_RUNTIME_DIR: join(folder, 'run'), ...env } });
  children.push(child);
  const match = await listening(child, /listening on (http:\/\/127\.0\.0\.1:(\d+))\/mcp/);
  const stop = () => new Promise((resolve) => {
    child.removeAllListeners('exit');
    child.on('exit', resolve);
    child.kill('SIGTERM');
  });
  return { child, path, base: match[1], port: Number(match[2]), stop, log: child.log };
}

// Hands a request on to another port of this machine, as if it had come there. onAnswer(body, headers of both) may look on.
function pass(port, request, response, onAnswer) {
  const headers = { ...request.headers, host: `127.0.0.1:${port}` };
  delete headers.origin;
  const onward = ask({ host: '127.0.0.1', port, path: request.url, method: request.method, headers }, (got) => {
    onAnswer?.(body, request.headers, got.headers);
    response.writeHead(got.statusCode, got.headers);
    response.flushHeaders();
    got.pipe(response);
  });
  let body = '';
  if (onAnswer) request.on('data', (bytes) => { body += bytes; });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  request.pipe(onward);
}

async function listen(handler) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { base: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

// The page's own files and feed, with another MCP server behind /mcp: `answer(message, respond, request)`.
export const front = (served, answer) => listen((request, response) => {
  if (!request.url.startsWith('/mcp')) return pass(served.port, request, response);
  let body = '';
  request.setEncoding('utf8').on('data', (text) => { body += text; }).on('end', () => answer(body ? JSON.parse(body) : null, response, request));
  return undefined;
});

// The same with a server that is a process of its own.
export const behind = (served, port, onAnswer) => listen((request, response) => pass(request.url.startsWith('/mcp') ? port : served.port, request, response, onAnswer));

// The page in front of idem's own server of everything: tasks, questions, changes. `direct` is where that is itself.
export async function everything(served) {
  const child = start(spawn(process.env.IDEM_TASKS_SERVER, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] }));
  const [, port] = await listening(child, /listening on http:\/\/127\.0\.0\.1:(\d+)\/mcp/);
  return { ...await behind(served, Number(port)), direct: `http://127.0.0.1:${port}` };
}

// One message from another client.
export async function post(base, message, headers = {}, signal = undefined) {
  const response = await fetch(`${base}/mcp`, { method: 'POST', signal, headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers }, body: JSON.stringify(message) });
  return { status: response.status, text: await response.text() };
}

export const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
export const call = (base, id, name, args, signal) => post(base, { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, _meta: META } },
  { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': name }, signal);

// ------------------------------------------------------------------------------ browser

export async function launch() {
  const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu', '--in-process-gpu', '--disable-software-rasterizer', '--disable-dev-shm-usage', '--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'] });
  return browser;
}

// A page that must stay free of faults: no error, no policy broken, no request elsewhere.
export async function openPage(browser, base, path = '/', options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  if (options.clipboard !== false) await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: base });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  watch(page, base, options);
  if (path) await page.goto(base + path);
  return page;
}

// The same page once more, as somebody sees it who comes for the first time. (A new one costs a second.)
export async function anew(page, base, path) {
  await page.evaluate(() => { sessionStorage.clear(); localStorage.clear(); });
  await page.goto('about:blank');
  await page.goto(base + path);
}

export function watch(page, base, options = {}) {
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(`error: ${error.stack}`));
  page.on('console', (message) => message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text()) && page.faults.push(`console: ${message.text()}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(base) && !/^(data|blob|about|file):/.test(url) && !options.elsewhere?.test(url)) page.faults.push(`asked elsewhere: ${url}`);
  });
  page.on('dialog', (dialog) => {
    page.faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
}

export const faultless = (page, name) => check(`${name}: no error, no policy broken, no request elsewhere`, page.faults.length === 0, page.faults);

export async function accessible(page, name) {
  const session = await page.context().newCDPSession(page);
  const run = async (expression) => {
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true, allowUnsafeEvalBlockedByCSP: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  };
  if (!(await run('Boolean(globalThis.axe)'))) await run(`${axeSource}; undefined`);
  const look = async (options) => JSON.parse(await run(`axe.run(document, ${JSON.stringify({ resultTypes: ['violations'], ...options })}).then((r) => JSON.stringify(r.violations.map((v) => ({ id: v.id, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary.slice(0, 200)) }))))`));
  const violations = await look({});
  const [own, other] = (await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches)) ? ['dark', 'light'] : ['light', 'dark'];
  await page.emulateMedia({ colorScheme: other });
  violations.push(...await look({ runOnly: ['color-contrast'] }));
  await page.emulateMedia({ colorScheme: own });
  await session.detach();
  check(`${name}: axe finds nothing, in the light and in the dark`, violations.length === 0, violations);
}

export async function speak(page, revision) {
  await page.getByLabel('Protocol revision').selectOption(revision);
  await page.locator(`#revision[data-spoken="${revision}"]`).waitFor();
}

// Another place of the page, until its title is there.
export async function visit(page, place, title) {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${place}`);
  await page.waitForFunction((wanted) => document.querySelector('main h1')?.textContent === wanted, title);
}

export const picture = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });
// The operator's page, at a place.
export async function openOperator(browser, base, place = '', options = {}) {
  const page = await openPage(browser, base, `/#key=${KEY}`, options);
  await page.waitForSelector('.tiles');
  if (place) await page.evaluate((hash) => { location.hash = hash; }, `#/${place}`);
  return page;
}
// How long something may take that takes a moment: a busy machine has ten others to serve first.
export const until = async (name, test) => {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const saw = await test();
    if (saw === true) return console.log(`ok: ${name}`);
    if (Date.now() > end) return finish(1, `${name}; saw ${JSON.stringify(saw)?.slice(0, 1500)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
