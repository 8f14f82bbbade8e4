-- Tests that functions without options refuse additional arguments. Without this check, an option that belongs to
-- another function would be ignored silently.

local torch = require "tlua"
local shell = require "spec.support.shell"
local sorted = require "spec.support.sorted"

local other <const> = {keepdim = true}

describe("an argument is refused by methods that take none", function()
   for _, name in ipairs {"dim", "ndimension", "numel", "nelement", "element_size",
                          "is_floating_point", "get_device", "is_complex", "storage_offset",
                          "data_ptr", "item", "tolist", "numpy", "iter", "detach_"} do
      it("such as " .. name, function()
         local x = torch.ones(1)
         assert.raises("expected no further argument, got table", function() x[name](x, other) end)
         x[name](x, nil)
      end)
   end
end)

describe("an argument is refused by functions of torch that take none", function()
   for _, name in ipairs {"is_grad_enabled", "is_inference_mode_enabled", "get_num_threads",
                          "get_default_dtype", "get_default_device", "initial_seed",
                          "is_autocast_cache_enabled", "clear_autocast_cache"} do
      it("such as " .. name, function()
         assert.raises(name .. ": expected no further argument, got table", function() torch[name](other) end)
         torch[name]()
      end)
   end
end)

describe("an argument is refused by queries of devices and settings that take fewer", function()
   for path, given in sorted {
      is_tensor = {1}, manual_seed = {1}, get_printoptions = {}, get_rng_state = {}, memory_trim = {},
      ["autograd.is_anomaly_enabled"] = {}, ["cuda.is_available"] = {}, ["cuda.device_count"] = {},
      ["cuda.is_initialized"] = {}, ["cuda.manual_seed"] = {1}, ["cuda.manual_seed_all"] = {1},
      ["cuda.seed_all"] = {}, ["cuda.get_rng_state_all"] = {}, ["sim.is_available"] = {}, ["sim.device_count"] = {},
   } do
      it("such as " .. path, function()
         local fn = torch
         for name in path:gmatch "[%w_]+" do fn = fn[name] end
         for _, more in ipairs {other, 1, false} do
            local list = table.move(given, 1, #given, 1, {})
            list[#list + 1] = more
            assert.raises(path .. ": expected no further argument, got ", function() fn(table.unpack(list)) end)
         end
         fn(table.unpack(given))
      end)
   end
end)

describe("an argument or an option is refused by queries in Lua", function()
   for _, path in ipairs {
      "cpu.is_available", "cpu.device_count", "cpu.current_device", "cpu.is_initialized", "accelerator.is_available",
      "accelerator.device_count", "accelerator.current_accelerator", "get_num_interop_threads", "is_anomaly_enabled",
      "get_float32_matmul_precision", "are_deterministic_algorithms_enabled",
      "is_deterministic_algorithms_warn_only_enabled", "backends.cuda.flash_sdp_enabled",
      "backends.cuda.mem_efficient_sdp_enabled", "backends.cuda.math_sdp_enabled", "backends.cuda.cudnn_sdp_enabled",
      "backends.cuda.stats", "backends.cuda.fusion.stats", "backends.cudnn.stats",
   } do
      it("such as " .. path, function()
         local fn = torch
         for name in path:gmatch "[%w_]+" do fn = fn[name] end
         assert.raises(path .. ": unknown option keepdim", function() fn(other) end)
         assert.raises(path .. ": expected at most 0 arguments, got 1", function() fn(1) end)
         fn()
      end)
   end
end)

-- Returns the public functions whose declarations have no parameters, including methods of tensors.
local function without_parameters()
   package.path = "src/docs/?.lua;" .. package.path
   local functions, methods = {}, {}
   for _, declared in ipairs(require "declarations".all(".", shell.build .. "/gen")) do
      local none = #(declared.params or {}) == 0
      for _, form in ipairs(declared.forms or {}) do none = none and #form.params == 0 end
      local method = declared.path:match "^torch%.Tensor%.([%w_]+)$"
      -- only the C code of the command calls these functions
      local is_internal = declared.path:find "^torch%.profiler%.script%."
      if none and declared.kind == "function" and not declared.is_value and not is_internal then
         local list = method and methods or functions
         list[#list + 1] = method or declared.path
      end
   end
   return functions, methods
end

-- Returns whether a message refuses the argument. A message about the function's own work does not count.
local function is_refusal(message)
   return message:find "unknown option nonsense; " or message:find "expected at most %d arguments?, got "
      or message:find "expected no further argument, got "
end

describe("a public function whose declaration has no parameter", function()
   local functions, methods = without_parameters()

   it("refuses an argument and an option", function()
      local accept = {}
      for _, path in ipairs(functions) do
         local fn = torch
         for name in path:gsub("^torch%.", ""):gmatch "[%w_]+" do fn = fn[name] end
         for _, given in ipairs {7, {nonsense = 1}} do
            local ok, message = pcall(fn, given)
            if ok or not is_refusal(tostring(message)) then
               accept[#accept + 1] = path .. ": " .. tostring(message)
            end
         end
      end
      assert.same({}, accept)
      assert.is_true(#functions >= 110)
   end)

   it("refuses them as a method of tensors", function()
      local accept = {}
      for _, name in ipairs(methods) do
         for _, given in ipairs {7, {nonsense = 1}} do
            local x = torch.ones(1)
            local ok, message = pcall(x[name], x, given)
            if ok or not is_refusal(tostring(message)) then
               accept[#accept + 1] = name .. ": " .. tostring(message)
            end
         end
      end
      assert.same({}, accept)
      assert.is_true(#methods >= 15)
   end)
end)

describe("a further argument or option is refused by functions with a device or a setting", function()
   for _, path in ipairs {
      "sim.memory_allocated", "sim.max_memory_allocated", "sim.memory_stats", "sim.mem_get_info",
      "sim.memory_stats_as_nested_dict", "sim.memory_summary", "sim.get_device_name", "sim.get_device_properties",
      "sim.get_device_capability", "sim.current_stream", "sim.default_stream", "sim.synchronize", "sim.set_device",
      "sim.get_rng_state", "sim.initial_seed", "sim.get_per_process_memory_fraction", "sim.stream_priority_range",
      "set_num_threads", "set_num_interop_threads", "set_autocast_cache_enabled", "set_autocast_cpu_enabled",
      "set_autocast_cpu_dtype", "optim.swa_utils.get_ema_avg_fn",
   } do
      it("such as " .. path, function()
         local fn = torch
         for name in path:gmatch "[%w_]+" do fn = fn[name] end
         local given = path:find "dtype" and "bfloat16" or path:find "enabled" and true or path:find "ema" and 0.5
            or path:find "threads" and torch.get_num_threads() or 0
         local asked <const> = {memory_stats_as_nested_dict = "memory_stats", memory_summary = "memory_stats"}
         local name = path:match "[%w_]+$"
         for _, more in ipairs {other, 1} do
            assert.raises(asked[name] or name, function() fn(given, more) end)
         end
      end)
   end
end)

describe("a further argument or option is refused by queries with an argument", function()
   local calls <const> = {
      ["is_storage: expected at most 1 arguments, got 2"] = function() torch.is_storage(1, 2) end,
      ["is_storage: unknown option keepdim; there are value"] =
         function() torch.is_storage(torch.ones(1):storage(), other) end,
      ["amp.is_autocast_available: unknown option keepdim; there are device_type"] =
         function() torch.amp.is_autocast_available("cpu", other) end,
      ["distributed.get_node_local_rank: unknown option keepdim; there are fallback_rank"] =
         function() torch.distributed.get_node_local_rank(0, other) end,
      ["set_memory_limit: expected no further argument, got table"] = function() torch.set_memory_limit(0, other) end,
      ["cpu.set_device: device: expected \"cpu\", got \"sim\""] = function() torch.cpu.set_device "sim" end,
      ["nn.Module.extra_repr: unknown option keepdim"] = function() torch.nn.Module():extra_repr(other) end,
   }
   for message, call in sorted(calls) do
      it("such as " .. message:match "[%w_.]+", function() assert.raises(message, call) end)
   end

   it("and is not needed", function()
      assert.is_true(torch.is_storage(torch.ones(1):storage()))
      assert.is_false(torch.is_storage(nil))
      assert.is_true(torch.amp.is_autocast_available "cpu")
      assert.equal(3, torch.distributed.get_node_local_rank {fallback_rank = 3})
      torch.set_memory_limit(0)
      torch.cpu.set_device()
      torch.cpu.set_device "cpu"
   end)
end)

it("softmax and its relatives need a dim: one that is missing or nil is an error, as in PyTorch", function()
   local F, x = torch.nn.functional, torch.ones(2, 3)
   for _, call in ipairs {
      function() return torch.softmax(x) end, function() return torch.softmax(x, nil) end,
      function() return x:softmax() end, function() return torch.log_softmax(x, nil) end,
      function() return F.softmax(x) end, function() return F.log_softmax(x) end,
      function() return F.softmin(x, nil) end,
   } do
      assert.raises("dim", "missing", call)
   end
   assert.close(torch.full({2, 3}, 0.5), F.softmax(x, 1))
   assert.close(torch.full({2, 3}, 1 / 3), F.softmax(x, {dim = -1}), 1e-6)
end)
