// doors.mjs - who gets nothing: no key, another key, other origins, frames, names that are rebound, and everybody with --no-page.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { KEY, accessible, call, check, finish, folder, launch, openPage, picture, program, serve, until } from './support.mjs';

const config = { name: 'doors', tools: {
  echo: { args: { text: 'string' }, run: ['echo', '{text}'] },
  large: { script: 'empty.sql', query: 'SELECT hex(zeroblob(12000)) AS text' },
} };
writeFileSync(join(folder, 'empty.sql'), 'CREATE TABLE things (a);\n');
const served = await serve(config, { env: { IDEM_PAGE_KEY: '' } });
const status = async (path, headers = {}) => (await fetch(served.base + path, { headers })).status;
const raw = (head) => new Promise((resolve) => {
  let text = '';
  const socket = connect(served.port, '127.0.0.1', () => socket.write(head));
  socket.setEncoding('utf8').on('data', (data) => { text += data; if (text.includes('\r\n\r\n')) socket.destroy(); }).on('close', () => resolve(text));
});

// --- the key
await until('the log says where the page is', async () => served.log().includes('the page is at') || served.log());
const files = readdirSync(join(folder, 'run/idem'));
const address = readFileSync(join(folder, 'run/idem', files[0]), 'utf8').trim();
const key = address.split('#key=')[1];
check('without a terminal the address is in a file', address.startsWith(`${served.base}/#key=`) && key.length >= 32, address);
check('that only this user reads', (statSync(join(folder, 'run/idem', files[0])).mode & 0o777) === 0o600 && (statSync(join(folder, 'run/idem')).mode & 0o777) === 0o700, null);
if (process.getuid() === 0) {
  for (const one of ['', 'run', 'run/idem']) chmodSync(join(folder, one), 0o755); // were its folders open
  const other = spawnSync('cat', [join(folder, 'run/idem', files[0])], { uid: 65534, gid: 65534 });
  check('another user cannot read it', other.status !== 0 && !String(other.stdout).includes(key), String(other.stderr));
  for (const one of ['run/idem', 'run']) chmodSync(join(folder, one), 0o700);
} else console.log('ok: another user is not to be had without root; the mode says it');
check('and that the log names, without the key', served.log().includes(files[0]) && !served.log().includes(key), served.log());
for (const path of ['/page/feed', '/page/about']) {
  check(`${path} without a key is 401`, (await status(path)) === 401, null);
  check(`${path} with another key is 401`, (await status(path, { Authorization: `Bearer ${'x'.repeat(key.length)}` })) === 401, null);
  check(`${path}: a key in the address is none`, (await status(`${path}?key=${key}`)) === 401, null);
}
check('HEAD of the feed ends at once', (await fetch(`${served.base}/page/feed`, { method: 'HEAD', headers: { Authorization: `Bearer ${key}` } })).status === 200, null);
check('with the key it opens', (await status('/page/about', { Authorization: `Bearer ${key}` })) === 200, null);
check('the refusals are not told the key', !served.log().includes(key), null);
const other = await serve(config, { env: { IDEM_PAGE_KEY: '' } });
check('another start has another key', (await fetch(`${other.base}/page/about`, { headers: { Authorization: `Bearer ${key}` } })).status === 401, null);
await other.stop();
const shell = await (await fetch(served.base)).text();
check('the shell holds no secret and no name of the server', !shell.includes(key) && !shell.includes('doors'), shell);
const head = await fetch(served.base, { headers: { 'Accept-Encoding': 'identity' } });
const policy = head.headers.get('Content-Security-Policy');
check('its policy has no inline script, no eval, no frame', policy.includes("default-src 'none'") && policy.includes("script-src 'self';") && policy.includes("frame-ancestors 'none'") && !policy.includes('unsafe'), policy);
check('and it sets no cookie', head.headers.get('Set-Cookie') === null, null);
check('who takes no gzip gets it plain', head.headers.get('Content-Encoding') === null && shell.includes('<title>'), null);

// --- a terminal
{
  const shown = await new Promise((resolve, reject) => {
    let text = '';
    let ended = false;
    const child = spawn('script', ['-qfec', `'${program}' serve '${served.path}' --http 127.0.0.1:0`, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, IDEM_PAGE_KEY: '', XDG_RUNTIME_DIR: join(folder, 'run') } });
    child.on('error', () => reject(new Error('script is missing: run scripts/setup test')));
    child.stdout.setEncoding('utf8').on('data', (data) => {
      text += data;
      if (ended || !/#key=\S+\s/.test(text)) return;
      ended = true;
      child.stdin.on('error', () => {}).write('\x03'); // Ctrl-C; it may be gone already
    });
    child.on('exit', () => resolve(text));
  });
  check('on a terminal the address is printed whole', /page +http:\/\/127\.0\.0\.1:\d+\/#key=[\w-]{32}/.test(shown), shown);
  check('and written nowhere', readdirSync(join(folder, 'run/idem')).length === 1, readdirSync(join(folder, 'run/idem')));
}

// --- a reader that does not read
{
  const quiet = connect(served.port, '127.0.0.1', () => quiet.write(`GET /page/feed HTTP/1.1\r\nHost: 127.0.0.1:${served.port}\r\nAuthorization: Bearer ${key}\r\n\r\n`));
  await new Promise((resolve) => quiet.once('readable', resolve));
  for (let i = 0; i < 300; i++) await call(served.base, i, 'large', {});
  let text = '';
  quiet.setEncoding('utf8').on('data', (data) => { text += data; });
  await until('who reads too slowly is told what it missed, and then hears more', async () => {
    await call(served.base, 'after', 'large', {});
    const at = text.search(/"lost":\d+/);
    return (at > 0 && text.slice(at).includes('"id":"after"')) || text.length;
  });
  quiet.destroy();
}

// --- rebinding
for (const path of ['/', '/page/page.js', '/page/about', '/page/feed'])
  check(`${path} under another name is refused`, /^HTTP\/1.1 4\d\d/.test(await raw(`GET ${path} HTTP/1.1\r\nHost: evil.test:${served.port}\r\nAuthorization: Bearer ${key}\r\n\r\n`)), null);
check('and from another origin', /^HTTP\/1.1 403/.test(await raw(`GET /page/about HTTP/1.1\r\nHost: 127.0.0.1:${served.port}\r\nOrigin: http://evil.test\r\nAuthorization: Bearer ${key}\r\n\r\n`)), null);

// --- other pages, in a browser
const evil = createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/html' });
  response.end(`<!doctype html><iframe id="f" src="${served.base}/"></iframe><script src="${served.base}/page/page.js"></script>`);
});
await new Promise((resolve) => evil.listen(0, '127.0.0.1', resolve));
const browser = await launch();
const elsewhere = `http://evil.test:${evil.address().port}`;
const page = await openPage(browser, elsewhere, '/', { elsewhere: /127\.0\.0\.1|evil\.test/, clipboard: false });
const tried = await page.evaluate(async ([base, secret]) => {
  const results = {};
  for (const path of ['/', '/page/page.js', '/page/about', '/page/feed', '/mcp']) {
    for (const mode of ['cors', 'no-cors']) {
      try {
        const response = await fetch(base + path, { mode, headers: mode === 'cors' ? { Authorization: `Bearer ${secret}` } : {} });
        results[`${mode} ${path}`] = response.type === 'opaque' ? 'opaque' : await response.text();
      } catch (error) {
        results[`${mode} ${path}`] = 'refused';
      }
    }
  }
  return results;
}, [served.base, key]);
check('a page of another origin reads nothing, even with the key', Object.values(tried).every((one) => one === 'refused' || one === 'opaque'), tried);
const rebound = await page.goto(`http://evil.test:${served.port}/`);
check('a name that is rebound to this machine shows no page', rebound.status() >= 400 && (await page.locator('.brand').count()) === 0, rebound.status());
await page.goto(elsewhere);
const framed = page.frames().find((frame) => frame !== page.mainFrame());
check('and cannot frame it', !framed || !(await framed.evaluate(() => document.querySelector('.brand')?.textContent).catch(() => null)), null);
await page.context().close();

// --- a person without the key, and with it
const guest = await openPage(browser, served.base, '/#/traffic');
await guest.getByText('This is for whoever runs the server').waitFor();
console.log('ok: without the key the operator\'s views say what is missing');
await accessible(guest, 'the question for the key');
await picture(guest, 'key');
await guest.getByRole('link', { name: 'Open a recording instead' }).click();
await guest.getByText('Drop a recording on this page').waitFor();
console.log('ok: but a recording can be looked at');
await guest.goBack();
await guest.getByLabel('Operator\u2019s key').fill(address);
await guest.getByRole('button', { name: 'Show it' }).click();
await guest.locator('.traffic').waitFor();
await until('the pasted address opens them', async () => (await guest.textContent('.traffic [role=status]')).includes('live') || guest.textContent('.traffic [role=status]'));
await guest.context().close();
await browser.close();
evil.close();
await served.stop();
check('the file is gone with the server', readdirSync(join(folder, 'run/idem')).length === 0, readdirSync(join(folder, 'run/idem')));

// --- none at all
const none = await serve(config, { args: ['--no-page'] });
for (const path of ['/', '/page/page.js', '/page/about', '/page/feed']) check(`--no-page: ${path} is 404`, (await fetch(none.base + path, { headers: { Authorization: `Bearer ${KEY}` } })).status === 404, null);
check('and there is no key', readdirSync(join(folder, 'run/idem')).length === 0 && !none.log().includes('the page'), none.log());
await none.stop();
finish(0);
