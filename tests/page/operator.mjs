// operator.mjs - whoever runs the server: traffic live and recorded, logs, metrics, configuration, three tabs, a server that comes back.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { KEY, accessible, call, check, faultless, finish, folder, launch, openOperator, picture, post, program, serve, speak, until } from './support.mjs';

const config = {
  name: 'operated',
  tools: {
    echo: { description: 'Says it again', args: { text: 'string' }, run: ['echo', '{text}'] },
    slow: { description: 'Takes its time', args: {}, run: ['sleep', '60'], progress: true },
    slower: { description: 'Takes its time, too', args: {}, run: ['sleep', '60'], progress: true },
    nap: { description: 'Sleeps for a moment', args: {}, run: ['sleep', '0.4'] },
    talker: { description: 'Talks while it works', args: {}, run: ['sh', '-c', 'echo first words >&2; sleep 60'] },
    noisy: { description: 'Writes to stderr', args: {}, run: ['sh', '-c', 'echo spoken on stderr >&2; echo done'], stderr: 'log' },
  },
};
const served = await serve(config);
const browser = await launch();
const rows = (page) => page.locator('.message-row');
const status = (page) => page.textContent('.traffic [role=status]');
// The list is longer than what is seen of it, and its end is in sight.
const follows = async (name) => until(name, async () => {
  const [rest, more] = await page.locator('.virtual').evaluate((list) => [list.scrollHeight - list.clientHeight - list.scrollTop, list.scrollHeight - list.clientHeight]);
  return (more > 100 && Math.abs(rest) < 2) || { rest, more };
});
// Places one behind the other, each left again in the frame after it was drawn.
const rush = (places) => page.evaluate(async (hashes) => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  for (const hash of hashes) {
    const there = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
    location.hash = hash;
    await there;
    await frame();
  }
}, places);

// --- traffic
const page = await openOperator(browser, served.base, 'traffic');
await until('the page sees its own messages', async () => (await rows(page).count()) > 4);
await call(served.base, 41, 'echo', { text: 'a needle in it' });
await post(served.base, { jsonrpc: '2.0', id: 42, method: 'no/such', params: {} });
await until('another client shows up', async () => (await page.textContent('.virtual')).includes('tools/call echo #41') || page.textContent('.virtual'));
await page.getByLabel('Filter messages').fill('needle');
await until('a filter finds text, both ways', async () => (await rows(page).count()) === 2 || rows(page).count());
check('latency and size stand in the row', /\d (ms|µs|s)/.test(await rows(page).nth(1).locator('.took').textContent()) && / B|KB/.test(await rows(page).nth(0).locator('.size').textContent()), await page.textContent('.virtual'));
await page.locator('.virtual').focus();
await page.keyboard.press('Home');
await page.locator('.detail').waitFor();
check('request and answer are joined', (await page.textContent('.detail')).includes('Request') && (await page.textContent('.detail')).includes('Answer'), await page.textContent('.detail'));
await accessible(page, 'traffic');
await picture(page, 'traffic');
await page.keyboard.press('Escape');
await page.getByLabel('Filter messages').fill('is:error id:42');
await until('the link keeps the filter', async () => page.url().endsWith('#/traffic?filter=is%3Aerror+id%3A42') || page.url());
await until('errors are marked', async () => (await page.locator('.message-row.bad').count()) === 2 || page.textContent('.virtual'));
const naps = [call(served.base, 44, 'nap', {}), call(served.base, 44, 'echo', { text: 'meanwhile' })];
await Promise.all(naps);
await page.getByLabel('Filter messages').fill('id:44');
await until('calls of two clients with the same id are told apart', async () => {
  const answers = await page.locator('.message-row:has(.took:not(:empty))').evaluateAll((all) => all.map((one) => one.querySelector('.what').textContent));
  return answers.sort().join() === 'answer tools/call echo #44,answer tools/call nap #44' || answers;
});
await page.evaluate(() => { location.hash = '#/traffic?filter=id:41'; });
await until('and brings one', async () => ((await page.textContent('.virtual')).includes('#41') && (await page.getByLabel('Filter messages').inputValue()) === 'id:41') || page.textContent('.virtual'));
await page.getByLabel('Filter messages').fill('');
await post(served.base, { jsonrpc: '2.0', id: 43, method: 'no/such', params: { password: 'swordfish', note: `Bearer ${KEY}` } });
await page.getByLabel('Filter messages').fill('id:43');
await until('the message is there', async () => ((await rows(page).count()) === 2 && (await page.textContent('.virtual')).includes('#43')) || page.textContent('.virtual'));
await rows(page).first().click();
check('secrets are taken out', !/swordfish|operators-key/.test(await page.textContent('.detail')) && (await page.textContent('.detail')).includes('[redacted]'), await page.textContent('.detail'));
await page.getByLabel('Filter messages').fill('');
await Promise.all(Array.from({ length: 20 }, (_, i) => post(served.base, { jsonrpc: '2.0', id: 100 + i, method: 'no/such', params: {} })));
await follows('what comes is in sight');
await rush(['#/', '#/traffic', '#/logs', '#/traffic']);
await Promise.all(Array.from({ length: 5 }, (_, i) => post(served.base, { jsonrpc: '2.0', id: 150 + i, method: 'no/such', params: {} })));
await until('the last of more', async () => (await page.textContent('.virtual')).includes('#154') || page.textContent('.virtual'));
await follows('wherever one has been meanwhile, and however shortly');
const before = await status(page);
const top = () => page.locator('.virtual').evaluate((list) => list.scrollTop);
await page.locator('.virtual').evaluate((list) => { list.scrollTop = 40; });
await until('who looks at the beginning', async () => (await page.textContent('.virtual')).includes('server/discover') || page.textContent('.virtual'));
await post(served.base, { jsonrpc: '2.0', id: 199, method: 'no/such', params: {} });
await until('sees that more comes', async () => (await status(page)) !== before || before);
check('and is left there', (await top()) === 40, await top());
await rush(['#/logs', '#/traffic']);
await until('also after having been elsewhere', async () => (await top()) === 40 || top());

// --- recordings
const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
const recording = join(folder, 'recording.jsonl');
await file.saveAs(recording);
const lines = readFileSync(recording, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
check('the recording begins with its header', lines[0].idem === 'recording' && lines[0].version === 1, lines[0]);
check('and has the messages', lines.slice(1).every((one) => one.t > 0 && '<>'.includes(one.dir) && one.message !== undefined) && lines.some((one) => one.message?.id === 41 && one.message.result), lines.length);
const drop = async (target, path, name, place = '.traffic') => {
  const transfer = await target.evaluateHandle(([text, title]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], title));
    return data;
  }, [readFileSync(path, 'utf8'), name]);
  await target.dispatchEvent(place, 'dragover', { dataTransfer: transfer });
  await target.dispatchEvent(place, 'drop', { dataTransfer: transfer });
};
await drop(page, recording, 'mine.jsonl');
await page.waitForFunction(() => document.querySelector('.traffic [role=status]').textContent.includes('from mine.jsonl'));
check('a recording that is dropped is shown', (await page.textContent('.traffic [role=status]')).includes(`${lines.length - 1} messages`), await page.textContent('.traffic [role=status]'));
await page.getByRole('button', { name: 'back to the live traffic' }).click();
writeFileSync(join(folder, 'other.txt'), 'no recording\n');
await drop(page, join(folder, 'other.txt'), 'other.txt');
await page.getByText('This is no recording of idem').waitFor();
console.log('ok: what is no recording is refused with a sentence');

// --- ten thousand messages, and a page that stays quick
const large = join(folder, 'large.jsonl');
const many = ['{"idem":"recording","version":1}'];
for (let i = 0; i < 10000; i++) many.push(JSON.stringify({ t: 1e15 + i * 1000, conn: i, dir: '>', bytes: 99, peer: 'tcp', message: { jsonrpc: '2.0', id: i, method: 'tools/call', params: { name: `tool_${i % 7}` } } }), JSON.stringify({ t: 1e15 + i * 1000 + 500, conn: i, dir: '<', bytes: 99, peer: 'tcp', message: { jsonrpc: '2.0', id: i, result: { content: [] } } }));
writeFileSync(large, many.join('\n') + '\n');
await page.locator('.traffic input[type=file]').setInputFiles(large);
await page.waitForFunction(() => document.querySelector('.traffic [role=status]').textContent.includes('20,000 of 20,000'));
const drawn = await page.evaluate(async () => {
  const list = document.querySelector('.virtual');
  let most = 0;
  for (let i = 0; i < 40; i++) {
    list.scrollTop = (list.scrollHeight / 40) * i;
    const from = performance.now();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    most = Math.max(most, document.querySelectorAll('.message-row').length, 0 * from);
  }
  return most;
});
check('only what is seen is there', drawn < 80, drawn);
await page.getByLabel('Filter messages').fill('id:9999');
await until('a filter over all of them', async () => (await rows(page).count()) === 2 || rows(page).count());
await page.getByLabel('Filter messages').fill('');
await until('and without it again', async () => (await status(page)).includes('20,000 of 20,000') || status(page));
check('from its beginning, as it is no live traffic', (await top()) === 0, await top());
await page.locator('.virtual').evaluate((list) => { list.scrollTop = 30000; });
await page.getByRole('button', { name: 'back to the live traffic' }).click();
await follows('back at the live traffic, its end is in sight');
faultless(page, 'traffic');

// --- the viewer, without a server
const viewer = join(folder, 'viewer.html');
execFileSync(program, ['page', '-o', viewer]);
const offline = await browser.newContext({ offline: true });
const alone = await offline.newPage();
const wrong = [];
alone.on('pageerror', (error) => wrong.push(error.message));
alone.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
await alone.goto(pathToFileURL(viewer).href);
await drop(alone, recording, 'mine.jsonl');
await until('the viewer shows a recording from file://', async () => (await rows(alone).count()) > 4 || wrong);
await rows(alone).first().click();
check('and its messages', (await alone.textContent('.detail')).length > 20 && wrong.length === 0, wrong);
await accessible(alone, 'viewer');
await picture(alone, 'viewer');
await offline.close();

// --- logs, metrics, configuration
await page.evaluate(() => { location.hash = '#/logs'; });
await call(served.base, 50, 'noisy', {});
await until('the log is live, and has the stderr of programs', async () => (await page.textContent('.virtual')).includes('spoken on stderr') || page.textContent('.virtual'));
const talking = new AbortController();
call(served.base, 51, 'talker', {}, talking.signal).catch(() => {});
await until('while a program runs, also where nothing is said of its stderr', async () => (await page.textContent('.virtual')).includes('talker: first words') || page.textContent('.virtual'));
talking.abort();
await accessible(page, 'logs');
await picture(page, 'logs');
await page.evaluate(() => { location.hash = '#/metrics'; });
await until('the first sample has come', async () => (await page.locator('.chart .now').first().textContent()) !== '\u2013' || page.textContent('main'));
const paths = await page.locator('.chart .series').evaluateAll((all) => all.map((one) => one.getAttribute('d')));
check('what was measured is paths, each run of samples as a line of its own', paths.length === 9 && paths[0].startsWith('M') && paths.every((d) => /^(M[\d.]+,[\d.]+ L[\d., ]+)*$/.test(d)), paths);
await page.locator('.chart svg').first().hover();
check('how long it was is said as one says it', /^The last (minute|([2-9]|\d\d) minutes), /.test(await page.textContent('main [role=status]')), await page.textContent('main [role=status]'));
const scales = await page.locator('.chart .scale').evaluateAll((all) => all.map((one) => [...one.children].map((span) => span.textContent)));
check('each chart has its scale, up to a round number', scales.length === 7 && scales.every(([top, zero]) => /^(1|2|5)0*( (\u00b5s|ms|s|min|B|KB|MB|GB))?$|^0\.\d*[125]$/.test(top) && zero === '0'), scales);
check('and its span', /^1?5 minutes ago now$/.test((await page.locator('.chart .span').first().innerText()).replace(/\s+/g, ' ')), await page.locator('.chart .span').first().innerText());
check('numbers stand under the pointer', /\d\d:\d\d:\d\d/.test(await page.textContent('.chart .at')), await page.textContent('.chart .at'));
await page.locator('.chart svg').nth(1).focus();
await page.keyboard.press('ArrowLeft');
check('and under the arrow keys', /\d\d:\d\d:\d\d/.test(await page.locator('.chart .at').nth(1).textContent()), null);
await accessible(page, 'metrics');
await picture(page, 'metrics');
await page.evaluate(() => { location.hash = '#/config'; });
await page.locator('.source').waitFor();
check('#/config leads to #/configuration', page.url().endsWith('#/configuration') && (await page.getAttribute('.tabs a[aria-current]', 'href')) === '#/configuration', page.url());
check('the configuration in force is shown', (await page.textContent('.source')).includes('Takes its time'), await page.textContent('.source'));
writeFileSync(served.path, '{\n  "name": "operated",\n  "tols": {}\n}\n');
await page.locator('.refused').waitFor();
const refused = () => page.locator('.refused .marked').evaluate((one) => ({ line: one.dataset.line, text: one.textContent, mark: one.querySelector('mark')?.textContent, why: one.parentNode.querySelector('.why').textContent, over: one.parentNode.scrollWidth - one.parentNode.clientWidth }));
let seen = await refused();
check('a reload that is refused shows by itself, with the line in the file, the place in it and what is wrong with it', seen.line === '3' && seen.text.includes('"tols": {}') && seen.mark === '"tols"' && /^line 3, column 3: .*tols/.test(seen.why), seen);
await picture(page, 'configuration-refused');
writeFileSync(served.path, `{"name": "operated", "description": "${'\u00fc long '.repeat(300)}", "tols": {}, "x": "${'more '.repeat(300)}"}`);
await until('the place is in sight in a line that is very long, too', async () => {
  seen = await refused().catch(() => ({}));
  return (seen.mark === '"tols"' && seen.text.length < 500 && seen.text.startsWith('\u2026') && seen.text.endsWith('\u2026') && seen.over <= 0) || seen;
});
check('while the one before is in force', (await page.textContent('.source:not(.refused)')).includes('Takes its time'), null);
await accessible(page, 'configuration');
await picture(page, 'configuration');
config.tools.added = { description: 'New', args: {}, run: ['echo', 'new'] };
writeFileSync(served.path, JSON.stringify(config));
await until('a reload that is taken shows at once', async () => (await page.textContent('.side')).includes('added') || page.textContent('.side'));
await until('and what was wrong is gone', async () => (await page.locator('.refused').count()) === 0 && (await page.textContent('.source')).includes('"added"'));
faultless(page, 'operator');

// --- on a phone, without motion, a file dropped anywhere
await page.emulateMedia({ reducedMotion: 'reduce' });
await page.setViewportSize({ width: 375, height: 740 });
for (const place of ['', 'tasks', 'traffic', 'logs', 'metrics', 'configuration', 'tool/echo']) {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${place}`);
  await page.waitForFunction((hash) => location.hash === hash && document.querySelector('main article, main form'), `#/${place}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(`#/${place}: nothing is wider than a phone`, wide <= 0, wide);
  const tab = await page.evaluate(() => document.querySelector('.tabs a[aria-current]')?.getBoundingClientRect().right ?? 0);
  check('and the tab is in sight', tab <= 375, tab);
}
await page.getByRole('button', { name: 'copy as curl' }).click();
await page.waitForFunction(() => document.querySelector('.note') && getComputedStyle(document.querySelector('.note')).animationName === 'none');
console.log('ok: nothing moves for who wants no motion');
await page.setViewportSize({ width: 1280, height: 800 });
await page.emulateMedia({ reducedMotion: null });
await drop(page, recording, 'elsewhere.jsonl', 'main');
await page.waitForFunction(() => location.hash === '#/recording' && document.querySelector('.traffic [role=status]')?.textContent.includes('from elsewhere.jsonl'));
console.log('ok: a recording may be dropped anywhere on the page');
faultless(page, 'phone');

// --- three tabs, four calls
const tabs = [page, await page.context().newPage(), await page.context().newPage()];
for (const tab of tabs.slice(1)) await tab.goto(`${served.base}/#key=${KEY}`);
for (const tab of tabs) await tab.evaluate(() => { location.hash = '#/tool/slow'; });
for (const tab of tabs) await tab.getByRole('button', { name: 'Call', exact: true }).click();
await tabs[0].evaluate(() => { location.hash = '#/tool/slower'; });
await tabs[0].getByRole('button', { name: 'Call', exact: true }).click();
await tabs[2].evaluate(() => { location.hash = '#/traffic'; });
await tabs[2].getByLabel('Filter messages').fill('is:in method:tools/call slow');
await until('with three tabs, four calls run at once', async () => (await rows(tabs[2]).count()) >= 4 || tabs[2].textContent('main'));
await tabs[0].getByRole('button', { name: 'Cancel' }).click();
await tabs[2].evaluate(() => { location.hash = '#/tool/echo'; });
await tabs[2].getByLabel('text').fill('still there');
await tabs[2].keyboard.press('Enter');
await tabs[2].waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('still there'));
console.log('ok: and another is answered when one has ended');
await tabs[1].evaluate(() => { location.hash = '#/traffic?filter=id:41'; });
await until('every tab has the traffic, also what was before it came', async () => (await rows(tabs[1]).count()) === 2 || tabs[1].textContent('main'));
for (const tab of tabs.slice(0, 2)) await tab.evaluate(() => { location.hash = '#/metrics'; });
const samples = (tab) => tab.locator('.series').first().evaluate((line) => line.getAttribute('d').match(/,/g).length);
await until('and the numbers of the hour', async () => {
  const [first, second] = [await samples(tabs[0]), await samples(tabs[1])];
  return (first > 1 && first === second) || [first, second];
});
await tabs[1].evaluate(() => { location.hash = '#/logs'; });
await tabs[1].getByLabel('Least level').selectOption('warn');
const warnings = () => tabs[1].textContent('.logs [role=status]').then((text) => text.split(' ')[0]);
await until('and the log', async () => Number(await warnings()) > 2 || warnings());
const told = await warnings();
const feeds = page.context().waitForEvent('response', (response) => response.url().endsWith('/page/feed'));
await page.goto('about:blank'); // it led
await feeds;
await call(served.base, 60, 'noisy', {});
await tabs[1].getByLabel('Least level').selectOption('debug');
await until('when the tab that led is gone, another does', async () => (await tabs[1].textContent('.virtual')).includes('tools/call \u00b7 60') || tabs[1].textContent('.virtual'));
await tabs[1].getByLabel('Least level').selectOption('warn');
await until('and hears nothing twice', async () => (await warnings()) === told || [told, await warnings()]);
await page.goto(`${served.base}/#key=${KEY}`);
await page.waitForSelector('.tiles');
for (const tab of tabs.slice(1)) await tab.close();

// --- it goes and comes back
await page.evaluate(() => { location.hash = '#/'; });
await speak(page, '2025-06-18');
await page.evaluate(() => {
  window.notes = []; // what was said, also when it has gone again
  new MutationObserver(() => window.notes.push(document.getElementById('notes').textContent)).observe(document.getElementById('notes'), { childList: true });
});
await served.stop();
await until('a server that is gone is said', async () => (await page.textContent('#health')).includes('reconnecting') || page.textContent('#health'));
await page.evaluate(() => { location.hash = '#/tool/echo'; });
await page.getByLabel('text').fill('is anybody there');
await page.keyboard.press('Enter');
await page.getByText('The server cannot be reached').waitFor();
console.log('ok: a call to it says so');
await page.setViewportSize({ width: 375, height: 740 });
const over = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, document.querySelector('#revision').getBoundingClientRect().right - innerWidth]);
check('on a phone as well, and there is room for it', over.every((one) => one <= 0), over);
await picture(page, 'phone-lost');
await page.setViewportSize({ width: 1280, height: 800 });
const again = await serve(served.path, { port: served.port });
await until('and so is that it is back', async () => (await page.textContent('#health')) === 'healthy' || page.textContent('#health'));
await page.waitForFunction(() => window.notes.some((text) => text.includes('lost')) && window.notes.some((text) => text.includes('Connected again')));
console.log('ok: both in words');
await page.locator('#revision[data-spoken="2025-06-18"]').waitFor();
check('what was typed is still there', (await page.getByLabel('text').inputValue()) === 'is anybody there', await page.getByLabel('text').inputValue());
await page.getByLabel('text').focus();
await page.keyboard.press('Enter');
await page.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('is anybody there'));
console.log('ok: and is answered, in a new session of the same revision');
await page.evaluate(() => { location.hash = '#/traffic'; });
await until('the feed is back', async () => (await status(page)).endsWith(', live') || status(page));
await call(again.base, 77, 'echo', { text: 'after the break' });
await until('and goes on', async () => (await page.textContent('.virtual')).includes('#77') || page.textContent('.virtual'));

// --- what waits longer each time waits no longer when the server is known to be there: told by a clock that stands still
await page.clock.install();
await page.reload();
await until('with another clock', async () => (await status(page).catch(() => '')).endsWith(', live') || page.textContent('main'));
await page.clock.pauseAt(Date.now() + 600000);
let failed = 0;
page.on('requestfailed', (request) => { failed += request.url().endsWith('/page/feed'); });
await again.stop();
await until('the feed is asked for three times, in vain', async () => {
  await page.clock.runFor(300);
  return failed >= 4 || failed; // one of them had begun
});
const last = await serve(served.path, { port: served.port });
for (let i = 0; i < 20; i++) await page.clock.runFor(100);
await until('before it would be asked for again, it is back', async () => {
  await page.clock.runFor(1);
  return (await status(page)).endsWith(', live') || status(page);
});

// --- and with another key
await page.clock.resume();
await last.stop();
const renamed = await serve(served.path, { port: served.port, env: { IDEM_PAGE_KEY: 'the-key-of-another-start' } });
await until('a key that the server does not take any more is said to be none, beside what was seen with it', async () => (/^[1-9]\d* of .*, not connected: the server has another key now$/.test(await status(page))) || status(page));
await page.evaluate(() => { location.hash = '#/logs'; });
await page.reload();
await page.getByLabel('Operator\u2019s key').fill('no such key');
await page.getByRole('button', { name: 'Show it' }).click();
await page.getByText('The server does not take the last key').waitFor();
await page.getByLabel('Operator\u2019s key').fill('the-key-of-another-start');
await page.getByRole('button', { name: 'Show it' }).click();
await until('with the one of this start all of it goes on', async () => (await page.textContent('.logs [role=status]')).endsWith(', live') || page.textContent('main'));
await browser.close();
await renamed.stop();
finish(0);
