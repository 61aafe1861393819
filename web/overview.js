// overview.js - what the server is, at once: what it serves, speaks and offers, what to paste for an assistant, what confines its
// programs, and the keys of the page.
import { h, plainName, plainText, copyButton } from './dom.js';
import { markdown } from './result.js';

const settingsText = (name, entry) => JSON.stringify({ mcpServers: { [name || 'server']: entry } }, null, 2);

function settingsPart(app) {
  const { info, url, token } = app.client;
  const entry = { type: 'http', url: new URL(url, location.href).href };
  if (token) entry.headers = { Authorization: 'Bearer TOKEN' };
  const block = (text) => [h('pre', { tabIndex: 0, 'aria-label': 'settings' }, plainText(text)), copyButton('copy', 'The settings', () => text)];
  return h('section', {}, h('h2', {}, 'For an assistant'), h('p.faint', {}, 'Paste this into its settings.'), block(settingsText(info?.name, entry)),
    app.about?.command ? [h('p.faint', {}, 'Or for one that starts programs:'), block(settingsText(info?.name, app.about.command))] : null);
}

function spokenText(client) {
  const others = (client.versions || []).filter((one) => one !== client.revision).map((one) => plainName(one, 20));
  return [plainName(client.revision), others.length ? h('span.faint', {}, `, also ${others.join(', ')}`) : null];
}

// Single keys can be in the way of who speaks to the machine or types by other means.
const KEYS_OFF = 'idem:no-keys';
export function hasKeys() {
  try {
    return localStorage.getItem(KEYS_OFF) === null;
  } catch {
    return true;
  }
}

function keysPart() {
  const keys = (text) => h('kbd', {}, text);
  const box = h('input', { type: 'checkbox', checked: hasKeys(), onchange: () => (box.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, '1')) });
  return h('section.keys.faint', {}, h('label.option', {}, box, ' Keys:'), keys('/'), ' search, ', keys('g'), ' then ', keys('o'), ' overview, ', keys('k'), ' tasks, ', keys('t'), ' traffic, ', keys('l'), ' logs, ',
    keys('m'), ' metrics, ', keys('c'), ' configuration. In a form ', keys('Ctrl Enter'), ' calls.');
}

// How many there are of a kind; leads to where they stand.
function tile(app, kind) {
  const list = app.lists[kind.kind];
  return h('button', { type: 'button', disabled: !list.length, onclick: () => app.showKind(kind.kind) },
    h('strong', {}, list.length.toLocaleString('en') + (list.more ? '+' : '')), ' ', list.length === 1 ? kind.kind : kind.title.toLowerCase());
}

export function overview(app, kinds) {
  const { client, about } = app;
  if (app.state !== 'open') {
    return h('article', {}, h('h1', {}, app.state === 'failed' ? 'The server is not reached' : 'One moment'),
      h('p.lead', {}, app.state === 'failed' ? plainText(app.failure.message) : 'Asking the server what it is\u2026'));
  }
  const info = client.info || {};
  const confined = Object.entries(about?.confinement || {});
  return h('article.overview', {},
    h('header.title', {}, h('h1', {}, plainName(info.title || info.name || 'A server without a name')), h('code', {}, plainName(`${info.name || ''} ${info.version || ''}`))),
    info.description ? h('p.lead', {}, plainText(info.description)) : null,
    client.instructions ? h('div.lead', {}, markdown(String(client.instructions))) : null,
    h('ul.tiles', {}, kinds.map((kind) => h('li', {}, tile(app, kind)))),
    h('dl.facts', {}, h('dt', {}, 'speaks'), h('dd', {}, spokenText(client)),
      h('dt', {}, 'offers'), h('dd', {}, Object.keys(client.capabilities || {}).map((name) => h('span.badge', {}, plainName(name, 40))))),
    settingsPart(app),
    confined.length ? h('section', {}, h('h2', {}, 'What confines its programs'), h('dl.facts', {}, confined.map(([name, text]) => [h('dt', {}, h('code', {}, plainName(name))), h('dd', {}, plainText(text))]))) : null,
    keysPart());
}
