-- drafts.lua - proposes the next tokens of a text for speculative decoding: the model computes all
-- proposed tokens in one step, and keeps only those that it accepts as its own.

local args = require "tlua.args"
local class = require "tlua.class"
local sampling = require "tlua.llm.sampling"

local M = {}

--- The options for drafts, with their defaults.
M.defaults = {num_pred_tokens = 8, max_ngram_size = 3}

-- Searches for an earlier occurrence of the text's last tokens, as Saxena's prompt lookup decoding
-- does. It searches for the last `longest` tokens first and then for fewer. Returns up to `most`
-- tokens that follow the last such occurrence.
local function look_up(tokens, most, longest)
   local n = #tokens
   for size = math.min(longest, n - 1), 1, -1 do
      for at = n - size, 1, -1 do
         local same = true
         for i = 0, size - 1 do
            if tokens[at + i] ~= tokens[n - size + 1 + i] then
               same = false
               break
            end
         end
         if same then
            local first = at + size
            return table.move(tokens, first, math.min(n, first + most - 1), 1, {}), {}
         end
      end
   end
   return {}, {}
end

-- Returns a function that proposes tokens by sampling from another, smaller model.
local function from_model(llm, o)
   local own = {}
   for name, value in pairs(o) do own[name] = value end
   own.grammar, own.logits_processor = nil, nil
   own.seed = o.seed and o.seed + 1
   local sampler, scheduler = sampling.sampler(own), llm:_scheduler(1)
   return function(tokens, most)
      local list, drawn_from = {}, {}
      if #tokens + most > llm.n_ctx then return list, drawn_from end
      local entry = scheduler:add(table.move(tokens, 1, #tokens, 1, {}), {
         sampler = {
            distribution = function(_, logits, history)
               drawn_from[#list + 1] = sampler:distribution(logits, history)
               return drawn_from[#list + 1]
            end,
            draw = function(_, distribution) return sampler:draw(distribution) end,
         },
         accept = function(token)
            list[#list + 1] = token
            return #list >= most and "length" or nil
         end,
      })
      while not entry.reason do scheduler:step() end
      if entry.error then error(entry.error, 0) end
      return list, drawn_from
   end
end

-- Maps a tokenizer to the tokenizer with which it was last compared and found to have the same
-- tokens.
local compared = setmetatable({}, {__mode = "kv"})

local function same_tokens(a, b)
   if a == b or compared[a] == b then return true end
   if #a.tokens ~= #b.tokens then return false end
   for i, token in ipairs(a.tokens) do
      if b.tokens[i] ~= token then return false end
   end
   compared[a] = b
   return true
end

--- Checks the options for drafts. Returns a function that proposes tokens, or nil if draft_model is
--- nil.
---@param title string
---@param o table  draft_model ("prompt_lookup" or an llm.Model), num_pred_tokens, max_ngram_size
---@param llm llm.Model  the model that verifies the draft
---@return fun(tokens: integer[], most: integer): integer[], table[]
function M.maker(title, o, llm)
   for name in pairs(M.defaults) do
      if math.type(o[name]) ~= "integer" or o[name] < 1 then
         args.refuse(title, name, "a positive integer", o[name])
      end
   end
   local other = o.draft_model
   if other == nil then return nil end
   local draft
   if other == "prompt_lookup" then
      function draft(tokens, most) return look_up(tokens, most, o.max_ngram_size) end
   elseif class.isinstance(other, require "tlua.llm.Model".Model) then
      if not same_tokens(other.tokenizer, llm.tokenizer) then
         args.refuse(title, "draft_model", "a model with the same tokens", other)
      end
      draft = from_model(other, o)
   else
      args.refuse(title, "draft_model", 'an llm.Model, or "prompt_lookup"', other)
   end
   return function(tokens, most)
      most = math.min(most, o.num_pred_tokens)
      if most < 1 then return {}, {} end
      return draft(tokens, most)
   end
end

return M
