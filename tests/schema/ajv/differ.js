// differ.js - random schemas and instances, judged by idem and by ajv; verdicts must agree.
// The seed is printed first: AJV_SEED=N repeats a run, AJV_SCHEMAS=N sets its length.
// A disagreement is shrunk to the smallest schema and instance that still show it.
'use strict'
const { spawnSync } = require('child_process')
const { generate } = require('./generate.js')
const Ajv7 = require('ajv')
const Ajv2020 = require('ajv/dist/2020')

const driver = process.argv[2]
const seed = Number(process.env.AJV_SEED || Date.now() % 1e9)
const schemas = Number(process.env.AJV_SCHEMAS || 1200)
console.log(`seed ${seed}: ${schemas} schemas in two drafts (AJV_SEED=${seed} repeats this run)`)

// Where ajv is known to differ from the specification, and what is left out because of it.
// Each rule says whether a case (schema, instance) is excluded.
const has = (value, test) =>
  test(value) || (value && typeof value === 'object' && Object.values(value).some((v) => has(v, test)))
const hasKey = (schema, test) =>
  has(schema, (v) => v && typeof v === 'object' && !Array.isArray(v) && Object.entries(v).some(test))
const exclusions = [
  {
    why: 'ajv divides doubles: 4.35 is no multiple of 0.01 to it (halves are exact in both)',
    excludes: (schema, data) =>
      hasKey(schema, ([k, v]) => k === 'multipleOf' && !Number.isInteger(v * 2)) &&
      has(data, (v) => typeof v === 'number' && v !== 0)
  },
  {
    why: 'ajv divides doubles: beyond 2^53 the quotient is rounded to an integer',
    excludes: (schema, data) =>
      hasKey(schema, ([k]) => k === 'multipleOf') &&
      has(data, (v) => typeof v === 'number' && Math.abs(v) > 2 ** 53)
  },
  {
    why: 'ajv does not count items matched by contains as evaluated (2020-12 core, 11.2), and ' +
      'counts items of a branch that failed',
    excludes: (schema) =>
      hasKey(schema, ([k]) => k === 'unevaluatedItems') &&
      hasKey(schema, ([k]) => /^(contains|anyOf|oneOf|if|not|dependentSchemas)$/.test(k))
  },
  {
    why: 'ajv forgets what `properties` has evaluated where a dependentSchemas that does not apply ' +
      'names properties, too (its case is in draft2020-12/keywords.json)',
    excludes: (schema) =>
      hasKey(schema, ([k]) => k === 'unevaluatedProperties') &&
      hasKey(schema, ([k]) => k === 'dependentSchemas')
  },
  {
    why: 'ajv lets an empty array pass `contains` when the subschema accepts everything, and any ' +
      'array that `items` as a list has looked at',
    excludes: (schema, data) =>
      hasKey(schema, ([k]) => k === 'contains') &&
      (has(data, (v) => Array.isArray(v) && v.length === 0) ||
        hasKey(schema, ([k, v]) => k === 'items' && Array.isArray(v)))
  }
]
const excluded = (schema, data) => exclusions.find((rule) => rule.excludes(schema, data))

const ajvOptions = { strict: false, validateFormats: false, unicodeRegExp: true, logger: false, addUsedSchema: false }
const ajvs = { 7: new Ajv7(ajvOptions), 2020: new Ajv2020(ajvOptions) }
function ajvVerdicts(draft, schema, data) {
  const validate = ajvs[draft].compile(schema)
  return data.map((value) => {
    try {
      return validate(value) ? '1' : '0'
    } catch {
      return '?' // ajv's generated code refers to a variable it never declared
    }
  }).join('')
}

function idemVerdicts(lines) {
  const input = lines.map((line) => JSON.stringify(line)).join('\n') + '\n'
  const run = spawnSync(driver, [], { input, maxBuffer: 1 << 28 })
  if (run.status !== 0) throw new Error(`the driver failed: ${run.stderr}`)
  return run.stdout.toString().trimEnd().split('\n')
}

function disagree(draft, schema, value) {
  if (excluded(schema, value)) return false
  try {
    const ours = idemVerdicts([{ draft, schema, data: [value] }])[0]
    const theirs = ajvVerdicts(draft, schema, [value])
    return ours[0] !== 'E' && theirs !== '?' && theirs !== ours
  } catch {
    return false // ajv refuses what the shrinker made
  }
}

// Every way to make a JSON value a little smaller.
function* smaller(value) {
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      yield value.filter((_, j) => j !== i)
      for (const v of smaller(value[i])) yield value.map((w, j) => (j === i ? v : w))
    }
  } else if (value && typeof value === 'object') {
    for (const key of Object.keys(value)) {
      const { [key]: inner, ...rest } = value
      yield rest
      if (inner && typeof inner === 'object') yield inner
      for (const v of smaller(inner)) yield { ...value, [key]: v }
    }
  }
}

function shrink(draft, schema, value) {
  for (let again = true; again; ) {
    again = false
    for (const s of smaller(schema)) {
      if (disagree(draft, s, value)) {
        schema = s
        again = true
        break
      }
    }
    for (const v of smaller(value)) {
      if (disagree(draft, schema, v)) {
        value = v
        again = true
        break
      }
    }
  }
  return { schema, value }
}

let cases = 0, valid = 0, skipped = 0, refused = 0, wrong = 0
for (const draft of [7, 2020]) {
  const made = generate(draft, seed, schemas)
  const lines = idemVerdicts(made.map(({ schema, data }) => ({ draft, schema, data })))
  made.forEach(({ schema, data }, i) => {
    const theirs = ajvVerdicts(draft, schema, data)
    if (lines[i][0] === 'E') {
      refused++
      console.log(`FAILED draft ${draft}: we refuse what ajv takes: ${JSON.stringify(schema)}: ${lines[i]}`)
      return
    }
    data.forEach((value, j) => {
      if (theirs[j] === '?' || excluded(schema, value)) {
        skipped++
        return
      }
      cases++
      valid += theirs[j] === '1'
      if (theirs[j] === lines[i][j] || wrong >= 10) return
      wrong++
      const small = shrink(draft, schema, value)
      console.log(`FAILED draft ${draft}: ajv says ${ajvVerdicts(draft, small.schema, [small.value])}, ` +
        `idem ${idemVerdicts([{ draft, schema: small.schema, data: [small.value] }])[0]}\n` +
        `  schema ${JSON.stringify(small.schema)}\n  value  ${JSON.stringify(small.value)}`)
    })
  })
}
console.log(`${cases} verdicts compared (${valid} valid), ${skipped} excluded by rule, ${wrong + refused} disagreements`)
for (const rule of exclusions) console.log(`rule: ${rule.why}`)
if (cases < schemas || valid < cases / 20 || valid > (cases * 19) / 20) {
  console.log('FAILED: too few cases, or verdicts of one kind only: the generator is not doing its work')
  process.exit(1)
}
process.exit(wrong + refused ? 1 : 0)
