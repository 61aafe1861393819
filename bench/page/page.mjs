// page.mjs - see run. Each figure is a line of a table; the bounds are the project's own.
import { spawn } from 'node:child_process';
import { chromium } from 'playwright-core';

const [program, executablePath, config] = process.argv.slice(2);
const KEY = 'the-key-of-the-benchmark';
const child = spawn(program, ['serve', config, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, IDEM_PAGE_KEY: KEY } });
const base = await new Promise((resolve) => {
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text;
    const match = /listening on (http:\/\/127\.0\.0\.1:\d+)\/mcp/.exec(log);
    if (match) resolve(match[1]);
  });
});
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info', '--js-flags=--expose-gc'] });
const at = (list, share) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.ceil(list.length * share) - 1)];
const row = (what, figure, bound) => console.log(`| ${what} | ${figure} | ${bound} |`);
console.log('| measured | figure | bound |\n|---|---|---|');

// --- cold loads
const paints = [];
for (let i = 0; i < 20; i++) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto(base + '/');
  paints.push(await page.evaluate(() => new Promise((resolve) => {
    const look = () => {
      const entry = performance.getEntriesByName('first-contentful-paint')[0];
      if (entry) resolve(entry.startTime);
      else requestAnimationFrame(look);
    };
    look();
  })));
  await context.close();
}
row('first contentful paint, median of 20 cold loads', `${at(paints, 0.5).toFixed(0)} ms`, 'under 200 ms');

// --- click to result; the CPU time of the page's thread says what it would be on a machine that does nothing else
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
const timing = await context.newCDPSession(page);
await timing.send('Performance.enable', { timeDomain: 'threadTicks' });
const busy = async () => (await timing.send('Performance.getMetrics')).metrics.find((one) => one.name === 'TaskDuration').value * 1000;
await page.goto(`${base}/#/tool/planets?moons=50`);
await page.locator('form.tool').waitFor();
const busyBefore = await busy();
const calls = await page.evaluate(async () => {
  const took = [];
  const button = document.querySelector('form.tool button[type=submit]');
  const place = document.querySelector('.outcome-place');
  for (let i = 0; i < 100; i++) {
    const before = performance.getEntriesByType('resource').length;
    const from = performance.now();
    button.click();
    await new Promise((resolve) => {
      const watcher = new MutationObserver(() => {
        if (!place.querySelector('table')) return;
        watcher.disconnect();
        requestAnimationFrame(() => setTimeout(resolve));
      });
      place.replaceChildren();
      watcher.observe(place, { childList: true, subtree: true });
    });
    const shown = performance.now() - from;
    const entry = performance.getEntriesByType('resource').slice(before).find((one) => one.name.endsWith('/mcp'));
    took.push({ shown, server: entry ? entry.responseEnd - entry.requestStart : 0 });
    performance.clearResourceTimings();
  }
  return took;
});
row('click to shown result, beyond the server\'s time, p95 of 100', `${at(calls.map((one) => one.shown - one.server), 0.95).toFixed(1)} ms`, 'within 30 ms');
row('CPU time of the page a call, mean', `${((await busy() - busyBefore) / 100).toFixed(1)} ms`, '');
await context.close();

// --- heap and long tasks with much traffic
const feed = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const watched = await feed.newPage();
await watched.goto(`${base}/#key=${KEY}`);
await watched.locator('.tiles').waitFor();
await watched.evaluate(() => { location.hash = '#/traffic'; });
const session = await feed.newCDPSession(watched);
const heap = async () => {
  for (let i = 0; i < 3; i++) await session.send('HeapProfiler.collectGarbage');
  return (await session.send('Runtime.getHeapUsage')).usedSize;
};
const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'planets', arguments: { moons: 50 }, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } });
const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'planets' };
let sent = 0;
const send = async (messages) => {
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (sent < messages / 2) {
      sent++;
      await (await fetch(`${base}/mcp`, { method: 'POST', headers, body })).arrayBuffer();
    }
  }));
};
const settled = async () => {
  let before = -1;
  for (;;) {
    const text = await watched.textContent('.traffic [role=status]');
    if (text === before) return text;
    before = text;
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
};
await send(20000);
await settled();
const small = await heap();
await send(100000);
const status = await settled();
const large = await heap();
row('heap after collection at 20,000 and 100,000 messages', `${(small / 1e6).toFixed(1)} and ${(large / 1e6).toFixed(1)} MB, ${(((large - small) / small) * 100).toFixed(1)} %`, 'within 5 %');
row('what the page says of it', status, 'live');
row('messages of them that a reader was too slow for', (/(\d+) left out/.exec(status) || ['', '0'])[1], '');
const scroll = () => watched.evaluate(async () => {
  const tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });
  const list = document.querySelector('.virtual');
  for (let i = 0; i < 300; i++) {
    list.scrollTop = i < 200 ? i * 137 : Math.random() * list.scrollHeight;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  return { tasks };
});
const scrolled = await scroll();
row('tasks over 50 ms while scrolling 300 times', scrolled.tasks.length ? scrolled.tasks.map((ms) => `${ms.toFixed(0)} ms`).join(', ') : 'none', 'none');
await browser.startTracing(watched, { categories: ['toplevel'] });
await scroll();
const { traceEvents } = JSON.parse(await browser.stopTracing());
const threads = new Set(traceEvents.filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain').map((one) => `${one.pid} ${one.tid}`));
const longest = traceEvents.filter((one) => one.ph === 'X' && one.tdur && threads.has(`${one.pid} ${one.tid}`)).reduce((most, one) => Math.max(most, one.tdur / 1000), 0);
row('CPU time of the longest of them, in another 300', `${longest.toFixed(1)} ms`, '');
await browser.close();
child.kill('SIGTERM');
