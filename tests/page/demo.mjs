// demo.mjs - a person and the demo: seeing what is there, calling, reading, filling in, on a phone, in the dark, by keyboard
// alone, in every revision.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, anew, check, faultless, finish, folder, launch, openPage, openOperator, picture, root, serve, until, visit } from './support.mjs';

const served = await serve(join(root, 'examples/demo/idem.json'));
const browser = await launch();
const text = (page, selector) => page.textContent(selector);

// --- at once
const page = await openOperator(browser, served.base);
{
  check('the overview says what the server is', (await text(page, 'main h1')) === 'idem demo', await text(page, 'main h1'));
  check('and what it speaks', (await text(page, '.facts')).includes('2026-07-28'), await text(page, '.facts'));
  check('and that it is healthy', (await text(page, '#health')) === 'healthy', await text(page, '#health'));
  check('and what confines its programs', (await text(page, 'main')).includes('no network'), await text(page, 'main'));
  check('and what to paste for an assistant', (await text(page, 'main pre')).includes(`${served.base}/mcp`), await text(page, 'main pre'));
  check('the key is gone from the address', !page.url().includes('key'), page.url());
  await accessible(page, 'overview');
  await picture(page, 'overview');
  await page.setViewportSize({ width: 1280, height: 850 });
  for (const place of ['tool/planets', 'tasks', 'traffic', 'logs']) {
    await page.evaluate((hash) => { location.hash = hash; }, `#/${place}`);
    await page.waitForFunction((hash) => document.querySelector(`.side a[aria-current], .tabs a[aria-current]`)?.getAttribute('href') === hash, `#/${place}`);
    const over = await page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
    check(`#/${place}: the window does not scroll where its lists do`, over <= 0, over);
  }
  for (const nowhere of ['#/nonsense', '#/tols/planets?moons=1', '#nonsense']) {
    await page.evaluate((hash) => { location.hash = hash; }, nowhere);
    await page.waitForFunction(() => location.hash === '#/');
    check(`${nowhere} leads to the overview`, (await page.getAttribute('.tabs a[aria-current]', 'href')) === '#/' && !(await text(page, 'main h1')).includes('Not here'), await text(page, 'main'));
  }
  await page.evaluate(() => { location.hash = '#/'; });
  await page.getByRole('button', { name: '1 prompt', exact: true }).click();
  check('a number leads to what it counts', await page.evaluate(() => document.activeElement.getAttribute('href') === '#/prompt/explain' && document.activeElement.getBoundingClientRect().bottom <= innerHeight), await page.evaluate(() => document.activeElement.outerHTML));
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('/');
  await page.keyboard.type('planet');
  check('searching leaves what fits', (await page.locator('.side li').count()) === 1, await text(page, '.side'));
  await page.keyboard.press('Enter');
  await page.waitForSelector('main form.tool');
  check('Enter opens the first', (await text(page, 'main h1')) === 'planets', await text(page, 'main h1'));
  check('the title says where one is', (await page.title()) === 'planets \u00b7 idem demo \u00b7 idem', await page.title());
  await page.evaluate(() => { location.hash = '#/'; });
  await page.getByLabel('Keys:').uncheck();
  await page.keyboard.press('/');
  await page.keyboard.press('g');
  await page.keyboard.press('m');
  check('single keys can be turned off', page.url().endsWith('#/') && (await page.evaluate(() => document.activeElement.type)) === 'checkbox', page.url());
  await page.getByLabel('Keys:').check();
  await page.keyboard.press('g');
  await page.keyboard.press('m');
  await page.waitForFunction(() => location.hash === '#/metrics');
  console.log('ok: and on again');
  await page.setViewportSize({ width: 1280, height: 800 });
}

// --- calling
{
  await anew(page, served.base, '/#/tool/planets?moons=50');
  const field = page.getByLabel('moons');
  await field.waitFor();
  check('a link brings its arguments', (await field.inputValue()) === '50', await field.inputValue());
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.waitForSelector('main table');
  check('rows are a table', (await text(page, 'main table')).includes('Jupiter'), await text(page, 'main table'));
  check('the time it took is said', /\d (ms|µs|s)/.test(await text(page, '.outcome')), await text(page, '.outcome'));
  await accessible(page, 'result');
  await picture(page, 'page');
  await page.getByRole('button', { name: 'copy as curl' }).click();
  const said = await (await page.waitForFunction(() => document.querySelector('.note') && [document.querySelector('.note').getBoundingClientRect().toJSON(), document.querySelector('.bar').getBoundingClientRect().toJSON()])).jsonValue();
  check('what is said in passing covers no result: it stands in the bar', said[0].top >= said[1].top && said[0].bottom <= said[1].bottom && said[0].width > 50, said);
  await field.fill('80');
  check('the JSON view keeps step', JSON.parse(await page.getByLabel('Arguments as JSON').inputValue()).moons === 80, await page.getByLabel('Arguments as JSON').inputValue());
  check('and so does the address', page.url().endsWith('?moons=80'), page.url());
  await page.getByLabel('Arguments as JSON').fill('{"moons": 100}');
  check('the form follows the JSON', (await field.inputValue()) === '100', await field.inputValue());
  await page.getByLabel('Arguments as JSON').fill('{"moons":');
  check('what is no JSON yet is said', await page.locator('#json-fault').isVisible(), null);
  await page.getByLabel('Arguments as JSON').fill('{"moons": 90}');
  await field.fill('-1');
  check('a fault stands at its field as one types', (await text(page, '.field .fault')).includes('at least 0'), await text(page, '.field .fault'));
  await field.fill('90');
  await field.focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 2);
  await page.reload();
  await page.getByText('Earlier calls').click();
  await page.locator('.history li button').last().click();
  check('earlier calls come back', (await page.getByLabel('moons').inputValue()) === '50', await page.getByLabel('moons').inputValue());
}

// --- progress and cancelling, by keyboard alone
{
  await anew(page, served.base, '/');
  await page.waitForSelector('.tiles');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  check('the first key leads to the content, past what is above it', (await page.evaluate(() => document.activeElement.id)) === 'main' && !page.url().includes('main'), page.url());
  await page.keyboard.press('/');
  await page.keyboard.type('countd');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('main form.tool');
  for (let i = 0; i < 30 && (await page.evaluate(() => document.activeElement.inputMode)) !== 'numeric'; i++) await page.keyboard.press('Tab');
  await page.keyboard.type('30');
  await page.keyboard.press('Control+Enter');
  await page.waitForFunction(() => document.querySelector('main progress')?.value > 0);
  console.log('ok: progress is shown as it comes');
  await picture(page, 'progress');
  for (let i = 0; i < 30 && (await page.evaluate(() => document.activeElement.textContent)) !== 'Cancel'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.outcome')?.textContent.includes('Cancelled'));
  check('a call is cancelled by keyboard alone, which is then at the call again', (await page.evaluate(() => document.activeElement.textContent)) === 'Call', null);
}

// --- resources, prompts
{
  await anew(page, served.base, `/#/resource/${encodeURIComponent('idem://readme')}`);
  await page.getByRole('button', { name: 'Read', exact: true }).click();
  await page.waitForSelector('main .markdown');
  check('Markdown is shown as such', (await page.locator('main .markdown h2').first().textContent()).includes('idem'), await text(page, 'main .markdown'));
  await accessible(page, 'resource');
  await picture(page, 'resource');
  await page.evaluate(() => { location.hash = '#/prompt/explain'; });
  const topic = page.getByLabel('topic');
  await topic.focus();
  await page.keyboard.type('guide/s');
  await page.waitForFunction(() => [...document.querySelectorAll('main datalist option')].some((one) => one.value === 'guide/serve.md'));
  console.log('ok: completion is offered as one types');
  await topic.fill('guide/serve.md');
  await page.getByRole('button', { name: 'Show the messages' }).click();
  await page.waitForSelector('main .message');
  check('the messages are shown', (await text(page, 'main .message')).includes('guide/serve.md'), await text(page, 'main .message'));
  check('the link keeps what was filled in', page.url().endsWith('#/prompt/explain?topic=guide%2Fserve.md'), page.url());
  await accessible(page, 'prompt');
  await picture(page, 'prompt');
  await page.reload();
  await page.waitForFunction(() => document.querySelector('main input')?.value === 'guide/serve.md');
  console.log('ok: and brings it back');
  await page.evaluate(() => { location.hash = '#/template/' + encodeURIComponent('idem://docs/{+path}'); });
  await page.waitForFunction(() => document.querySelector('main h1')?.textContent === 'docs');
  await page.getByLabel('path').fill('guide/page.md');
  await page.keyboard.press('Enter');
  await page.locator('main .contents').getByText('The operator\u2019s key').or(page.locator('main .contents').getByText("The operator's key")).first().waitFor();
  check('a template is filled in and read, under one title', (await page.locator('main h1').count()) === 1 && page.url().endsWith('?path=guide%2Fpage.md'), page.url());
  await accessible(page, 'template');
  await picture(page, 'template');
}

// --- a resource that changes
{
  const file = join(folder, 'notes.md');
  writeFileSync(file, '# first\n');
  const other = await serve({ name: 'watching', resources: { notes: { file: 'notes.md' }, pages: { directory: '.', include: ['*.md'] } } });
  const page = await openPage(browser, other.base, `/#/resource/${encodeURIComponent('idem://notes')}`);
  await page.getByRole('button', { name: 'Read', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('main .contents')?.textContent.includes('first'));
  await page.getByLabel('watch it change').check();
  let number = 1;
  await until('a watched resource is read again when it changes', async () => {
    writeFileSync(file, `# second ${number++}\n`);
    return (await page.textContent('main .contents')).includes('second');
  });
  await visit(page, `template/${encodeURIComponent('idem://pages/{+path}')}`, 'pages');
  await page.getByLabel('path').fill('notes.md');
  await page.keyboard.press('Enter');
  await page.locator('main .contents').waitFor();
  await page.getByLabel('watch it change').check();
  await until('and so is one that a template names', async () => {
    writeFileSync(file, `# filled in ${number++}\n`);
    return (await page.textContent('main .contents')).includes('filled in');
  });
  await visit(page, `resource/${encodeURIComponent('idem://notes')}`, 'notes');
  // Another tab, another revision: one of them has the stream for both.
  const second = await page.context().newPage();
  await second.goto(`${other.base}/#/resource/${encodeURIComponent('idem://notes')}`);
  const changes = async (name) => {
    const marker = `third ${number++}`;
    await until(name, async () => {
      writeFileSync(file, `# ${marker} ${number++}\n`);
      return (await second.textContent('main .contents')).includes(marker) && (await page.textContent('main .contents')).includes(marker);
    });
  };
  await second.getByLabel('Protocol revision').selectOption('2025-06-18');
  await second.locator('#revision[data-spoken="2025-06-18"]').waitFor();
  await second.getByRole('button', { name: 'Read', exact: true }).click();
  await second.locator('main .contents').waitFor();
  await second.getByLabel('watch it change').check();
  await changes('a tab of an older revision hears of changes through the first');
  await page.getByLabel('Protocol revision').selectOption('2025-11-25');
  await page.locator('#revision[data-spoken="2025-11-25"]').waitFor();
  await page.getByRole('button', { name: 'Read', exact: true }).click();
  await page.locator('main .contents').waitFor();
  check('what is watched stays watched in another revision', await page.getByLabel('watch it change').isChecked(), null);
  await changes('and when the first is of an older one, too');
  faultless(page, 'watching');
  await page.context().close();
  await other.stop();
}

// --- every revision
{
  await anew(page, served.base, '/#/tool/planets?moons=100');
  await page.getByLabel('moons').waitFor();
  for (const revision of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2026-07-28']) {
    await page.getByLabel('Protocol revision').selectOption(revision);
    await page.locator(`#revision[data-spoken="${revision}"]`).waitFor();
    check(`in ${revision} the page is anew`, (await page.locator('main .outcome').count()) === 0 && /^idem.demo$/.test(await text(page, '#server-name')), await text(page, '#server-name'));
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.waitForFunction(() => document.querySelector('main .outcome strong')?.textContent === 'Answered');
    check(`a tool is called in ${revision}`, (await text(page, '.outcome-place')).includes('Saturn'), await text(page, '.outcome-place'));
  }
  faultless(page, 'all of it');
  await page.context().close();
}

// --- a phone, the dark
{
  const page = await openPage(browser, served.base, '/#/tool/planets?moons=50', { viewport: { width: 375, height: 740 }, colorScheme: 'dark', hasTouch: true, isMobile: true });
  await page.getByRole('button', { name: 'Call', exact: true }).tap();
  await page.waitForSelector('main table');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check('nothing is wider than a phone', wide <= 0, wide);
  await accessible(page, 'phone, dark');
  await picture(page, 'phone-dark');
  const menu = page.getByRole('button', { name: /Browse/ });
  await page.evaluate(() => scrollTo(0, 300));
  await menu.tap();
  const field = await page.getByLabel('Search tools').evaluate((one) => {
    const box = one.getBoundingClientRect();
    return { under: document.querySelector('.bar').getBoundingClientRect().bottom - box.top, seen: document.elementFromPoint(box.left + 20, box.top + box.height / 2) === one, has: document.activeElement === one };
  });
  check('the menu opens with its search field in sight and the keyboard in it', field.under <= 0 && field.seen && field.has, field);
  check('what it covers is not there meanwhile', await page.evaluate(() => document.getElementById('main').inert && document.getElementById('tabs').inert), null);
  await accessible(page, 'phone, menu');
  await picture(page, 'phone-menu');
  await page.keyboard.press('Escape');
  check('Escape closes it and gives the keyboard back', (await menu.getAttribute('aria-expanded')) === 'false' && await menu.evaluate((one) => one === document.activeElement && !document.getElementById('main').inert), null);
  await menu.tap();
  await page.getByRole('link', { name: /search_docs/ }).tap();
  await page.waitForFunction(() => document.querySelector('main h1').textContent === 'search_docs');
  faultless(page, 'phone');
  await page.context().close();
}

await browser.close();
await served.stop();
finish(0);
