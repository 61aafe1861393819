#!/usr/bin/env node
// check_dashboard - every metric and label that share/grafana/idem.json asks for is one that /metrics
// prints, and every metric is looked at: tests/docs/check_dashboard BIN_DIR [DASHBOARD].
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const [bin, path = 'share/grafana/idem.json'] = process.argv.slice(2);
const dashboard = JSON.parse(readFileSync(path, 'utf8'));
const faults = [];

// A server that has been asked something, so that series with labels are there, too.
const server = spawn(join(bin, 'idem-reference'), ['--profile', 'mcp', '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
const base = await new Promise((resolve, reject) => {
  let log = '';
  server.on('error', reject).on('exit', () => reject(new Error(`idem-reference ended: ${log}`)));
  server.stderr.setEncoding('utf8').on('data', (text) => {
    log += text;
    const found = log.match(/listening on (http:\S+)/);
    if (found) resolve(found[1]);
  });
});
const kinds = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
let session = {};
const post = async (message) => {
  const body = JSON.stringify({ jsonrpc: '2.0', ...message });
  const answer = await fetch(base, { method: 'POST', headers: { ...kinds, ...session }, body });
  await answer.text();
  return answer.headers.get('mcp-session-id');
};
const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'check', version: '1' } };
session = { 'Mcp-Session-Id': await post({ id: 0, method: 'initialize', params: hello }) };
await post({ method: 'notifications/initialized' });
await post({ id: 1, method: 'echo', params: { a: 1 } });
await post({ id: 2, method: 'fail' });
await post({ id: 3, method: 'tools/call', params: { name: 'echo', arguments: { text: 'x' } } });
const text = await (await fetch(new URL('/metrics', base))).text();
server.kill('SIGTERM');

// What there is: each series by name, with its labels and their values; and families by name.
const series = new Map(), families = new Set();
for (const line of text.split('\n')) {
  const type = line.match(/^# TYPE (\S+)/), sample = line.match(/^([a-z_]+)(?:\{(.*)\})? /);
  if (type) families.add(type[1]);
  if (!sample) continue;
  const labels = series.get(sample[1]) ?? new Map();
  for (const [, name, value] of (sample[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)) {
    labels.set(name, (labels.get(name) ?? new Set()).add(value));
  }
  series.set(sample[1], labels);
}

const fromScraping = new Set(['instance', 'job']);
const checkLabel = (metric, label, value, where) => {
  if (fromScraping.has(label)) return;
  const values = series.get(metric).get(label);
  if (!values) faults.push(`${where}: ${metric} has no label ${label}`);
  else if (value !== undefined && !values.has(value)) faults.push(`${where}: ${metric} never has ${label}="${value}"`);
};

const used = new Set();
const checkExpression = (expression, where) => {
  const names = [...expression.matchAll(/\b((?:idem|mcp)_\w+)(?:\{([^}]*)\})?/g)];
  if (names.length === 0) faults.push(`${where}: asks for no metric`);
  for (const [, metric, matchers = ''] of names) {
    used.add(metric.replace(/_(bucket|sum|count)$/, ''));
    if (!series.has(metric)) {
      faults.push(`${where}: /metrics prints no ${metric}`);
      continue;
    }
    for (const [, label, , value] of matchers.matchAll(/(\w+)(=~|=)"([^"]*)"/g)) checkLabel(metric, label, value, where);
    for (const [, list] of expression.matchAll(/by \(([^)]*)\)/g)) {
      for (const label of list.split(',')) checkLabel(metric, label.trim(), undefined, where);
    }
  }
};

for (const panel of dashboard.panels) {
  for (const target of panel.targets ?? []) checkExpression(target.expr, panel.title);
}
for (const variable of dashboard.templating.list.filter((v) => v.type === 'query')) {
  checkExpression(variable.query.query, `variable ${variable.name}`);
}
for (const family of families) if (!used.has(family)) faults.push(`no panel shows ${family}`);
for (const fault of faults) console.log(fault);
console.log(`${used.size} metrics of ${families.size} in ${dashboard.panels.length} panels, ${faults.length} faults`);
process.exit(faults.length || !used.size ? 1 : 0);
