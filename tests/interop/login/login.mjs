// login.mjs - one login from its first page to its end, as a person and her scripts go through it.
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { check, children, finish, folder } from './harness.mjs';
import { Issuer, Vault, serve, ttl } from './servers.mjs';

const [program, browserPath] = process.argv.slice(2);
const env = { ...process.env, HOME: folder, XDG_STATE_HOME: join(folder, 'state'), XDG_CACHE_HOME: join(folder, 'cache'), XDG_CONFIG_HOME: folder, NO_COLOR: '1' };
for (const name of Object.keys(env)) if (/_proxy$/i.test(name)) delete env[name];
const said = [];

// `idem call` at work: what it says so far, and its end.
function begin(words, url = vault.url) {
  const child = spawn(program, ['call', url, '--no-input', ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const self = { out: '', log: '' };
  children.add(child);
  child.stdout.setEncoding('utf8').on('data', (text) => { self.out += text; });
  child.stderr.setEncoding('utf8').on('data', (text) => { self.log += text; });
  self.kill = () => child.kill('SIGTERM');
  self.ended = new Promise((resolve) => { child.on('close', (code) => { children.delete(child); said.push(self.out, self.log); resolve({ code, out: self.out, log: self.log }); }); });
  self.shows = (pattern) => new Promise((resolve, reject) => {
    const look = () => { const found = pattern.exec(self.log); if (found) resolve(found); };
    child.stderr.on('data', look);
    child.on('close', (code) => { look(); reject(new Error(`ended with ${code} before it showed ${pattern}: ${self.log}`)); });
    look();
  });
  return self;
}
const call = (...words) => begin(words).ended;
const kept = (url) => {
  const files = readdirSync(join(folder, 'state/idem/tokens')).filter((name) => name.endsWith('.json'));
  const all = files.map((name) => JSON.parse(readFileSync(join(folder, 'state/idem/tokens', name), 'utf8')));
  return url ? all.find((each) => each.url === url) : all[0];
};
// Real time: the token is over when the server says so.
async function expired(token) {
  while ((await issuer.introspect(token)).active) await new Promise((resolve) => { setTimeout(resolve, 50); });
}

// Signs in where that is asked for, and consents.
async function consent(page) {
  for (let i = 0; i < 6; i++) {
    if (await page.locator('input[name=login]').count()) {
      await page.fill('input[name=login]', 'ada');
      await page.fill('input[name=password]', 'x');
      await page.click('button[type=submit]');
    } else if (await page.locator('button[type=submit]').count()) {
      await page.click('button[type=submit]');
    } else return;
    await page.waitForLoadState();
  }
}

const issuer = new Issuer(), vault = new Vault(), safe = new Vault();
await issuer.start();
await vault.start(issuer);
await safe.start(issuer, { bound: true });
issuer.configure([vault.url, safe.url]);
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
const page = await (await browser.newContext()).newPage();

// ------------------------------------------------------------------------------------ logging in

const refused = await call('look');
check('a stranger is told what to type', refused.code === 3 && refused.log.includes(`idem call ${vault.url} --login`), refused);

ttl.access = 2;
const first = begin(['look', '--login']);
await page.goto((await first.shows(/^ {2}(http\S+)$/m))[1]);
await consent(page);
await page.waitForURL(/127\.0\.0\.1:\d+\/callback\?/);
check('the browser ends at a page that can be closed', (await page.textContent('h1')) === 'You can close this page');
const done = await first.ended;
check('a login in a real browser leads to the call', done.code === 0 && done.out === 'look: gold\n', done);
check('the resource is named, and a refresh token wanted', kept().resource === vault.url && kept().refresh_token && kept().client_issuer === issuer.url, Object.keys(kept()));

// ---------------------------------------------------------------------------- expiry and rotation

const before = kept();
await expired(before.access_token);
const again = await call('look');
check('a token that is over is refreshed', again.code === 0 && again.out === 'look: gold\n', again);
check('the refresh token has changed', kept().refresh_token !== before.refresh_token);

await expired(kept().access_token);
const refreshes = issuer.events.refresh_token;
const together = await Promise.all([1, 2, 3, 4].map(() => call('look', '--stored-only')));
check('four at once are all answered', together.every(({ code, out }) => code === 0 && out === 'look: gold\n'), together);
check('and one of them has refreshed', issuer.events.refresh_token === refreshes + 1, issuer.events);

// ----------------------------------------------------------------- the authorization server goes and comes

await expired(kept().access_token);
const owned = kept();
await issuer.down();
const down = await call('look');
check('an authorization server that is down is said', down.code === 3 && /does not answer: .*(refused|connect)/i.test(down.log), down);
check('and what is kept is kept', kept().refresh_token === owned.refresh_token);
await issuer.up();
const back = await call('look');
check('when it is back, so are we', back.code === 0, back);

// ---------------------------------------------------------------------------------------- stepping up

ttl.access = 600;
const less = await call('change');
check('a scope that is missing is named', less.code === 4 && less.log.includes('the scope "write"'), less);
const more = begin(['change', '--login']);
await page.goto((await more.shows(/^ {2}(http\S+)$/m))[1]);
await consent(page);
const stepped = await more.ended;
check('a step up asks for the union', stepped.code === 0 && stepped.out === 'change: gold\n' && /read/.test(kept().scope) && /write/.test(kept().scope), [stepped, kept().scope]);

// ------------------------------------------------------------------------------- revocation, logging out

// Who shows a refresh token that was spent has stolen one of them: the server takes all of them back.
const client = kept().client_id;
const spent = await fetch(`${issuer.url}/token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: kept().refresh_token, client_id: client }) }).then((answer) => answer.json());
check('a thief refreshes', !!spent.refresh_token, Object.keys(spent));
await issuer.ask('/token/revocation', { token: spent.access_token });
ttl.access = 1;
const thief = await fetch(`${issuer.url}/token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: kept().refresh_token, client_id: client }) }).then((answer) => answer.json());
check('and reuse is noticed', thief.error === 'invalid_grant', thief);
const revoked = await call('look');
check('a login that was revoked is over', revoked.code === 3 && revoked.log.includes('--login') && !kept().refresh_token, revoked);

ttl.access = 600;
const anew = begin(['look', '--login']);
await page.goto((await anew.shows(/^ {2}(http\S+)$/m))[1]);
await consent(page);
check('one logs in again', (await anew.ended).code === 0);
const last = kept();
const out = await call('--logout');
check('logging out is told', out.code === 0 && out.log.includes('has forgotten the tokens, too'), out);
check('and the server has forgotten', !(await issuer.introspect(last.refresh_token)).active);
check('so the next call is a stranger\'s', (await call('look')).code === 3);

// --------------------------------------------------------------------------- a machine without a browser

const device = begin(['look', '--device']);
await page.goto((await device.shows(/^ {2}(http\S+)$/m))[1]);
await device.shows(/the code to type there, or to compare: \S+/);
await consent(page);
const allowed = await device.ended;
check('a device is allowed in from another machine', allowed.code === 0 && allowed.out === 'look: gold\n', allowed);

// -------------------------------------------------------------------------------------- a program's own

await call('--logout');
env.ROBOT = 'hush-hush-hush';
const robot = await call('look', '--client', 'robot:env:ROBOT');
check('a program logs in as itself', robot.code === 0 && robot.out === 'look: gold\n', robot);

// --------------------------------------------------------------------------- tokens bound to a key (DPoP)

await call('--logout', '--client', 'robot:env:ROBOT');
issuer.nonces = true;
ttl.access = 2;
const bound = begin(['look', '--login'], safe.url);
await page.goto((await bound.shows(/^ {2}(http\S+)$/m))[1]);
await consent(page);
const shown = await bound.ended;
check('a server that wants proofs gets one with each request, with its nonce', shown.code === 0 && shown.out === 'look: gold\n' && !safe.faults, [shown, safe.faults]);
check('and the key is kept with the token', /PRIVATE KEY/.test(kept().proof_key), Object.keys(kept()));
const key = kept();
const later = await begin(['look'], safe.url).ended;
check('which another process uses', later.code === 0 && !safe.faults, [later, safe.faults]);
await expired(key.access_token);
const renewed = await begin(['look', '--raw'], safe.url).ended;
check('and refreshes', renewed.code === 0 && kept().access_token !== key.access_token && kept().proof_key === key.proof_key && !safe.faults, [renewed, safe.faults]);
check('--raw shows no proof', renewed.log.includes('DPoP: ...') && !/DPoP: ey/.test(renewed.log), renewed.log);

// ---------------------------------------------------------------------------- idem's own server, and JWTs

issuer.nonces = false;
const served = await serve(program, folder, issuer);
children.add(served.child);
const visit = begin(['look', '--login'], served.url);
await page.goto((await visit.shows(/^ {2}(http\S+)$/m))[1]);
await consent(page);
const visited = await visit.ended;
check('idem serve lets in who logged in', visited.code === 0 && visited.out === 'read: gold\n', [visited, served.log()]);
const jwt = kept(served.url);
check('with a JWT for it', JSON.parse(Buffer.from(jwt.access_token.split('.')[1], 'base64url')).aud === served.url);
const over = JSON.parse(Buffer.from(jwt.access_token.split('.')[1], 'base64url')).exp + 2;
while (Date.now() / 1000 < over) await new Promise((resolve) => { setTimeout(resolve, 50); });
const fresh = await begin(['look'], served.url).ended;
check('refreshes it when it is over', fresh.code === 0 && kept(served.url).access_token !== jwt.access_token, [fresh, served.log()]);
const changed = await begin(['change'], served.url).ended;
check('and all that its metadata offer was asked for', changed.code === 0 && changed.out === 'write: gold\n', [changed, served.log()]);

const secrets = [jwt, key, before, owned, last, spent].flatMap((each) => [each.access_token, each.refresh_token, each.proof_key?.split('\n')[1]]).filter(Boolean);
check('no token was ever shown', !secrets.some((secret) => said.some((text) => text.includes(secret))));
await browser.close();
finish(0);
