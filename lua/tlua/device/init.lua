-- What torch.cuda and torch.sim have in Lua; the rest is in C (src/lua/device.c). `module` is the
-- one of the two.

local torch = require "tlua"
local args = require "tlua.args"

local function graph_of(module, kind)
   local streams = {} -- by device: where what names no stream is captured
   local signature = args.signature(kind ..
      ".graph(pool: integer?, stream: any?, capture_error_mode: any?)")

   local function own_stream()
      local device = module.current_device()
      streams[device] = streams[device] or module.Stream {device = device}
      return streams[device]
   end

   local function capture(graph, options, fn, ...)
      if getmetatable(graph) ~= "torch.Graph" then
         args.refuse(kind .. ".graph", "graph", "what Graph() gives", graph)
      end
      if type(fn) ~= "function" then
         torch.raise(("%s.graph: fn: expected a function, got %s"):format(kind, type(fn)))
      end
      module.synchronize()
      return module.stream(options.stream or own_stream(), function(...)
         graph:capture_begin(options.pool, options.capture_error_mode)
         local results = table.pack(pcall(fn, ...))
         if not results[1] then
            graph:reset()
            error(results[2], 0)
         end
         graph:capture_end()
         return table.unpack(results, 2, results.n)
      end, ...)
   end

   --- Captures what a function puts on the device, which is recorded, not run, into a graph;
   --- `graph:replay()` runs it. Random numbers are drawn anew at each replay. Another stream takes
   --- part once it waits for an event of the capture, and must be waited for before the end. An
   --- operator that waits for the device cannot be captured: that is an error, and nothing stays
   --- open. A table before the function: `graph(g, {pool = p}, fn)`.
   ---@param graph torch.Graph made by Graph()
   ---@param options? table pool (graph_pool_handle() or another graph's pool(), whose memory it
   --- shares: the two must not be replayed at one time), stream (other than the default one;
   --- without it one of its own), capture_error_mode ("global", "thread_local" or "relaxed")
   ---@param fn function
   ---@param ... any  arguments of fn
   ---@return any ... what fn returns
   return function(graph, options, ...)
      if type(options) ~= "table" then return capture(graph, {}, options, ...) end
      return capture(graph, signature(options), ...)
   end
end

local function megabytes(bytes)
   return ("%10.2f MB"):format(bytes / 1e6)
end

local function summary_of(module, kind)
   --- The figures of memory_stats as a text for people.
   ---@param device? integer|string
   ---@return string
   return function(device)
      local s = module.memory_stats(device)
      return table.concat({
         ("memory of %s, %s of them usable"):format(module.get_device_name(device),
            megabytes(s.total_memory):match("%S.*")),
         "                     now          peak",
         "by tensors " .. megabytes(s["allocated_bytes.all.current"]) .. " " ..
            megabytes(s["allocated_bytes.all.peak"]),
         "reserved   " .. megabytes(s["reserved_bytes.all.current"]) .. " " ..
            megabytes(s["reserved_bytes.all.peak"]),
         ("%d tensors' blocks in use; %d were allocated and %d freed so far"):format(
            s["active.all.current"], s["allocation.all.allocated"], s["allocation.all.freed"]),
         ("%d times an allocation had to wait for memory, %d times there was none"):format(
            s.num_alloc_retries, s.num_ooms),
         ("largest free block: %s"):format(megabytes(s.largest_free_block):match("%S.*")),
         kind == "sim" and "the limit is set by TLUA_SIM_MEMORY or sim.configure{memory = }" or nil,
      }, "\n")
   end
end

-- torch.cuda.amp: torch.amp for this kind of device.
local function amp_of(kind)
   return {
      autocast = function(...)
         local first = ...
         if type(first) == "table" and not getmetatable(first) then
            return torch.autocast(kind, ...)
         end
         return torch.autocast(kind, {}, ...)
      end,
      GradScaler = function(...) return torch.amp.GradScaler(kind, ...) end,
      custom_fwd = function(fn, options)
         options = options or {}
         return torch.amp.custom_fwd(fn, {device_type = kind, cast_inputs = options.cast_inputs})
      end,
      custom_bwd = function(fn) return torch.amp.custom_bwd(fn) end,
   }
end

-- A function of another file, which is read when it is called first.
local function on_use(file, kind)
   local fn
   return function(...)
      fn = fn or require(file)(kind)
      return (function(...) return ... end)(fn(...))
   end
end

--- The functions of torch.cuda or torch.sim that are written in Lua.
---@param kind string "cuda" or "sim"
---@return table
return function(kind)
   local module = torch[kind]
   return {
      graph = graph_of(module, kind), memory_summary = summary_of(module, kind),
      amp = amp_of(kind),
      capture_step = on_use("tlua.device.capture_step", kind),
      make_graphed_callables = on_use("tlua.device.graphed_callables", kind),
   }
end
