// tools.js - one tool: its form, the same arguments as JSON, calling it, and what came of it.
import { h, replace, plainName, plainText, timeText, copyButton, askDialog, note } from './dom.js';
import { makeForm } from './form.js';
import { initialValue, isObject } from './schema.js';
import { toolResult, rawJson } from './result.js';
import { paramHeaders, headerValue, NEWEST, CLIENT_INFO } from './mcp.js';

const HISTORY_MOST = 20;
const HISTORY_BYTES = 16 * 1024;

// --------------------------------------------------------------------- earlier calls

const historyKey = (app, tool) => `idem:calls:${app.client.info?.name || ''}:${tool.name}`;

export function readHistory(app, tool) {
  try {
    const list = JSON.parse(localStorage.getItem(historyKey(app, tool)));
    return Array.isArray(list) ? list.filter(isObject) : [];
  } catch {
    return [];
  }
}

function remember(app, tool, entry) {
  if (JSON.stringify(entry).length > HISTORY_BYTES) return;
  const text = JSON.stringify(entry.args);
  const list = [entry, ...readHistory(app, tool).filter((one) => JSON.stringify(one.args) !== text)].slice(0, HISTORY_MOST);
  try {
    localStorage.setItem(historyKey(app, tool), JSON.stringify(list));
  } catch { /* full or forbidden: then nothing is kept */ }
}

// ------------------------------------------------------------------------- to take along

const shellWord = (text) => `'${text.replace(/'/g, `'\\''`)}'`;

export function asCurl(app, tool, args) {
  const url = new URL(app.client.url, location.href).href;
  const lines = [`curl -s ${shellWord(url)}`, `-H 'Content-Type: application/json'`, `-H 'Accept: application/json, text/event-stream'`];
  if (app.client.token) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  lines.push(`-H 'MCP-Protocol-Version: ${NEWEST}'`, `-H 'Mcp-Method: tools/call'`, `-H ${shellWord('Mcp-Name: ' + headerValue(tool.name))}`);
  for (const [name, value] of Object.entries(paramHeaders(tool.inputSchema, args))) lines.push(`-H ${shellWord(`${name}: ${value}`)}`);
  const meta = { 'io.modelcontextprotocol/protocolVersion': NEWEST, 'io.modelcontextprotocol/clientCapabilities': {} };
  lines.push(`-d ${shellWord(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool.name, arguments: args, _meta: meta } }))}`);
  return lines.join(' \\\n  ');
}

export function asTypeScript(app, tool, args) {
  const url = new URL(app.client.url, location.href).href;
  const options = app.client.token ? ', {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },\n}' : '';
  return `import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const client = new Client({ name: 'my-program', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})${options}));
const result = await client.callTool({ name: ${JSON.stringify(tool.name)}, arguments: ${JSON.stringify(args, null, 2)} });
console.log(result);
await client.close();
`;
}

// -------------------------------------------------------------------------------- hints

function hintsOf(tool) {
  const hints = tool.annotations || {};
  const made = [];
  if (hints.readOnlyHint === true) made.push(['reads only', 'good']);
  else if (hints.destructiveHint === true) made.push(['may destroy', 'bad']);
  if (hints.idempotentHint === true) made.push(['can be repeated', '']);
  if (hints.openWorldHint === true) made.push(['reaches out', '']);
  return made.map(([text, kind]) => h('span.badge', { class: kind }, text));
}

const isDestructive = (tool) => tool.annotations?.destructiveHint === true && tool.annotations?.readOnlyHint !== true;

async function confirmed(tool) {
  if (!isDestructive(tool)) return true;
  const body = h('p.lead', {}, `${plainName(tool.title || tool.name)} says of itself that it may destroy something.`);
  return (await askDialog('Call it all the same?', body, [
    { label: 'Call it', kind: 'danger', value: () => true },
    { label: 'Cancel', focus: true, value: () => false },
  ])) === true;
}

// ---------------------------------------------------------------------------- one call

function progressPart() {
  const bar = h('progress', { 'aria-label': 'progress' });
  const text = h('span.faint', {});
  return {
    element: h('div.progress', { hidden: true }, bar, text),
    show(params) {
      this.element.hidden = false;
      if (params.total > 0) {
        bar.max = params.total;
        bar.value = Math.min(params.progress, params.total);
      } else bar.removeAttribute('value');
      text.textContent = plainName(params.message || (params.total ? `${params.progress} of ${params.total}` : params.progress));
    },
  };
}

function resultHead(kind, ms, label) {
  return h('header.outcome', { class: kind }, h('strong', {}, label), h('span.faint', {}, ' ', timeText(ms)));
}

function showAnswer(place, result, ms) {
  const failed = result.isError === true;
  const shown = h('div', {}, toolResult(result));
  let raw = null;
  const rawButton = h('button.quiet', { type: 'button', 'aria-pressed': 'false', onclick: () => {
    const on = rawButton.getAttribute('aria-pressed') !== 'true';
    rawButton.setAttribute('aria-pressed', String(on));
    raw ??= rawJson(result);
    replace(shown, on ? raw : toolResult(result));
  } }, 'as JSON');
  const head = resultHead(failed ? 'bad' : 'good', ms, failed ? 'The tool failed' : 'Answered');
  head.append(rawButton);
  replace(place, head, shown);
}

export function showError(place, error, ms) {
  if (error.name === 'AbortError') {
    replace(place, resultHead('', ms, 'Cancelled'));
    return;
  }
  replace(place, resultHead('bad', ms, error.code ? `Error ${error.code}` : 'It did not work'), h('p', {}, plainText(error.message)),
    error.data ? rawJson(error.data) : null);
}

// --------------------------------------------------------------------------- the view

function argumentsFromLink(tool, query) {
  const args = {};
  for (const [key, text] of query) {
    const property = tool.inputSchema?.properties?.[key];
    if (!property) continue;
    try {
      args[key] = property.type === 'string' ? text : JSON.parse(text);
    } catch {
      args[key] = text;
    }
  }
  return args;
}

export function linkOf(tool, args) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(args)) query.set(key, typeof value === 'string' ? value : JSON.stringify(value));
  const text = query.toString();
  return `#/tool/${encodeURIComponent(tool.name)}${text && text.length < 1500 ? '?' + text : ''}`;
}

export function toolView(app, tool, query) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : { type: 'object' };
  const outcome = h('section.outcome-place', { 'aria-label': 'Result', 'aria-live': 'polite' });
  const json = h('textarea.code', { rows: 8, spellcheck: false, 'aria-label': 'Arguments as JSON', 'aria-describedby': 'json-fault' });
  const jsonFault = h('p.fault', { hidden: true, id: 'json-fault' });
  const history = h('div.history', {});
  let running = null;
  let tried = false;

  const settle = () => {
    json.value = JSON.stringify(form.get(), (_, value) => (value?.text !== undefined && value.why ? value.text : value), 2);
    jsonFault.hidden = true;
    form.faults(tried);
    app.keepLink(linkOf(tool, form.get()));
  };
  const form = makeForm(schema, settle);
  json.addEventListener('input', () => {
    try {
      const value = JSON.parse(json.value);
      if (!isObject(value)) throw new Error('must be an object');
      form.set(value);
      form.faults(tried);
      jsonFault.hidden = true;
    } catch (error) {
      jsonFault.textContent = plainName(error.message);
      jsonFault.hidden = false;
    }
  });

  const callButton = h('button.primary', { type: 'submit' }, 'Call');
  const cancelButton = h('button', { type: 'button', hidden: true, onclick: () => running?.abort() }, 'Cancel');
  const element = h('form.tool', { noValidate: true, onsubmit: (event) => { event.preventDefault(); call(); }, onkeydown: (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      call();
    }
  } });

  const begin = () => {
    running = new AbortController();
    callButton.disabled = true;
    cancelButton.hidden = false;
    return running;
  };
  const end = () => {
    running = null;
    callButton.disabled = false;
    cancelButton.hidden = true;
  };

  async function call() {
    if (running) return;
    tried = true;
    if (!jsonFault.hidden) return json.focus();
    if (form.faults(true).length) {
      element.querySelector('[aria-invalid="true"]')?.focus();
      note('Something is missing or not right yet', 'bad');
      return;
    }
    const args = form.get();
    if (!(await confirmed(tool))) return;
    const signal = begin().signal;
    const progress = progressPart();
    replace(outcome, h('header.outcome', {}, h('strong', {}, 'Calling\u2026')), progress.element);
    const started = performance.now();
    const took = () => performance.now() - started;
    const entry = { args, when: Date.now() };
    try {
      const result = await app.client.converse('tools/call', { name: tool.name, arguments: args }, { signal, schema, onProgress: (params) => progress.show(params) });
      entry.ms = Math.round(took());
      entry.failed = result.isError === true;
      if (result.resultType === 'task') {
        app.tasks.add(tool, result);
        replace(outcome, resultHead('', took(), 'It became a task'), h('p', {}, h('a', { href: '#/tasks' }, 'Watch it among the tasks')));
      } else showAnswer(outcome, result, took());
    } catch (error) {
      entry.failed = true;
      showError(outcome, error, took());
      app.heard(error);
    } finally {
      end();
    }
    remember(app, tool, entry);
    showHistory();
  }

  function showHistory() {
    const list = readHistory(app, tool);
    if (!list.length) return replace(history);
    return replace(history, h('details', {}, h('summary', {}, `Earlier calls (${list.length})`),
      h('ul.plain', {}, list.map((entry) => h('li', {}, h('button.quiet.wide', { type: 'button', onclick: () => { form.set(entry.args); settle(); } },
        h('code', {}, plainName(JSON.stringify(entry.args), 160)), h('span.faint', {}, ` ${new Date(entry.when).toLocaleString()} ${entry.failed ? 'failed ' : ''}${timeText(entry.ms)}`))))),
      h('button.quiet', { type: 'button', onclick: () => { localStorage.removeItem(historyKey(app, tool)); showHistory(); } }, 'forget them')));
  }

  const confinement = app.confinementOf(tool.name);
  replace(element,
    h('header.title', {}, h('h1', {}, plainName(tool.title || tool.annotations?.title || tool.name)), tool.title ? h('code', {}, plainName(tool.name)) : null, hintsOf(tool)),
    tool.description ? h('p.lead', {}, plainText(tool.description)) : null,
    confinement ? h('p.confined', {}, h('strong', {}, 'Confined: '), plainText(confinement)) : null,
    h('div.columns', {}, h('div', {}, form.element),
      h('details.json', { open: matchMedia('(min-width: 1100px)').matches }, h('summary', {}, 'JSON'), json, jsonFault)),
    h('div.buttons', {}, callButton, cancelButton, copyButton('copy as curl', 'The curl line', () => asCurl(app, tool, form.get())),
      copyButton('copy as TypeScript', 'The program', () => asTypeScript(app, tool, form.get()))),
    outcome, history,
    h('details', {}, h('summary', {}, 'Definition'), rawJson(tool)));
  const given = query && [...query].length ? argumentsFromLink(tool, query) : null;
  if (given) form.set({ ...initialValue(schema, schema), ...given });
  json.value = JSON.stringify(form.get(), null, 2);
  form.faults(false);
  showHistory();
  return { element, isBusy: () => running !== null };
}
