// ask.js - what a server asks of the person: a form, an address to open, a text a model would write, folders.
import { h, askDialog, plainText, plainName } from './dom.js';
import { makeForm } from './form.js';
import { contentBlock, outerLink } from './result.js';

async function askForm(params) {
  const form = makeForm(params.requestedSchema || { type: 'object' }, () => form.faults(false));
  const body = h('div', {}, h('p.lead', {}, plainText(params.message)), form.element,
    h('p.faint', {}, 'The server asks this. Give it nothing you would not show it.'));
  return askDialog('The server asks', body, [
    { label: 'Send', kind: 'primary', value: () => {
      if (form.faults(true).length) return undefined;
      return { action: 'accept', content: form.get() };
    } },
    { label: 'Decline', value: () => ({ action: 'decline' }) },
    { label: 'Cancel', value: () => ({ action: 'cancel' }) },
  ]);
}

async function askAddress(params) {
  const body = h('div', {}, h('p.lead', {}, plainText(params.message)), h('p', {}, 'It leads to ', h('code', {}, plainName(params.url, 2000))), h('p', {}, outerLink(params.url, 'open it in a new tab')));
  return askDialog('The server asks you to visit an address', body, [
    { label: 'I agree', kind: 'primary', value: () => ({ action: 'accept' }) },
    { label: 'Decline', value: () => ({ action: 'decline' }) },
    { label: 'Cancel', value: () => ({ action: 'cancel' }) },
  ]);
}

async function askSampling(params) {
  const text = h('textarea', { rows: 5, 'aria-label': 'Your answer, in place of a model' });
  const messages = (Array.isArray(params.messages) ? params.messages : []).slice(0, 50);
  const body = h('div', {}, h('p.lead', {}, 'The server asks a model. Answer in its place.'),
    params.systemPrompt ? h('section.block', {}, h('header', {}, 'system'), h('pre.text', {}, plainText(params.systemPrompt))) : null,
    messages.map((message) => h('section.block', {}, h('header', {}, plainName(message?.role)), [message?.content].flat().map(contentBlock))),
    h('p.faint', {}, `At most ${Number(params.maxTokens) || '?'} tokens.`), text);
  return askDialog('The server asks a model', body, [
    { label: 'Answer', kind: 'primary', value: () => ({ role: 'assistant', content: { type: 'text', text: text.value }, model: 'a person', stopReason: 'endTurn' }) },
    { label: 'Refuse', value: () => null },
  ]);
}

// The answer to a question of the server's; null: refused.
export async function answerQuestion(method, params) {
  if (method === 'elicitation/create') return (await (params.mode === 'url' ? askAddress : askForm)(params)) ?? { action: 'cancel' };
  if (method === 'sampling/createMessage') return askSampling(params);
  if (method === 'roots/list') return { roots: [] };
  throw Object.assign(new Error(`Method not found: ${plainName(method)}`), { code: -32601 });
}
