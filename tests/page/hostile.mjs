// hostile.mjs - a server that wants to harm whoever looks: scripts in every text, names that turn around, results of ten megabytes,
// lists without end. Nothing runs, nothing is asked elsewhere, nothing freezes.
import { KEY, accessible, check, faultless, finish, front, launch, openPage, picture, serve, until } from './support.mjs';
import { standin } from './standin.mjs';

const EVIL = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script><a href="javascript:window.hurt=1">x</a>';
const SVG = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="top.hurt=1"><script>top.hurt=1</script><image href="http://evil.test/x.png"/><rect width="20" height="20"/></svg>`).toString('base64');
const MARKDOWN = `# ${EVIL}\n\n[click](javascript:window.hurt=1) [data](data:text/html,<script>1</script>) ![beacon](http://evil.test/b.png)\n\n| ${EVIL} | b |\n|---|---|\n| ${EVIL} | 2 |\n\n<iframe src="http://evil.test/"></iframe>\n\n\`\`\`html\n${EVIL}\n\`\`\`\n`;
const TURNED = 'safe\u202egnp.exe\u0007\u0000\u200b';
const definition = { title: EVIL, description: EVIL + MARKDOWN, annotations: { title: EVIL }, icons: [{ src: 'http://evil.test/i.png' }],
  inputSchema: { type: 'object', title: EVIL, properties: { [EVIL]: { type: 'string', description: EVIL, default: EVIL, title: EVIL }, __proto__x: { enum: [EVIL] }, loop: { $ref: '#/properties/loop' }, lost: { $ref: 'http://evil.test/schema' }, slow: { type: 'string', pattern: '^(a+)+$' } } } };
const tools = {
  evil: { definition, run: () => ({ structuredContent: { [EVIL]: EVIL, rows: [{ [EVIL]: EVIL }] }, content: [{ type: 'text', text: MARKDOWN }, { type: 'image', data: SVG, mimeType: 'image/svg+xml' },
    { type: 'image', data: '!!!', mimeType: 'image/png' }, { type: 'image', data: SVG, mimeType: 'text/html' }, { type: 'resource_link', uri: 'javascript:window.hurt=1', name: EVIL },
    { type: 'resource', resource: { uri: EVIL, mimeType: 'text/html', text: EVIL } }, { type: 'resource', resource: { uri: 'x:/drawing', mimeType: 'image/svg+xml', text: Buffer.from(SVG, 'base64').toString() } }, { type: EVIL }, null] }) },
  [TURNED]: { definition: { description: TURNED }, run: () => ({ content: [] }) },
  huge: { run: () => ({ content: [{ type: 'text', text: `${'x'.repeat(99)}\n`.repeat(105000) }] }) },
  wide: { run: () => ({ content: [], structuredContent: { list: Array.from({ length: 100000 }, (_, i) => ({ i, text: 'row' })) } }) },
  deep: { run: () => ({ content: [{ type: 'text', text: '['.repeat(20000) + ']'.repeat(20000) }] }) },
  fault: { run: () => { throw Object.assign(new Error(EVIL), { code: -32000, data: { [EVIL]: EVIL } }); } },
};
const question = (method, params) => ({ run: (given) => (given.inputResponses ? { content: [] } : { resultType: 'input_required', inputRequests: { [EVIL]: { method, params } }, requestState: EVIL }) });
Object.assign(tools, {
  asks: question('elicitation/create', { message: MARKDOWN, requestedSchema: { ...definition.inputSchema, required: [EVIL] } }),
  visits: question('elicitation/create', { mode: 'url', message: EVIL, url: 'javascript:window.hurt=1' }),
  samples: question('sampling/createMessage', { maxTokens: EVIL, systemPrompt: EVIL, messages: [{ role: EVIL, content: { type: 'text', text: MARKDOWN } }, null, { role: 'user', content: { type: 'image', data: SVG, mimeType: 'image/svg+xml' } }] }),
  slowly: { run: async (_, say) => {
    say('notifications/progress', { progressToken: EVIL, progress: 1, total: 2, message: EVIL });
    say('notifications/message', { level: EVIL, data: EVIL });
    say(EVIL, { [EVIL]: EVIL });
    return { content: [] };
  } },
  task: { run: () => ({ resultType: 'task', taskId: EVIL, status: EVIL, statusMessage: EVIL, createdAt: EVIL, pollIntervalMs: 250 }) },
});
const evilOne = { name: EVIL, title: EVIL, description: MARKDOWN, mimeType: EVIL, icons: [{ src: 'http://evil.test/i.png' }] };
const hostileParts = {
  info: { name: EVIL, title: EVIL, version: EVIL, description: MARKDOWN, websiteUrl: 'javascript:window.hurt=1', icons: [{ src: 'http://evil.test/i.png' }] },
  said: { instructions: MARKDOWN, capabilities: { [EVIL]: {}, completions: {} } },
  resources: [{ uri: EVIL, ...evilOne }], templates: [{ uriTemplate: `${EVIL}{${EVIL.replace(/[{}]/g, '')}}`, ...evilOne }],
  prompts: [{ ...evilOne, name: 'evil prompt', arguments: [{ name: EVIL, description: EVIL }, { name: 'word' }] }],
  more: {
    'resources/read': () => ({ contents: [{ uri: EVIL, mimeType: 'text/html', text: EVIL }, { uri: EVIL, mimeType: 'text/markdown', text: MARKDOWN }, null] }),
    'prompts/get': () => ({ description: EVIL, messages: [{ role: EVIL, content: { type: 'text', text: MARKDOWN } }, { role: 'assistant', content: [{ type: EVIL }] }] }),
    'completion/complete': () => ({ completion: { values: [EVIL, 7, null] } }),
  },
  tasks: new Map([[EVIL, () => ({ taskId: EVIL, status: 'completed', statusMessage: EVIL, result: { content: [{ type: 'text', text: MARKDOWN }] } })]]),
};
const seen = [];
const served = await serve({ name: 'behind', title: EVIL, instructions: MARKDOWN });
const browser = await launch();
const server = await front(served, standin({ seen, tools, ...hostileParts }));
const page = await openPage(browser, server.base, '/#/tool/evil');
const unhurt = async (name) => check(`${name}: no script of the server's has run`, (await page.evaluate(() => window.hurt)) === undefined, null);
const go = async (name) => {
  await page.evaluate((hash) => { location.hash = hash; }, `#/tool/${encodeURIComponent(name)}`);
  await page.getByRole('button', { name: 'Call', exact: true }).click();
};

await page.locator('form.tool').waitFor();
await unhurt('a definition');
check('what it says stands there as text', (await page.textContent('main h1')).startsWith('<img src=x'), await page.textContent('main h1'));
await page.getByLabel('slow').fill('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!');
check('a pattern of the server\'s cannot hold the page', (await page.evaluate(() => 1 + 1)) === 2, null);
check('a reference elsewhere is not followed', (await page.textContent('main')).includes('is not part of the schema'), null);
await page.getByRole('button', { name: 'Call', exact: true }).click();
await page.waitForSelector('.outcome.good');
await unhurt('a result');
await page.waitForFunction(() => [...document.querySelectorAll('main img.media')].filter((one) => one.naturalWidth === 20).length === 2);
await unhurt('a drawing, as bytes and as text');
check('links of a script are no links', (await page.locator('main a[href^="javascript" i], main a[href^="data" i]').count()) === 0, null);
check('no frame, no object, no image from elsewhere', (await page.locator('main iframe, main object, main embed, main img[src^="http"]').count()) === 0, null);
await picture(page, 'hostile');
await page.evaluate((uri) => { location.hash = `#/resource/${encodeURIComponent(uri)}`; }, EVIL);
await page.locator('main article').waitFor();
await unhurt('an address');
await page.evaluate((name) => { location.hash = `#/tool/${encodeURIComponent(name)}`; }, TURNED);
await page.waitForFunction(() => document.querySelector('main h1').textContent.includes('\\u202e'));
console.log('ok: a name that turns the line around shows its signs');
await go('fault');
await page.waitForSelector('.outcome.bad');
await unhurt('an error');
const unasked = async () => check('and no link, image or frame of it is one', (await page.locator('a[href^="javascript" i], a[href^="data" i], iframe, object, embed, img[src^="http"]').count()) === 0, null);
await page.evaluate(() => { location.hash = '#/'; });
await page.locator('.tiles').waitFor();
await page.waitForFunction(() => document.title.includes('<img src=x'));
await unhurt('who the server says it is');
await unasked();
await page.evaluate((uri) => { location.hash = `#/resource/${encodeURIComponent(uri)}`; }, EVIL);
await page.getByRole('button', { name: 'Read', exact: true }).click();
await page.locator('main .contents').waitFor();
await unhurt('a resource');
await page.evaluate((uri) => { location.hash = `#/template/${encodeURIComponent(uri)}`; }, hostileParts.templates[0].uriTemplate);
await page.getByRole('button', { name: 'Read', exact: true }).click();
await page.locator('main .contents').waitFor();
await unhurt('a template');
await page.evaluate(() => { location.hash = '#/prompt/evil%20prompt'; });
await page.getByLabel('word').fill('x');
await page.waitForFunction(() => document.querySelectorAll('main datalist option').length === 3);
await page.getByRole('button', { name: 'Show the messages' }).click();
await page.locator('main .message').first().waitFor();
await unhurt('a prompt and what completes it');
await unasked();
const dialog = page.getByRole('dialog');
for (const [name, button] of [['asks', 'Send'], ['visits', 'I agree'], ['samples', 'Answer']]) {
  await go(name);
  await dialog.waitFor();
  await unhurt(`${name}: a question`);
  await unasked();
  await dialog.getByRole('button', { name: button }).click();
  await dialog.waitFor({ state: 'hidden' });
  await page.waitForSelector('.outcome.good');
}
await go('slowly');
await page.waitForSelector('.outcome.good');
await go('task');
await page.getByRole('link', { name: 'Watch it among the tasks' }).click();
await page.waitForFunction(() => document.querySelector('.tasks .badge')?.textContent === 'completed');
await unhurt('progress, a log line, a task');
await unasked();

// --- a recording that somebody sends
const record = (more) => JSON.stringify({ t: EVIL, conn: EVIL, dir: EVIL, bytes: EVIL, peer: EVIL, ...more });
const recording = ['{"idem":"recording","version":1,"by":"<script>window.hurt=1</script>"}', record({ message: { jsonrpc: EVIL, id: EVIL, method: EVIL, params: { name: EVIL } } }),
  record({ message: EVIL, cut: true, refused: EVIL }), record({ dir: '<', message: { id: EVIL, error: { code: EVIL, message: EVIL } } }), record({ log: { severity: EVIL, message: EVIL } }), record({ metrics: { [EVIL]: EVIL } }), '[', 'null', '{"t":1e400,"message":null}'].join('\n');
await page.evaluate(() => { location.hash = '#/recording'; });
await page.locator('.traffic input[type=file]').setInputFiles({ name: `${EVIL.replace(/\//g, '')}.jsonl`, mimeType: 'application/jsonl', buffer: Buffer.from(recording) });
await page.locator('.message-row').first().click();
await page.locator('.detail').waitFor();
await unhurt('a recording');
await unasked();
const lag = () => page.evaluate(() => new Promise((resolve) => { const from = performance.now(); setTimeout(() => resolve(performance.now() - from)); }));
for (const name of ['huge', 'wide', 'deep']) {
  await go(name);
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('Answered'));
  const nodes = await page.evaluate(() => document.querySelectorAll('main *').length);
  check(`${name}: the page answers, and draws a part`, (await lag()) < 2000 && nodes < 20000, nodes);
}
await accessible(page, 'hostile');
faultless(page, 'hostile');
await page.goto(`${served.base}/#key=${KEY}`);
await page.locator('.tiles').waitFor();
await page.evaluate(() => { location.hash = '#/configuration'; });
await page.locator('.source').waitFor();
await unhurt('a configuration');
const places = await page.evaluate(async () => ({ cookie: document.cookie, local: JSON.stringify(localStorage), name: window.name, address: location.href, document: document.documentElement.outerHTML, asked: performance.getEntriesByType('resource').map((one) => one.name).join(), databases: (await indexedDB.databases()).length, history: JSON.stringify(history.state) }));
check('the key is in sessionStorage and nowhere else', (await page.evaluate((key) => sessionStorage.getItem('idem:key') === key, KEY)) && !JSON.stringify(places).includes(KEY) && places.cookie === '' && places.databases === 0, places);
await page.context().close();
server.close();

// --- a list that never ends
let pages = 0;
const endless = await front(served, standin({ lists: { tools: () => ({ tools: Array.from({ length: 100 }, (_, i) => ({ name: `t${pages}_${i}`, inputSchema: { type: 'object' } })), nextCursor: String(pages++) }) } }));
const other = await openPage(browser, endless.base, '/');
await until('a list without end is cut', async () => (await other.textContent('.side h2'))?.includes('5000+') || other.textContent('.side'));
check('and the asking stops', pages <= 60, pages);
faultless(other, 'endless');
await browser.close();
endless.close();
await served.stop();
finish(0);
