// generate.js - random schemas of both drafts, and instances that have a chance to fit them.
// Everything follows from the seed.
'use strict'

// mulberry32: small, fast and good enough to shuffle keywords.
function random(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

class Maker {
  constructor(draft, seed) {
    this.draft = draft
    this.next = random(seed)
    this.defs = 3
  }
  below(n) { return Math.floor(this.next() * n) }
  pick(list) { return list[this.below(list.length)] }
  chance(p) { return this.next() < p }

  name() { return this.pick(['a', 'b', 'c', 'ab', 'foo', 'bar', 'a-long-property-name', 'é', 'x/y', 'x~y', '']) }
  text() { return this.pick(['', 'a', 'ab', 'abc', 'foo', '12', 'A-7', 'é', '🐲', '🐲🐲', 'a\nb', 'zzzzzz']) }
  number() {
    return this.pick([0, 1, -1, 2, 3, 5, 6, 7, 10, 100, 1.5, 2.5, -0.5, 0.1, 0.25, 1e3, 1e20, 2 ** 53, 4.35])
  }
  pattern() {
    return this.pick(['^a', 'b$', '^[a-z]+$', '\\d', '^.{2}$', 'o+', '^(foo|bar)$', '^[A-Z]-\\d$', '\\p{L}', '^\\S*$', 'x|y'])
  }
  scalar() {
    return this.pick([() => null, () => this.chance(0.5), () => this.number(), () => this.number(), () => this.text(), () => this.text()])()
  }
  value(depth = 2) {
    if (depth === 0 || this.chance(0.45)) return this.scalar()
    const size = this.pick([0, 1, 1, 2, 2, 3, 4, 10])
    if (this.chance(0.5)) return Array.from({ length: size }, () => this.value(depth - 1))
    const object = {}
    for (let i = 0; i < size; i++) object[this.name()] = this.value(depth - 1)
    return object
  }

  list(make, least = 1, most = 3) { return Array.from({ length: least + this.below(most - least + 1) }, make) }
  map(make) {
    const object = {}
    for (let i = this.below(4); i >= 0; i--) object[this.name()] = make()
    return object
  }
  different(list) { return [...new Map(list.map((v) => [JSON.stringify(v), v])).values()] }
  // Without the empty name, which ajv overlooks here: it takes {} for {"required":[""]}.
  names() { return [...new Set(this.list(() => this.name() || 'a', 0, 3))] }

  keyword(depth) {
    const sub = () => this.schema(depth - 1)
    const scalars = [
      ['type', () => this.chance(0.6) ? this.type() : [...new Set(this.list(() => this.type(), 1, 3))]],
      ['enum', () => this.different(this.list(() => this.value(1), 1, 5))],
      ['const', () => this.value(1)],
      ['minimum', () => this.number()], ['maximum', () => this.number()],
      ['exclusiveMinimum', () => this.number()], ['exclusiveMaximum', () => this.number()],
      ['multipleOf', () => this.chance(0.05) ? 0.01 : this.pick([1, 2, 3, 5, 0.5])],
      ['minLength', () => this.below(4)], ['maxLength', () => this.below(5)],
      ['pattern', () => this.pattern()],
      ['minItems', () => this.below(3)], ['maxItems', () => this.below(5)],
      ['uniqueItems', () => this.chance(0.8)],
      ['minProperties', () => this.below(3)], ['maxProperties', () => this.below(5)],
      ['required', () => this.names()]
    ]
    if (this.draft === 2020) {
      scalars.push(['dependentRequired', () => this.map(() => this.names())])
    }
    if (depth <= 0) return this.pick(scalars)
    const applicators = [
      ['properties', () => this.map(sub)], ['properties', () => this.map(sub)],
      ['patternProperties', () => ({ [this.pattern()]: sub() })],
      ['additionalProperties', sub], ['propertyNames', sub],
      ['items', sub], ['contains', sub],
      ['allOf', () => this.list(sub)], ['anyOf', () => this.list(sub)], ['oneOf', () => this.list(sub)],
      ['not', sub], ['if', sub], ['then', sub], ['else', sub]
    ]
    if (this.draft === 2020) {
      applicators.push(['prefixItems', () => this.list(sub)], ['unevaluatedProperties', sub],
        ['unevaluatedProperties', sub], ['unevaluatedItems', sub], ['dependentSchemas', () => this.map(sub)])
    } else {
      applicators.push(['items', () => this.list(sub)], ['additionalItems', sub],
        ['dependencies', () => this.map(() => this.chance(0.5) ? this.names() : sub())])
    }
    return this.pick(this.chance(0.5) ? scalars : applicators)
  }
  type() { return this.pick(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object']) }

  // References lead to definitions with a higher number, so they cannot go in circles.
  schema(depth) {
    if (this.chance(0.08)) return this.chance(0.7)
    if (this.level < this.defs && this.chance(0.1)) {
      const ref = { $ref: `#/${this.draft === 7 ? 'definitions' : '$defs'}/d${this.level + this.below(this.defs - this.level)}` }
      if (this.draft === 7) return ref // its siblings would be ignored by us and not by ajv
      return this.chance(0.5) ? ref : { ...ref, ...this.schemaObject(depth - 1) }
    }
    return this.schemaObject(depth)
  }
  schemaObject(depth) {
    const schema = {}
    for (let i = this.pick([1, 1, 2, 2, 3, 4]); i > 0; i--) {
      const [name, make] = this.keyword(depth)
      schema[name] = make()
    }
    if (this.draft === 2020 && 'contains' in schema && this.chance(0.5)) {
      schema.minContains = this.below(3)
      if (this.chance(0.5)) schema.maxContains = schema.minContains + this.below(3)
    }
    return schema
  }
  root() {
    this.level = 0
    const schema = this.schemaObject(3)
    const defs = {}
    for (let i = 0; i < this.defs; i++) {
      this.level = i + 1
      defs[`d${i}`] = this.schema(2)
    }
    schema[this.draft === 7 ? 'definitions' : '$defs'] = defs
    return schema
  }

  // A value that tries to follow the schema, so that both verdicts are common.
  fitting(schema, depth = 3) {
    if (typeof schema !== 'object' || depth === 0 || this.chance(0.15)) return this.value(1)
    if ('const' in schema) return schema.const
    if (schema.enum) return this.pick(schema.enum)
    for (const group of ['allOf', 'anyOf', 'oneOf'])
      if (schema[group] && this.chance(0.4)) return this.fitting(this.pick(schema[group]), depth - 1)
    const type = [].concat(schema.type || [])[0] || this.guess(schema)
    if (type === 'object') {
      const object = {}
      for (const [k, v] of Object.entries(schema.properties || {})) if (this.chance(0.7)) object[k] = this.fitting(v, depth - 1)
      for (const k of schema.required || []) if (!(k in object) && this.chance(0.9)) object[k] = this.value(1)
      if (this.chance(0.3)) object[this.name()] = this.value(1)
      return object
    }
    if (type === 'array') {
      const items = schema.prefixItems || (Array.isArray(schema.items) ? schema.items : [])
      const list = items.map((s) => this.fitting(s, depth - 1))
      const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items
      while (this.chance(0.5)) list.push(this.fitting(rest ?? schema.contains ?? {}, depth - 1))
      return list
    }
    if (type === 'string') return this.text()
    if (type === 'integer' || type === 'number') return this.number()
    if (type === 'boolean') return this.chance(0.5)
    return type === 'null' ? null : this.value(2)
  }
  guess(schema) {
    if (Object.keys(schema).some((k) => /ropert|required|depend/.test(k))) return 'object'
    if (Object.keys(schema).some((k) => /tems|ontains/.test(k))) return 'array'
    if ('pattern' in schema || 'minLength' in schema || 'maxLength' in schema) return 'string'
    if ('minimum' in schema || 'maximum' in schema || 'multipleOf' in schema) return 'number'
    return undefined
  }
}

exports.generate = (draft, seed, count) => {
  const made = []
  for (let i = 0; i < count; i++) {
    const maker = new Maker(draft, seed + i * 7919 + draft)
    const schema = maker.root()
    const data = Array.from({ length: 8 }, () => maker.chance(0.7) ? maker.fitting(schema) : maker.value(3))
    made.push({ schema, data })
  }
  return made
}
