-- seq2seq.lua - functions that T5 and BART share. They call the encoder and the decoder, make the
-- decoder's input tokens from labels, and cache the keys and values of the encoder's output.

local torch = require "tlua"
local args = require "tlua.args"
local Cache = require "tlua.text.models.cache"
local define = require "tlua.text.models.define"
local masks = require "tlua.text.models.masks"

local F = torch.nn.functional

local M = {}

-- Returns the decoder's input for labels: the start token, followed by all labels except the last.
local function shift_right(labels, config)
   local first = torch.full({labels:size(1), 1}, config.decoder_start_token_id + 1,
      {dtype = labels.dtype, device = labels.device})
   local shifted = torch.cat({first, labels:narrow(2, 1, labels:size(2) - 1)}, 2)
   return shifted:masked_fill(shifted:eq(-100), config.pad_token_id + 1)
end

-- Returns the keys and values that a layer computes from the encoder's output. They are taken from
-- the cache. If the cache does not have them, `make` computes them.
local function cross(cache, index, make)
   local found = cache and cache.cross[index]
   if found then return found[1], found[2] end
   local k, v = make()
   if cache then cache.cross[index] = {k, v} end
   return k, v
end

--- Returns the keys and values of an attention layer. If `encoded` is given, they are computed from
--- it, the encoder's output. Otherwise they are the keys and values in the cache, followed by those
--- of x.
---@param x Tensor
---@param cache? text.Cache
---@param index integer
---@param encoded? Tensor
---@param make fun(source: Tensor): Tensor, Tensor
---@return Tensor keys
---@return Tensor values
function M.keys_and_values(x, cache, index, encoded, make)
   if encoded then return cross(cache, index, function() return make(encoded) end) end
   local k, v = make(x)
   if cache then k, v = cache:update(index, k, v) end
   return k, v
end

--- Computes the results of a base model: calls the encoder, and then the decoder with the encoder's
--- output and the masks.
---@param model text.PreTrainedModel
---@param a table
---@return table results
function M.compute(model, a)
   local title, config = torch.type(model), model.config
   local ids = a.decoder_input_ids
   if not ids then
      if not a.labels then
         args.refuse(title, "decoder_input_ids", "the decoder's tokens, or labels", nil)
      end
      ids = shift_right(a.labels, config)
   end
   local source = a.encoder_outputs or a.inputs_embeds or a.input_ids
   if not source then args.refuse(title, "input_ids", "the encoder's tokens", nil) end
   local padding = masks.padding(title, a.attention_mask, source:size(1), source:size(2))
   local encoded = a.encoder_outputs or model.encoder(a, padding)
   local cache = a.past_key_values
   if a.use_cache and not cache then cache = Cache() end
   local past = cache and cache.length or 0
   local own = masks.padding(title, a.decoder_attention_mask, ids:size(1), past + ids:size(2))
   local mask, is_causal = masks.causal(ids:size(2), past + ids:size(2), own, nil, ids.device)
   local x = model.decoder(ids, {
      mask = mask, is_causal = is_causal, cache = cache, past = past, encoded = encoded,
      encoder_mask = masks.encoder(padding),
   })
   if cache then cache:advance(ids:size(2)) end
   return {last_hidden_state = x, past_key_values = cache, encoder_last_hidden_state = encoded}
end

--- Declares the family's class ForConditionalGeneration, which has a language model's head.
--- `scores(self, x)` returns the logits of the decoder's output x.
---@param family table
---@param build fun(self: table, config: table)
---@param base fun(self: table): text.PreTrainedModel  returns the module with encoder and decoder
---@param scores fun(self: table, x: Tensor): Tensor
---@return table
function M.conditional(family, build, base, scores)
   local cls = family:class "ForConditionalGeneration"
   cls.inputs, cls.can_generate, family.main = "seq2seq", true, cls.__name:match "[^.]+$"
   cls.build = build
   function cls:encode(ids, mask)
      return base(self).encoder({input_ids = ids}, mask)
   end
   function cls:compute(a)
      local results = M.compute(base(self), a)
      local x = define.kept(results.last_hidden_state, a.logits_to_keep)
      local logits, loss = scores(self, x), nil
      if a.labels then
         loss = F.cross_entropy(logits:flatten(1, 2), a.labels:flatten())
      end
      local own = define.with(results, {logits = logits, loss = loss})
      own.last_hidden_state = results.last_hidden_state
      own.encoder_last_hidden_state = results.encoder_last_hidden_state
      return own
   end
   return cls
end

return M
