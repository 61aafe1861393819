// app.js - the page as a whole: who the server is, where one is in it (the address after #), and what is shown there.
// See docs/internals/page.md.
import { h, replace, byId, plainName, plainText, note, calmly, askDialog } from './dom.js';
import { Client, REVISIONS, NEWEST } from './mcp.js';
import { answerQuestion } from './ask.js';
import { toolView } from './tools.js';
import { resourceView, templateView, promptView } from './content.js';
import { Tasks } from './tasks.js';
import { Wires } from './wires.js';
import { overview } from './overview.js';
import { takeKeys, takeDrops } from './keys.js';
import { Feed, readFeed } from './feed.js';
import { trafficView } from './traffic.js';
import { logsView } from './logs.js';
import { metricsView } from './metrics.js';
import { configView } from './config.js';

const VIEWS_KEPT = 18;
const LASTING = ['tasks', 'traffic', 'recording', 'logs', 'metrics', 'configuration'];
const TABS = [['', 'Overview'], ['tasks', 'Tasks'], ['traffic', 'Traffic'], ['logs', 'Logs'], ['metrics', 'Metrics'], ['configuration', 'Configuration']];
const ALIASES = { config: 'configuration' };
const KINDS = [
  { kind: 'tool', member: 'tools', title: 'Tools', method: 'tools/list', capability: 'tools', id: (one) => one.name },
  { kind: 'resource', member: 'resources', title: 'Resources', method: 'resources/list', capability: 'resources', id: (one) => one.uri },
  { kind: 'template', member: 'resourceTemplates', title: 'Templates', method: 'resources/templates/list', capability: 'resources', id: (one) => one.uriTemplate },
  { kind: 'prompt', member: 'prompts', title: 'Prompts', method: 'prompts/list', capability: 'prompts', id: (one) => one.name },
];

const PLACES = [...TABS.map(([tab]) => tab), 'recording', ...KINDS.map((kind) => kind.kind)];

const stored = (name) => {
  try {
    return sessionStorage.getItem(name) || '';
  } catch {
    return '';
  }
};
const store = (name, value) => {
  try {
    sessionStorage.setItem(name, value);
  } catch { /* then it is asked for again */ }
};

// ----------------------------------------------------------------------------- opening

// The address may bring the operator's key, and where the server is, behind the #: kept for this tab, and taken away.
function takeFragment() {
  const match = /^#key=([^&]*)(?:&at=([^&]*))?(?:&(.*))?$/.exec(location.hash);
  if (!match) return;
  store('idem:key', decodeURIComponent(match[1]));
  if (match[2]) store('idem:at', decodeURIComponent(match[2]));
  history.replaceState(null, '', location.pathname + '#/');
}

class App {
  constructor() {
    this.key = stored('idem:key');
    this.servers = [{ name: 'this server', url: stored('idem:at') || '/mcp' }]; // one now; the list is for those that are mounted later
    this.client = new Client(this.servers[0].url, { token: stored('idem:token'), onAsk: answerQuestion, onTrouble: (error) => note(plainName(error.message), 'bad') });
    this.lists = Object.fromEntries(KINDS.map((kind) => [kind.kind, []]));
    this.views = new Map();
    this.counts = {};
    this.tasks = new Tasks(this, (text) => store('idem:tasks', text));
    this.feed = new Feed();
    this.about = null;
    this.state = 'opening';
    this.search = '';
  }

  async start() {
    this.tabs();
    this.side();
    addEventListener('hashchange', () => {
      takeFragment();
      if (stored('idem:key') !== this.key) location.reload();
      this.route();
    });
    takeKeys(this);
    takeDrops(this);
    byId('revision').addEventListener('change', (event) => this.open(event.target.value));
    await this.learn();
    await this.makeWires();
    await this.open(stored('idem:revision') || NEWEST);
    this.tasks.resume(stored('idem:tasks'));
    this.watchHealth();
    addEventListener('pagehide', () => this.client.close());
    addEventListener('pageshow', (event) => event.persisted && this.open(this.client.revision)); // its session has ended
  }

  // Who the operator is learns more: the configuration, what confines each program.
  async learn() {
    if (!this.key) return;
    try {
      const response = await fetch('/page/about', { headers: { Authorization: `Bearer ${this.key}` }, cache: 'no-store' });
      if (response.status === 401) this.loseKey();
      this.about = response.ok ? await response.json() : null;
    } catch {
      this.about = null;
    }
  }

  // A key lives as long as its server; what was seen with it stays.
  loseKey() {
    this.key = '';
    this.keyLost = true;
    store('idem:key', '');
    note('The server does not take this key; open the address that it prints', 'bad');
  }

  async makeWires() {
    const digest = await crypto.subtle?.digest('SHA-256', new TextEncoder().encode('idem page ' + this.key)).catch(() => null);
    const name = digest ? 'idem-' + [...new Uint8Array(digest).slice(0, 12)].map((b) => b.toString(16).padStart(2, '0')).join('') : 'idem';
    const wires = new Wires({
      name,
      openFeed: async (signal, onLines) => (this.key ? readFeed(this.key, signal, onLines) : false),
      onFeed: (lines) => this.feed.take(lines),
      past: () => this.feed.past(),
      onNews: (message) => this.news(message),
      onState: (what, state) => this.wireState(what, state),
    });
    this.wires = wires;
    wires.start();
    if (this.key) await this.feedFirst(250);
  }

  // What is said from here on is seen, so the feed comes first; but nobody waits long for it.
  async feedFirst(ms) {
    await Promise.race([new Promise((resolve) => { this.feedBegun = resolve; }), new Promise((resolve) => setTimeout(resolve, ms))]);
  }

  async open(revision) {
    const shown = byId('revision');
    if (!shown.options.length) replace(shown, REVISIONS.map((one) => h('option', { value: one }, one)));
    shown.value = revision;
    this.state = 'opening';
    delete shown.dataset.spoken;
    const again = this.spoken === revision; // after a break: what is typed and shown stays
    const turn = this.turn = (this.turn || 0) + 1; // whoever chooses again meanwhile wins
    try {
      await this.client.open(revision);
      if (turn !== this.turn) return;
      this.spoken = revision;
      store('idem:revision', revision);
      const versions = this.client.versions;
      if (Array.isArray(versions)) replace(shown, REVISIONS.filter((one) => versions.includes(one) || one === revision).map((one) => h('option', { value: one, selected: one === revision }, one)));
      this.state = 'open';
      for (const [key, view] of this.views) if (!view.lasting && !again) this.views.delete(key);
      this.head();
      this.tasks.opened();
      await this.readLists();
      this.wires?.setClient(this.client);
      if (turn === this.turn) shown.dataset.spoken = revision;
    } catch (error) {
      if (turn === this.turn) await this.failed(error, revision);
    }
  }

  async failed(error, revision) {
    if (error.status === 401) return this.askToken(revision);
    this.state = 'failed';
    this.failure = error;
    this.head();
    this.route();
    if (error instanceof TypeError) setTimeout(() => this.state === 'failed' && this.open(revision), 2000);
    else note(error.message, 'bad');
    return undefined;
  }

  async askToken(revision) {
    if (this.asking) return;
    this.asking = true;
    const field = h('input', { type: 'password', autocomplete: 'off', 'aria-label': 'Bearer token' });
    const token = await askDialog('The server wants a token', h('div', {}, h('p', {}, `${this.client.token ? 'It does not take the last one. ' : ''}One of those it was started with. It is kept for this tab alone.`), field), [
      { label: 'Use it', kind: 'primary', value: () => field.value || undefined },
    ]);
    this.asking = false;
    if (token === null) return this.failed(new Error('Without a token the server says nothing.'), revision);
    this.client.token = token;
    store('idem:token', token);
    return this.open(revision);
  }

  heard(error) {
    if (error.status === 401) this.askToken(this.client.revision);
    else if (error instanceof TypeError) this.checkHealth();
  }

  // ------------------------------------------------------------------------------ lists

  async readLists(only) {
    await Promise.all(KINDS.filter((kind) => !only || only.includes(kind.kind)).map(async (kind) => {
      if (!this.client.capabilities?.[kind.capability]) {
        this.lists[kind.kind] = [];
        return;
      }
      try {
        this.lists[kind.kind] = await this.client.list(kind.method, kind.member, only ? null : (some) => { this.lists[kind.kind] = some; this.sideSoon(); });
      } catch (error) {
        if (error.code !== -32601) note(`${kind.title}: ${plainName(error.message)}`, 'bad');
      }
    }));
    this.sideNow();
    this.route();
  }

  news(message) {
    const method = message.method || '';
    if (method === 'notifications/tools/list_changed') this.changed('The tools', ['tool']);
    else if (method === 'notifications/prompts/list_changed') this.changed('The prompts', ['prompt']);
    else if (method === 'notifications/resources/list_changed') this.changed('The resources', ['resource', 'template']);
    else if (method === 'notifications/tasks' || method === 'notifications/tasks/status' || method === 'notifications/progress') this.tasks.heard(method, message.params);
    else if (method === 'notifications/resources/updated') for (const view of this.views.values()) view.updated?.(String(message.params?.uri));
  }

  changed(what, kinds) {
    note(`${what} have changed`);
    for (const [key, view] of this.views) if (!view.isBusy?.() && kinds.some((kind) => key.startsWith(`#/${kind}/`)) && key !== this.shownKey) this.views.delete(key);
    this.readLists(kinds);
    this.learn();
  }

  confinementOf(name) { return this.about?.confinement?.[name] || ''; }

  // ------------------------------------------------------------------------------- head

  head() {
    const info = this.client.info || {};
    const name = plainName(info.title || info.name || this.servers[0].url, 60);
    byId('server-name').textContent = this.state === 'failed' ? 'not reached' : name;
    byId('server-version').textContent = info.version && this.state !== 'failed' ? ' ' + plainName(info.version, 30) : '';
    this.entitle();
    this.healthNow(this.state === 'failed' ? 'bad' : 'good', this.state === 'failed' ? 'not reached' : 'healthy');
  }

  // Which of many tabs it is, and where in it one is.
  entitle() {
    const here = byId('main').querySelector('h1')?.textContent;
    const name = plainName(this.client.info?.title || this.client.info?.name || 'idem', 60);
    document.title = [here, name, 'idem'].filter((part, i, all) => part && all.indexOf(part) === i).join(' \u00b7 ');
  }

  healthNow(kind, text) {
    const place = byId('health');
    if (place.textContent !== text) place.textContent = text;
    place.className = `health ${kind}`;
  }

  wireState(what, state) {
    this[what + 'State'] = state;
    if (what === 'feed') {
      this.feed.setState(state);
      this.feedBegun?.();
    }
    if (what === 'feed' && (state === 'lost' || (state === 'open' && this.lost))) this.checkHealth();
  }

  async checkHealth() {
    try {
      const response = await fetch('/healthz', { cache: 'no-store' });
      const wasLost = this.lost;
      this.lost = false;
      if (response.ok || response.status === 404) this.healthNow('good', 'healthy');
      else this.healthNow('bad', plainName((await response.text()).slice(0, 40)) || `HTTP ${response.status}`);
      if (wasLost) {
        note('Connected again');
        this.wires.hurry();
        if (this.key && this.feedState === 'lost') await this.feedFirst(1000);
        await this.learn();
        this.open(this.client.revision);
      }
    } catch {
      this.healthNow('bad', 'reconnecting\u2026');
      if (this.lost) return;
      this.lost = true;
      note('The connection is lost; trying again', 'bad');
      this.watchHealth();
    }
  }

  watchHealth() {
    clearTimeout(this.healthTimer);
    this.healthTimer = setTimeout(async () => {
      if (!document.hidden) await this.checkHealth();
      this.watchHealth();
    }, this.lost ? 1500 : 10000);
  }

  tabs() {
    replace(byId('tabs'), TABS.map(([path, title]) => h('a', { href: `#/${path}`, 'data-tab': path }, title, h('span.count', { hidden: true }))));
  }

  setCount(tab, count) {
    const place = byId('tabs').querySelector(`[data-tab="${tab}"] .count`);
    place.hidden = !count;
    place.textContent = count ? ` ${count}` : '';
  }

  // ------------------------------------------------------------------------------- side

  side() {
    this.searchField = h('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search tools, resources and prompts', oninput: () => { this.search = this.searchField.value.toLowerCase(); this.sideNow(); },
      onkeydown: (event) => {
        if (event.key === 'ArrowDown' || event.key === 'Enter') {
          event.preventDefault();
          const first = this.sideList.querySelector('a');
          if (event.key === 'Enter') first?.click();
          else first?.focus();
        }
      } });
    this.sideList = h('div.lists', {}, [1, 2, 3].map(() => h('div.ghost', {})));
    this.sideList.addEventListener('click', (event) => event.target.closest('a') && this.showSide(false));
    this.sideList.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      const links = [...this.sideList.querySelectorAll('a')];
      const next = links[links.indexOf(document.activeElement) + step];
      event.preventDefault();
      (next || (step < 0 ? this.searchField : links.at(-1))).focus();
    });
    replace(byId('side'), h('div.search', {}, this.searchField, h('kbd', { 'aria-hidden': 'true' }, '/')), this.sideList);
    this.sideSoon = calmly(() => this.sideNow(), 50);
    const menu = document.querySelector('.menu');
    menu.addEventListener('click', () => this.showSide(menu.getAttribute('aria-expanded') !== 'true'));
  }

  // On a phone it stands over everything below the bar, which is not there meanwhile.
  showSide(on) {
    const menu = document.querySelector('.menu');
    menu.setAttribute('aria-expanded', String(on));
    menu.textContent = on ? '\u00d7' : '\u2630';
    document.body.classList.toggle('browsing', on);
    for (const id of ['main', 'tabs']) byId(id).inert = on;
    if (!on) return;
    byId('side').scrollTop = 0;
    this.searchField.focus({ preventScroll: true });
  }

  // The first of a kind, with the heading above it in sight.
  showKind(kind) {
    if (getComputedStyle(byId('side')).display === 'none') this.showSide(true);
    const section = byId(`side-${kind}`)?.parentNode;
    section?.scrollIntoView({ block: 'start' });
    section?.querySelector('a').focus({ preventScroll: true });
  }

  hideSide() {
    this.showSide(false);
    document.querySelector('.menu').focus();
  }

  sideNow() {
    const groups = KINDS.map((kind) => {
      const all = this.lists[kind.kind];
      const fitting = all.filter((one) => !this.search || `${one.name} ${one.title || ''} ${one.description || ''} ${one.uri || one.uriTemplate || ''}`.toLowerCase().includes(this.search));
      if (!all.length || (this.search && !fitting.length)) return null;
      const heading = `side-${kind.kind}`;
      return h('section', { 'aria-labelledby': heading }, h('h2', { id: heading }, kind.title, h('span.faint', {}, ` ${this.search ? `${fitting.length} of ` : ''}${all.length}${all.more ? '+' : ''}`)),
        h('ul.plain', {}, fitting.slice(0, 2000).map((one) => this.sideLink(kind, one))));
    });
    const nothing = groups.every((group) => !group);
    replace(this.sideList, groups, nothing ? h('p.faint', {}, this.search ? 'Nothing of that name.' : 'Nothing is served.') : null);
    this.markPlace();
  }

  sideLink(kind, one) {
    const about = one.description || (kind.kind === 'resource' ? one.uri : '');
    return h('li', {}, h('a', { href: `#/${kind.kind}/${encodeURIComponent(kind.id(one))}` },
      h('span.name', {}, plainName(kind.kind === 'tool' ? one.name : one.title || one.name, 80), one.annotations?.destructiveHint === true ? h('span.mark', { title: 'may destroy' }, ' !') : null),
      about ? h('span.about', {}, plainName(about, 90)) : null));
  }

  // Where one is stands in sight among the tabs and in the lists; neither moves the window.
  bringPlace() {
    for (const link of document.querySelectorAll('.side a[aria-current], .tabs a[aria-current]')) {
      const box = link.closest('.side, .tabs');
      const [around, own] = [box.getBoundingClientRect(), link.getBoundingClientRect()];
      if (own.left < around.left || own.right > around.right) box.scrollLeft += own.left - around.left - 12;
      if (own.top < around.top || own.bottom > around.bottom) box.scrollTop += own.top - around.top - around.height / 3;
    }
  }

  markPlace() {
    const here = location.hash.split('?')[0];
    for (const link of document.querySelectorAll('.side a, .tabs a')) {
      if (link.getAttribute('href') === (here || '#/')) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
  }

  // ------------------------------------------------------------------------------ places

  keepLink(link) {
    if (location.hash.split('?')[0] !== link.split('?')[0]) return;
    if (location.hash !== link) history.replaceState(null, '', link);
    this.shownHash = link;
  }

  // An address that leads nowhere, a slip of the keyboard or of an old link, leads to the overview.
  leaveNowhere() {
    const named = location.hash.startsWith('#/') ? location.hash.slice(2).split(/[/?]/)[0] : location.hash.slice(1);
    if (PLACES.includes(named)) return;
    history.replaceState(null, '', '#/');
    note(`There is no place ${plainName(named, 60)} here; this is the overview`);
  }

  route() {
    const alias = /^#\/(\w+)$/.exec(location.hash)?.[1];
    if (Object.hasOwn(ALIASES, alias)) history.replaceState(null, '', `#/${ALIASES[alias]}`);
    this.leaveNowhere();
    const hash = location.hash || '#/';
    const [path, query] = hash.slice(2).split('?');
    const [kind, ...rest] = path.split('/');
    let id = rest.join('/');
    try {
      id = decodeURIComponent(id);
    } catch { /* as it is */ }
    const key = `#/${kind}/${id}`;
    const fresh = this.shownHash !== hash || this.shownKey !== key;
    const view = this.viewOf(key, kind, id, new URLSearchParams(query || ''), query);
    this.markPlace();
    if (fresh) this.showSide(false);
    if (!view || (view === this.shownView && !fresh)) return;
    this.shownView?.hide?.();
    const first = !this.shownView;
    Object.assign(this, { shownView: view, shownKey: key, shownHash: location.hash || '#/' });
    if (byId('main').firstChild !== view.element || byId('main').childElementCount !== 1) replace(byId('main'), view.element);
    view.show?.();
    this.entitle();
    this.bringPlace();
    if (!first && fresh) {
      byId('main').focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }

  viewOf(key, kind, id, query, queryText) {
    const known = this.views.get(key);
    if (known?.lasting && queryText) known.takeQuery?.(query);
    if (known?.lasting) return known;
    if (known && (!queryText || known.query === queryText || this.shownHash?.split('?')[1] === queryText)) return known;
    const made = this.makeView(kind, id, query);
    if (!made) return null;
    made.query = queryText;
    made.lasting = LASTING.includes(kind); // those listen to the feed, and there is one of each
    if (!made.passing) this.views.set(key, made);
    for (const [old, view] of this.views) if (this.views.size > VIEWS_KEPT && old !== key && !view.lasting && !view.isBusy?.()) this.views.delete(old);
    return made;
  }

  makeView(kind, id, query) {
    const found = (name) => this.lists[name].find((one) => KINDS.find((k) => k.kind === name).id(one) === id);
    const one = ['tool', 'template', 'prompt'].includes(kind) ? found(kind) : null;
    if (kind === 'tool' && one) return toolView(this, one, query);
    if (kind === 'template' && one) return templateView(this, one, query);
    if (kind === 'prompt' && one) return promptView(this, one, query);
    if (kind === 'resource' && this.state === 'open') return resourceView(this, id, found('resource'));
    if (kind === 'tasks') return this.tasks.view();
    if (kind === 'traffic') return this.withKey('Traffic', () => trafficView(this.feed, { query, onFilter: (text) => this.keepLink(`#/traffic${text ? `?${new URLSearchParams({ filter: text })}` : ''}`) }));
    if (kind === 'recording') return trafficView(new Feed(), { only: true });
    if (kind === 'logs') return this.withKey('Logs', () => logsView(this.feed));
    if (kind === 'metrics') return this.withKey('Metrics', () => metricsView(this.feed));
    if (kind === 'configuration') return this.withKey('Configuration', () => configView(this));
    if (kind === '') return { passing: true, element: overview(this, KINDS) };
    return { passing: true, element: h('article', {}, h('h1', {}, this.state === 'open' ? 'Not here' : 'One moment'),
      h('p', {}, this.state === 'open' ? `There is no ${plainName(kind)} ${plainName(id)}.` : this.state === 'failed' ? plainText(this.failure.message) : 'Asking the server what it is\u2026')) };
  }

  // Traffic, logs, metrics and configuration are the operator's.
  withKey(title, make) {
    if (this.key) return make();
    const field = h('input', { type: 'password', autocomplete: 'off', id: 'key-field' });
    return { passing: true, element: h('form.card', { onsubmit: (event) => {
      event.preventDefault();
      store('idem:key', field.value.trim().replace(/^.*#key=/, ''));
      location.reload();
    } }, h('h1', {}, title), h('p.lead', {}, 'This is for whoever runs the server.'),
    this.keyLost ? h('p.fault', { role: 'alert' }, 'The server does not take the last key: each start has its own, unless one was set.') : null,
    h('p', {}, 'idem serve prints an address with the key in it on its terminal; elsewhere the key lies in a file that its log names. It is kept for this tab alone.'),
    h('div.field', {}, h('label', { htmlFor: 'key-field' }, 'Operator\u2019s key'), h('div.control', {}, field)), h('div.buttons', {}, h('button.primary', { type: 'submit' }, 'Show it')),
    title === 'Traffic' ? h('p', {}, h('a', { href: '#/recording' }, 'Open a recording instead')) : null) };
  }
}

// The shell is shown first; a page that nobody sees has no frames to wait for.
function afterFirstPaint(fn) {
  let begun = false;
  const begin = () => {
    if (!begun) fn();
    begun = true;
  };
  requestAnimationFrame(() => setTimeout(begin));
  setTimeout(begin, 100);
}

takeFragment();
const app = new App();
afterFirstPaint(() => app.start());
