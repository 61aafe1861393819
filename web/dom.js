// dom.js - making elements. Whatever a server said becomes text here and nothing else: there is no way from a string to
// markup in this page.

// h('a.link', {href, onclick}, 'text', child, [children]) - a tag with classes, properties, and what is in it.
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(props || {})) setProperty(element, key, value);
  fill(element, children);
  return element;
}

function setProperty(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
  else if (key === 'class') element.className += ' ' + value;
  else if (key in element && !key.includes('-') && key !== 'list' && key !== 'form') element[key] = value;
  else element.setAttribute(key, value === true ? '' : value);
}

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  fill(element, children);
  return element;
}

export const byId = (id) => document.getElementById(id);

const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const UNSEEN_IN_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const escapeUnseen = (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0');

// A name on one line: what cannot be seen, or would turn the line around, is written out.
export function plainName(text, most = 200) {
  const shown = String(text ?? '').replace(UNSEEN, escapeUnseen);
  return shown.length > most ? shown.slice(0, most) + '\u2026' : shown;
}

// A text of several lines; the same but for line ends and tabs.
export function plainText(text) {
  return String(text ?? '').replace(UNSEEN_IN_TEXT, escapeUnseen);
}

export function bytesText(n) {
  if (!(n >= 1024)) return `${n || 0} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KB`;
  return `${(n / 1048576).toFixed(1)} MB`;
}

export function timeText(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '';
  if (ms < 1) return `${Math.max(0, Math.round(ms * 1000))} \u00b5s`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function clockText(us) {
  const date = new Date(us / 1000);
  const two = (n) => String(n).padStart(2, '0');
  const ms = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}

// Says something in the bar, for a moment and for screen readers. There it covers nothing that one looks at; one at a time, and
// each long enough to be read, also when others wait.
const NOTES_WAITING = 4;
const NOTE_LEAST_MS = 1500;
const notesWaiting = [];
let noteTimer = 0;

export function note(text, kind = '') {
  notesWaiting.push({ text, kind });
  if (notesWaiting.length > NOTES_WAITING) notesWaiting.shift();
  if (!noteTimer) nextNote();
}

function nextNote() {
  clearTimeout(noteTimer);
  noteTimer = 0;
  const place = byId('notes');
  const one = notesWaiting.shift();
  if (!place) return;
  replace(place, one ? h('div.note', { class: one.kind, title: one.text, onclick: nextNote }, one.text) : null);
  if (one) keepNote(one.kind === 'bad' ? 8000 : 3500, performance.now());
}

function keepNote(ms, since) {
  noteTimer = setTimeout(() => {
    const shown = performance.now() - since;
    if (shown >= (notesWaiting.length ? NOTE_LEAST_MS : ms)) nextNote();
    else keepNote(ms, since);
  }, 250);
}

export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    note(`${what} copied`);
  } catch {
    note('The browser does not let this page copy; select the text instead', 'bad');
  }
}

export function copyButton(label, what, make) {
  return h('button.quiet', { type: 'button', onclick: () => copyText(make(), what) }, label);
}

export function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = h('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// A dialog; resolves with what the chosen button stands for, or null when it is dismissed.
export function askDialog(title, body, buttons) {
  return new Promise((resolve) => {
    const dialog = h('dialog.ask', { 'aria-label': title });
    const finish = (value) => {
      if (!dialog.isConnected) return;
      dialog.close(); // gives the keyboard back to where it was
      dialog.remove();
      resolve(value);
    };
    const row = h('div.buttons', {}, buttons.map((button) =>
      h('button', { type: 'button', class: button.kind || '', autofocus: button.focus, onclick: () => {
        const value = button.value();
        if (value !== undefined) finish(value);
      } }, button.label)));
    replace(dialog, h('h2', {}, title), body, row);
    dialog.addEventListener('cancel', () => finish(null));
    dialog.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.target.tagName !== 'INPUT' || event.target.type === 'checkbox') return;
      event.preventDefault();
      row.querySelector('.primary')?.click();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Calls `fn` once, a moment after the last of many calls.
export function calmly(fn, ms = 120) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), ms);
  };
}

// A while, or until the signal.
export const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
});
