-- load.lua - measures requests per second with wrk (Debian: wrk): a fixed answer, and inference requests for a network
-- that reads digits, with binary tensors and with JSON. The processor time is the server's, without that of wrk.
--
--   build/tlua rocks/serve/spec/load.lua [seconds] [connections]

local torch = require "tlua"
local nn = torch.nn
local shell = require "spec.support.shell"
package.path = "rocks/serve/spec/?.lua;" .. package.path
local Client = require "client"

local seconds, connections = tonumber(arg[1] or 5), tonumber(arg[2] or 64)

local scripts <const> = {
   binary = [[
local head = '{"inputs":[{"name":"input","shape":[1,64],"datatype":"FP32","parameters":{"binary_data_size":256}}],'
   .. '"parameters":{"binary_data_output":true}}'
wrk.method, wrk.body = "POST", head .. ("\0\0\0\63"):rep(64)
wrk.headers["Inference-Header-Content-Length"] = tostring(#head)]],
   json = [[
wrk.method = "POST"
wrk.body = '{"inputs":[{"name":"input","shape":[1,64],"datatype":"FP32","data":[' .. ("0.5,"):rep(63) .. '0.5]}]}']],
}

local function processor_time(pid)
   local fields = {}
   local text = shell.read("/proc/" .. pid .. "/stat"):gsub("^.*%) ", "")
   for field in text:gmatch "%S+" do fields[#fields + 1] = field end
   return (tonumber(fields[12]) + tonumber(fields[13])) / 100
end

local function resident(pid)
   return tonumber(shell.read("/proc/" .. pid .. "/status"):match "VmRSS:%s*(%d+)") / 1024
end

shell.with_folder(function(folder)
   torch.manual_seed(1)
   local mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)):eval()
   torch.export(mlp, {torch.rand(1, 64)}, {dynamic = {input = {1}}}):save(folder .. "/digits.tlp")
   local pid = shell.ok(("%s serve %s/digits.tlp --port 0 >%s/log 2>&1 & echo $!"):format(shell.start(), folder,
      folder)):match "%d+"
   shell.ok("for i in $(seq 100); do grep -q ready " .. folder .. "/log && break; sleep 0.1; done")
   local log = shell.read(folder .. "/log")
   local port = tonumber(log:match "port (%d+)") or error(log)
   assert(Client.wait(port))
   print(("%-8s %12s %10s %10s %10s %14s %8s"):format("", "requests/s", "p50", "p99", "errors", "processor", "memory"))
   for _, name in ipairs {"bare", "binary", "json"} do
      local script = ""
      if scripts[name] then
         local file = io.open(folder .. "/wrk.lua", "w")
         file:write(scripts[name])
         file:close()
         script = "-s " .. folder .. "/wrk.lua"
      end
      local path = name == "bare" and "/v2/health/live" or "/v2/models/digits/infer"
      local before = processor_time(pid)
      local text = shell.ok(("wrk -t1 -c%d -d%d --latency %s http://127.0.0.1:%d%s"):format(connections, seconds,
         script, port, path))
      local used = processor_time(pid) - before
      local count = tonumber(text:match "(%d+) requests in")
      local bad = tonumber(text:match "Non%-2xx or 3xx responses: (%d+)" or 0)
      for n in (text:match "Socket errors: ([^\n]+)" or ""):gmatch "%d+" do bad = bad + tonumber(n) end
      print(("%-8s %12s %10s %10s %10d %11.1f us %5.1f MB"):format(name, text:match "Requests/sec:%s*(%S+)",
         text:match "\n%s+50%%%s+(%S+)", text:match "\n%s+99%%%s+(%S+)", bad, used / count * 1e6, resident(pid)))
   end
   print("load average: " .. shell.read "/proc/loadavg":match "^%S+ %S+")
   shell.ok("kill " .. pid)
end)
