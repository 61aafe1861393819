// config.js - the configuration as it is in force, and what was wrong with the one that was read last.
import { h, replace, plainName, plainText, clockText, calmly } from './dom.js';

const LINES_SHOWN = 5000;
const AROUND = 3;
const LINE_SHOWN = 400; // of a line of the refused file

function sourceText(text) {
  return h('pre.source', { tabIndex: 0, 'aria-label': 'The configuration in force' }, text.split('\n').slice(0, LINES_SHOWN).map((line) => h('span.line', {}, plainText(line))));
}

// "PATH:LINE:COLUMN: what is wrong" of the file itself; another text has no line.
function placeOf(fault, path) {
  const match = fault.startsWith(`${path}:`) ? /^(\d+):(\d+): ([\s\S]*)$/.exec(fault.slice(path.length + 1)) : null;
  return match ? { line: Number(match[1]), column: Number(match[2]), text: match[3] } : { line: 0, text: fault };
}

// A line, with the places in it marked: columns count bytes. Of one that is very long the part around the first of them.
function markedLine(line, columns) {
  const bytes = new TextEncoder().encode(line);
  const text = (from, to) => plainText(new TextDecoder().decode(bytes.subarray(from, to)));
  const first = columns[0] - 1;
  const from = bytes.length > LINE_SHOWN ? Math.max(0, first - LINE_SHOWN / 2) : 0;
  const to = Math.min(bytes.length, from + LINE_SHOWN);
  const made = [from ? '\u2026' : ''];
  let at = from;
  for (const start of columns.map((column) => column - 1).filter((start) => start >= from && start < to)) {
    if (start < at) continue;
    const end = Math.min(to, start + wordLength(bytes.subarray(start)));
    made.push(text(at, start), h('mark', {}, text(start, end)));
    at = end;
  }
  made.push(text(at, to), to < bytes.length ? '\u2026' : '');
  return made;
}

// What stands at a place: a text in its quotes, a number or word, or one sign (whose bytes stay together).
function wordLength(bytes) {
  const begin = new TextDecoder().decode(bytes.subarray(0, 200));
  const word = /^"(?:[^"\\]|\\.)*"?|^[\w.+-]+|^./su.exec(begin)?.[0] ?? '';
  return new TextEncoder().encode(word).length;
}

// The file as it was refused: the lines with a fault, what is wrong beneath each, and a few around them.
function refusedText(lines, places) {
  const near = new Set(places.flatMap((place) => Array.from({ length: 2 * AROUND + 1 }, (_, i) => place.line - AROUND + i)));
  const shown = [...near].filter((number) => number >= 1 && number <= lines.length).sort((a, b) => a - b);
  return h('pre.source.refused', { tabIndex: 0, 'aria-label': 'The file as it was refused' }, shown.flatMap((number, i) => {
    const own = places.filter((place) => place.line === number);
    return [i && shown[i - 1] !== number - 1 ? h('span.gap', {}, '\u22ee') : null,
      h('span.line', { 'data-line': number, class: own.length ? 'marked' : '' }, own.length ? markedLine(lines[number - 1], own.map((place) => place.column).sort((a, b) => a - b)) : plainText(lines[number - 1].slice(0, LINE_SHOWN))),
      own.map((place) => h('span.why', {}, `line ${number}, column ${place.column}: ${plainText(place.text)}`))];
  }));
}

function reloadPart(about) {
  const reload = about.reload || {};
  if (!reload.failed) return null;
  const places = (Array.isArray(reload.faults) ? reload.faults : []).slice(0, 100).map((fault) => placeOf(String(fault), about.path));
  const lines = typeof reload.text === 'string' ? reload.text.split('\n') : [];
  const placed = places.filter((place) => place.line >= 1 && place.line <= lines.length);
  return h('section.card', { role: 'alert' }, h('h2', {}, 'The last reload changed nothing'),
    h('p', {}, `At ${clockText(reload.t).slice(0, 8)} the file was read again and refused; what is below is still in force.`),
    places.length > placed.length ? h('ul', {}, places.filter((place) => !placed.includes(place)).map((place) => h('li', {}, place.line ? `line ${place.line}: ` : null, plainText(place.text)))) : null,
    placed.length ? refusedText(lines, placed) : null);
}

export function configView(app) {
  const place = h('div', {});
  let shown = false;
  let looked = 0;
  const show = async () => {
    await app.learn();
    const about = app.about;
    if (!about) return replace(place, h('p.faint', {}, 'The server does not say.'));
    return replace(place,
      h('dl.facts', {}, h('dt', {}, 'file'), h('dd', {}, h('code', {}, plainName(about.path, 400))),
        h('dt', {}, 'read'), h('dd', {}, about.read ? new Date(about.read / 1000).toLocaleString() : ''),
        (about.addresses || []).map((address) => [h('dt', {}, 'listens at'), h('dd', {}, h('code', {}, plainName(address)))])),
      reloadPart(about),
      h('h2', {}, 'In force'), typeof about.source === 'string' ? sourceText(about.source) : h('p.faint', {}, 'Its text is not known.'));
  };
  // The log tells of a reload; what came of it is then asked for.
  const soon = calmly(() => shown && show(), 200);
  app.feed.watch((kind) => {
    if (kind !== 'logs') return;
    for (looked = Math.max(looked, app.feed.logs.first); looked < app.feed.logs.next; looked++)
      if (app.feed.logs.get(looked).text.includes('configuration')) soon();
  });
  return { element: h('article', {}, h('header.title', {}, h('h1', {}, 'Configuration'), h('button.quiet', { type: 'button', onclick: show }, 'look again')), place),
    show: () => { shown = true; show(); }, hide: () => { shown = false; } };
}
