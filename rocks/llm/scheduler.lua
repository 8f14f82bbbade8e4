-- scheduler.lua - computes several sequences of tokens in one batch. Sequences join and leave
-- between steps (continuous batching). A step computes one new token for each sequence that
-- generates, and fills the rest of its n_batch tokens with tokens of prompts.
--
-- A slot has a cache of keys and values, and the tokens to which they belong. The slot keeps them
-- after its sequence has ended, so that the next sequence with the same beginning can reuse them.

local torch = require "tlua"
local class = require "tlua.class"
local scopes = require "tlua.scope"
local Cache = require "tlua.text.models.cache"
local CacheBatch = require "tlua.text.models.cache_batch"

local Scheduler = class.class("llm.Scheduler")

---@param model text.PreTrainedModel
---@param settings {n_parallel: integer, n_batch: integer, device: any, new_cache: function?,
--- vocab: integer?, idle_bytes: integer?}  vocab: only tokens up to this number are generated;
--- idle_bytes: the largest size of the caches that are kept for later sequences
function Scheduler:__init(model, settings)
   self.model, self.n_batch, self.device = model, settings.n_batch, settings.device
   self.new_cache = settings.new_cache or Cache
   self.vocab, self.idle_bytes = settings.vocab, settings.idle_bytes or math.huge
   self.slots, self.open, self.waiting, self.clock = {}, {}, {}, 0
   -- The list begins with one slot. Further slots are created when they are needed.
   self.n_parallel = settings.n_parallel
   self:_add_slot()
end

-- Slots -----------------------------------------------------------------------------------------

function Scheduler:_add_slot()
   local slot = {cache = self.new_cache(), tokens = {}, used = 0}
   self.slots[#self.slots + 1] = slot
   return slot
end

local function empty(self, slot)
   slot.tokens = {}
   -- The slot's buffers are reused. If a layer with a sliding window has dropped keys, the cache
   -- cannot be cropped, and a new cache replaces it.
   if not slot.cache:crop(0) then slot.cache = self.new_cache() end
end

-- Crops a slot to its first `count` tokens. If its cache cannot be cropped, the slot is emptied.
-- The cache is cropped even if the slot has just `count` tokens, because a step that an error has
-- ended may have left further keys in some layers.
local function crop(self, slot, count)
   if count > 0 and slot.cache:crop(count) then
      for i = #slot.tokens, count + 1, -1 do slot.tokens[i] = nil end
   else
      empty(self, slot)
   end
end

local function common(a, b)
   local n = 0
   while n < #a and n < #b and a[n + 1] == b[n + 1] do n = n + 1 end
   return n
end

-- Returns the free slot whose tokens have the longest common beginning with `tokens`, so that as
-- few tokens as possible are computed. Of several such slots, the least recently used one is
-- returned. Returns nil if no slot is free.
local function choose(self, tokens)
   local best, most
   for _, slot in ipairs(self.slots) do
      if not slot.sequence then
         local n = common(slot.tokens, tokens)
         if not best or n > most or n == most and slot.used < best.used then
            best, most = slot, n
         end
      end
   end
   if #self.slots < self.n_parallel and (most or 0) == 0 then return self:_add_slot(), 0 end
   return best, most
end

--- Returns the number of tokens whose keys and values are cached in the first slot.
---@return integer
function Scheduler:cached() return #self.slots[1].tokens end

--- Empties the caches of all free slots, for example after the model has changed.
---@param all? boolean  also empties slots of active sequences, whose tokens are then computed again
function Scheduler:reset(all)
   for _, slot in ipairs(self.slots) do
      if all or not slot.sequence then empty(self, slot) end
   end
end

--- Returns the first slot. Raises an error if a sequence is using it.
---@return table
function Scheduler:free_slot()
   self:_recover()
   if self.slots[1].sequence then
      torch.raise "llm: the model's cache is in use by the text that is being generated"
   end
   return self.slots[1]
end

-- Sequences -------------------------------------------------------------------------------------

--- Adds a sequence, which waits until a slot is free.
---@param tokens integer[]  the prompt, which the scheduler extends by the new tokens
---@param hooks table  sampler: a sampler of sampling.lua; accept(token): is called for each new
--- token, and returns the reason if the sequence ends; draft(tokens, most), optional: returns up to
--- `most` tokens that may follow, and the distributions from which they were drawn (see
--- drafts.lua); owner, optional: a weak_list with the only coroutine that reads the text
---@return table sequence
function Scheduler:add(tokens, hooks)
   local sequence = {tokens = tokens, prompt = #tokens, cached = 0, hooks = hooks,
      drafted = 0, accepted = 0}
   self.waiting[#self.waiting + 1] = sequence
   return sequence
end

local function remove(list, value)
   for i, item in ipairs(list) do
      if item == value then
         table.remove(list, i)
         return
      end
   end
end

local function bytes_of(cache)
   local sum = 0
   for _, layer in ipairs(cache.layers) do
      for _, buffer in ipairs(layer.buffers) do
         sum = sum + buffer:numel() * buffer:element_size()
      end
   end
   return sum
end

-- Drops the caches of the least recently used free slots, until the caches of free slots have at
-- most idle_bytes.
local function drop_idle(self)
   while true do
      local total, oldest = 0, nil
      for _, slot in ipairs(self.slots) do
         if not slot.sequence and #slot.cache.layers > 0 then
            total = total + bytes_of(slot.cache)
            if not oldest or slot.used < oldest.used then oldest = slot end
         end
      end
      if total <= self.idle_bytes then return end
      oldest.cache, oldest.tokens = self.new_cache(), {}
   end
end

--- Ends a sequence and frees its slot.
---@param sequence table
---@param reason string
---@param problem? any  the error that has ended the sequence
function Scheduler:finish(sequence, reason, problem)
   if sequence.reason then return end
   sequence.reason, sequence.error = reason, problem
   remove(self.waiting, sequence)
   remove(self.open, sequence)
   if sequence.slot then
      self.clock = self.clock + 1
      sequence.slot.used, sequence.slot.sequence, sequence.slot = self.clock, nil, nil
      drop_idle(self)
   end
end

-- Keys and values are copied from another slot only if at least this many tokens are saved.
local worth_copying <const> = 16

-- Searches the slots in use for the slot whose tokens have the longest common beginning with
-- `tokens`. Returns this slot and the length of the common beginning. Returns false if a sequence
-- is still computing a longer common beginning; then it pays to wait.
local function find_source(self, tokens)
   local best, most = nil, 0
   for _, other in ipairs(self.open) do
      local n = common(other.slot.tokens, tokens)
      local later = common(other.tokens, tokens)
      if later >= n + worth_copying then return false end
      if n > most then best, most = other.slot, n end
   end
   return best, most
end

-- Prepares a free slot for a sequence: keeps the keys and values of the common beginning that the
-- slot has, or copies those of the slot `source` if they are many more. At least the sequence's
-- last token is left to compute, because its logits are needed.
local function prepare(self, slot, shared, source, copied, most)
   shared, copied = math.min(shared, most), math.min(copied, most)
   if source and copied >= shared + worth_copying then
      local cache = source.cache:copy(copied)
      if cache then
         slot.cache, slot.tokens = cache, table.move(source.tokens, 1, copied, 1, {})
         return
      end
   end
   crop(self, slot, shared)
end

-- Assigns free slots to waiting sequences, in the order in which they were added.
local function admit(self)
   local i = 1
   while i <= #self.waiting do
      local sequence = self.waiting[i]
      local slot, shared = choose(self, sequence.tokens)
      if not slot then return end
      local source, copied = find_source(self, sequence.tokens)
      if source == false then
         i = i + 1
      else
         prepare(self, slot, shared, source, copied, #sequence.tokens - 1)
         sequence.cached = #slot.tokens
         slot.sequence, sequence.slot = sequence, slot
         table.remove(self.waiting, i)
         self.open[#self.open + 1] = sequence
      end
   end
end

-- Steps -----------------------------------------------------------------------------------------

-- Calls a function for a sequence and returns its results. If it raises an error, only this
-- sequence ends, and the result is nil.
local function guard(self, sequence, fn, ...)
   local ok, a, b = pcall(fn, ...)
   if ok then return a, b end
   if type(a) == "string" and a:find("interrupted!", 1, true) then error(a, 0) end
   self:finish(sequence, "error", a)
end

-- Adds the next `count` tokens of a sequence to the parts of a step. If these include the last
-- token of the sequence so far, a draft of up to `most` further tokens may follow.
local function add_part(self, parts, sequence, count, most)
   local slot = sequence.slot
   local first = #slot.tokens + 1
   local part = {sequence = sequence, cache = slot.cache, first = first, draft = {},
      drawn_from = {}, tokens = table.move(sequence.tokens, first, first + count - 1, 1, {}),
      is_last = first + count - 1 == #sequence.tokens}
   if part.is_last and sequence.hooks.draft and most > 0 then
      part.draft, part.drawn_from = guard(self, sequence, sequence.hooks.draft, sequence.tokens,
         most)
      if sequence.reason then return 0 end
      table.move(part.draft, 1, #part.draft, count + 1, part.tokens)
   end
   parts[#parts + 1] = part
   return #part.tokens
end

-- Returns the parts that the next step computes, with at most n_batch tokens altogether. A part is
-- {sequence, cache, tokens, is_last, draft}. Sequences that are generating come first, and prompts
-- fill the rest.
local function plan(self)
   local parts, room = {}, self.n_batch
   for _, sequence in ipairs(self.open) do
      -- If an earlier step ended before the logits of the last token were read, this token is
      -- computed again.
      local slot = sequence.slot
      crop(self, slot, math.min(#slot.tokens, #sequence.tokens - 1))
   end
   for pass = 1, 2 do
      for _, sequence in ipairs(table.move(self.open, 1, #self.open, 1, {})) do
         local need = #sequence.tokens - #sequence.slot.tokens
         if room > 0 and (need == 1) == (pass == 1) then
            local count = math.min(need, room)
            room = room - add_part(self, parts, sequence, count, room - count)
         end
      end
   end
   return parts
end

-- Computes the parts of a step. For each part that reaches the end of its sequence, returns the
-- logits at its last position and at the positions of its draft.
local function compute(self, parts)
   local ids, rows = {}, {}
   for _, part in ipairs(parts) do
      part.count = #part.tokens
      table.move(part.tokens, 1, part.count, #ids + 1, ids)
      for i = part.is_last and #part.draft or -1, 0, -1 do rows[#rows + 1] = #ids - i end
   end
   local like = {dtype = "int64", device = self.device}
   local result = self.model {input_ids = torch.tensor({ids}, like),
      past_key_values = CacheBatch(parts),
      logits_to_keep = torch.tensor(#rows > 0 and rows or {#ids}, like)}
   for _, part in ipairs(parts) do
      local slot = part.sequence.slot
      table.move(part.tokens, 1, part.count, #slot.tokens + 1, slot.tokens)
   end
   local logits = result.logits[1]
   if self.vocab and self.vocab < logits:size(2) then logits = logits:narrow(2, 1, self.vocab) end
   return logits:to("cpu"):float()
end

-- Chooses the next tokens of a part's sequence: the tokens of the draft that are accepted, and one
-- more token. `logits` has a row for each position of the part. Returns the reason why the sequence
-- ends, or nil if it continues.
local function extend(part, logits)
   local sequence = part.sequence
   local tokens, sampler = sequence.tokens, sequence.hooks.sampler
   sequence.drafted = sequence.drafted + #part.draft
   for i = 1, #part.draft + 1 do
      local distribution, draft = sampler:distribution(logits[i], tokens), part.draft[i]
      local token, is_accepted
      if draft then
         token, is_accepted = sampler:verify(distribution, draft, part.drawn_from[i])
      else
         token = sampler:draw(distribution)
      end
      tokens[#tokens + 1] = token
      if is_accepted then sequence.accepted = sequence.accepted + 1 end
      local reason = sequence.hooks.accept(token)
      if reason or not is_accepted then return reason end
   end
end

-- Removes the rejected tokens of a draft from a slot: crops the slot to the tokens that its
-- sequence has too.
local function drop_draft(self, part, slot)
   if #part.draft > 0 then
      local last = part.first + #part.tokens - #part.draft - 1
      while last < #slot.tokens and slot.tokens[last + 1] == part.sequence.tokens[last + 1] do
         last = last + 1
      end
      crop(self, slot, last)
   end
end

--- Returns a list that contains the current coroutine as a weak reference, so that the list does
--- not keep the coroutine from being collected.
---@return table
function Scheduler.weak_list()
   return setmetatable({(coroutine.running())}, {__mode = "v"})
end

-- Returns whether the coroutine in `list`, a result of weak_list, will never continue because it
-- has ended or was collected.
local function is_gone(list)
   local function is_dead() return not list[1] or coroutine.status(list[1]) == "dead" end
   if not is_dead() and coroutine.status(list[1]) == "suspended" then collectgarbage() end
   return is_dead()
end

-- Returns a to-be-closed value that marks the scheduler as free when it is closed. The caller marks
-- the scheduler as busy only after it has this value. So an interruption between both statements
-- leaves the scheduler free.
local function ends_step(self)
   return scopes.new(function() self.running = nil end)
end

-- Cleans up if a user's function has yielded within a step and the coroutine was then abandoned.
-- Ends the coroutine's step, and the sequences that only this coroutine would have read.
function Scheduler:_recover()
   if not self.running or not is_gone(self.running) then return end
   self.running = nil
   for _, list in ipairs {self.open, self.waiting} do
      for i = #list, 1, -1 do
         local owner = list[i].hooks.owner
         if owner and is_gone(owner) then self:finish(list[i], "cancelled") end
      end
   end
end

--- Computes one step. Returns the number of sequences that have not ended. If the model itself
--- raises an error, the error is raised again, and all sequences stay as they were before the step.
---@return integer
function Scheduler:step()
   self:_recover()
   if self.running then
      torch.raise "llm: a function that is called during a step cannot compute another one"
   end
   local _ <close> = torch.no_grad()
   local _ <close> = ends_step(self)
   self.running = Scheduler.weak_list()
   admit(self)
   if #self.open == 0 then return 0 end
   local parts = plan(self)
   if #parts == 0 then return #self.open + #self.waiting end
   local logits, row = compute(self, parts), 0
   for _, part in ipairs(parts) do
      local count, slot = part.is_last and #part.draft + 1 or 0, part.sequence.slot
      if count > 0 then
         local own = logits:narrow(1, row + 1, count)
         local reason = guard(self, part.sequence, extend, part, own)
         drop_draft(self, part, slot)
         if reason then self:finish(part.sequence, reason) end
      end
      row = row + count
   end
   return #self.open + #self.waiting
end

--- Returns a cache that contains one token. Its buffers show the shapes and dtypes of the model's
--- caches.
---@return text.Cache
function Scheduler:sample_cache()
   local _ <close> = torch.no_grad()
   local cache = self.new_cache()
   self.model(torch.ones(1, 1, {dtype = "int64", device = self.device}),
      {past_key_values = cache, logits_to_keep = 1})
   return cache
end

--- Computes all tokens in the first slot, which must be free. Returns the logits (keep, V) of the
--- last `keep` positions as a float32 tensor on the CPU.
---@param tokens integer[]
---@param keep integer
---@return Tensor
function Scheduler:logits(tokens, keep)
   local slot, first, list = self:free_slot(), 1, {}
   empty(self, slot)
   while first <= #tokens do
      local last = math.min(#tokens, first + self.n_batch - 1)
      local ids = torch.tensor({table.move(tokens, first, last, 1, {})},
         {dtype = "int64", device = self.device})
      local wanted = math.max(1, last - math.max(first, #tokens - keep + 1) + 1)
      local result = self.model(ids, {past_key_values = slot.cache, logits_to_keep = wanted})
      if last > #tokens - keep then list[#list + 1] = result.logits[1]:to("cpu"):float() end
      table.move(tokens, first, last, first, slot.tokens)
      first = last + 1
   end
   return #list == 1 and list[1] or torch.cat(list, 1)
end

return Scheduler
