-- wrong_arguments.lua OPERATORS SEED - calls every function of torch that is not an operator with wrong arguments.
-- Prints what is wrong with the error messages, and then the number of problems. The file OPERATORS lists the
-- operators. wrong_arguments_spec.lua runs this program.

local torch = require "tlua"
local lazy = require "tlua.lazy"

-- How often a function is called with random arguments, after calls with fixed arguments. The number is smaller with a
-- sanitizer.
local calls <const> = os.getenv "SPEC_SANITIZED" == "1" and 2 or 12
-- The limit is high, because the weights of nn.Transformer take 177 MB, and those of an earlier instance may not be
-- collected yet.
local memory_limit <const> = 512 << 20
-- The limit on the processor time of one call, in seconds, which is far more than any call needs.
local seconds <const> = 5
local seed <const> = math.tointeger(arg[2])

local operators = {}
for path in io.lines(arg[1]) do operators[path] = true end

-- Functions that this program does not call. Some wait for other processes, print, write into the user's folders, or
-- may only be called by derived classes. Others take the message of an error or its title as an argument.
local passed_over <const> = {
   ["torch.distributed.FileStore"] = true, ["torch.distributed.TCPStore"] = true,
   ["torch.distributed.device_mesh.group_of"] = true, ["torch.raise"] = true, ["torch.optim.Optimizer"] = true,
   ["torch.serve.run"] = true,
}

for name in ("display display_html display_image display_markdown display_svg install"):gmatch "%S+" do
   passed_over["torch.notebook." .. name] = true
end

-- All functions that build models read their arguments by the same function, so the spec calls only one of them.
for _, name in ipairs(torch.vision.models.list_models()) do
   if name ~= "squeezenet1_1" then
      for _, family in ipairs {"", "detection.", "optical_flow.", "segmentation.", "video."} do
         passed_over[("torch.vision.models.%s%s"):format(family, name)] = true
      end
   end
end

for name in ("wav2vec2_large wav2vec2_large_lv60k wav2vec2_xlsr_300m wav2vec2_xlsr_1b "
   .. "wav2vec2_xlsr_2b hubert_base hubert_large hubert_xlarge"):gmatch "%S+" do
   passed_over["torch.audio.models." .. name] = true
end

-- Functions that are aliases of other functions, or use the argument checks of others. A key is the last component of
-- the path, or a pattern for the whole path. Its value is the name in the function's messages.
local others <const> = {
   gradgradcheck = "gradcheck", all_gather_single = "all_gather_into_tensor",
   reduce_scatter_single = "reduce_scatter_tensor", async_save = "save", isend = "send", irecv = "recv",
   recv_object_list = "recv", memory_cached = "memory_reserved", max_memory_cached = "max_memory_reserved",
   reset_max_memory_cached = "reset_peak_memory_stats", reset_max_memory_allocated = "reset_peak_memory_stats",
   memory_summary = "memory_stats", memory_stats_as_nested_dict = "memory_stats", memory_snapshot = "device",
   host_memory_stats_as_nested_dict = "host_memory_stats", memory_allocated = "memory_stats",
   max_memory_allocated = "memory_stats", ImageFolder = "DatasetFolder", trace = "export",
   fractional_max_pool2d_with_indices = "fractional_max_pool2d",
   fractional_max_pool3d_with_indices = "fractional_max_pool3d", calculate_fan = "nn.init", csv_fields = "csv",
   HashStore = "store", get_state_dict = "get_model_state_dict", Mul = "empty", start = "nonsense",
   all_gather = "get_world_size", reduce_scatter = "get_world_size", kaiming_uniform = "uniform_",
   kaiming_uniform_ = "uniform_", parameters_to_vector = "cat", ParametrizationList = "", LayerNorm = "ones",
   RMSNorm = "ones", device_of = "device", Subset = "tensor", save_on_cpu = "saved_tensors_hooks", hint = "near",
   elastic_transform = "elastic", get_image_num_channels = "get_num_channels", is_pure_tensor = "is_tensor",
   find = "near", asarray = "as_tensor", from_numpy = "tensor", from_table = "tensor", frombuffer = "empty",
   sdp_kernel = "sdpa_kernel", is_dynamo_compiling = "is_compiling", identity_transform = "ComposeTransform",
   data_parallel = "DataParallel", set_anomaly_enabled = "set_detect_anomaly", set_states = "set_rng_state",
   MaskedTensor = "masked_tensor", PeftModel = "get_peft_model", ImageNet = "DatasetFolder", Image = "tensor",
   MFCC = "audio.transforms.", LFCC = "audio.transforms.", MelSpectrogram = "audio.transforms.",
   Video = "tensor", Mask = "tensor", BoundingBoxes = "tensor", KeyPoints = "tensor",
}

-- Values ------------------------------------------------------------------------------------------

local thread <const> = coroutine.create(print)

local function nonsense() return {thread, nonsense = thread, [3.5] = "x"} end

local function released()
   local x = torch.ones(2)
   x:release()
   return x
end

local first <const> = {
   {n = 0}, {n = 1, thread}, {n = 1, nonsense()}, {n = 2, thread, thread}, {n = 3, nonsense(), thread, nonsense()},
   {n = 1, {nonsense = thread}}, {n = 1, "nonsense"}, {n = 1, -1.5}, {n = 1, released()},
}

local makers <const> = {
   function() return nil end, function() return thread end, nonsense, released,
   function() return {} end, function() return {nonsense = thread} end,
   function() return "nonsense" end, function() return -1.5 end, function() return 0 / 0 end,
   function() return math.mininteger end, function() return false end, function() return io.stdin end,
   function() return function() error "called" end end, function() return torch.ones(2, 3) end,
}

local function random_arguments()
   local list = {n = math.random(0, 4)}
   for i = 1, list.n do list[i] = makers[math.random(#makers)]() end
   return list
end

-- Functions ---------------------------------------------------------------------------------------

local function sorted_names(t)
   local known, names = {}, {}
   for _, fields in ipairs {t, lazy.fields(t)} do
      for name in pairs(fields) do
         local public = type(name) == "string" and name:sub(1, 1) ~= "_"
         if public and not known[name] then names[#names + 1], known[name] = name, true end
      end
   end
   table.sort(names)
   return names
end

local function callable(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.__call ~= nil
end

-- Calls fn(path, value) for each function and class in a table and in the tables below it.
local function walk(path, t, fn, seen)
   if seen[t] then return end
   seen[t] = true
   for _, name in ipairs(sorted_names(t)) do
      local value, at = t[name], path .. "." .. name
      if type(value) == "function" or callable(value) then fn(at, value) end
      if type(value) == "table" and (not callable(value) or value == torch.Tensor) then walk(at, value, fn, seen) end
   end
end

local here <const> = "^" .. arg[0]:gsub("%p", "%%%0") .. ":%d+: (.*)"

-- Returns whether a message names the called function. A function written in C may be an operator under another name;
-- then the message must have the operator's name.
local function names(path, value, text)
   local name = path:match "[%w_]+$"
   local head = text:match "^([%w_.]+):"
   local in_c = type(value) == "function" and debug.getinfo(value, "S").what == "C"
   if in_c and head and operators["torch." .. head:gsub("_$", "")] then return true end
   return text:find(name:gsub("_$", ""), 1, true) or others[name] and text:find(others[name], 1, true) or
      path:find("prune", 1, true) and text:find("^prune")
end

local function has_released(list)
   for i = 1, list.n do
      if torch.is_tensor(list[i]) and not pcall(list[i].dim, list[i]) then return true end
   end
   return false
end

-- Returns a description of what is wrong with a function's error message, or nil. If the function calls an operator,
-- the operator may report a released tensor. Any function may report a missing process group.
local function fault(path, value, list, message)
   if type(message) ~= "string" then return "is no text" end
   local text = message:match(here)
   if not text then return "is not at the user's line" end
   if text:find("'?'", 1, true) then return "names nothing" end
   if text:find("attempt to", 1, true) then return "is Lua's own" end
   local said = text == "called" or text:find("there is no process group", 1, true) or
      has_released(list) and text:find("released", 1, true)
   if not said and not names(path, value, text) then return "does not name the function" end
end

local function close(value)
   local meta = type(value) ~= "string" and getmetatable(value)
   if type(meta) == "table" and meta.__close then pcall(meta.__close, value) end
end

local errors, told = 0, {}

local function call(path, value, list)
   local begin = os.clock()
   -- pcall calls the value directly. Otherwise the error could contain the name of a local variable in place of the
   -- function's name.
   local results = table.pack(pcall(value, table.unpack(list, 1, list.n)))
   local what
   if results[1] then
      for i = 2, results.n do close(results[i]) end
   else
      errors = errors + 1
      what = fault(path, value, list, results[2])
   end
   if os.clock() - begin > seconds then what = "takes long" end
   if torch.max_memory_allocated() > memory_limit then
      what = "takes memory"
      torch.reset_peak_memory_stats()
   end
   if what and not told[path .. what] then
      told[path .. what] = true
      print(("%s: %s: %s"):format(path, what, tostring(results[2])))
   end
end

walk("torch", torch, function(path, value)
   if operators[path] or passed_over[path] then return end
   -- This number depends only on the function's path, so the arguments of one function do not depend on other
   -- functions.
   local number = 0
   for i = 1, #path do number = number * 31 + path:byte(i) end
   math.randomseed(seed, number)
   for _, list in ipairs(first) do call(path, value, list) end
   for _ = 1, calls do call(path, value, random_arguments()) end
end, {[torch.Tensor] = true})
print("errors: " .. errors)
