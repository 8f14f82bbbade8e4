-- init.lua - the Lua half of `torch`. The C half calls this chunk with the table that holds the
-- operators; it adds the modules written in Lua. Each is loaded when it is first used, so a program
-- does not wait for modules that it does not need.

local torch = ...
local lazy = require "tlua.lazy"

-- The values of `memory_format`.
for name in ("contiguous_format preserve_format channels_last channels_last_3d"):gmatch "%S+" do
   torch[name] = name
end

local function load_on_use(target, modules)
   for name in pairs(modules) do
      if rawget(target, name) ~= nil then modules[name] = nil end -- functions in C take precedence
   end
   lazy.load(target, modules)
end

load_on_use(torch, {
   nn = "tlua.nn",
   optim = "tlua.optim",
   amp = "tlua.amp",
   text = "tlua.text",
   data = "tlua.data",
   multiprocessing = "tlua.multiprocessing",
   func = "tlua.func",
   vmap = "tlua.func.vmap",
   utils = "tlua.utils",
   profiler = "tlua.profiler",
   memory_stats = "tlua.memory",
   memory_summary = "tlua.memory",
   memory_snapshot = "tlua.memory",
   record_memory_history = "tlua.memory",
   memory_allocated = "tlua.memory",
   max_memory_allocated = "tlua.memory",
   reset_peak_memory_stats = "tlua.memory",
   backends = "tlua.backends",
   set_float32_matmul_precision = "tlua.backends",
   get_float32_matmul_precision = "tlua.backends",
   use_deterministic_algorithms = "tlua.backends",
   are_deterministic_algorithms_enabled = "tlua.backends",
   is_deterministic_algorithms_warn_only_enabled = "tlua.backends",
   class = "tlua.class",
   isinstance = "tlua.class",
   type = "tlua.class",
   summary = "tlua.nn.summary",
   save = "tlua.io",
   load = "tlua.io",
   frombuffer = "tlua.functions.conversions",
   from_table = "tlua.functions.conversions",
   from_numpy = "tlua.functions.conversions",
   asarray = "tlua.functions.conversions",
   histogramdd = "tlua.functions.histogramdd",
   svd_lowrank = "tlua.functions.lowrank",
   pca_lowrank = "tlua.functions.lowrank",
   help = "tlua.repl.manual",
   has = "tlua.lazy",
   accelerator = "tlua.device.accelerator",
   testing = "tlua.testing",
   version = "tlua.version",
   compile = "tlua.compiler",
   compiler = "tlua.compiler",
   jit = "tlua.jit",
   library = "tlua.library",
   ops = "tlua.library",
   random = "tlua.random",
   vander = "tlua.functions.vander",
   cpu = "tlua.device.cpu",
   GradScaler = "tlua.amp.GradScaler",
   typename = "tlua.functions.queries",
   is_complex = "tlua.functions.queries",
   is_storage = "tlua.functions.queries",
   get_device_module = "tlua.functions.queries",
   get_num_interop_threads = "tlua.functions.queries",
   set_num_interop_threads = "tlua.functions.queries",
   is_anomaly_enabled = "tlua.functions.queries",
   set_flush_denormal = "tlua.functions.queries",
   set_default_tensor_type = "tlua.functions.queries",
})

-- Functions that PyTorch also has under other paths.
torch.set_anomaly_enabled = torch.autograd.set_detect_anomaly
for name in ("no_grad enable_grad inference_mode set_grad_enabled"):gmatch "%S+" do
   torch.autograd[name] = torch[name]
end

for name in ([[FloatTensor DoubleTensor HalfTensor BFloat16Tensor CharTensor ByteTensor ShortTensor
   IntTensor LongTensor BoolTensor]]):gmatch "%S+" do
   getmetatable(torch).lazy[name] = "tlua.functions.tensor_types"
end
for name in ("mps xpu"):gmatch "%S+" do
   getmetatable(torch).lazy[name] = "tlua.device.unavailable"
end

load_on_use(torch.autograd, {
   grad_mode = "tlua.autograd.paths",
   profiler = "tlua.autograd.paths",
   Variable = "tlua.autograd.paths",
   Function = "tlua.autograd.Function",
   forward_ad = "tlua.autograd.forward_ad",
   functional = "tlua.autograd.functional",
   gradcheck = "tlua.autograd.gradcheck",
   gradgradcheck = "tlua.autograd.gradcheck",
   graph = "tlua.autograd.graph",
})

load_on_use(torch.io, {as_dict = "tlua.io.kinds", as_list = "tlua.io.kinds"})

load_on_use(torch.distributed, require "tlua.distributed")
lazy.strict(torch.distributed, "torch.distributed", "tlua.distributed.unsupported")

for kind, own in pairs {cuda = " nvtx list_gpu_processes", sim = ""} do
   load_on_use(torch[kind], lazy.modules("tlua.device", {
      [kind] = [[graph memory_summary amp capture_step make_graphed_callables memory memory_snapshot
         memory_stats_as_nested_dict memory_cached max_memory_cached reset_max_memory_allocated
         reset_max_memory_cached get_allocator_backend device_of get_arch_list
         get_device_index default_generators random set_sync_debug_mode
         get_sync_debug_mode host_memory_stats_as_nested_dict
         FloatTensor DoubleTensor HalfTensor BFloat16Tensor CharTensor ByteTensor ShortTensor
         IntTensor LongTensor BoolTensor]] .. own,
   }))
end

lazy.strict(torch, "torch", "tlua.functions.unsupported")

-- Packages beside the core come before package.path, so that a checkout uses its own.
if package and type(package.searchers) == "table" then
   table.insert(package.searchers, 2, function(module)
      if module:find "^tlua%." then return require "tlua.packages".search(module) end
   end)
end

-- torch.Tensor holds the methods, constructs tensors, and is the class of tensors in
-- torch.isinstance.
local of_tensor = getmetatable(torch.Tensor)
of_tensor.holds = torch.is_tensor
function of_tensor.__call(_, ...) return require "tlua.functions.tensor_types".Tensor(...) end

return torch
