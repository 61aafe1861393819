// servers.mjs - oidc-provider as people run it, and an MCP server that asks it about every token (RFC 7662).
import { createServer } from 'node:http';
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

  // Its resource is known only when the MCP server listens.
  configure(resource) {
    const provider = new Provider(this.url, {
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
        dPoP: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => resource,
          useGrantedResource: () => true,
          getResourceServerInfo: () => ({ scope: 'read write', audience: resource, accessTokenTTL: ttl.access, accessTokenFormat: 'opaque' }),
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

  async ask(path, form) {
    const answer = await fetch(`${this.url}${path}`, { method: 'POST', body: new URLSearchParams(form), headers: { Authorization: `Basic ${Buffer.from(`${RESOURCE}:${SECRET}`).toString('base64')}` } });
    return answer.json();
  }

  introspect(token) { return this.ask('/token/introspection', { token }); }
}

// -------------------------------------------------------------------------------- the MCP server

const TOOLS = { look: 'read', change: 'write' };

function result({ method, params }) {
  if (method === 'initialize') return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'vault', version: '1' } };
  if (method === 'tools/list') return { tools: Object.keys(TOOLS).map((name) => ({ name, inputSchema: { type: 'object' } })) };
  return { content: [{ type: 'text', text: `${params.name}: gold` }] };
}

export class Vault {
  // What is known of a token while nobody can be asked.
  known = new Map();

  async start(issuer) {
    this.issuer = issuer;
    this.server = createServer((request, response) => { this.route(request, response).catch((error) => { console.error(error); response.destroy(); }); });
    this.base = `http://127.0.0.1:${await listen(this.server, 0)}`;
    this.url = `${this.base}/mcp`;
  }

  answer(response, status, value, headers = {}) {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
  }

  refuse(response, status, words) {
    this.answer(response, status, {}, { 'WWW-Authenticate': `Bearer ${words}resource_metadata="${this.base}/.well-known/oauth-protected-resource/mcp"` });
  }

  async route(request, response) {
    const text = await body(request);
    if (request.url === '/.well-known/oauth-protected-resource/mcp') return this.answer(response, 200, { resource: this.url, authorization_servers: [this.issuer.url], scopes_supported: ['read'] });
    if (request.url !== '/mcp' || request.method !== 'POST') return this.answer(response, 405, {});
    return this.serve(JSON.parse(text), request.headers.authorization ?? '', response);
  }

  async look(token) {
    const remembered = this.known.get(token) ?? { active: false };
    const about = await this.issuer.introspect(token).catch(() => ({ ...remembered, active: remembered.exp > Date.now() / 1000 }));
    if (about.active) this.known.set(token, about);
    return about;
  }

  async serve(message, authorization, response) {
    const token = /^Bearer (.+)$/.exec(authorization)?.[1];
    const about = token ? await this.look(token) : { active: false };
    if (!about.active || about.aud !== this.url) return this.refuse(response, 401, token ? 'error="invalid_token", ' : '');
    const wanted = message.method === 'tools/call' ? TOOLS[message.params.name] : 'read';
    if (!about.scope.split(' ').includes(wanted)) return this.refuse(response, 403, `error="insufficient_scope", scope="${wanted}", `);
    if (message.id === undefined) return response.writeHead(202).end();
    if (message.method === 'server/discover') return this.answer(response, 404, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'Method not found' } });
    return this.answer(response, 200, { jsonrpc: '2.0', id: message.id, result: result(message) });
  }
}
