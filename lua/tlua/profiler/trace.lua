-- trace.lua - writes events in the Trace Event Format, which chrome://tracing, Perfetto and
-- TensorBoard's plugin read. Process 1 is the program: its thread 1 is the profiled thread, and its
-- other threads worked for that thread. Process 2 is the devices: its thread 1 has their work by
-- operators, and each other thread has the kernels of one stream.

local json = require "tlua.utils.json"
local text = require "tlua.profiler.text"

local M = {}

-- Maps kinds of events to the categories in PyTorch's traces.
local categories = {
   operator = "cpu_op", backward = "cpu_op", user = "user_annotation", module = "python_function",
   collector = "gc", data = "data", optimizer = "user_annotation", step = "user_annotation",
}

local function put_name(put, what, pid, tid, name)
   put((',\n{"ph":"M","name":"%s_name","pid":%d,"tid":%d,"args":{"name":%s}}'):format(what, pid,
      tid, json.encode(name)))
end

local function number(value) return ("%.3f"):format(value / 1e3) end

local function put_event(put, session, i, quote)
   local event = session:event(i)
   local kind, name, begin, duration = event.kind, event.name, event.begin, event.duration
   local device_begin, device_time = event.device_begin, event.device_time
   local shapes, stack, sequence = event.shapes, event.stack, event.sequence
   local flops, bytes, tid = event.flops, event.bytes, event.thread + 1
   local details = {}
   if shapes >= 0 then details[#details + 1] = '"Input Dims":' .. quote(session:shapes(shapes)) end
   if kind == "kernel" then
      put((',\n{"ph":"X","cat":"kernel","name":%s,"pid":2,"tid":%d,"ts":%s,"dur":%s,"args":{}}')
         :format(quote(name), tid, number(device_begin), number(device_time)))
      return
   end
   if stack >= 0 then details[#details + 1] = '"Call stack":' .. quote(session:text(stack)) end
   if flops > 0 then details[#details + 1] = ('"flops":%.0f'):format(flops) end
   if bytes ~= 0 then details[#details + 1] = ('"bytes":%d'):format(bytes) end
   if sequence > 0 then details[#details + 1] = ('"Sequence number":%d'):format(sequence) end
   put((',\n{"ph":"X","cat":"%s","name":%s,"pid":1,"tid":%d,"ts":%s,"dur":%s,"args":{%s}}'):format(
      categories[kind], quote(name), tid, number(begin), number(duration),
      table.concat(details, ",")))
   if device_begin >= 0 then
      put((',\n{"ph":"X","cat":"kernel","name":%s,"pid":2,"tid":1,"ts":%s,"dur":%s,"args":{}}')
         :format(quote(name), number(device_begin), number(device_time)))
   end
   if sequence == 0 then return end
   put((',\n{"ph":"%s","id":%d,"cat":"fwdbwd","name":"fwdbwd","pid":1,"tid":%d,"ts":%s%s}'):format(
      kind == "backward" and "f" or "s", sequence, tid, number(begin),
      kind == "backward" and ',"bp":"e"' or ""))
end

local function put_memory(put, session, i, live)
   local change = session:memory(i)
   local bytes, device = change.bytes, change.device
   if change.category ~= "unknown" then return end
   live[device] = (live[device] or 0) + bytes
   put((',\n{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,'
      .. '"ts":%s,"args":{"Addr":%d,"Bytes":%d,"Total Allocated":%d,"Device":"%s"}}'):format(
         number(change.time), change.storage, bytes, live[device], device))
end

--- Writes a session's events.
---@param session any
---@param path string
function M.write(session, path)
   local state = session:state()
   local known = {}
   local function quote(value)
      local quoted = known[value]
      if not quoted then
         quoted = json.encode(value)
         known[value] = quoted
      end
      return quoted
   end
   text.write_file("export_chrome_trace", path, function(put)
      put(('{"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":%d,"traceEvents":[\n')
         :format(state.began))
      put '{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"tlua"}}'
      put_name(put, "process", 2, 0, "devices")
      put_name(put, "thread", 1, 1, "main")
      put_name(put, "thread", 2, 1, "operators")
      for thread, name in ipairs(session:threads()) do
         put_name(put, "thread", name:find " stream " and 2 or 1, thread + 1, name)
      end
      for i = 1, state.events do put_event(put, session, i, quote) end
      local live = {}
      for i = 1, state.memory_events do put_memory(put, session, i, live) end
      put "\n]}\n"
   end)
end

return M
