-- backends.lua - torch.backends and the functions that control the precision and the
-- reproducibility of kernels. The settings apply to the whole process. Most of them affect only
-- GPUs, whose tensor cores can compute float32 as TF32; the CPU computes in the dtype's own
-- precision and gives the same bits each time. use_deterministic_algorithms also affects the CPU.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local lazy = require "tlua.lazy"
local unavailable = require "tlua.device.unavailable"
local scopes = require "tlua.scope"

local M = {}

local function boolean(setting)
   return {
      get = function() return torch._setting(setting) ~= 0 end,
      set = function(value) torch._setting(setting, value and 1 or 0) end,
      expects = function(value) return type(value) == "boolean" end,
      expected = "true or false",
   }
end

-- Makes a table of settings: reading a field returns the setting, and assigning to the field
-- changes it. `functions` are further fields, which cannot be assigned.
local function settings(title, fields, functions)
   local names = {}
   for name in pairs(fields) do names[#names + 1] = name end
   table.sort(names)
   local known = {}
   for name in pairs(fields) do known[name] = true end
   for name in pairs(functions or {}) do known[name] = true end
   local function field_of(name)
      if fields[name] then return fields[name] end
      torch.raise(("%s has no setting '%s'; it has %s"):format(title, tostring(name),
         table.concat(names, ", ")))
   end
   return setmetatable({}, {
      names = known, -- the function torch.has reads this field
      __index = function(_, name)
         if functions and functions[name] then return functions[name] end
         return field_of(name).get()
      end,
      __newindex = function(_, name, value)
         local field = field_of(name)
         if not field.expects(value) then args.refuse(title, name, field.expected, value) end
         field.set(value)
      end,
      __pairs = function()
         local i = 0
         return function()
            i = i + 1
            if names[i] then return names[i], fields[names[i]].get() end
         end
      end,
   })
end

-- Makes a table whose fields are tables of settings. These fields themselves cannot be assigned.
local function group(title, members, example)
   return setmetatable({}, {
      __index = lazy.strict(members, "torch." .. title),
      __newindex = function(_, name)
         torch.raise(("%s.%s: cannot be set, but its fields can, such as %s")
            :format(title, tostring(name), example))
      end,
      __pairs = function() return pairs(members) end,
   })
end

local precisions <const> = {[0] = "highest", "high", "medium"}

--- Sets how GPUs multiply float32 matrices: "highest" (in float32, the default), "high" (TF32) or
--- "medium" (in bfloat16 on devices where that is faster, otherwise TF32).
---@param precision "highest"|"high"|"medium"
function M.set_float32_matmul_precision(precision)
   for value, name in pairs(precisions) do
      if name == precision then
         torch._setting("matmul_precision", value)
         return
      end
   end
   args.refuse("set_float32_matmul_precision", "precision", '"highest", "high" or "medium"',
      precision)
end

--- Returns the precision that set_float32_matmul_precision has set; "highest" at first.
---@return "highest"|"high"|"medium"
function M.get_float32_matmul_precision()
   return precisions[torch._setting "matmul_precision"]
end

local take_mode = args.signature [[use_deterministic_algorithms(mode: any,
   warn_only: boolean = false)]]

--- Allows only algorithms that give the same bits in each run. tlua's own kernels are all
--- deterministic. Some of cuDNN's are not, so in this mode its non-deterministic convolutions, its
--- batch norm, its average pooling and the backward pass of its attention are not used, even with
--- warn_only. On all devices, uninitialised memory is filled with NaN in this mode; see
--- torch.utils.deterministic.
---
--- The mode "portable" also makes operators on the CPU give the same bits on all processors of
--- x86-64 and with any number of threads. Sums have a fixed order, no product is fused with a
--- sum, and elementary functions are tlua's own. x86-64 processors all use the loops of
--- x86-64-v2, and wider vectors for matrix products alone, where the width does not change the
--- order. The bits of ten short trainings, layers, optimizers, random numbers and all operators
--- are recorded, and compared with 1, 3 and all threads (spec/portable). ARM was compared in an
--- emulator, before the last changes; 32-bit processors, Windows and other compilers follow the
--- same rules when tlua is built, but have not been compared.
---
--- Conditions and costs of the mode "portable":
--- * Factorizations of linear algebra (torch.linalg.solve, svd, eigh and others that call LAPACK),
---   elementary functions of complex numbers, and special.bessel_j0, j1, y0 and y1 raise an error.
--- * The bits of NaN may differ, and so may conversions of floats to integer dtypes that cannot
---   hold them. GPUs compute as without this mode.
--- * Operators other than matrix products use vectors of 16 bytes, and none uses a BLAS library.
---   On a processor with AVX-512, in one thread, training steps took longer than in the fast mode:
---   2.1 times as long for a convolutional network, 2.0 times for a transformer's layer, and 1.9
---   times for an LSTM (spec/bench/portable.lua).
--- * The mode holds for the whole process. No other thread may run operators while it changes.
--- * A library that was built for one instruction set (ISAS of make) may refuse this mode.
---@param mode boolean|"portable"
---@param options? {warn_only?: boolean}
function M.use_deterministic_algorithms(...)
   local a = take_mode(...)
   local portable = a.mode == "portable"
   if type(a.mode) ~= "boolean" and not portable then
      args.refuse("use_deterministic_algorithms", "mode", 'true, false or "portable"', a.mode)
   end
   torch._portable(portable)
   torch._setting("deterministic", not a.mode and 0 or a.warn_only and 1 or 2)
end

--- Returns whether use_deterministic_algorithms has been turned on.
---@return boolean
function M.are_deterministic_algorithms_enabled()
   return torch._setting "deterministic" ~= 0
end

--- Returns whether operators without a deterministic form only warn.
---@return boolean
function M.is_deterministic_algorithms_warn_only_enabled()
   return torch._setting "deterministic" == 1
end

checked.queries(M, "", [[get_float32_matmul_precision are_deterministic_algorithms_enabled
   is_deterministic_algorithms_warn_only_enabled]])

local cudnn = {
   enabled = boolean "cudnn_enabled",
   allow_tf32 = boolean "cudnn_tf32",
   benchmark = boolean "cudnn_benchmark",
   deterministic = boolean "cudnn_deterministic",
   benchmark_limit = {
      get = function() return torch._setting "cudnn_benchmark_limit" end,
      set = function(value) torch._setting("cudnn_benchmark_limit", value) end,
      expects = function(value) return math.type(value) == "integer" and value >= 0 end,
      expected = "an integer of at least 0 (0: all)",
   },
}

local matmul = {
   allow_tf32 = {
      get = function() return torch._setting "matmul_precision" > 0 end,
      set = function(value) torch._setting("matmul_precision", value and 1 or 0) end,
      expects = cudnn.enabled.expects,
      expected = cudnn.enabled.expected,
   },
   allow_fp16_reduced_precision_reduction = boolean "matmul_reduced_fp16",
   allow_bf16_reduced_precision_reduction = boolean "matmul_reduced_bf16",
}

-- The settings of the cache on disk, in which programs keep compiled kernels and measurements for
-- later programs.
local cache = {enabled = boolean "disk_cache"}

-- The settings of fusion: a graph turns each chain of elementwise operators that it captures into
-- one kernel. These operators count as elementwise: all operators that broadcast, copies between
-- dtypes, fills, dropout, swiglu, rotary_embedding, and the gradients of these and of activations.
local fusion = {enabled = boolean "fusion"}

-- Returns a function that returns a table of the counters whose names begin with a prefix, without
-- the prefix in the names.
local function counters(title, prefix)
   return checked.query(title, function()
      local counts = {}
      for name, count in pairs(torch.cuda._counters()) do
         if name:sub(1, #prefix) == prefix then counts[name:sub(#prefix + 1)] = count end
      end
      return counts
   end)
end

-- Returns the counters of fusion. A fused chain gives bitwise the same results as its single
-- operators if the run-time compiler has the same version as the compiler that built the operators'
-- kernels.
local counts_of_fusion = counters("backends.cuda.fusion.stats", "fusion.")
local function fusion_stats(...)
   local counts, compiler = counts_of_fusion(...), torch.cuda._library_version "nvrtc"
   counts.same_compiler = compiler and compiler == torch.cuda._library_version "cuda" or false
   return counts
end

-- Functions of PyTorch's torch.backends.cuda that enable an implementation of attention, such as
-- enable_flash_sdp(boolean), or return whether it is enabled, such as flash_sdp_enabled().
local of_cuda = {}
for name, backend in pairs {
   flash = "FLASH_ATTENTION", mem_efficient = "EFFICIENT_ATTENTION", math = "MATH",
   cudnn = "CUDNN_ATTENTION",
} do
   local title <const> = ("enable_%s_sdp"):format(name)
   of_cuda[title] = function(enabled)
      if type(enabled) ~= "boolean" then
         args.refuse("backends.cuda." .. title, "enabled", "true or false", enabled)
      end
      require "tlua.nn.attention".allow(backend, enabled)
   end
   of_cuda[name .. "_sdp_enabled"] = function()
      return require "tlua.nn.attention".is_allowed(backend)
   end
   checked.queries(of_cuda, "backends.cuda.", name .. "_sdp_enabled")
end

local take_kernels = args.signature [[backends.cuda.sdp_kernel(enable_flash: boolean = true,
   enable_math: boolean = true, enable_mem_efficient: boolean = true,
   enable_cudnn: boolean = true)]]

-- The deprecated name of nn.attention.sdpa_kernel.
function of_cuda.sdp_kernel(options, fn, ...)
   local a = take_kernels(options or {})
   local backends = {}
   for name, backend in pairs {
      enable_flash = "FLASH_ATTENTION", enable_math = "MATH",
      enable_mem_efficient = "EFFICIENT_ATTENTION", enable_cudnn = "CUDNN_ATTENTION",
   } do
      if a[name] then backends[#backends + 1] = backend end
   end
   return require "tlua.nn.attention".sdpa_kernel(backends, {}, fn, ...)
end

local take_flags = args.signature [[backends.cudnn.flags(enabled: boolean?, benchmark: boolean?,
   benchmark_limit: count?, deterministic: boolean?, allow_tf32: boolean?)]]

-- Sets cudnn's fields while fn runs with the remaining arguments, or until the returned scope is
-- closed. Fields that `options` lacks are unchanged.
local function cudnn_flags(options, fn, ...)
   local wanted, before = take_flags(options or {}), {}
   scopes.check_function("backends.cudnn.flags", fn)
   return scopes.run(function()
      for name, value in pairs(wanted) do
         before[name] = cudnn[name].get()
         cudnn[name].set(value)
      end
   end, function()
      for name, value in pairs(before) do cudnn[name].set(value) end
   end, fn, ...)
end

of_cuda.matmul = settings("backends.cuda.matmul", matmul)
of_cuda.fusion = settings("backends.cuda.fusion", fusion, {stats = fusion_stats})
of_cuda.stats = counters("backends.cuda.stats", "")

--- Settings of the libraries and kernels that GPUs use, as fields.
---
--- torch.backends.cuda.matmul, torch.backends.cuda.fusion, torch.backends.cudnn and
--- torch.backends.cache have settings as fields. cudnn.allow_tf32 applies to convolutions and
--- recurrent layers; with cudnn.deterministic, recurrent layers use tlua's own kernels. The cache
--- is a folder, which `tlua doctor` shows: $XDG_CACHE_HOME/tlua, or the value of TLUA_CACHE;
--- TLUA_CACHE=0 also turns the cache off. backends.cudnn.flags({enabled = false}, fn) sets cudnn's
--- fields while fn runs. backends.cuda.enable_math_sdp(boolean), math_sdp_enabled() and the same
--- functions for flash, mem_efficient and cudnn choose implementations of attention permanently,
--- while nn.attention.sdpa_kernel chooses them for a scope; backends.cuda.sdp_kernel{enable_math =
--- false} is a deprecated name of nn.attention.sdpa_kernel.
---
--- backends.cuda.stats() returns how often each path was taken on GPUs since the program's start.
--- "cudnn.convolution" counts the convolutions that cuDNN has computed, and "cudnn.convolution_own"
--- those that tlua's own kernels have computed because cuDNN could not. Attention, batch_norm and
--- rnn have such pairs as well. "fusion.kernels" counts the chains that became one kernel, and
--- "fusion.unfused" the chains that could not be compiled. "cublaslt.epilogues" counts the products
--- to which cuBLASLt itself has applied bias and activation, and "cublaslt.separate_epilogues"
--- those that needed another pass. "nccl.buffers" counts the tensors that NCCL accesses in place,
--- and "nccl.refused_buffers" those that it copies. backends.cudnn.stats() and
--- backends.cuda.fusion.stats() return the counters of cuDNN and of fusion. The latter also returns
--- same_compiler: whether NVRTC has the same version as the compiler of all other kernels; if not,
--- results may differ in their last bits.
---@names torch.backends
M.backends = group("backends", {
   cuda = group("backends.cuda", of_cuda, "backends.cuda.fusion.enabled"),
   cudnn = settings("backends.cudnn", cudnn, {
      flags = cudnn_flags, stats = counters("backends.cudnn.stats", "cudnn."),
   }),
   cache = settings("backends.cache", cache),
   mps = unavailable.mps,
}, "backends.cudnn.enabled")

return M
