// fields.js - the fields that hold no others: texts, numbers, choices, JSON. A field is {element, get, set, path}: get gives the value or
// undefined (nothing said), set shows one. Faults are shown beside the field whose path they name.
import { h, plainName, plainText } from './dom.js';
import { typesOf, formatHint, isSecret, same } from './schema.js';

let lastFieldId = 0;
export const CHOICES_SHOWN = 500;

// What all fields of one form share: the schema's root, who is told of changes, every field by its path.
export class FormScope {
  constructor(root, onChange) {
    this.root = root;
    this.onChange = onChange;
  }
}

// A pattern is judged when it is typed, so a value that is none yet stays visible: it is kept as this.
class Unreadable {
  constructor(text, why) { Object.assign(this, { text, why }); }
}
export const isUnreadable = (value) => value instanceof Unreadable;

// ------------------------------------------------------------------------- simple fields

function labelled(scope, label, schema, control, options) {
  const id = `field-${++lastFieldId}`;
  control.id = id;
  const about = typeof schema.description === 'string' ? plainText(schema.description) : '';
  const fault = h('p.fault', { id: `${id}-fault`, hidden: true });
  control.setAttribute('aria-describedby', `${id}-about ${id}-fault`);
  if (options.needed && control.tagName !== 'OUTPUT') control.setAttribute('aria-required', 'true');
  const element = h('div.field', {},
    h('label', { htmlFor: id }, h('span.name', {}, plainName(label)), options.needed ? h('span.needed', { title: 'needed' }, ' *') : null,
      h('span.kind', {}, kindText(schema))),
    h('div.control', {}, control, options.extra),
    h('p.about', { id: `${id}-about`, hidden: !about }, about), fault);
  return { element, fault, control };
}

function kindText(schema) {
  const types = typesOf(schema).join(' or ');
  if (schema.enum || schema.const !== undefined) return '';
  const parts = [schema.format ? types || 'string' : types, schema.format && plainName(schema.format, 30), rangeText(schema), schema.deprecated === true && 'deprecated'];
  return ' ' + parts.filter(Boolean).join(', ');
}

// What a number may be, before one is typed.
function rangeText({ minimum: least, maximum: most }) {
  if (Number.isFinite(least) && Number.isFinite(most)) return `${least} to ${most}`;
  return Number.isFinite(least) ? `at least ${least}` : Number.isFinite(most) ? `at most ${most}` : '';
}

const exampleOf = (schema) => (Array.isArray(schema.examples) && ['string', 'number'].includes(typeof schema.examples[0]) ? `such as ${plainName(String(schema.examples[0]), 60)}` : '');

const showFault = (place, control) => (text) => {
  place.textContent = text || '';
  place.hidden = !text;
  if (control) control.toggleAttribute('aria-invalid', Boolean(text));
  if (control && text) control.setAttribute('aria-invalid', 'true');
};

export function textField(scope, label, schema, options) {
  const hint = formatHint(schema.format);
  const make = (tag) => h(tag, {
    type: tag === 'input' ? (schema.format === 'date' ? 'date' : isSecret(schema) ? 'password' : 'text') : undefined, rows: tag === 'textarea' ? 4 : undefined,
    spellcheck: false, autocomplete: 'off', placeholder: hint && schema.format !== 'date' ? hint : exampleOf(schema),
    inputMode: { email: 'email', uri: 'url', url: 'url' }[schema.format] || 'text',
  });
  const long = schema.maxLength > 300 || /markdown|html|text/.test(schema.contentMediaType || '');
  let control = make(long ? 'textarea' : 'input');
  let said = false; // an empty text was meant
  const field = {};
  const parts = labelled(scope, label, schema, control, options);
  const listen = () => {
    control.addEventListener('input', () => {
      said = control.value !== '' || (options.needed && said);
      scope.onChange();
    });
    if (control.tagName === 'INPUT') control.addEventListener('paste', (event) => {
      if (/[\r\n]/.test(event.clipboardData?.getData('text') || '')) widen();
    });
  };
  // A text of several lines needs a field of several lines.
  const widen = () => {
    const wide = make('textarea');
    wide.id = control.id;
    wide.value = control.value;
    for (const name of ['aria-describedby', 'aria-required', 'aria-invalid']) if (control.hasAttribute(name)) wide.setAttribute(name, control.getAttribute(name));
    const focused = document.activeElement === control;
    control.replaceWith(wide);
    control = wide;
    listen();
    if (focused) control.focus();
  };
  listen();
  return Object.assign(field, {
    element: parts.element, fault: (text) => showFault(parts.fault, control)(text),
    get: () => (control.value === '' && !said && !(options.needed && schema.minLength === undefined && options.touched?.()) ? undefined : control.value),
    set: (value) => {
      const text = value === undefined ? '' : String(value);
      if (/[\r\n]/.test(text) && control.tagName === 'INPUT') widen();
      said = value !== undefined;
      if (control.value !== text) control.value = text;
    },
  });
}

export function numberField(scope, label, schema, options) {
  const whole = typesOf(schema).includes('integer') && !typesOf(schema).includes('number');
  const control = h('input', { type: 'text', inputMode: whole ? 'numeric' : 'decimal', placeholder: exampleOf(schema), autocomplete: 'off', spellcheck: false, oninput: () => scope.onChange() });
  const parts = labelled(scope, label, schema, control, options);
  control.addEventListener('keydown', (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const value = Number(control.value || 0);
    if (!step || !Number.isFinite(value)) return;
    event.preventDefault();
    control.value = String(value + step * (schema.multipleOf > 0 ? schema.multipleOf : 1));
    scope.onChange();
  });
  return {
    element: parts.element, fault: showFault(parts.fault, control),
    get: () => {
      const text = control.value.trim();
      if (text === '') return undefined;
      const value = Number(text);
      return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(value) ? value : new Unreadable(text, whole ? 'must be an integer' : 'must be a number');
    },
    set: (value) => {
      const text = value === undefined ? '' : isUnreadable(value) ? value.text : String(value);
      if (control.value !== text) control.value = text;
    },
  };
}

export function booleanField(scope, label, schema, options) {
  if (options.needed || schema.default !== undefined) {
    const control = h('input', { type: 'checkbox', onchange: () => scope.onChange() });
    const parts = labelled(scope, label, schema, control, options);
    parts.element.classList.add('check');
    return { element: parts.element, fault: showFault(parts.fault, control), get: () => control.checked, set: (value) => { control.checked = value === true; } };
  }
  return choiceField(scope, label, { ...schema, enum: [true, false] }, options);
}

export function choiceField(scope, label, schema, options, titles) {
  const values = schema.enum;
  const names = titles || (Array.isArray(schema.enumNames) ? schema.enumNames : []);
  const control = h('select', { onchange: () => scope.onChange() },
    h('option', { value: '' }, options.needed ? 'choose\u2026' : 'not given'),
    values.slice(0, CHOICES_SHOWN).map((value, i) => h('option', { value: String(i) }, plainName(names[i] ?? (typeof value === 'string' ? value : JSON.stringify(value)), 100))));
  const parts = labelled(scope, label, schema, control, options);
  return {
    element: parts.element, fault: showFault(parts.fault, control),
    get: () => (control.value === '' ? undefined : values[Number(control.value)]),
    set: (value) => {
      const index = value === undefined ? -1 : values.findIndex((one) => same(one, value));
      control.value = index < 0 ? '' : String(index);
    },
  };
}

// Several of a few choices.
export function severalField(scope, label, schema, items, titles, options) {
  const boxes = items.enum.map((value, i) => {
    const box = h('input', { type: 'checkbox', onchange: () => scope.onChange() });
    return { value, box, element: h('label.option', {}, box, ' ', plainName(titles?.[i] ?? value, 100)) };
  });
  const fault = h('p.fault', { hidden: true });
  let said = options.needed;
  const element = h('fieldset.group', {}, legend(label, schema, options), about(schema), h('div.options', {}, boxes.map((one) => one.element)), fault);
  return {
    element, fault: groupFault(element, fault),
    get: () => {
      const chosen = boxes.filter((one) => one.box.checked).map((one) => one.value);
      return chosen.length || said ? chosen : undefined;
    },
    set: (value) => {
      said = value !== undefined || options.needed;
      for (const one of boxes) one.box.checked = Array.isArray(value) && value.some((other) => same(other, one.value));
    },
  };
}

// Anything: written as JSON.
export function jsonField(scope, label, schema, options) {
  const control = h('textarea.code', { rows: 3, spellcheck: false, placeholder: 'JSON', oninput: () => scope.onChange() });
  const parts = labelled(scope, label, schema, control, options);
  return {
    element: parts.element, fault: showFault(parts.fault, control),
    get: () => {
      if (control.value.trim() === '') return undefined;
      try {
        return JSON.parse(control.value);
      } catch {
        return new Unreadable(control.value, 'is not JSON');
      }
    },
    set: (value) => { control.value = value === undefined ? '' : isUnreadable(value) ? value.text : JSON.stringify(value, null, 2); },
  };
}

export function constField(scope, label, schema, options) {
  const control = h('output.const', {}, plainName(JSON.stringify(schema.const)));
  const parts = labelled(scope, label, schema, control, options);
  let there = options.needed;
  return { element: parts.element, fault: showFault(parts.fault), get: () => (there ? schema.const : undefined), set: (value) => { there = options.needed || value !== undefined; } };
}

// ------------------------------------------------------------------------------- groups

export const about = (schema) => (typeof schema.description === 'string' ? h('p.about', {}, plainText(schema.description)) : null);

// What is wrong with a group as a whole is told by its name.
export function groupFault(element, fault) {
  fault.id = `field-${++lastFieldId}-fault`;
  element.setAttribute('aria-describedby', fault.id);
  return showFault(fault);
}

export function legend(label, schema, options, extra) {
  return h('legend', {}, h('span.name', {}, plainName(label)), options.needed ? h('span.needed', { title: 'needed' }, ' *') : null, h('span.kind', {}, kindText(schema)), extra);
}
