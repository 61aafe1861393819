#!/usr/bin/env node
// measure - how many of the last progress notifications before an answer a TypeScript SDK shows on stdio, by the time
// between the two: bench/progress/measure.mjs IDEM NODE_MODULES. Needs the packages @modelcontextprotocol/sdk or /client there.
import { mkdtempSync, writeFileSync, rmSync, existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [idem, modules] = process.argv.slice(2).map((one) => resolve(one));
const folder = mkdtempSync(join(tmpdir(), 'idem-progress-'));
const calls = 200;
writeFileSync(join(folder, 'kept.py'), `import json, sys, time
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    say({"method": "progress", "params": {"id": request["id"], "progress": 1, "total": 1}})
    until = time.perf_counter() + request["params"]["ms"] / 1000
    while time.perf_counter() < until: pass
    say({"id": request["id"], "result": "done"})
`);
writeFileSync(join(folder, 'idem.json'), JSON.stringify({
  tools: { step: { args: { ms: 'number' }, run: ['/usr/bin/python3', 'kept.py'], keep: true } } }));

const load = (path) => import(pathToFileURL(join(modules, '@modelcontextprotocol', path)));
const kinds = [
  ['sdk', 'sdk/dist/esm/client/index.js', 'sdk/dist/esm/client/stdio.js', (client, params, opts) => client.callTool(params, undefined, opts)],
  ['client', 'client/dist/index.mjs', 'client/dist/stdio.mjs', (client, params, opts) => client.callTool(params, opts)],
];
for (const [name, clientPath, stdioPath, call] of kinds) {
  if (!existsSync(join(modules, '@modelcontextprotocol', clientPath))) {
    console.log(`${name}: not there`);
    continue;
  }
  const { Client } = await load(clientPath);
  const { StdioClientTransport } = await load(stdioPath);
  const client = new Client({ name: 'measure', version: '1.0.0' });
  await client.connect(new StdioClientTransport({
    command: idem, args: ['serve', join(folder, 'idem.json'), '--stdio'], stderr: 'ignore' }));
  for (const ms of [0, 0.1, 0.5, 1, 2, 5, 10]) {
    let seen = 0;
    for (let i = 0; i < calls; i++)
      await call(client, { name: 'step', arguments: { ms } }, { onprogress: () => seen++ });
    console.log(`${name}: ${ms} ms between them: ${seen} of ${calls} seen`);
  }
  await client.close();
}
rmSync(folder, { recursive: true });
