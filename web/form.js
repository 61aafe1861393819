// form.js - a form from a JSON Schema: the fields of fields (objects, arrays, choices), which field a schema gets, and the form as a whole.
import { h, replace, plainName, plainText } from './dom.js';
import { resolve, mergeInto, typesOf, choicesOf, nullableOf, initialValue, isObject, pointerPart, validate } from './schema.js';
import { FormScope, textField, numberField, booleanField, choiceField, severalField, jsonField, constField, about, groupFault, legend, CHOICES_SHOWN, isUnreadable } from './fields.js';

// ---------------------------------------------------------------------- fields of fields

function objectField(scope, label, schema, options) {
  const fields = new Map();
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fault = h('p.fault', { hidden: true });
  const body = h('div.members', {});
  for (const key of Object.keys(properties).filter((one) => properties[one] !== false)) {
    const field = makeField(scope, key, properties[key], { needed: required.includes(key), depth: options.depth + 1, path: `${options.path}/${pointerPart(key)}` });
    fields.set(key, field);
    body.append(field.element);
  }
  const others = schema.additionalProperties === false && !isObject(schema.patternProperties) ? null : extraMembers(scope, schema, properties, options);
  const element = options.top ? h('div.form', {}, body, others?.element, fault)
    : h('fieldset.group', {}, legend(label, schema, options), about(schema), body, others?.element, fault);
  return {
    element, fault: groupFault(element, fault),
    get: () => {
      const own = [...fields].map(([key, field]) => [key, field.get()]).filter(([, member]) => member !== undefined);
      return Object.fromEntries([...own, ...Object.entries(others ? others.get() : {})]);
    },
    set: (value) => {
      const given = isObject(value) ? value : {};
      for (const [key, field] of fields) field.set(Object.hasOwn(given, key) ? given[key] : undefined);
      others?.set(Object.fromEntries(Object.entries(given).filter(([key]) => !fields.has(key))));
    },
    children: () => [...fields.values(), ...(others ? others.children() : [])],
  };
}

// Members that have no name in the schema: offered where it has none at all or says what they are.
function extraMembers(scope, schema, properties, options) {
  const rest = isObject(schema.additionalProperties) ? schema.additionalProperties : Object.values(schema.patternProperties || {}).find(isObject);
  const offered = Boolean(rest) || schema.additionalProperties === true || !Object.keys(properties).length;
  const rows = [];
  const list = h('div.rows', {});
  const remove = (row) => {
    rows.splice(rows.indexOf(row), 1);
    row.element.remove();
    scope.onChange();
  };
  const add = (key, value) => {
    const row = {};
    row.name = h('input', { type: 'text', value: key, 'aria-label': 'name of the member', placeholder: 'name', spellcheck: false, oninput: () => scope.onChange() });
    row.field = makeField(scope, 'value', rest || {}, { needed: true, depth: options.depth + 1, path: '?' });
    row.field.set(value);
    row.element = h('div.row.member', {}, row.name, row.field.element, h('button.icon', { type: 'button', 'aria-label': 'remove this member', onclick: () => remove(row) }, '\u00d7'));
    rows.push(row);
    list.append(row.element);
    return row;
  };
  const button = h('button.quiet', { type: 'button', onclick: () => { add('', undefined).name.focus(); scope.onChange(); } }, '+ add a member');
  return {
    element: h('div.extra', { hidden: !offered }, list, button),
    get: () => Object.fromEntries(rows.filter((row) => row.name.value !== '').map((row) => [row.name.value, row.field.get() ?? null])),
    set: (value) => {
      const entries = Object.entries(value);
      while (rows.length) rows.pop().element.remove();
      for (const [key, member] of entries) add(key, member);
      if (entries.length) list.parentNode.hidden = false;
    },
    children: () => rows.map((row) => Object.assign(row.field, { path: `${options.path}/${pointerPart(row.name.value)}` })),
  };
}

function arrayField(scope, label, schema, options) {
  const items = resolve(schema.items, scope.root);
  const tuple = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const rows = [];
  const fault = h('p.fault', { hidden: true });
  const list = h('ol.rows', {});
  let said = options.needed;
  const number = () => rows.forEach((row, i) => {
    row.field.path = `${options.path}/${i}`;
    row.up.disabled = i === 0;
    row.down.disabled = i === rows.length - 1;
    row.element.setAttribute('aria-label', `entry ${i + 1} of ${rows.length}`);
    rename(row, `${label} ${i + 1}`);
  });
  // An entry is called by its place, also after it was moved.
  const rename = (row, name) => {
    const shown = row.field.element.querySelector('.name');
    const choice = row.field.element.querySelector('select[aria-label]');
    if (shown?.textContent === plainName(row.called)) shown.textContent = plainName(name);
    if (choice?.getAttribute('aria-label') === `${plainName(row.called)}: which kind`) choice.setAttribute('aria-label', `${plainName(name)}: which kind`);
    row.called = name;
  };
  const changed = () => {
    number();
    scope.onChange();
  };
  const move = (row, by) => {
    const from = rows.indexOf(row);
    const to = from + by;
    if (to < 0 || to >= rows.length) return;
    rows.splice(from, 1);
    rows.splice(to, 0, row);
    list.insertBefore(row.element, list.children[by < 0 ? to : to + 1] || null);
    changed();
    (by < 0 ? row.up : row.down).disabled ? row.remove.focus() : (by < 0 ? row.up : row.down).focus();
  };
  const remove = (row) => {
    const index = rows.indexOf(row);
    rows.splice(index, 1);
    row.element.remove();
    changed();
    (rows[index]?.remove || button).focus();
  };
  const add = (value) => {
    const row = { called: `${label} ${rows.length + 1}` };
    const shape = tuple[rows.length] ?? items;
    row.field = makeField(scope, row.called, shape, { needed: true, depth: options.depth + 1, path: `${options.path}/${rows.length}`, inArray: true });
    row.field.set(value);
    row.up = h('button.icon', { type: 'button', 'aria-label': 'move up', onclick: () => move(row, -1) }, '\u2191');
    row.down = h('button.icon', { type: 'button', 'aria-label': 'move down', onclick: () => move(row, 1) }, '\u2193');
    row.remove = h('button.icon', { type: 'button', 'aria-label': 'remove', onclick: () => remove(row) }, '\u00d7');
    row.element = h('li.row', {}, row.field.element, h('div.tools', {}, row.up, row.down, row.remove));
    rows.push(row);
    list.append(row.element);
    return row;
  };
  const button = h('button.quiet', { type: 'button', onclick: () => {
    said = true;
    const row = add(initialValue(tuple[rows.length] ?? items, scope.root));
    changed();
    row.element.querySelector('input, select, textarea, button')?.focus();
  } }, '+ add');
  const element = h('fieldset.group', {}, legend(label, schema, options), about(schema), list, button, fault);
  return {
    element, fault: groupFault(element, fault),
    get: () => {
      const value = rows.map((row) => row.field.get() ?? emptyOf(resolve(items, scope.root)));
      return value.length || said ? value : undefined;
    },
    set: (value) => {
      said = value !== undefined || options.needed;
      while (rows.length) rows.pop().element.remove();
      for (const item of (Array.isArray(value) ? value : []).slice(0, 500)) add(item);
      number();
    },
    children: () => rows.map((row) => row.field),
  };
}

const emptyOf = (schema) => (typesOf(schema)[0] === 'string' ? '' : null);

// oneOf and anyOf: a choice, and the form of what was chosen.
function eitherField(scope, label, schema, options) {
  const choices = choicesOf(schema).slice(0, CHOICES_SHOWN);
  const { oneOf, anyOf, ...rest } = schema;
  const own = choices.map((choice) => resolve(choice, scope.root));
  const shapes = own.map((choice) => ({ ...mergeInto(rest, choice), title: choice.title, description: choice.description }));
  const nameOf = (shape, i) => shape.title || discriminator(own[i]) || kindName(own[i]) || typesOf(shape).join(' or ') || `choice ${i + 1}`;
  const select = h('select', { 'aria-label': `${plainName(label)}: which kind` },
    options.needed ? null : h('option', { value: '' }, 'not given'),
    shapes.map((shape, i) => h('option', { value: String(i) }, plainName(nameOf(shape, i), 80))));
  const place = h('div.chosen', {});
  const fault = h('p.fault', { hidden: true });
  let field = null;
  const choose = (value) => {
    if (select.value === '') {
      field = null;
      replace(place);
      return;
    }
    const shape = shapes[Number(select.value)];
    field = makeField(scope, options.top ? '' : nameOf(shape, Number(select.value)), shape, { needed: true, depth: options.depth + 1, path: options.path, top: options.top && typesOf(shape)[0] === 'object' });
    field.set(value === undefined ? initialValue(shape, scope.root) : value);
    replace(place, field.element);
  };
  select.addEventListener('change', () => {
    choose();
    scope.onChange();
  });
  if (options.needed) choose();
  const element = h('fieldset.group', {}, options.top ? null : legend(label, rest, options), about(schema), h('div.control', {}, select), place, fault);
  return {
    element, fault: groupFault(element, fault),
    get: () => field?.get(),
    set: (value) => {
      if (value === undefined && !options.needed) select.value = '';
      else if (value !== undefined) {
        const current = select.value === '' ? -1 : Number(select.value);
        const fits = (i) => i >= 0 && !validate(shapes[i], value, scope.root).length;
        const found = fits(current) ? current : shapes.findIndex((_, i) => fits(i));
        const near = found >= 0 ? found : closest(shapes, value, scope.root, current);
        if (near === current && field) {
          field.set(value);
          return;
        }
        select.value = String(near);
      }
      choose(value);
    },
    children: () => (field ? [field] : []),
  };
}

function closest(shapes, value, root, current) {
  let best = Math.max(current, 0);
  let least = Infinity;
  shapes.forEach((shape, i) => {
    const count = validate(shape, value, root).length;
    if (count < least) [best, least] = [i, count];
  });
  return best;
}

// What a choice without a name is called: by its type, or by what it needs.
function kindName(choice) {
  const needs = Array.isArray(choice.required) ? choice.required.filter((key) => typeof key === 'string') : [];
  return typesOf(choice).filter((type) => type !== 'object').join(' or ') || (needs.length ? `with ${needs.join(', ')}` : '');
}

// "kind: circle", where a member with one value tells choices apart.
function discriminator(shape) {
  for (const [key, property] of Object.entries(isObject(shape.properties) ? shape.properties : {})) {
    const only = property?.const ?? (property?.enum?.length === 1 ? property.enum[0] : undefined);
    if (only !== undefined) return `${key}: ${only}`;
  }
  return '';
}

function nullableField(scope, label, schema, inner, options) {
  const field = makeField(scope, label, inner, options);
  const box = h('input', { type: 'checkbox', onchange: () => { hide(); scope.onChange(); } });
  const hide = () => field.element.classList.toggle('is-null', box.checked);
  const element = h('div.nullable', {}, field.element, h('label.option', {}, box, ' null'));
  return Object.assign({}, field, {
    element,
    get: () => (box.checked ? null : field.get()),
    set: (value) => {
      box.checked = value === null;
      hide();
      if (value !== null) field.set(value);
    },
    children: () => field.children?.() || [],
  });
}

// Something optional that has parts of its own is there or not.
function optionalField(scope, label, schema, options) {
  const place = h('div', {});
  let field = null;
  const addButton = h('button.quiet.add', { type: 'button', onclick: () => { open(initialValue(schema, scope.root)); scope.onChange(); field.element.querySelector('input, select, textarea, button')?.focus(); } }, `+ ${plainName(label)}`);
  const removeButton = h('button.icon.away', { type: 'button', 'aria-label': `remove ${plainName(label)}`, onclick: () => { close(); scope.onChange(); addButton.focus(); } }, '\u00d7');
  const open = (value) => {
    field = makeField(scope, label, schema, { ...options, needed: false, present: true });
    field.set(value);
    replace(place, h('div.optional', {}, field.element, removeButton));
  };
  const close = () => {
    field = null;
    replace(place, addButton, schema.description ? h('span.about', {}, ' ', plainText(schema.description)) : null);
  };
  close();
  return {
    element: h('div.field', {}, place), fault: (text) => field?.fault(text),
    get: () => field?.get(),
    set: (value) => {
      if (value === undefined) close();
      else if (field) field.set(value);
      else open(value);
    },
    children: () => (field ? [field] : []),
  };
}

// ------------------------------------------------------------------------ which field

// Choices that are constants, perhaps with titles.
function titledChoices(schema, root) {
  const choices = choicesOf(schema);
  if (!choices) return null;
  const resolved = choices.map((choice) => resolve(choice, root));
  return resolved.every((choice) => choice.const !== undefined) ? resolved : null;
}

function fieldOf(scope, label, schema, options) {
  const types = typesOf(schema);
  const titled = titledChoices(schema, scope.root);
  if (schema.const !== undefined) return constField(scope, label, schema, options);
  if (Array.isArray(schema.enum) && schema.enum.length) return choiceField(scope, label, schema, options);
  if (titled) return choiceField(scope, label, { ...schema, enum: titled.map((one) => one.const) }, options, titled.map((one) => one.title ?? one.const));
  const inner = nullableOf(schema, scope.root);
  if (inner) return nullableField(scope, label, schema, inner, options);
  if (choicesOf(schema) && types[0] !== 'string' && types[0] !== 'number' && types[0] !== 'integer') return eitherField(scope, label, schema, options);
  if (types.length > 1) return eitherField(scope, label, { ...schema, type: undefined, anyOf: types.map((type) => ({ type })) }, options);
  if (types[0] === 'object') return objectField(scope, label, schema, options);
  if (types[0] === 'array') return listField(scope, label, schema, options);
  if (types[0] === 'boolean') return booleanField(scope, label, schema, options);
  if (types[0] === 'integer' || types[0] === 'number') return numberField(scope, label, schema, options);
  if (types[0] === 'string' || schema.format || schema.pattern) return textField(scope, label, schema, options);
  if (types[0] === 'null') return constField(scope, label, { ...schema, const: null }, options);
  return jsonField(scope, label, schema, options);
}

function listField(scope, label, schema, options) {
  const items = resolve(schema.items, scope.root);
  const titled = titledChoices(items, scope.root);
  const few = titled ? titled.map((one) => one.const) : items.enum;
  const once = schema.uniqueItems || titled || options.flat;
  if (once && Array.isArray(few) && few.length <= 30) return severalField(scope, label, schema, { enum: few }, titled?.map((one) => one.title ?? one.const), options);
  return arrayField(scope, label, schema, options);
}

function makeField(scope, label, given, options) {
  const schema = resolve(given, scope.root);
  const shown = typeof schema.title === 'string' && schema.title && !options.inArray ? schema.title : label;
  const parts = ['object', 'array'].includes(typesOf(schema)[0]) || (choicesOf(schema) && !titledChoices(schema, scope.root) && !nullableOf(schema, scope.root));
  const hasParts = parts && !schema.enum && schema.const === undefined && !(typesOf(schema)[0] === 'array');
  let field;
  if (schema.$lost || schema.$loop || options.depth > 12) field = jsonField(scope, shown, { description: schema.$lost ? `${schema.$lost} is not part of the schema` : schema.description }, options);
  else if (hasParts && !options.needed && !options.present) field = optionalField(scope, shown, schema, options);
  else field = fieldOf(scope, shown, schema, options);
  field.path = options.path;
  field.label = shown;
  return field;
}

// ------------------------------------------------------------------------------ whole

// {element, get, set, faults}: a form for `schema`; onChange runs with each change a person makes. faults() judges, shows what is
// wrong beside its field (`all`: also of fields nobody touched), and gives the list.
export function makeForm(schema, onChange) {
  const scope = new FormScope(schema, () => onChange());
  const root = makeField(scope, '', schema, { needed: true, depth: 0, path: '', top: true });
  const noForm = h('p.faint', {}, 'No arguments.');
  const isEmpty = typesOf(resolve(schema, schema))[0] === 'object' && !Object.keys(resolve(schema, schema).properties || {}).length
    && resolve(schema, schema).additionalProperties === false;
  const unreadables = (field, into = []) => {
    const value = field.children?.().length ? null : field.get();
    if (isUnreadable(value)) into.push({ path: field.path, text: value.why });
    for (const child of field.children?.() || []) unreadables(child, into);
    return into;
  };
  const each = (field, fn) => {
    fn(field);
    for (const child of field.children?.() || []) each(child, fn);
  };
  root.set(initialValue(schema, schema));
  return {
    element: isEmpty ? noForm : root.element,
    get: () => root.get() ?? {},
    set: (value) => root.set(value),
    faults: (all) => {
      const odd = unreadables(root);
      const value = root.get() ?? {};
      const found = [...odd, ...validate(schema, JSON.parse(JSON.stringify(value, (_, v) => (isUnreadable(v) ? null : v))), schema)
        .filter((fault) => !odd.some((other) => other.path === fault.path))];
      const shown = all ? found : found.filter((fault) => fault.text !== 'is needed' && fault.text !== 'must not be empty');
      each(root, (field) => {
        const own = shown.filter((fault) => fault.path === field.path && !(field.children?.() || []).some((child) => child.path === field.path));
        field.fault(own.map((fault) => fault.text).join('; '));
      });
      const known = new Set();
      each(root, (field) => known.add(field.path));
      const homeless = shown.filter((fault) => !known.has(fault.path));
      if (homeless.length) root.fault(homeless.map((fault) => `${fault.path.slice(1) || 'the arguments'}: ${fault.text}`).join('; '));
      return found;
    },
  };
}
