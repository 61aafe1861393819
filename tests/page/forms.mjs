// forms.mjs - a form for every shape of schema that tools use: what is typed is what is sent, faults stand at their fields, and the JSON
// beside it keeps step.
import { accessible, check, faultless, finish, front, launch, openPage, picture, serve } from './support.mjs';
import { schemas, standin } from './standin.mjs';

const served = await serve({ name: 'behind' });
const browser = await launch();
const seen = [];
const tool = (inputSchema) => ({ definition: { inputSchema }, run: (params) => ({ content: [], structuredContent: params.arguments }) });
const server = await front(served, standin({ seen, tools: { everything: tool(schemas.everything), more: tool(schemas.more) } }));
const page = await openPage(browser, server.base, '/#/tool/everything');
const json = page.getByLabel('Arguments as JSON');
const value = async () => JSON.parse(await json.inputValue());
const group = (name) => page.locator('fieldset.group', { has: page.locator('> legend > .name', { hasText: new RegExp(`^${name}$`) }) });
await page.locator('form.tool').waitFor();

check('a default is there from the beginning', (await value()).count === 4, await value());
await page.getByRole('button', { name: 'Call', exact: true }).click();
check('what is missing is said at its field', (await page.locator('.fault:visible').allTextContents()).some((text) => text.includes('needed')), await page.locator('.fault:visible').allTextContents());
check('and nothing is called', !seen.some(([method]) => method === 'tools/call'), seen);

await page.getByLabel('title').fill('ab');
check('a fault is told as one types', (await page.locator('.fault:visible').first().textContent()).includes('at least 3'), await page.locator('.fault:visible').allTextContents());
await page.getByLabel('title').fill('A walk');
await page.getByLabel('count').fill('x');
check('a number that is none is told', (await page.locator('.fault:visible').allTextContents()).includes('must be an integer'), await page.locator('.fault:visible').allTextContents());
await page.getByLabel('count').fill('5');
await page.getByLabel('ratio').fill('0.5');
await page.getByLabel('color').selectOption('green');
await page.getByLabel('urgent').selectOption('true');
await page.getByLabel('day').fill('2026-07-28');
await page.getByLabel('mail').fill('nobody');
check('a format is told', (await page.locator('.fault:visible').allTextContents()).includes('must be an e-mail address'), await page.locator('.fault:visible').allTextContents());
await page.getByLabel('mail').fill('ada@example.org');
await page.getByLabel('null', { exact: true }).check();
await group('place').getByLabel('city').first().fill('Ulm');
await group('place').getByLabel('zip').first().fill('89x');
check('a pattern is told', (await page.locator('.fault:visible').allTextContents()).some((text) => text.includes('does not match')), await page.locator('.fault:visible').allTextContents());
await group('place').getByLabel('zip').first().fill('89073');
for (const tag of ['one', 'two', 'three']) {
  await group('tags').getByRole('button', { name: '+ add' }).click();
  await page.keyboard.type(tag);
}
check('entries are added', JSON.stringify((await value()).tags) === '["one","two","three"]', await value());
await group('tags').getByRole('button', { name: 'move up' }).nth(2).click();
check('and moved', JSON.stringify((await value()).tags) === '["one","three","two"]', await value());
await group('tags').getByRole('button', { name: 'remove' }).first().click();
check('and removed', JSON.stringify((await value()).tags) === '["three","two"]', await value());
await group('several').getByLabel('a').check();
await group('several').getByLabel('c').check();
await group('stops').getByRole('button', { name: '+ add' }).click();
await page.keyboard.type('Bern');
await page.getByLabel('kind: which kind').selectOption({ label: 'Square' });
await page.getByLabel('side').fill('3');
await page.getByRole('button', { name: '+ labels' }).click();
await page.getByRole('button', { name: '+ add a member' }).click();
await page.keyboard.type('height');
await page.getByLabel('value', { exact: false }).last().fill('7');
await page.getByRole('button', { name: '+ tree' }).click();
await page.keyboard.type('root');
await page.getByRole('button', { name: '+ child' }).click();
await page.keyboard.type('leaf');
await page.getByLabel('anything').fill('[1, {"a": null}]');
const wanted = { title: 'A walk', count: 5, ratio: 0.5, color: 'green', urgent: true, day: '2026-07-28', mail: 'ada@example.org', maybe: null, place: { city: 'Ulm', zip: '89073' }, tags: ['three', 'two'], several: ['a', 'c'], stops: [{ city: 'Bern' }], kind: { shape: 'square', side: 3 }, labels: { height: 7 }, tree: { name: 'root', child: { name: 'leaf' } }, anything: [1, { a: null }] };
check('the JSON says what the form says', JSON.stringify(await value()) === JSON.stringify(wanted), await value());
await accessible(page, 'form');
await page.evaluate(() => scrollTo(0, 0));
await picture(page, 'form');
await page.getByRole('button', { name: 'Call', exact: true }).click();
await page.waitForSelector('.outcome.good');
const sent = seen.find(([method]) => method === 'tools/call')[1].arguments;
check('and that is what is sent', JSON.stringify(sent) === JSON.stringify(wanted), sent);
await json.fill(JSON.stringify({ title: 'Other', place: { city: 'Rom' }, kind: { shape: 'circle', radius: 2 }, tags: ['x'] }));
check('the form follows the JSON', (await page.getByLabel('title').inputValue()) === 'Other' && (await page.getByLabel('radius').inputValue()) === '2', null);
check('what the JSON leaves out is left out', (await page.getByLabel('mail').inputValue()) === '', null);
await page.getByLabel('title').fill('Third');
check('and the other way again', JSON.stringify(await value()) === JSON.stringify({ title: 'Third', place: { city: 'Rom' }, tags: ['x'], kind: { shape: 'circle', radius: 2 } }), await value());

// --- what real tools have beyond that
await page.evaluate(() => { location.hash = '#/tool/more'; });
await page.waitForFunction(() => document.querySelector('main h1')?.textContent === 'more');
const faults = () => page.locator('.fault:visible').allTextContents();
await page.locator('main select').first().selectOption({ label: 'with mail' });
await page.getByLabel('mail').fill('ada@example.org');
await page.getByLabel('when').fill('tomorrow');
check('a moment that is none is told', (await faults()).some((text) => text.includes('2026-07-28T08:30:00Z')), await faults());
await page.getByLabel('when').fill('2026-07-28T08:30:00Z');
await page.getByLabel('link').fill('https://example.org/a?b=c');
await page.getByRole('button', { name: '+ size' }).click();
await page.getByLabel('size: which kind').selectOption({ label: 'string' });
await page.locator('fieldset', { hasText: 'size' }).last().getByRole('combobox').last().selectOption('auto');
await page.getByRole('button', { name: '+ owner' }).click();
await page.locator('.nullable').getByLabel('name').fill('Ada');
await page.locator('.nullable').getByLabel('age').fill('-3');
check('allOf is one object, and judged', (await faults()).includes('at least 0'), await faults());
await page.locator('.nullable').getByLabel('age').fill('36');
await page.getByLabel('mode').selectOption({ label: 'null' });
for (const [entry, text] of [['pair 1', 'x'], ['pair 2', '7']]) {
  await group('pair').getByRole('button', { name: '+ add' }).click();
  await page.getByLabel(entry).fill(text);
}
await group('grid').getByRole('button', { name: '+ add' }).last().click();
await group('grid 1').getByRole('button', { name: '+ add' }).click();
await page.keyboard.type('1.5');
for (const kind of ['do: wait', 'do: say']) {
  await group('plan').getByRole('button', { name: '+ add' }).click();
  await page.getByLabel(/^plan \d: which kind/).last().selectOption({ label: kind });
}
await page.getByLabel('ms').fill('20');
await page.getByLabel('text').fill('hello');
await group('plan').getByRole('button', { name: 'move down' }).first().click();
await page.getByRole('button', { name: '+ add a member' }).click();
await page.keyboard.type('note');
await page.getByLabel('value', { exact: false }).last().fill('extra');
const shaped = { mail: 'ada@example.org', when: '2026-07-28T08:30:00Z', link: 'https://example.org/a?b=c', size: 'auto', owner: { name: 'Ada', age: 36 }, mode: null, pair: ['x', 7], grid: [[1.5]], plan: [{ do: 'say', text: 'hello' }, { do: 'wait', ms: 20 }], note: 'extra' };
check('and all of it is what is sent', JSON.stringify(await value()) === JSON.stringify(shaped), await value());
seen.length = 0;
await page.getByRole('button', { name: 'Call', exact: true }).click();
await page.waitForSelector('.outcome.good');
check('as it stands', JSON.stringify(seen.find(([method]) => method === 'tools/call')[1].arguments) === JSON.stringify(shaped), seen);
await accessible(page, 'more of forms');
await page.reload();
await page.locator('form.tool').waitFor();
check('the link brings all of it back', JSON.stringify(await value()) === JSON.stringify(shaped), await value());
await page.getByLabel('Arguments as JSON').fill(JSON.stringify({ id: 'x', owner: null, plan: [{ do: 'wait', ms: 1 }] }));
check('the other choice follows from the JSON', (await page.locator('main select').first().locator('option:checked').textContent()) === 'with id' && (await faults()).length === 0, await faults());
faultless(page, 'forms');
await browser.close();
server.close();
await served.stop();
finish(0);
