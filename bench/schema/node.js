// node.js - the same calls in Node: ajv's compiled validator and an interpreting one.
// Prints "name nanoseconds" lines for bench/schema/run; each figure is the best of several rounds.
'use strict'
const fs = require('fs')
const path = require('path')
const Ajv = require('ajv/dist/2020')
const { Validator } = require('@cfworker/json-schema')

const schema = JSON.parse(fs.readFileSync(path.join(__dirname, 'call.schema.json')))
const values = JSON.parse(fs.readFileSync(path.join(__dirname, 'calls.json')))
const texts = values.map((v) => JSON.stringify(v))
const validate = new Ajv().compile(schema)
const interpreter = new Validator(schema, '2020-12')

// Nanoseconds per call of `work` over the 16 calls, in batches shorter than a time slice; the sum keeps the work from being dropped.
function measure(name, rounds, work) {
  let best = Infinity, valid = 0
  for (let repeat = 0; repeat < 300; repeat++) {
    const start = process.hrtime.bigint()
    for (let i = 0; i < rounds; i++) valid += work(i & 15)
    best = Math.min(best, Number(process.hrtime.bigint() - start) / rounds)
  }
  if (valid !== 300 * rounds) throw new Error(`${name}: a call was judged invalid`)
  console.log(`${name} ${best.toFixed(1)}`)
}

measure('ajv_text', 1600, (i) => (validate(JSON.parse(texts[i])) ? 1 : 0))
measure('ajv_value', 9600, (i) => (validate(values[i]) ? 1 : 0))
measure('cfworker_value', 160, (i) => (interpreter.validate(values[i]).valid ? 1 : 0))
