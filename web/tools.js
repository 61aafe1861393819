// tools.js - one tool: its form, the same arguments as JSON, calling it, and what came of it.
import { h, replace, plainName, plainText, timeText, copyButton, askDialog, note } from './dom.js';
import { isUnreadable } from './fields.js';
import { makeForm } from './form.js';
import { initialValue, isObject, resolve, withoutSecrets } from './schema.js';
import { toolResult, rawJson } from './result.js';
import { asC, asCurl, asIdemCall, asTypeScript } from './copy.js';

const HISTORY_MOST = 20;
const HISTORY_BYTES = 16 * 1024;
const COPIES = [['idem call', 'The line', asIdemCall], ['curl', 'The curl line', asCurl], ['TypeScript', 'The program', asTypeScript], ['C', 'The program', asC]];

// What is typed and is no value yet stands for itself.
const readable = (args) => JSON.parse(JSON.stringify(args, (_, value) => (isUnreadable(value) ? value.text : value)));

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

// A text stands as it is where nothing else can be meant, any other value as JSON.
const isPlainText = (tool, key) => Object.hasOwn(tool.inputSchema?.properties || {}, key) && resolve(tool.inputSchema.properties[key], tool.inputSchema).type === 'string';

function argumentsFromLink(tool, query) {
  const known = (key) => tool.inputSchema?.additionalProperties !== false || Object.hasOwn(tool.inputSchema?.properties || {}, key);
  const valueOf = (key, text) => (isPlainText(tool, key) || !isJson(text) ? text : JSON.parse(text));
  return Object.fromEntries([...query].filter(([key]) => known(key)).map(([key, text]) => [key, valueOf(key, text)]));
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function linkOf(tool, args) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(withoutSecrets(tool.inputSchema, args))) query.set(key, typeof value === 'string' && (isPlainText(tool, key) || !isJson(value)) ? value : JSON.stringify(value));
  const text = query.toString();
  return `#/tool/${encodeURIComponent(tool.name)}${text && text.length < 1500 ? '?' + text : ''}`;
}

export function toolView(app, tool, query) {
  const schema = isObject(tool.inputSchema) ? tool.inputSchema : { type: 'object' };
  const outcome = h('section.outcome-place', { 'aria-label': 'Result' });
  const spoken = h('p.visually-hidden', { role: 'status' });
  const json = h('textarea.code', { rows: 8, spellcheck: false, 'aria-label': 'Arguments as JSON', 'aria-describedby': 'json-fault' });
  const jsonFault = h('p.fault', { hidden: true, id: 'json-fault' });
  const historyCount = h('summary', {});
  const historyList = h('ul.plain', {});
  const history = h('details.history', { hidden: true, ontoggle: () => showHistory() }, historyCount, historyList,
    h('button.quiet', { type: 'button', onclick: () => { localStorage.removeItem(historyKey(app, tool)); showHistory(); } }, 'forget them'));
  let running = null;
  let tried = false;

  const settle = () => {
    json.value = JSON.stringify(readable(form.get()), null, 2);
    jsonFault.hidden = true;
    form.faults(tried);
    app.keepLink(linkOf(tool, readable(form.get())));
  };
  const form = makeForm(schema, settle);
  json.addEventListener('input', () => {
    try {
      const value = JSON.parse(json.value);
      if (!isObject(value)) throw new Error('must be an object');
      form.set(value);
      form.faults(tried);
      jsonFault.hidden = true;
      app.keepLink(linkOf(tool, value));
    } catch (error) {
      jsonFault.textContent = plainName(error.message);
      jsonFault.hidden = false;
    }
  });

  const taskSupport = app.client.asksForTasks && ['optional', 'required'].includes(tool.execution?.taskSupport) ? tool.execution.taskSupport : '';
  const taskBox = h('input', { type: 'checkbox', checked: taskSupport === 'required', disabled: taskSupport === 'required' });
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
    callButton.setAttribute('aria-disabled', 'true'); // a button that is disabled loses the keyboard
    cancelButton.hidden = false;
    return running;
  };
  const end = () => {
    running = null;
    callButton.removeAttribute('aria-disabled');
    if (document.activeElement === cancelButton) callButton.focus();
    cancelButton.hidden = true;
  };

  async function call() {
    if (running) return;
    tried = true;
    if (!jsonFault.hidden) return json.focus();
    if (form.faults(true).length) {
      const group = element.querySelector('fieldset:has(> .fault:not([hidden]))');
      (element.querySelector('[aria-invalid="true"]') || group?.querySelector('input, select, textarea, button'))?.focus();
      note('Something is missing or not right yet', 'bad');
      return;
    }
    const args = form.get();
    if (!(await confirmed(tool))) return;
    const signal = begin().signal;
    const progress = progressPart();
    replace(outcome, h('header.outcome', {}, h('strong', {}, 'Calling\u2026')), progress.element);
    spoken.textContent = 'Calling\u2026';
    const started = performance.now();
    const took = () => performance.now() - started;
    const entry = { args: withoutSecrets(schema, args), when: Date.now() };
    try {
      let token;
      const params = { name: tool.name, arguments: args };
      if (taskBox.checked) params.task = {};
      const result = await app.client.converse('tools/call', params, { signal, schema, onId: (id) => { token = id; }, onProgress: (how) => progress.show(how) });
      entry.ms = Math.round(took());
      entry.failed = result.isError === true;
      if (result.resultType === 'task' || (params.task && isObject(result.task))) {
        app.tasks.add(tool.name, result.task ?? result, token);
        replace(outcome, resultHead('', took(), 'It became a task'), h('p', {}, h('a', { href: '#/tasks' }, 'Watch it among the tasks')));
      } else showAnswer(outcome, result, took());
    } catch (error) {
      entry.failed = true;
      showError(outcome, error, took());
      app.heard(error);
    } finally {
      end();
      spoken.textContent = outcome.querySelector('header')?.firstChild.textContent + ', ' + timeText(took());
    }
    remember(app, tool, entry);
    showHistory();
  }

  // The entries are made when somebody looks.
  function showHistory() {
    const list = readHistory(app, tool);
    history.hidden = !list.length;
    historyCount.textContent = `Earlier calls (${list.length})`;
    replace(historyList, history.open ? list.map((entry) => h('li', {}, h('button.quiet.wide', { type: 'button', onclick: () => { form.set(entry.args); settle(); } },
      h('code', {}, plainName(JSON.stringify(entry.args), 160)), h('span.faint', {}, ` ${new Date(entry.when).toLocaleString()} ${entry.failed ? 'failed ' : ''}${timeText(entry.ms)}`)))) : null);
  }

  const confinement = app.confinementOf(tool.name);
  replace(element,
    h('header.title', {}, h('h1', {}, plainName(tool.title || tool.annotations?.title || tool.name)), tool.title ? h('code', {}, plainName(tool.name)) : null, hintsOf(tool)),
    tool.description ? h('p.lead', {}, plainText(tool.description)) : null,
    confinement ? h('p.confined', {}, h('strong', {}, 'Confined: '), plainText(confinement)) : null,
    h('div.columns', {}, h('div', {}, form.element),
      h('details.json', { open: matchMedia('(min-width: 1100px)').matches }, h('summary', {}, 'JSON'), json, jsonFault)),
    h('div.buttons', {}, callButton, cancelButton, taskSupport ? h('label.option', {}, taskBox, ' as a task') : null,
      COPIES.map(([label, what, make]) => copyButton(`copy as ${label}`, what, () => make(app, tool, readable(form.get()), taskBox.checked)))),
    outcome, spoken, history,
    h('details', {}, h('summary', {}, 'Definition'), rawJson(tool)));
  const given = query && [...query].length ? argumentsFromLink(tool, query) : null;
  if (given) form.set({ ...initialValue(schema, schema), ...given });
  json.value = JSON.stringify(form.get(), null, 2);
  form.faults(false);
  showHistory();
  return { element, isBusy: () => running !== null };
}
