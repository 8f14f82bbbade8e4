-- alignment.lua - the edit distance of two sequences, and the alignment of tokens with time steps.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local M = {}

local prefix <const> = "audio.functional."

local take_distance = args.signature(prefix .. [[edit_distance(seq1: string|names|tensor,
   seq2: string|names|tensor)]])

local function list_of(title, name, value)
   if type(value) == "string" then
      local list = {}
      if not utf8.len(value) then args.refuse(title, name, "a text in UTF-8", value) end
      for _, code in utf8.codes(value) do list[#list + 1] = code end
      return list
   end
   return torch.is_tensor(value) and value:tolist() or value
end

--- Returns the Levenshtein distance: the least number of insertions, deletions and substitutions
--- that turn one sequence into the other.
---
---     print(torch.audio.functional.edit_distance("kitten", "sitting"))
---     --> 3
---@param seq1 string|any[]|Tensor  a string, whose elements are its characters, or a list
---@param seq2 string|any[]|Tensor  the second sequence
---@return integer
function M.edit_distance(...)
   local title, a = prefix .. "edit_distance", take_distance(...)
   local one, two = list_of(title, "seq1", a.seq1), list_of(title, "seq2", a.seq2)
   local last = {}
   for j = 0, #two do last[j] = j end
   for i = 1, #one do
      local row = {[0] = i}
      for j = 1, #two do
         row[j] = one[i] == two[j] and last[j - 1]
            or 1 + math.min(last[j - 1], row[j - 1], last[j])
      end
      last = row
   end
   return last[#two]
end

-- Returns the best path of one example as a list of tokens, one for each step. The states are those
-- of CTC for n target tokens: they are numbered from 0 to 2 n, even states are blanks, and odd
-- states are the tokens.
local function best_path(title, probs, targets, blank)
   local steps, n = #probs, #targets
   local repeats = 0
   for i = 2, n do if targets[i] == targets[i - 1] then repeats = repeats + 1 end end
   if steps < n + repeats then
      torch.raise(("%s: log_probs: expected at least %d steps for %d tokens with %d repetitions, "
         .. "got %d"):format(title, n + repeats, n, repeats, steps))
   end
   local states = 2 * n + 1
   local function token(s) return s % 2 == 0 and blank or targets[(s + 1) // 2] end
   local none <const> = -math.huge
   local last, back = {}, {}
   for s = 0, states - 1 do last[s] = s <= 1 and probs[1][token(s)] or none end
   for t = 2, steps do
      local row, from = {}, {}
      -- A state can follow itself or the state before it. A token can also follow the token two
      -- states before, if the two tokens differ.
      for s = 0, states - 1 do
         local stay, step = last[s], s >= 1 and last[s - 1] or none
         local jump = s >= 2 and s % 2 == 1 and targets[(s + 1) // 2] ~= targets[(s - 1) // 2]
            and last[s - 2] or none
         local best, move = stay, 0
         if jump > step and jump > stay then
            best, move = jump, 2
         elseif step > stay and step > jump then
            best, move = step, 1
         end
         row[s], from[s] = best + probs[t][token(s)], move
      end
      last, back[t] = row, from
   end
   local s = states - 1
   if s > 0 and last[s] <= last[s - 1] then s = s - 1 end
   local path = {}
   for t = steps, 1, -1 do
      path[t] = token(s)
      if t > 1 then s = s - back[t][s] end
   end
   return path
end

local function lengths_of(title, name, value, rows, most)
   local list = {}
   if value == nil then
      for i = 1, rows do list[i] = most end
      return list
   end
   list = value:tolist()
   if value:dim() ~= 1 or #list ~= rows then
      args.refuse(title, name, ("a tensor of shape (%d)"):format(rows), value)
   end
   for _, n in ipairs(list) do
      if n < 0 or n > most then
         args.refuse(title, name, ("lengths from 0 to %d"):format(most), n)
      end
   end
   return list
end

local take_align = args.signature(prefix .. [[forced_align(log_probs: tensor, targets: tensor,
   input_lengths: tensor?, target_lengths: tensor?, blank: integer = 1)]])

--- Aligns tokens with time: returns the most probable CTC path that yields the target tokens.
---@param log_probs Tensor  (batch, time, tokens)
---@param targets Tensor  (batch, length), positions of tokens
---@param input_lengths? Tensor  (batch)
---@param target_lengths? Tensor  (batch)
---@param blank? integer
---@return Tensor paths  (batch, time), the token of each step; blank after the input's length
---@return Tensor scores  (batch, time), the log-probability of each step's token
function M.forced_align(...)
   local title, a = prefix .. "forced_align", take_align(...)
   local probs, targets = a.log_probs, a.targets
   checks.real(title, "log_probs", probs, 3, "(batch, time, tokens)")
   local rows, steps, tokens = probs:size(1), probs:size(2), probs:size(3)
   if targets:dim() ~= 2 or targets:size(1) ~= rows or targets:is_floating_point() then
      args.refuse(title, "targets", ("integers of shape (%d, length)"):format(rows), targets)
   end
   if a.blank < 1 or a.blank > tokens then
      args.refuse(title, "blank", ("a position from 1 to %d"):format(tokens), a.blank)
   end
   local input = lengths_of(title, "input_lengths", a.input_lengths, rows, steps)
   local output = lengths_of(title, "target_lengths", a.target_lengths, rows, targets:size(2))
   local all, wanted = probs:detach():cpu():double():tolist(), targets:tolist()
   local paths = {}
   for i = 1, rows do
      local list = table.move(wanted[i], 1, output[i], 1, {})
      for _, token in ipairs(list) do
         if token == a.blank or token < 1 or token > tokens then
            args.refuse(title, "targets", ("positions from 1 to %d without the blank, %d"):format(
               tokens, a.blank), token)
         end
      end
      paths[i] = best_path(title, table.move(all[i], 1, input[i], 1, {}), list, a.blank)
      for t = input[i] + 1, steps do paths[i][t] = a.blank end
   end
   local result = torch.tensor(paths, {dtype = "int64", device = probs.device}):view(rows, steps)
   return result, probs:gather(3, result:unsqueeze(3)):squeeze(3)
end

local take_merge = args.signature(prefix .. [[merge_tokens(tokens: tensor, scores: tensor,
   blank: integer = 1)]])

--- Returns the spans of equal tokens in a path from `forced_align`, without blanks. A span is a
--- table with `token`, the first step `start`, the last step `stop`, and `score`, the mean of the
--- scores of the steps.
---
---     local path = torch.tensor {1, 3, 3, 1, 2}
---     for _, span in ipairs(torch.audio.functional.merge_tokens(path,
---           torch.zeros(5))) do
---        print(span.token, span.start, span.stop, span.score)
---     end
---     --> 3	2	3	0.0
---     --> 2	5	5	0.0
---@param tokens Tensor  (time)
---@param scores Tensor
---@param blank? integer
---@return table[] spans
function M.merge_tokens(...)
   local title, a = prefix .. "merge_tokens", take_merge(...)
   if a.tokens:dim() ~= 1 then
      args.refuse(title, "tokens", "a tensor of shape (time)", a.tokens)
   end
   if a.scores:dim() ~= 1 or a.scores:size(1) ~= a.tokens:size(1) then
      args.refuse(title, "scores", ("a tensor of shape (%d)"):format(a.tokens:size(1)), a.scores)
   end
   local tokens, scores = a.tokens:tolist(), a.scores:tolist()
   local spans, first = {}, 1
   for t = 1, #tokens do
      if tokens[t + 1] ~= tokens[t] then
         if tokens[t] ~= a.blank then
            local sum = 0
            for i = first, t do sum = sum + scores[i] end
            spans[#spans + 1] = {token = tokens[t], start = first, stop = t,
               score = sum / (t - first + 1)}
         end
         first = t + 1
      end
   end
   return spans
end

return M
