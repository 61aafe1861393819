// copies.mjs - a call to take along does what the page does: the lines are run by a shell, the programs are compiled and run, also
// where arguments and names are such as a shell, C or idem's own words would take for something else.
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { check, faultless, finish, folder, front, launch, openPage, program, root, serve } from './support.mjs';
import { standin } from './standin.mjs';

const work = dirname(dirname(fileURLToPath(import.meta.url)));
mkdirSync(join(folder, 'bin'));
symlinkSync(program, join(folder, 'bin/idem'));
const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}`, XDG_CACHE_HOME: join(folder, 'cache'), IDEM_MODULES: join(dirname(program), '../lib/idem') };
const run = async (file, args) => (await promisify(execFile)(file, args, { env, timeout: 60000 })).stdout;
const copied = async (page, label) => {
  await page.getByRole('button', { name: `copy as ${label}`, exact: true }).click();
  await page.getByText('copied').last().waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
};
let made = 0;
const compiled = async (code) => {
  const name = join(folder, `call-${++made}`);
  writeFileSync(`${name}.c`, code);
  execFileSync('sh', [join(work, 'compile'), `${name}.c`, '-o', name], { stdio: 'inherit' });
  return run(name, []);
};

const served = await serve(join(root, 'examples/demo/idem.json'));
const browser = await launch();

// --- the demo
{
  const page = await openPage(browser, served.base, '/#/tool/planets?moons=90');
  await page.locator('form.tool').waitFor();
  const line = await copied(page, 'idem call');
  check('the line of idem call is one to read', line === `idem call ${served.base}/mcp planets moons=90`, line);
  check('and is answered', (await run('sh', ['-c', line])).includes('Jupiter'), line);
  check('the curl line is answered', (await run('sh', ['-c', await copied(page, 'curl')])).includes('Jupiter'), null);
  const code = await copied(page, 'C');
  check('the C program is compiled without a warning, and answered', (await compiled(code)).includes('Jupiter'), code);
  writeFileSync(join(work, 'copies', 'copied.mjs'), await copied(page, 'TypeScript'));
  check('the TypeScript program is answered', (await run('node', [join(work, 'copies', 'copied.mjs')])).includes('Jupiter'), null);
  await page.getByLabel('Protocol revision').selectOption('2025-06-18');
  await page.locator('#revision[data-spoken="2025-06-18"]').waitFor();
  const older = await copied(page, 'idem call');
  check('an older revision is asked for', older.includes('--revision 2025-06-18') && (await run('sh', ['-c', older])).includes('Saturn'), older);
  faultless(page, 'copies');
  await page.context().close();
}

// --- whatever a shell, a compiler or idem call would take for something else
const ODD = { text: 'it\'s "quoted" $HOME `id` $(id) \\ !x; rm -rf ~ & | > < * ? [a] {b}\nsecond line\ttab \u00e9 \u6f22 \ud83d\ude42 %s %n ??= ??/ */ //', at: '@/etc/hostname', word: 'plain', dash: '-d', none: '', count: 7, far: 1e21, ratio: -0.5, on: false, list: ['a', 'b c'], any: { deep: [null, 1e3], 'x=y': "'" } };
const properties = { text: { type: 'string' }, at: { type: 'string' }, word: { $ref: '#/$defs/word' }, dash: { type: 'string' }, none: { type: 'string' }, count: { type: 'integer' }, far: { type: 'number' }, ratio: { type: 'number' }, on: { type: 'boolean' }, list: { type: 'array', items: { type: 'string' } }, any: {} };
const definition = { inputSchema: { type: 'object', properties, $defs: { word: { type: 'string' } } } };
const got = [];
const tools = Object.fromEntries(['odd', "it's $(id) */", '-dash'].map((name) => [name, { definition, run: (params) => {
  got.push([params.name, params.arguments]);
  return { content: [{ type: 'text', text: 'taken' }] };
} }]));
const server = await front(served, standin({ tools }));
const page = await openPage(browser, server.base, '/#/tool/odd');
const choose = async (name, args) => {
  await page.evaluate((hash) => { location.hash = hash; }, `#/tool/${encodeURIComponent(name)}`);
  await page.waitForFunction((wanted) => document.querySelector('main h1')?.textContent === wanted, name);
  await page.getByLabel('Arguments as JSON').fill(JSON.stringify(args));
};
const arrives = async (what, name, args, how) => {
  got.length = 0;
  check(`${what} ends well`, (await how()).includes('taken'), null);
  const sort = (value) => JSON.stringify(Object.fromEntries(Object.entries(value).sort()));
  check(`${what}: the tool gets what the page would send`, got.length === 1 && got[0][0] === name && sort(got[0][1]) === sort(args), got);
};
await page.locator('form.tool').waitFor();
await choose('odd', ODD);
for (const shell of ['sh', 'bash']) await arrives(`idem call by ${shell}`, 'odd', ODD, async () => run(shell, ['-c', await copied(page, 'idem call')]));
await arrives('curl', 'odd', ODD, async () => run('sh', ['-c', await copied(page, 'curl')]));
await choose("it's $(id) */", ODD);
await arrives('idem call of a tool with a name of its own', "it's $(id) */", ODD, async () => run('sh', ['-c', await copied(page, 'idem call')]));
await arrives('C', "it's $(id) */", ODD, async () => compiled(await copied(page, 'C')));
const more = { word: 'x', 'we ird=:': 1 };
await choose('-dash', more);
await arrives('idem call of a tool that looks like a flag', '-dash', more, async () => run('sh', ['-c', await copied(page, 'idem call')]));
await choose('odd', more);
await arrives('idem call with a name that is no word', 'odd', more, async () => run('sh', ['-c', await copied(page, 'idem call')]));
await arrives('idem call without arguments', 'odd', {}, async () => {
  await choose('odd', {});
  return run('sh', ['-c', await copied(page, 'idem call')]);
});
faultless(page, 'odd copies');
await browser.close();
server.close();
await served.stop();
finish(0);
