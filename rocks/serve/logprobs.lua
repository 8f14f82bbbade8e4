-- logprobs.lua - formats the log probabilities of tokens in answers, in OpenAI's two forms, for
-- chats and for completions. The probabilities are the model's own, before temperature, penalties,
-- biases and grammars change them.

local json = require "tlua.utils.json"
local decoders = require "tlua.text.tokenizer.decoders"

local M = {}

-- JSON has no minus infinity. This number takes its place, as in OpenAI's server.
local least <const> = -9999.0

--- Describes a token of an answer or of a prompt.
---@param engine table
---@param token integer
---@param offset integer  the number of characters before the token
---@param own? number  the token's log probability; nil for the first token of a prompt
---@param ids? integer[]  the most probable tokens
---@param values? number[]  the log probabilities of these tokens
---@return table
function M.describe(engine, token, offset, own, ids, values)
   local function entry(id, value)
      local piece = engine.pieces:piece(id)
      return {token = decoders.repair(piece), logprob = value and math.max(value, least),
         bytes = json.as_array {piece:byte(1, -1)}}
   end
   local best = {}
   for i, id in ipairs(ids or {}) do best[i] = entry(id, values[i]) end
   local described = entry(token, own)
   described.top_logprobs, described.offset = json.as_array(best), offset
   return described
end

local forms = {}

-- Formats the descriptions of tokens as /v1/chat/completions returns them.
function forms.chat(list)
   local content = {}
   for i, item in ipairs(list) do
      content[i] = {token = item.token, logprob = item.logprob, bytes = item.bytes,
         top_logprobs = item.top_logprobs}
   end
   return {content = json.as_array(content), refusal = json.null}
end

-- Returns the log probabilities of the most probable tokens and of the token itself: {[token] =
-- logprob}.
local function best_of(item)
   if not item.logprob then return json.null end
   local best = {[item.token] = item.logprob}
   for _, other in ipairs(item.top_logprobs) do
      best[other.token] = math.max(other.logprob, best[other.token] or least)
   end
   return best
end

-- Formats the descriptions of tokens as /v1/completions returns them. The first token of a prompt
-- has no probability.
function forms.completion(list)
   local tokens, values, best, offsets = {}, {}, {}, {}
   for i, item in ipairs(list) do
      tokens[i], values[i], offsets[i] = item.token, item.logprob or json.null, item.offset
      best[i] = best_of(item)
   end
   return {tokens = json.as_array(tokens), token_logprobs = json.as_array(values),
      top_logprobs = json.as_array(best), text_offset = json.as_array(offsets)}
end

--- Returns the field `logprobs` of a choice in an answer.
---@param form string  "chat" or "completion"
---@param list table[]  the results of M.describe
---@return table
function M.format(form, list) return forms[form](list) end

return M
