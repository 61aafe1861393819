-- post.lua - one request for wrk: BENCH_BODY is its body, BENCH_HEADERS its headers, a line each.
-- Prints what was answered and how long that took: "requests microseconds faults p99-microseconds".
wrk.method = "POST"
wrk.body = os.getenv("BENCH_BODY")
for line in os.getenv("BENCH_HEADERS"):gmatch("[^\n]+") do
  local name, value = line:match("^([^:]+):%s*(.*)$")
  wrk.headers[name] = value
end

function done(summary, latency)
  local faults = summary.errors
  io.write(string.format("DONE %d %d %d %d\n", summary.requests, summary.duration,
    faults.status + faults.connect + faults.read + faults.write + faults.timeout, latency:percentile(99)))
end
