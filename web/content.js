// content.js - resources: read, previewed, watched; templates: filled in, with completion; prompts: filled in, and their messages.
import { h, replace, plainName, plainText, calmly, timeText, note } from './dom.js';
import { resourceContents, contentBlock, rawJson } from './result.js';
import { showError } from './tools.js';

// ------------------------------------------------------------------------- completion

let lastListId = 0;

// A field that offers what the server completes, as one types.
function completedField(app, label, about, needed, ref, others) {
  const listId = `complete-${++lastListId}`;
  const id = `${listId}-field`;
  const list = h('datalist', { id: listId });
  const input = h('input', { type: 'text', id, autocomplete: 'off', spellcheck: false, 'aria-describedby': `${id}-about` });
  input.setAttribute('list', listId);
  if (needed) input.setAttribute('aria-required', 'true');
  let asked = 0;
  const complete = calmly(async () => {
    const number = ++asked;
    const params = { ref, argument: { name: label, value: input.value } };
    if (app.client.revision >= '2025-06-18') params.context = { arguments: others() };
    const values = await app.client.complete(params);
    if (number === asked && values) replace(list, values.slice(0, 100).map((value) => h('option', { value })));
  });
  input.addEventListener('input', complete);
  input.addEventListener('focus', complete);
  const element = h('div.field', {}, h('label', { htmlFor: id }, h('span.name', {}, plainName(label)), needed ? h('span.needed', { title: 'needed' }, ' *') : null),
    h('div.control', {}, input, list), h('p.about', { id: `${id}-about`, hidden: !about }, plainText(about || '')));
  return { element, input, name: label, needed };
}

// What a link brings goes into the fields, and what is typed into the link.
function keepInLink(app, kind, name, fields, query) {
  for (const field of fields) {
    field.input.value = query?.get(field.name) ?? '';
    field.input.addEventListener('input', () => {
      const text = new URLSearchParams(valuesOf(fields)).toString();
      app.keepLink(`#/${kind}/${encodeURIComponent(name)}${text && text.length < 1500 ? '?' + text : ''}`);
    });
  }
}

const valuesOf = (fields) => Object.fromEntries(fields.filter((field) => field.input.value !== '').map((field) => [field.name, field.input.value]));

// -------------------------------------------------------------------------- resources

// known: what the list says of it; inside: of another view, which has its title.
export function resourceView(app, uri, known, inside) {
  const place = h('section', { 'aria-label': 'Contents' });
  const status = h('span.faint', { role: 'status' });
  let changes = 0;
  const read = async () => {
    const started = performance.now();
    status.textContent = 'reading\u2026';
    try {
      const result = await app.client.converse('resources/read', { uri }, {});
      replace(place, resourceContents(result.contents));
      status.textContent = `read in ${timeText(performance.now() - started)}${changes ? `, changed ${changes} ${changes === 1 ? 'time' : 'times'}` : ''}`;
    } catch (error) {
      status.textContent = 'it could not be read';
      showError(place, error, performance.now() - started);
      app.heard(error);
    }
  };
  const watchBox = h('input', { type: 'checkbox', checked: app.wires.isWatching(uri), onchange: () => app.wires.watch(uri, watchBox.checked) });
  const canWatch = app.client.capabilities?.resources?.subscribe;
  const updated = (changed) => {
    if (changed !== uri && !changed.startsWith(uri)) return;
    changes++;
    read();
  };
  const element = h('article', {}, inside ? null : h('header.title', {}, h('h1', {}, plainName(known?.title || known?.name || uri)), h('code', {}, plainName(uri))),
    known?.description ? h('p.lead', {}, plainText(known.description)) : null,
    h('div.buttons', {}, h('button', { type: 'button', class: inside ? '' : 'primary', onclick: read }, inside ? 'Read again' : 'Read'),
      canWatch ? h('label.option', {}, watchBox, ' watch it change') : null, status),
    place, known ? h('details', {}, h('summary', {}, 'Definition'), rawJson(known)) : null);
  return { element, updated, read };
}

// RFC 6570, as far as names go: the server's own expansion is what counts, so only simple expressions are filled in.
const namesOf = (template) => [...String(template).matchAll(/\{[+#./;?&]?([^}]*)\}/g)].flatMap((match) => match[1].split(',').map((name) => name.replace(/[*:].*$/, '')));

export function expand(template, values) {
  return String(template).replace(/\{([+#./;?&]?)([^}]*)\}/g, (_, operator, list) => {
    const reserved = operator === '+' || operator === '#';
    const encode = (text) => (reserved ? encodeURI(text) : encodeURIComponent(text));
    const given = list.split(',').map((name) => name.replace(/[*:].*$/, '')).filter((name) => values[name] !== undefined);
    if (!given.length) return '';
    if (operator === '?' || operator === '&') return operator + given.map((name) => `${name}=${encode(values[name])}`).join('&');
    if (operator === ';') return given.map((name) => `;${name}=${encode(values[name])}`).join('');
    const joint = operator === '.' ? '.' : operator === '/' ? '/' : ',';
    return (operator === '+' ? '' : operator) + given.map((name) => encode(values[name])).join(joint);
  });
}

export function templateView(app, template, query) {
  const others = () => valuesOf(fields);
  const fields = [...new Set(namesOf(template.uriTemplate))].map((name) => completedField(app, name, '', false, { type: 'ref/resource', uri: template.uriTemplate }, others));
  keepInLink(app, 'template', template.uriTemplate, fields, query);
  const shown = h('code', {}, plainName(expand(template.uriTemplate, others())));
  const place = h('div', {});
  let shownOne = null;
  for (const field of fields) field.input.addEventListener('input', () => { shown.textContent = plainName(expand(template.uriTemplate, others())); });
  const element = h('form', { onsubmit: (event) => {
    event.preventDefault();
    shownOne = resourceView(app, expand(template.uriTemplate, others()), null, true);
    replace(place, shownOne.element);
    shownOne.read();
  } },
  h('header.title', {}, h('h1', {}, plainName(template.title || template.name)), h('code', {}, plainName(template.uriTemplate))),
  template.description ? h('p.lead', {}, plainText(template.description)) : null, fields.map((field) => field.element),
  h('div.buttons', {}, h('button.primary', { type: 'submit' }, 'Read'), shown), place);
  return { element, updated: (uri) => shownOne?.updated(uri) };
}

// ---------------------------------------------------------------------------- prompts

export function promptView(app, prompt, query) {
  const place = h('section', { 'aria-label': 'Messages' });
  const status = h('span.faint', { role: 'status' });
  const others = () => valuesOf(fields);
  const list = Array.isArray(prompt.arguments) ? prompt.arguments : [];
  const fields = list.map((argument) => completedField(app, String(argument.name), argument.description, argument.required === true, { type: 'ref/prompt', name: prompt.name }, others));
  keepInLink(app, 'prompt', prompt.name, fields, query);
  const get = async () => {
    const missing = fields.find((field) => field.needed && field.input.value === '');
    if (missing) {
      missing.input.focus();
      note(`${plainName(missing.name)} is needed`, 'bad');
      return;
    }
    const started = performance.now();
    try {
      const result = await app.client.converse('prompts/get', { name: prompt.name, arguments: others() }, {});
      const messages = Array.isArray(result.messages) ? result.messages : [];
      status.textContent = `${messages.length === 1 ? 'one message' : `${messages.length} messages`} in ${timeText(performance.now() - started)}`;
      replace(place, result.description ? h('p.faint', {}, plainText(result.description)) : null,
        messages.slice(0, 200).map((message) => h('section.block.message', { class: message?.role === 'assistant' ? 'assistant' : 'user' },
          h('header', {}, plainName(message?.role)), [message?.content].flat().map(contentBlock))));
    } catch (error) {
      status.textContent = 'it did not work';
      showError(place, error, performance.now() - started);
      app.heard(error);
    }
  };
  const element = h('form', { noValidate: true, onsubmit: (event) => { event.preventDefault(); get(); } },
    h('header.title', {}, h('h1', {}, plainName(prompt.title || prompt.name)), prompt.title ? h('code', {}, plainName(prompt.name)) : null),
    prompt.description ? h('p.lead', {}, plainText(prompt.description)) : null, fields.map((field) => field.element),
    h('div.buttons', {}, h('button.primary', { type: 'submit' }, 'Show the messages'), status), place,
    h('details', {}, h('summary', {}, 'Definition'), rawJson(prompt)));
  return { element };
}
