-- init.lua - the part of `torch` that is written in Lua. C code calls this chunk with the table of
-- the operators, and the chunk adds the modules written in Lua. Each module is loaded when it is
-- first used, so a program does not wait for modules that it does not need.

local torch = ...
local lazy = require "tlua.lazy"

--- A value of `memory_format`: the order in which a tensor's elements lie in memory.
---@names torch.contiguous_format torch.preserve_format torch.channels_last torch.channels_last_3d
for name in ("contiguous_format preserve_format channels_last channels_last_3d"):gmatch "%S+" do
   torch[name] = name
end

-- Sets functions of torch also under a second path that PyTorch has for them.
local autograd = torch.autograd
for name in ("no_grad enable_grad inference_mode set_grad_enabled"):gmatch "%S+" do
   autograd[name] = torch[name]
end
torch.set_anomaly_enabled = autograd.set_detect_anomaly

local old_tensors <const> = [[FloatTensor DoubleTensor HalfTensor BFloat16Tensor CharTensor
   ByteTensor ShortTensor IntTensor LongTensor BoolTensor]]

-- Maps modules in the folder lua/tlua to the fields of torch that they define.
lazy.load(torch, lazy.modules("tlua", {
   nn = "nn",
   optim = "optim",
   amp = "amp",
   text = "text",
   audio = "audio",
   onnx = "onnx",
   vision = "vision",
   trainer = "trainer",
   rl = "rl",
   serve = "serve",
   graphs = "graphs",
   notebook = "notebook",
   llm = "llm",
   hub = "hub",
   data = "data",
   multiprocessing = "multiprocessing",
   distributions = "distributions",
   func = "func",
   ["func.vmap"] = "vmap",
   utils = "utils",
   profiler = "profiler",
   memory = [[memory_stats memory_summary memory_snapshot record_memory_history memory_allocated
      max_memory_allocated reset_peak_memory_stats]],
   backends = [[backends set_float32_matmul_precision get_float32_matmul_precision
      use_deterministic_algorithms are_deterministic_algorithms_enabled
      is_deterministic_algorithms_warn_only_enabled]],
   class = "class isinstance type",
   names = "has",
   ["nn.summary"] = "summary",
   io = "save load",
   ["functions.conversions"] = "frombuffer from_table from_numpy asarray",
   ["functions.histogramdd"] = "histogramdd",
   ["functions.lowrank"] = "svd_lowrank pca_lowrank",
   ["functions.queries"] = [[typename is_complex is_inference get_device_module
      get_num_interop_threads set_num_interop_threads is_anomaly_enabled set_flush_denormal
      set_default_tensor_type]],
   ["functions.tensor_types"] = old_tensors,
   ["functions.storage"] = [[is_storage UntypedStorage TypedStorage FloatStorage DoubleStorage
      HalfStorage BFloat16Storage CharStorage ByteStorage ShortStorage IntStorage LongStorage
      BoolStorage]],
   ["amp.settings"] = [[get_autocast_cpu_dtype get_autocast_gpu_dtype set_autocast_cpu_dtype
      set_autocast_gpu_dtype is_autocast_cpu_enabled set_autocast_cpu_enabled]],
   ["functions.vander"] = "vander",
   ["functions.aten"] = "grid_sampler grid_sampler_2d grid_sampler_3d constant_pad_nd",
   ["ao.fake_quantize"] = [[fake_quantize_per_tensor_affine fake_quantize_per_channel_affine
      _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine]],
   ao = "ao",
   ["ao.quantized"] = "quantize_per_tensor quantize_per_channel dequantize",
   ["functions.narrow_products"] = "_int_mm _scaled_mm",
   ["functions.stft"] = "stft istft",
   ["functions.windows"] = [[bartlett_window blackman_window hamming_window hann_window
      kaiser_window]],
   signal = "signal",
   sparse = "sparse",
   masked = "masked",
   nested = "nested",
   ["functions.segment_reduce"] = "segment_reduce",
   ["sparse.make"] = [[sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor
      sparse_bsc_tensor sparse_compressed_tensor]],
   ["repl.manual"] = "help",
   testing = "testing",
   version = "version",
   compiler = "compile compiler",
   cond = "cond",
   while_loop = "while_loop",
   higher_order_ops = "_higher_order_ops",
   export = "export",
   export_step = "export_step",
   freeze = "freeze",
   fx = "fx",
   jit = "jit",
   library = "library ops",
   random = "random",
   ["device.accelerator"] = "accelerator",
   ["device.cpu"] = "cpu",
   ["device.unavailable"] = "mps xpu",
   ["amp.GradScaler"] = "GradScaler",
}))
lazy.entitle(torch, "torch", "tlua.functions.unsupported")

lazy.load(autograd, function()
   return lazy.modules("tlua.autograd", {
      paths = "grad_mode profiler Variable",
      Function = "Function",
      forward_ad = "forward_ad",
      functional = "functional",
      gradcheck = "gradcheck gradgradcheck",
      graph = "graph",
   })
end)

lazy.load(torch.io, function()
   return lazy.modules("tlua.io", {kinds = "as_dict as_list", image = "encode_jpeg encode_png"})
end)

lazy.load(torch.distributed, function()
   lazy.check("tlua.distributed", "torch.distributed")
   return require "tlua.distributed"
end)

for kind, own in pairs {cuda = " nvtx list_gpu_processes", sim = ""} do
   lazy.load(torch[kind], function()
      return lazy.modules("tlua.device", {
         [kind] = [[graph memory_summary amp capture_step make_graphed_callables memory
            memory_snapshot memory_stats_as_nested_dict memory_cached max_memory_cached
            reset_max_memory_allocated reset_max_memory_cached get_allocator_backend device_of
            get_arch_list get_device_index default_generators random set_sync_debug_mode
            get_sync_debug_mode host_memory_stats_as_nested_dict ]] .. old_tensors .. own,
      })
   end)
end

-- Gives titles to the tables that C code has made; a build with fewer operators lacks torch.fft. A
-- table that is loaded later gets its title when it is loaded.
for name in ("Tensor autograd cuda fft io linalg nn.functional sim special workers"):gmatch "%S+" do
   local made = rawget(torch, name)
   if made then lazy.entitle(made, "torch." .. name) end
end
lazy.entitle(torch.distributed, "torch.distributed", "tlua.distributed.unsupported")

-- packages beside the core are searched after the library's own files, and before package.path, so
-- that a checkout uses its own packages
if package and type(package.searchers) == "table" then
   table.insert(package.searchers, math.min(3, #package.searchers + 1), function(module)
      local ours = module:find "^tlua%." or module == "torch7"
      if ours then return require "tlua.packages".search(module) end
   end)
end

-- torch.Tensor is the table of the methods of tensors, a constructor of tensors, and the class of
-- tensors for torch.isinstance
local of_tensor = getmetatable(torch.Tensor)
of_tensor.holds = torch.is_tensor
for _, name in ipairs {"storage", "untyped_storage", "is_set_to", "dim_order"} do
   torch.Tensor[name] = function(...) return require "tlua.functions.storage"[name](...) end
end
for _, name in ipairs {"stft", "istft"} do
   torch.Tensor[name] = function(x, ...) return torch[name](x, ...) end
end
for name in ([[to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc
   to_dense]]):gmatch "%S+" do
   torch.Tensor[name] = function(...) return require "tlua.sparse.convert"[name](...) end
end
for name in ([[coalesce is_coalesced indices values crow_indices col_indices ccol_indices
   row_indices sparse_dim dense_dim _nnz _indices _values sparse_resize_
   sparse_resize_and_clear_]]):gmatch "%S+" do
   torch.Tensor[name] = function(...) return require "tlua.sparse.methods"[name](...) end
end
function torch.Tensor.sparse_mask(...) return require "tlua.sparse.changes".sparse_mask(...) end
function of_tensor.__call(_, ...) return require "tlua.functions.tensor_types".Tensor(...) end

return torch
