// servers.mjs - oidc-provider as people run it, and an MCP server that asks it about every token (RFC 7662).
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { EmbeddedJWK, calculateJwkThumbprint, decodeJwt, jwtVerify } from 'jose';
import Provider from 'oidc-provider';

export const ttl = { access: 600 };
const RESOURCE = 'resource-server', SECRET = 'of-the-resource-server-alone';

const body = (request) => new Promise((resolve) => {
  let text = '';
  request.setEncoding('utf8').on('data', (data) => { text += data; }).on('end', () => resolve(text));
});
const listen = (server, port) => new Promise((resolve) => { server.listen(port, '127.0.0.1', () => resolve(server.address().port)); });

// ------------------------------------------------------------------------- the authorization server

export class Issuer {
  async start() {
    this.server = createServer((request, response) => this.handle(request, response));
    this.port = await listen(this.server, 0);
    this.url = `http://127.0.0.1:${this.port}`;
  }

  // Resources whose tokens are JWTs.
  signed = new Set();

  // Whether proofs must have a nonce of ours (RFC 9449, 8).
  nonces = false;

  // Its resources are known only when the MCP servers listen. Called once more it has other keys, of which the first one signs.
  configure(resources, keys) {
    const provider = new Provider(this.url, {
      ...(keys ? { jwks: { keys } } : {}),
      clients: [{ client_id: RESOURCE, client_secret: SECRET, redirect_uris: [], response_types: [], grant_types: [] },
        { client_id: 'robot', client_secret: 'hush-hush-hush', redirect_uris: [], response_types: [], grant_types: ['client_credentials'] }],
      clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
      cookies: { keys: ['a key of this test'] },
      pkce: { required: () => true },
      features: {
        registration: { enabled: true },
        deviceFlow: { enabled: true },
        revocation: { enabled: true },
        introspection: { enabled: true, allowedPolicy: (ctx, client) => client.clientId === RESOURCE },
        clientCredentials: { enabled: true },
        dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => this.nonces },
        resourceIndicators: {
          enabled: true,
          defaultResource: (ctx, client, oneOf) => oneOf ?? resources[0],
          useGrantedResource: () => true,
          getResourceServerInfo: (ctx, resource) => ({ scope: 'read write', audience: resource, accessTokenTTL: ttl.access, ...(this.signed.has(resource) ? { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } } : { accessTokenFormat: 'opaque' }) }),
        },
      },
    });
    this.events = { refresh_token: 0, authorization_code: 0, reused: 0 };
    provider.on('grant.success', (ctx) => { this.events[ctx.oidc.params.grant_type] = (this.events[ctx.oidc.params.grant_type] ?? 0) + 1; });
    provider.on('grant.revoked', () => { this.events.reused += 1; });
    provider.on('server_error', (ctx, error) => console.error(`oidc-provider: ${error.stack}`));
    this.handle = provider.callback();
  }

  // Down and up again, at the same port and with all it knew.
  async up() {
    await listen(this.server, this.port);
  }

  async down() {
    this.server.closeAllConnections();
    await new Promise((resolve) => { this.server.close(resolve); });
  }

  async ask(path, form, who = `${RESOURCE}:${SECRET}`) {
    const answer = await fetch(`${this.url}${path}`, { method: 'POST', body: new URLSearchParams(form), headers: { Authorization: `Basic ${Buffer.from(who).toString('base64')}` } });
    const text = await answer.text();
    return text ? JSON.parse(text) : {};
  }

  introspect(token) { return this.ask('/token/introspection', { token }); }
}

// ------------------------------------------------------------------------------- the MCP servers

// `idem serve`, which takes JWTs of the issuer, or asks it about every token.
export async function serve(program, folder, issuer, { introspection = false, auth = {} } = {}) {
  const path = join(folder, introspection ? 'asks.json' : 'idem.json');
  const tool = (scopes) => ({ run: ['echo', `${scopes}: gold`], scopes });
  const about = { url: `${issuer.url}/token/introspection`, id: RESOURCE, secret: { env: 'RESOURCE_SECRET' }, seconds: 1 };
  const trusted = introspection ? { introspection: about } : { issuer: issuer.url };
  writeFileSync(path, JSON.stringify({ name: 'vault', version: '1', auth: { ...trusted, ...auth, skew_seconds: 1 }, tools: { look: tool('read'), change: tool('write') } }));
  const child = spawn(program, ['serve', path, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, RESOURCE_SECRET: SECRET } });
  let log = '';
  const url = await new Promise((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`idem serve ended with ${code}: ${log}`)));
    child.stderr.setEncoding('utf8').on('data', (text) => {
      log += text;
      const found = /listening on (http:\S+)/.exec(log);
      if (found) resolve(found[1]);
    });
  });
  if (!introspection) issuer.signed.add(url);
  return { child, url, log: () => log };
}

const TOOLS = { look: 'read', change: 'write' };

function result({ method, params }) {
  if (method === 'initialize') return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'vault', version: '1' } };
  if (method === 'tools/list') return { tools: Object.keys(TOOLS).map((name) => ({ name, inputSchema: { type: 'object' } })) };
  return { content: [{ type: 'text', text: `${params.name}: gold` }] };
}

export class Vault {
  // What is known of a token while nobody can be asked.
  known = new Map();

  // Numbers of proofs that were shown, and the nonce that the next must have (RFC 9449, 9).
  seen = new Set();

  nonce = 1;

  async start(issuer, { bound = false } = {}) {
    this.issuer = issuer;
    this.bound = bound;
    this.server = createServer((request, response) => { this.route(request, response).catch((error) => { console.error(error); response.destroy(); }); });
    this.base = `http://127.0.0.1:${await listen(this.server, 0)}`;
    this.url = `${this.base}/mcp`;
  }

  answer(response, status, value, headers = {}) {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
  }

  refuse(response, status, words) {
    const headers = { 'WWW-Authenticate': `${this.bound ? 'DPoP' : 'Bearer'} ${words}resource_metadata="${this.base}/.well-known/oauth-protected-resource/mcp"` };
    this.answer(response, status, {}, this.bound ? { ...headers, 'DPoP-Nonce': `nonce-${this.nonce}` } : headers);
  }

  // What is wrong with a proof; "": nothing.
  async fault(proof, token, about) {
    const { payload, protectedHeader } = await jwtVerify(proof ?? '', EmbeddedJWK, { typ: 'dpop+jwt', algorithms: ['ES256'], maxTokenAge: 60 });
    const hash = createHash('sha256').update(token).digest('base64url');
    if (payload.htm !== 'POST' || payload.htu !== this.url || payload.ath !== hash || this.seen.has(payload.jti)) return 'invalid_dpop_proof';
    if ((await calculateJwkThumbprint(protectedHeader.jwk)) !== about.cnf?.jkt) return 'invalid_token';
    this.seen.add(payload.jti);
    if (this.seen.size % 3 === 0) this.nonce += 1; // it changes, in the midst of things
    return '';
  }

  async route(request, response) {
    const text = await body(request);
    if (request.url === '/.well-known/oauth-protected-resource/mcp') return this.answer(response, 200, { resource: this.url, authorization_servers: [this.issuer.url], scopes_supported: ['read'] });
    if (request.url !== '/mcp' || request.method !== 'POST') return this.answer(response, 405, {});
    return this.serve(JSON.parse(text), request.headers, response);
  }

  async look(token) {
    const remembered = this.known.get(token) ?? { active: false };
    const about = await this.issuer.introspect(token).catch(() => ({ ...remembered, active: remembered.exp > Date.now() / 1000 }));
    if (about.active) this.known.set(token, about);
    return about;
  }

  async serve(message, { authorization = '', dpop }, response) {
    const token = (this.bound ? /^DPoP (.+)$/ : /^Bearer (.+)$/).exec(authorization)?.[1];
    // Nonces first, as a server may: the token may be over as well.
    if (this.bound && token && decodeJwt(dpop).nonce !== `nonce-${this.nonce}`) return this.refuse(response, 401, 'error="use_dpop_nonce", ');
    const about = token ? await this.look(token) : { active: false };
    const fault = this.bound && about.active ? await this.fault(dpop, token, about).catch((error) => `invalid_dpop_proof: ${error.message}`) : '';
    if (fault) this.faults = fault;
    if (fault) return this.refuse(response, 401, `error="${fault}", `);
    if (!about.active || about.aud !== this.url) return this.refuse(response, 401, token ? 'error="invalid_token", ' : '');
    const wanted = message.method === 'tools/call' ? TOOLS[message.params.name] : 'read';
    if (!about.scope.split(' ').includes(wanted)) return this.refuse(response, 403, `error="insufficient_scope", scope="${wanted}", `);
    if (message.id === undefined) return response.writeHead(202).end();
    if (message.method === 'server/discover') return this.answer(response, 404, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'Method not found' } });
    return this.answer(response, 200, { jsonrpc: '2.0', id: message.id, result: result(message) });
  }
}
