// answers.mjs - what servers answer and ask: media, errors, destructive tools, questions, tasks, five hundred tools, a token.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, check, faultless, finish, folder, front, launch, openPage, picture, serve, until } from './support.mjs';
import { standin } from './standin.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGNgaGDAioaWBAMDALYMCAFcvIRZAAAAAElFTkSuQmCC';
const wav = Buffer.alloc(44 + 800);
wav.write('RIFF'); wav.writeUInt32LE(836, 4); wav.write('WAVEfmt ', 8); wav.writeUInt32LE(16, 16); wav.writeUInt16LE(1, 20); wav.writeUInt16LE(1, 22);
wav.writeUInt32LE(8000, 24); wav.writeUInt32LE(8000, 28); wav.writeUInt16LE(1, 32); wav.writeUInt16LE(8, 34); wav.write('data', 36); wav.writeUInt32LE(800, 40);

const seen = [];
const tasks = new Map();
const ask = (request, then) => (params) => (params.inputResponses ? then(params) : { resultType: 'input_required', inputRequests: { q: request }, requestState: 'state-7' });
const tools = {
  media: { run: () => ({ content: [
    { type: 'text', text: '# A title\n\nA line that\ngoes on.  \nA new one\\\nand one more, 2 \\* 3.\n\nSome **bold** words, `code`, and [a link](https://example.org/).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n  - inner\n' },
    { type: 'image', data: PNG, mimeType: 'image/png' }, { type: 'audio', data: wav.toString('base64'), mimeType: 'audio/wav' },
    { type: 'resource_link', uri: 'test://thing', name: 'thing' }, { type: 'resource', resource: { uri: 'test://inner', mimeType: 'text/plain', text: 'inner text' } },
    { type: 'text', text: '{"deep":{"list":[1,2,{"x":true}]}}' }] }) },
  wide: { run: () => ({ content: [], structuredContent: { rows: [Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`column_number_${i}`, 'some_words_without_a_break_'.repeat(2)]))] } }) },
  fail: { run: () => ({ content: [{ type: 'text', text: 'it broke' }], isError: true }) },
  refuse: { run: () => { throw Object.assign(new Error('no such row'), { code: -32602, data: { row: 7 } }); } },
  destroy: { definition: { annotations: { destructiveHint: true } }, run: () => ({ content: [{ type: 'text', text: 'destroyed' }] }) },
  form: { run: ask({ method: 'elicitation/create', params: { message: 'Where to sit?', requestedSchema: { type: 'object', required: ['place'], properties: { place: { type: 'string', oneOf: [{ const: 'w', title: 'Window' }, { const: 'g', title: 'Garden' }] }, quiet: { type: 'boolean', default: true } } } } },
    (params) => ({ content: [{ type: 'text', text: JSON.stringify([params.inputResponses.q, params.requestState]) }] })) },
  model: { run: ask({ method: 'sampling/createMessage', params: { maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text: 'Say something' } }] } },
    (params) => ({ content: [{ type: 'text', text: `model said ${params.inputResponses.q.content.text}` }] })) },
  long: { run: () => {
    let polls = 0;
    const task = (status, more) => ({ taskId: 'task-1', status, createdAt: '2026-07-28T00:00:00Z', lastUpdatedAt: '2026-07-28T00:00:00Z', ttlMs: 60000, pollIntervalMs: 250, ...more });
    tasks.set('task-1', () => (++polls < 3 ? task('working', { statusMessage: `step ${polls}` }) : task('completed', { result: { content: [{ type: 'text', text: 'finished at last' }] } })));
    return { ...task('working'), resultType: 'task' };
  } },
};
const served = await serve({ name: 'behind' });
const browser = await launch();
const server = await front(served, standin({ seen, tasks, tools }));
const page = await openPage(browser, server.base, '/#/tool/media');
const go = async (name) => {
  await page.evaluate((hash) => { location.hash = hash; }, `#/tool/${name}`);
  await page.waitForFunction((wanted) => document.querySelector('main h1')?.textContent === wanted, name);
  await page.getByRole('button', { name: 'Call', exact: true }).click();
};
const outcome = () => page.locator('.outcome-place');

await page.locator('form.tool').waitFor();
check('nothing is called that was not clicked', !seen.some(([method]) => method === 'tools/call'), seen);
await go('media');
await page.waitForFunction(() => document.querySelector('main img.media')?.naturalWidth === 8);
check('Markdown, tables and lists', await page.evaluate(() => Boolean(document.querySelector('.markdown h2') && document.querySelector('.markdown td') && document.querySelector('.markdown li li'))), null);
const prose = page.locator('.markdown p').first();
check('a line that goes on is one line, and one that is ended is not', (await prose.locator('br').count()) === 2 && (await prose.evaluate((one) => one.innerText)) === 'A line that goes on.\nA new one\nand one more, 2 * 3.', await prose.evaluate((one) => one.innerText));
check('links open elsewhere, and say where', (await page.getAttribute('.markdown a', 'rel')) === 'noopener noreferrer', null);
check('audio has its controls', await page.locator('audio[controls]').isVisible(), null);
check('a link to a resource leads to it', (await page.getAttribute('.result a[href^="#/resource/"]', 'href')) === '#/resource/test%3A%2F%2Fthing', null);
check('an embedded resource is shown', (await outcome().textContent()).includes('inner text'), null);
check('JSON is a tree', await page.locator('.result .branch').first().isVisible(), null);
await accessible(page, 'media');
await page.evaluate(() => scrollTo(0, 0));
await picture(page, 'media');
await page.setViewportSize({ width: 375, height: 740 });
await go('wide');
await page.waitForSelector('.outcome-place table');
const cells = await page.evaluate(() => ({ over: document.documentElement.scrollWidth - innerWidth, head: document.querySelector('th').offsetHeight, least: Math.min(...[...document.querySelectorAll('td')].map((one) => one.offsetWidth)) }));
check('a table of many columns scrolls, its words stay words', cells.over <= 0 && cells.head < 50 && cells.least >= 60, cells);
await picture(page, 'phone-table');
await page.setViewportSize({ width: 1280, height: 800 });
await go('fail');
await page.waitForSelector('.outcome.bad');
check('what is read aloud is a sentence', /^The tool failed, .*s$/.test(await page.textContent('form.tool > [role=status]')), await page.textContent('form.tool > [role=status]'));
check('isError is visible', (await outcome().textContent()).includes('The tool failed'), await outcome().textContent());
await go('refuse');
await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('-32602'));
check('an error has its code, sentence and data', (await outcome().textContent()).includes('no such row') && (await outcome().textContent()).includes('row'), await outcome().textContent());
await go('destroy');
await page.getByRole('dialog').waitFor();
await accessible(page, 'question');
await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
check('the keyboard is back at the call', (await page.evaluate(() => document.activeElement.textContent)) === 'Call', await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200)));
check('a destructive tool asks first', !seen.some(([method, params]) => method === 'tools/call' && params.name === 'destroy'), null);
await page.getByRole('button', { name: 'Call', exact: true }).click();
await page.getByRole('dialog').getByRole('button', { name: 'Call it' }).click();
await page.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('destroyed'));
await go('form');
await page.getByRole('dialog').waitFor();
await picture(page, 'question');
await accessible(page, 'elicitation');
await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click();
check('a question wants what it needs', (await page.getByRole('dialog').locator('.fault:visible').allTextContents()).length === 1, await page.getByRole('dialog').locator('.fault').allTextContents());
await page.getByLabel('place').selectOption({ label: 'Garden' });
await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click();
await page.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('accept'));
const round = seen.filter(([method, params]) => method === 'tools/call' && params.name === 'form').at(-1)[1];
check('the answer goes back with the state', JSON.stringify(round.inputResponses) === '{"q":{"action":"accept","content":{"place":"g","quiet":true}}}' && round.requestState === 'state-7', round);
await go('model');
await page.getByRole('dialog').getByLabel(/Your answer/).fill('hello from a person');
await page.getByRole('dialog').getByRole('button', { name: 'Answer' }).click();
await page.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('model said hello from a person'));
console.log('ok: a person answers in place of a model');
await go('long');
await page.getByRole('link', { name: 'Watch it among the tasks' }).click();
await page.waitForFunction(() => document.querySelector('main .tasks')?.textContent.includes('finished at last'));
console.log('ok: a task lives, and its result is shown');
await accessible(page, 'tasks');
await picture(page, 'tasks');
faultless(page, 'answers');
await page.context().close();
server.close();

// --- a server that takes its time: what is shown is never nothing
{
  let answer;
  const patient = await front(served, standin({ tools: { one: {} }, delay: new Promise((resolve) => { answer = resolve; }) }));
  const slow = await openPage(browser, patient.base, '');
  await slow.addInitScript(() => {
    window.seen = [];
    const look = () => {
      const text = document.getElementById('main')?.textContent.trim().slice(0, 40);
      if (text !== undefined && document.getElementById('side') && window.seen.at(-1) !== text) window.seen.push(text);
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await slow.goto(`${patient.base}/#/tool/one`);
  await slow.locator('.side .ghost').first().waitFor();
  check('while the server is asked, the page says so', (await slow.textContent('main')).includes('Asking the server'), await slow.textContent('main'));
  await picture(slow, 'waiting');
  answer();
  await slow.locator('form.tool').waitFor();
  const shown = await slow.evaluate(() => window.seen);
  check('no frame is empty, and none says what is not true', shown.every((text) => text && !text.startsWith('Not here')), shown);
  await slow.context().close();
  patient.close();
}
await served.stop();

// --- five hundred tools, behind a token
const many = { name: 'many', tools: {} };
for (let i = 0; i < 500; i++) many.tools[`tool_${i}`] = { description: `Does thing number ${i}`, args: { text: 'string', 'count?': { type: 'integer' } }, run: ['echo', '{text}'] };
const token = 'a-token-that-opens-the-server';
writeFileSync(join(folder, 'tokens'), token + '\n', { mode: 0o600 });
const large = await serve(many, { args: ['--token-file', join(folder, 'tokens')] });
const other = await openPage(browser, large.base, '/#/tool/tool_321');
await other.getByLabel('Bearer token').fill('another token');
await other.keyboard.press('Enter');
await other.getByText('It does not take the last one').waitFor();
console.log('ok: a token that is refused is said to be');
await other.getByLabel('Bearer token').fill(token);
await other.keyboard.press('Enter');
await until('five hundred tools are listed', async () => (await other.locator('.side li').count()) === 500 || other.locator('.side li').count());
await until('the one that the link names is in sight among them', () => other.evaluate(() => {
  const link = document.querySelector('.side a[aria-current]')?.getBoundingClientRect();
  return link && link.top > 52 && link.bottom < innerHeight;
}));
await other.getByLabel('text').fill('hello');
await other.keyboard.press('Enter');
await other.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('hello'));
console.log('ok: one of them is called, with the token');
await other.getByLabel('Search tools').fill('number 49');
check('search finds by description', (await other.locator('.side li').count()) === 11, await other.locator('.side li').count());
check('the token is not in the address or the store that outlasts the tab', await other.evaluate((t) => !location.href.includes(t) && !JSON.stringify(localStorage).includes(t), token), null);
faultless(other, 'five hundred tools');
await browser.close();
await large.stop();
finish(0);
