-- init.lua - the fields of torch.cuda and torch.sim that are written in Lua; all other fields are
-- in C (src/lua/devices/device_module.c). `module` is torch.cuda or torch.sim.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local memory_of = require "tlua.device.memory"
local scopes = require "tlua.scope"

local function graph_of(module, kind)
   local streams = {} -- maps each device to its default stream for captures
   local signature = args.signature(kind ..
      ".graph(pool: integer?, stream: any?, capture_error_mode: any?)")

   local function own_stream()
      local device = module.current_device()
      streams[device] = streams[device] or module.Stream {device = device}
      return streams[device]
   end

   local function capture(graph, options, fn, ...)
      if getmetatable(graph) ~= "torch.Graph" then
         args.refuse(kind .. ".graph", "graph", "a result of Graph()", graph)
      end
      if type(fn) ~= "function" then
         torch.raise(("%s.graph: fn: expected a function, got %s"):format(kind, type(fn)))
      end
      if module.is_current_stream_capturing() then
         torch.raise(kind .. ".graph: a graph is captured already; captures do not nest")
      end
      module.synchronize()
      return module.stream(options.stream or own_stream(), function(...)
         graph:capture_begin(options.pool, options.capture_error_mode)
         local ended = false
         local _ <close> = scopes.new(function()
            if not ended then graph:reset() end
         end)
         local results = table.pack(fn(...))
         graph:capture_end()
         ended = true
         return table.unpack(results, 1, results.n)
      end, ...)
   end

   --- Captures the device work of a function into a graph without running it; `graph:replay()` runs
   --- it. Each replay draws new random numbers. Another stream joins the capture when it waits for
   --- an event of the capture; the capture's stream must wait for that stream before the end. An
   --- operator that waits for the device raises an error, which ends the capture. Options are a
   --- table before the function: `graph(g, {pool = p}, fn)`.
   ---@param graph torch.Graph made by Graph()
   ---@param options? table pool (the result of graph_pool_handle(), or of the method pool() of a
   --- graph that shares its memory and must not be replayed at the same time), stream (any stream
   --- but the default stream; by default a new one), capture_error_mode ("global", "thread_local"
   --- or "relaxed")
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
   --- Returns the figures of memory_stats as a readable text of several lines.
   ---@param device? integer|string|torch.device
   ---@return string
   return function(device, ...)
      local s = module.memory_stats(device, ...)
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

-- Returns torch.amp for this kind of device, for torch.cuda.amp.
local function amp_of(kind)
   local fwd = args.signature(kind ..
      ".amp.custom_fwd(fn: callable, cast_inputs: string?)")
   local bwd = args.signature(kind .. ".amp.custom_bwd(fn: callable)")
   --- Opens torch.autocast for this kind of device. The arguments are those that follow
   --- torch.autocast's first argument.
   ---@names cuda.amp.autocast sim.amp.autocast
   ---@param options? {enabled: boolean, dtype: string, cache_enabled: boolean}
   ---@param fn? function  runs with autocast; without a function the result is a scope
   ---@return any ...
   local function autocast(...)
      local first = ...
      if type(first) == "table" and not getmetatable(first) then
         return torch.autocast(kind, ...)
      end
      return torch.autocast(kind, {}, ...)
   end

   --- Makes a torch.GradScaler for this kind of device.
   ---@names cuda.amp.GradScaler sim.amp.GradScaler
   ---@param options? {init_scale: number, growth_factor: number, backoff_factor: number,
   --- growth_interval: integer, enabled: boolean}
   ---@return amp.GradScaler
   local function grad_scaler(...) return torch.amp.GradScaler(kind, ...) end

   --- Wraps a Function's forward as torch.amp.custom_fwd does, for this kind of device.
   ---@param fn function
   ---@param options? {cast_inputs: string}
   ---@return function
   local function custom_fwd(fn, options)
      local a = fwd(fn, options or {})
      return torch.amp.custom_fwd(fn, {device_type = kind, cast_inputs = a.cast_inputs})
   end

   --- Returns a Function's backward unchanged, like torch.amp.custom_bwd.
   ---@param fn function
   ---@return function
   local function custom_bwd(fn) return bwd(fn).fn end

   return {
      autocast = autocast, GradScaler = grad_scaler, custom_fwd = custom_fwd,
      custom_bwd = custom_bwd,
   }
end

-- Returns a table of the module's functions for random numbers.
local function random_of(module)
   local random = {}
   for _, name in ipairs {"get_rng_state", "get_rng_state_all", "set_rng_state",
                          "set_rng_state_all", "manual_seed",
                          "manual_seed_all", "seed", "seed_all", "initial_seed"} do
      random[name] = module[name]
   end
   return random
end

local function device_of_of(module, kind)
   --- Makes the device of a tensor current while fn runs or, without fn, until the returned value
   --- is closed. A tensor on the CPU changes nothing.
   ---@param tensor torch.Tensor
   ---@param fn? function
   ---@param ... any  arguments of fn
   ---@return any ...
   return function(tensor, ...)
      if not torch.is_tensor(tensor) then
         args.refuse(kind .. ".device_of", "tensor", "a tensor", tensor)
      end
      local here = tensor.device
      return module.device(here.type == kind and here or module.current_device(), ...)
   end
end

local sync_modes <const> = {default = 0, warn = 1, error = 2, [0] = 0, [1] = 1, [2] = 2}

local function sync_debug_of(kind)
   --- Sets the reaction to operators that make the host wait for a device (`item`, `nonzero`, a
   --- copy to the CPU; not `synchronize`): nothing, a warning (in a plain Lua, `warn "@on"`
   --- shows it) or an error. The setting applies to all kinds of devices.
   ---@param debug_mode "default"|"warn"|"error"|integer  or 0, 1, 2
   return function(debug_mode)
      local mode = sync_modes[debug_mode]
      if not mode then
         args.refuse(kind .. ".set_sync_debug_mode", "debug_mode",
            '"default", "warn", "error" or 0 to 2', debug_mode)
      end
      torch._setting("sync_debug", mode)
   end
end

local function processes_of(module)
   --- Returns a readable list of the processes that use a device's memory, from NVML.
   ---@param device? integer|string|torch.device
   ---@return string
   return function(device)
      local found = module._gpu_processes(device)
      local lines = {("GPU:%d"):format(module._device_index(device))}
      for i = 1, #found, 2 do
         local bytes = found[i + 1]
         lines[#lines + 1] = ("process %10d uses %12s GPU memory"):format(found[i],
            bytes < 0 and "an unknown" or ("%.3f MB"):format(bytes / 2 ^ 20))
      end
      if #lines == 1 then lines[2] = "no processes are running" end
      return table.concat(lines, "\n")
   end
end

--- Returns the function nvtx.range, which shows the run of fn as a named range in Nsight.
local function range_of(nvtx)
   return function(message, fn, ...)
      if type(fn) ~= "function" then args.refuse("cuda.nvtx.range", "fn", "a function", fn) end
      nvtx.range_push(message)
      local _ <close> = scopes.new(function() nvtx.range_pop() end)
      return (function(...) return ... end)(fn(...))
   end
end

-- Adds the functions that only torch.cuda has, and torch.sim lacks.
local function add_cuda(module, memory, own)
   own.nvtx = module._nvtx
   own.nvtx.range = range_of(own.nvtx)
   own.list_gpu_processes = processes_of(module)
   memory.list_gpu_processes = own.list_gpu_processes
   memory.device_memory_used = module.device_memory_used
end

--- Returns the function get_arch_list. It lists the architectures for which kernels are compiled,
--- such as "sm_90". The last item is the architecture of the PTX code, such as "compute_80";
--- drivers compile PTX for other GPUs. The list is empty without a GPU.
local function arch_list_of(module)
   --- Returns the architectures for which the plugin's kernels were built, such as "sm_90".
   ---@return string[]
   return function()
      local list = {}
      for name in (module._architectures() or ""):gmatch "%S+" do
         list[#list + 1] = name:find "^%d" and "sm_" .. name or name
      end
      return list
   end
end

local function device_index_of(module, kind)
   local signature = args.signature(kind .. ".get_device_index(optional: boolean = false, " ..
      "allow_cpu: boolean = false)")

   --- Returns the number of a device: 1 for "cuda:1", the current device's for "cuda".
   ---@param device integer|string|nil  nil means the current device if `optional` is true
   ---@param options? {optional?: boolean, allow_cpu?: boolean}  allow_cpu: the CPU is -1, no error
   ---@return integer
   return function(device, options, ...)
      local o = type(options) == "table" and signature(options) or signature(options, ...)
      if device == nil and not o.optional then
         args.refuse(kind .. ".get_device_index", "device",
            ("a number from 0 or a device such as %q"):format(kind .. ":0"), device)
      end
      local known = torch._to_device(device)
      if o.allow_cpu and known and known.type == "cpu" then return -1 end
      return module._device_index(device, "get_device_index")
   end
end

-- Returns the default generator of each device.
local function default_generators_of(module)
   local list = {}
   for i = 1, module.device_count() do list[i] = module._default_generator(i - 1) end
   return list
end

-- Returns a function that loads its code from a module at the first call.
local function on_use(file, kind)
   local fn
   return function(...)
      fn = fn or require(file)(kind)
      return (function(...) return ... end)(fn(...))
   end
end

--- Returns a function that runs a training step, `fn(...)`. The first calls run fn normally, the
--- next one captures fn, and later ones replay the capture. Later calls' tensors are copied into
--- the captured step's, and results are overwritten at each call. Optimizers in the step need
--- `capturable = true`.
---@names cuda.capture_step sim.capture_step
---@param fn fun(...): any ...
---@param options? {warmup: integer, pool: integer}  the ordinary steps before the capture (3), and
--- the memory pool of another graph
---@return fun(...): any ...
local function capture_step_of(kind) return on_use("tlua.device.capture_step", kind) end

--- Captures the forward and the backward pass of modules or functions, and returns callables that
--- replay the passes among uncaptured operators. Inputs have the shapes, dtypes and requires_grad
--- of the samples.
---@names cuda.make_graphed_callables sim.make_graphed_callables
---@param callables function|nn.Module|table  one, or a list
---@param sample_args Tensor[]|Tensor[][]  the arguments of the one callable, or a list with the
--- arguments of each callable
---@param options? {num_warmup_iters: integer, allow_unused_input: boolean, pool: integer}
---@return function|function[]
local function graphed_callables_of(kind) return on_use("tlua.device.graphed_callables", kind) end

--- Returns the functions of torch.cuda or torch.sim that are written in Lua.
---@param kind string "cuda" or "sim"
---@return table
return function(kind)
   local module = torch[kind]
   local memory, summary = memory_of(module, kind), summary_of(module, kind)
   memory.memory_summary = summary
   local own = {
      set_sync_debug_mode = sync_debug_of(kind),
      get_sync_debug_mode = function() return torch._setting "sync_debug" end,
      graph = graph_of(module, kind), memory_summary = summary,
      amp = amp_of(kind), memory = memory, random = random_of(module),
      device_of = device_of_of(module, kind),
      get_arch_list = arch_list_of(module), get_device_index = device_index_of(module, kind),
      default_generators = default_generators_of(module),
      memory_snapshot = memory.memory_snapshot, memory_cached = memory.memory_cached,
      max_memory_cached = memory.max_memory_cached,
      memory_stats_as_nested_dict = memory.memory_stats_as_nested_dict,
      host_memory_stats_as_nested_dict = memory.host_memory_stats_as_nested_dict,
      reset_max_memory_allocated = memory.reset_max_memory_allocated,
      reset_max_memory_cached = memory.reset_max_memory_cached,
      get_allocator_backend = memory.get_allocator_backend,
      capture_step = capture_step_of(kind),
      make_graphed_callables = graphed_callables_of(kind),
   }
   checked.queries(own, kind .. ".", "get_sync_debug_mode get_arch_list")
   for name, make in pairs(require "tlua.functions.tensor_types".of(kind)) do own[name] = make end
   if kind == "cuda" then add_cuda(module, memory, own) end
   return own
end
