-- post.lua - one request for wrk: BENCH_BODY is its body, BENCH_HEADERS its headers, a line each; BENCH_METHOD, where it is not POST.
-- With BENCH_KEYS each carries an Idempotency-Key of its own that begins so; BENCH_SESSIONS are the sessions it goes to in turn.
-- Prints what was answered and how long that took: "requests microseconds faults p99-microseconds bytes".
wrk.method = os.getenv("BENCH_METHOD") or "POST"
wrk.body = os.getenv("BENCH_BODY")
for line in os.getenv("BENCH_HEADERS"):gmatch("[^\n]+") do
  local name, value = line:match("^([^:]+):%s*(.*)$")
  wrk.headers[name] = value
end

-- The request is written once, around what changes.
local function changing(header, value)
  local before, after
  request = function()
    if not before then
      wrk.headers[header] = "@@"
      before, after = wrk.format():match("^(.-)@@(.*)$")
    end
    return before .. value() .. after
  end
end

local keys, count = os.getenv("BENCH_KEYS"), 0
if keys then
  changing("Idempotency-Key", function()
    count = count + 1
    return keys .. count
  end)
end

local sessions = {}
for id in (os.getenv("BENCH_SESSIONS") or ""):gmatch("%S+") do sessions[#sessions + 1] = id end
if #sessions > 0 then
  changing("Mcp-Session-Id", function()
    count = count % #sessions + 1
    return sessions[count]
  end)
end

function done(summary, latency)
  local faults = summary.errors
  io.write(string.format("DONE %d %d %d %d %d\n", summary.requests, summary.duration,
    faults.status + faults.connect + faults.read + faults.write + faults.timeout, latency:percentile(99),
    summary.bytes))
end
