// schema.js - JSON Schema as forms need it: references resolved, a first value made, values judged with a sentence for each
// place. The server judges as well; this is for the person who types.

const DEPTH_MOST = 40;

export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

export function typeOf(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (Number.isInteger(value)) return 'integer';
  return typeof value;
}

export function same(one, other) {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || !one || !other) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}

// ---------------------------------------------------------------------- references

function findAnchor(node, name, depth = 0) {
  if (!node || typeof node !== 'object' || depth > DEPTH_MOST) return undefined;
  if (node.$anchor === name || node.$id === '#' + name) return node;
  for (const child of Object.values(node)) {
    const found = findAnchor(child, name, depth + 1);
    if (found) return found;
  }
  return undefined;
}

function lookUp(root, ref) {
  if (typeof ref !== 'string' || ref[0] !== '#') return undefined; // nothing is fetched
  if (ref === '#') return root;
  let pointer;
  try {
    pointer = decodeURIComponent(ref.slice(1));
  } catch {
    return undefined;
  }
  if (pointer[0] !== '/') return findAnchor(root, pointer);
  let at = root;
  for (const part of pointer.slice(1).split('/')) {
    const key = part.replace(/~1/g, '/').replace(/~0/g, '~');
    if (!at || typeof at !== 'object' || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

export function mergeInto(one, other) {
  const merged = { ...one, ...other };
  if (one.properties || other.properties) merged.properties = { ...one.properties, ...other.properties };
  if (one.required || other.required)
    merged.required = [...new Set([...(Array.isArray(one.required) ? one.required : []), ...(Array.isArray(other.required) ? other.required : [])])];
  return merged;
}

// A schema without $ref and allOf at its top.
export function resolve(schema, root, depth = 0) {
  if (schema === true || schema === undefined) return {};
  if (schema === false) return { not: {} };
  if (!isObject(schema)) return {};
  if (depth > DEPTH_MOST) return { $loop: true };
  let made = schema;
  if (typeof schema.$ref === 'string') {
    const { $ref, ...rest } = schema;
    const target = lookUp(root, $ref);
    if (target === undefined) return { ...rest, $lost: $ref };
    made = mergeInto(resolve(target, root, depth + 1), rest);
  }
  if (Array.isArray(made.allOf)) {
    const { allOf, ...rest } = made;
    made = allOf.slice(0, 50).reduce((sum, part) => mergeInto(sum, resolve(part, root, depth + 1)), {});
    made = mergeInto(made, rest);
  }
  return made;
}

export function typesOf(schema) {
  if (Array.isArray(schema.type)) return schema.type.filter((t) => typeof t === 'string');
  if (typeof schema.type === 'string') return [schema.type];
  if (isObject(schema.properties) || schema.additionalProperties !== undefined) return ['object'];
  if (schema.items !== undefined || schema.prefixItems !== undefined) return ['array'];
  return [];
}

// The choices of oneOf or anyOf.
export function choicesOf(schema) {
  const list = Array.isArray(schema.oneOf) ? schema.oneOf : schema.anyOf;
  return Array.isArray(list) && list.length ? list : null;
}

// "null or something": the something, else NULL.
export function nullableOf(schema, root) {
  const types = typesOf(schema);
  if (types.length === 2 && types.includes('null')) return { ...schema, type: types.find((t) => t !== 'null') };
  const choices = choicesOf(schema);
  if (!choices || choices.length !== 2) return null;
  const resolved = choices.map((choice) => resolve(choice, root));
  const index = resolved.findIndex((choice) => choice.type === 'null' || choice.const === null);
  if (index < 0) return null;
  const { oneOf, anyOf, ...rest } = schema;
  return mergeInto(rest, resolved[1 - index]);
}

// --------------------------------------------------------------------------- secrets

export const isSecret = (schema) => schema.format === 'password' || schema.writeOnly === true;

// A value as it may be kept and linked to: without what its schema calls secret.
export function withoutSecrets(given, value, root = given, depth = 0) {
  if (depth > DEPTH_MOST || value === null || typeof value !== 'object') return value;
  const schema = resolve(given, root);
  const parts = [schema, ...(choicesOf(schema) || []).slice(0, 50).map((choice) => resolve(choice, root))];
  const inner = (key) => parts.map((part) => (Array.isArray(value) ? part.prefixItems?.[key] ?? part.items : isObject(part.properties) && Object.hasOwn(part.properties, key) ? part.properties[key] : part.additionalProperties)).filter(isObject);
  const kept = (key, member) => inner(key).reduce((left, one) => withoutSecrets(one, left, root, depth + 1), member);
  if (Array.isArray(value)) return value.map((entry, i) => (inner(i).some((one) => isSecret(resolve(one, root))) ? '' : kept(i, entry)));
  return Object.fromEntries(Object.entries(value).filter(([key]) => !inner(key).some((one) => isSecret(resolve(one, root)))).map(([key, member]) => [key, kept(key, member)]));
}

// ----------------------------------------------------------------------- a first value

// What a form begins with; undefined: nothing is said yet.
export function initialValue(given, root, needed = true, depth = 0) {
  const schema = resolve(given, root);
  if (schema.default !== undefined) return structuredClone(schema.default);
  if (schema.const !== undefined) return needed ? structuredClone(schema.const) : undefined;
  if (!needed || depth > 8) return undefined;
  const types = typesOf(schema);
  if (types[0] === 'object') {
    const made = Object.entries(schema.properties || {}).map(([key, property]) => [key, initialValue(property, root, (schema.required || []).includes?.(key), depth + 1)]);
    return Object.fromEntries(made.filter(([, value]) => value !== undefined));
  }
  if (types[0] === 'array') return [];
  if (types[0] === 'boolean') return false;
  if (types[0] === 'null') return null;
  const choices = choicesOf(schema);
  if (!choices || schema.enum || resolve(choices[0], root).const !== undefined) return undefined; // a person chooses
  return initialValue(choices[0], root, true, depth + 1);
}

// ----------------------------------------------------------------------------- judging

const FORMATS = {
  date: [/^\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])$/, 'a date such as 2026-07-28'],
  time: [/^\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:\d{2})$/i, 'a time such as 08:30:00Z'],
  'date-time': [/^\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:\d{2})$/i, 'a moment such as 2026-07-28T08:30:00Z'],
  email: [/^[^\s@]+@[^\s@]+$/, 'an e-mail address'],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, 'an address such as https://example.org/'],
  url: [/^[a-z][a-z0-9+.-]*:\S+$/i, 'an address such as https://example.org/'],
  uuid: [/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i, 'a UUID'],
  ipv4: [/^(\d{1,3}\.){3}\d{1,3}$/, 'an IPv4 address'],
  hostname: [/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i, 'a host name'],
};
export const formatHint = (format) => FORMATS[format]?.[1];

function fitsType(value, types) {
  const type = typeOf(value);
  return !types.length || types.includes(type) || (type === 'integer' && types.includes('number'));
}

const countOf = (text) => [...text].length;
// A pattern of a server's may take for ever; only short values of patterns without nested repetition are tried.
const isTame = (pattern) => pattern.length < 200 && !/[+*}]\)?[+*{]|\([^)]*[+*][^)]*\)[+*{]/.test(pattern);

function judgeText(schema, value, say) {
  const count = countOf(value);
  if (count < schema.minLength) say(count ? `at least ${schema.minLength} characters` : 'must not be empty');
  if (count > schema.maxLength) say(`at most ${schema.maxLength} characters`);
  if (typeof schema.pattern === 'string' && value.length < 2000 && isTame(schema.pattern)) {
    try {
      if (!new RegExp(schema.pattern, 'u').test(value)) say(`does not match ${schema.pattern}`);
    } catch { /* not a pattern of this browser: the server judges */ }
  }
  const format = FORMATS[schema.format];
  if (format && !format[0].test(value)) say(`must be ${format[1]}`);
}

function judgeNumber(schema, value, say) {
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) say('too large for a browser to send exactly');
  if (value < schema.minimum) say(`at least ${schema.minimum}`);
  if (value > schema.maximum) say(`at most ${schema.maximum}`);
  if (value <= schema.exclusiveMinimum) say(`more than ${schema.exclusiveMinimum}`);
  if (value >= schema.exclusiveMaximum) say(`less than ${schema.exclusiveMaximum}`);
  if (schema.multipleOf > 0) {
    const times = value / schema.multipleOf;
    if (Math.abs(times - Math.round(times)) > 1e-9) say(`a multiple of ${schema.multipleOf}`);
  }
}

function judgeArray(schema, value, root, path, faults, depth) {
  const say = (text) => faults.push({ path, text });
  if (value.length < schema.minItems) say(`at least ${schema.minItems} ${schema.minItems === 1 ? 'entry' : 'entries'}`);
  if (value.length > schema.maxItems) say(`at most ${schema.maxItems} entries`);
  if (schema.uniqueItems && value.length < 1000 && value.some((one, i) => value.slice(0, i).some((other) => same(one, other)))) say('the same entry twice');
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  value.slice(0, 1000).forEach((item, i) => judge(first[i] ?? schema.items, item, root, `${path}/${i}`, faults, depth + 1));
}

export const pointerPart = (key) => String(key).replace(/~/g, '~0').replace(/\//g, '~1');

// What patternProperties says of a member; `unknown`: of a pattern that is not tried.
function patternsFor(schema, key) {
  const found = { schemas: [], unknown: false };
  for (const [pattern, one] of Object.entries(isObject(schema.patternProperties) ? schema.patternProperties : {}).slice(0, 50)) {
    try {
      if (!isTame(pattern)) found.unknown = true;
      else if (new RegExp(pattern, 'u').test(key.slice(0, 2000))) found.schemas.push(one);
    } catch {
      found.unknown = true;
    }
  }
  return found;
}

function judgeObject(schema, value, root, path, faults, depth) {
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const key of Array.isArray(schema.required) ? schema.required : [])
    if (!Object.hasOwn(value, key)) faults.push({ path: `${path}/${pointerPart(key)}`, text: 'is needed' });
  const count = Object.keys(value).length;
  if (count < schema.minProperties) faults.push({ path, text: `at least ${schema.minProperties} members` });
  if (count > schema.maxProperties) faults.push({ path, text: `at most ${schema.maxProperties} members` });
  for (const [key, item] of Object.entries(value)) {
    const at = `${path}/${pointerPart(key)}`;
    const named = Object.hasOwn(properties, key);
    const patterns = patternsFor(schema, key);
    if (named) judge(properties[key], item, root, at, faults, depth + 1);
    for (const one of patterns.schemas) judge(one, item, root, at, faults, depth + 1);
    if (named || patterns.schemas.length || patterns.unknown) continue;
    if (schema.additionalProperties === false) faults.push({ path: at, text: 'is not known here' });
    else if (isObject(schema.additionalProperties)) judge(schema.additionalProperties, item, root, at, faults, depth + 1);
  }
}

function judgeChoices(schema, value, root, path, faults, depth) {
  const choices = choicesOf(schema);
  if (!choices) return;
  const results = choices.slice(0, 50).map((choice) => {
    const own = [];
    judge(choice, value, root, path, own, depth + 1);
    return own;
  });
  const fitting = results.filter((own) => !own.length).length;
  if (fitting === 0) faults.push(...results.reduce((best, own) => (own.length < best.length ? own : best)));
  else if (fitting > 1 && Array.isArray(schema.oneOf)) faults.push({ path, text: 'fits more than one of the choices' });
}

function judge(given, value, root, path, faults, depth) {
  if (depth > DEPTH_MOST || faults.length > 200) return;
  if (given === false) {
    faults.push({ path, text: 'must not be there' });
    return;
  }
  const schema = resolve(given, root);
  const say = (text) => faults.push({ path, text });
  const types = Array.isArray(schema.type) ? schema.type : typeof schema.type === 'string' ? [schema.type] : [];
  if (!fitsType(value, types)) {
    say(`must be ${types.map((t) => (t === 'null' ? 'null' : /^[aeiou]/.test(t) ? `an ${t}` : `a ${t}`)).join(' or ')}`);
    return;
  }
  if (schema.const !== undefined && !same(schema.const, value)) say(`must be ${JSON.stringify(schema.const)}`);
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => same(one, value))) say('is none of the choices');
  if (typeof value === 'string') judgeText(schema, value, say);
  else if (typeof value === 'number') judgeNumber(schema, value, say);
  else if (Array.isArray(value)) judgeArray(schema, value, root, path, faults, depth);
  else if (isObject(value)) judgeObject(schema, value, root, path, faults, depth);
  judgeChoices(schema, value, root, path, faults, depth);
}

// Everything that is wrong with a value: [{path, text}], each path a JSON pointer.
export function validate(schema, value, root = schema) {
  const faults = [];
  if (value === undefined) faults.push({ path: '', text: 'is needed' });
  else judge(schema, value, root, '', faults, 0);
  return faults;
}
