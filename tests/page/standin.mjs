// standin.mjs - an MCP server of the test's own, for what `idem serve` does not do: questions, tasks, media, odd schemas.
const META = 'io.modelcontextprotocol/';
const STANDIN = { name: 'standin', title: 'Stand-in', version: '1' };
const cached = { ttlMs: 0, cacheScope: 'private' };

// tools: {name: {definition, run(params, say)}}; run gives a result, or throws {code, message}. `say` sends a notification first.
// delay: a promise that answers wait for.
export function standin({ tools = {}, resources = [], templates = [], prompts = [], lists = {}, seen = [], tasks = new Map(), info = STANDIN, said = {}, more = {}, delay = null }) {
  const wrap = (result) => ({ resultType: 'complete', ...result, _meta: { [META + 'serverInfo']: info } });
  const answers = {
    'server/discover': () => wrap({ supportedVersions: ['2026-07-28'], capabilities: { tools: {}, resources: {}, prompts: {}, extensions: { [META + 'tasks']: {} }, ...said.capabilities }, instructions: said.instructions, ...cached }),
    'tools/list': (params) => wrap({ ...(lists.tools?.(params) || { tools: Object.entries(tools).map(([name, tool]) => ({ name, inputSchema: { type: 'object' }, ...tool.definition })) }), ...cached }),
    'resources/list': () => wrap({ resources, ...cached }),
    'resources/templates/list': () => wrap({ resourceTemplates: templates, ...cached }),
    'prompts/list': () => wrap({ prompts, ...cached }),
    'tasks/get': (params) => wrap(tasks.get(params.taskId)()),
    'tasks/update': (params) => { seen.push(['tasks/update', params]); return wrap({}); },
    'tasks/cancel': (params) => { seen.push(['tasks/cancel', params]); return wrap({}); },
    'tools/call': (params, say) => tools[params.name].run(params, say),
    ...more,
  };
  return async (message, response, request) => {
    if (request.method !== 'POST') {
      response.writeHead(405);
      return response.end();
    }
    seen.push([message.method, message.params]);
    if (message.method === 'subscriptions/listen') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      return response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: { notifications: {}, _meta: { [META + 'subscriptionId']: message.id } } })}\n\n`);
    }
    let streaming = false;
    const say = (method, params) => {
      if (!streaming) response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      streaming = true;
      response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`);
    };
    const answer = { jsonrpc: '2.0', id: message.id };
    await delay;
    try {
      const result = await answers[message.method](message.params, say);
      answer.result = result.resultType ? result : wrap(result);
    } catch (error) {
      answer.error = { code: error.code || -32603, message: String(error.message), data: error.data };
    }
    if (!streaming) response.writeHead(200, { 'Content-Type': 'application/json' });
    return response.end(streaming ? `data: ${JSON.stringify(answer)}\n\n` : JSON.stringify(answer));
  };
}

export const schemas = {
  // Rarer ones: secrets, members by a pattern, ranges, examples.
  rare: {
    type: 'object', additionalProperties: false,
    properties: {
      percent: { type: 'integer', minimum: 0, maximum: 100 }, old: { type: 'string', deprecated: true }, city: { type: 'string', examples: ['Ulm'] }, never: false,
      secret: { type: 'string', format: 'password' },
      login: { type: 'object', properties: { user: { type: 'string' }, pin: { type: 'string', writeOnly: true } } },
      headers: { type: 'object', patternProperties: { '^x-': { type: 'string' } }, additionalProperties: false },
    },
  },
  // What real tools have beyond that: either of two members, null or an object, tuples, lists of lists, lists of one of several.
  more: {
    type: 'object', required: ['plan'], oneOf: [{ required: ['id'] }, { required: ['mail'] }], additionalProperties: { type: 'string' },
    properties: {
      id: { type: 'string' }, mail: { type: 'string', format: 'email' },
      when: { type: 'string', format: 'date-time' }, link: { type: 'string', format: 'uri' },
      size: { anyOf: [{ type: 'integer' }, { type: 'string', enum: ['auto'] }] },
      owner: { anyOf: [{ $ref: '#/definitions/person' }, { type: 'null' }] },
      mode: { type: ['string', 'null'], enum: ['fast', 'slow', null] },
      pair: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }] },
      grid: { type: 'array', items: { type: 'array', items: { type: 'number' } } },
      plan: { type: 'array', minItems: 1, items: { oneOf: [
        { type: 'object', required: ['do', 'ms'], properties: { do: { const: 'wait' }, ms: { type: 'integer' } } },
        { type: 'object', required: ['do', 'text'], properties: { do: { const: 'say' }, text: { type: 'string' } } },
      ] } },
    },
    definitions: { person: { allOf: [{ type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }, { properties: { age: { type: 'integer', minimum: 0 } } }] } },
  },
  everything: {
    type: 'object', required: ['title', 'place', 'kind'], additionalProperties: false,
    properties: {
      title: { type: 'string', minLength: 3, maxLength: 20, description: 'What it is called' },
      count: { type: 'integer', minimum: 1, maximum: 9, default: 4 },
      ratio: { type: 'number', exclusiveMinimum: 0 },
      color: { enum: ['red', 'green', 'blue'] },
      urgent: { type: 'boolean' },
      day: { type: 'string', format: 'date' },
      mail: { type: 'string', format: 'email' },
      maybe: { type: ['string', 'null'] },
      place: { $ref: '#/$defs/place' },
      tags: { type: 'array', items: { type: 'string' }, maxItems: 3 },
      several: { type: 'array', uniqueItems: true, items: { enum: ['a', 'b', 'c'] } },
      stops: { type: 'array', items: { $ref: '#/$defs/place' } },
      kind: { oneOf: [
        { title: 'Circle', type: 'object', required: ['shape', 'radius'], properties: { shape: { const: 'circle' }, radius: { type: 'number' } } },
        { title: 'Square', type: 'object', required: ['shape', 'side'], properties: { shape: { const: 'square' }, side: { type: 'number' } } },
      ] },
      labels: { type: 'object', additionalProperties: { type: 'integer' } },
      tree: { $ref: '#/$defs/node' },
      anything: {},
    },
    $defs: {
      place: { type: 'object', required: ['city'], properties: { city: { type: 'string', minLength: 1 }, zip: { type: 'string', pattern: '^[0-9]{5}$' } } },
      node: { type: 'object', properties: { name: { type: 'string' }, child: { $ref: '#/$defs/node' } } },
    },
  },
};

// The same idea before 2026-07-28, with a session: tasks that are asked for, listed, cancelled. tools: {name: {definition, run(params)}};
// sessions: those that there are, for who ends them. In 2025-03-26 it answers in batches.
export function olderStandin({ tools = {}, prompts = [], tasks = new Map(), seen = [], sessions = new Set() }) {
  const answers = {
    initialize: (params) => ({ protocolVersion: params.protocolVersion, serverInfo: { name: 'older', version: '1' }, capabilities: { tools: {}, prompts: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } } }),
    'tools/list': () => ({ tools: Object.entries(tools).map(([name, tool]) => ({ name, inputSchema: { type: 'object' }, ...tool.definition })) }),
    'prompts/list': () => ({ prompts }),
    'tools/call': (params) => tools[params.name].run(params),
    'tasks/list': () => ({ tasks: [...tasks.values()].map((task) => task()) }),
    'tasks/get': (params) => tasks.get(params.taskId)(),
    'tasks/result': (params) => tasks.get(params.taskId).result,
  };
  let revision = '';
  return async (message, response, request) => {
    if (message) seen.push([message.method, message.params]);
    const modern = message?.params?._meta?.[META + 'protocolVersion'];
    const session = message?.method === 'initialize' ? `session-${seen.length}` : request.headers['mcp-session-id'];
    if (message?.method === 'initialize') {
      revision = message.params.protocolVersion;
      sessions.add(session);
    }
    if (!modern && !sessions.has(session)) {
      response.writeHead(404);
      return response.end();
    }
    if (request.method !== 'POST' || message.id === undefined) {
      response.writeHead(request.method === 'POST' ? 202 : request.method === 'DELETE' ? 200 : 405);
      return response.end();
    }
    const answer = { jsonrpc: '2.0', id: message.id };
    try {
      if (modern || !answers[message.method]) throw Object.assign(new Error('Method not found'), { code: -32601 });
      answer.result = await answers[message.method](message.params);
    } catch (error) {
      answer.error = { code: error.code || -32603, message: error.message, data: error.data };
    }
    seen.batched = revision === '2025-03-26' && message.method !== 'initialize';
    response.writeHead(200, { 'Content-Type': seen.batched ? 'text/event-stream' : 'application/json', ...(modern ? {} : { 'Mcp-Session-Id': session }) });
    return response.end(seen.batched ? `data: ${JSON.stringify([answer])}\n\n` : JSON.stringify(answer));
  };
}
