-- serving.lua - helpers for the specs of serve: starts servers, sends requests, and reads figures.

local torch = require "tlua"
local json = torch.utils.json
local shell = require "spec.support.shell"
local fixtures <const> = "rocks/serve/spec/fixtures/"
local Client = require "client"

local M = {}

--- Starts a server on a free port.
function M.serve(path, options)
   local all = {port = 0, quiet = true, poll = 0.05, grace = 5}
   for name, value in pairs(options or {}) do all[name] = value end
   local server = torch.serve.start(path, all)
   return server
end

--- Waits until a server is ready, and returns it.
function M.ready(server)
   assert(Client.wait(server.port), "the server is not ready")
   return server
end

local function unhex(text) return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

--- Returns the requests that were recorded from a client, as a list and by name.
function M.recorded(name)
   local list, by_name = {}, {}
   for line in io.lines(fixtures .. name .. ".jsonl") do
      local entry = assert(json.decode(line))
      entry.body = unhex(entry.body)
      list[#list + 1], by_name[entry.name] = entry, entry
   end
   return list, by_name
end

--- Sends an inference request. Returns the status, the body (decoded if it is JSON) and the headers.
function M.infer(port, model, value, headers)
   local status, body, got = Client.once(port, "POST", "/v2/models/" .. model .. "/infer",
      type(value) == "string" and value or json.encode(value), headers)
   return status, got["content-type"] == "application/json" and json.decode(body) or body, got
end

--- Returns an input for an inference request.
function M.input(name, shape, data, datatype)
   return {name = name, shape = json.as_array(shape), datatype = datatype or "FP32", data = json.as_array(data)}
end

function M.pause(seconds) shell.ok("sleep " .. seconds) end

--- Returns the value of a metric from the server's page /metrics. `line` is the metric's name with its labels.
function M.metric(port, line)
   local _, text = Client.once(port, "GET", "/metrics")
   for l in text:gmatch "[^\n]+" do
      if l:sub(1, #line + 1) == line .. " " then return tonumber(l:match " (%S+)$") end
   end
end

local available, reason = torch.serve.available()

--- Returns busted's describe. Without libmicrohttpd, returns a function that makes each group one pending test. The
--- arguments are busted's functions, since busted defines them only in the files of specs.
function M.guarded(describe, it, pending)
   if available then return describe end
   return function(name)
      describe(name, function() it("is not tested here", function() pending(reason) end) end)
   end
end

return M
