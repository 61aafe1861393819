// issuer.mjs - an MCP server that wants a token, and its own authorization server, as small as they can be: everybody who
// opens the page is allowed in. /control changes how they behave, and says what they saw.
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";

const saw = { registered: 0, authorized: 0, codes: 0, refreshed: 0, reused: 0, revoked: 0, calls: 0, devices: 0, credentials: 0 };
const mode = { open: "", down: false, refresh: "", scope: "", slow: 0, iss: "", pending: 0, challenge: "", deaf: "" };
let good = new Map(); // access token -> scope
let refreshable = new Set();
const spent = new Set();
const codes = new Map();
const secret = () => `secret-${randomBytes(12).toString("hex")}`;
let base;

const json = (response, status, body, headers = {}) => {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(body));
};

function grant(scope) {
  const access = secret(), refresh = secret();
  good.set(access, scope);
  refreshable.add(refresh);
  return { access_token: access, token_type: "Bearer", expires_in: 3600, refresh_token: refresh, scope };
}

function spend(response, form) {
  const token = form.get("refresh_token");
  if (spent.has(token)) saw.reused++;
  if (mode.refresh) return json(response, 400, { error: mode.refresh });
  if (!refreshable.delete(token)) return json(response, 400, { error: "invalid_grant" });
  spent.add(token);
  saw.refreshed++;
  return json(response, 200, grant(form.get("scope") ?? "read write"));
}

function token(response, form, headers) {
  if (mode.down) return json(response, 503, {});
  switch (form.get("grant_type")) {
    case "refresh_token": return spend(response, form);
    case "authorization_code": {
      const asked = codes.get(form.get("code"));
      codes.delete(form.get("code"));
      const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
      if (!asked || asked.challenge !== challenge || asked.back !== form.get("redirect_uri")) return json(response, 400, { error: "invalid_grant" });
      saw.codes++;
      return json(response, 200, grant(asked.scope));
    }
    case "urn:ietf:params:oauth:grant-type:device_code":
      return mode.pending-- > 0 ? json(response, 400, { error: "authorization_pending" }) : json(response, 200, grant("read"));
    case "client_credentials":
      if (headers.authorization !== `Basic ${Buffer.from("robot:hush").toString("base64")}`) return json(response, 401, { error: "invalid_client" });
      saw.credentials++;
      return json(response, 200, { access_token: grant(form.get("scope") ?? "read").access_token, token_type: "bearer" });
    default: return json(response, 400, { error: "unsupported_grant_type" });
  }
}

function authorize(response, url) {
  const query = url.searchParams, code = secret(), back = new URL(query.get("redirect_uri"));
  saw.authorized++;
  codes.set(code, { challenge: query.get("code_challenge"), back: query.get("redirect_uri"), scope: query.get("scope") ?? "" });
  back.searchParams.set("code", code);
  back.searchParams.set("state", query.get("state"));
  back.searchParams.set("iss", mode.iss || base);
  response.writeHead(302, { Location: back.href });
  response.end();
}

const metadata = () => ({
  issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token`, registration_endpoint: `${base}/register`,
  device_authorization_endpoint: `${base}/device`, revocation_endpoint: `${base}/revoke`, code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none", "client_secret_basic"], authorization_response_iss_parameter_supported: true,
});

function result({ method }) {
  if (method === "initialize") return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "vault", version: "1" } };
  if (method === "tools/list") return { tools: [{ name: "open", inputSchema: { type: "object" } }] };
  return { content: [{ type: "text", text: "gold" }] };
}

function mcp(response, body, headers) {
  const message = JSON.parse(body || "{}"), scope = good.get((headers.authorization ?? "").replace(/^Bearer /, ""));
  saw.calls++;
  const challenge = (more) => ({ "WWW-Authenticate": `Bearer ${more}resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"` });
  if (mode.deaf) return json(response, 401, {}, challenge('error="invalid_token", '));
  if (scope === undefined && !mode.open) return json(response, 401, {}, challenge(""));
  if (mode.scope && message.method === "tools/call" && !scope.split(" ").includes(mode.scope)) return json(response, 403, {}, challenge(`error="insufficient_scope", scope="${mode.scope}", `));
  if (message.id === undefined) { response.writeHead(202); return response.end(); }
  if (message.method === "server/discover") return json(response, 404, { jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "Method not found" } });
  return json(response, 200, { jsonrpc: "2.0", id: message.id, result: result(message) });
}

function control(response, url) {
  for (const [name, value] of url.searchParams) {
    if (name === "expire") good = new Map();
    else if (name === "revoke") refreshable = new Set();
    else mode[name] = /^\d+$/.test(value) ? Number(value) : value;
  }
  json(response, 200, { ...saw, good: good.size });
}

function route(request, response, body) {
  const url = new URL(request.url, base), form = new URLSearchParams(body);
  switch (url.pathname) {
    case "/mcp": return request.method === "POST" ? mcp(response, body, request.headers) : json(response, 405, {});
    case "/.well-known/oauth-protected-resource/mcp": return json(response, 200, { resource: `${base}/mcp`, authorization_servers: [base] });
    case "/.well-known/oauth-authorization-server": return mode.down ? json(response, 503, {}) : json(response, 200, metadata());
    case "/register": saw.registered++; return json(response, 201, { client_id: `client-${saw.registered}`, token_endpoint_auth_method: "none" });
    case "/authorize": return authorize(response, url);
    case "/device": saw.devices++; return json(response, 200, { device_code: secret(), user_code: "ABCD-EFGH", verification_uri: `${base}/allow`, interval: 1, expires_in: 60 });
    case "/token": return setTimeout(() => token(response, form, request.headers), mode.slow);
    case "/revoke": saw.revoked++; refreshable.delete(form.get("token")); return json(response, 200, {});
    case "/introspect": return json(response, 200, good.has(form.get("token")) ? { active: true, aud: "mcp", sub: "somebody", client_id: "robot", scope: good.get(form.get("token")) } : { active: false });
    case "/control": return control(response, url);
    default: return json(response, 404, {});
  }
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (text) => { body += text; }).on("end", () => route(request, response, body));
});
server.listen(0, "127.0.0.1", () => {
  base = `http://127.0.0.1:${server.address().port}`;
  console.log(`listening on ${base}/mcp`);
});
