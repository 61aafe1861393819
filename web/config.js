// config.js - the configuration as it is in force, and what was wrong with the one that was read last.
import { h, replace, plainName, plainText, clockText } from './dom.js';

function sourceText(text, marked) {
  const lines = text.split('\n').slice(0, 5000);
  return h('pre.source', { tabIndex: 0, 'aria-label': 'The configuration' }, lines.map((line, i) => h('span.line', { class: marked.has(i + 1) ? 'marked' : '' }, plainText(line))));
}

export function configView(app) {
  const place = h('div', {});
  const show = async () => {
    await app.learn();
    const about = app.about;
    if (!about) return replace(place, h('p.faint', {}, 'The server does not say.'));
    const reload = about.reload || {};
    const faults = Array.isArray(reload.faults) ? reload.faults : [];
    return replace(place,
      h('dl.facts', {}, h('dt', {}, 'file'), h('dd', {}, h('code', {}, plainName(about.path, 400))),
        h('dt', {}, 'read'), h('dd', {}, about.read ? new Date(about.read / 1000).toLocaleString() : ''),
        (about.addresses || []).map((address) => [h('dt', {}, 'listens at'), h('dd', {}, h('code', {}, plainName(address)))])),
      reload.failed ? h('section.card', { role: 'alert' }, h('h2', {}, 'The last reload changed nothing'), h('p', {}, `At ${clockText(reload.t)} the file was read again and refused; what is below is still in force.`),
        h('ul', {}, faults.map((fault) => h('li', {}, plainText(fault))))) : null,
      h('h2', {}, 'In force'), typeof about.source === 'string' ? sourceText(about.source, new Set()) : h('p.faint', {}, 'Its text is not known.'));
  };
  return { element: h('article', {}, h('header.title', {}, h('h1', {}, 'Configuration'), h('button.quiet', { type: 'button', onclick: show }, 'look again')), place), show };
}
