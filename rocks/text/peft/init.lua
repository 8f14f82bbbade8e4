-- init.lua - torch.text.peft: parameter-efficient fine-tuning with the names and file formats of
-- Hugging Face's PEFT. LoRA (Hu et al., 2021) adds the product of two small matrices to a linear
-- layer's weight. prompts.lua implements the tuning of virtual tokens.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local files = require "tlua.text.peft.files"
local modes = require "tlua.text.generation.modes"
local prompts = require "tlua.text.peft.prompts"
local suggest = require "tlua.utils.suggest"

local nn, F = torch.nn, torch.nn.functional

local M = {}

-- Layers ----------------------------------------------------------------------------------------

local function is_linear(layer)
   local kind = torch.type(layer)
   return kind == "nn.Linear" or kind == "text.models.Conv1D" or kind == "text.Linear4bit"
end

-- Returns the number of inputs of a linear layer, the number of outputs, and the options that
-- create tensors with the dtype and device of its weight.
local function sizes_of(layer)
   if torch.type(layer) == "text.Linear4bit" then
      return layer.in_features, layer.out_features,
         {device = layer.packed.device, dtype = layer.compute_dtype}
   end
   local weight = layer.weight
   local like = {device = weight.device, dtype = weight.dtype}
   if torch.type(layer) == "text.models.Conv1D" then return weight:size(1), weight:size(2), like end
   return weight:size(2), weight:size(1), like
end

-- A linear layer `base` with an adapter. It computes base(x) + B A dropout(x) * scaling, where only
-- the small matrices A and B are trained.
local Lora = class.class("text.peft.LoraLinear", nn.Module)

function Lora:__init(base, rank, scaling, dropout, init)
   local inputs, outputs, like = sizes_of(base)
   like.bias = false
   self.base_layer, self.scaling, self.p = base, scaling, dropout
   self.lora_A, self.lora_B = nn.Linear(inputs, rank, like), nn.Linear(rank, outputs, like)
   if init == "gaussian" then nn.init.normal_(self.lora_A.weight, 0, 1 / rank) end
   if init then nn.init.zeros_(self.lora_B.weight) end
end

function Lora:forward(x)
   local y = self.base_layer(x)
   if self.is_disabled then return y end
   return y + self.lora_B(self.lora_A(F.dropout(x, self.p, self.training))) * self.scaling
end

-- Returns the matrix that the adapter adds to the base layer's weight.
function Lora:delta()
   local delta = self.lora_B.weight:matmul(self.lora_A.weight) * self.scaling
   return torch.type(self.base_layer) == "text.models.Conv1D" and delta:t() or delta
end

-- Configurations --------------------------------------------------------------------------------

-- The names of the layers to which adapters are added by default, for each model_type.
local targets <const> = {
   gpt2 = {"c_attn"}, gpt_neox = {"query_key_value"}, phi3 = {"qkv_proj"}, t5 = {"q", "v"},
   distilbert = {"q_lin", "v_lin"}, deberta = {"in_proj"},
   ["deberta-v2"] = {"query_proj", "value_proj"},
}
for kind in ("bert roberta xlm-roberta electra albert vit"):gmatch "%S+" do
   targets[kind] = {"query", "value"}
end
for kind in ([[llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3_text olmo olmo2 bart clip
      siglip]]):gmatch "%S+" do
   targets[kind] = {"q_proj", "v_proj"}
end

local defaults = {
   r = 8, lora_alpha = 8, lora_dropout = 0.0, bias = "none", use_rslora = false,
   rank_pattern = {}, alpha_pattern = {}, fan_in_fan_out = false, inference_mode = false,
   use_dora = false, peft_type = "LORA",
}
-- Fields of PEFT's LoraConfig that are not supported. They are refused because they would change
-- the model's results.
local refused <const> = {
   "lora_bias", "use_qalora", "use_bdlora", "layer_replication", "alora_invocation_tokens",
   "target_parameters", "trainable_token_indices", "arrow_config", "kasa_config", "velora_config",
   "monteclora_config",
}

local others = {
   target_modules = true, exclude_modules = true, modules_to_save = true, task_type = true,
   layers_to_transform = true, layers_pattern = true, base_model_name_or_path = true,
   init_lora_weights = true,
}

local function is_names(value)
   if type(value) ~= "table" then return false end
   for _, name in ipairs(value) do
      if type(name) ~= "string" then return false end
   end
   return true
end

local function is_finite(value)
   return type(value) == "number" and value == value and math.abs(value) < math.huge
end

local function check(title, c)
   local function refuse_unless(fits, name, expected)
      if not fits then args.refuse(title, name, expected, c[name]) end
   end
   refuse_unless(c.peft_type == "LORA", "peft_type",
      '"LORA", "PREFIX_TUNING", "PROMPT_TUNING" or "P_TUNING"')
   refuse_unless(math.type(c.r) == "integer" and c.r > 0, "r", "a positive integer")
   refuse_unless(c.bias == "none", "bias", '"none"')
   refuse_unless(not c.use_dora, "use_dora", "false")
   local init = c.init_lora_weights
   refuse_unless(type(init) == "boolean" or init == "gaussian", "init_lora_weights",
      'true, false or "gaussian"')
   refuse_unless(is_finite(c.lora_alpha), "lora_alpha", "a finite number")
   refuse_unless(c.lora_dropout >= 0 and c.lora_dropout < 1, "lora_dropout",
      "a probability from 0 to below 1")
   local all = c.target_modules
   refuse_unless(is_names(all) or all == "all-linear", "target_modules",
      'a list of names or "all-linear"')
   for _, name in ipairs {"exclude_modules", "modules_to_save"} do
      refuse_unless(c[name] == nil or is_names(c[name]), name, "a list of names")
   end
   if type(c.layers_pattern) == "string" then c.layers_pattern = {c.layers_pattern} end
   local patterns = c.layers_pattern
   refuse_unless(patterns == nil or is_names(patterns)
      and not table.concat(patterns):find "[^%w_]", "layers_pattern", "names of lists of layers")
   refuse_unless(patterns == nil or #patterns == 0 or c.layers_to_transform ~= nil,
      "layers_pattern", "none without layers_to_transform")
   for _, name in ipairs {"rank_pattern", "alpha_pattern"} do
      for pattern, value in pairs(c[name]) do
         if tostring(pattern):find "[%^%$%*%+%?%(%)%[%]\\|]" then
            torch.raise(("%s: %s: expected ends of names, without patterns, got %q"):format(title,
               name, pattern))
         end
         local is_rank = name == "rank_pattern"
         local fits = is_finite(value) and (not is_rank or math.tointeger(value) and value > 0)
         if not fits then
            args.refuse(title, ("%s: %s"):format(name, pattern),
               is_rank and "a positive integer" or "a finite number", value)
         end
      end
   end
end

-- Returns whether a path is equal to `name`, or ends with a dot and `name`.
local function ends_with(path, name)
   return path == name or path:sub(-#name - 1) == "." .. name
end

local function is_among(path, names)
   for _, name in ipairs(names or {}) do
      if ends_with(path, name) then return true end
   end
   return false
end

-- Returns the value that c[name], a table from patterns to values, has for a path, or else
-- `default`. Raises an error if several patterns with different values match.
local function value_for(title, path, c, name, default)
   local found, by
   for pattern, value in pairs(c[name]) do
      if ends_with(path, pattern) then
         if by and value ~= found then
            torch.raise(("%s: %s: several names with different values fit %s"):format(title, name,
               path))
         end
         found, by = value, pattern
      end
   end
   return found or default
end

-- Returns the number of a layer, as PEFT does: the last number in its path, or, if there is a list
-- layers_pattern, the last number that follows one of the names in this list.
local function layer_number(path, patterns)
   if patterns == nil or #patterns == 0 then patterns = {"[^.]*"} end
   for _, name in ipairs(patterns) do
      local number = ("." .. path):match("^.*%." .. name .. "%.(%d+)%.")
      if number then return math.tointeger(tonumber(number)) end
   end
end

local function layer_fits(path, c)
   local wanted = c.layers_to_transform
   if wanted == nil then return true end
   local number = layer_number(path, c.layers_pattern)
   for _, index in ipairs(type(wanted) == "table" and wanted or {wanted}) do
      if index == number then return true end
   end
   return false
end

-- Returns a module's path as in PyTorch, where the modules of a list are counted from 0.
local function path_in_file(path)
   path = "." .. path
   local numbers = path:gsub("%.(%d+)%f[%.\0]", function(n)
      return "." .. math.tointeger(n) - 1
   end)
   return numbers:sub(2)
end

-- The model -------------------------------------------------------------------------------------

--- A model with adapters. Only the adapters are trained. get_peft_model and from_pretrained return
--- such models.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     local tuned = torch.text.peft.get_peft_model(model, {r = 2})
---     print(#tuned:trainable_parameters())
---     --> 24
---@class text.PeftModel: nn.Module
---@field base_model nn.Module  has the original model in its field `model`
---@field peft_config table<string, any>  the fields of adapter_config.json
local PeftModel = class.class("text.PeftModel", nn.Module)
M.PeftModel = PeftModel

local Holder = class.class("text.peft.LoraModel", nn.Module)

function Holder:__init(model) self.model = model end

function Holder:forward(...) return self.model(...) end

-- Replaces those layers of a model that the options `c` select by layers with adapters.
local function inject(title, model, c)
   local found, names = {}, {}
   for path, layer in model:named_modules() do
      local name = path_in_file(path)
      names[name:match "[^.]*$"] = true
      local is_target = c.target_modules == "all-linear" and is_linear(layer)
         and not path:find "^lm_head$" and not path:find "^embed_out$" and not path:find "^score$"
         or type(c.target_modules) == "table" and is_among(name, c.target_modules)
      if is_target and layer_fits(name, c) and not is_among(name, c.exclude_modules) then
         if not is_linear(layer) then
            torch.raise(("%s: target_modules: expected linear layers, got %s, an instance of %s")
               :format(title, name, torch.type(layer)))
         end
         found[#found + 1] = {path, name, layer}
      end
   end
   if #found == 0 then
      local first = type(c.target_modules) == "table" and c.target_modules[1] or "all-linear"
      torch.raise(("%s: target_modules: no linear layer of %s has a name such as %q%s"):format(
         title, torch.type(model), first, suggest.hint(first, names)))
   end
   -- All adapters are made before the first layer is replaced, so that an error leaves the model
   -- unchanged.
   local adapters = {}
   for i, item in ipairs(found) do
      local _, name, layer = table.unpack(item)
      local rank = value_for(title, name, c, "rank_pattern", c.r)
      local alpha = value_for(title, name, c, "alpha_pattern", c.lora_alpha)
      local scaling = alpha / (c.use_rslora and rank ^ 0.5 or rank)
      adapters[i] = Lora(layer, rank, scaling, c.lora_dropout, c.init_lora_weights)
   end
   for i, item in ipairs(found) do
      local above, field = item[1]:match "^(.*)%.([^.]*)$"
      model:get_submodule(above or "")[field or item[1]] = adapters[i]
   end
end

function PeftModel:__init(model, config)
   local title = "text.peft.get_peft_model"
   if not class.isinstance(model, nn.Module) then args.refuse(title, "model", "a model", model) end
   local c = args.over_defaults(title, config or {}, defaults, {}, others)
   if c.init_lora_weights == nil then c.init_lora_weights = true end
   local kind = rawget(model, "config") and model.config.model_type
   c.target_modules = c.target_modules or targets[kind]
   check(title, c)
   self.peft_config = c
   local saved, names = {}, {}
   for path, layer in model:named_modules() do
      if torch.type(layer) == "text.peft.LoraLinear" then
         args.refuse(title, "model", "a model without adapters", model)
      end
      names[path:match "[^.]*$"] = true
      if is_among(path_in_file(path), c.modules_to_save) then saved[#saved + 1] = layer end
   end
   if c.modules_to_save and #c.modules_to_save > 0 and #saved == 0 then
      local first = c.modules_to_save[1]
      torch.raise(("%s: modules_to_save: no layer of %s has a name such as %q%s"):format(title,
         torch.type(model), first, suggest.hint(first, names)))
   end
   local frozen = model:parameters()
   inject(title, model, c)
   for _, p in ipairs(frozen) do p:requires_grad_(false) end
   for _, layer in ipairs(saved) do
      for _, p in ipairs(layer:parameters()) do p:requires_grad_(true) end
   end
   self.base_model = Holder(model)
end

--- Calls the model.
---@param ... any
---@return table
function PeftModel:forward(...) return self.base_model(...) end

--- Continues texts with the model, as PreTrainedModel:generate does.
---@param input_ids Tensor  (B, S), with padding on the left
---@param options? table  the options of PreTrainedModel:generate
---@return Tensor  (B * num_return_sequences, S + new tokens)
function PeftModel:generate(input_ids, options)
   local model = self.base_model.model
   return modes.evaluating(self, model.generate, model, input_ids, options)
end

--- Returns the parameters that are trained, for an optimizer.
---@return Tensor[]
function PeftModel:trainable_parameters()
   local list = {}
   for _, p in ipairs(self:parameters()) do
      if p.requires_grad then list[#list + 1] = p end
   end
   return list
end

-- Returns a table of the adapter's tensors, with the names that they have in
-- adapter_model.safetensors.
local function adapter_state(self)
   local state = {}
   for key, tensor in pairs(self:state_dict {names = "pytorch"}) do
      local is_saved = false
      for _, name in ipairs(self.peft_config.modules_to_save or {}) do
         is_saved = is_saved or ("." .. key):find("." .. name .. ".", 1, true) ~= nil
      end
      if key:find "%.lora_[AB]%.weight$" or is_saved then state[key] = tensor end
   end
   return state
end

--- Writes adapter_config.json and adapter_model.safetensors, as PEFT does.
---@param folder string  created if it does not exist
function PeftModel:save_pretrained(folder)
   local config = {}
   for key, value in pairs(self.peft_config) do config[key] = value end
   for _, layer in ipairs(self:modules()) do
      if torch.type(layer) == "text.models.Conv1D" then config.fan_in_fan_out = true end
   end
   for _, name in ipairs {"rank_pattern", "alpha_pattern"} do
      if next(config[name]) == nil then config[name] = nil end
   end
   files.save("text.PeftModel:save_pretrained", folder, config, adapter_state(self))
end

-- Calls fn(owner, field, layer) for each layer with an adapter, where owner[field] is the layer.
local function each_adapter(self, fn)
   local list = {}
   for path, layer in self.base_model.model:named_modules() do
      if torch.type(layer) == "text.peft.LoraLinear" then list[#list + 1] = {path, layer} end
   end
   for _, item in ipairs(list) do
      local above, field = item[1]:match "^(.*)%.([^.]*)$"
      fn(self.base_model.model:get_submodule(above or ""), field or item[1], item[2])
   end
end

-- Adds an adapter to the weight of its base layer, and returns the base layer. A 4-bit weight is
-- unpacked first and stays unpacked, because rounding it again would lose the adapter's small
-- changes.
local function merged(layer)
   local base = layer.base_layer
   if torch.type(base) ~= "text.Linear4bit" then
      base.weight:add_(layer:delta())
      return base
   end
   local whole = nn.Linear(base.in_features, base.out_features, {bias = base.bias ~= nil,
      device = base.packed.device, dtype = base.compute_dtype})
   whole.weight:copy_(base:dequantize() + layer:delta())
   if base.bias then whole.bias:copy_(base.bias) end
   return whole
end

local function without_adapters(self, is_merged)
   torch.no_grad(function()
      each_adapter(self, function(owner, field, layer)
         owner[field] = is_merged and merged(layer) or layer.base_layer
      end)
   end)
   return self.base_model.model
end

--- Adds the adapters to the weights, and returns the model without adapters. Layers whose weight
--- has 4 bits per element are replaced by layers of the model's dtype.
---@return text.PreTrainedModel
function PeftModel:merge_and_unload() return without_adapters(self, true) end

--- Removes the adapters, and returns the original model.
---@return text.PreTrainedModel
function PeftModel:unload() return without_adapters(self, false) end

--- Calls fn with all adapters disabled, and returns fn's results.
---@param fn fun(): any
---@return any
function PeftModel:disable_adapter(fn)
   if not args.is_callable(fn) then
      args.refuse("text.PeftModel:disable_adapter", "fn", "a function", fn)
   end
   local before = {}
   each_adapter(self, function(_, _, layer)
      before[layer], layer.is_disabled = layer.is_disabled, true
   end)
   local results = table.pack(pcall(fn))
   each_adapter(self, function(_, _, layer) layer.is_disabled = before[layer] end)
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

--- Adds trainable adapters to a model, and freezes all other weights. The options are the fields of
--- PEFT's LoraConfig, which adds adapters to linear layers. With peft_type = "PREFIX_TUNING",
--- "PROMPT_TUNING" or "P_TUNING", the options are those of PEFT's configuration of this type, and
--- num_virtual_tokens virtual tokens precede each text; see text.PromptModel.
---
---     local config = {model_type = "llama", hidden_size = 8,
---        num_attention_heads = 2, num_hidden_layers = 1}
---     local model = torch.text.from_config(config)
---     local options = {r = 2, target_modules = {"q_proj", "k_proj"}}
---     local tuned = torch.text.peft.get_peft_model(model, options)
---     print(#tuned:trainable_parameters())
---     --> 4
---@param model text.PreTrainedModel
---@param options? {r: integer, lora_alpha: number, lora_dropout: number, target_modules:
--- string[]|string, exclude_modules: string[], modules_to_save: string[], rank_pattern:
--- table<string, integer>, alpha_pattern: table<string, number>, use_rslora: boolean,
--- layers_to_transform: integer|integer[], layers_pattern: string[], peft_type: string,
--- num_virtual_tokens: integer, prefix_projection: boolean, init_weights: string,
--- prompt_tuning_init: string, prompt_tuning_init_text: string, tokenizer_name_or_path: string,
--- tokenizer: text.Tokenizer, encoder_reparameterization_type: string, encoder_hidden_size:
--- integer, encoder_num_layers: integer, encoder_dropout: number}  target_modules: the last parts
--- of layers' paths, or "all-linear"; by default those of attention; layers_to_transform: layer
--- numbers as in files, from 0, which are the last number of a path, or the last one after a name
--- of layers_pattern; modules_to_save: layers whose own weights are trained and saved
---@return text.PeftModel|text.PromptModel
function M.get_peft_model(model, options)
   if type(options) == "table" and prompts.kinds[options.peft_type] then
      return prompts.PromptModel(model, options)
   end
   return PeftModel(model, options)
end

local fields = {}
for key in pairs(defaults) do fields[key] = true end
for key in pairs(others) do fields[key] = true end

--- Loads the adapters that PEFT or save_pretrained has written to a folder, and adds them to a
--- model. If the files do not fit the model, raises an error and leaves the model unchanged.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     local folder = os.tmpname()
---     os.remove(folder)
---     torch.text.peft.get_peft_model(model):save_pretrained(folder)
---     local other = torch.text.from_config(config)
---     local tuned = torch.text.peft.from_pretrained(other, folder)
---     print(torch.type(tuned))
---     --> text.PeftModel
---@param model text.PreTrainedModel
---@param folder string
---@param options? {is_trainable: boolean}  whether the adapters can be trained further; false by
--- default
---@return text.PeftModel|text.PromptModel
function M.from_pretrained(model, folder, options)
   local title = "text.peft.from_pretrained"
   if type(folder) ~= "string" then args.refuse(title, "folder", "a folder's path", folder) end
   args.check_options(title, options, "is_trainable")
   local is_trainable = options and options.is_trainable or false
   local given, config = configs.read_json(folder .. "/adapter_config.json", title), {}
   if prompts.kinds[given.peft_type] then
      return prompts.load(title, model, folder, given, is_trainable)
   end
   for key, value in pairs(given) do
      if fields[key] then config[key] = value end
   end
   for _, key in ipairs(refused) do
      if given[key] then
         torch.raise(("%s: %s/adapter_config.json: %s: expected null or false, got %s"):format(
            title, folder, key, args.describe(given[key])))
      end
   end
   local saved, trained = torch.load(folder .. "/adapter_model.safetensors"), {}
   for i, p in ipairs(class.isinstance(model, nn.Module) and model:parameters() or {}) do
      trained[i] = p.requires_grad
   end
   local tuned = PeftModel(model, config)
   local own = adapter_state(tuned)
   local faults = {}
   for key, tensor in pairs(own) do
      local value = saved[key]
      if value == nil then
         faults[#faults + 1] = "missing: " .. key
      elseif table.concat(value.shape, ", ") ~= table.concat(tensor.shape, ", ") then
         faults[#faults + 1] = ("%s: expected shape (%s), got (%s)"):format(key,
            table.concat(tensor.shape, ", "), table.concat(value.shape, ", "))
      end
   end
   for key in pairs(saved) do
      if own[key] == nil then faults[#faults + 1] = "unexpected: " .. key end
   end
   if #faults > 0 then
      table.sort(faults)
      tuned:unload()
      for i, p in ipairs(model:parameters()) do p:requires_grad_(trained[i]) end
      torch.raise(("%s: %s: %s"):format(title, folder, table.concat(faults, "; ")))
   end
   torch.no_grad(function()
      for key, tensor in pairs(own) do tensor:copy_(saved[key]) end
   end)
   if not is_trainable then
      for _, p in ipairs(tuned:parameters()) do p:requires_grad_(false) end
      tuned:eval()
   end
   return tuned
end

return M
