-- loading.lua - creates a model of torch.text from a GGUF file. Packed weights are views of the
-- memory-mapped file, so they are not read while the model is loaded.

local torch = require "tlua"
local class = require "tlua.class"
local gguf = require "tlua.io.gguf"
local source = require "tlua.io.source"
local architectures = require "tlua.llm.architectures"
local layers = require "tlua.llm.layers"

local nn = torch.nn

local M = {}

local function fail(...) return source.fail(...) end

-- Removes a small tensor from `by_name`, and returns its values. Returns nil if there is no such
-- tensor.
local function numbers(s, by_name, name)
   local info = by_name[name]
   if not info then return nil end
   by_name[name] = nil
   if #info.shape ~= 1 or info.shape[1] > 4096 then
      fail("tensor %q: expected one dimension of at most 4096", name)
   end
   return gguf.tensor(s, info):double():tolist()
end

-- Creates the model on the meta device, so that its weights take no memory before those of the file
-- replace them.
local function make_meta(config)
   local previous = torch.get_default_device()
   torch.set_default_device "meta"
   local ok, model = pcall(function()
      local made = torch.text.from_config(config)
      if config.experts then
         for _, layer in ipairs(made.model.layers) do
            layer.mlp = layers._Experts(config.experts)
         end
      end
      return made
   end)
   torch.set_default_device(previous)
   if not ok then fail("%s", tostring(model):gsub("^[^:]+:%d+: ", "")) end
   return model
end

-- Returns a weight's layout and its packed bytes. For a weight that is not packed, returns "F32"
-- and an ordinary two-dimensional tensor. With `a.dtype`, the weight is unpacked to this dtype on
-- `a.device`.
local function weight_of(s, info, a)
   local width, rows = info.shape[#info.shape], 1
   for i = 1, #info.shape - 1 do rows = rows * info.shape[i] end
   if a.dtype then
      return "F32", gguf.tensor(s, info):view(rows, width):to(a.dtype):to(a.device)
   end
   if info.layout then
      return info.layout, s:elements(info.first, {info.rows, info.row_bytes}, "uint8")
   end
   if info.dtype == "float16" or info.dtype == "bfloat16" then
      if info.first % 2 == 0 then fail("tensor %q begins at an odd byte", info.name) end
      return info.dtype == "float16" and "F16" or "BF16",
         s:elements(info.first, {rows, 2 * width}, "uint8")
   end
   return "F32", gguf.tensor(s, info):view(rows, width):float()
end

local function check_shape(info, expected)
   local same = #info.shape == #expected
   for i, n in ipairs(expected) do same = same and info.shape[i] == n end
   if not same then
      fail("tensor %q: expected the shape {%s}, got {%s}", info.name, table.concat(expected, ", "),
         table.concat(info.shape, ", "))
   end
end

-- Puts the tensors of one module into the model. A Linear or Embedding is replaced by a packed
-- layer of layers.lua.
local function place(s, model, path, entry, a, plus_one)
   local parent, name = path:match "^(.*)%.([^.]+)$"
   local ok, module = pcall(model.get_submodule, model, path)
   if not ok then fail("tensor %q: the model has no such part", entry.weight.name) end
   local weight = entry.weight
   if not weight then fail("tensor %q: there is no weight beside it", entry.bias.name) end
   if torch.type(module) == "llm.ExpertLinear" then
      check_shape(weight, {module.experts, module.outputs, module.features})
      if entry.bias then fail("tensor %q: experts have no biases", entry.bias.name) end
      return module:fill(weight_of(s, weight, a))
   end
   local own = module.weight
   -- A weight with a single output may have only one dimension in the file.
   local is_row = #weight.shape == 1 and own:dim() == 2 and own:size(1) == 1
   check_shape(weight, is_row and {own:size(2)} or own.shape)
   local bias
   if entry.bias then
      check_shape(entry.bias, {own:size(1)})
      bias = gguf.tensor(s, entry.bias):to(a.dtype or "float32"):to(a.device)
   end
   if class.isinstance(module, nn.Linear) or class.isinstance(module, nn.Embedding) then
      local holder = parent and model:get_submodule(parent) or model
      local layout, values = weight_of(s, weight, a)
      local is_linear = class.isinstance(module, nn.Linear)
      local made = is_linear and layers.Linear(layout, values, bias)
         or layers.Embedding(layout, values)
      made.features = own:size(2)
      holder[name or path] = made
      return
   end
   local values = gguf.tensor(s, weight):to "float32"
   if plus_one then values = values - 1 end
   module.weight = nn.Parameter(values:to(a.dtype or "float32"):to(a.device), false)
end

-- Groups the tensors by module. Returns a table {[path] = {weight = info, bias = info}}.
local function sort_tensors(own, by_name)
   local entries = {}
   for name, info in pairs(by_name) do
      local path, field = architectures.place(own, name)
      if not path then fail("tensor %q: this architecture has no such tensor", name) end
      entries[path] = entries[path] or {}
      entries[path][field] = info
   end
   return entries
end

-- Raises an error if the file does not have one of the model's parameters.
local function check_complete(model)
   for name, parameter in model:named_parameters() do
      if parameter.is_meta then fail("the file has no tensor for %s", name) end
   end
   for name, module in model:named_modules() do
      if torch.type(module) == "llm.ExpertLinear" and not module.layout then
         fail("the file has no tensor for %s", name)
      end
   end
end

--- Creates a model from a file's bytes.
---@param s io.Source
---@param infos table[]
---@param metadata table<string, any>
---@param a {device: any, dtype: string?}
---@return text.PreTrainedModel
function M.model(s, infos, metadata, a)
   local own, by_name = architectures.of(metadata), {}
   for _, info in ipairs(infos) do by_name[info.name] = info end
   local embedding = by_name["token_embd.weight"]
   if not embedding or #embedding.shape ~= 2 then
      fail 'tensor "token_embd.weight": expected a matrix'
   end
   local factors = {all = numbers(s, by_name, "rope_freqs.weight"),
      long = numbers(s, by_name, "rope_factors_long.weight"),
      short = numbers(s, by_name, "rope_factors_short.weight")}
   factors.long, factors.short = factors.long or factors.short, factors.short or factors.long
   local config = architectures.config(metadata, embedding.shape[1], factors)
   if config.num_hidden_layers > #infos then
      fail("%s.block_count: expected at most %d, the number of tensors, got %d",
         metadata["general.architecture"], #infos, config.num_hidden_layers)
   end
   local model = make_meta(config)
   local entries = sort_tensors(own, by_name)
   if not entries.lm_head then entries.lm_head = {weight = embedding} end
   for path, entry in pairs(entries) do
      place(s, model, path, entry, a, own.plus_one and path:find "norm" ~= nil)
   end
   check_complete(model)
   if own.interleaved then
      for _, layer in ipairs(model.model.layers) do layer.self_attn.interleaved = true end
   end
   return model:eval()
end

--- Adds an adapter's tensors to the layers. Returns the number of changed layers.
---@param llm llm.Model
---@param s io.Source
---@param infos table[]
---@param metadata table<string, any>
---@param scale number
---@return integer
function M.add_lora(llm, s, infos, metadata, scale)
   local own = architectures.of(metadata)
   if own ~= architectures.of(llm.metadata) then
      fail("general.architecture: expected %s, the model's, got %s",
         llm.metadata["general.architecture"], metadata["general.architecture"])
   end
   local alpha, pairs_of, list = metadata["adapter.lora.alpha"], {}, {}
   if metadata["general.type"] ~= "adapter" or type(alpha) ~= "number" then
      fail "expected a LoRA adapter, with general.type and adapter.lora.alpha"
   end
   if alpha ~= alpha or math.abs(alpha) == math.huge then
      fail("adapter.lora.alpha: expected a finite number, got %s", alpha)
   end
   if #infos == 0 then fail "the adapter has no tensors" end
   for _, info in ipairs(infos) do
      local name, part = info.name:match "^(.*)%.lora_([ab])$"
      local path, field = architectures.place(own, name or "")
      if not path or field ~= "weight" then
         fail("tensor %q: expected the parts of an adapter of a layer", info.name)
      end
      pairs_of[path] = pairs_of[path] or {}
      pairs_of[path][part] = info
   end
   for path, pair in pairs(pairs_of) do
      local ok, layer = pcall(llm.model.get_submodule, llm.model, path)
      if not ok or torch.type(layer) ~= "llm.Linear" then
         fail("%s: there is no such layer", path)
      end
      if not pair.a or not pair.b then fail("%s: expected lora_a and lora_b", path) end
      local rank, inputs = pair.a.shape[1], layer.features
      check_shape(pair.a, {rank or 1, inputs})
      check_shape(pair.b, {layer.weight:size(1), rank or 1})
      if rank == 0 then fail("tensor %q: expected at least one row", pair.a.name) end
      local like = layer.layout == "F32" and layer.weight.dtype or "float32"
      local function read(info) return gguf.tensor(s, info):to(like):to(layer.weight.device) end
      list[layer] = {a = read(pair.a), b = read(pair.b), scale = scale * alpha / rank}
   end
   local count = 0
   for layer, adapter in pairs(list) do
      layer.lora = rawget(layer, "lora") or {}
      table.insert(layer.lora, adapter)
      count = count + 1
   end
   return count
end

return M
