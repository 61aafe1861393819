// result.js - what a server answered, shown as it is meant and inertly: text, Markdown, tables, images, audio, links, embedded
// resources, structured content as a tree. Nothing is fetched, nothing is run; what is large is shown in parts.
import { h, plainName, plainText, bytesText, copyButton, download } from './dom.js';
import { isObject } from './schema.js';

const TEXT_SHOWN = 100 * 1024;
const ROWS_SHOWN = 200;
const MEMBERS_SHOWN = 200;
const IMAGES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;
const AUDIO = /^audio\/(mpeg|mp3|wav|x-wav|wave|ogg|webm|aac|mp4|flac)$/;

// ------------------------------------------------------------------------------- links

function safeAddress(text) {
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

// A link that a person may follow; it shows where it leads.
export function outerLink(address, label) {
  const href = safeAddress(address);
  const text = plainName(label || address);
  if (!href) return h('span', {}, text);
  return h('a', { href, target: '_blank', rel: 'noopener noreferrer', title: href }, text);
}

// ---------------------------------------------------------------------------- Markdown

function inline(text, depth = 0) {
  const made = [];
  const pattern = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|(\*\*|__)(?=\S)([\s\S]*?\S)\3|(\*|_)(?=\S)([\s\S]*?\S)\5(?!\w)|(!?)\[([^\]\n]*)\]\(\s*<?([^\s)>]*)>?[^)\n]*\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])|~~([^~\n]+)~~|\\([!-\/:-@[-`{-~])/;
  let rest = text.slice(0, 20000);
  for (let count = 0; rest && count < 500; count++) {
    const match = depth < 6 ? pattern.exec(rest) : null;
    if (!match) break;
    made.push(proseText(rest.slice(0, match.index)));
    if (match[1]) made.push(h('code', {}, plainText(match[2])));
    else if (match[3]) made.push(h('strong', {}, inline(match[4], depth + 1)));
    else if (match[5]) made.push(h('em', {}, inline(match[6], depth + 1)));
    else if (match[9] !== undefined) made.push(match[7] ? h('span.faint', {}, `[image: ${plainName(match[8] || match[9])}]`) : outerLink(match[9], match[8]));
    else if (match[10]) made.push(outerLink(match[10]));
    else if (match[11]) made.push(h('del', {}, inline(match[11], depth + 1)));
    else made.push(match[12]);
    rest = rest.slice(match.index + match[0].length);
  }
  made.push(proseText(rest));
  return made;
}

// The end of a line is a space, as in any prose; two spaces or a backslash before it make a new line.
const proseText = (text) => plainText(text).split(/(?: {2,}|\\)\n/).flatMap((part, i) => (i ? [h('br'), part] : part));

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim());

function markdownTable(lines) {
  const head = cellsOf(lines[0]);
  return h('div.scroll', { tabIndex: 0, role: 'region', 'aria-label': 'table' }, h('table', {},
    h('thead', {}, h('tr', {}, head.map((cell) => h('th', { scope: 'col' }, inline(cell))))),
    h('tbody', {}, lines.slice(2, ROWS_SHOWN).map((line) => h('tr', {}, cellsOf(line).slice(0, head.length).map((cell) => h('td', {}, inline(cell))))))));
}

const LIST_ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function markdownList(lines) {
  const root = { indent: -1, items: [] };
  const stack = [root];
  for (const line of lines) {
    const match = LIST_ITEM.exec(line);
    if (!match) {
      const last = stack[stack.length - 1].items.at(-1);
      if (last) last.text += '\n' + line.trimStart();
      continue;
    }
    const indent = match[1].length;
    while (stack.length > 1 && indent <= stack[stack.length - 1].indent - 1) stack.pop();
    if (indent > stack[stack.length - 1].indent + (stack.length > 1 ? 1 : 0) && stack.length < 8) {
      const list = { indent, items: [], ordered: /\d/.test(match[2]) };
      (stack[stack.length - 1].items.at(-1) || root).list ??= list;
      stack.push(list);
    }
    stack[stack.length - 1].items.push({ text: match[3] });
  }
  const render = (list) => h(list.ordered ? 'ol' : 'ul', {}, list.items.map((item) => h('li', {}, inline(item.text), item.list ? render(item.list) : null)));
  return root.list ? render(root.list) : null;
}

// The document as elements; `level` is where its headings begin.
export function markdown(text, level = 2) {
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  const made = h('div.markdown', {});
  let i = 0;
  const take = (test) => {
    const from = i;
    while (i < lines.length && test(lines[i])) i++;
    return lines.slice(from, i);
  };
  while (i < lines.length) {
    const line = lines[i];
    const fence = /^\s*(```+|~~~+)\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) i++;
    else if (fence) {
      i++;
      const code = take((one) => !one.trim().startsWith(fence[1]));
      i++;
      made.append(h('pre', { tabIndex: 0 }, h('code', {}, plainText(code.join('\n')))));
    } else if (heading) {
      i++;
      made.append(h(`h${Math.min(6, level + heading[1].length - 1)}`, {}, inline(heading[2])));
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      i++;
      made.append(h('hr'));
    } else if (line.includes('|') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[i + 1] || '') && lines[i + 1].includes('-')) {
      made.append(markdownTable(take((one) => one.includes('|'))));
    } else if (/^\s*>/.test(line)) {
      const quoted = take((one) => /^\s*>/.test(one)).map((one) => one.replace(/^\s*>\s?/, ''));
      made.append(h('blockquote', {}, quoted.length < 2000 ? markdown(quoted.join('\n').replace(/^>+/gm, ''), level) : plainText(quoted.join('\n'))));
    } else if (LIST_ITEM.test(line)) {
      made.append(markdownList(take((one) => LIST_ITEM.test(one) || /^\s{2,}\S/.test(one))) || '');
    } else {
      const words = take((one) => one.trim() && !/^(#{1,6}\s|\s*>|\s*(```|~~~))/.test(one) && !LIST_ITEM.test(one));
      if (words.length) made.append(h('p', {}, inline(words.join('\n'))));
      else made.append(h('p', {}, inline(lines[i++])));
    }
  }
  return made;
}

const looksLikeMarkdown = (text) => /^#{1,6} \S|^\s*[-*] \S.*\n\s*[-*] \S|^```|\*\*\S|^\|.*\|$|\]\(https?:/m.test(text);

// ------------------------------------------------------------------------------- texts

function inParts(text, show) {
  if (text.length <= TEXT_SHOWN) return show(text);
  const place = h('div', {});
  let shown = 0;
  const more = h('button.quiet', { type: 'button' });
  const next = () => {
    const part = text.slice(shown, shown + TEXT_SHOWN);
    shown += part.length;
    place.insertBefore(show(part), more);
    more.textContent = `show more (${bytesText(text.length - shown)} left)`;
    more.hidden = shown >= text.length;
  };
  more.addEventListener('click', next);
  place.append(more);
  next();
  return place;
}

const preText = (text) => inParts(text, (part) => h('pre.text', { tabIndex: 0 }, plainText(part)));

function parsedJson(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 20 * 1024 * 1024) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// A text by its type, or by its looks; a switch shows it as it came.
export function richText(text, type = '') {
  const json = /markdown/.test(type) ? undefined : parsedJson(text);
  const mark = /markdown/.test(type) || (!type && json === undefined && text.length <= TEXT_SHOWN && looksLikeMarkdown(text));
  if (json === undefined && (!mark || text.length > TEXT_SHOWN)) return preText(text);
  const place = h('div', {}, json !== undefined ? structured(json) : markdown(text));
  let plain = null;
  const button = h('button.quiet.switch', { type: 'button', 'aria-pressed': 'false', onclick: () => {
    const on = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(on));
    plain ??= preText(text);
    place.hidden = on;
    if (!plain.isConnected) place.after(plain);
    plain.hidden = !on;
  } }, 'as text');
  return h('div.rich', {}, button, place);
}

// ---------------------------------------------------------------- trees and tables

const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every((row) => isObject(row) && Object.keys(row).length > 0 && Object.keys(row).length <= 40
  && Object.values(row).every((cell) => !isObject(cell) || Object.keys(cell).length <= 3));

const cellText = (value) => (value === undefined ? '' : typeof value === 'string' ? plainName(value, 500) : plainName(JSON.stringify(value), 500));

function table(rows) {
  const columns = [...new Set(rows.slice(0, 1000).flatMap((row) => Object.keys(row)))].slice(0, 40);
  const numeric = columns.filter((column) => rows.slice(0, 50).every((row) => row[column] === undefined || typeof row[column] === 'number'));
  const body = h('tbody', {});
  let shown = 0;
  const more = h('button.quiet', { type: 'button', onclick: () => next() });
  const next = () => {
    for (const row of rows.slice(shown, shown + ROWS_SHOWN))
      body.append(h('tr', {}, columns.map((column) => h('td', { class: numeric.includes(column) ? 'number' : '' }, cellText(row[column])))));
    shown = Math.min(rows.length, shown + ROWS_SHOWN);
    more.textContent = `show more (${rows.length - shown} rows left)`;
    more.hidden = shown >= rows.length;
  };
  next();
  return h('div', {}, h('div.scroll', { tabIndex: 0, role: 'region', 'aria-label': `table of ${rows.length} rows` },
    h('table', {}, h('thead', {}, h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: numeric.includes(column) ? 'number' : '' }, plainName(column, 60))))), body)), more);
}

function leaf(value) {
  const kind = value === null ? 'null' : typeof value;
  if (kind === 'string') return h('span.leaf.string', {}, value.length > 2000 ? `"${plainName(value, 2000)}"` : `"${plainText(value)}"`);
  return h('span.leaf', { class: kind }, String(value));
}

// A value as a tree that opens where one clicks.
export function tree(value, name, open = 2) {
  const label = name === undefined ? null : [h('span.key', {}, plainName(name, 120)), ': '];
  if (value === null || typeof value !== 'object') return h('div.line', {}, label, leaf(value));
  const list = Array.isArray(value);
  const count = list ? value.length : Object.keys(value).length;
  const summary = h('summary', {}, label, h('span.faint', {}, list ? `[${count}]` : `{${count}}`));
  const details = h('details.branch', {}, summary);
  let shown = 0;
  const more = h('button.quiet', { type: 'button', onclick: () => next() });
  const next = () => {
    const entries = list ? value.slice(shown, shown + MEMBERS_SHOWN).map((item, i) => [shown + i, item]) : Object.entries(value).slice(shown, shown + MEMBERS_SHOWN);
    for (const [key, item] of entries) details.insertBefore(tree(item, key, open - 1), more);
    shown += entries.length;
    more.hidden = shown >= count;
    more.textContent = `show more (${count - shown} left)`;
  };
  details.append(more);
  const grow = () => { if (!shown) next(); };
  details.addEventListener('toggle', () => details.open && grow());
  if (open > 0 && count <= 50) {
    grow();
    details.open = true;
  } else more.hidden = true;
  return details;
}

export function structured(value) {
  if (isTable(value)) return table(value);
  if (isObject(value)) {
    const tables = Object.entries(value).filter(([, member]) => isTable(member));
    if (tables.length && tables.length <= 4) {
      const rest = Object.fromEntries(Object.entries(value).filter(([key]) => !tables.some(([name]) => name === key)));
      return h('div', {}, tables.map(([key, rows]) => [h('p.caption', {}, plainName(key)), table(rows)]), Object.keys(rest).length ? h('div.tree', {}, tree(rest)) : null);
    }
  }
  return h('div.tree', {}, tree(value));
}

// ------------------------------------------------------------------------ content blocks

function binary(data) {
  const text = atob(String(data).replace(/\s+/g, ''));
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function blobOf(data, type) {
  try {
    return new Blob([binary(data)], { type });
  } catch {
    return null;
  }
}

function saveButton(blob, name) {
  return h('button.quiet', { type: 'button', onclick: () => download(name, [blob], 'application/octet-stream') }, `save (${bytesText(blob.size)})`);
}

const fileName = (uri) => plainName(String(uri || 'content').split(/[/\\?#]/).filter(Boolean).pop() || 'content', 80).replace(/[^\w.-]/g, '_');

const typeName = (type) => String(type || '').toLowerCase().split(';')[0].trim();

// Bytes with a type.
function media(data, type, name) {
  const clean = typeName(type);
  const blob = blobOf(data, IMAGES.test(clean) || AUDIO.test(clean) ? clean : 'application/octet-stream');
  return blob ? mediaBlob(blob, clean, name) : h('p.fault', {}, 'Bytes that are not base64.');
}

// SVG is shown as an image, where its scripts and references are dead.
function mediaBlob(blob, clean, name) {
  if (IMAGES.test(clean)) {
    const image = h('img.media', { src: URL.createObjectURL(blob), alt: `image, ${plainName(clean)}`, decoding: 'async' });
    image.addEventListener('error', () => image.replaceWith(h('p.fault', {}, 'Not an image this browser can show.')));
    return h('figure', {}, image, h('figcaption', {}, plainName(clean), ' ', saveButton(blob, fileName(name))));
  }
  if (AUDIO.test(clean)) return h('figure', {}, h('audio', { controls: true, src: URL.createObjectURL(blob), 'aria-label': 'audio' }), h('figcaption', {}, plainName(clean), ' ', saveButton(blob, fileName(name))));
  return h('p', {}, plainName(clean || 'bytes'), ' ', saveButton(blob, fileName(name)));
}

export function resourceContents(contents) {
  const list = Array.isArray(contents) ? contents : [contents];
  return h('div.contents', {}, list.slice(0, 100).map((one) => h('section.block', {},
    h('header', {}, h('code', {}, plainName(one?.uri)), h('span.faint', {}, ' ', plainName(one?.mimeType || ''))),
    typeof one?.text === 'string' && typeName(one.mimeType) === 'image/svg+xml' ? [mediaBlob(new Blob([one.text], { type: 'image/svg+xml' }), 'image/svg+xml', one.uri), h('details', {}, h('summary', {}, 'as text'), preText(one.text))]
      : typeof one?.text === 'string' ? richText(one.text, one.mimeType || '') : one?.blob !== undefined ? media(one.blob, one.mimeType, one.uri) : h('p.faint', {}, 'nothing in it'))));
}

function resourceLink(block) {
  return h('p', {}, h('a', { href: `#/resource/${encodeURIComponent(String(block.uri ?? ''))}` }, plainName(block.title || block.name || block.uri)),
    h('span.faint', {}, ' ', plainName(block.uri)), block.description ? h('span.about', {}, plainText(block.description)) : null);
}

export function contentBlock(block) {
  if (!isObject(block)) return h('pre', {}, plainName(JSON.stringify(block)));
  if (block.type === 'text') return richText(String(block.text ?? ''));
  if (block.type === 'image' || block.type === 'audio') return media(block.data, block.mimeType, block.type);
  if (block.type === 'resource_link') return resourceLink(block);
  if (block.type === 'resource') return resourceContents(block.resource);
  return h('div.tree', {}, tree(block));
}

const sameAsStructured = (block, value) => {
  if (block?.type !== 'text' || value === undefined) return false;
  const parsed = parsedJson(String(block.text));
  return parsed !== undefined && JSON.stringify(parsed) === JSON.stringify(value);
};

// A tool's result.
export function toolResult(result) {
  const value = result.structuredContent;
  const blocks = (Array.isArray(result.content) ? result.content : []).filter((block) => !sameAsStructured(block, value));
  return h('div.result', {},
    value === undefined ? null : h('section.block', {}, structured(value)),
    value !== undefined && blocks.length && blocks.every((block) => block?.type === 'text')
      ? h('details', {}, h('summary', {}, 'The same as text'), blocks.slice(0, 200).map((block) => preText(String(block.text ?? ''))))
      : blocks.slice(0, 200).map((block) => h('section.block', {}, contentBlock(block))),
    blocks.length > 200 ? h('p.faint', {}, `${blocks.length - 200} more blocks`) : null,
    value === undefined && !blocks.length ? h('p.faint', {}, 'An empty result.') : null);
}

// A message as JSON, for who wants to see it as it came.
export function rawJson(value) {
  return h('div', {}, copyButton('copy', 'JSON', () => JSON.stringify(value, null, 2)), h('div.tree', {}, tree(value)));
}
