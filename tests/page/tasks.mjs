// tasks.mjs - calls that become tasks, in both forms: asked for, watched, answered, cancelled, listed, and still known when the page
// is loaded again. Against idem's own server of tasks, and for tasks/list (which it offers to known people alone) a stand-in.
import { accessible, check, everything, faultless, finish, front, launch, openPage, picture, serve, speak, visit } from './support.mjs';
import { olderStandin } from './standin.mjs';

const served = await serve({ name: 'behind' });
const browser = await launch();
const server = await everything(served);

const page = await openPage(browser, server.base, '/#/tool/slow_compute');
const card = (name) => page.locator('.tasks .card', { hasText: name }).first();
const open = (name) => visit(page, `tool/${name}`, name);
const call = async () => {
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('link', { name: 'Watch it among the tasks' }).click();
};
const ended = (name, words) => page.waitForFunction(([title, text]) => [...document.querySelectorAll('.tasks .card')].find((one) => one.textContent.includes(title))?.textContent.includes(text), [name, words]);

await page.locator('form.tool').waitFor();
for (const revision of ['2026-07-28', '2025-11-25']) {
  const old = revision === '2025-11-25';
  if (old) {
    await open('greet');
    await speak(page, revision);
    check(`${revision}: a tool that forbids tasks offers none`, (await page.getByLabel('as a task').count()) === 0, null);
  }
  await open('slow_compute');
  await page.getByLabel('seconds').fill('0.4');
  await page.getByLabel('label').fill(`${revision} quick`);
  if (old) {
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.waitForFunction(() => document.querySelector('.outcome-place').textContent.includes('quick: computed'));
    console.log(`ok: ${revision}: what is not called as a task is answered as ever`);
    await page.getByLabel('as a task').check();
  }
  await call();
  await ended(`${revision} quick`, 'completed');
  console.log(`ok: ${revision}: a task lives, and its result is shown`);

  await open('slow_compute');
  await page.getByLabel('seconds').fill('600');
  if (old) check(`${revision}: and stays chosen`, await page.getByLabel('as a task').isChecked(), null);
  await call();
  const cancel = page.locator('.tasks .card').first().getByRole('button', { name: 'Cancel' });
  await cancel.focus();
  await page.waitForFunction(() => document.querySelector('.tasks .card').textContent.includes('Computing'));
  for (let looks = 0; looks < 3; looks++) await page.waitForRequest((request) => request.postData()?.includes('"tasks/get"'));
  check(`${revision}: the keyboard stays where it is while the list lives`, await cancel.evaluate((one) => one === document.activeElement), null);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.tasks .card .badge').textContent === 'cancelled');
  console.log(`ok: ${revision}: a task is cancelled, by keyboard`);

  await open('failing_job');
  if (old) check(`${revision}: a tool that requires a task is called as one`, await page.getByLabel('as a task').isChecked() && await page.getByLabel('as a task').isDisabled(), null);
  await call();
  await ended('failing_job', 'as it always does');
  check(`${revision}: a task that failed says why`, (await card('failing_job').locator('.badge').textContent()) === (old ? 'failed' : 'completed'), await card('failing_job').textContent());

  await open('test_late_question');
  if (old) await page.getByLabel('as a task').check();
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('dialog').getByLabel('name').fill(`Ada of ${revision}`);
  await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click();
  await page.evaluate(() => { location.hash = '#/tasks'; });
  await ended('test_late_question', `Hello, Ada of ${revision}!`);
  console.log(`ok: ${revision}: what a task asks comes up as a form`);
}
await accessible(page, 'tasks of both forms');
await picture(page, 'tasks-older');

await open('greet');
await speak(page, '2025-11-25');

// --- the page is loaded again
await open('slow_compute');
await page.getByLabel('seconds').fill('2');
await page.getByLabel('label').fill('patient');
await page.getByLabel('as a task').check();
await call();
await page.reload();
await page.waitForFunction(() => document.querySelector('.tasks .card')?.textContent.includes('patient: computed'));
console.log('ok: a task is still known when the page is loaded again');
faultless(page, 'tasks');
await page.context().close();
server.close();

// --- tasks/list
const seen = [];
const tasks = new Map();
const task = (taskId, status) => ({ taskId, status, createdAt: '2026-01-01T00:00:00Z', lastUpdatedAt: '2026-01-01T00:00:00Z', ttl: null, pollInterval: 250 });
tasks.set('old-one', Object.assign(() => task('old-one', 'completed'), { result: { content: [{ type: 'text', text: 'from before' }] } }));
const older = await front(served, olderStandin({ seen, tasks }));
const other = await openPage(browser, older.base, '/#/tasks');
await other.getByLabel('Protocol revision').selectOption('2025-11-25');
await other.getByRole('button', { name: 'Ask the server for its tasks' }).waitFor();
check('nothing is listed that was not asked for', !seen.some(([method]) => method?.startsWith('tasks/')), seen);
await other.getByRole('button', { name: 'Ask the server for its tasks' }).click();
await other.waitForFunction(() => document.querySelector('.tasks .card')?.textContent.includes('from before'));
console.log('ok: tasks of before are listed, with their results');
await browser.close();
older.close();
await served.stop();
finish(0);
