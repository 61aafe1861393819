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
    { type: 'text', text: '# A title\n\nSome **bold** words, `code`, and [a link](https://example.org/).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n  - inner\n' },
    { type: 'image', data: PNG, mimeType: 'image/png' }, { type: 'audio', data: wav.toString('base64'), mimeType: 'audio/wav' },
    { type: 'resource_link', uri: 'test://thing', name: 'thing' }, { type: 'resource', resource: { uri: 'test://inner', mimeType: 'text/plain', text: 'inner text' } },
    { type: 'text', text: '{"deep":{"list":[1,2,{"x":true}]}}' }] }) },
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
check('links open elsewhere, and say where', (await page.getAttribute('.markdown a', 'rel')) === 'noopener noreferrer', null);
check('audio has its controls', await page.locator('audio[controls]').isVisible(), null);
check('a link to a resource leads to it', (await page.getAttribute('.result a[href^="#/resource/"]', 'href')) === '#/resource/test%3A%2F%2Fthing', null);
check('an embedded resource is shown', (await outcome().textContent()).includes('inner text'), null);
check('JSON is a tree', await page.locator('.result .branch').first().isVisible(), null);
await accessible(page, 'media');
await page.evaluate(() => scrollTo(0, 0));
await picture(page, 'media');
await go('fail');
await page.waitForSelector('.outcome.bad');
check('isError is visible', (await outcome().textContent()).includes('The tool failed'), await outcome().textContent());
await go('refuse');
await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('-32602'));
check('an error has its code, sentence and data', (await outcome().textContent()).includes('no such row') && (await outcome().textContent()).includes('row'), await outcome().textContent());
await go('destroy');
await page.getByRole('dialog').waitFor();
await accessible(page, 'question');
await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
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
await served.stop();

// --- five hundred tools, behind a token
const many = { name: 'many', tools: {} };
for (let i = 0; i < 500; i++) many.tools[`tool_${i}`] = { description: `Does thing number ${i}`, args: { text: 'string', 'count?': { type: 'integer' } }, run: ['echo', '{text}'] };
const token = 'a-token-that-opens-the-server';
writeFileSync(join(folder, 'tokens'), token + '\n', { mode: 0o600 });
const large = await serve(many, { args: ['--token-file', join(folder, 'tokens')] });
const other = await openPage(browser, large.base, '/#/tool/tool_321');
await other.getByLabel('Bearer token').fill(token);
await other.getByRole('button', { name: 'Use it' }).click();
await until('five hundred tools are listed', async () => (await other.locator('.side li').count()) === 500 || other.locator('.side li').count());
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
