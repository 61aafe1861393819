// harness.mjs - what the scripts of this folder have in common: a folder of their own, checks that end them, and an end that leaves nothing.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const folder = mkdtempSync(join(tmpdir(), 'idem-login-'));
export const children = new Set();

export const finish = (code, why) => {
  if (why) console.error(`FAILED: ${why}`);
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  process.exit(code);
};
process.on('uncaughtException', (error) => finish(1, error.stack));
process.on('unhandledRejection', (error) => finish(1, error.stack));
setTimeout(() => finish(1, 'it takes too long'), 500000).unref();

export const check = (name, good, saw) => {
  if (!good) finish(1, `${name}; saw ${JSON.stringify(saw)?.slice(0, 3000)}`);
  console.log(`ok: ${name}`);
};
