// bound.mjs - an authorization server that binds its tokens to the key of who asks (RFC 9449), as small as it can be; what it made is
// shown at /seen. /steal?URL asks that URL with the last token and proofs of its own making, and says what came of each; /flood?URL
// asks it very often with tokens that are new and proofs that are good, and waits for the first answer alone. /mcp is a server that
// brings the next nonce with every answer (RFC 9449, 8.2), and takes no other; /never and /mute take none.
import { createHash, createSign, generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer } from "node:http";

const key = generateKeyPairSync("ec", { namedCurve: "P-256" });
const thief = generateKeyPairSync("ec", { namedCurve: "P-256" });
const seen = { tokens: 0, proofs: [], asked: 0, refused: 0 };
let base, last, nonce = "first";

const encode = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const hash = (text) => createHash("sha256").update(text).digest("base64url");
function sign(header, claims, by) {
  const text = `${encode({ alg: "ES256", ...header })}.${encode(claims)}`;
  const signature = createSign("sha256").update(text).sign({ key: by.privateKey, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}
const thumbprint = ({ crv, kty, x, y }) => hash(JSON.stringify({ crv, kty, x, y }));
const decode = (jwt) => jwt.split(".").slice(0, 2).map((part) => JSON.parse(Buffer.from(part, "base64url")));

function json(response, status, body, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

const issue = (resource, jwk) => sign({ kid: "k1", typ: "at+jwt" }, {
  iss: base, aud: resource, sub: "robot", exp: Math.floor(Date.now() / 1000) + 600, jti: randomBytes(8).toString("hex"), cnf: { jkt: thumbprint(jwk) },
}, key);
const prove = (url, access, by, jwk) => sign({ typ: "dpop+jwt", jwk }, {
  jti: randomBytes(8).toString("hex"), htm: "POST", htu: url, iat: Math.floor(Date.now() / 1000), ath: hash(access),
}, by);
const send = (url, authorization, proof) =>
  fetch(url, { method: "POST", headers: { "Content-Type": "application/json", authorization, ...(proof && { DPoP: proof }) }, body: "{}" });

function token(response, form, headers) {
  const [head, claims] = decode(headers.dpop ?? "e30.e30.");
  if (head.typ !== "dpop+jwt" || claims.htu !== `${base}/token`) return json(response, 400, { error: "invalid_dpop_proof" });
  seen.tokens++;
  last = issue(form.get("resource"), head.jwk);
  return json(response, 200, { access_token: last, token_type: "DPoP", expires_in: 600 });
}

// What a thief can do who has the token, and not its key.
async function steal(response, url) {
  const ask = async (authorization, proof) => {
    const answer = await send(url, authorization, proof);
    return `${answer.status} ${/error="(\w+)"/.exec(answer.headers.get("www-authenticate"))?.[1]}`;
  };
  const jwk = thief.publicKey.export({ format: "jwk" });
  json(response, 200, {
    bearer: await ask(`Bearer ${last}`), unproven: await ask(`DPoP ${last}`), own: await ask(`DPoP ${last}`, prove(url, last, thief, jwk)),
    claims: await ask(`DPoP ${last}`, prove(url, last, thief, key.publicKey.export({ format: "jwk" }))),
  });
}

async function flood(response, url) {
  const jwk = thief.publicKey.export({ format: "jwk" });
  const all = Array.from({ length: 200 }, () => {
    const access = issue(url, jwk);
    return send(url, `DPoP ${access}`, prove(url, access, thief, jwk));
  });
  Promise.allSettled(all);
  const { status } = await Promise.any(all);
  json(response, 200, { status });
}

function result({ method, params }) {
  if (method === "server/discover") return { supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, ttlMs: 0, cacheScope: "public" };
  if (method === "tools/list") return { tools: [{ name: "who", inputSchema: { type: "object" } }], ttlMs: 0, cacheScope: "public" };
  return { content: [{ type: "text", text: `${params.name}: gold` }] };
}

function serve(response, body, { authorization, dpop }) {
  const shown = decode(dpop ?? "e30.e30.")[1].nonce;
  const good = authorization === `DPoP ${last}` && shown === nonce;
  nonce = randomBytes(8).toString("hex");
  if (!good) {
    if (authorization) seen.refused++;
    const error = authorization ? 'error="use_dpop_nonce", ' : "";
    return json(response, 401, {}, { "WWW-Authenticate": `DPoP ${error}resource_metadata="${base}/prm"`, "DPoP-Nonce": nonce });
  }
  seen.asked++;
  const message = JSON.parse(body);
  return json(response, 200, { jsonrpc: "2.0", id: message.id, result: { resultType: "complete", ...result(message) } }, { "DPoP-Nonce": nonce });
}

// Whatever is shown, another nonce is wanted, which is named or not.
function refuse(response, { authorization }, path, wanted) {
  const error = authorization ? 'error="use_dpop_nonce", ' : "";
  json(response, 401, {}, { "WWW-Authenticate": `DPoP ${error}resource_metadata="${base}/prm${path}"`, ...(wanted && { "DPoP-Nonce": wanted }) });
}

createServer((request, response) => {
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    const url = new URL(request.url, base);
    switch (url.pathname) {
      case "/.well-known/oauth-authorization-server":
        return json(response, 200, {
          issuer: base, token_endpoint: `${base}/token`, jwks_uri: `${base}/jwks`, grant_types_supported: ["client_credentials"],
          token_endpoint_auth_methods_supported: ["client_secret_basic"], dpop_signing_alg_values_supported: ["ES256"],
        });
      case "/jwks": return json(response, 200, { keys: [{ ...key.publicKey.export({ format: "jwk" }), kid: "k1", alg: "ES256", use: "sig" }] });
      case "/token": return token(response, new URLSearchParams(body), request.headers);
      case "/prm": return json(response, 200, { resource: `${base}/mcp`, authorization_servers: [base] });
      case "/mcp": return serve(response, body, request.headers);
      case "/prm/never": return json(response, 200, { resource: `${base}/never`, authorization_servers: [base] });
      case "/never": return refuse(response, request.headers, "/never", `${++seen.refused}`);
      case "/prm/mute": return json(response, 200, { resource: `${base}/mute`, authorization_servers: [base] });
      case "/mute": return refuse(response, request.headers, "/mute");
      case "/seen": return json(response, 200, seen);
      case "/steal": return steal(response, url.search.slice(1));
      case "/flood": return flood(response, url.search.slice(1));
      default: return json(response, 404, {});
    }
  });
}).listen(0, "127.0.0.1", function () {
  base = `http://127.0.0.1:${this.address().port}`;
  console.log(`listening on ${base}`);
});
