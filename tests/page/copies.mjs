// copies.mjs - a call to take along does what the page does, in the revision that was chosen: the lines are run by a shell, the programs
// are compiled and run, also where arguments and names are such as a shell, C or idem's own words would take for something else.
import { execFile } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { behind, check, everything, faultless, finish, folder, front, launch, openPage, program, root, serve, speak, until, visit } from './support.mjs';
import { standin } from './standin.mjs';

const work = dirname(dirname(fileURLToPath(import.meta.url)));
mkdirSync(join(folder, 'bin'));
symlinkSync(program, join(folder, 'bin/idem'));
const TOKEN = 'a-token-of-the-test';
const tokens = join(folder, 'tokens');
writeFileSync(tokens, TOKEN + '\n', { mode: 0o600 });
const env = { ...process.env, TOKEN, PATH: `${join(folder, 'bin')}:${process.env.PATH}`, XDG_CACHE_HOME: join(folder, 'cache'), IDEM_MODULES: join(dirname(program), '../lib/idem') };
const run = async (file, args, cwd) => (await promisify(execFile)(file, args, { env, cwd, timeout: 60000 }).catch((error) => finish(1, `${error.message}\n${error.stdout}`))).stdout;
const copied = async (page, label) => {
  await page.evaluate(() => navigator.clipboard.writeText('nothing yet'));
  await page.getByRole('button', { name: `copy as ${label}`, exact: true }).click();
  for (;;) {
    const text = await page.evaluate(() => navigator.clipboard.readText());
    if (text !== 'nothing yet') return text;
  }
};
let made = 0;
const compiled = async (code) => {
  const name = join(folder, `call-${++made}`);
  writeFileSync(`${name}.c`, code);
  await run('sh', [join(work, 'compile'), `${name}.c`, '-o', name]);
  return run(name, []);
};
// TypeScript is compiled all at once, strictly; what was made of it lies beside it.
const typed = (code) => {
  const name = join(work, 'copies', `copied-${++made}`);
  writeFileSync(`${name}.mts`, code);
  return name;
};
const compileTyped = (names) => run('node', [join(work, 'node_modules/typescript/bin/tsc'), '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node', '--skipLibCheck', ...names.map((name) => `${name}.mts`)], work);
const inShell = (line) => run('sh', ['-c', line]);
const HOW = { 'idem call': inShell, curl: inShell, TypeScript: (name) => run('node', [`${name}.mjs`]), C: compiled };
// Two at a time.
const runAll = async (jobs) => {
  const names = jobs.filter((job) => job.label === 'TypeScript').map((job) => (job.text = typed(job.text)));
  if (names.length) await compileTyped(names);
  await Promise.all([0, 1].map(async (half) => { for (const job of jobs.filter((_, i) => i % 2 === half)) await job.judge(await HOW[job.label](job.text), job); }));
};

const served = await serve(join(root, 'examples/demo/idem.json'));
const browser = await launch();
const jobs = [];

// --- the demo, in every revision. What each program says to the server is looked at on the way; an argument of its own tells whose it is.
{
  const sessions = new Map();
  const calls = new Map();
  const watched = await behind(served, served.port, (body, asked, answered) => {
    const message = body ? JSON.parse(body) : {};
    if (message.method === 'initialize') sessions.set(answered['mcp-session-id'], message.params.protocolVersion);
    if (message.method === 'tools/call') calls.set(message.params.arguments.moons, message.params._meta?.['io.modelcontextprotocol/protocolVersion'] ?? sessions.get(asked['mcp-session-id']));
  });
  const page = await openPage(browser, watched.base, '/#/tool/planets?moons=90');
  await page.locator('form.tool').waitFor();
  const line = await copied(page, 'idem call');
  check('the line of idem call is one to read', line === `idem call ${watched.base}/mcp planets moons=90`, line);
  let moons = 20;
  for (const revision of ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']) {
    await speak(page, revision);
    for (const label of Object.keys(HOW)) {
      const own = ++moons;
      await page.getByLabel('moons').fill(String(own));
      jobs.push({ label, text: await copied(page, label), judge: (shown, { text }) => {
        check(`${revision}: what is copied as ${label} is answered, and speaks it`, shown.includes('Jupiter') && calls.get(own) === revision, [text, shown, calls.get(own)]);
      } });
    }
  }
  faultless(page, 'copies');
  await page.context().close();
}

// --- behind a token
{
  const guarded = await serve(join(root, 'examples/demo/idem.json'), { args: ['--token-file', tokens] });
  const page = await openPage(browser, guarded.base, '/#/tool/planets?moons=90');
  await page.getByLabel('Bearer token').fill(TOKEN);
  await page.getByRole('button', { name: 'Use it' }).click();
  await page.locator('form.tool').waitFor();
  for (const revision of ['2026-07-28', '2025-06-18']) {
    await speak(page, revision);
    for (const label of Object.keys(HOW)) {
      const text = await copied(page, label);
      check(`${revision}: the token is not copied as ${label}`, !text.includes(TOKEN), text);
      if (revision !== '2026-07-28' || label === 'curl') jobs.push({ label, text, judge: (shown) => check(`${revision}: behind a token, ${label} is answered`, shown.includes('Jupiter'), [text, shown]) });
    }
  }
  await page.context().close();
}

// --- tasks: of 2026-07-28, where the server alone says what becomes one; of 2025-11-25
{
  const server = await everything(served);
  const page = await openPage(browser, server.base, '/#/tool/greet?name=' + encodeURIComponent("it's me"));
  await page.locator('form.tool').waitFor();
  for (const label of ['curl', 'TypeScript'])
    jobs.push({ label, text: await copied(page, label), judge: (shown, { text }) => check(`what may become a task and does not is answered, as ${label}`, shown.includes("it's me"), [text, shown]) });
  await page.evaluate(() => { location.hash = '#/tool/slow_compute?seconds=0.1&label=copied'; });
  await page.waitForFunction(() => document.querySelector('main h1')?.textContent === 'slow_compute');
  for (const label of Object.keys(HOW))
    jobs.push({ label, text: await copied(page, label), judge: (shown, { text }) => check(`2026-07-28: what becomes a task is waited for, as ${label}`, shown.includes('copied: computed'), [text, shown]) });
  await visit(page, 'tool/failing_job', 'failing_job');
  for (const label of ['curl', 'TypeScript'])
    jobs.push({ label, text: await copied(page, label), judge: (shown, { text }) => check(`2026-07-28: a tool that runs as a task alone is called, as ${label}`, shown.includes('as it always does'), [text, shown]) });
  await page.evaluate(() => { location.hash = '#/tool/slow_compute?seconds=0.1&label=copied'; });
  await page.waitForFunction(() => document.querySelector('main h1')?.textContent === 'slow_compute');
  await speak(page, '2025-11-25');
  await page.getByLabel('as a task').check();
  for (const label of ['curl', 'TypeScript', 'C'])
    jobs.push({ label, text: await copied(page, label), judge: (shown, { text }) => check(`a task that is copied as ${label} is waited for`, shown.includes('copied: computed'), [text, shown]) });
  await visit(page, 'tool/failing_job', 'failing_job');
  jobs.push({ label: 'idem call', text: `${await copied(page, 'idem call')} 2>&1 || echo "status $?"`,
    judge: (shown) => check('idem call calls a tool that requires a task as one', shown.includes('as it always does') && shown.includes('status 1'), shown) });
  await page.context().close();
}
await runAll(jobs);
await until('no session is left behind', async () => {
  const numbers = await (await fetch(`${served.base}/metrics`)).text();
  return /^idem_sessions 0$/m.test(numbers) || numbers.split('\n').filter((one) => one.includes('session'));
});

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
const names = JSON.parse('{"word":"x","__proto__":{"__proto__":"y","text":"\\"__proto__\\": 1"}}');
for (const label of ['idem call', 'curl', 'TypeScript']) {
  await choose('odd', names);
  await arrives(`${label} with a name that every object has`, 'odd', names, async () => {
    const text = await copied(page, label);
    if (label !== 'TypeScript') return run('sh', ['-c', text]);
    const name = typed(text);
    await compileTyped([name]);
    return HOW.TypeScript(name);
  });
}
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
