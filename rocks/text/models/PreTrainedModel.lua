-- PreTrainedModel.lua - the base class of all models. A derived class defines `build(config)`,
-- which creates the layers, and `compute(a)`, which returns a table of results. `a` is the table of
-- the arguments of `forward`, by name.
--
-- Token numbers, types, positions and labels count from 1.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"
local CacheBatch = require "tlua.text.models.cache_batch"
local configs = require "tlua.text.models.config"
local embeddings = require "tlua.text.models.embeddings"

local nn = torch.nn

--- The base class of all models of torch.text. `model(input_ids, {attention_mask =, labels =,
--- ...})` returns a table with Hugging Face's names: `logits`, `loss` if there are labels, and so
--- on.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     print(table.unpack(model(torch.tensor {{1, 2, 3}}).logits.shape))
---     --> 1	3	50257
---@class text.PreTrainedModel: nn.Module
---@field config table<string, any>  the fields of config.json, completed with the family's defaults
---@field family table<string, any>  the properties that all classes of a model_type share
local PreTrainedModel = class.class("text.PreTrainedModel", nn.Module)

-- The parameters of `forward`, for each value that the field `inputs` of a class may have.
local text = [[input_ids: tensor?, attention_mask: tensor?, token_type_ids: tensor?,
   position_ids: tensor?, inputs_embeds: tensor?, labels: tensor?, start_positions: tensor?,
   end_positions: tensor?, past_key_values: object?, use_cache: boolean?, logits_to_keep: any?,
   output_hidden_states: boolean = false]]
local kinds = {
   text = text,
   seq2seq = text .. [[, decoder_input_ids: tensor?, decoder_attention_mask: tensor?,
      encoder_outputs: tensor?]],
   image = "pixel_values: tensor, labels: tensor?, output_hidden_states: boolean = false",
   both = [[input_ids: tensor?, pixel_values: tensor?, attention_mask: tensor?,
      position_ids: tensor?, return_loss: boolean = false]],
}

-- The metatable that marks a table of checked arguments, which a model passes on to its parts.
local Inputs = {}

local readers = setmetatable({}, {__mode = "k"})

local function reader_of(self)
   local cls = getmetatable(self)
   if not readers[cls] then
      readers[cls] = args.signature(("%s(%s)"):format(cls.__name, kinds[self.inputs or "text"]))
   end
   return readers[cls]
end

local function check_ids(title, name, ids)
   if ids and (ids:dim() ~= 2 or ids:is_floating_point() or ids.dtype == "bool") then
      args.refuse(title, name, "token numbers of shape (batch, length)", ids)
   end
   if ids and ids:numel() == 0 then args.refuse(title, name, "at least one token", ids) end
end

local function check_keep(title, keep)
   local fits = keep == nil or math.type(keep) == "integer" and keep >= 0
      or torch.is_tensor(keep) and keep:dim() == 1 and keep.dtype == "int64"
   if not fits then
      args.refuse(title, "logits_to_keep", "a count, or positions of shape (N) in int64", keep)
   end
end

---@param config table<string, any>  fields of config.json
---@param options? table  for the class's build
function PreTrainedModel:__init(config, options)
   if not self.family then
      torch.raise "text.PreTrainedModel: expected a class of a family; see text.from_config"
   end
   local is_part = configs.is_complete(config)
   config = configs.complete(self.family, config)
   self.config = config
   self:build(config, options or {})
   if not is_part then
      self:init_weights()
      self:tie_weights()
   end
end

--- Computes the model's results.
---@param ... any  by position or by name: input_ids (B, S), attention_mask (B, S) with 0 for
--- padding, token_type_ids, position_ids, inputs_embeds, labels, start_positions and end_positions
--- (for question answering), past_key_values (a text.Cache), use_cache, logits_to_keep (the number
--- of last positions whose logits are computed, or a tensor (N) of positions from 1),
--- output_hidden_states. A model with an encoder and a decoder also takes decoder_input_ids,
--- decoder_attention_mask and encoder_outputs. A model of images takes pixel_values, labels and
--- output_hidden_states
---@return table<string, any>
function PreTrainedModel:forward(...)
   local a = ...
   if getmetatable(a) ~= Inputs then
      a = setmetatable(reader_of(self)(...), Inputs)
      local title = torch.type(self)
      check_ids(title, "input_ids", a.input_ids)
      check_ids(title, "decoder_input_ids", a.decoder_input_ids)
      check_keep(title, a.logits_to_keep)
      local cache = a.past_key_values
      if cache and not class.isinstance(cache, Cache)
            and not class.isinstance(cache, CacheBatch) then
         args.refuse(title, "past_key_values", "a text.Cache", cache)
      end
      local ids, kind = a.input_ids, self.inputs or "text"
      if kind == "text" and (ids == nil) == (a.inputs_embeds == nil) then
         torch.raise(title .. ": expected input_ids or inputs_embeds, got "
            .. (ids and "both" or "neither"))
      end
      if a.token_type_ids and not self.family.has_types then
         args.refuse(title, "token_type_ids", "nil, as the model has no types", a.token_type_ids)
      end
      if a.labels and self.is_base then
         args.refuse(title, "labels", "nil, as the model has no head", a.labels)
      end
      local labels = a.labels
      if labels and ids and labels:dim() == 2 and self.labels == "tokens"
            and (labels:size(1) ~= ids:size(1) or labels:size(2) ~= ids:size(2)) then
         args.refuse(title, "labels", ("a tensor of shape (%d, %d)"):format(ids:size(1),
            ids:size(2)), labels)
      end
   end
   return self:compute(a)
end

-- Returns a copy of the arguments `a` for a part of the model, with the fields in `changes`
-- replaced. A field that is false in `changes` is removed.
function PreTrainedModel._inputs_for(a, changes)
   local copy = {}
   for key, value in pairs(a) do copy[key] = value end
   for key, value in pairs(changes or {}) do copy[key] = value or nil end
   return setmetatable(copy, Inputs)
end

--- Fills the weights of linear layers and embeddings with normally distributed values with standard
--- deviation config.initializer_range, and biases with 0.
function PreTrainedModel:init_weights()
   local std = self.config.initializer_range
   torch.no_grad(function()
      for _, layer in ipairs(self:modules()) do
         local kind = torch.type(layer)
         if kind == "nn.Linear" or kind == "nn.Conv2d" or kind == "text.models.Conv1D"
               or kind == "nn.Embedding" then
            nn.init.normal_(layer.weight, 0, std)
            if rawget(layer, "bias") then layer.bias:zero_() end
            if kind == "nn.Embedding" and layer.padding_idx then
               layer.weight[layer.padding_idx] = 0
            end
         end
      end
   end)
end

--- Returns a list of pairs of paths, named as in PyTorch's state dicts. In each pair, the weight at
--- the first path shares its values with the weight at the second path. Classes with shared weights
--- override this method.
---@return {[1]: string, [2]: string}[]
function PreTrainedModel:tied_weights() return {} end

local function split(path)
   local parts = {}
   for part in path:gmatch "[^.]+" do
      local number = math.tointeger(tonumber(part))
      parts[#parts + 1] = number and tostring(number + 1) or part
   end
   local name = table.remove(parts)
   return table.concat(parts, "."), name
end

--- Replaces the first weight of each pair that `tied_weights` returns by the second weight.
function PreTrainedModel:tie_weights()
   for _, pair in ipairs(self:tied_weights()) do
      local to, name = split(pair[1])
      local from, source = split(pair[2])
      self:get_submodule(to)[name] = self:get_submodule(from)[source]
   end
end

-- Patterns of the names of buffers that older files contain in addition to the weights.
local buffers = {"%.position_ids$", "rotary_emb%.inv_freq$"}

-- Returns whether the tensor `name` of a file is ignored: the model has no weight of this name, and
-- a pattern of `buffers` or of the family's list `ignore` matches the name.
function PreTrainedModel:_skips(name, own)
   if own[name] ~= nil then return false end
   for _, list in ipairs {buffers, self.family.ignore or {}} do
      for _, pattern in ipairs(list) do
         if name:find(pattern) then return true end
      end
   end
   return false
end

--- Returns the number of elements of all parameters; shared parameters count once.
---@return integer
function PreTrainedModel:num_parameters()
   local n = 0
   for _, p in ipairs(self:parameters()) do n = n + p:numel() end
   return n
end

--- Returns the embedding of the tokens; nil for models of images.
---@return nn.Embedding?
function PreTrainedModel:get_input_embeddings() return embeddings.input_of(self) end

--- Returns the layer that computes the logits of the tokens; nil if the model has no such layer.
---@return nn.Linear?
function PreTrainedModel:get_output_embeddings() return embeddings.output_of(self) end

local take_resize = args.signature [[text.PreTrainedModel.resize_token_embeddings(
   new_num_tokens: integer, pad_to_multiple_of: integer?)]]

--- Changes the number of tokens, for example after special tokens were added to a tokenizer. Tokens
--- keep their embeddings and the weights of their logits. A new token gets the mean over the old
--- tokens. (Hugging Face's library adds noise of 1e-9 of the old tokens' covariance.) Replaced
--- parameters are new tensors, so an optimizer must be created afterwards.
---
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     local model = torch.text.from_config(config)
---     model:resize_token_embeddings(12)
---     print(model:get_input_embeddings())
---     --> Embedding(12, 4)
---@param new_num_tokens integer  the number of tokens, at least 1
---@param options? {pad_to_multiple_of: integer}  pad_to_multiple_of: rounds the number of tokens up
--- to a multiple of this integer, 1 by default
---@return nn.Embedding  the embedding of the tokens
function PreTrainedModel:resize_token_embeddings(...)
   local title, a = "text.PreTrainedModel.resize_token_embeddings", take_resize(...)
   local count, multiple = a.new_num_tokens, a.pad_to_multiple_of or 1
   if multiple < 1 then
      args.refuse(title, "pad_to_multiple_of", "an integer of at least 1", multiple)
   end
   return embeddings.resize(title, self, (count + multiple - 1) // multiple * multiple)
end

--- Generates tokens that continue `input_ids`. For a model with an encoder and a decoder, the
--- result has the decoder's tokens only. With the option return_scores, also returns the scores.
---@param input_ids Tensor  (B, S), with padding on the left, where attention_mask is 0
---@param options? table  the options of transformers' GenerationConfig, such as max_new_tokens,
--- do_sample, temperature, top_k, top_p, num_beams, repetition_penalty, eos_token_id and streamer;
--- the README of torch.text lists all of them. Missing options have the values in
--- generation_config.json and config.json
---@return Tensor  (B * num_return_sequences, S + new tokens)
function PreTrainedModel:generate(input_ids, options)
   return require "tlua.text.generation".generate(self, input_ids, options)
end

--- Writes config.json and model.safetensors, which `text.from_pretrained` and Hugging Face's
--- library can load. If the weights have more than max_shard_size bytes, they are split into
--- several files with an index.
---@param folder string  created if it does not exist
---@param options? {max_shard_size: integer}  max_shard_size: the largest number of bytes of a file
--- with weights; by default there is one file
function PreTrainedModel:save_pretrained(folder, options)
   require "tlua.text.models.loading".save(self, folder, options)
end

return PreTrainedModel
