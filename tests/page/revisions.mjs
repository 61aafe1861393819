// revisions.mjs - everything a person does, in every revision: questions, progress, cancelling, completion, news of changes, a stream that
// breaks, a session that its server has ended. Against idem's own server of everything, and a stand-in for what it does not do.
import { call, check, everything, faultless, finish, front, launch, openPage, serve, speak, until, visit } from './support.mjs';
import { olderStandin, standin } from './standin.mjs';

const REVISIONS = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const served = await serve({ name: 'behind' });
const browser = await launch();
const server = await everything(served);
const { direct } = server;
const page = await openPage(browser, server.base, '/#/tool/greet');
const press = () => page.getByRole('button', { name: 'Call', exact: true }).click();
const says = (words) => page.waitForFunction((text) => document.querySelector('.outcome-place')?.textContent.includes(text), words);
const dialog = page.getByRole('dialog');
const cancelled = async () => Number(/"text":"(\d+)"/.exec((await call(direct, 1, 'test_cancelled_count', {})).text)[1]);

await page.locator('form.tool').waitFor();
for (const revision of REVISIONS) {
  await visit(page, 'tool/greet', 'greet');
  await speak(page, revision);
  if (revision >= '2025-06-18') {
    await visit(page, 'tool/test_elicitation', 'test_elicitation');
    await page.getByLabel('message').fill('Who are you?');
    await press();
    await dialog.getByLabel('username').fill('ada');
    await dialog.getByLabel('email').fill('ada@example.org');
    await dialog.getByRole('button', { name: 'Send' }).click();
    await says('ada@example.org');
    console.log(`ok: ${revision}: a question is a form`);
  }
  await visit(page, 'tool/test_sampling', 'test_sampling');
  await page.locator('main').getByLabel('prompt').fill('Say something');
  await press();
  await dialog.getByLabel(/Your answer/).fill('something');
  await dialog.getByRole('button', { name: 'Answer' }).click();
  await says('LLM response: something');
  console.log(`ok: ${revision}: a person answers for a model`);

  await visit(page, 'tool/test_tool_with_progress', 'test_tool_with_progress');
  await page.evaluate(() => {
    window.progress = 0; // the most that was shown, however short
    new MutationObserver(() => { window.progress = Math.max(window.progress, document.querySelector('main progress')?.value || 0); })
      .observe(document.querySelector('.outcome-place'), { subtree: true, childList: true, attributes: true });
  });
  await press();
  await says('Finished after three steps');
  check(`${revision}: progress is shown`, (await page.evaluate(() => window.progress)) > 0, null);

  const before = await cancelled();
  await visit(page, 'tool/test_slow', 'test_slow');
  await press();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await says('Cancelled');
  await until(`${revision}: a call is cancelled, and its server knows`, async () => (await cancelled()) === before + 1);

  await visit(page, 'prompt/test_prompt_with_arguments', 'test_prompt_with_arguments');
  await page.getByLabel('arg1').fill('testV');
  await page.waitForFunction(() => [...document.querySelectorAll('main datalist option')].map((one) => one.value).join() === 'testValue1,testValue2');
  console.log(`ok: ${revision}: arguments are completed`);

  await visit(page, `resource/${encodeURIComponent('test://watched-resource')}`, 'Watched Resource');
  await page.getByRole('button', { name: 'Read', exact: true }).click();
  await page.locator('main .contents').waitFor();
  await page.getByLabel('watch it change').check();
  await until(`${revision}: a watched resource is read again when it changes`, async () => {
    await call(direct, 2, 'test_trigger_resource_update', {});
    return (await page.textContent('main .buttons')).includes('changed');
  });
  const listed = () => page.locator('.side a[href="#/tool/test_passing_tool"]').count();
  const count = await listed();
  await page.getByLabel('watch it change').uncheck();
  await call(direct, 3, 'test_trigger_tool_change', {});
  await until(`${revision}: a tool that comes or goes is heard of, also while what is watched changes`, async () => (await listed()) !== count);

  if (revision === '2025-11-25') {
    await visit(page, 'tool/test_reconnection', 'test_reconnection');
    await press();
    await says('Reconnection test completed successfully');
    console.log(`ok: ${revision}: a stream that its server left is taken up again`);
  }
}
faultless(page, 'every revision');
await page.context().close();
server.close();

// --- a server that ends sessions, that wants somebody at an address first, that answers in batches, and does not complete
{
  const seen = [];
  const sessions = new Set();
  let visited = false;
  const tools = {
    plain: { run: () => ({ content: [{ type: 'text', text: 'plain answer' }] }) },
    address: { run: () => {
      if (visited) return { content: [{ type: 'text', text: 'been there' }] };
      visited = true;
      throw Object.assign(new Error('Visit first'), { code: -32042, data: { elicitations: [{ mode: 'url', elicitationId: 'e1', url: 'https://example.org/sign', message: 'Please sign there' }] } });
    } },
  };
  const older = await front(served, olderStandin({ seen, tools, sessions, prompts: [{ name: 'ask', arguments: [{ name: 'topic' }] }] }));
  const one = await openPage(browser, older.base, '/#/tool/plain');
  await speak(one, '2025-11-25');
  const callIt = () => one.getByRole('button', { name: 'Call', exact: true }).click();
  const answered = (words) => one.waitForFunction((text) => document.querySelector('.outcome-place')?.textContent.includes(text), words);
  await callIt();
  await answered('plain answer');
  sessions.clear();
  await one.evaluate(() => { document.querySelector('.outcome-place').replaceChildren(); });
  await callIt();
  await answered('plain answer');
  check('a session that has ended is begun anew, and the call is made', sessions.size === 1 && seen.filter(([method]) => method === 'initialize').length === 2, seen.map(([method]) => method));
  await one.evaluate(() => { location.hash = '#/tool/address'; });
  await callIt();
  await one.getByRole('dialog').getByText('https://example.org/sign').waitFor();
  await one.getByRole('dialog').getByRole('button', { name: 'I agree' }).click();
  await answered('been there');
  console.log('ok: a call that wants somebody at an address first is made again after that');
  await speak(one, '2025-03-26');
  await one.evaluate(() => { location.hash = '#/tool/plain'; });
  await callIt();
  await answered('plain answer');
  check('an answer in a batch is one', seen.batched === true, null);
  await speak(one, '2024-11-05');
  await one.evaluate(() => { location.hash = '#/prompt/ask'; });
  const refused = one.waitForResponse((response) => response.request().postData()?.includes('completion/complete'));
  await one.getByLabel('topic').pressSequentially('a');
  await (await refused).finished();
  await one.getByLabel('topic').pressSequentially('bc', { delay: 200 });
  await one.getByRole('button', { name: 'Show the messages' }).click();
  await until('who does not complete is asked once', async () => (seen.some(([method]) => method === 'prompts/get') && seen.filter(([method]) => method === 'completion/complete').length === 1) || seen.slice(-5));
  faultless(one, 'an older server');
  await one.context().close();
  older.close();
}

// --- what changes while the stream that says what is watched is being replaced
{
  const tools = { early: { run: () => ({ content: [] }) } };
  const said = { capabilities: { tools: { listChanged: true }, resources: { subscribe: true } } };
  const other = standin({ tools, said, resources: [{ name: 'notes', uri: 'x:notes' }] });
  const streams = [];
  const tell = (response, method, params) => response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`);
  const watched = await front(served, (message, response, request) => {
    if (message?.method !== 'subscriptions/listen') return other(message, response, request);
    const open = streams.filter((one) => !one.destroyed);
    streams.push(response);
    if (streams.length === 2) {
      tools.late = { run: () => ({ content: [] }) };
      for (const one of open) tell(one, 'notifications/tools/list_changed', {});
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    return tell(response, 'notifications/subscriptions/acknowledged', { notifications: message.params.notifications });
  });
  const one = await openPage(browser, watched.base, '/#/resource/x%3Anotes');
  await one.getByLabel('watch it change').waitFor();
  await until('the page listens', async () => streams.length === 1);
  await one.getByLabel('watch it change').check();
  await one.locator('.side a[href="#/tool/late"]').waitFor();
  console.log('ok: what changes before the next stream has begun is heard on the last');
  await until('which ends then', async () => streams.filter((stream) => !stream.destroyed).length === 1 && streams.length === 2 && streams[0].destroyed);
  for (let i = 0; i < 4; i++) await one.getByLabel('watch it change').click();
  await until('whatever is toggled, one stream is left', async () => streams.filter((stream) => !stream.destroyed).length === 1 && !streams.at(-1).destroyed);
  faultless(one, 'another stream');
  await one.context().close();
  watched.close();
}
await browser.close();
await served.stop();
finish(0);
