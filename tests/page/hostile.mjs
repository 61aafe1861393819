// hostile.mjs - a server that wants to harm whoever looks: scripts in every text, names that turn around, results of ten megabytes,
// lists without end. Nothing runs, nothing is asked elsewhere, nothing freezes.
import { accessible, check, faultless, finish, front, launch, openPage, picture, serve, until } from './support.mjs';
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
const seen = [];
const served = await serve({ name: 'behind' });
const browser = await launch();
const server = await front(served, standin({ seen, tools }));
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
const lag = () => page.evaluate(() => new Promise((resolve) => { const from = performance.now(); setTimeout(() => resolve(performance.now() - from)); }));
for (const name of ['huge', 'wide', 'deep']) {
  await go(name);
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('Answered'), null, { timeout: 60000 });
  const nodes = await page.evaluate(() => document.querySelectorAll('main *').length);
  check(`${name}: the page answers, and draws a part`, (await lag()) < 2000 && nodes < 20000, nodes);
}
await accessible(page, 'hostile');
faultless(page, 'hostile');
await page.context().close();
server.close();

// --- a list that never ends
let pages = 0;
const endless = await front(served, standin({ lists: { tools: () => ({ tools: Array.from({ length: 100 }, (_, i) => ({ name: `t${pages}_${i}`, inputSchema: { type: 'object' } })), nextCursor: String(pages++) }) } }));
const other = await openPage(browser, endless.base, '/');
await until('a list without end is cut', async () => (await other.textContent('.side h2'))?.includes('5000+') || other.textContent('.side'), 60000);
check('and the asking stops', pages <= 60, pages);
faultless(other, 'endless');
await browser.close();
endless.close();
await served.stop();
finish(0);
