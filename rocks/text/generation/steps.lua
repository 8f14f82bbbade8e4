-- steps.lua - one step of generation. It calls the model with the new tokens, and updates the
-- cache, the padding mask and the positions.

local torch = require "tlua"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"
local caches = require "tlua.text.models.rounded_caches"
local masks = require "tlua.text.models.masks"

local Steps = class.class("text.generation.Steps")

-- Returns the padding mask (B, S), which is false at padding, or nil if there is no padding.
local function mask_of(ids, o, is_seq2seq)
   local mask = o.attention_mask
   if mask == nil and o.given_pad then
      local is_eos = false
      for _, token in ipairs(o.eos) do is_eos = is_eos or token == o.pad_token_id end
      if not is_eos then mask = ids:ne(o.pad_token_id) end
   end
   mask = masks.padding("generate", mask, ids:size(1), ids:size(2))
   if mask and not is_seq2seq and not mask:select(2, -1):all():item() then
      torch.raise "generate: attention_mask: expected padding on the left, got some on the right"
   end
   return mask
end

---@param model text.PreTrainedModel
---@param ids Tensor  (B, S): the prompt
---@param o table  the options
---@param copies integer  the number of sequences for each prompt
function Steps:__init(model, ids, o, copies)
   self.model, self.o, self.batch = model, o, ids:size(1) * copies
   -- `virtual` is the number of the virtual tokens of a learnt prompt. In the cache, they precede
   -- the tokens of ids.
   self.virtual = model.virtual_tokens or 0
   local function copied(x) return copies > 1 and x and x:repeat_interleave(copies, 1) or x end
   self.is_seq2seq = model.inputs == "seq2seq"
   local mask = mask_of(ids, o, self.is_seq2seq)
   if self.is_seq2seq then
      local encoded = model:encode(ids, mask)
      self.encoder_outputs, self.encoder_mask = copied(encoded), copied(mask)
      self.ids = o.decoder_input_ids and copied(o.decoder_input_ids)
         or torch.full({self.batch, 1}, o.decoder_start_token_id,
            {dtype = "int64", device = ids.device})
   else
      self.ids, self.mask = copied(ids), copied(mask)
      if mask then o.padding = self.mask:long():argmax(2) - 1 end
   end
   self.prompt = self.ids:size(2)
   if o.use_cache then self.cache = self:new_cache() end
end

-- Returns an empty cache of the kind that the option `cache` names.
function Steps:new_cache()
   if self.o.cache == "quantized" then return caches.kinds.q8_0() end
   return Cache(self.o.cache == "static" and self.virtual + self.prompt + self.o.max_new_tokens
      or nil)
end

--- Returns the scores (B, V) of the token that follows `ids`.
---@param ids Tensor  (B, S): all tokens so far
---@return Tensor
function Steps:scores(ids) return self:last_scores(ids, 1):select(2, -1) end

--- Returns the scores (B, count, V) of the tokens that follow each of the last `count` tokens of
--- `ids`. With `with_hidden`, it also returns the last layer's hidden states (B, new tokens, D).
---@param ids Tensor  (B, S): all tokens so far
---@param count integer
---@param with_hidden? boolean
---@return Tensor
---@return Tensor?
function Steps:last_scores(ids, count, with_hidden)
   local cache, mask = self.cache, self.mask
   local length, past = ids:size(2), math.max(0, cache and cache.length - self.virtual or 0)
   if mask and mask:size(2) < length then
      local more = torch.ones(mask:size(1), length - mask:size(2),
         {dtype = "bool", device = mask.device})
      mask = torch.cat({mask, more}, 2)
      self.mask = mask
   end
   local new = past > 0 and ids:narrow(2, past + 1, length - past) or ids
   local a = {past_key_values = cache, use_cache = cache ~= nil, logits_to_keep = count,
      output_hidden_states = with_hidden}
   if mask then
      a.attention_mask = mask
      a.position_ids = mask:long():cumsum(2):clamp {min = 1}:narrow(2, past + 1, length - past)
   end
   if self.is_seq2seq then
      a.encoder_outputs, a.attention_mask, a.decoder_input_ids = self.encoder_outputs,
         self.encoder_mask, new
   else
      a.input_ids = new
   end
   local results = self.model(a)
   local hidden = results.last_hidden_state
   if with_hidden and not hidden then hidden = results.hidden_states[#results.hidden_states] end
   return results.logits:narrow(2, -count, count):float(), hidden
end

--- Removes all tokens after the first `length` tokens from the cache.
---@param length integer
function Steps:crop(length)
   local cache, mask = self.cache, self.mask
   local all = self.virtual + length
   if cache and cache.length > all and not cache:crop(all) then
      self.cache = self:new_cache() -- the model then computes all tokens again
   end
   if mask and mask:size(2) > length then
      self.mask = mask:narrow(2, 1, math.max(length, self.prompt))
   end
end

-- Raises an error that says why scores are NaN: it names the first weight with a NaN or infinite
-- element, or else says that a layer overflows.
local function fail_nan(self)
   local where = "the model's weights are finite, so a layer overflows"
   for name, parameter in self.model:named_parameters() do
      if not parameter:isfinite():all():item() then
         where = ("the weight %s is not finite"):format(name)
         break
      end
   end
   torch.raise("generate: the scores of the next token are NaN: " .. where)
end

--- Returns the tokens (B) with the largest scores. Scores that are NaN are an error.
---@param scores Tensor  (B, V)
---@return Tensor
function Steps:best(scores)
   local values, tokens = scores:max(2)
   if values:isnan():any():item() then fail_nan(self) end
   return tokens
end

--- Replaces the rows of the batch in the cache by the rows with the given numbers, as beam search
--- does. If the number of rows changes, does the same with the encoder's output.
---@param rows Tensor
function Steps:reorder(rows)
   local function selected(x) return x and x:index_select(1, rows) end
   if self.cache then self.cache:reorder(rows) end
   self.mask = selected(self.mask)
   if rows:size(1) == self.batch then return end
   self.batch = rows:size(1)
   self.encoder_outputs, self.encoder_mask = selected(self.encoder_outputs),
      selected(self.encoder_mask)
end

return Steps
