-- prompts.lua - fine-tuning by virtual tokens that precede each text, with the names and file
-- formats of Hugging Face's PEFT. Prompt tuning (Lester et al., 2021) learns the embeddings of
-- these tokens. P-tuning (Liu et al., 2021) computes these embeddings with a small network. Prefix
-- tuning (Li and Liang, 2021) learns keys and values for each layer.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local files = require "tlua.text.peft.files"
local Cache = require "tlua.text.models.cache"
local PreTrainedModel = require "tlua.text.models.PreTrainedModel"

local nn = torch.nn

local M = {}

-- Configurations --------------------------------------------------------------------------------

-- The kinds of virtual tokens. Each has a table of the options that only this kind has, with their
-- defaults.
M.kinds = {
   PREFIX_TUNING = {prefix_projection = false},
   PROMPT_TUNING = {prompt_tuning_init = "RANDOM"},
   P_TUNING = {encoder_reparameterization_type = "MLP", encoder_num_layers = 2,
      encoder_dropout = 0.0},
}
local counts <const> = {
   num_virtual_tokens = true, token_dim = true, num_attention_heads = true, num_layers = true,
   encoder_hidden_size = true, encoder_num_layers = true,
}
local common <const> = {
   num_virtual_tokens = true, token_dim = true, num_attention_heads = true, num_layers = true,
   num_transformer_submodules = true, task_type = true, base_model_name_or_path = true,
   encoder_hidden_size = true, inference_mode = true, init_weights = true,
   prompt_tuning_init_text = true, tokenizer_name_or_path = true, tokenizer = true,
}

local function refuse_unless(fits, title, c, name, expected)
   if not fits then args.refuse(title, name, expected, c[name]) end
end

-- Sets the sizes that a configuration lacks to the model's sizes.
local function complete(c, config)
   local heads = config.num_attention_heads or config.n_head
   local width = config.hidden_size or config.n_embd
   c.num_layers = c.num_layers or config.num_hidden_layers or config.n_layer
   local groups = c.peft_type == "PREFIX_TUNING" and config.num_key_value_heads
   c.token_dim = c.token_dim or groups and groups * (config.head_dim or width // heads) or width
   c.num_attention_heads = c.num_attention_heads or groups or heads
   c.encoder_hidden_size = c.encoder_hidden_size or c.token_dim
end

-- Checks the options for a kind of virtual tokens, and returns them completed with defaults.
local function configuration(title, model, options)
   if not class.isinstance(model, PreTrainedModel) or not model.embed or model.virtual_tokens then
      args.refuse(title, "model", ("a decoder with a language model's head for %s"):format(
         options.peft_type), model)
   end
   local known, defaults = {}, {peft_type = options.peft_type, num_transformer_submodules = 1}
   for key in pairs(common) do known[key] = true end
   for key, value in pairs(M.kinds[options.peft_type]) do defaults[key] = value end
   local c = args.over_defaults(title, options, defaults, {}, known)
   complete(c, model.config)
   for name in pairs(counts) do
      refuse_unless(c[name] == nil or math.type(c[name]) == "integer" and c[name] > 0, title, c,
         name, "a positive integer")
   end
   refuse_unless(c.num_virtual_tokens, title, c, "num_virtual_tokens", "a positive integer")
   refuse_unless(c.num_transformer_submodules == 1, title, c, "num_transformer_submodules", "1")
   refuse_unless(c.task_type == nil or c.task_type == "CAUSAL_LM", title, c, "task_type",
      '"CAUSAL_LM"')
   refuse_unless(c.init_weights == nil or c.init_weights == "zero", title, c, "init_weights",
      '"zero" or nil')
   local kind, init = c.encoder_reparameterization_type, c.prompt_tuning_init
   refuse_unless(kind == nil or kind == "MLP" or kind == "LSTM", title, c,
      "encoder_reparameterization_type", '"MLP" or "LSTM"')
   refuse_unless(init == nil or init == "RANDOM" or init == "SAMPLE_VOCAB" or init == "TEXT",
      title, c, "prompt_tuning_init", '"RANDOM", "SAMPLE_VOCAB" or "TEXT"')
   return c
end

-- The encoder -----------------------------------------------------------------------------------

-- A module that computes the virtual tokens: their embeddings (n, D), or their keys and values in
-- all layers.
local Encoder = class.class("text.peft.PromptEncoder", nn.Module)

local function perceptron(...)
   local sizes, list = {...}, {}
   for i = 1, #sizes - 1 do
      if i > 1 then list[#list + 1] = nn.ReLU() end
      list[#list + 1] = nn.Linear(sizes[i], sizes[i + 1])
   end
   return nn.Sequential(table.unpack(list))
end

-- With `is_plain`, the virtual tokens are a parameter instead of the output of a network.
function Encoder:__init(c, is_plain)
   local n, size, hidden = c.num_virtual_tokens, c.token_dim, c.encoder_hidden_size
   local is_prefix = c.peft_type == "PREFIX_TUNING"
   local result = is_prefix and 2 * c.num_layers * size or size
   is_plain = is_plain or c.peft_type == "PROMPT_TUNING" or is_prefix and not c.prefix_projection
   self.embedding = nn.Embedding(n, is_plain and result or size)
   if is_plain then
      if c.init_weights == "zero" then nn.init.zeros_(self.embedding.weight) end
   elseif is_prefix then
      self.transform = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, result))
      if c.init_weights == "zero" then
         nn.init.zeros_(self.transform[3].weight)
         nn.init.zeros_(self.transform[3].bias)
      end
   elseif c.encoder_reparameterization_type == "LSTM" then
      self.lstm_head = nn.LSTM(size, hidden, {num_layers = c.encoder_num_layers,
         dropout = c.encoder_dropout, bidirectional = true, batch_first = true})
      self.mlp_head = perceptron(2 * hidden, 2 * hidden, size)
   else
      self.mlp_head = perceptron(size, hidden, hidden, size)
   end
end

function Encoder:forward()
   local x = self.embedding.weight
   if rawget(self, "transform") then return self.transform(x) end
   if rawget(self, "lstm_head") then x = self.lstm_head(x:unsqueeze(1)):squeeze(1) end
   return rawget(self, "mlp_head") and self.mlp_head(x) or x
end

-- Sets the embeddings of prompt tuning to the embeddings of random tokens or of the tokens of a
-- text.
local function start(title, c, model, encoder)
   local n, tokens = c.num_virtual_tokens, nil
   if c.prompt_tuning_init == "SAMPLE_VOCAB" then
      tokens = torch.randint(1, model.config.vocab_size + 1, {n})
   elseif c.prompt_tuning_init == "TEXT" then
      local text, tokenizer = c.prompt_tuning_init_text, c.tokenizer
      refuse_unless(type(text) == "string" and text ~= "", title, c, "prompt_tuning_init_text",
         "a text")
      if not tokenizer and type(c.tokenizer_name_or_path) == "string" then
         local why
         tokenizer, why = require "tlua.text.Tokenizer".from_pretrained(c.tokenizer_name_or_path)
         if not tokenizer then
            torch.raise(("%s: tokenizer_name_or_path: %s"):format(title, why))
         end
      end
      refuse_unless(tokenizer and tokenizer.encode, title, c, "tokenizer", "a tokenizer")
      local ids, list = tokenizer:encode(text).ids, {}
      for i = 1, n do list[i] = ids[(i - 1) % #ids + 1] end
      tokens = torch.tensor(list, {dtype = "int64"})
   end
   if tokens then
      torch.no_grad(function()
         local device = encoder.embedding.weight.device
         encoder.embedding.weight:copy_(model:embed(tokens:to(device):unsqueeze(1)):squeeze(1))
      end)
   end
end

-- The model -------------------------------------------------------------------------------------

-- A cache for a single call. It returns the keys and values of the prefix followed by those of the
-- call, and stores nothing, so that gradients reach the prefix.
local PrefixCache = class.class("text.peft.PrefixCache", Cache)

function PrefixCache:__init(length, pairs_of_layers)
   Cache.__init(self)
   self.length, self.prefix = length, pairs_of_layers
end

function PrefixCache:update(index, key, value, window)
   local k, v = table.unpack(self.prefix[index])
   k, v = torch.cat({k, key}, 3), torch.cat({v, value}, 3)
   local seen = self:key_length(key:size(3), window)
   return k:narrow(3, -seen, seen), v:narrow(3, -seen, seen)
end

function PrefixCache:advance() end -- luacheck: ignore

--- A language model that puts virtual tokens before each text. Only the virtual tokens are trained.
--- peft.get_peft_model and peft.from_pretrained return such models.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     local options = {peft_type = "PREFIX_TUNING", num_virtual_tokens = 3}
---     local tuned = torch.text.peft.get_peft_model(model, options)
---     print(#tuned:trainable_parameters())
---     --> 1
---@class text.PromptModel: text.PreTrainedModel
---@field base_model text.PreTrainedModel  the model, whose weights do not change
---@field prompt_encoder nn.Module  computes the virtual tokens
---@field peft_config table<string, any>  the fields of adapter_config.json
---@field virtual_tokens integer  the number of virtual tokens; 0 inside disable_adapter
local PromptModel = class.class("text.PromptModel", PreTrainedModel)
M.PromptModel, PromptModel.can_generate = PromptModel, true

---@param model text.PreTrainedModel
---@param options table
---@param is_plain? boolean  internal: the virtual tokens are loaded from a file
function PromptModel:__init(model, options, is_plain)
   local title = "text.peft.get_peft_model"
   local c = configuration(title, model, options)
   local encoder = Encoder(c, is_plain)
   local like = model:parameters()[1]
   encoder:to(like.device)
   if not is_plain then start(title, c, model, encoder) end
   c.tokenizer = nil
   for _, p in ipairs(model:parameters()) do p:requires_grad_(false) end
   self.base_model, self.prompt_encoder, self.peft_config = model, encoder, c
   self.virtual_tokens, self.dtype_of_prompts = c.num_virtual_tokens, like.dtype
   self.config, self.generation_config = model.config, model.generation_config
   self.family, self.labels, self.inputs = model.family, model.labels, model.inputs
end

-- Returns the prefix's keys and values (B, heads, n, D) for each layer.
local function prefix_of(self, batch)
   local c = self.peft_config
   local heads, layers = c.num_attention_heads, {}
   local all = self.prompt_encoder():to(self.dtype_of_prompts)
      :view(c.num_virtual_tokens, 2 * c.num_layers, heads, -1):permute(2, 3, 1, 4):unsqueeze(2)
   for i = 1, c.num_layers do
      local pair = {}
      for k = 1, 2 do
         local x = all[2 * i - 2 + k]
         pair[k] = x:expand(batch, x:size(2), x:size(3), x:size(4))
      end
      layers[i] = pair
   end
   return layers
end

-- Returns the size of the sliding window of a layer of the base model, or nil.
local function window_of(self, index)
   local kinds = self.base_model[self.family.prefix].kinds
   return kinds and kinds[index] == "sliding_attention" and self.config.sliding_window or nil
end

-- Returns a cache that contains the prefix. The prefix is added to `cache` if it is given;
-- otherwise the result is a PrefixCache for a single call.
local function prefix_cache(self, cache, batch)
   local layers, n = prefix_of(self, batch), self.virtual_tokens
   if not cache then return PrefixCache(n, layers) end
   for i, pair in ipairs(layers) do
      cache:update(i, pair[1]:contiguous(), pair[2]:contiguous(), window_of(self, i))
   end
   cache:advance(n)
   return cache
end

-- Returns x (B, S) with n columns of the constant `value` inserted before the first column.
local function preceded(x, n, value)
   return torch.cat({torch.full({x:size(1), n}, value, {dtype = x.dtype, device = x.device}), x}, 2)
end

function PromptModel:compute(a)
   local n = self.virtual_tokens
   if n == 0 then return self.base_model(self._inputs_for(a)) end
   local is_prefix = self.peft_config.peft_type == "PREFIX_TUNING"
   local changes = {token_type_ids = false, position_ids = false}
   if a.attention_mask then changes.attention_mask = preceded(a.attention_mask, n, 1) end
   if is_prefix and a.position_ids then changes.position_ids = a.position_ids + n end
   local cache = a.past_key_values
   if a.use_cache and not cache then cache = Cache() end
   changes.past_key_values = cache or false
   local is_first = not cache or cache.length == 0
   if is_first and is_prefix then
      changes.past_key_values = prefix_cache(self, cache, (a.input_ids or a.inputs_embeds):size(1))
   elseif is_first then
      local x = a.inputs_embeds or self.base_model:embed(a.input_ids)
      local prompts = self.prompt_encoder():to(x.dtype):unsqueeze(1)
      changes.input_ids = false
      changes.inputs_embeds = torch.cat({prompts:expand(x:size(1), n, x:size(3)), x}, 2)
      if a.labels then changes.labels = preceded(a.labels, n, -100) end
   end
   local results = self.base_model(self._inputs_for(a, changes))
   if not cache then results.past_key_values = nil end
   return results
end

--- Returns the parameters that are trained, for an optimizer.
---@return Tensor[]
function PromptModel:trainable_parameters()
   local list = {}
   for _, p in ipairs(self:parameters()) do
      if p.requires_grad then list[#list + 1] = p end
   end
   return list
end

--- Writes adapter_config.json and adapter_model.safetensors, as PEFT does. The second file contains
--- the virtual tokens, but not the network that has computed them.
---@param folder string  created if it does not exist
function PromptModel:save_pretrained(folder)
   local config = {}
   for key, value in pairs(self.peft_config) do config[key] = value end
   config.task_type = "CAUSAL_LM"
   local tokens = torch.no_grad(function() return self.prompt_encoder():detach():clone() end)
   files.save("text.PromptModel:save_pretrained", folder, config, {prompt_embeddings = tokens})
end

--- Returns the original model.
---@return text.PreTrainedModel
function PromptModel:unload() return self.base_model end

--- Calls fn without the virtual tokens, and returns fn's results.
---@param fn fun(): any
---@return any
function PromptModel:disable_adapter(fn)
   if not args.is_callable(fn) then
      args.refuse("text.PromptModel:disable_adapter", "fn", "a function", fn)
   end
   local before = self.virtual_tokens
   self.virtual_tokens = 0
   local results = table.pack(pcall(fn))
   self.virtual_tokens = before
   if not results[1] then error(results[2], 0) end
   return table.unpack(results, 2, results.n)
end

-- Loading ---------------------------------------------------------------------------------------

-- Unsupported fields of adapter_config.json. They are refused because they would change the
-- results.
local refused <const> = {"modules_to_save", "num_ranks", "prompt_tuning_init_state_dict_path"}

--- Adds the virtual tokens that a folder contains to a model, and returns the new model.
---@param title string
---@param model text.PreTrainedModel
---@param folder string
---@param given table  adapter_config.json
---@param is_trainable boolean
---@return text.PromptModel
function M.load(title, model, folder, given, is_trainable)
   local config = {peft_type = given.peft_type}
   for key, value in pairs(given) do
      if common[key] or M.kinds[given.peft_type][key] ~= nil then config[key] = value end
   end
   for _, key in ipairs(refused) do
      if given[key] ~= nil then
         torch.raise(("%s: %s/adapter_config.json: %s: expected null, got %s"):format(title, folder,
            key, args.describe(given[key])))
      end
   end
   local has_network = given.peft_type == "P_TUNING" or given.prefix_projection
   if is_trainable and has_network then
      torch.raise(("%s: is_trainable: %s has the virtual tokens, but not the network that computes "
         .. "them; expected false"):format(title, folder))
   end
   local saved = torch.load(folder .. "/adapter_model.safetensors").prompt_embeddings
   local c = configuration(title, model, config)
   local size = c.peft_type == "PREFIX_TUNING" and 2 * c.num_layers * c.token_dim or c.token_dim
   if not saved or saved:dim() ~= 2 or saved:size(1) ~= c.num_virtual_tokens
         or saved:size(2) ~= size then
      torch.raise(("%s: %s: prompt_embeddings: expected shape (%d, %d), got %s"):format(title,
         folder, c.num_virtual_tokens, size,
         saved and ("(%s)"):format(table.concat(saved.shape, ", ")) or "none"))
   end
   local tuned = PromptModel(model, config, true)
   local weight = tuned.prompt_encoder.embedding.weight
   torch.no_grad(function() weight:copy_(saved) end)
   if not is_trainable then
      weight:requires_grad_(false)
      tuned:eval()
   end
   return tuned
end

return M
