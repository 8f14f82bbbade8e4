-- logprobs.lua - the logarithms of tokens' probabilities in answers, in OpenAI's two forms. They
-- are those of the model, before temperature, penalties, biases and grammars.

local json = require "tlua.utils.json"
local decoders = require "tlua.text.tokenizer.decoders"

local M = {}

-- JSON has no infinity; OpenAI's server returns this number for improbable tokens.
local least <const> = -9999.0

--- Describes a token that was generated.
---@param engine table
---@param sampler table
---@param token integer
---@param count integer  the number of the most probable tokens that are described, too
---@param offset integer  the number of characters before the token
---@return table
function M.describe(engine, sampler, token, count, offset)
   local function entry(id, value)
      local piece = engine.pieces:piece(id)
      return {token = decoders.repair(piece), logprob = math.max(value, least),
         bytes = json.as_array {piece:byte(1, -1)}}
   end
   local own, ids, values = sampler:log_probabilities(token, count)
   local best = {}
   for i, id in ipairs(ids) do best[i] = entry(id, values[i]) end
   local described = entry(token, own)
   described.top_logprobs, described.offset = json.as_array(best), offset
   return described
end

local forms = {}

-- The form of /v1/chat/completions.
function forms.chat(list)
   local content = {}
   for i, item in ipairs(list) do
      content[i] = {token = item.token, logprob = item.logprob, bytes = item.bytes,
         top_logprobs = item.top_logprobs}
   end
   return {content = json.as_array(content), refusal = json.null}
end

-- The form of /v1/completions.
function forms.completion(list)
   local tokens, values, best, offsets = {}, {}, {}, {}
   for i, item in ipairs(list) do
      tokens[i], values[i], offsets[i], best[i] = item.token, item.logprob, item.offset, {}
      for _, other in ipairs(item.top_logprobs) do
         best[i][other.token] = math.max(other.logprob, best[i][other.token] or least)
      end
      best[i][item.token] = math.max(item.logprob, best[i][item.token] or least)
   end
   return {tokens = json.as_array(tokens), token_logprobs = json.as_array(values),
      top_logprobs = json.as_array(best), text_offset = json.as_array(offsets)}
end

--- Returns the field `logprobs` of a choice.
---@param form string  "chat" or "completion"
---@param list table[]  those of describe
---@return table
function M.format(form, list) return forms[form](list) end

return M
