-- metrics.lua - formats the counters of the server and of its models in Prometheus' text format.

local counters = require "tlua.serve.counters"

local M = {}

local function escape(text)
   return (text:gsub('[\\"\n]', {["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n"}))
end

local totals <const> = {
   {"answered", "tlua_inference_requests_total", 'result="success"', "Inference requests."},
   {"failed", "tlua_inference_requests_total", 'result="failure"'},
   {"expired", "tlua_inference_requests_total", 'result="expired"'},
   {"gone", "tlua_inference_requests_total", 'result="cancelled"'},
   {"examples", "tlua_inference_examples_total", nil, "Examples in the answered requests."},
   {"runs", "tlua_inference_runs_total", nil, "Runs; one run may answer several requests."},
   {"prompt_tokens", "tlua_prompt_tokens_total", nil, "Tokens in prompts."},
   {"new_tokens", "tlua_generated_tokens_total", nil, "Tokens generated."},
}
local times <const> = {
   {"queue_ns", "tlua_inference_queue_seconds_total", "Time of all requests in the queue."},
   {"read_ns", "tlua_inference_read_seconds_total", "Time for reading requests."},
   {"run_ns", "tlua_inference_run_seconds_total", "Time for runs and for writing answers."},
}

local function add_model(out, head, labels, counts, waiting)
   for _, row in ipairs(totals) do
      local key, name, more, help = table.unpack(row)
      head(name, "counter", help)
      out("%s{%s%s} %d", name, labels, more and "," .. more or "", counts[counters[key]])
   end
   for _, row in ipairs(times) do
      head(row[2], "counter", row[3])
      out("%s{%s} %.9f", row[2], labels, counts[counters[row[1]]] * 1e-9)
   end
   head("tlua_queue_length", "gauge", "Requests that wait in the queue.")
   out("tlua_queue_length{%s} %d", labels, waiting)
   local name, sum = "tlua_inference_latency_seconds", 0
   head(name, "histogram", "Time from a request's arrival to its answer.")
   for i, bound in ipairs(counters.bounds) do
      sum = sum + counts[counters.first_bucket + i - 1]
      out('%s_bucket{%s,le="%g"} %d', name, labels, bound, sum)
   end
   sum = sum + counts[counters.first_bucket + #counters.bounds]
   out('%s_bucket{%s,le="+Inf"} %d', name, labels, sum)
   out("%s_sum{%s} %.9f", name, labels, counts[counters.total_ns] * 1e-9)
   out("%s_count{%s} %d", name, labels, sum)
end

local function resident_bytes()
   local file <close> = io.open "/proc/self/statm"
   local pages = file and tonumber(file:read "a":match "^%d+ (%d+)")
   return pages and pages * 4096
end

--- Returns the metrics as text.
---@param stats table  the result of server:stats()
---@param models {name: string, version: integer, counts: integer[], waiting: integer}[]
---@return string
function M.text(stats, models)
   -- The lines of each metric are collected first, because in Prometheus' format they must follow
   -- one another.
   local families, order = {}, {}
   local current
   local function head(name, kind, help)
      if not families[name] then
         families[name] = {}
         if help then families[name][1] = ("# HELP %s %s"):format(name, help) end
         table.insert(families[name], ("# TYPE %s %s"):format(name, kind))
         order[#order + 1] = name
      end
      current = families[name]
   end
   local function out(format, ...) current[#current + 1] = format:format(...) end
   local function single(name, kind, help, value)
      head(name, kind, help)
      out("%s %s", name, value)
   end
   single("tlua_connections", "gauge", "Open connections.", stats.connections)
   single("tlua_connections_total", "counter", "Connections accepted.", stats.accepted)
   single("tlua_requests_open", "gauge", "Requests that wait for an answer.", stats.open)
   single("tlua_requests_gone_total", "counter", "Requests whose client has left.", stats.gone)
   single("tlua_requests_expired_total", "counter", "Requests past their deadline.", stats.expired)
   single("tlua_requests_refused_total", "counter", "Requests refused because a queue was full.",
      stats.refused)
   single("tlua_received_bytes_total", "counter", "Bytes of bodies received.", stats.bytes_in)
   single("tlua_sent_bytes_total", "counter", "Bytes of bodies sent, except fixed answers.",
      stats.bytes_out)
   head("tlua_http_responses_total", "counter", "Answers by status.")
   local statuses = {}
   for status in pairs(stats.statuses) do statuses[#statuses + 1] = status end
   table.sort(statuses)
   for _, status in ipairs(statuses) do
      out('tlua_http_responses_total{code="%d"} %d', status, stats.statuses[status])
   end
   local bytes = resident_bytes()
   if bytes then
      single("process_resident_memory_bytes", "gauge", "Memory of the process.", bytes)
   end
   for _, model in ipairs(models) do
      add_model(out, head, ('model="%s",version="%d"'):format(escape(model.name), model.version),
         model.counts, model.waiting)
   end
   local lines = {}
   for _, name in ipairs(order) do lines[#lines + 1] = table.concat(families[name], "\n") end
   return table.concat(lines, "\n") .. "\n"
end

return M
