// tokens.mjs - `idem serve` in front of oidc-provider, under load: keys that rotate, tokens that end while streams are open, tokens that are
// revoked, and an authorization server that goes and comes back. No good request is refused.
import { exportJWK, generateKeyPair } from 'jose';
import { check, children, finish, folder } from './harness.mjs';
import { Issuer, serve, ttl } from './servers.mjs';

const [program] = process.argv.slice(2);

const newKey = async (kid) => ({ ...(await exportJWK((await generateKeyPair('RS256', { extractable: true })).privateKey)), kid, alg: 'RS256', use: 'sig' });
const first = await newKey('first'), second = await newKey('second');
const issuer = new Issuer();
await issuer.start();
issuer.configure([], [first]);
const auth = { principal: 'client_id' };
const signed = await serve(program, folder, issuer, { auth });
children.add(signed.child);
const asked = await serve(program, folder, issuer, { auth, introspection: true });
children.add(asked.child);

// ------------------------------------------------------------------------------------ asking

async function token(resource, scope = 'read write') {
  const answer = await fetch(`${issuer.url}/token`, {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from('robot:hush-hush-hush').toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope }),
  });
  const value = await answer.json();
  if (!value.access_token) throw new Error(JSON.stringify(value));
  return value.access_token;
}
const kidOf = (jwt) => JSON.parse(Buffer.from(jwt.split('.')[0], 'base64url')).kid;
const META = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
const send = (url, bearer, method, params, name) => fetch(url, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': method, ...(name ? { 'Mcp-Name': name } : {}), Authorization: `Bearer ${bearer}` },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } }),
});
const list = async (url, bearer) => { const answer = await send(url, bearer, 'tools/list', {}); await answer.text(); return answer.status; };
const listen = async (url, bearer) => (await send(url, bearer, 'subscriptions/listen', { notifications: { toolsListChanged: true } })).text();
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// ------------------------------------------------------------------------- keys that rotate, under load

let working = true;
const seen = {}, refusals = [];
const worker = async () => {
  while (working) {
    const bearer = await token(signed.url);
    const kid = kidOf(bearer);
    for (let i = 0; i < 3; i++) {
      const status = await list(signed.url, bearer);
      seen[kid] = (seen[kid] ?? 0) + 1;
      if (status !== 200) refusals.push([kid, status]);
    }
  }
};
const load = Promise.all([1, 2, 3, 4, 5, 6].map(worker));
while (!(seen.first > 20)) await pause(20);
issuer.configure([], [second, first]); // published, and used at once
const rotated = (async () => { while (!(seen.second > 40)) await pause(20); })();

// ------------------------------------------------------------- meanwhile: streams end with their tokens

const opaque = await token(asked.url);
check('an opaque token opens', await list(asked.url, opaque) === 200);
const watched = listen(asked.url, opaque);
await pause(300);
await issuer.ask('/token/revocation', { token: opaque }, 'robot:hush-hush-hush');
check('what listens with a token that is revoked ends with its result', /"resultType":"complete"/.test(await watched), await watched);
check('and the token opens nothing any more', await list(asked.url, opaque) === 401);

const kept = await token(asked.url);
check('another opens', await list(asked.url, kept) === 200);
await rotated;
working = false;
await load;
check('keys rotate under load, and no good request is refused', refusals.length === 0 && seen.first > 20 && seen.second > 40, [refusals, seen]);

ttl.access = 2;
const began = Date.now(); // before it: how long it took to come is part of its time
const brief = await token(signed.url);
check('what listens with a token ends with it', /"resultType":"complete"/.test(await listen(signed.url, brief)), 'nothing');
check('when that is over', Date.now() - began > 1500 && Date.now() - began < 30000, Date.now() - began);
ttl.access = 600;
check('and the next token is as good as the first', await list(signed.url, await token(signed.url)) === 200);

// ------------------------------------------------------------ the authorization server goes and comes

const jwt = await token(signed.url), waits = await token(asked.url);
await issuer.down();
check('a JWT needs nobody', await list(signed.url, jwt) === 200);
check('of an opaque token nobody can say', await list(asked.url, waits) === 503);
await issuer.up();
check('until somebody can', await list(asked.url, waits) === 200);
finish(0);
